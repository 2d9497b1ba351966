"""Strings that were found: candidates that the reports of whole strings bear out.

Which of very many strings are worth a test: how far their cells stand out, in bounded memory.
Strings of one length over a known alphabet, and the n-grams that they are cut into. What each
client of a group does: a number that its secret decides and its value does not.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from sfumato.core.tables import Table, described
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.telemetry.decoding.decode import decode
from sfumato.telemetry.decoding.significance import adjusted
from sfumato.telemetry.keyed_randomness import ClientKeys
from sfumato.telemetry.reports.counts import Counts
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.values import reported_column

__all__ = [
    "OTHER",
    "PADDING",
    "DiscoveredStrings",
    "Strings",
    "check_alphabet",
    "confirmed",
    "dictionary",
    "extended",
    "roles",
    "scores",
]

ENTRIES = 2**22  # cells of candidates that are looked up at a time
STRONG = 5.0  # standard errors above 0 of strings that are taken out before others are scored
STRONGEST = 256  # of these, at most

R = TypeVar("R")


class _StringDiscovery(Generic[R]):
    """What every way to find strings has: a client's own reports, and those of a column."""

    def encode(self, value: str, secret: bytes) -> R:
        """The reports of one client, the same for ever.

        Parameters
        ----------
        value : str
            TODO.
        secret : bytes
            TODO.

        Returns
        -------
        R
            The reports of one client, the same for ever.
        """
        return self.encode_many([value], secrets=np.frombuffer(secret, np.uint8)[np.newaxis])

    def encode_many(self, values: Any, *, secrets: Any = None, seed: int | None = None) -> R:
        """The reports of a column of strings, a client a row."""
        raise NotImplementedError


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


OTHER = "\N{REPLACEMENT CHARACTER}"  # stands for every letter that is not of the alphabet
PADDING = "\N{SYMBOL FOR NULL}"  # fills up a string that is too short


@dataclass(frozen=True)
class Strings:
    """All strings of `length` letters, cut into pieces of `ngram` letters each."""

    length: int
    ngram: int
    alphabet: str

    @property
    def positions(self) -> int:
        return self.length // self.ngram

    @cached_property
    def grams(self) -> list[str]:
        """Every n-gram there can be: letters, then nothing but padding."""
        letters = self.alphabet + OTHER
        found = []
        for filled in range(self.ngram, -1, -1):
            tail = PADDING * (self.ngram - filled)
            found += ["".join(each) + tail for each in product(letters, repeat=filled)]
        return found

    def padded(self, column: Any) -> tuple[list[str], np.ndarray]:
        """The distinct strings of a column as they are reported, and the place of every row."""
        values = reported_column(column)
        texts = [text.decode("utf-8", "replace") for text in values.texts()]
        known = set(self.alphabet)
        cut = [
            "".join(letter if letter in known else OTHER for letter in text[: self.length])
            for text in texts
        ]
        return [text.ljust(self.length, PADDING) for text in cut], values.codes

    def pieces(self, padded: list[str], position: int) -> list[str]:
        """The n-gram of every string at a position."""
        begin = position * self.ngram
        return [text[begin : begin + self.ngram] for text in padded]

    def joined(self, nodes: list[np.ndarray], cliques: np.ndarray) -> list[str]:
        """Whole strings, from the n-grams of each position that a row of cliques points to.

        A string that goes on after padding is none.
        """
        pieces = [
            np.array(self.grams, object)[held][cliques[:, at]] for at, held in enumerate(nodes)
        ]
        made = ["".join(row) for row in zip(*pieces, strict=True)]
        return [text for text in made if PADDING not in text.rstrip(PADDING)]

    def shown(self, padded: str) -> str:
        """A string without its padding."""
        return padded.rstrip(PADDING)


def dictionary(texts: list[str], codes: np.ndarray) -> pa.DictionaryArray:
    """A column of texts, each named once."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int64()), pa.array(texts, pa.string()))


def extended(prefixes: list[str], alphabet: str, letters: int) -> list[str]:
    """Every prefix with every choice of so many more letters; after padding there is only more."""
    for _ in range(letters):
        prefixes = [
            prefix + letter
            for prefix in prefixes
            for letter in (PADDING if prefix.endswith(PADDING) else alphabet + OTHER + PADDING)
        ]
    return prefixes


def check_alphabet(owner: str, letters: Any) -> None:
    if not isinstance(letters, str) or not letters or len(set(letters)) < len(letters):
        raise ValueError(f"{owner}: alphabet must be text of different letters.")
    if {OTHER, PADDING} & set(letters):
        raise ValueError(f"{owner}: alphabet must not hold the marks U+FFFD and U+2400.")


_NEAR = 2.0  # standard errors above 0 of a candidate alone: below this no test of many succeeds


@dataclass(frozen=True, eq=False)
class DiscoveredStrings(Table):
    """Strings that were found, the most frequent first, with their counts among all clients.

    Columns: value (a letter outside the alphabet is U+FFFD), estimate, std_error (of the noise and
    of which clients were asked), low, high, p_value. `candidates` is how many strings were tested,
    `reports` how many clients there were; `notes` says what a limit left out.
    """

    value: list[str]
    estimate: np.ndarray
    std_error: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_value: np.ndarray
    candidates: int
    reports: int
    level: float
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.value)

    def _columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _COLUMNS}

    def __repr__(self) -> str:
        found = {"rows": len(self), "candidates": self.candidates}
        return described(self, **found, reports=self.reports, level=self.level)

    def to_json(self) -> str:
        told: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in told.items()}
        return json.dumps(plain, ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        lines = [
            f"{value:<24}{count:>12.0f} ± {error:.0f}"
            for value, count, error in zip(self.value, self.estimate, self.std_error, strict=True)
        ]
        head = f"{len(self)} strings found among {self.candidates} candidates"
        return "\n".join([head, *lines, *self.notes])


_COLUMNS = ("value", "estimate", "std_error", "low", "high", "p_value")


def confirmed(
    strings: Strings,
    whole: Reports,
    candidates: list[str],
    clients: int,
    level: float,
    notes: list[str],
) -> DiscoveredStrings:
    """The candidates that the reports of whole strings bear out, counted among all clients."""
    empty = np.empty(0)
    value, count, error, chance = list[str](), empty, empty, empty
    counts = Counts(whole.scheme).update(whole)
    near = [candidates[at] for at in np.flatnonzero(scores(counts, candidates) >= _NEAR)]
    if near:
        told = decode(counts, near, level=level, correction="none")
        # Candidates that are not near have tests too, which all failed.
        every = np.append(told.p_value, np.ones(len(candidates) - len(near)))
        sure = adjusted(every, "benjamini-hochberg")[: len(near)] <= level
        order = np.argsort(-told.estimate, kind="stable")
        order = order[sure[order]]
        value = [strings.shown(near[at]) for at in order]
        count, error = _of_all(told.estimate[order], told.std_error[order], len(whole), clients)
        chance = told.p_value[order]
        notes = [*notes, *told.notes]
    reach = norm.isf(level / 2) * error
    low, high = np.clip([count - reach, count + reach], 0, clients)
    ends = (low, high, chance, len(candidates), clients, level, tuple(notes))
    return DiscoveredStrings(value, count, error, *ends)


def _of_all(
    count: np.ndarray, error: np.ndarray, asked: int, clients: int
) -> tuple[np.ndarray, np.ndarray]:
    """Counts among all clients, of whom those asked are a random part without repetition."""
    share = np.clip(count / asked, 0, 1)
    sampled = asked * share * (1 - share) * (1 - asked / clients)
    scale = clients / asked
    return scale * count, scale * np.sqrt(error**2 + sampled)


def roles(line: str, limit: int, rows: int, secrets: Any, seed: int | None) -> np.ndarray:
    """A uniform number below the limit for every client.

    With secrets it is a function of secret and line, so the same for ever; else it is drawn, from
    the seed in tests.
    """
    if secrets is None:
        source = None if seed is None else InsecureSeededSource(seed)
        return noise.uniform(limit, rows, source=source)
    if getattr(secrets, "dtype", None) != np.uint8 or secrets.ndim != 2 or len(secrets) != rows:
        raise ValueError(f"secrets must be a uint8 array of {rows} rows, one a client.")
    return ClientKeys(np.ascontiguousarray(secrets), "sfumato/telemetry/1/" + line).cohorts(limit)
