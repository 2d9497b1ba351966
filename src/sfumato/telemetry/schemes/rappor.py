"""RAPPOR: its parameters, the probabilities that the code realises, and their privacy loss."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.typing import Column
from sfumato.core.validation import between, checked, integer, positive
from sfumato.errors import ParameterError
from sfumato.kernels.telemetry import responses
from sfumato.privacy.accounting.losses import Flips, Loss
from sfumato.privacy.random_source import Source
from sfumato.telemetry.keyed_randomness import Stream
from sfumato.telemetry.schemes.base import Scheme, log_up
from sfumato.telemetry.schemes.cells import (
    bloom_cells,
    category_cells,
    check_categories,
    checked_categories,
    checked_edges,
    domain_digest,
    in_all_cohorts,
)
from sfumato.telemetry.values import (
    NO_VALUE,
    Values,
    numbers,
    reported_column,
    reported_numbers,
    value_column,
    values_of,
)

__all__ = ["GRID", "Rappor", "cost_of_flips", "cost_of_report", "probabilities", "sent"]

GRID = 2**16  # probabilities are multiples of its inverse


def sent(ones: int, p16: int, q16: int) -> Fraction:
    """Probability of sending a 1 for a bit whose permanent response is 1 with ones / 65536."""
    return Fraction(q16 * ones + p16 * (GRID - ones), GRID * GRID)


def cost_of_flips(flip: int, hashes: int) -> float:
    """Return 2h ln((1 - f/2) / (f/2)), rounded up: 2h bits may differ between two values."""
    return 2 * hashes * log_up(Fraction(GRID - flip, flip)) if flip else np.inf


def cost_of_report(flip: int, p16: int, q16: int, hashes: int) -> float:
    """Return h ln(q*(1 - p*) / (p*(1 - q*))), rounded up: h bits may become 0 and h others 1."""
    high, low = sent(GRID - flip, p16, q16), sent(flip, p16, q16)
    if low == 0 or high == 1:
        return np.inf
    return hashes * log_up(high * (1 - low) / (low * (1 - high)))


def probabilities(permanent: float, one: float, hashes: int) -> tuple[int, int, int]:
    """Return the least flip for `permanent`, and the p16 and q16 of least noise for `one`.

    Noise is low (1 - low) / (high - low)**2, the variance per report of the estimated count of a
    rare value.
    """
    flip = _least_flip(permanent, hashes)
    if cost_of_flips(flip, hashes) <= one:
        return flip, 0, GRID
    q16 = np.arange(1, GRID + 1)
    p16 = _least_p(q16, flip, one / hashes)
    high, low = (_sent(ones / GRID, p16, q16) for ones in (GRID - flip, flip))
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.where(p16 < q16, low * (1 - low) / (high - low) ** 2, np.inf)
    for at in np.argsort(noise, kind="stable"):
        p, q = int(p16[at]), int(q16[at])
        if p < q and cost_of_report(flip, p, q, hashes) <= one:
            return flip, p, q
    problem = f"must be larger, not {one!r}: the reports would carry no information."
    raise ParameterError.of("Rappor", "one", problem)


def _least_flip(permanent: float, hashes: int) -> int:
    """Return the least flip probability, of 65536, whose permanent response is within epsilon."""
    low, high = 0, GRID // 2 - 1
    if cost_of_flips(high, hashes) > permanent:
        problem = f"must be larger, not {permanent!r}: the reports would carry no information."
        raise ParameterError.of("Rappor", "permanent", problem)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cost_of_flips(middle, hashes) <= permanent else (middle, high)
    return high


def _least_p(q16: np.ndarray, flip: int, bound: float) -> np.ndarray:
    """Return for every q the least p whose report costs at most `bound` per hash, in floats."""
    low, high = np.full(q16.size, -1), q16.copy()
    while (high - low).max() > 1:
        middle = (low + high) // 2
        a, b = (_sent(ones / GRID, middle, q16) for ones in (GRID - flip, flip))
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = np.log(a * (1 - b)) - np.log(b * (1 - a)) <= bound * (1 - 1e-12)
        fits &= middle > low  # a search that has ended does not move
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return high


def _sent(ones: float, p16: np.ndarray, q16: np.ndarray) -> np.ndarray:
    """As `sent`, for columns of p and q and in floats."""
    return (q16 * ones + p16 * (1 - ones)) / GRID


BLOCK = 1 << 16  # cells noised at a time, whose random words stay in the cache
BITS, HASHES, COHORTS = 128, 2, 64
MOST_BITS, SLACK = 4096, 1.05  # of a report for an epsilon; of the variance, for a smaller report


def _enough_bits(high: float, low: float, hashes: int) -> int:
    """Return the fewest bits with which values that share a bit hardly add to the variance."""

    def spread(bits: int) -> float:
        mean = low + (high - low) * hashes / bits
        return mean * (1 - mean) / (1 - hashes / bits)

    sizes = [BITS << power for power in range((MOST_BITS // BITS).bit_length())]
    return next(bits for bits in sizes if spread(bits) <= SLACK * spread(MOST_BITS))


class _Probability(between):
    """A number from 0 to 1, both included."""

    def _wanted(self) -> str:
        return "a number from 0 to 1"


PROBABILITY = _Probability(0, math.nextafter(1, 2))
LIMITS: dict[str, Any] = {
    "bits": integer(1, 2**16),
    "hashes": integer(1, 16),
    "cohorts": integer(1, 2**16),
    "f": between(0, 1),
    "p": PROBABILITY,
    "q": PROBABILITY,
}


@dataclass(frozen=True, repr=False)
class Rappor(Scheme):
    """RAPPOR: Bloom filter bits with a permanent and an instantaneous randomized response.

    Use it for values that clients report repeatedly: the permanent response limits what all
    reports of a value reveal, the instantaneous one what a single report reveals. With `categories`
    or `edges` it is basic RAPPOR, with one bit per category or bin. A report takes ceil(bits / 8)
    bytes.

    Parameters
    ----------
    bits : int, default=128
        Bits of a report, from 1 to 65536.
    hashes : int, default=2
        Bits that a value sets, from 1 to 16 and at most `bits`.
    cohorts : int, default=64
        Number of cohorts, each with its own hash functions, from 1 to 65536.
    metric : str, default=""
        Name of what is collected; noise of different metrics is independent.
    f : float
        Probability, from 0 to below 0.99998, that the permanent response replaces a bit by a fair
        coin. At 0 nothing is guaranteed for repeated reports.
    p : float, default=0.0
        Probability of sending a 1 where the permanent response is 0; below `q` by at least 2**-16.
    q : float, default=1.0
        Probability of sending a 1 where the permanent response is 1. With p = 0 and q = 1 the
        permanent response is sent as it is ("one-time" RAPPOR).
    categories : tuple of str or None, default=None
        Known values, one bit each. `bits` is then their number, `hashes` and `cohorts` are 1.
    edges : tuple of float or None, default=None
        Increasing bin edges, one bit per bin. Numbers outside count in the first or last bin.
        `bits` is then the number of bins, `hashes` and `cohorts` are 1.

    Notes
    -----
    **Guarantee.** If the value of one client is replaced, any number of its reports with one secret
    are `epsilon_permanent`-differentially private and a single report is
    `epsilon_one`-differentially private, with ``epsilon_permanent = 2 h ln((1 - f/2) / (f/2))`` and
    ``epsilon_one = h ln(q* (1 - p*) / (p* (1 - q*)))``. Here h is `hashes`, and q* and p* are the
    probabilities `high` and `low` that a bit of the value and another bit are sent as 1. f/2, p and
    q are rounded to the nearest multiple of 2**-16, and both epsilons are computed from the rounded
    probabilities, which are those that run.

    The bits of a value are chosen by SHA-256, without repetition; they differ from those of
    google/rappor, which `GoogleRappor` reproduces.

    References
    ----------
    .. [1] Erlingsson, Pihur, Korolova. "RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal
       Response". CCS 2014, sections 2 (algorithm), 3 (privacy of the permanent and of one report)
       and 4 (decoding). https://arxiv.org/abs/1407.6981

    Examples
    --------
    >>> params = Rappor(bits=48, hashes=2, cohorts=8, f=0.73)
    >>> round(params.epsilon_permanent, 3), params.epsilon_one == params.epsilon_permanent
    (2.215, True)
    >>> Rappor(categories=["yes", "no"], f=0.5).members(["no"]).tolist()
    [[[1]]]
    """

    bits: int = BITS
    hashes: int = HASHES
    cohorts: int = COHORTS
    f: float = field(kw_only=True)
    p: float = field(default=0.0, kw_only=True)
    q: float = field(default=1.0, kw_only=True)
    categories: tuple[str, ...] | None = field(default=None, kw_only=True)
    edges: tuple[float, ...] | None = field(default=None, kw_only=True)
    name: ClassVar[str] = "rappor"
    LIMITS: ClassVar[dict[str, Any]] = LIMITS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.categories is not None or self.edges is not None:
            self._take_domain()
        checked(self, LIMITS)
        if self.hashes > self.bits:
            problem = f"must be at most bits, {self.bits}, not {self.hashes!r}."
            raise ParameterError.of("Rappor", "hashes", problem)
        if self.flip >= GRID // 2:
            problem = f"must be below 0.99998, not {self.f!r}: reports would carry no information."
            raise ParameterError.of("Rappor", "f", problem)
        if self.p16 >= self.q16:
            problem = f"must be below q by 2**-16 or more, not {self.p!r} with q {self.q!r}."
            raise ParameterError.of("Rappor", "p", problem)

    @classmethod
    def for_epsilon(
        cls, permanent: float, one: float | None = None, *, hashes: int = 1, **others: Any
    ) -> Self:
        """Choose f, p, q and the bits of the least noise for given epsilons.

        Parameters
        ----------
        permanent : float
            Largest epsilon of all reports of one value, above 0.
        one : float or None, default=None
            Largest epsilon of one report, above 0. If None, or not below `permanent`, the
            permanent response is sent as it is.
        hashes : int, default=1
            Bits that a value sets; they share epsilon, so that 1 has the least noise. Always 1 if
            categories or edges are given.
        **others : object
            Further parameters of `Rappor`: `bits`, `cohorts`, `metric`, `categories` or `edges`.
            Without `bits`, the least power of two from 128 to 4096 with which values that share
            bits add at most 5 % to the variance.

        Returns
        -------
        Self
            Parameters whose epsilons are at most those requested.

        Raises
        ------
        ParameterError
            If an epsilon is so small that reports would carry no information.

        Notes
        -----
        **Guarantee.** ``epsilon_permanent <= permanent`` and ``epsilon_one <= one``. f is the least
        that fits; of all p and q that fit, those with the least variance of the count of a rare
        value, ``low (1 - low) / (high - low)**2`` per report, are taken.

        With fresh noise (`one` at most half of `permanent`) the standard error is that of
        `LocalHashing` of the epsilon `one`, within 5 % up to ``one = 3``. Sent as it is, the
        permanent response turns ones and zeros equally often, and the standard error is 1.0, 1.1,
        1.3, 1.6 and 2.4 times that of local hashing at epsilon 1, 2, 3, 4 and 6: `plan` compares
        the schemes.

        Examples
        --------
        >>> params = Rappor.for_epsilon(4, 1, bits=64)
        >>> params.epsilon_permanent <= 4, params.epsilon_one <= 1, params.hashes
        (True, True, 1)
        >>> [Rappor.for_epsilon(epsilon).bits for epsilon in (1, 6, 8)]
        [128, 512, 1024]
        """
        permanent = positive.check(cls.__name__, "permanent", permanent)
        one = permanent if one is None else positive.check(cls.__name__, "one", one)
        if any(others.get(domain) is not None for domain in ("categories", "edges")):
            hashes = 1
        hashes = LIMITS["hashes"].check(cls.__name__, "hashes", hashes)
        flip, p16, q16 = probabilities(permanent, one, hashes)
        f, p, q = flip / (GRID // 2), p16 / GRID, q16 / GRID
        if all(others.get(name) is None for name in ("bits", "categories", "edges")):
            high, low = (float(sent(ones, p16, q16)) for ones in (GRID - flip, flip))
            others["bits"] = _enough_bits(high, low, hashes)
        return cls(hashes=hashes, f=f, p=p, q=q, **others)

    @property
    def flip(self) -> int:
        """Probability f / 2 that the permanent response flips a bit, in units of 1/65536."""
        return math.floor(self.f * (GRID // 2) + 0.5)

    @property
    def p16(self) -> int:
        """Probability p, in units of 1/65536."""
        return math.floor(self.p * GRID + 0.5)

    @property
    def q16(self) -> int:
        """Probability q, in units of 1/65536."""
        return math.floor(self.q * GRID + 0.5)

    @property
    def one_time(self) -> bool:
        """Whether the permanent response is sent as it is."""
        return self.p16 == 0 and self.q16 == GRID

    @property
    def cells(self) -> int:
        """Number of bits of a report."""
        return self.bits

    @property
    def high(self) -> Fraction:
        """Probability q* that a bit of the value is sent as 1."""
        return sent(GRID - self.flip, self.p16, self.q16)

    @property
    def low(self) -> Fraction:
        """Probability p* that any other bit is sent as 1."""
        return sent(self.flip, self.p16, self.q16)

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value; infinite if f is 0."""
        return cost_of_flips(self.flip, self.hashes)

    @property
    def epsilon_one(self) -> float:
        """Epsilon of a single report."""
        return cost_of_report(self.flip, self.p16, self.q16, self.hashes)

    @property
    def domain(self) -> list[Any] | None:
        """Categories, or the lower edge of every bin; None if any value can be reported."""
        if self.categories is not None:
            return list(self.categories)
        return None if self.edges is None else list(self.edges[:-1])

    def line(self) -> str:
        sizes = f"{self.bits}/{self.hashes}/{self.cohorts}/{self.flip}/{self.p16}/{self.q16}"
        domain = domain_digest(self.categories, self.edges)
        return f"sfumato/telemetry/1/rappor/{sizes}/{domain}/{self.metric}"

    def values(self, column: Column) -> Values:
        if self.edges is not None:
            inner = np.array(self.edges[1:-1])
            return value_column(np.searchsorted(inner, numbers(column), side="right"))
        values = value_column(column)
        if self.categories is not None:
            check_categories(values, self.categories)
        return values

    def reported(self, column: Column) -> Values:
        if self.edges is not None:
            found = reported_numbers(column)
            bins = np.searchsorted(np.array(self.edges[1:-1]), found, side="right")
            bins[np.isnan(found)] = self.bits
            used, codes = np.unique(bins, return_inverse=True)
            texts = [NO_VALUE if at == self.bits else b"%d" % at for at in used]
            return values_of(texts, codes.astype(np.int64))
        values = reported_column(column)
        if self.categories is None:
            return values
        cells = category_cells(values, self.categories)
        texts = [t if at >= 0 else NO_VALUE for t, at in zip(values.texts(), cells, strict=True)]
        once = {text: at for at, text in enumerate(dict.fromkeys(texts))}
        positions = np.array([once[text] for text in texts], np.int64)
        return values_of(list(once), positions[values.codes])

    def members(self, values: Column) -> np.ndarray:
        column = self.values(values)
        found: np.ndarray = self._table(column)[column.codes]
        return found

    def own_members(self, values: Values, cohorts: np.ndarray) -> np.ndarray:
        if values.distinct * self.cohorts > values.codes.size:
            return self._cells(values, values.codes, cohorts)
        table = self._table(values).reshape(-1, self.hashes)  # fewer hashes than one per row
        found: np.ndarray = table.take(values.codes * self.cohorts + cohorts, axis=0)
        return found

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """Draw the permanent response of every row: bit i is B_i xor (u_i < flip).

        Parameters
        ----------
        stream : Stream
            Uniform 32-bit words, one stream per row; u_i are their 16-bit halves, in order.
        members : ndarray of shape (n, s)
            Bits B_i that the value of each row sets, -1 for none.

        Returns
        -------
        ndarray of shape (n, payload_bytes) with dtype uint8
            Payload of each row.
        """
        out = np.zeros((members.shape[0], self.payload_bytes), np.uint8)
        for part, rows in self._blocks(out):
            words = stream.words(rows, 0, -(-self.bits // 2))
            numbers16 = _wide(words.astype(">u4"))
            responses.answer(numbers16, self.bits, self.flip, self.flip, part)
        responses.toggle(self.inside(members), out)
        return out

    def instant(self, payload: np.ndarray, source: Source) -> np.ndarray:
        """Draw the instantaneous response: send bit b as 1 with probability q16 if b, else p16.

        Parameters
        ----------
        payload : ndarray of shape (n, payload_bytes)
            Permanent responses, uint8.
        source : Source
            Random source of 16-bit numbers, one per bit.

        Returns
        -------
        ndarray of shape (n, payload_bytes) with dtype uint8
            Payloads to send; the permanent responses themselves if `one_time`.
        """
        if self.one_time:
            return payload
        if payload.dtype != np.uint8 or payload.shape[1:] != (self.payload_bytes,):
            raise ValueError(f"Rappor: payload must be uint8, rows of {self.payload_bytes} bytes.")
        out = np.array(payload)
        for part, _ in self._blocks(out):
            fresh = np.empty((len(part), self.bits), np.uint16)
            source.fill(fresh)
            responses.answer(_wide(fresh), self.bits, self.p16, self.q16, part)
        return out

    def loss(self) -> Loss:
        return Flips(Fraction(self.flip, GRID), 2 * self.hashes, relation="replace")

    def sentence(self) -> str:
        text = f"RAPPOR, {self.hashes} of {self.bits} bits a value, {self._cohort_words}, each "
        text += f"bit turned for ever with probability {self.flip / GRID:.6g}"
        if not self.one_time:
            text += (
                f", then sent as 1 with {self.q16 / GRID:.6g} if 1 and {self.p16 / GRID:.6g} if 0"
            )
        return text + f", metric {self.metric!r}"

    def _blocks(self, payload: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield blocks of a few rows and their row numbers."""
        step = max(1, BLOCK // self.bits)
        for begin in range(0, len(payload), step):
            part = payload[begin : begin + step]
            yield part, np.arange(begin, begin + len(part))

    def _table(self, values: Values) -> np.ndarray:
        """Return the cells of distinct values in all cohorts: int32 (distinct, cohorts, hashes)."""
        found = self._cells(values, *in_all_cohorts(values, self.cohorts, self.hashes))
        return found.reshape(values.distinct, self.cohorts, self.hashes)

    def _cells(self, values: Values, codes: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
        """Return the cells of value codes[r] in cohort cohorts[r]: int32 (n, hashes)."""
        if self.categories is not None:
            return category_cells(values, self.categories)[codes, np.newaxis]
        if self.edges is not None:
            bins = [int(text) if text else -1 for text in values.texts()]
            return np.array(bins, np.int32)[codes, np.newaxis]
        return bloom_cells(values, codes, cohorts, self.bits, self.hashes)

    def _take_domain(self) -> None:
        """Check the domain and set the sizes that follow from it."""
        if self.categories is not None and self.edges is not None:
            raise ValueError("Rappor: categories and edges exclude each other; give one.")
        if self.categories is not None:
            object.__setattr__(self, "categories", checked_categories("Rappor", self.categories))
        else:
            object.__setattr__(self, "edges", checked_edges("Rappor", self.edges))
        size = len(self.domain or ())
        for name, usual, wanted in (
            ("bits", BITS, size),
            ("hashes", HASHES, 1),
            ("cohorts", COHORTS, 1),
        ):
            if (given := getattr(self, name)) not in (usual, wanted):
                raise ValueError(
                    f"Rappor: {name} must be {wanted} for {size} known values, or be left out, "
                    f"not {given!r}."
                )
            object.__setattr__(self, name, wanted)


def _wide(rows: np.ndarray) -> np.ndarray:
    """Pad rows of numbers to a multiple of 64 bytes and view them as uint32, for the kernel."""
    over = -rows.shape[1] * rows.itemsize % 64
    if over:
        rows = np.pad(rows, ((0, 0), (0, over // rows.itemsize)))
    return np.ascontiguousarray(rows).view(np.uint32)
