"""Damped mean residuals of groups, with the damping that predicts left-out owners best."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

__all__ = ["NO_EFFECT", "Effects", "Membership", "damped_effects", "fractions", "product"]

NO_EFFECT = 1e18  # damping of groups that predict nothing
DAMPINGS = (*np.geomspace(0.1, 1e6, 15).tolist(), NO_EFFECT)


class Membership(NamedTuple):
    """Groups of training rows: entry e says that row ``rows[e]`` is in ``groups[e]`` by `shares`.

    The shares of a row add up to 1, unless it is in no group.
    """

    rows: np.ndarray
    groups: np.ndarray
    shares: np.ndarray
    size: int

    @classmethod
    def one(cls, groups: np.ndarray, size: int) -> "Membership":
        """Each row is in one group."""
        return cls(np.arange(groups.size), groups.astype(np.int64), np.ones(groups.size), size)

    @classmethod
    def of(cls, table: sp.csr_matrix, at: np.ndarray) -> "Membership":
        """Row r is in the groups of row at[r] of a table of shares."""
        counts = np.diff(table.indptr)[at]
        ends = np.cumsum(counts)
        entries = np.repeat(table.indptr[at] - (ends - counts), counts) + np.arange(counts.sum())
        rows = np.repeat(np.arange(at.size), counts)
        groups = table.indices[entries].astype(np.int64)
        return cls(rows, groups, table.data[entries].astype(np.float64), table.shape[1])


class Effects(NamedTuple):
    """Effect of each group, and the damping of all."""

    values: np.ndarray
    damping: float

    def of_rows(self, groups: Membership, size: int) -> np.ndarray:
        """Return the effect of each of `size` rows: the mean of those of its groups."""
        parts = groups.shares * self.values[groups.groups]
        return np.bincount(groups.rows, parts, minlength=size)


def damped_effects(groups: Membership, residuals: np.ndarray, owners: np.ndarray) -> Effects:
    """Estimate the effect of each group: sum of its residuals / (rows + damping).

    The damping is that of `DAMPINGS` with the smallest squared error where the effects on a row are
    computed without all rows of its owner, so that it is right for new owners.
    """
    own = owners[groups.rows].astype(np.int64) * groups.size + groups.groups
    _, own = np.unique(own, return_inverse=True)
    given = groups.shares * residuals[groups.rows]
    sums = np.bincount(groups.groups, given, minlength=groups.size)
    counts = np.bincount(groups.groups, groups.shares, minlength=groups.size)
    other_sums = sums[groups.groups] - np.bincount(own, given)[own]
    # Rounding must not leave a tiny count where an owner has the whole group.
    other_counts = np.maximum(counts[groups.groups] - np.bincount(own, groups.shares)[own], 0)
    best, least = NO_EFFECT, np.inf
    for damping in DAMPINGS:
        parts = groups.shares * other_sums / (other_counts + damping)
        errors = residuals - np.bincount(groups.rows, parts, minlength=residuals.size)
        error = float(errors @ errors)
        if error < least:
            best, least = damping, error
    return Effects(sums / (counts + best), best)


def fractions(starts: np.ndarray, codes: np.ndarray, size: int) -> sp.csr_matrix:
    """Return the values of each row of a categorical column as fractions that add up to 1."""
    counts = np.diff(starts)
    shares = 1 / np.repeat(np.maximum(counts, 1), counts)
    return sp.csr_matrix((shares, codes, starts), (counts.size, size))


def product(one: Membership, other: Membership) -> Membership:
    """Return the pairs of groups of each row, pair (a, b) as group a * other.size + b."""
    rows = max(int(one.rows[-1]) if one.rows.size else 0, 0) + 1
    counts = np.bincount(other.rows, minlength=max(rows, other.rows.max(initial=0) + 1))
    ends = np.cumsum(counts)
    each = counts[one.rows]
    last = np.cumsum(each)
    first = np.repeat(np.arange(one.rows.size), each)
    second = np.repeat((ends - counts)[one.rows] - (last - each), each) + np.arange(each.sum())
    return Membership(
        one.rows[first],
        one.groups[first] * other.size + other.groups[second],
        one.shares[first] * other.shares[second],
        one.size * other.size,
    )
