"""Which n-grams are frequent at a position, and which go together at two: unbiased, with errors.

A report of known categories marks cell i with the chance `high` if the client has value i, else
`low`. So (mark - low) / (high - low) is 1 in the mean for a client that has it and 0 for one that
has not, and the mean of the product of two such numbers, one of each n-gram, is the part of the
clients that have both. For tables of thousands of cells this costs two products of matrices and
has a known error, where the table of most likelihood would cost hundreds and come without one.
That table is closer to the truth at cells that are almost empty, since none falls below 0.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from sfumato.telemetry._evidence import usable
from sfumato.telemetry.aggregate import Counts
from sfumato.telemetry.reports import Reports

__all__ = ["evidence"]

_NODE = 2.0  # standard errors above 0 of an n-gram that is looked at
_NODES = 128  # n-grams of a position, at most
_ROWS = 8192
Two = tuple[Reports, Reports]


def evidence(
    positions: list[tuple[int, int]], pairs: Sequence[Two]
) -> tuple[list[np.ndarray], dict[tuple[int, int], np.ndarray], int]:
    """For each position its frequent n-grams; for each two the scores of all their pairs.

    A score is an unbiased share over its standard error. The number is that of frequent n-grams
    which the limit of a position left out.
    """
    count = 1 + max(j for _, j in positions)
    frequent = [
        _frequent(
            [
                two[places.index(at)]
                for places, two in zip(positions, pairs, strict=True)
                if at in places
            ]
        )
        for at in range(count)
    ]
    nodes = [held[:_NODES] for held in frequent]
    edges = {
        (i, j): _scores(two, nodes[i], nodes[j])
        for (i, j), two in zip(positions, pairs, strict=True)
    }
    return (
        nodes,
        edges,
        sum(len(held) - len(kept) for held, kept in zip(frequent, nodes, strict=True)),
    )


def _frequent(reports: list[Reports]) -> np.ndarray:
    """The cells marked more often than chance would, the most frequent first."""
    counts = Counts(reports[0].scheme)
    for batch in reports:
        counts.update(batch)
    low, clients = float(counts.scheme.low), counts.reports.sum()
    spread = np.sqrt(max(clients, 1) * low * (1 - low))
    score = (counts.cells.sum(axis=0) - clients * low) / spread
    best = np.argsort(-score, kind="stable")
    return np.asarray(best[score[best] >= _NODE])


def _scores(two: Two, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Mean of the products of both sides' unbiased marks, over its standard error."""
    total, clients = np.zeros((len(first), len(second))), 0
    square = np.zeros_like(total)
    for x, y in _blocks(two, first, second):
        total += x.T @ y
        square += (x**2).T @ (y**2)
        clients += len(x)
    mean = total / max(clients, 1)
    variance = np.maximum(square / max(clients, 1) - mean**2, 1e-12)
    return np.asarray(mean * np.sqrt(clients / variance))


def _blocks(
    two: Two, first: np.ndarray, second: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    fits = np.flatnonzero(usable(two[0]) & usable(two[1]))
    for start in range(0, len(fits), _ROWS):
        rows = fits[start : start + _ROWS]
        yield _unbiased(two[0].take(rows), first), _unbiased(two[1].take(rows), second)


def _unbiased(reports: Reports, cells: np.ndarray) -> np.ndarray:
    high, low = float(reports.scheme.high), float(reports.scheme.low)
    marks = np.unpackbits(reports.payload, axis=1, bitorder="little")[:, cells]
    return ((marks - np.float32(low)) / np.float32(high - low)).astype(np.float32)
