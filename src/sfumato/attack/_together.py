"""A score of a few columns together, for what no column tells by itself."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

__all__ = ["MOST_COLUMNS", "Together"]

MOST_COLUMNS = 8  # pairs of more would be too many to learn from the same runs
BINS = 32  # of equal weight for a column, a difference or a sum
COARSE = 8  # for each of the two columns of a pair
ROUNDS = 30
SIGNIFICANT = 5.0  # deviations from chance that a further part must show
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
        fine = [_edges(part, BINS) for part in parts]
        coarse = [_edges(part, COARSE) for part in parts[: _width(both)]]
        places = _places(parts, fine, coarse)
        second = np.arange(len(both)) >= len(zeros)
        return cls(fine, coarse, _fitted(places, second))

    def __call__(self, answers: np.ndarray) -> np.ndarray:
        total = np.zeros(len(answers))
        places = _places(_parts(answers), self.fine, self.coarse)
        for log, place in zip(self.logs, places, strict=True):
            total += log[place]
        return total


def _width(answers: np.ndarray) -> int:
    return answers[:1].size


def _parts(answers: np.ndarray) -> list[np.ndarray]:
    """Columns, what they differ by, and their sums; whole numbers are exact, modulo 2**64.

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


def _edges(part: np.ndarray, bins: int) -> np.ndarray:
    """Where bins begin: at quantiles, and after a value that is frequent enough for its own."""
    spread = np.sort(part)[np.linspace(0, part.size - 1, bins).astype(np.intp)]
    frequent = spread[1:][spread[1:] == spread[:-1]]
    return np.unique(np.concatenate([spread, np.nextafter(frequent, np.inf)]))


def _places(
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


def _fitted(places: list[np.ndarray], second: np.ndarray) -> list[np.ndarray]:
    """What each bin of each part adds to the log-odds of the second neighbour."""
    most = max(3 * BINS, 9 * COARSE**2)  # an edge for each bin, at most two for a frequent value
    logs = [np.zeros(most) for _ in places]
    odds = np.zeros(second.size)
    for turn in range(ROUNDS):
        chance = 1 / (1 + np.exp(-odds))
        open_, weight = second - chance, chance * (1 - chance)
        steps = [_step(place, open_, weight) for place in places]
        best = max(range(len(steps)), key=lambda j: steps[j][0])
        surprise, step = steps[best]
        if turn and surprise <= SIGNIFICANT:
            break
        logs[best][: step.size] += step
        odds += step[places[best]]
    return logs


def _step(place: np.ndarray, open_: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """By how many deviations a part would explain more than by chance, and its Newton step."""
    slope, bend = np.bincount(place, open_), np.bincount(place, weight)
    bins = max(int((bend > 0).sum()) - 1, 1)
    gain = float((slope**2 / np.maximum(bend, 1e-9)).sum())
    return (gain - bins) / np.sqrt(2 * bins), slope / (bend + PRIOR / 4)
