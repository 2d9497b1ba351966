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
    """RAPPOR as google/rappor's Python client runs it, to read and continue its collections.

    For new collections use `Rappor`: here two hashes of a value may fall on one bit, and if `bits`
    is no power of two the first bits are slightly more likely.

    Parameters
    ----------
    bits : int, default=16
        Bits k of a report, from 1 to 32.
    hashes : int, default=2
        Hash functions h, from 1 to 16; two may fall on the same bit.
    cohorts : int, default=64
        Number of cohorts m, from 1 to 65536.
    metric : str, default=""
        Name of what is collected; noise of different metrics is independent in `ReportEncoder`.
    f : float
        Probability, from 0 to 127/128, that the permanent response replaces a bit by a fair coin;
        rounded up to a multiple of 1/128.
    p : float, default=0.0
        Probability of sending a 1 where the permanent response is 0; below `q`.
    q : float, default=1.0
        Probability of sending a 1 where the permanent response is 1.

    Notes
    -----
    **Guarantee.** Under replacing the value of one client, any number of reports of it with one
    secret are `epsilon_permanent`-differentially private and a single report is
    `epsilon_one`-differentially private. Both are computed from the probabilities that run: f
    rounded up to `f_runs`, p and q rounded to multiples of 2**-16.

    The Bloom bits of a value are the first h bytes of MD5(cohort, value), each modulo k.
    `permanent` randomizes them by HMAC-SHA-256(secret, Bloom bits), one byte per bit: where the
    upper seven bits of the byte are below 128 f, its lowest bit is sent instead. A `ReportEncoder`
    draws noise of the same distribution from its own keys, which are separate for each metric.

    References
    ----------
    .. [1] google/rappor, client/python/rappor.py. https://github.com/google/rappor

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
        """Probability that a bit is replaced by a coin: f, rounded up to a multiple of 1/128."""
        return Fraction(math.ceil(self.f * STEPS), STEPS)

    @property
    def cells(self) -> int:
        """Number of bits of a report."""
        return self.bits

    @property
    def high(self) -> Fraction:
        """Probability q* that a bit of the value is sent as 1."""
        return sent(GRID - self._flip, self._twin.p16, self._twin.q16)

    @property
    def low(self) -> Fraction:
        """Probability p* that any other bit is sent as 1."""
        return sent(self._flip, self._twin.p16, self._twin.q16)

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value, for the f that runs; infinite at f = 0."""
        return self.loss().epsilon if self.f_runs else math.inf

    @property
    def epsilon_one(self) -> float:
        """Epsilon of a single report, for the f that runs."""
        return cost_of_report(self._flip, self._twin.p16, self._twin.q16, self.hashes)

    def line(self) -> str:
        sizes = f"{self.bits}/{self.hashes}/{self.cohorts}/{int(self.f_runs * STEPS)}"
        twin = self._twin
        return f"sfumato/telemetry/1/published/{sizes}/{twin.p16}/{twin.q16}/{self.metric}"

    def hashed(self, values: Column) -> np.ndarray:
        """Map each value to the bits that its hash functions choose, with repetitions.

        Parameters
        ----------
        values : array_like of shape (n,)
            Text or integers.

        Returns
        -------
        ndarray of shape (n, cohorts, hashes) with dtype int32
            Bits in the order of the hash functions; `members` replaces repeated ones by -1.
        """
        column = value_column(values)
        table = self._hashed(column, *in_all_cohorts(column, self.cohorts, self.hashes))
        return np.asarray(table.reshape(-1, self.cohorts, self.hashes)[column.codes])

    def members(self, values: Column) -> np.ndarray:
        return without_repeats(self.hashed(values))

    def own_members(self, values: Values, cohorts: np.ndarray) -> np.ndarray:
        return without_repeats(self._hashed(values, values.codes, cohorts))

    def permanent(self, secrets: Any, cohorts: Any, values: Column) -> np.ndarray:
        """Draw the permanent responses that the published client would draw.

        Parameters
        ----------
        secrets : object
            Secret of one client as bytes, or a uint8 array of shape (n, length), one row per value.
        cohorts : object
            Cohort of the client, or a column of n cohorts.
        values : array_like of shape (n,)
            Text or integers.

        Returns
        -------
        ndarray of shape (n, payload_bytes) with dtype uint8
            Payload of each value.

        Notes
        -----
        This noise depends on the secret and the Bloom bits alone, not on the metric or the other
        parameters, so every metric needs a secret of its own.
        """
        column = reported_column(values)
        rows = column.codes.size
        members = self.own_members(column, self._column(cohorts, rows))
        return self.respond(_BloomKeyed(_table(secrets, rows), self._bloom(members)), members)

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """Draw the permanent response of every row, as the published client does from its bytes.

        Bit i is replaced by bit 0 of byte i of the row's stream where the upper seven bits of that
        byte are below 128 f.

        Parameters
        ----------
        stream : Stream
            Uniform 32-bit words, one stream per row; bytes are taken from the highest on.
        members : ndarray of shape (n, s)
            Bits that the value of each row sets, -1 for none.

        Returns
        -------
        ndarray of shape (n, payload_bytes) with dtype uint8
            Payload of each row.
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
        text = f"published RAPPOR, {self.hashes} hashes to {self.bits} bits, {self.cohorts} cohorts"
        text += f", each bit turned for ever with probability {float(self.f_runs / 2):.6g}"
        if not self._twin.one_time:
            text += f", then sent as 1 with {self.q:.6g} if 1 and {self.p:.6g} if 0"
        return text + f", metric {self.metric!r}"

    def statement(self) -> PrivacyStatement | str:
        found = super().statement()
        if isinstance(found, str):
            return found
        return replace(found, covers=found.covers + UNSEPARATED)

    @property
    def _flip(self) -> int:
        """Probability that the permanent response flips a bit, in units of 1/65536."""
        return int(self.f_runs / 2 * GRID)

    @cached_property
    def _twin(self) -> Rappor:
        """Rappor parameters with the same p and q, which draw the instantaneous response."""
        try:
            return Rappor(self.bits, 1, 1, f=0, p=self.p, q=self.q)
        except ParameterError as error:
            raise error.renamed("GoogleRappor") from None

    def _column(self, cohorts: Any, rows: int) -> np.ndarray:
        """Return the cohort of every row, from one integer or a column of them."""
        given = np.asarray(cohorts)
        integer = given.dtype.kind in "iu" if given.size else True
        integer = integer and given.shape in ((), (rows,))
        if not integer or not ((given >= 0) & (given < self.cohorts)).all():
            raise ValueError(
                f"GoogleRappor: cohorts must be an integer from 0 to {self.cohorts - 1}, or a "
                f"column of {rows} of them, one per value."
            )
        return np.full(rows, given, np.int32)

    def _hashed(self, values: Values, codes: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
        """Return the first bytes of MD5 of cohort (four bytes) and text, computed once per pair.

        MD5 collisions can be made at will, so nothing here relies on it for secrecy.
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
        """Return payloads with the bits of the members set."""
        out = np.zeros((members.shape[0], self.payload_bytes), np.uint8)
        responses.toggle(self.inside(members), out)
        return out


def without_repeats(cells: np.ndarray) -> np.ndarray:
    """Replace cells that stand earlier in their row (last axis) by -1."""
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
    """Return the secrets as a uint8 table of one row, or of one row per value."""
    if isinstance(secrets, bytes | bytearray) and len(secrets):
        return np.frombuffer(bytes(secrets), np.uint8)[np.newaxis]
    table = np.asarray(secrets)
    if table.dtype != np.uint8 or table.ndim != 2 or len(table) != rows or not table.shape[1]:
        raise ValueError(
            "GoogleRappor: secrets must be bytes, or a uint8 array, one row per value."
        )
    return np.ascontiguousarray(table)
