"""Unknown dictionaries: frequent strings are found that nobody told the server to look for."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from sfumato._require import Limit, between, checked, fraction, positive, whole
from sfumato.privacy.statement import PrivacyStatement
from sfumato.telemetry._found import Found, confirmed
from sfumato.telemetry._grams import evidence
from sfumato.telemetry._graph import cliques
from sfumato.telemetry._roles import roles
from sfumato.telemetry._strings import Strings, check_alphabet, dictionary
from sfumato.telemetry._together import together
from sfumato.telemetry.encode import Encoder
from sfumato.telemetry.local_hashing import LocalHashing
from sfumato.telemetry.reports import Reports
from sfumato.telemetry.subset_selection import SubsetSelection

__all__ = ["STEPS", "Discovery", "DiscoveryReports", "whole_scheme"]

COHORTS, CELLS = 1024, 2**16  # of whole strings, at most; cells are those of all cohorts
GRAMS = 2**16  # that a position may have
EDGE = 1.0  # standard errors above 0 of n-grams that may go together: whole strings are the test
STEPS = 500  # in which the share of clients is counted that report whole strings


@dataclass(frozen=True, eq=False)
class DiscoveryReports:
    """What clients sent: whole strings by some; by the others, two n-grams of a pair of positions.

    `pairs[p]` holds the reports of the first and of the second n-gram of pair p, a row a client.
    """

    whole: Reports
    pairs: tuple[tuple[Reports, Reports], ...]

    def __len__(self) -> int:
        return len(self.whole) + sum(len(first) for first, _ in self.pairs)


@dataclass(frozen=True)
class Discovery:
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

    >>> words = Discovery(epsilon=4, length=4, alphabet="abcdef")
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
        "length": whole(2, 64),
        "ngram": whole(1, 4),
        "whole_share": between(0, 1, above=True),
    }

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)
        check_alphabet("Discovery", letters := self.alphabet)
        if self.length % self.ngram or not 2 <= self.length // self.ngram <= 16:
            raise ValueError(
                f"Discovery: length must be 2 to 16 times ngram, {self.ngram}, not {self.length}."
            )
        if (len(letters) + 2) ** self.ngram > GRAMS:
            raise ValueError(
                f"Discovery: ngram must leave at most {GRAMS} n-grams, which {self.ngram} does not."
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
        told = [
            together([self.whole], f"a whole string of {self.metric!r}"),
            together(self.pieces[:2], f"two n-grams of a string of {self.metric!r}"),
        ]
        return max(told, key=lambda one: one.epsilon if isinstance(one, PrivacyStatement) else 0)

    def encode(self, value: str, secret: bytes) -> DiscoveryReports:
        """The reports of one client, the same for ever."""
        held = np.frombuffer(secret, np.uint8)[np.newaxis]
        return self.encode_many([value], secrets=held)

    def encode_many(
        self, values: Any, *, secrets: Any = None, seed: int | None = None
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
            client = Encoder(scheme, seed=None if seed is None else 256 * seed + part)
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

    def find(self, reports: DiscoveryReports, *, level: float = 0.05, limit: int = 2000) -> Found:
        """The strings that clients have, and how many have them.

        Of the strings found, the part that no client has is about the level or less: candidates
        come from other clients than those whose reports test them, and the test is `decode`'s over
        what a first look left (measured, not proved: docs/telemetry.md).
        Parameters: reports, of this discovery; level, between 0 and 1; limit, of candidates that
        are tested, 1 to 20,000. `notes` says where a limit left some out.
        """
        level = fraction.check("Discovery", "level", level)
        limit = whole(1, 20_000).check("Discovery", "limit", limit)
        nodes, edges, rare = evidence(self.positions, reports.pairs)
        made = cliques(edges, EDGE, limit)
        candidates = self.strings.joined(nodes, made.nodes)
        notes = []
        if rare:
            notes.append(f"{rare} n-grams were left out, the rarest of positions with too many.")
        if made.left_out:
            told = "candidates, or parts of some, were left out: their n-grams go together least."
            notes.append(f"{made.left_out} {told}")
        return confirmed(self.strings, reports.whole, candidates, len(reports), level, notes)


def whole_scheme(epsilon: float, metric: str, cells: int = CELLS) -> LocalHashing:
    """Local hashing of strings: fewer cohorts where each has more cells."""
    made = LocalHashing(epsilon, COHORTS, metric=metric)
    return replace(made, cohorts=min(COHORTS, max(16, cells // made.cells)))
