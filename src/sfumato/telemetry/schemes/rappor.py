"""RAPPOR: its parameters, the chances that run, and what they cost.

The chances of RAPPOR, of 65536, that make the least noise and keep what was promised.
"""

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
    domain_mark,
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

__all__ = ["GRID", "Rappor", "chances", "cost_of_flips", "cost_of_report", "sent"]

GRID = 2**16  # chances are multiples of its inverse


def sent(kept: int, p16: int, q16: int) -> Fraction:
    """The chance that a 1 is sent where the permanent response is 1 with kept / 65536."""
    return Fraction(q16 * kept + p16 * (GRID - kept), GRID * GRID)


def cost_of_flips(flip: int, hashes: int) -> float:
    """2h ln((1 - f/2) / (f/2)), rounded up: 2h cells may differ between two values."""
    return 2 * hashes * log_up(Fraction(GRID - flip, flip)) if flip else np.inf


def cost_of_report(flip: int, p16: int, q16: int, hashes: int) -> float:
    """h ln(q*(1 - p*) / (p*(1 - q*))), rounded up: h cells may become 0 and h others 1."""
    high, low = sent(GRID - flip, p16, q16), sent(flip, p16, q16)
    if low == 0 or high == 1:
        return np.inf
    return hashes * log_up(high * (1 - low) / (low * (1 - high)))


def chances(permanent: float, one: float, hashes: int) -> tuple[int, int, int]:
    """flip, p16 and q16: the least flip for `permanent`, and the p and q of least noise for `one`.

    Noise: low (1 - low) / (high - low)**2, the variance of the count of a cell that few values
    have, for one report.
    """
    flip = _least_flip(permanent, hashes)
    if cost_of_flips(flip, hashes) <= one:
        return flip, 0, GRID
    q16 = np.arange(1, GRID + 1)
    p16 = _least_p(q16, flip, one / hashes)
    high, low = (_sent(kept / GRID, p16, q16) for kept in (GRID - flip, flip))
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = np.where(p16 < q16, low * (1 - low) / (high - low) ** 2, np.inf)
    for at in np.argsort(noise, kind="stable"):
        p, q = int(p16[at]), int(q16[at])
        if p < q and cost_of_report(flip, p, q, hashes) <= one:
            return flip, p, q
    problem = f"must be larger, not {one!r}: the reports would tell nothing."
    raise ParameterError.of("Rappor", "one", problem)


def _least_flip(permanent: float, hashes: int) -> int:
    low, high = 0, GRID // 2 - 1
    if cost_of_flips(high, hashes) > permanent:
        problem = f"must be larger, not {permanent!r}: the reports would tell nothing."
        raise ParameterError.of("Rappor", "permanent", problem)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cost_of_flips(middle, hashes) <= permanent else (middle, high)
    return high


def _least_p(q16: np.ndarray, flip: int, bound: float) -> np.ndarray:
    """For every q the least p whose report costs at most the bound a hash, up to float rounding."""
    low, high = np.full(q16.size, -1), q16.copy()
    while (high - low).max() > 1:
        middle = (low + high) // 2
        a, b = (_sent(kept / GRID, middle, q16) for kept in (GRID - flip, flip))
        with np.errstate(divide="ignore", invalid="ignore"):
            fits = np.log(a * (1 - b)) - np.log(b * (1 - a)) <= bound * (1 - 1e-12)
        fits &= middle > low  # where nothing is left between, nothing moves
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return high


def _sent(kept: float, p16: np.ndarray, q16: np.ndarray) -> np.ndarray:
    return (q16 * kept + p16 * (1 - kept)) / GRID


BLOCK = 1 << 16  # cells noised at a time, whose random words stay in the cache
BITS, HASHES, COHORTS = 128, 2, 64


class _Share(between):
    """A number from 0 to 1, both included."""

    def _wanted(self) -> str:
        return "a number from 0 to 1"


SHARE = _Share(0, math.nextafter(1, 2))
LIMITS: dict[str, Any] = {
    "bits": integer(1, 2**16),
    "hashes": integer(1, 16),
    "cohorts": integer(1, 2**16),
    "f": between(0, 1),
    "p": SHARE,
    "q": SHARE,
}


@dataclass(frozen=True, repr=False)
class Rappor(Scheme):
    """The parameters of RAPPOR: Bloom filter bits, a permanent and an instantaneous response.

    Parameters
    ----------
    bits : int, default=128
        Cells of a report, 1 to 65536; hashes h, cells of a value, 1 to 16 and at most bits.
    hashes : int, default=2
        TODO.
    cohorts : int, default=64
        1 to 65536, each with hashes of its own.
    metric : str, default=""
        Text that separates secrets. With categories (texts, one bit each) or edges (increasing
        numbers, one bit for each bin between two; what is outside goes to the first or last), it is
        basic RAPPOR: bits is their number, hashes and cohorts are 1.
    f : float
        From 0 up to 1, the share of bits that the permanent response replaces by a fair coin (0:
        nothing is promised for many reports).
    p : float, default=0.0
        Chances to send a 1 where the permanent response is 0 and where it is 1, p below q (0 and 1:
        the permanent response is sent as it is, "one-time").
    q : float, default=1.0
        Chances to send a 1 where the permanent response is 0 and where it is 1, p below q (0 and 1:
        the permanent response is sent as it is, "one-time").
    categories : tuple or None, default=None
        TODO.
    edges : tuple or None, default=None
        TODO.

    Notes
    -----
    **Guarantee.** A permanent response costs `epsilon_permanent` = 2h ln((1 - f/2) / (f/2)) and one
    report `epsilon_one` = h ln(q*(1 - p*) / (p*(1 - q*))), q* and p* being the chances `high` and
    `low` of a cell that is and is not of the value; replacing the value. All chances that run are
    multiples of 2**-16, f/2, p and q rounded to the nearest, and both are computed from those.

    References
    ----------
    .. [1] Erlingsson, Pihur and Korolova 2014, sections 3 and 4. The sets of cells are our own.

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
            problem = f"must be below 0.99998, not {self.f!r}: nothing is told."
            raise ParameterError.of("Rappor", "f", problem)
        if self.p16 >= self.q16:
            problem = f"must be below q by 2**-16 or more, not {self.p!r} with q {self.q!r}."
            raise ParameterError.of("Rappor", "p", problem)

    @classmethod
    def for_epsilon(
        cls, permanent: float, one: float | None = None, *, hashes: int = HASHES, **others: Any
    ) -> Self:
        """The parameters of the least noise that keep both promises.

        Parameters
        ----------
        permanent : float
            Above 0; without one, or where it is no less than permanent, reports are one-time;
            hashes and the others as of the class.
        one : float or None, default=None
            Above 0; without one, or where it is no less than permanent, reports are one-time;
            hashes and the others as of the class.
        hashes : int, default=2
            TODO.
        **others : object
            TODO.

        Returns
        -------
        Self
            The parameters of the least noise that keep both promises.

        Notes
        -----
        **Guarantee.** Epsilon_permanent is at most `permanent` and epsilon_one at most `one`. The
        instantaneous response is the one that estimates rare values best: of all p and q that keep
        the promise, low (1 - low) / (high - low)**2 is least.

        Examples
        --------
        >>> params = Rappor.for_epsilon(4, 1, bits=64)
        >>> params.epsilon_permanent <= 4, params.epsilon_one <= 1
        (True, True)
        """
        permanent = positive.check(cls.__name__, "permanent", permanent)
        one = permanent if one is None else positive.check(cls.__name__, "one", one)
        if any(others.get(domain) is not None for domain in ("categories", "edges")):
            hashes = 1
        hashes = LIMITS["hashes"].check(cls.__name__, "hashes", hashes)
        flip, p16, q16 = chances(permanent, one, hashes)
        f, p, q = flip / (GRID // 2), p16 / GRID, q16 / GRID
        return cls(hashes=hashes, f=f, p=p, q=q, **others)

    @property
    def flip(self) -> int:
        """The chance, of 65536, that the permanent response turns a bit: f / 2."""
        return math.floor(self.f * (GRID // 2) + 0.5)

    @property
    def p16(self) -> int:
        """TODO."""
        return math.floor(self.p * GRID + 0.5)

    @property
    def q16(self) -> int:
        """TODO."""
        return math.floor(self.q * GRID + 0.5)

    @property
    def one_time(self) -> bool:
        """Whether the permanent response is sent as it is."""
        return self.p16 == 0 and self.q16 == GRID

    @property
    def cells(self) -> int:
        """TODO."""
        return self.bits

    @property
    def high(self) -> Fraction:
        """TODO."""
        return sent(GRID - self.flip, self.p16, self.q16)

    @property
    def low(self) -> Fraction:
        """TODO."""
        return sent(self.flip, self.p16, self.q16)

    @property
    def epsilon_permanent(self) -> float:
        """Of all reports of one value; infinite where f is 0."""
        return cost_of_flips(self.flip, self.hashes)

    @property
    def epsilon_one(self) -> float:
        """Of one report."""
        return cost_of_report(self.flip, self.p16, self.q16, self.hashes)

    @property
    def domain(self) -> list[Any] | None:
        """The categories, or the lower edge of every bin."""
        if self.categories is not None:
            return list(self.categories)
        return None if self.edges is None else list(self.edges[:-1])

    def line(self) -> str:
        sizes = f"{self.bits}/{self.hashes}/{self.cohorts}/{self.flip}/{self.p16}/{self.q16}"
        domain = domain_mark(self.categories, self.edges)
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
        """What is no category, and no number where there are edges, has no cell and no name.

        Parameters
        ----------
        column : array_like
            TODO.

        Returns
        -------
        Values
            What is no category, and no number where there are edges, has no cell and no name.
        """
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
        held = self.values(values)
        found: np.ndarray = self._table(held)[held.codes]
        return found

    def own_members(self, values: Values, cohorts: np.ndarray) -> np.ndarray:
        if values.distinct * self.cohorts > values.codes.size:
            return self._cells(values, values.codes, cohorts)
        table = self._table(values).reshape(-1, self.hashes)  # fewer hashes than one a row
        found: np.ndarray = table.take(values.codes * self.cohorts + cohorts, axis=0)
        return found

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """Every bit turned with the chance flip / 65536: bit i is B_i xor (u_i < flip).

        u_i: the 16-bit halves of the words of the row's stream, in order.

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
        out = np.zeros((members.shape[0], self.payload_bytes), np.uint8)
        for part, rows in self._blocks(out):
            words = stream.words(rows, 0, -(-self.bits // 2))
            numbers16 = _wide(words.astype(">u4"))
            responses.answer(numbers16, self.bits, self.flip, self.flip, part)
        responses.toggle(self.inside(members), out)
        return out

    def instant(self, payload: np.ndarray, source: Source) -> np.ndarray:
        """Every bit b sent as u_i < (q16 if b else p16), u_i from the source, high byte first.

        Parameters
        ----------
        payload : ndarray
            TODO.
        source : Source
            TODO.

        Returns
        -------
        ndarray
            TODO.
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
        told = f"RAPPOR, {self.hashes} of {self.bits} bits a value, {self._cohort_words}, each "
        told += f"bit turned for ever with probability {self.flip / GRID:.6g}"
        if not self.one_time:
            told += (
                f", then sent as 1 with {self.q16 / GRID:.6g} if 1 and {self.p16 / GRID:.6g} if 0"
            )
        return told + f", metric {self.metric!r}"

    def _blocks(self, payload: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """A few rows at a time, and their numbers."""
        step = max(1, BLOCK // self.bits)
        for begin in range(0, len(payload), step):
            part = payload[begin : begin + step]
            yield part, np.arange(begin, begin + len(part))

    def _table(self, values: Values) -> np.ndarray:
        """The cells of the distinct values in all cohorts."""
        found = self._cells(values, *in_all_cohorts(values, self.cohorts, self.hashes))
        return found.reshape(values.distinct, self.cohorts, self.hashes)

    def _cells(self, values: Values, codes: np.ndarray, cohorts: np.ndarray) -> np.ndarray:
        """The cells of value codes[r] in cohort cohorts[r]."""
        if self.categories is not None:
            return category_cells(values, self.categories)[codes, np.newaxis]
        if self.edges is not None:
            bins = [int(text) if text else -1 for text in values.texts()]
            return np.array(bins, np.int32)[codes, np.newaxis]
        return bloom_cells(values, codes, cohorts, self.bits, self.hashes)

    def _take_domain(self) -> None:
        """Keep the domain in its plain type and set what follows from it."""
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
    """Rows of numbers filled up to a multiple of 64 bytes and seen as uint32, for the kernel."""
    over = -rows.shape[1] * rows.itemsize % 64
    if over:
        rows = np.pad(rows, ((0, 0), (0, over // rows.itemsize)))
    return np.ascontiguousarray(rows).view(np.uint32)
