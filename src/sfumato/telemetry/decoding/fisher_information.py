"""The Cramer-Rao bound: the least standard errors of counts that a design of reports allows.

The clients and their values are fixed; cohorts and noise are random. Let J be the information of
the reports about the counts c of values drawn anew: the mean of L L' / (L'c)**2 for full reports
with likelihoods L, and its projection on marks for counts. Then J c = 1, the covariance of the best
estimates is J^-1 for values drawn anew up to their sum, and of that diag(c) is the drawing: for
fixed clients J^-1 - diag(c) is left.

What the counts of cells tell of the counts of values: their information, for every kind. The
inverse of an information matrix, and which of its unknowns it does not tell at all. What full
reports tell of the counts of values: their expected information, marks together.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import linalg

from sfumato.core.ids import plain_numbers
from sfumato.core.validation import flag
from sfumato.telemetry.decoding.report_likelihood import (
    Likely,
    Marks,
    chances_of,
    left_over,
    marked_cells,
    odds_of,
)
from sfumato.telemetry.schemes.base import Scheme

__all__ = [
    "MOST_TOGETHER",
    "count_information",
    "cramer_rao",
    "fixed_variance",
    "information",
    "inverted",
    "report_information",
]

_DENSE = 2048  # cells; of more, only those that a candidate uses are looked at


def count_information(
    scheme: Scheme, members: np.ndarray, counts: np.ndarray, *, diagonal: bool = False
) -> np.ndarray:
    """J = sum over cohorts of E[b | v]' E[b b']^-1 E[b | w] / m, for values v and w.

    b are the marks of one report and, for kind "bits", a constant 1, whose sum is the reports of
    the cohort. E[b b'] is summed over all clients. Only the diagonal where that is asked for.
    Parameters: members (M, m, s); counts (M + 1,), the last that of values without a set of their
    own, whose set is random.
    """
    size = len(counts)
    out = np.zeros(size if diagonal else (size, size))
    for expected, second in _moments(scheme, members, counts):
        root = linalg.cholesky(second, lower=True, check_finite=False)
        half = linalg.solve_triangular(root, expected, lower=True, check_finite=False)
        out += (half**2).sum(axis=0) if diagonal else half.T @ half
    return out / scheme.cohorts


def _moments(
    scheme: Scheme, members: np.ndarray, counts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """For each cohort E[b | v] (marks, M + 1), and the sum over clients of E[b b']."""
    (high, low), k, total = chances_of(scheme), scheme.cells, counts.sum()
    size = (members >= 0).sum() / members[:, :, 0].size
    held = left_over(scheme, members)
    always, either, both = _pair_chances(scheme, high, low)
    for j in range(scheme.cohorts):
        inside = np.zeros((k + 1, len(members) + 1))  # the row of cell -1 is cut off
        inside[members[:, j].T, np.arange(len(members))] = 1
        inside[:k, -1] = size / k if held is None else held[j]
        inside = inside[_looked_at(k, members[:, j])]
        own = inside @ counts
        pairs = (inside[:, :-1] * counts[:-1]) @ inside[:, :-1].T
        pairs += counts[-1] * size * (size - 1) / (k * max(k - 1, 1))
        second = total * always + either * (own + own[:, None]) + both * pairs
        np.fill_diagonal(second, total * low + (high - low) * own)
        expected = low + (high - low) * inside
        yield _with_one(expected, second, counts) if scheme.kind == "bits" else (expected, second)


def _pair_chances(scheme: Scheme, high: float, low: float) -> tuple[float, float, float]:
    """The chance of two marks in one report: always, + more if one is the value's, + if both."""
    if scheme.kind == "bits":
        return low * low, low * (high - low), (high - low) ** 2
    if scheme.kind == "symbol":
        return 0.0, 0.0, 0.0
    k, w = scheme.cells, marked_cells(scheme)
    neither = (w - 1) * (high * (w - 2) + (1 - high) * w) / max((k - 1) * (k - 2), 1)
    return neither, high * (w - 1) / (k - 1) - neither, 0.0


def _looked_at(k: int, own: np.ndarray) -> np.ndarray:
    return np.arange(k) if k <= _DENSE else np.unique(own[own >= 0])


def _with_one(
    expected: np.ndarray, second: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same with a constant 1 before the marks, so that the number of reports is known."""
    edge = expected @ counts
    corner = np.array([[counts.sum()]])
    second = np.block([[corner, edge[None]], [edge[:, None], second]])
    return np.vstack([np.ones(expected.shape[1]), expected]), second


_NOTHING = 1e-10  # an eigenvalue of the scaled matrix that is rounding
_PART = 1e-6  # of an unknown, squared, along what is not told


def inverted(information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse where there is one, and a mask of the unknowns that are identified.

    Guarantee: with rows scaled to a diagonal of 1, directions with an eigenvalue below 1e-10 of the
    largest are left out, and unknowns that take part in one are not identified.
    Parameters: information, symmetric with a positive diagonal.

    >>> inverse, identified = inverted(np.array([[2.0, 0, 0], [0, 1, 1], [0, 1, 1]]))
    >>> inverse[0, 0].round(6), identified
    (np.float64(0.5), array([ True, False, False]))
    """
    scale = 1 / np.sqrt(information.diagonal())
    values, vectors = linalg.eigh(information * scale * scale[:, None], check_finite=False)
    told = values > _NOTHING * values[-1]
    half = vectors[:, told] / np.sqrt(values[told]) * scale[:, None]
    return half @ half.T, (vectors[:, ~told] ** 2).sum(axis=1) <= _PART


_EXACT = 16  # cells: all their reports can be listed
_LISTED = 2**20  # reports of all cohorts
_DRAWS = 2**15  # and as many again for every 512 values
_SEED = 7


def information(
    likely: Likely, shares: np.ndarray, *, diagonal: bool = False, expected: bool = False
) -> np.ndarray:
    """The mean over reports of L L' / chance**2, for candidates and "other" (M + 1, M + 1).

    With `expected`, the mean of L / chance is taken as 1, which it is for reports under the shares.
    """
    chances, gradient = likely.expect(shares)
    total, size = likely.weights.sum(), likely.values + 1
    out = np.zeros(size if diagonal else (size, size))
    for _, apart in likely.deviations(chances):
        out += np.einsum("ij,ij->i", apart, apart) if diagonal else apart @ apart.T
    mean = np.zeros(size) if expected else gradient / total - 1
    return np.asarray(out / total + 1 + (2 * mean if diagonal else mean + mean[:, None]))


def report_information(
    scheme: Scheme, members: np.ndarray, counts: np.ndarray, *, diagonal: bool = False
) -> np.ndarray:
    """The expected information about counts: of bits and subsets, exact where they can be listed.

    Else it is the mean over reports that are drawn with a fixed seed, which scatters by
    1 / sqrt(draws) and is inverted with the factor that makes the mean of the inverse right.
    """
    total, draws = counts.sum(), _DRAWS + 64 * len(members)
    few = scheme.cells <= _EXACT and scheme.cohorts << scheme.cells <= _LISTED
    likely = _listed(scheme, members, counts) if few else _drawn(scheme, members, counts, draws)
    told = information(likely, counts / total, diagonal=diagonal, expected=True) / total
    return np.asarray(told if few or diagonal else told / (1 - (len(members) + 1) / draws))


def _listed(scheme: Scheme, members: np.ndarray, counts: np.ndarray) -> Marks:
    """Every report of every cohort, weighted by how often it is expected."""
    k, w = scheme.cells, marked_cells(scheme)
    words = np.arange(1 << k, dtype="<u4")
    marks = np.bitwise_count(words).astype(np.int64)
    if scheme.kind == "subset":
        words, marks = words[marks == w], marks[marks == w]
        without = np.full(len(words), 1 / len(words))
    else:
        low = chances_of(scheme)[1]
        without = low**marks * (1 - low) ** (k - marks)
    payload = words.view(np.uint8).reshape(-1, 4)[:, : -(-k // 8)]
    cohorts = np.repeat(np.arange(scheme.cohorts, dtype=np.int32), len(words))
    payload, without = np.tile(payload, (scheme.cohorts, 1)), np.tile(without, scheme.cohorts)
    odds = odds_of(scheme, members)
    likely = Marks(odds, members, cohorts, payload, np.ones(len(payload)))
    likely.weights = without * likely.expect(counts / counts.sum())[0]
    return likely


def _drawn(scheme: Scheme, members: np.ndarray, counts: np.ndarray, draws: int) -> Marks:
    """Random reports, cohorts as equal as can be, values as frequent as in the counts."""
    random = np.random.default_rng(_SEED)
    cohorts = np.sort(np.arange(draws, dtype=np.int32) % scheme.cohorts)
    values = random.choice(len(counts), draws, p=counts / counts.sum())
    payload = np.empty((draws, -(-scheme.cells // 8)), np.uint8)
    step = max(1, 2**22 // scheme.cells)
    for start in range(0, draws, step):
        rows = slice(start, start + step)
        own = _own_cells(scheme, members, values[rows], cohorts[rows], random)
        marked = _report(scheme, own, random)
        payload[rows] = np.packbits(marked, axis=1, bitorder="little")
    return Marks(odds_of(scheme, members), members, cohorts, payload, np.ones(draws))


def _own_cells(
    scheme: Scheme,
    members: np.ndarray,
    values: np.ndarray,
    cohorts: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Whether each row's value has each cell; the value after the last has a random set."""
    inside = np.zeros((len(values), scheme.cells + 1), bool)
    others = values == len(members)
    sets = members[np.where(others, 0, values), cohorts]
    np.put_along_axis(inside, np.where(sets < 0, scheme.cells, sets), True, axis=1)
    inside, rows = inside[:, :-1], np.flatnonzero(others)
    held = left_over(scheme, members)
    if held is not None and held.any():  # sets of a known domain have one cell
        chance = np.cumsum(held[cohorts[rows]], axis=1)
        inside[rows] = False
        inside[rows, (random.random((len(rows), 1)) * chance[:, -1:] > chance).sum(axis=1)] = True
    elif len(rows):
        # A row of another candidate in random order has the right size and any cells.
        inside[rows] = random.permuted(inside[rows], axis=1)
    return inside


def _report(scheme: Scheme, own: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Marks of one report a row."""
    high, low = chances_of(scheme)
    if scheme.kind == "bits":
        return np.asarray(random.random(own.shape) < np.where(own, high, low))
    # The own cell comes first or last; the others in random order fill what is left.
    kept = random.random((len(own), 1)) < high
    order = np.where(own, np.where(kept, -1.0, 2.0), random.random(own.shape))
    marked = np.zeros(own.shape, bool)
    first = np.argpartition(order, marked_cells(scheme) - 1, axis=1)[:, : marked_cells(scheme)]
    np.put_along_axis(marked, first, True, axis=1)
    return marked


MOST_TOGETHER = 4096  # values whose counts are unknown together
_TELLS = 1e-12  # of a report about a value; less is rounding


def cramer_rao(
    scheme: Scheme,
    members: Any,
    counts: Any,
    other_count: float | None,
    *,
    full_reports: bool = False,
    alone: bool = False,
) -> np.ndarray:
    """The least standard error of every value's count that an unbiased decoder can have.

    Parameters
    ----------
    scheme : Scheme
        TODO.
    members : object
        Int (values, cohorts, cells of a set), as of `scheme.members`.
    counts : object
        How many clients have each value, true or estimated, from 0 up.
    other_count : float or None
        How many have none of these, an unknown as well (None: it is known that there are none).
    full_reports : bool, default=False
        Whether reports are kept or only counts of marks.
    alone : bool, default=False
        Whether the proportions of all other values are known.

    Returns
    -------
    ndarray
        The least standard error of every value's count that an unbiased decoder can have.

    Notes
    -----
    **Guarantee.** Exact for many reports (the Gaussian limit), with the exact covariance of marks;
    from full reports exact for symbols and up to 16 cells, else from random reports with a fixed
    seed, within about 1 % (two standard errors). Infinite where a count cannot be told from
    others'. Decoders that know more, as that no count is negative, can do better, but not than
    `alone`.

    References
    ----------
    .. [1] Bickel and Doksum 2015, section 6.2; Erlingsson, Pihur and Korolova 2014, section 4.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> asked = Rappor(categories=["tea", "milk"], f=0.5)
    >>> cramer_rao(asked, asked.members(["tea", "milk"]), [600, 400], None).round(1)
    array([19.4, 19.4])
    """
    full_reports = flag.check("cramer_rao", "full_reports", full_reports)
    alone = flag.check("cramer_rao", "alone", alone)
    members = np.asarray(members, np.int32)
    amounts, unknown = _amounts(scheme, members, counts, other_count)
    total = amounts.sum()
    if total == 0:
        return np.zeros(len(members))
    if len(members) > MOST_TOGETHER and not alone:
        raise ValueError(
            f"cramer_rao: members must hold at most {MOST_TOGETHER} values, not {len(members)}; "
            "give the most frequent, or alone=True."
        )
    told = report_information if full_reports and scheme.kind != "symbol" else count_information
    information = told(scheme, members, amounts, diagonal=alone)
    if alone:
        variance = _alone_variance(information, amounts)
    else:
        variance = fixed_variance(information[unknown][:, unknown], amounts[unknown])
    return np.asarray(np.sqrt(variance[: len(members)]))


def fixed_variance(information: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The diagonal of information^-1 - diag(counts), infinite where it is not identified."""
    inverse, identified = inverted(information)
    return np.where(identified, np.maximum(inverse.diagonal() - counts, 0.0), math.inf)


def _alone_variance(information: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The same for a value against all others in known proportions: two unknowns with one sum.

    With a = J_vv and J c = 1 the other entries of the two by two information follow.
    """
    total, certain = counts.sum(), information * counts.sum() - 1
    drawn = np.maximum((total - counts) * (1 - information * counts), 0.0)
    unknown = np.where(drawn > 0, math.inf, 0.0)
    return np.where(certain > _TELLS, drawn / np.maximum(certain, _TELLS), unknown)


def _amounts(
    scheme: Scheme, members: np.ndarray, counts: Any, other_count: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Counts of values and others, and which of them are unknown."""
    amounts = np.append(plain_numbers(counts), other_count or 0.0).astype(np.float64)
    if members.ndim != 3 or amounts.shape != (len(members) + 1,):
        raise ValueError("cramer_rao: members must be (values, cohorts, cells), a row each count.")
    if not np.isfinite(amounts).all() or amounts.min() < 0:
        raise ValueError("cramer_rao: counts and other_count must be finite numbers from 0 up.")
    held = left_over(scheme, members)
    others = other_count is not None and (held is None or bool(held.any()))
    return amounts, np.append(np.ones(len(members), bool), others)
