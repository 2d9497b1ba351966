"""Discovery by n-grams (Fanti, Pihur and Erlingsson 2016), which prefixes are measured against.

Which n-grams are frequent at a position, and which go together at two: unbiased, with errors.
Candidate strings: n-grams that go together at every two positions, as cliques of a graph.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Column
from sfumato.core.validation import Limit, between, checked, fraction, integer, positive
from sfumato.privacy.statement import PrivacyStatement
from sfumato.telemetry.decoding.report_likelihood import usable
from sfumato.telemetry.discovery.prefixes import STEPS, whole_scheme
from sfumato.telemetry.discovery.screening import (
    DiscoveredStrings,
    Strings,
    _StringDiscovery,
    check_alphabet,
    confirmed,
    dictionary,
    roles,
)
from sfumato.telemetry.encoder import ReportEncoder
from sfumato.telemetry.reports.counts import Counts
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.schemes.base import together
from sfumato.telemetry.schemes.local_hashing import LocalHashing
from sfumato.telemetry.schemes.subset_selection import SubsetSelection

__all__ = [
    "Cliques",
    "DiscoveryReports",
    "NGramDiscovery",
    "cliques",
    "evidence",
]

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
        sum(len(held) - len(retained) for held, retained in zip(frequent, nodes, strict=True)),
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


@dataclass(frozen=True)
class Cliques:
    """One row a clique, the node of each position; and how many more the limit left out."""

    nodes: np.ndarray
    left_out: int


def cliques(scores: dict[tuple[int, int], np.ndarray], least: float, limit: int) -> Cliques:
    """All choices of one node a position whose every pair scores at least `least`.

    Guarantee: never more than `limit` are held; beyond it, those with the highest sum of scores go
    on, and the rest is counted.
    Parameters: scores, for positions i < j a table of the nodes of i by those of j.

    >>> score = np.array([[3.0, 0.0], [0.0, 3.0]])
    >>> cliques({(0, 1): score, (0, 2): score, (1, 2): score}, 2.0, 10).nodes.tolist()
    [[0, 0, 0], [1, 1, 1]]
    """
    last = max(j for _, j in scores)
    nodes = np.arange(scores[0, 1].shape[0])[:, None]
    sums, left_out = np.zeros(len(nodes)), 0
    for position in range(1, last + 1):
        nodes, sums = _extended(nodes, sums, scores, position, least)
        if len(nodes) > limit:
            best = np.sort(np.argsort(-sums, kind="stable")[:limit])
            left_out += len(nodes) - limit
            nodes, sums = nodes[best], sums[best]
    return Cliques(nodes, left_out)


def _extended(
    nodes: np.ndarray,
    sums: np.ndarray,
    scores: dict[tuple[int, int], np.ndarray],
    position: int,
    least: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Every clique with every node of the next position that fits all its nodes."""
    rows = [scores[i, position][nodes[:, i]] for i in range(position)]
    fits = np.logical_and.reduce([row >= least for row in rows])
    clique, node = np.nonzero(fits)
    added = np.sum([row[clique, node] for row in rows], axis=0)
    return np.column_stack([nodes[clique], node]), sums[clique] + added


GRAMS = 2**16  # that a position may have
EDGE = 1.0  # standard errors above 0 of n-grams that may go together: whole strings are the test


@dataclass(frozen=True, eq=False)
class DiscoveryReports:
    """What clients sent: whole strings by some; by the others, two n-grams of a pair of positions.

    `pairs[p]` holds the reports of the first and of the second n-gram of pair p, a row a client.
    """

    whole: Reports
    pairs: tuple[tuple[Reports, Reports], ...]

    def __repr__(self) -> str:
        return described(self, reports=len(self), whole=len(self.whole), pairs=len(self.pairs))

    def __len__(self) -> int:
        return len(self.whole) + sum(len(first) for first, _ in self.pairs)


@dataclass(frozen=True)
class NGramDiscovery(_StringDiscovery[DiscoveryReports]):
    """Finds strings by their n-grams: which go together, and which whole strings that makes.

    Guarantee: a client that reports one string is promised epsilon (replace-one): it sends either
    one report of the whole string, or two reports, each of half of epsilon, of its n-grams at two
    positions; which, its secret decides for ever, and the string has no part in it.
    How frequent a string must be falls as one over the root of the clients. Of 755,619 English
    words of up to 6 letters, every one with a share above 1.5 % was found at epsilon 2, above
    0.55 % at 4 and above 0.27 % at 6; `find` took 2 to 40 seconds (one run each).
    Parameters: epsilon, above 0; length, of a string: longer ones are cut and shorter ones padded;
    ngram, letters of a piece, which divides length into 2 to 16 pieces; alphabet, different
    letters: all others become one; whole_share, between 0 and 1, the part of the clients that
    report whole strings; metric, text that separates secrets, up to 180 bytes.

    >>> words = NGramDiscovery(epsilon=4, length=4, alphabet="abcdef")
    >>> reports = words.encode_many(["cafe", "face", "cafe"] * 5000, seed=1)
    >>> words.find(reports).value
    ['cafe', 'face']

    Fanti, Pihur and Erlingsson 2016, "Building a RAPPOR with the Unknown", section IV. There every
    client sends all three reports and splits epsilon among them; to divide the clients instead
    leaves less noise: at epsilon 4 a pair of n-grams has about half the standard error.
    """

    epsilon: float
    length: int = 6
    ngram: int = 2
    alphabet: str = "abcdefghijklmnopqrstuvwxyz"
    whole_share: float = field(default=0.2, kw_only=True)
    metric: str = field(default="", kw_only=True)
    LIMITS: ClassVar[dict[str, Limit]] = {
        "epsilon": positive,
        "length": integer(2, 64),
        "ngram": integer(1, 4),
        "whole_share": between(0, 1, above=True),
    }

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)
        check_alphabet("NGramDiscovery", letters := self.alphabet)
        if self.length % self.ngram or not 2 <= self.length // self.ngram <= 16:
            raise ValueError(
                f"NGramDiscovery: length must be 2 to 16 times ngram, {self.ngram}, "
                f"not {self.length}."
            )
        if (len(letters) + 2) ** self.ngram > GRAMS:
            raise ValueError(
                f"NGramDiscovery: ngram must leave at most {GRAMS} n-grams, which {self.ngram} "
                "does not."
            )
        self.statement()

    @cached_property
    def strings(self) -> Strings:
        return Strings(self.length, self.ngram, self.alphabet)

    @cached_property
    def positions(self) -> list[tuple[int, int]]:
        """The pairs of positions of which a client reports one."""
        return list(combinations(range(self.strings.positions), 2))

    @cached_property
    def whole(self) -> LocalHashing:
        """The scheme of whole strings."""
        return whole_scheme(self.epsilon, f"{self.metric}/whole")

    @cached_property
    def pieces(self) -> list[SubsetSelection]:
        """The scheme of the n-gram at each position."""
        return [
            SubsetSelection(
                self.epsilon / 2, tuple(self.strings.grams), metric=f"{self.metric}/{p}"
            )
            for p in range(self.strings.positions)
        ]

    def statement(self) -> PrivacyStatement | str:
        """What a client is promised, whether it reports a whole string or two n-grams.

        Two halves cost no less than one whole up to rounding, and epsilon bounds both.
        """
        result = [
            together([self.whole], f"a whole string of {self.metric!r}"),
            together(self.pieces[:2], f"two n-grams of a string of {self.metric!r}"),
        ]
        return max(result, key=lambda one: one.epsilon if isinstance(one, PrivacyStatement) else 0)

    def encode_many(
        self, values: Column, *, secrets: Any = None, seed: int | None = None
    ) -> DiscoveryReports:
        """The reports of a column of strings, a client a row.

        Parameters: values, a column of text; secrets, uint8 (n, 16 or more), one a client, or none
        for a simulation in which every row is another client; seed, for tests and figures only.
        """
        texts, codes = self.strings.padded(values)
        chosen = self._roles(codes.size, secrets, seed)

        def sent(scheme: Any, texts: list[str], role: int, part: int) -> Reports:
            rows = np.flatnonzero(chosen == role)
            own = None if secrets is None else secrets[rows]
            client = ReportEncoder(scheme, seed=None if seed is None else 256 * seed + part)
            return client.encode_many(dictionary(texts, codes[rows]), own)

        pairs = []
        for role, (i, j) in enumerate(self.positions):
            first = sent(self.pieces[i], self.strings.pieces(texts, i), role, 2 * role + 1)
            second = sent(self.pieces[j], self.strings.pieces(texts, j), role, 2 * role + 2)
            pairs.append((first, second))
        return DiscoveryReports(sent(self.whole, texts, -1, 0), tuple(pairs))

    def _roles(self, rows: int, secrets: Any, seed: int | None) -> np.ndarray:
        """The pair of positions that each client reports, or -1: the whole string."""
        pairs = len(self.positions)
        line = f"discovery/{self.length}/{self.ngram}/{self.metric}"
        own = None if seed is None else 256 * seed + 255
        drawn = roles(line, STEPS * pairs, rows, secrets, own)
        return np.where(drawn // pairs < round(STEPS * self.whole_share), -1, drawn % pairs)

    def find(
        self, reports: DiscoveryReports, *, level: float = 0.05, limit: int = 2000
    ) -> DiscoveredStrings:
        """The strings that clients have, and how many have them.

        Of the strings found, the part that no client has is about the level or less: candidates
        come from other clients than those whose reports test them, and the test is `decode`'s over
        what a first look left (measured, not proved: docs/telemetry.md).
        Parameters: reports, of this discovery; level, between 0 and 1; limit, of candidates that
        are tested, 1 to 20,000. `notes` says where a limit left some out.
        """
        level = fraction.check("NGramDiscovery", "level", level)
        limit = integer(1, 20_000).check("NGramDiscovery", "limit", limit)
        nodes, edges, rare = evidence(self.positions, reports.pairs)
        made = cliques(edges, EDGE, limit)
        candidates = self.strings.joined(nodes, made.nodes)
        notes = []
        if rare:
            notes.append(f"{rare} n-grams were left out, the rarest of positions with too many.")
        if made.left_out:
            result = "candidates, or parts of some, were left out: their n-grams go together least."
            notes.append(f"{made.left_out} {result}")
        return confirmed(self.strings, reports.whole, candidates, len(reports), level, notes)
