"""What full reports tell of the counts of values: their expected information, marks together."""

import numpy as np

from sfumato.telemetry._likely import Likely, Marks
from sfumato.telemetry._odds import chances_of, left_over, marked_cells, odds_of
from sfumato.telemetry._scheme import Scheme

__all__ = ["information", "report_information"]

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
