"""The published RAPPOR client: the same Bloom bits and permanent responses as google/rappor."""

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from hashlib import md5
from typing import Any, ClassVar

import numpy as np

from sfumato.core.typing import Column
from sfumato.core.validation import checked, integer
from sfumato.errors import ParameterError
from sfumato.kernels.telemetry import responses
from sfumato.privacy.accounting.losses import Flips, Loss
from sfumato.privacy.random_source import Source
from sfumato.privacy.statement import PrivacyStatement
from sfumato.telemetry.keyed_randomness import Stream, keyed, midstates
from sfumato.telemetry.schemes.base import Scheme
from sfumato.telemetry.schemes.cells import in_all_cohorts
from sfumato.telemetry.schemes.rappor import GRID, Rappor, cost_of_report, sent
from sfumato.telemetry.values import Values, reported_column, value_column

__all__ = ["GoogleRappor"]

MD5_BYTES = 16
STEPS = 128  # f runs in steps of 1 / 128
BLOCK = 1 << 14  # rows noised at a time
UNSEPARATED = (
    ". Responses by `permanent` are those of the published client, whose noise is not separated by "
    "metric or parameters: give every metric a secret of its own there"
)


@dataclass(frozen=True, repr=False)
class GoogleRappor(Scheme):
    """RAPPOR as google/rappor's Python client runs it, to read and to continue its collections.

    github.com/google/rappor, client/python/rappor.py.

    bits k, 1 to 32; hashes h, 1 to 16, of which some may fall on one bit;

    Parameters
    ----------
    bits : int, default=16
        TODO.
    hashes : int, default=2
        TODO.
    cohorts : int, default=64
        1 to 65536; f from 0 to 127/128; p below q; metric. A value has fewer cells than hashes
        where two fall together, and for k that is no power of two the first cells are a little
        likelier: `Rappor` has neither flaw.
    metric : str, default=""
        TODO.
    f : float
        TODO.
    p : float, default=0.0
        TODO.
    q : float, default=1.0
        TODO.

    Notes
    -----
    **Guarantee.** The Bloom bits of a value are the first h bytes of MD5(cohort, value), each
    modulo k; `permanent` noises them by HMAC-SHA-256(secret, Bloom bits), a byte a cell: where its
    upper seven bits are below 128 f, the lowest bit is sent instead. So f runs as the next multiple
    of 1/128, `f_runs`, and both epsilons are computed from that; p and q run as multiples of
    2**-16. A `ReportEncoder` draws the same noise by its own rule, which separates metrics.

    Examples
    --------
    >>> scheme = GoogleRappor(bits=16, hashes=2, cohorts=4, f=0.3, p=0.5, q=0.75)
    >>> scheme.members(["apple"]).tolist(), scheme.f_runs
    ([[[4, 0], [9, -1], [5, 1], [14, 13]]], Fraction(39, 128))
    """

    bits: int = 16
    hashes: int = 2
    cohorts: int = 64
    f: float = field(kw_only=True)
    p: float = field(default=0.0, kw_only=True)
    q: float = field(default=1.0, kw_only=True)
    name: ClassVar[str] = "published"
    LIMITS: ClassVar[dict[str, Any]] = {**Rappor.LIMITS, "bits": integer(1, 32)}

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self, self.LIMITS)
        if self.f_runs == 1:
            raise ValueError(f"GoogleRappor: f must be at most 127/128, not {self.f!r}.")
        _ = self._twin  # checks p and q

    @property
    def f_runs(self) -> Fraction:
        """The share of bits that are replaced: f, rounded up to a multiple of 1/128."""
        return Fraction(math.ceil(self.f * STEPS), STEPS)

    @property
    def cells(self) -> int:
        """TODO."""
        return self.bits

    @property
    def high(self) -> Fraction:
        """TODO."""
        return sent(GRID - self._flip, self._twin.p16, self._twin.q16)

    @property
    def low(self) -> Fraction:
        """TODO."""
        return sent(self._flip, self._twin.p16, self._twin.q16)

    @property
    def epsilon_permanent(self) -> float:
        """Of all reports of one value, for the f that runs; infinite where f is 0."""
        return self.loss().epsilon if self.f_runs else math.inf

    @property
    def epsilon_one(self) -> float:
        """Of one report, for the f that runs."""
        return cost_of_report(self._flip, self._twin.p16, self._twin.q16, self.hashes)

    def line(self) -> str:
        sizes = f"{self.bits}/{self.hashes}/{self.cohorts}/{int(self.f_runs * STEPS)}"
        twin = self._twin
        return f"sfumato/telemetry/1/published/{sizes}/{twin.p16}/{twin.q16}/{self.metric}"

    def hashed(self, values: Column) -> np.ndarray:
        """The cells as they are hashed, int32 (n, cohorts, hashes): some may stand twice.

        Parameters
        ----------
        values : array_like
            TODO.

        Returns
        -------
        ndarray
            The cells as they are hashed, int32 (n, cohorts, hashes): some may stand twice.
        """
        held = value_column(values)
        table = self._hashed(held, *in_all_cohorts(held, self.cohorts, self.hashes))
        return np.asarray(table.reshape(-1, self.cohorts, self.hashes)[held.codes])

    def members(self, values: Column) -> np.ndarray:
        return without_repeats(self.hashed(values))

    def own_members(self, values: Values, cohorts: np.ndarray) -> np.ndarray:
        return without_repeats(self._hashed(values, values.codes, cohorts))

    def permanent(self, secrets: Any, cohorts: Any, values: Column) -> np.ndarray:
        """The permanent responses of the published client: uint8 payloads, one a row.

        Parameters
        ----------
        secrets : object
            Bytes of one client or uint8 (n, length), one a row.
        cohorts : object
            A number or a column.
        values : array_like
            Text or integers.

        Returns
        -------
        ndarray
            The permanent responses of the published client: uint8 payloads, one a row.
        """
        held = reported_column(values)
        rows = held.codes.size
        members = self.own_members(held, self._column(cohorts, rows))
        return self.respond(_BloomKeyed(_table(secrets, rows), self._bloom(members)), members)

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """Cell i is replaced by bit 0 of byte i of the row's stream where the rest is below 128 f.

        Bytes: of the words in order, the highest first.

        Parameters
        ----------
        stream : Stream
            TODO.
        members : ndarray
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        out = self._bloom(members)
        below = int(self.f_runs * STEPS)
        for begin in range(0, len(out), BLOCK):
            part = out[begin : begin + BLOCK]
            words = stream.words(np.arange(begin, begin + len(part)), 0, -(-self.bits // 4))
            drawn = words.astype(">u4").view(np.uint8)[:, : self.bits]
            masked = np.packbits(drawn >> 1 < below, axis=1, bitorder="little")
            coins = np.packbits(drawn & 1, axis=1, bitorder="little")
            part[...] = (part & ~masked) | (coins & masked)
        return out

    def instant(self, payload: np.ndarray, source: Source) -> np.ndarray:
        return self._twin.instant(payload, source)

    def loss(self) -> Loss:
        return Flips(self.f_runs / 2, 2 * self.hashes, relation="replace")

    def sentence(self) -> str:
        told = f"published RAPPOR, {self.hashes} hashes to {self.bits} bits, {self.cohorts} cohorts"
        told += f", each bit turned for ever with probability {float(self.f_runs / 2):.6g}"
        if not self._twin.one_time:
            told += f", then sent as 1 with {self.q:.6g} if 1 and {self.p:.6g} if 0"
        return told + f", metric {self.metric!r}"

    def statement(self) -> PrivacyStatement | str:
        told = super().statement()
        return told if isinstance(told, str) else replace(told, covers=told.covers + UNSEPARATED)

    @property
    def _flip(self) -> int:
        return int(self.f_runs / 2 * GRID)

    @cached_property
    def _twin(self) -> Rappor:
        """Parameters of ours with the same p and q, which make the instantaneous response."""
        try:
            return Rappor(self.bits, 1, 1, f=0, p=self.p, q=self.q)
        except ParameterError as error:
            raise error.renamed("GoogleRappor") from None

    def _column(self, cohorts: Any, rows: int) -> np.ndarray:
        """The cohort of every row, from one number or a column of them."""
        given = np.asarray(cohorts)
        integer = given.dtype.kind in "iu" if given.size else True
        integer = integer and given.shape in ((), (rows,))
        if not integer or not ((given >= 0) & (given < self.cohorts)).all():
            raise ValueError(
                f"GoogleRappor: cohorts must be an integer from 0 to {self.cohorts - 1}, or a "
                f"column of {rows} of them, one a value."
            )
        return np.full(rows, given, np.int32)

    def _hashed(self, values: Values, codes: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
        """The first bytes of MD5 of the cohort in four bytes and the text, once for each pair.

        Collisions of MD5 can be made at will, so nothing here is kept secret by it.
        """
        pairs, rows = np.unique(
            codes.astype(np.int64) * self.cohorts + cohorts, return_inverse=True
        )
        text, offsets = values.data.tobytes(), values.offsets.tolist()
        code, cohort = (each.tolist() for each in np.divmod(pairs, self.cohorts))
        digests = b"".join(
            md5(c.to_bytes(4) + text[offsets[v] : offsets[v + 1]], usedforsecurity=False).digest()
            for v, c in zip(code, cohort, strict=True)
        )
        first = np.frombuffer(digests, np.uint8).reshape(-1, MD5_BYTES)[:, : self.hashes]
        return np.asarray((first % self.bits).astype(np.int32)[rows])

    def _bloom(self, members: np.ndarray) -> np.ndarray:
        out = np.zeros((members.shape[0], self.payload_bytes), np.uint8)
        responses.toggle(self.inside(members), out)
        return out


def without_repeats(cells: np.ndarray) -> np.ndarray:
    """The cells of the last axis, -1 for one that stands earlier in its row."""
    out = cells.copy()
    for j in range(1, cells.shape[-1]):
        out[..., j][(cells[..., :j] == cells[..., j : j + 1]).any(axis=-1)] = -1
    return out


class _BloomKeyed:
    """The stream of every row: HMAC-SHA-256 of its Bloom bits as four bytes, highest first."""

    def __init__(self, secrets: np.ndarray, bloom: np.ndarray) -> None:
        self._keys = midstates(secrets)
        low_first = np.zeros((len(bloom), 4), np.uint8)
        low_first[:, : bloom.shape[1]] = bloom
        positions = np.arange(0, 4 * len(bloom) + 1, 4)
        self._messages = Values(low_first[:, ::-1].reshape(-1), positions, np.arange(len(bloom)))

    def words(self, rows: np.ndarray, start: int, count: int) -> np.ndarray:
        inner, outer = self._keys
        keys = (inner, outer) if len(inner) == 1 else (inner[rows], outer[rows])
        return keyed(keys, b"", self._messages, rows)[:, start : start + count]


def _table(secrets: Any, rows: int) -> np.ndarray:
    if isinstance(secrets, bytes | bytearray) and len(secrets):
        return np.frombuffer(bytes(secrets), np.uint8)[np.newaxis]
    table = np.asarray(secrets)
    if table.dtype != np.uint8 or table.ndim != 2 or len(table) != rows or not table.shape[1]:
        raise ValueError("GoogleRappor: secrets must be bytes, or a uint8 array, one row a value.")
    return np.ascontiguousarray(table)
