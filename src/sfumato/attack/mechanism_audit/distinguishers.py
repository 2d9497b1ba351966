"""Scores that tell two neighbours' answers apart, learned from runs that no bound is read off.

A score of a few columns together, for what no column tells by itself.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

__all__ = ["MOST_COLUMNS", "Score", "Together", "learned", "low_bits", "readable"]

MOST_COLUMNS = 8  # pairs of more would be too many to learn from the same runs
BINS = 32  # of equal weight for a column, a difference or a sum
COARSE = 8  # for each of the two columns of a pair
ROUNDS = 30
PRIOR = 2.0  # weight of "no difference" in every bin


@dataclass(frozen=True)
class Together:
    """The log-ratio of two laws as a sum over columns, differences, sums and pairs of columns.

    Independent noises that columns share, as a state and an output made from it do, come apart in
    differences; a sum of parts that are fitted one after the other, each to what those before it
    left open, counts none of them twice. Logistic regression by greedy Newton steps: Friedman,
    Hastie and Tibshirani 2000, algorithm 3, with one categorical part in place of a tree.
    """

    fine: list[np.ndarray]
    coarse: list[np.ndarray]
    logs: list[np.ndarray]

    @classmethod
    def of(cls, zeros: np.ndarray, ones: np.ndarray) -> "Together":
        both = np.concatenate([zeros, ones])
        parts = _parts(both)
        fine = [_quantile_edges(part, BINS) for part in parts]
        coarse = [_quantile_edges(part, COARSE) for part in parts[: _width(both)]]
        positions = _positions(parts, fine, coarse)
        second = np.arange(len(both)) >= len(zeros)
        return cls(fine, coarse, _fitted(positions, second))

    def __call__(self, answers: np.ndarray) -> np.ndarray:
        total = np.zeros(len(answers))
        positions = _positions(_parts(answers), self.fine, self.coarse)
        for log, place in zip(self.logs, positions, strict=True):
            total += log[place]
        return total


def _width(answers: np.ndarray) -> int:
    return answers[:1].size


def _parts(answers: np.ndarray) -> list[np.ndarray]:
    """Columns, what they differ by, and their sums; integers are exact, modulo 2**64.

    Differences and sums are of two columns, and of one against all others.
    """
    kind = np.float64 if answers.dtype.kind == "f" else np.int64
    columns = list(answers.reshape(len(answers), -1).astype(kind).T)
    pairs = list(combinations(columns, 2))
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.sum(columns, axis=0)
        parts = columns + [a - b for a, b in pairs] + [a + b for a, b in pairs]
        if len(columns) > 2:
            parts += [total] + [total - each - each for each in columns]
    # What is no number is still an answer, beyond all others.
    return [np.nan_to_num(part.astype(np.float64), nan=np.inf, posinf=np.inf) for part in parts]


def _quantile_edges(part: np.ndarray, bins: int) -> np.ndarray:
    """Where bins begin: at quantiles, and after a value that is frequent enough for its own."""
    spread = np.sort(part)[np.linspace(0, part.size - 1, bins).astype(np.intp)]
    frequent = spread[1:][spread[1:] == spread[:-1]]
    return np.unique(np.concatenate([spread, np.nextafter(frequent, np.inf)]))


def _positions(
    parts: list[np.ndarray], fine: list[np.ndarray], coarse: list[np.ndarray]
) -> list[np.ndarray]:
    """The bin of every answer in each part, then in the grid of each pair of columns."""
    alone = [np.searchsorted(edges, part, "right") for edges, part in zip(fine, parts, strict=True)]
    columns = parts[: len(coarse)]
    rough = [
        np.searchsorted(edges, part, "right") for edges, part in zip(coarse, columns, strict=True)
    ]
    grids = [a * (3 * COARSE) + b for a, b in combinations(rough, 2)]
    return alone + grids


def _fitted(positions: list[np.ndarray], second: np.ndarray) -> list[np.ndarray]:
    """What each bin of each part adds to the log-odds of the second neighbour."""
    most = max(3 * BINS, 9 * COARSE**2)  # an edge for each bin, at most two for a frequent value
    logs = [np.zeros(most) for _ in positions]
    odds = np.zeros(second.size)
    for turn in range(ROUNDS):
        chance = 1 / (1 + np.exp(-odds))
        open_, weight = second - chance, chance * (1 - chance)
        steps = [_step(place, open_, weight) for place in positions]
        best = max(range(len(steps)), key=lambda j: steps[j][0])
        surprise, step = steps[best]
        if turn and surprise <= SIGNIFICANT:
            break
        logs[best][: step.size] += step
        odds += step[positions[best]]
    return logs


def _step(place: np.ndarray, open_: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """By how many deviations a part would explain more than by chance, and its Newton step."""
    slope, bend = np.bincount(place, open_), np.bincount(place, weight)
    bins = max(int((bend > 0).sum()) - 1, 1)
    gain = float((slope**2 / np.maximum(bend, 1e-9)).sum())
    return (gain - bins) / np.sqrt(2 * bins), slope / (bend + PRIOR / 4)


Score = Callable[[np.ndarray], np.ndarray]
EDGES = 128  # bins of equal weight for a column
ATOMS = 512  # values of their own bin, where they are frequent
SHOWN = 40_000  # runs that are sorted to place the bins
DOUBT = 2.0  # added to every count: a value seen once proves little
SIGNIFICANT = 5.0  # deviations from chance that let a column among many take part


def learned(zeros: np.ndarray, ones: np.ndarray) -> Iterator[tuple[str, Score]]:
    """Named scores, higher for answers like `ones`, each learned from these two sets of runs."""
    for name, columns in _views(zeros):
        left, right = columns(zeros), columns(ones)
        yield name, _after(columns, _Likelihood.of(left, right))
        if name == "values" and left.shape[1] == 1:
            yield "threshold from below", lambda x: _table(x)[:, 0]
            yield "threshold from above", lambda x: -_table(x)[:, 0]
        elif name == "values":
            yield "linear", _after(columns, _linear(left, right))
    if 1 < zeros[:1].size <= MOST_COLUMNS:
        yield "columns together", Together.of(zeros, ones)


def low_bits(answers: np.ndarray) -> np.ndarray:
    """The power of two of the lowest bit that is set in each float; 1024 for zero.

    An answer of coarser grain than its size allows was rounded on the way, and where that depends
    on the value, it tells the value whatever the noise. `audit` looks at it by itself.

    Parameters
    ----------
    answers : ndarray
        Floats of any shape; what is not finite counts as zero does.

    Returns
    -------
    ndarray
        The power of two of the lowest bit that is set in each float; 1024 for zero.

    References
    ----------
    .. [1] Mironov 2012.

    Examples
    --------
    >>> low_bits(np.array([1.0, 0.75, 0.1, 0.0]))
    array([   0.,   -2.,  -55., 1024.])
    """
    fractions, exponents = np.frexp(np.asarray(answers, np.float64))
    whole = (np.where(np.isfinite(fractions), fractions, 0.0) * 2.0**53).astype(np.int64)
    lowest = (whole & -whole).astype(np.float64)
    with np.errstate(divide="ignore"):
        grain = np.log2(lowest) + exponents - 53
    return np.where(whole == 0, 1024.0, grain)


def _views(answers: np.ndarray) -> Iterator[tuple[str, Score]]:
    """The columns that an answer of this type may give itself away by."""
    yield "values", _table
    if answers.dtype.kind == "f":
        yield "low bits", lambda x: low_bits(_table(x))
    if answers.dtype.kind == "u" and answers.max(initial=0) > 1:  # else they are bits already
        yield "bits", _bits
    if answers.dtype.kind in "biu" and _table(answers).shape[1] > 1:
        yield "whole rows", _row_codes


def _table(answers: np.ndarray) -> np.ndarray:
    """One row of numbers for each run."""
    if answers.dtype.kind == "f":  # what is no number is still an answer
        answers = np.where(np.isnan(answers), np.inf, answers)
    return answers.reshape(len(answers), -1).astype(np.float64)


def _bits(answers: np.ndarray) -> np.ndarray:
    """The bits of packed words, one to a column."""
    rows = np.ascontiguousarray(answers.reshape(len(answers), -1))
    return np.unpackbits(rows.view(np.uint8), axis=1)


def _row_codes(answers: np.ndarray) -> np.ndarray:
    """One number for each whole row: alike for equal rows, and seldom for others."""
    rows = answers.reshape(len(answers), -1).astype(np.uint64)
    codes = np.zeros(len(rows), np.uint64)
    for column in rows.T:  # high bits come down after each product: a sum of products would collide
        codes = (codes ^ column) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(32)
    exact: np.ndarray = (codes >> np.uint64(11)).astype(np.float64)  # 53 bits: as a float too
    return exact[:, None]


def _after(columns: Score, score: Score) -> Score:
    return lambda answers: score(columns(answers))


@dataclass(frozen=True)
class _Likelihood:
    """The sum over columns of the logarithm of the ratio of two smoothed histograms."""

    edges: list[np.ndarray]
    logs: list[np.ndarray]
    used: np.ndarray

    @classmethod
    def of(cls, left: np.ndarray, right: np.ndarray) -> "_Likelihood":
        edges = [_edges(left[:, j], right[:, j]) for j in range(left.shape[1])]
        logs, surprise = [], []
        for j, positions in enumerate(edges):
            a, b = (_histogram(side[:, j], positions) for side in (left, right))
            logs.append(np.log((b + DOUBT) / (a + DOUBT)))
            surprise.append(_surprise(a, b))
        used = np.flatnonzero(np.array(surprise) > SIGNIFICANT)
        # A column by chance different from the other adds only noise; one is always kept.
        return cls(edges, logs, used if used.size else np.array([int(np.argmax(surprise))]))

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        total = np.zeros(len(columns))
        for j in self.used:
            total += self.logs[j][np.searchsorted(self.edges[j], columns[:, j], side="right")]
        return total


def _edges(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Where bins begin: at quantiles of both, and around every frequent value."""
    shown = np.sort(np.concatenate([left[: SHOWN // 2], right[: SHOWN // 2]]).astype(np.float64))
    values, counts = np.unique(shown, return_counts=True)
    frequent = values[np.argsort(-counts)[:ATOMS]]
    frequent = frequent[np.isin(frequent, values[counts >= max(2, shown.size // 4096)])]
    spread = shown[np.linspace(0, shown.size - 1, EDGES).astype(np.intp)]
    return np.unique(np.concatenate([spread, frequent, np.nextafter(frequent, np.inf)]))


def _histogram(column: np.ndarray, edges: np.ndarray) -> np.ndarray:
    positions = np.searchsorted(edges, column, side="right")
    return np.bincount(positions, minlength=edges.size + 1).astype(np.float64)


def _surprise(a: np.ndarray, b: np.ndarray) -> float:
    """By how many deviations two histograms differ more than by chance (chi-squared)."""
    both = a + b
    bins = max(int((both > 0).sum()) - 1, 1)
    squares = float(((a - b) ** 2 / np.maximum(both, 1)).sum())
    return float((squares - bins) / np.sqrt(2 * bins))


def _linear(left: np.ndarray, right: np.ndarray) -> Score:
    """The direction between the means, each column by its own variance, chance ones left out."""
    with np.errstate(invalid="ignore"):
        apart = right.mean(axis=0) - left.mean(axis=0)
        variance = (left.var(axis=0) + right.var(axis=0)) / 2
        sure = apart**2 * len(left) > 2 * SIGNIFICANT**2 * variance
        weights = np.where(sure & (variance > 0), apart / np.maximum(variance, 1e-300), 0.0)
    return lambda columns: columns @ weights


def readable(zeros: np.ndarray, ones: np.ndarray, seen: int) -> tuple[np.ndarray, np.ndarray]:
    """The answers in a form that floats keep, chosen by the first `seen` of them alone.

    What is no finite number becomes columns of its own. Integers are counted from the first
    row, modulo 2**64, as 2**62 and its neighbour are one float.
    """
    if zeros.dtype.kind == ones.dtype.kind == "i":  # unsigned words may be bits, kept as they are
        first = zeros[0].astype(np.int64)
        return zeros.astype(np.int64) - first, ones.astype(np.int64) - first
    if zeros.dtype.kind != "f" or ones.dtype.kind != "f":
        return zeros, ones
    sides = [side.reshape(len(side), -1) for side in (zeros, ones)]
    strange = [_strange(side) for side in sides]
    if not any(each[:seen].any() for each in strange):
        return zeros, ones
    plain = [np.nan_to_num(side, posinf=0.0, neginf=0.0) for side in sides]
    return tuple(np.hstack(pair) for pair in zip(plain, strange, strict=True))  # type: ignore


def _strange(side: np.ndarray) -> np.ndarray:
    """Where a number is not one, is infinite, or is the zero below zero."""
    below = (side == 0) & np.signbit(side)
    return np.hstack([np.isnan(side), np.isposinf(side), np.isneginf(side), below]).astype(float)
