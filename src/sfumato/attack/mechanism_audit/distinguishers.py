"""Statistics that distinguish two neighbours' answers, learned from runs that are not counted."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

__all__ = ["MOST_COLUMNS", "Score", "Together", "learned", "low_bits", "readable"]

MOST_COLUMNS = 8  # pairs of more columns are too many to learn from the same runs
BINS = 32  # of equal weight for a column, a difference or a sum
COARSE = 8  # for each of the two columns of a pair
ROUNDS = 30
PRIOR = 2.0  # weight of "no difference" in every bin


@dataclass(frozen=True)
class Together:
    """Log-likelihood ratio as a sum over columns, differences, sums and pairs of columns.

    Independent noises that columns have in common, as of a state and an output made from it,
    separate in differences. Parts are fitted one after the other to the residual of those before,
    so that none counts twice. Logistic regression by greedy Newton steps: Friedman, Hastie and
    Tibshirani 2000, algorithm 3 (LogitBoost), with one categorical part in place of a tree.
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
        for log, bins in zip(self.logs, positions, strict=True):
            total += log[bins]
        return total


def _width(answers: np.ndarray) -> int:
    """Number of columns of an answer."""
    return answers[:1].size


def _parts(answers: np.ndarray) -> list[np.ndarray]:
    """Columns, their differences and their sums; integers are exact, modulo 2**64.

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
    # NaN is an answer too: it is placed beyond all others.
    return [np.nan_to_num(part.astype(np.float64), nan=np.inf, posinf=np.inf) for part in parts]


def _quantile_edges(part: np.ndarray, bins: int) -> np.ndarray:
    """Lower edges of bins: at quantiles, and after a value frequent enough for a bin of its own."""
    quantiles = np.sort(part)[np.linspace(0, part.size - 1, bins).astype(np.intp)]
    frequent = quantiles[1:][quantiles[1:] == quantiles[:-1]]
    return np.unique(np.concatenate([quantiles, np.nextafter(frequent, np.inf)]))


def _positions(
    parts: list[np.ndarray], fine: list[np.ndarray], coarse: list[np.ndarray]
) -> list[np.ndarray]:
    """Bin of every answer in each part, then in the grid of each pair of columns."""
    alone = [np.searchsorted(edges, part, "right") for edges, part in zip(fine, parts, strict=True)]
    columns = parts[: len(coarse)]
    rough = [
        np.searchsorted(edges, part, "right") for edges, part in zip(coarse, columns, strict=True)
    ]
    grids = [a * (3 * COARSE) + b for a, b in combinations(rough, 2)]
    return alone + grids


def _fitted(positions: list[np.ndarray], second: np.ndarray) -> list[np.ndarray]:
    """Contribution of each bin of each part to the log-odds of the second neighbour."""
    most = max(3 * BINS, 9 * COARSE**2)  # an edge for each bin, at most two for a frequent value
    logs = [np.zeros(most) for _ in positions]
    odds = np.zeros(second.size)
    for turn in range(ROUNDS):
        probability = 1 / (1 + np.exp(-odds))
        open_, weight = second - probability, probability * (1 - probability)
        steps = [_step(bins_of, open_, weight) for bins_of in positions]
        best = max(range(len(steps)), key=lambda j: steps[j][0])
        surprise, step = steps[best]
        if turn and surprise <= SIGNIFICANT:
            break
        logs[best][: step.size] += step
        odds += step[positions[best]]
    return logs


def _step(bins_of: np.ndarray, open_: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Significance of a part in standard deviations (chi-squared), and its Newton step."""
    slope, bend = np.bincount(bins_of, open_), np.bincount(bins_of, weight)
    bins = max(int((bend > 0).sum()) - 1, 1)
    gain = float((slope**2 / np.maximum(bend, 1e-9)).sum())
    return (gain - bins) / np.sqrt(2 * bins), slope / (bend + PRIOR / 4)


Score = Callable[[np.ndarray], np.ndarray]
EDGES = 128  # bins of equal weight for a column
ATOMS = 512  # values of their own bin, where they are frequent
SHOWN = 40_000  # runs that are sorted to find the bins
DOUBT = 2.0  # pseudo-count: a value observed once proves little
SIGNIFICANT = 5.0  # standard deviations from equality at which a column is used


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
    """Compute the exponent of the lowest set bit of each float.

    An answer with fewer significant bits than its magnitude allows was rounded on the way. If that
    rounding depends on the input, it reveals the input whatever the noise. `audit` tests this
    statistic without being given it.

    Parameters
    ----------
    answers : ndarray
        Floats of any shape; values that are not finite are treated as zero.

    Returns
    -------
    ndarray
        Exponent of two of the lowest set bit; 1024 for zero.

    References
    ----------
    .. [1] Mironov. "On significance of the least significant bits for differential privacy". CCS
       2012. https://doi.org/10.1145/2382196.2382264

    Examples
    --------
    >>> low_bits(np.array([1.0, 0.75, 0.1, 0.0]))
    array([   0.,   -2.,  -55., 1024.])
    """
    fractions, exponents = np.frexp(np.asarray(answers, np.float64))
    mantissa = (np.where(np.isfinite(fractions), fractions, 0.0) * 2.0**53).astype(np.int64)
    lowest = (mantissa & -mantissa).astype(np.float64)
    with np.errstate(divide="ignore"):
        grain = np.log2(lowest) + exponents - 53
    return np.where(mantissa == 0, 1024.0, grain)


def _views(answers: np.ndarray) -> Iterator[tuple[str, Score]]:
    """Named views of the answers by which this type of answer may leak."""
    yield "values", _table
    if answers.dtype.kind == "f":
        yield "low bits", lambda x: low_bits(_table(x))
    if answers.dtype.kind == "u" and answers.max(initial=0) > 1:  # else they are bits already
        yield "bits", _bits
    if answers.dtype.kind in "biu" and _table(answers).shape[1] > 1:
        yield "whole rows", _row_codes


def _table(answers: np.ndarray) -> np.ndarray:
    """Answers as float64, one row per run."""
    if answers.dtype.kind == "f":  # NaN is an answer too
        answers = np.where(np.isnan(answers), np.inf, answers)
    return answers.reshape(len(answers), -1).astype(np.float64)


def _bits(answers: np.ndarray) -> np.ndarray:
    """Bits of packed words, one per column."""
    rows = np.ascontiguousarray(answers.reshape(len(answers), -1))
    return np.unpackbits(rows.view(np.uint8), axis=1)


def _row_codes(answers: np.ndarray) -> np.ndarray:
    """A hash of each row as a float: equal for equal rows, and rarely for others."""
    rows = answers.reshape(len(answers), -1).astype(np.uint64)
    codes = np.zeros(len(rows), np.uint64)
    for column in rows.T:  # high bits come down after each product: a sum of products would collide
        codes = (codes ^ column) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(32)
    exact: np.ndarray = (codes >> np.uint64(11)).astype(np.float64)  # 53 bits: as a float too
    return exact[:, None]


def _after(columns: Score, score: Score) -> Score:
    """The score of the columns of an answer."""
    return lambda answers: score(columns(answers))


@dataclass(frozen=True)
class _Likelihood:
    """Sum over columns of the log-ratio of two smoothed histograms."""

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
        # A column that differs only by chance adds noise; one is always used.
        return cls(edges, logs, used if used.size else np.array([int(np.argmax(surprise))]))

    def __call__(self, columns: np.ndarray) -> np.ndarray:
        total = np.zeros(len(columns))
        for j in self.used:
            total += self.logs[j][np.searchsorted(self.edges[j], columns[:, j], side="right")]
        return total


def _edges(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Lower edges of bins: at quantiles of both sides, and around every frequent value."""
    shown = np.sort(np.concatenate([left[: SHOWN // 2], right[: SHOWN // 2]]).astype(np.float64))
    values, counts = np.unique(shown, return_counts=True)
    frequent = values[np.argsort(-counts)[:ATOMS]]
    frequent = frequent[np.isin(frequent, values[counts >= max(2, shown.size // 4096)])]
    quantiles = shown[np.linspace(0, shown.size - 1, EDGES).astype(np.intp)]
    return np.unique(np.concatenate([quantiles, frequent, np.nextafter(frequent, np.inf)]))


def _histogram(column: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Counts of a column in the bins."""
    positions = np.searchsorted(edges, column, side="right")
    return np.bincount(positions, minlength=edges.size + 1).astype(np.float64)


def _surprise(a: np.ndarray, b: np.ndarray) -> float:
    """Difference of two histograms in standard deviations of chi-squared."""
    both = a + b
    bins = max(int((both > 0).sum()) - 1, 1)
    squares = float(((a - b) ** 2 / np.maximum(both, 1)).sum())
    return float((squares - bins) / np.sqrt(2 * bins))


def _linear(left: np.ndarray, right: np.ndarray) -> Score:
    """Difference of the means over the variance, of the columns where it is significant."""
    with np.errstate(invalid="ignore"):
        apart = right.mean(axis=0) - left.mean(axis=0)
        variance = (left.var(axis=0) + right.var(axis=0)) / 2
        sure = apart**2 * len(left) > 2 * SIGNIFICANT**2 * variance
        weights = np.where(sure & (variance > 0), apart / np.maximum(variance, 1e-300), 0.0)
    return lambda columns: columns @ weights


def readable(zeros: np.ndarray, ones: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Answers in a form that floats represent exactly, chosen by the first `count` of them alone.

    Values that are not finite become columns of their own. Integers are counted from the first row,
    modulo 2**64, as 2**62 and its neighbour are one float.
    """
    if zeros.dtype.kind == ones.dtype.kind == "i":  # unsigned words may be bits: unchanged
        first = zeros[0].astype(np.int64)
        return zeros.astype(np.int64) - first, ones.astype(np.int64) - first
    if zeros.dtype.kind != "f" or ones.dtype.kind != "f":
        return zeros, ones
    sides = [side.reshape(len(side), -1) for side in (zeros, ones)]
    special = [_special_values(side) for side in sides]
    if not any(each[:count].any() for each in special):
        return zeros, ones
    plain = [np.nan_to_num(side, posinf=0.0, neginf=0.0) for side in sides]
    return tuple(np.hstack(pair) for pair in zip(plain, special, strict=True))  # type: ignore


def _special_values(side: np.ndarray) -> np.ndarray:
    """Indicators of NaN, infinities and negative zero."""
    below = (side == 0) & np.signbit(side)
    return np.hstack([np.isnan(side), np.isposinf(side), np.isneginf(side), below]).astype(float)
