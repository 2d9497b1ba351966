"""Unknown dictionaries, letter by letter: frequent prefixes grow into the strings found."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Column
from sfumato.core.validation import Limit, between, checked, fraction, integer, positive
from sfumato.privacy.statement import PrivacyStatement
from sfumato.telemetry.discovery.screening import (
    DiscoveredStrings,
    Strings,
    _StringDiscovery,
    check_alphabet,
    confirmed,
    dictionary,
    extended,
    roles,
    scores,
)
from sfumato.telemetry.encoder import ReportEncoder
from sfumato.telemetry.reports.counts import Counts
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.schemes.base import together
from sfumato.telemetry.schemes.local_hashing import LocalHashing

__all__ = ["STEPS", "PrefixDiscovery", "PrefixReports", "whole_scheme"]

FIRST = 2**15  # prefixes that the first group may tell apart
CELLS = 2**22  # of prefixes in all cohorts, at most: they are only counted
NEAR = 2.0  # standard errors above 0 of a prefix that is extended: whole strings are the test
STEPS = 500  # in which the share of clients is counted that report whole strings
WHOLE_COHORTS, WHOLE_CELLS = 1024, 2**16  # of whole strings, at most; cells of all cohorts


@dataclass(frozen=True, eq=False)
class PrefixReports:
    """What clients sent: a column of reports for each length of prefix, the whole string last.

    Parameters
    ----------
    groups : tuple
        TODO.
    """

    groups: tuple[Reports, ...]

    def __repr__(self) -> str:
        return described(self, reports=len(self), groups=len(self.groups))

    def __len__(self) -> int:
        return sum(len(group) for group in self.groups)


@dataclass(frozen=True)
class PrefixDiscovery(_StringDiscovery[PrefixReports]):
    """Finds strings by their prefixes: those that are frequent are extended by every letter.

    Parameters
    ----------
    epsilon : float
        Above 0.
    length : int, default=6
        Of a string, 2 to 64: longer ones are cut and shorter ones padded.
    alphabet : str, default="abcdefghijklmnopqrstuvwxyz"
        Different letters: all others become one.
    whole_share : float, default=0.33
        Between 0 and 1, the part of the clients that report whole strings.
    metric : str, default=""
        Text that separates secrets, up to 180 bytes.

    Notes
    -----
    **Guarantee.** A client that reports one string is promised epsilon (replace-one): it sends one
    report, of the string or of one of its prefixes; which, its secret decides for ever, and the
    string has no part in it. Of 755,619 English words of up to 6 letters it found 20 and 21 at
    epsilon 2, 67 and 71 at 4, in 15 to 40 seconds, where n-grams found 9 and 10, 44 and 46 (two
    seeds each).

    References
    ----------
    .. [1] Wang, Li and Jha 2019, "Locally Differentially Private Heavy Hitter Identification",
       section 4. There the last group both chooses and counts; here what it says is a test with a
       level.

    Examples
    --------
    >>> words = PrefixDiscovery(epsilon=4, length=4, alphabet="abcdef")
    >>> reports = words.encode_many(["cafe", "face", "cafe"] * 5000, seed=1)
    >>> words.find(reports).value
    ['cafe', 'face']
    """

    epsilon: float
    length: int = 6
    alphabet: str = "abcdefghijklmnopqrstuvwxyz"
    whole_share: float = field(default=0.33, kw_only=True)
    metric: str = field(default="", kw_only=True)
    LIMITS: ClassVar[dict[str, Limit]] = {
        "epsilon": positive,
        "length": integer(2, 64),
        "whole_share": between(0, 1, above=True),
    }

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)
        check_alphabet("PrefixDiscovery", self.alphabet)
        self.statement()

    @cached_property
    def strings(self) -> Strings:
        """TODO."""
        return Strings(self.length, 1, self.alphabet)

    @cached_property
    def lengths(self) -> list[int]:
        """The letters that each group reports: as many at first as can be told apart."""
        letters = len(self.alphabet) + 2
        first = max(1, sum(letters**n <= FIRST for n in range(1, self.length)))
        return list(range(first, self.length + 1))

    @cached_property
    def schemes(self) -> list[LocalHashing]:
        """The scheme of each group."""
        names = [f"{self.metric}/{length}" for length in self.lengths[:-1]]
        return [
            *(whole_scheme(self.epsilon, name, CELLS) for name in names),
            whole_scheme(self.epsilon, f"{self.metric}/whole"),
        ]

    def statement(self) -> PrivacyStatement | str:
        """What a client is promised: one report at the whole epsilon, of a string or a prefix.

        Returns
        -------
        PrivacyStatement or str
            What a client is promised: one report at the whole epsilon, of a string or a prefix.
        """
        return together(self.schemes[-1:], f"a string of {self.metric!r} or one of its prefixes")

    def encode_many(
        self, values: Column, *, secrets: Any = None, seed: int | None = None
    ) -> PrefixReports:
        """The reports of a column of strings, a client a row.

        Parameters
        ----------
        values : array_like
            A column of text.
        secrets : object, default=None
            Uint8 (n, 16 or more), one a client, or none for a simulation in which every row is
            another client.
        seed : int or None, default=None
            For tests and figures only.

        Returns
        -------
        PrefixReports
            The reports of a column of strings, a client a row.
        """
        texts, codes = self.strings.padded(values)
        chosen = self._roles(codes.size, secrets, seed)
        groups = []
        for role, (length, scheme) in enumerate(zip(self.lengths, self.schemes, strict=True)):
            rows = np.flatnonzero(chosen == role)
            own = None if secrets is None else secrets[rows]
            client = ReportEncoder(scheme, seed=None if seed is None else 256 * seed + role)
            cut = dictionary([text[:length] for text in texts], codes[rows])
            groups.append(client.encode_many(cut, own))
        return PrefixReports(tuple(groups))

    def _roles(self, rows: int, secrets: Any, seed: int | None) -> np.ndarray:
        """The group of each client; the last reports whole strings."""
        others = len(self.lengths) - 1
        line = f"prefixes/{self.length}/{others}/{self.metric}"
        own = None if seed is None else 256 * seed + 255
        drawn = roles(line, STEPS * others, rows, secrets, own)
        last = drawn // others < round(STEPS * self.whole_share)
        return np.where(last, others, drawn % others)

    def find(
        self, reports: PrefixReports, *, level: float = 0.05, limit: int = 1000
    ) -> DiscoveredStrings:
        """The strings that clients have, and how many have them.

        Of the strings found, the part that no client has is about the level or less: candidates
        come from other clients than those whose reports test them, and the test is `decode`'s over
        what a first look left (measured, not proved: docs/telemetry.md).

        Parameters
        ----------
        reports : PrefixReports
            Of this discovery.
        level : float, default=0.05
            Between 0 and 1.
        limit : int, default=1000
            Of prefixes of a length that are extended, 1 to 20,000. `notes` says where it left some
            out.

        Returns
        -------
        DiscoveredStrings
            The strings that clients have, and how many have them.
        """
        level = fraction.check("PrefixDiscovery", "level", level)
        limit = integer(1, 20_000).check("PrefixDiscovery", "limit", limit)
        grown, notes = extended([""], self.alphabet, self.lengths[0]), []
        for length, group in zip(self.lengths, reports.groups[:-1], strict=False):
            kept, left_out = _frequent(group, grown, limit)
            if left_out:
                notes.append(f"{left_out} prefixes of {length} letters, the rarest, were left out.")
            grown = extended(kept, self.alphabet, 1)
        return confirmed(self.strings, reports.groups[-1], grown, len(reports), level, notes)


def _frequent(group: Reports, prefixes: list[str], limit: int) -> tuple[list[str], int]:
    """The prefixes that are near enough above 0, the most frequent first, and how many more."""
    found = scores(Counts(group.scheme).update(group), prefixes)
    order = np.argsort(-found, kind="stable")[: int((found >= NEAR).sum())]
    return [prefixes[at] for at in order[:limit]], max(0, order.size - limit)


def whole_scheme(epsilon: float, metric: str, cells: int = WHOLE_CELLS) -> LocalHashing:
    """Local hashing of strings: fewer cohorts where each has more cells."""
    made = LocalHashing(epsilon, WHOLE_COHORTS, metric=metric)
    return replace(made, cohorts=min(WHOLE_COHORTS, max(16, cells // made.cells)))
