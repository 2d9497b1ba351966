"""The Cramer-Rao bound: the least standard errors of counts that a design of reports allows.

The clients and their values are fixed; cohorts and noise are random. Let J be the information of
the reports about the counts c of resampled values: the mean of L L' / (L'c)**2 for complete reports
with likelihoods L, and its projection on marks for counts. Then J c = 1, the covariance of the best
estimates is J^-1 for resampled values up to their sum, and diag(c) of it is due to sampling: for
fixed clients the covariance is J^-1 - diag(c).
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy

from sfumato.core.ids import plain_numbers
from sfumato.core.linear_algebra import blas_threads
from sfumato.core.validation import flag
from sfumato.telemetry.decoding.cell_sums import GroupedSums
from sfumato.telemetry.decoding.report_likelihood import (
    Likely,
    Marks,
    cells_of_others,
    marked_cells,
    odds_of,
    probabilities_of,
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

_DENSE = 2048  # cells; of more, only those that a candidate uses are considered


def count_information(
    scheme: Scheme, members: np.ndarray, counts: np.ndarray, *, diagonal: bool = False
) -> np.ndarray:
    """Return J = sum over cohorts of E[b | v]' E[b b']^-1 E[b | w] / m, for values v and w.

    b are the marks of one report and, for kind "bits", a constant 1, whose sum is the reports of
    the cohort. E[b b'] is summed over all clients. With `diagonal`, only the diagonal. `members` is
    (M, m, s); `counts` (M + 1,), the last that of values without a known set, which is random.
    """
    size = len(counts)
    if diagonal and scheme.kind == "symbol" and members.shape[2] == 1 and members.min() >= 0:
        return _symbol_information(scheme, members[:, :, 0], counts)
    out = np.zeros(size if diagonal else (size, size))
    for expected, second in _moments(scheme, members, counts):
        root = scipy.linalg.cholesky(second, lower=True, check_finite=False)
        half = scipy.linalg.solve_triangular(root, expected, lower=True, check_finite=False)
        out += (half**2).sum(axis=0) if diagonal else half.T @ half
    return out / scheme.cohorts


def _symbol_information(scheme: Scheme, members: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the diagonal of the information of symbols, of which exactly one is marked.

    E[b b'] is then diagonal, d, so a value with cell i has the sum of low**2 / d over all cells and
    (high**2 - low**2) / d_i besides.
    """
    (high, low), k = probabilities_of(scheme), scheme.cells
    sums, other_cells = GroupedSums(members, k), cells_of_others(scheme, members[:, :, None])
    other = np.full((scheme.cohorts, k), 1 / k) if other_cells is None else other_cells
    own = sums.marked(counts[:-1]) + counts[-1] * other.reshape(-1)
    inverse = 1 / (counts.sum() * low + (high - low) * own)
    level, _ = sums.sums(inverse, inverse)
    known = low**2 * inverse.sum() + (high**2 - low**2) * level
    unknown = ((low + (high - low) * other.reshape(-1)) ** 2 * inverse).sum()
    return np.append(known, unknown) / scheme.cohorts


def _moments(
    scheme: Scheme, members: np.ndarray, counts: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield for each cohort E[b | v] (marks, M + 1), and the sum over clients of E[b b']."""
    (high, low), k, total = probabilities_of(scheme), scheme.cells, counts.sum()
    size = (members >= 0).sum() / members[:, :, 0].size
    other_cells = cells_of_others(scheme, members)
    always, either, both = _pair_probabilities(scheme, high, low)
    for j in range(scheme.cohorts):
        inside = np.zeros((k + 1, len(members) + 1))  # the row of cell -1 is cut off
        inside[members[:, j].T, np.arange(len(members))] = 1
        inside[:k, -1] = size / k if other_cells is None else other_cells[j]
        inside = inside[_looked_at(k, members[:, j])]
        own = inside @ counts
        pairs = (inside[:, :-1] * counts[:-1]) @ inside[:, :-1].T
        pairs += counts[-1] * size * (size - 1) / (k * max(k - 1, 1))
        second = total * always + either * (own + own[:, None]) + both * pairs
        np.fill_diagonal(second, total * low + (high - low) * own)
        expected = low + (high - low) * inside
        yield _with_one(expected, second, counts) if scheme.kind == "bits" else (expected, second)


def _pair_probabilities(scheme: Scheme, high: float, low: float) -> tuple[float, float, float]:
    """Return the probability of two marks in one report, and its increments by own cells.

    The second is added for each of the two that is the value's own, the third if both are.
    """
    if scheme.kind == "bits":
        return low * low, low * (high - low), (high - low) ** 2
    if scheme.kind == "symbol":
        return 0.0, 0.0, 0.0
    k, w = scheme.cells, marked_cells(scheme)
    neither = (w - 1) * (high * (w - 2) + (1 - high) * w) / max((k - 1) * (k - 2), 1)
    return neither, high * (w - 1) / (k - 1) - neither, 0.0


def _looked_at(k: int, own: np.ndarray) -> np.ndarray:
    """Return the cells to consider: all, or those of candidates if there are too many."""
    return np.arange(k) if k <= _DENSE else np.unique(own[own >= 0])


def _with_one(
    expected: np.ndarray, second: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Prepend a constant 1 to the marks, so that the number of reports is known."""
    edge = expected @ counts
    corner = np.array([[counts.sum()]])
    second = np.block([[corner, edge[None]], [edge[:, None], second]])
    return np.vstack([np.ones(expected.shape[1]), expected]), second


_NOTHING = 1e-10  # an eigenvalue of the scaled matrix that is rounding
_PART = 1e-6  # of an unknown, squared, along directions without information


def inverted(information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the (pseudo)inverse, and a mask of the unknowns that are identified.

    Guarantee: with rows scaled to a diagonal of 1, directions with an eigenvalue below 1e-10 of the
    largest are left out, and unknowns that take part in one are not identified. The matrix must be
    symmetric with a positive diagonal.

    >>> inverse, identified = inverted(np.array([[2.0, 0, 0], [0, 1, 1], [0, 1, 1]]))
    >>> inverse[0, 0].round(6), identified
    (np.float64(0.5), array([ True, False, False]))
    """
    scale = 1 / np.sqrt(information.diagonal())
    values, vectors = scipy.linalg.eigh(information * scale * scale[:, None], check_finite=False)
    identifiable = values > _NOTHING * values[-1]
    half = vectors[:, identifiable] / np.sqrt(values[identifiable]) * scale[:, None]
    return half @ half.T, (vectors[:, ~identifiable] ** 2).sum(axis=1) <= _PART


_EXACT = 16  # cells: all their reports can be listed
_LISTED = 2**20  # reports of all cohorts
_DRAWS = 2**15  # and as many again for every 512 values
_SEED = 7


def information(
    likely: Likely, fractions: np.ndarray, *, diagonal: bool = False, expected: bool = False
) -> np.ndarray:
    """Return the mean over reports of L L' / p**2, p their probability: (M + 1, M + 1).

    The last row is that of "other". With `expected`, the mean of L / p is taken as 1, its
    expectation under the fractions.
    """
    probabilities, gradient = likely.expect(fractions)
    total, size = likely.weights.sum(), likely.values + 1
    out = np.zeros(size if diagonal else (size, size))
    for _, apart in likely.deviations(probabilities):
        out += np.einsum("ij,ij->i", apart, apart) if diagonal else apart @ apart.T
    mean = np.zeros(size) if expected else gradient / total - 1
    return np.asarray(out / total + 1 + (2 * mean if diagonal else mean + mean[:, None]))


def report_information(
    scheme: Scheme, members: np.ndarray, counts: np.ndarray, *, diagonal: bool = False
) -> np.ndarray:
    """Return the expected information of bits or subsets about counts, exact if they can be listed.

    Otherwise it is the mean over reports that are drawn with a fixed seed; its relative error is
    1 / sqrt(draws), and a factor makes the mean of the inverse unbiased.
    """
    total, draws = counts.sum(), _DRAWS + 64 * len(members)
    few = scheme.cells <= _EXACT and scheme.cohorts << scheme.cells <= _LISTED
    likely = _listed(scheme, members, counts) if few else _drawn(scheme, members, counts, draws)
    found = information(likely, counts / total, diagonal=diagonal, expected=True) / total
    return np.asarray(found if few or diagonal else found / (1 - (len(members) + 1) / draws))


def _listed(scheme: Scheme, members: np.ndarray, counts: np.ndarray) -> Marks:
    """Return every report of every cohort, weighted by its expected frequency."""
    k, w = scheme.cells, marked_cells(scheme)
    words = np.arange(1 << k, dtype="<u4")
    marks = np.bitwise_count(words).astype(np.int64)
    if scheme.kind == "subset":
        words, marks = words[marks == w], marks[marks == w]
        without = np.full(len(words), 1 / len(words))
    else:
        low = probabilities_of(scheme)[1]
        without = low**marks * (1 - low) ** (k - marks)
    payload = words.view(np.uint8).reshape(-1, 4)[:, : -(-k // 8)]
    cohorts = np.repeat(np.arange(scheme.cohorts, dtype=np.int32), len(words))
    payload, without = np.tile(payload, (scheme.cohorts, 1)), np.tile(without, scheme.cohorts)
    odds = odds_of(scheme, members)
    likely = Marks(odds, members, cohorts, payload, np.ones(len(payload)))
    likely.weights = without * likely.expect(counts / counts.sum())[0]
    return likely


def _drawn(scheme: Scheme, members: np.ndarray, counts: np.ndarray, draws: int) -> Marks:
    """Return random reports, cohorts as equal as possible, values distributed as in the counts."""
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
    """Return whether each row's value has each cell; the value after the last has a random set."""
    inside = np.zeros((len(values), scheme.cells + 1), bool)
    others = values == len(members)
    sets = members[np.where(others, 0, values), cohorts]
    np.put_along_axis(inside, np.where(sets < 0, scheme.cells, sets), True, axis=1)
    inside, rows = inside[:, :-1], np.flatnonzero(others)
    other_cells = cells_of_others(scheme, members)
    if other_cells is not None and other_cells.any():  # sets of a known domain have one cell
        probability = np.cumsum(other_cells[cohorts[rows]], axis=1)
        inside[rows] = False
        inside[
            rows, (random.random((len(rows), 1)) * probability[:, -1:] > probability).sum(axis=1)
        ] = True
    elif len(rows):
        # A row of another candidate in random order has the right size and any cells.
        inside[rows] = random.permuted(inside[rows], axis=1)
    return inside


def _report(scheme: Scheme, own: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Draw the marks of one report per row."""
    high, low = probabilities_of(scheme)
    if scheme.kind == "bits":
        return np.asarray(random.random(own.shape) < np.where(own, high, low))
    # The own cell comes first or last; the others fill the subset in random order.
    included = random.random((len(own), 1)) < high
    order = np.where(own, np.where(included, -1.0, 2.0), random.random(own.shape))
    marked = np.zeros(own.shape, bool)
    first = np.argpartition(order, marked_cells(scheme) - 1, axis=1)[:, : marked_cells(scheme)]
    np.put_along_axis(marked, first, True, axis=1)
    return marked


MOST_TOGETHER = 4096  # values whose counts are unknown together
_NEGLIGIBLE = 1e-12  # information of a report about a value; less is rounding


def cramer_rao(
    scheme: Scheme,
    members: Any,
    counts: Any,
    other_count: float | None,
    *,
    full_reports: bool = False,
    alone: bool = False,
) -> np.ndarray:
    """Compute the least standard error of every value's count that an unbiased decoder can have.

    Parameters
    ----------
    scheme : Scheme
        Scheme of the reports.
    members : object
        Integer array of shape (values, cohorts, s), as `Scheme.members` returns it.
    counts : object
        Number of clients that have each value, true or estimated, from 0 up.
    other_count : float or None
        Number of clients that have none of these values, which is unknown to the decoder as well;
        None if it is known that there are none.
    full_reports : bool, default=False
        Whether the decoder has complete reports, or only counts of marks.
    alone : bool, default=False
        Whether the proportions of all other values are known to the decoder.

    Returns
    -------
    ndarray of shape (values,)
        Standard error of each count; infinite where it cannot be distinguished from others.

    Raises
    ------
    ValueError
        If there are more than 4096 values and `alone` is False.

    Notes
    -----
    **Guarantee.** Exact in the Gaussian limit of many reports, with the exact covariance of marks.
    From complete reports it is exact for symbols and for up to 16 cells, otherwise computed from
    random reports with a fixed seed, within about 1 % (two standard errors). Decoders that use
    more, such as that no count is negative, can do better, but not better than with `alone`.

    References
    ----------
    .. [1] Bickel, Doksum. "Mathematical Statistics: Basic Ideas and Selected Topics". Volume 1,
       second edition, 2015, section 6.2 (information bound).
    .. [2] Erlingsson, Pihur, Korolova. "RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal
       Response". CCS 2014, section 4 (decoding). https://arxiv.org/abs/1407.6981

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> scheme = Rappor(categories=["tea", "milk"], f=0.5)
    >>> cramer_rao(scheme, scheme.members(["tea", "milk"]), [600, 400], None).round(1)
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
            f"cramer_rao: members must have at most {MOST_TOGETHER} values, not {len(members)}; "
            "give the most frequent, or alone=True."
        )
    information_of = (
        report_information if full_reports and scheme.kind != "symbol" else count_information
    )
    with blas_threads(len(members)):
        information = information_of(scheme, members, amounts, diagonal=alone)
        if alone:
            variance = _alone_variance(information, amounts)
        else:
            variance = fixed_variance(information[unknown][:, unknown], amounts[unknown])
    return np.asarray(np.sqrt(variance[: len(members)]))


def fixed_variance(information: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the diagonal of information^-1 - diag(counts), infinite where it is not identified."""
    inverse, identified = inverted(information)
    return np.where(identified, np.maximum(inverse.diagonal() - counts, 0.0), math.inf)


def _alone_variance(information: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """As `fixed_variance`, for a value against all others in known proportions: two unknowns.

    With a = J_vv and J c = 1 the other entries of the two by two information follow.
    """
    total, certain = counts.sum(), information * counts.sum() - 1
    drawn = np.maximum((total - counts) * (1 - information * counts), 0.0)
    unknown = np.where(drawn > 0, math.inf, 0.0)
    return np.where(certain > _NEGLIGIBLE, drawn / np.maximum(certain, _NEGLIGIBLE), unknown)


def _amounts(
    scheme: Scheme, members: np.ndarray, counts: Any, other_count: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of values and others, and which of them are unknown."""
    amounts = np.append(plain_numbers(counts), other_count or 0.0).astype(np.float64)
    if members.ndim != 3 or amounts.shape != (len(members) + 1,):
        raise ValueError("cramer_rao: members must be (values, cohorts, cells), one per count.")
    if not np.isfinite(amounts).all() or amounts.min() < 0:
        raise ValueError("cramer_rao: counts and other_count must be finite numbers from 0 up.")
    other_cells = cells_of_others(scheme, members)
    others = other_count is not None and (other_cells is None or bool(other_cells.any()))
    return amounts, np.append(np.ones(len(members), bool), others)
