"""Which of very many strings are worth a test: how far their cells stand out, in bounded memory."""

from collections.abc import Iterator

import numpy as np

from sfumato.telemetry.aggregate import Counts

__all__ = ["scores"]

ENTRIES = 2**22  # cells of candidates that are looked up at a time
STRONG = 5.0  # standard errors above 0 of strings that are taken out before others are scored
STRONGEST = 256  # of these, at most


def scores(counts: Counts, candidates: list[str]) -> np.ndarray:
    """How far the marks in each candidate's own cells are above chance, in standard errors.

    The error is that of a string with random cells, whatever made the marks uneven. Strings that
    stand out raise the cells of others too, so they are fitted and taken out first, themselves put
    back one by one. Schemes have one cell a string and cohort.
    """
    left = counts.cells - counts.reports[:, np.newaxis] / counts.scheme.cells
    found = _totals(counts, left, candidates) / _spread(left)
    strong = np.argsort(-found, kind="stable")[:STRONGEST]
    strong = strong[found[strong] >= STRONG]
    if not strong.size:
        return np.asarray(found)
    cells = counts.scheme.members([candidates[at] for at in strong])[:, :, 0]
    own = _take_out(left, cells)
    found = _totals(counts, left, candidates)
    found[strong] += own
    return np.asarray(found / _spread(left))


def _take_out(left: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Subtract the least-squares fit of some strings; the total that each had by itself."""
    cohorts, share = len(left), 1 / left.shape[1]
    rows = np.arange(cohorts)
    same = np.array([(cells == own).sum(1) for own in cells]) - share * cohorts
    fitted = np.linalg.lstsq(same, left[rows, cells].sum(1), rcond=1e-6)[0]
    for own, count in zip(cells, fitted, strict=True):
        left[rows, own] -= count
    left += fitted.sum() * share
    return np.asarray(fitted * (1 - share) * cohorts)


def _spread(left: np.ndarray) -> float:
    return float(np.sqrt(max((left**2).mean(1).sum(), 1e-300)))


def _totals(counts: Counts, left: np.ndarray, candidates: list[str]) -> np.ndarray:
    rows = np.arange(len(left))
    parts = [left[rows, cells].sum(1) for cells in _cells(counts, candidates)]
    return np.concatenate(parts) if parts else np.empty(0)


def _cells(counts: Counts, candidates: list[str]) -> Iterator[np.ndarray]:
    step = max(1, ENTRIES // counts.scheme.cohorts)
    for begin in range(0, len(candidates), step):
        yield counts.scheme.members(candidates[begin : begin + step])[:, :, 0]
