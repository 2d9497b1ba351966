"""Screening and testing of candidate strings, n-grams of strings, and the group of each client."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import fields as fields_of
from functools import cached_property
from itertools import product
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.core.tables import Table, described
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.telemetry.decoding.decode import decoding_task
from sfumato.telemetry.decoding.methods import answered
from sfumato.telemetry.decoding.significance import adjusted
from sfumato.telemetry.discovery.selective_intervals import (
    selection_thresholds,
    selective_intervals,
)
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

ENTRIES = 2**22  # cells of candidates that are computed at a time
HELD = 2**27  # of these, at most, are held for a second pass: 256 MiB
STRONG = 5.0  # standard errors above 0 of strings that are subtracted before others are scored
STRONGEST = 256  # number of these, at most

R = TypeVar("R")


class _StringDiscovery(Generic[R]):
    """Base of string discoveries: reports of one client, and of a column."""

    def encode(self, value: str, secret: bytes) -> R:
        """Encode the string of one client.

        Parameters
        ----------
        value : str
            String to report.
        secret : bytes
            At least 16 random bytes that never leave the client.

        Returns
        -------
        PrefixReports
            Reports of the client. Their permanent responses never change.
        """
        return self.encode_many([value], secrets=np.frombuffer(secret, np.uint8)[np.newaxis])

    def encode_many(self, values: Any, *, secrets: Any = None, seed: int | None = None) -> R:
        """Encode a column of strings, one client per row."""
        raise NotImplementedError


def scores(counts: Counts, candidates: list[str]) -> np.ndarray:
    """Return by how many standard errors the marks in each candidate's cells exceed expectation.

    The error is that of a string with random cells, whatever made the marks uneven. Strong strings
    raise the cells of others too, so they are fitted and subtracted first, and added back for their
    own score. Schemes have one cell per string and cohort.
    """
    residual = counts.cells - counts.reports[:, np.newaxis] / counts.scheme.cells
    cells = _CandidateCells(counts.scheme, candidates)
    found = _totals(residual, cells) / _std_error(residual)
    strong = np.argsort(-found, kind="stable")[:STRONGEST]
    strong = strong[found[strong] >= STRONG]
    if not strong.size:
        return np.asarray(found)
    own = _take_out(residual, counts.scheme.members([candidates[at] for at in strong])[:, :, 0])
    found = _totals(residual, cells)
    found[strong] += own
    return np.asarray(found / _std_error(residual))


def _take_out(residual: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Subtract the least-squares fit of some strings in place; return the own total of each."""
    cohorts, uniform = len(residual), 1 / residual.shape[1]
    rows = np.arange(cohorts)
    same = np.array([(cells == own).sum(1) for own in cells]) - uniform * cohorts
    fitted = np.linalg.lstsq(same, residual[rows, cells].sum(1), rcond=1e-6)[0]
    for own, count in zip(cells, fitted, strict=True):
        residual[rows, own] -= count
    residual += fitted.sum() * uniform
    return np.asarray(fitted * (1 - uniform) * cohorts)


def _std_error(residual: np.ndarray) -> float:
    """Return the standard error of a total over random cells."""
    return float(np.sqrt(max((residual**2).mean(1).sum(), 1e-300)))


class _CandidateCells:
    """Blocks of the cells (n, cohorts) of candidates, hashed once if all of them fit in memory."""

    def __init__(self, scheme: Any, candidates: list[str]) -> None:
        self._scheme, self._candidates = scheme, candidates
        self._held: list[np.ndarray] | None = None

    def __iter__(self) -> Iterator[np.ndarray]:
        if self._held is None and len(self._candidates) * self._scheme.cohorts <= HELD:
            self._held = list(self._blocks())
        return self._blocks() if self._held is None else iter(self._held)

    def _blocks(self) -> Iterator[np.ndarray]:
        step = max(1, ENTRIES // self._scheme.cohorts)
        for begin in range(0, len(self._candidates), step):
            part = self._candidates[begin : begin + step]
            # A scheme has at most 65536 cells.
            yield self._scheme.members(part)[:, :, 0].astype(np.uint16)


def _totals(residual: np.ndarray, cells: _CandidateCells) -> np.ndarray:
    """Return the sum of residuals over the cells of each candidate."""
    rows = np.arange(len(residual))
    parts = [residual[rows, block].sum(1) for block in cells]
    return np.concatenate(parts) if parts else np.empty(0)


OTHER = "\N{REPLACEMENT CHARACTER}"  # stands for every letter that is not of the alphabet
PADDING = "\N{SYMBOL FOR NULL}"  # fills up a string that is too short


@dataclass(frozen=True)
class Strings:
    """All strings of `length` letters, cut into n-grams of `ngram` letters each."""

    length: int
    ngram: int
    alphabet: str

    @property
    def positions(self) -> int:
        """Number of n-grams of a string."""
        return self.length // self.ngram

    @cached_property
    def grams(self) -> list[str]:
        """All possible n-grams: letters, then only padding."""
        letters = self.alphabet + OTHER
        found = []
        for filled in range(self.ngram, -1, -1):
            tail = PADDING * (self.ngram - filled)
            found += ["".join(each) + tail for each in product(letters, repeat=filled)]
        return found

    def padded(self, column: Any) -> tuple[list[str], np.ndarray]:
        """Return the distinct strings of a column as they are reported, and each row's code."""
        values = reported_column(column)
        texts = [text.decode("utf-8", "replace") for text in values.texts()]
        known = set(self.alphabet)
        cut = [
            "".join(letter if letter in known else OTHER for letter in text[: self.length])
            for text in texts
        ]
        return [text.ljust(self.length, PADDING) for text in cut], values.codes

    def pieces(self, padded: list[str], position: int) -> list[str]:
        """Return the n-gram of every string at a position."""
        begin = position * self.ngram
        return [text[begin : begin + self.ngram] for text in padded]

    def joined(self, nodes: list[np.ndarray], cliques: np.ndarray) -> list[str]:
        """Return full strings, from the n-grams of each position that a row of cliques points to.

        Strings with letters after padding are left out.
        """
        pieces = [
            np.array(self.grams, object)[node][cliques[:, at]] for at, node in enumerate(nodes)
        ]
        made = ["".join(row) for row in zip(*pieces, strict=True)]
        return [text for text in made if PADDING not in text.rstrip(PADDING)]

    def shown(self, padded: str) -> str:
        """Return a string without its padding."""
        return padded.rstrip(PADDING)


def dictionary(texts: list[str], codes: np.ndarray) -> pa.DictionaryArray:
    """Return a dictionary-encoded column of texts."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int64()), pa.array(texts, pa.string()))


def extended(prefixes: list[str], alphabet: str, letters: int) -> list[str]:
    """Return every prefix with every choice of this number of letters; padding extends padding."""
    for _ in range(letters):
        prefixes = [
            prefix + letter
            for prefix in prefixes
            for letter in (PADDING if prefix.endswith(PADDING) else alphabet + OTHER + PADDING)
        ]
    return prefixes


def check_alphabet(owner: str, letters: Any) -> None:
    """Raise ValueError if an alphabet is not text of distinct letters without the marks."""
    if not isinstance(letters, str) or not letters or len(set(letters)) < len(letters):
        raise ValueError(f"{owner}: alphabet must be text of different letters.")
    if {OTHER, PADDING} & set(letters):
        raise ValueError(f"{owner}: alphabet must not contain the marks U+FFFD and U+2400.")


_NEAR = 2.0  # standard errors above 0 of a candidate alone: below this no test of many succeeds


@dataclass(frozen=True, eq=False)
class DiscoveredStrings(Table):
    """Strings that were found, the most frequent first, with their counts among all clients.

    Columns: value (a letter outside the alphabet is U+FFFD), estimate, std_error (of the noise and
    of the sampling of clients that report full strings), low, high, p_value. `candidates` is how
    many strings were tested, `reports` the number of clients; `notes` says what a limit left out.
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
        """Write everything as JSON."""
        fields: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields_of(self)}
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in fields.items()}
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
    full_reports: Reports,
    candidates: list[str],
    clients: int,
    level: float,
    notes: list[str],
) -> DiscoveredStrings:
    """Test candidates with the reports of full strings; return those detected, for all clients."""
    counts = Counts(full_reports.scheme).update(full_reports)
    near = [candidates[at] for at in np.flatnonzero(scores(counts, candidates) >= _NEAR)]
    found, p_value, value, notes = np.empty((2, 0)), np.empty(0), list[str](), list(notes)
    if near and len(counts):
        task = decoding_task(counts, near, True)
        answer = answered(task, counts, "weighted")
        # Candidates that were screened out have tests too, which all failed.
        every = np.append(answer.p_value, np.ones(len(candidates) - len(near)))
        detected = adjusted(every, "benjamini-hochberg")[: len(near)] <= level
        order = np.argsort(-answer.unconstrained, kind="stable")
        order = order[detected[order]]
        value = [strings.shown(near[at]) for at in order]
        found = _of_all(answer.unconstrained[order], answer.error[order], len(counts), clients)
        p_value = answer.p_value[order]
        notes += task.notes
    count, error = found
    thresholds = selection_thresholds(count, p_value, max(len(candidates), 1), level)
    ends = selective_intervals(count, error, thresholds, level)
    estimate, low, high = np.clip(ends, 0, clients)
    order = np.argsort(-estimate, kind="stable")
    value = [value[at] for at in order]
    return DiscoveredStrings(
        value,
        estimate[order],
        error[order],
        low[order],
        high[order],
        p_value[order],
        len(candidates),
        clients,
        level,
        tuple(notes),
    )


def _of_all(count: np.ndarray, error: np.ndarray, reporting: int, clients: int) -> np.ndarray:
    """Scale counts to all clients, of whom the reporting ones are a sample without replacement."""
    fraction = np.clip(count / reporting, 0, 1)
    sampling_variance = reporting * fraction * (1 - fraction) * (1 - reporting / clients)
    scale = clients / reporting
    return np.stack([scale * count, scale * np.sqrt(error**2 + sampling_variance)])


def roles(line: str, limit: int, rows: int, secrets: Any, seed: int | None) -> np.ndarray:
    """Return a uniform number below the limit for every client.

    With secrets it is a function of secret and line, so it never changes; otherwise it is drawn,
    from the seed in tests.
    """
    if secrets is None:
        source = None if seed is None else InsecureSeededSource(seed)
        return noise.uniform(limit, rows, source=source)
    if getattr(secrets, "dtype", None) != np.uint8 or secrets.ndim != 2 or len(secrets) != rows:
        raise ValueError(f"secrets must be a uint8 array of {rows} rows, one per client.")
    return ClientKeys(np.ascontiguousarray(secrets), "sfumato/telemetry/1/" + line).cohorts(limit)
