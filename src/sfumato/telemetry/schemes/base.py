"""Base classes of the report schemes: their common interface, JSON form and privacy statement.

All probabilities are multiples of 2**-32, so that one random 32-bit word decides an outcome; they
are rounded so that the privacy loss never exceeds the requested epsilon.
"""

import hashlib
import importlib
import json
import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Column
from sfumato.core.validation import positive
from sfumato.privacy.accounting.losses import Flips, Loss, Pure
from sfumato.privacy.random_source import Source
from sfumato.privacy.rounding import UP, round_up
from sfumato.privacy.statement import PrivacyStatement
from sfumato.telemetry.keyed_randomness import Stream
from sfumato.telemetry.values import Values, reported_column, value_column

__all__ = [
    "COVERS",
    "FORMAT",
    "GRID",
    "VERSION",
    "Scheme",
    "SymbolScheme",
    "known_schemes",
    "log_ratio",
    "log_up",
    "pair_statement",
    "read_scheme",
    "separate",
    "subset_step",
    "symbol_step",
    "together",
]

FORMAT, VERSION = "sfumato telemetry parameters", 1
MODULES = ("google_rappor", "hadamard_response", "local_hashing", "rappor", "subset_selection")
LONGEST = 200  # bytes of a metric's name
ENTRIES = 1 << 20  # of a table of members, built at a time
COVERS = (
    "one value of one client, for ever, against anyone who sees all its reports but not its "
    "secret: many reports of a value reveal no more than its permanent response. It is per "
    "distinct value and secret: a changed value, cleared storage, another metric or new "
    "parameters draw a new response, and their epsilons add up. One report alone costs epsilon "
    "{one}. Permanent responses come from HMAC-SHA-256, so the guarantee is computational: it "
    "holds against anyone who cannot break HMAC. Secrets are separated by metric and parameters; "
    "clients that share one give equal permanent responses to equal values, which shows that they "
    "are equal, and whoever has it can undo the noise. Not protected: how often a client reports, "
    "its cohort, and that reports with similar noise are of one client and value"
)


@dataclass(frozen=True, repr=False)
class Scheme:
    """Local randomizer that turns a client's value into a report over cohorts and cells.

    Base class of `Rappor`, `GoogleRappor`, `LocalHashing`, `SubsetSelection` and
    `HadamardResponse`; use one of those, or `plan` to choose one. Every client belongs to one of
    `cohorts` cohorts, and in each cohort a value is mapped to a set of the `cells` cells.

    Parameters
    ----------
    metric : str, default=""
        Name of what is collected, up to 200 bytes of UTF-8 without control characters. Clients
        derive independent noise for different metrics from the same secret.

    Notes
    -----
    **Guarantee.** In a report, a cell of the value's set is marked with probability `high` and any
    other cell with probability `low`. Both are exact rational numbers, those of the code that runs.
    Cells are marked independently (kind "bits"), or exactly one cell is (kind "symbol"), or a
    fixed number of them (kind "subset").

    What is stated of repeated reports of a value assumes that they are made with one secret (see
    `ReportEncoder`), from which HMAC-SHA-256 derives the permanent response: that guarantee is
    computational. Every further distinct value of a client adds its own epsilon.

    The payload of a report of kind "symbol" is the cell as a little-endian uint32. Of the other
    kinds, cell i is bit ``i & 7`` of byte ``i >> 3``.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> scheme = Rappor(bits=16, cohorts=4, f=0.5, metric="home page")
    >>> isinstance(scheme, Scheme), scheme.kind, scheme.payload_bytes
    (True, 'bits', 2)
    >>> Scheme.from_json(scheme.to_json()) == scheme
    True
    """

    metric: str = field(default="", kw_only=True)
    name: ClassVar[str] = ""
    kind: ClassVar[str] = "bits"
    KNOWN: ClassVar[dict[str, type["Scheme"]]] = {}

    if TYPE_CHECKING:  # fields of some schemes and properties of others

        @property
        def cohorts(self) -> int: ...
        @property
        def cells(self) -> int: ...
        @property
        def high(self) -> Fraction: ...
        @property
        def low(self) -> Fraction: ...

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.name:
            Scheme.KNOWN[cls.name] = cls

    def __post_init__(self) -> None:
        if not _is_line(self.metric):
            raise ValueError(
                f"{type(self).__name__}: metric must be text of at most {LONGEST} bytes of UTF-8 "
                "without control characters."
            )

    def __repr__(self) -> str:
        names = [each.name for each in fields_of(self) if each.init and each.repr]
        return described(self, **{name: getattr(self, name) for name in names})

    def line(self) -> str:
        """Format all that clients and servers must agree on as one line of text.

        Returns
        -------
        str
            Format version, scheme, sizes, probabilities, domain and metric, separated by slashes.
            Client keys and the `fingerprint` are derived from it.
        """
        raise NotImplementedError

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the parameters in every report: 16 hex digits, the start of SHA-256 of `line`."""
        return hashlib.sha256(self.line().encode()).hexdigest()[:16]

    @property
    def domain(self) -> list[Any] | None:
        """Values that can be reported, in the order of their cells; None if any value can be."""
        return None

    @property
    def payload_bytes(self) -> int:
        """Size of the payload of one report in bytes: 4 for a symbol, else one bit per cell."""
        return 4 if self.kind == "symbol" else -(-self.cells // 8)

    def values(self, column: Column) -> Values:
        """Convert a column to values of the scheme's domain.

        Parameters
        ----------
        column : array_like of shape (n,)
            Text or integers; numbers if the scheme has bin edges.

        Returns
        -------
        Values
            The distinct values and the code of each row.

        Raises
        ------
        ValueError or TypeError
            If a row is null or outside the domain. The message names the row, not the value.
        """
        return value_column(column)

    def reported(self, column: Column) -> Values:
        """Convert a column to what clients report, without ever raising for a value.

        A report that fails to arrive would reveal something about the value, so a row that is no
        value of the domain is replaced by a public rule.

        Parameters
        ----------
        column : array_like of shape (n,)
            Any objects; each row is converted independently of the others.

        Returns
        -------
        Values
            The distinct values and the code of each row. What cannot be reported (null, NaN, a
            fraction, an object) becomes the empty text; a scheme with a known domain reports it
            without a cell (RAPPOR) or as the last category (the others).
        """
        return reported_column(column)

    def members(self, values: Column) -> np.ndarray:
        """Map each value to its set of cells in every cohort.

        Parameters
        ----------
        values : array_like of shape (n,)
            Text, integers, or values of the scheme's domain.

        Returns
        -------
        ndarray of shape (n, cohorts, s) with dtype int32
            Cells of each value; -1 fills up sets of fewer than s cells.
        """
        raise NotImplementedError

    def own_members(self, values: Values, cohorts: np.ndarray) -> np.ndarray:
        """Map each value to its set of cells in the cohort of its own row.

        Parameters
        ----------
        values : Values
            Values of n rows, as `values` or `reported` returns them.
        cohorts : ndarray of shape (n,)
            Cohort of each row, from 0 to cohorts - 1.

        Returns
        -------
        ndarray of shape (n, s) with dtype int32
            Cells of each row; -1 fills up sets of fewer than s cells.
        """
        texts, order = values.texts(), np.argsort(values.codes, kind="stable")
        ends = np.cumsum(np.bincount(values.codes, minlength=len(texts)))
        step, found = max(1, ENTRIES // self.cohorts), []
        for first in range(0, max(1, len(texts)), step):
            table = self.members(texts[first : first + step])
            begin, end = ends[first - 1] if first else 0, ends[first : first + step].max(initial=0)
            rows = order[begin:end]
            found.append(table[values.codes[rows] - first, cohorts[rows]])
        out = np.concatenate(found)
        out[order] = out.copy()
        return out

    def inside(self, members: np.ndarray) -> np.ndarray:
        """Check that all cells are cells of this scheme.

        Parameters
        ----------
        members : ndarray of shape (n, s)
            Cells from 0 to cells - 1, or -1 for none.

        Returns
        -------
        ndarray of shape (n, s) with dtype int32
            The same cells as a contiguous array.

        Raises
        ------
        ValueError
            If a cell is out of range.
        """
        low, high = members.min(initial=0), members.max(initial=0)
        if members.ndim != 2 or not -1 <= low <= high < self.cells:
            raise ValueError(
                f"{type(self).__name__}: members must be rows of cells from 0 to {self.cells - 1}, "
                "or -1 for none."
            )
        return np.ascontiguousarray(members, np.int32)

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """Draw the permanent response of every row.

        Parameters
        ----------
        stream : Stream
            Uniform 32-bit words, one stream per row: keyed by the client's secret, or fresh.
        members : ndarray of shape (n, s)
            Cells of each row's value in its cohort, as `own_members` returns them.

        Returns
        -------
        ndarray of shape (n, payload_bytes) with dtype uint8
            Payload of each row; a deterministic function of the stream and the cells.
        """
        raise NotImplementedError

    def instant(self, payload: np.ndarray, source: Source) -> np.ndarray:
        """Draw the instantaneous response: add fresh noise to permanent responses.

        Parameters
        ----------
        payload : ndarray of shape (n, payload_bytes)
            Permanent responses, uint8.
        source : Source
            Random source of the fresh noise.

        Returns
        -------
        ndarray of shape (n, payload_bytes) with dtype uint8
            Payloads to send; the permanent responses themselves if the scheme adds no fresh noise.
        """
        return payload

    def loss(self) -> Loss:
        """Describe the privacy loss of a permanent response, for composition.

        Returns
        -------
        Loss
            Loss between any two values of one client, under the relation "replace".
        """
        raise NotImplementedError

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of a permanent response, hence of any number of reports of one value."""
        return self.loss().epsilon

    @property
    def epsilon_one(self) -> float:
        """Epsilon of a single report; `epsilon_permanent` if the scheme adds no fresh noise."""
        return self.epsilon_permanent

    def sentence(self) -> str:
        """Describe the mechanism in a few words.

        Returns
        -------
        str
            Scheme, sizes and probabilities, as in the `mechanism` of the privacy statement.
        """
        raise NotImplementedError

    def statement(self) -> PrivacyStatement | str:
        """State the privacy guarantee of a client that reports one value, any number of times.

        Returns
        -------
        PrivacyStatement or str
            Statement for one value under the relation "replace"; a plain warning if
            `epsilon_permanent` is infinite.
        """
        if not math.isfinite(self.epsilon_permanent):
            return (
                f"NOT PRIVATE: epsilon_permanent is infinite ({self.sentence()}). Whoever collects "
                f"the reports of a client may learn its value. One report alone: {self._one()}."
            )
        loss = self.loss()
        return PrivacyStatement(
            unit="event",
            relation="replace",
            mechanism=self.sentence(),
            epsilon=max(self.epsilon_permanent, loss.epsilon),  # of which one is rounded up more
            loss=loss.to_dict(),
            covers=COVERS.format(one=self._one()),
        )

    @property
    def _cohort_words(self) -> str:
        """Number of cohorts, for a sentence."""
        return f"{self.cohorts} cohort{'' if self.cohorts == 1 else 's'}"

    def _one(self) -> str:
        """Epsilon of one report as text."""
        return f"{self.epsilon_one:.6g}" if math.isfinite(self.epsilon_one) else "infinite"

    def to_json(self) -> str:
        """Write the parameters as JSON, with their fingerprint.

        Returns
        -------
        str
            Indented JSON that `from_json` and `read_scheme` read.
        """
        fields = {"format": FORMAT, "version": VERSION, "scheme": self.name, "metric": self.metric}
        fields |= self._fields() | {"fingerprint": self.fingerprint}
        return json.dumps(fields, ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read the parameters that `to_json` wrote.

        Parameters
        ----------
        text : str or bytes
            JSON of this class, or, called on `Scheme`, of any scheme.

        Returns
        -------
        Self
            Equal scheme.

        Raises
        ------
        ValueError
            If the text is not JSON of this scheme, or its fingerprint does not match.
        """
        scheme = read_scheme(text)
        if not isinstance(scheme, cls):
            raise ValueError(f"{cls.__name__}: the parameters are of the scheme {scheme.name!r}.")
        return scheme

    def _fields(self) -> dict[str, Any]:
        """Parameters except the metric, as plain JSON values."""
        fields = {each.name: getattr(self, each.name) for each in fields_of(self)}
        return {
            name: value for name, value in fields.items() if name != "metric" and value is not None
        }


def read_scheme(text: str | bytes) -> Scheme:
    """Read the scheme that a JSON text of parameters describes.

    Parameters
    ----------
    text : str or bytes
        JSON that `Scheme.to_json` wrote, of any scheme.

    Returns
    -------
    Scheme
        An object of the class that the text names.

    Raises
    ------
    ValueError
        If the text is not JSON of parameters, a parameter is unknown or invalid, or the
        fingerprint is not that of the parameters.

    Examples
    --------
    >>> from sfumato.telemetry import LocalHashing
    >>> read_scheme(LocalHashing(epsilon=2, metric="home page").to_json())
    LocalHashing(metric='home page', epsilon=2.0, cohorts=1024, cells=8)
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("parameters: the text is not JSON.") from None
    if not isinstance(fields, dict) or fields.pop("format", None) != FORMAT:
        raise ValueError(f"parameters: the text must be JSON of the format {FORMAT!r}.")
    if (version := fields.pop("version", None)) != VERSION:
        raise ValueError(f"parameters: version must be {VERSION}, not {version!r}.")
    kind = known_schemes().get(str(name := fields.pop("scheme", None)))
    if kind is None:
        raise ValueError(
            f"parameters: scheme must be one of {sorted(known_schemes())}, not {name!r}."
        )
    fingerprint = fields.pop("fingerprint", None)
    if unknown := sorted(set(fields) - {each.name for each in fields_of(kind)}):
        raise ValueError(f"parameters: {unknown[0]!r} is no parameter of the scheme {name!r}.")
    try:
        scheme = kind(**fields)
    except (TypeError, ArithmeticError, LookupError, RecursionError, MemoryError) as error:
        raise ValueError(f"parameters: {error}.") from None
    if fingerprint != scheme.fingerprint:
        raise ValueError(
            "parameters: fingerprint must be that of these parameters: the parameters were "
            "changed; take the complete text from where it was made."
        )
    return scheme


def known_schemes() -> dict[str, type[Scheme]]:
    """All schemes by name; a scheme is known once its module is imported, which this does."""
    for name in MODULES:
        importlib.import_module(f"sfumato.telemetry.schemes.{name}")
    return Scheme.KNOWN


def log_up(ratio: Fraction) -> float:
    """Return the logarithm of a ratio of at least 1, rounded up."""
    return math.log1p(float(ratio - 1)) * UP


def _is_line(text: Any) -> bool:
    """Return whether this is a text of at most LONGEST bytes without control characters."""
    try:
        fits = isinstance(text, str) and len(text.encode()) <= LONGEST
    except UnicodeEncodeError:
        return False
    return fits and not any(unicodedata.category(letter) == "Cc" for letter in text)


GRID = 2**32


def log_ratio(more: Fraction, less: Fraction) -> float:
    """Return ln(more / less) for more > less, rounded up so that it can be stated as an epsilon."""
    return Flips(less / (more + less)).epsilon


def symbol_step(owner: str, cells: int, members: int, epsilon: float) -> int:
    """Return the fewest words, of GRID, for each cell outside the value's set, within epsilon.

    Every cell gets this number of words, and the value's `members` cells divide the remaining
    words equally; that is exact since `members` is 1, or it and `cells` are powers of two.
    """

    def fits(wrong: int) -> bool:
        extra = (GRID - cells * wrong) // members
        return extra > 0 and log_ratio(Fraction(wrong + extra), Fraction(wrong)) <= epsilon

    most = (GRID - members) // cells
    if most < 1 or not fits(most):
        raise _nothing(owner, epsilon)
    return _least(fits, most)


def subset_step(owner: str, cells: int, chosen: int, epsilon: float) -> int:
    """Return the most words, of GRID, that put the value's own cell in the subset, within epsilon.

    Given that the cell is in, all subsets that contain it are equally likely; given that it is not,
    so are all others. The first kind are chosen / (cells - chosen) times as many as the second.
    """
    odds = Fraction(cells - chosen, chosen)

    def fits(left_out: int) -> bool:
        included = odds * (GRID - left_out)
        return included > left_out and log_ratio(included, Fraction(left_out)) <= epsilon

    even = GRID * (cells - chosen) // cells  # with these, reports do not depend on the value
    most = even - (even * cells == GRID * (cells - chosen))
    if most < 1 or not fits(most):
        raise _nothing(owner, epsilon)
    return GRID - _least(fits, most)


def _least(fits: Callable[[int], bool], most: int) -> int:
    """Return the least integer from 1 on that fits, given that all from there up to `most` do."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _nothing(owner: str, epsilon: float) -> ValueError:
    """Error for an epsilon at which reports would carry no information."""
    return ValueError(
        f"{owner}: epsilon must be larger, not {epsilon!r}, or the cells fewer: reports in steps "
        f"of 2**-32 would carry no information."
    )


BLOCK = 1 << 16  # rows answered at a time, whose words stay in the cache


@dataclass(frozen=True, repr=False)
class SymbolScheme(Scheme):
    """Scheme whose report is one cell, decided by one 32-bit word.

    Of all words, `wrong` select each cell; the `set_size` cells of the value divide the remaining
    words equally. So a cell of the value's set has probability `high` and any other `low`; their
    ratio is at most exp(epsilon).
    """

    epsilon: float = field(kw_only=True)
    kind: ClassVar[str] = "symbol"
    LIMITS: ClassVar[dict[str, Any]] = {"epsilon": positive}

    @property
    def set_size(self) -> int:
        """Number of cells of a value."""
        return 1

    @cached_property
    def wrong(self) -> int:
        """Number of the 2**32 random words that select each cell outside the value's set."""
        return symbol_step(type(self).__name__, self.cells, self.set_size, self.epsilon)

    @property
    def extra(self) -> int:
        """Number of random words, beyond `wrong`, that select each cell of the value's set."""
        return (GRID - self.cells * self.wrong) // self.set_size

    @property
    def high(self) -> Fraction:
        """Probability of each cell of the value's set."""
        return Fraction(self.wrong + self.extra, GRID)

    @property
    def low(self) -> Fraction:
        """Probability of each cell outside the value's set."""
        return Fraction(self.wrong, GRID)

    def loss(self) -> Loss:
        # Between two values a report is a function of one flipped bit.
        return Flips(self.low / (self.high + self.low), relation="replace")

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """Draw the permanent response of every row: the cell that its first random word selects.

        Parameters
        ----------
        stream : Stream
            Uniform 32-bit words, one stream per row: keyed by the client's secret, or fresh.
        members : ndarray of shape (n, s)
            Cells of each row's value in its cohort, as `own_members` returns them.

        Returns
        -------
        ndarray of shape (n, 4) with dtype uint8
            Cell of each row as a little-endian uint32.
        """
        out = np.empty((members.shape[0], 4), np.uint8)
        for begin in range(0, len(out), BLOCK):
            own = members[begin : begin + BLOCK]
            words = stream.words(np.arange(begin, begin + len(own)), 0, 1)[:, 0]
            answers = self._cells_of(words.astype(np.int64), own).astype("<u4")
            out[begin : begin + BLOCK] = answers.view(np.uint8).reshape(-1, 4)
        return out

    def _cells_of(self, words: np.ndarray, own: np.ndarray) -> np.ndarray:
        """Map the first cells * wrong words to all cells equally, the others to the value's set."""
        surplus = words - self.cells * self.wrong
        true_cells = own[np.arange(len(own)), np.maximum(surplus, 0) // self.extra]
        return np.where(surplus < 0, words // self.wrong, true_cells)


def pair_statement(first: Scheme, second: Scheme) -> PrivacyStatement | str:
    """State the privacy guarantee of a client that reports two variables.

    Parameters
    ----------
    first : Scheme
        Scheme of the first variable.
    second : Scheme
        Scheme of the second variable, with another metric.

    Returns
    -------
    PrivacyStatement or str
        Statement for replacing both values at once; a plain warning if an epsilon is infinite.

    Raises
    ------
    ValueError
        If both schemes have the same fingerprint, so that their noise would be the same.

    Notes
    -----
    **Guarantee.** The stated epsilon is at least the sum of both permanent epsilons (basic
    composition), since both values may change at once. Metrics of their own keep the noise of the
    two variables independent.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> tea, cup = (Rappor.for_epsilon(1, metric=name, bits=16) for name in ("tea", "cup"))
    >>> statement = pair_statement(tea, cup)
    >>> statement.epsilon >= tea.epsilon_permanent + cup.epsilon_permanent
    True
    """
    return together([first, second], f"the pair of metrics {first.metric!r} and {second.metric!r}")


def together(schemes: Sequence[Scheme], what: str) -> PrivacyStatement | str:
    """State the guarantee of a client that reports to all schemes, under replacing all values."""
    separate(schemes, what)
    parts = "; ".join(scheme.sentence() for scheme in schemes)
    epsilon = _sum([scheme.epsilon_permanent for scheme in schemes])
    if not math.isfinite(epsilon):
        return f"NOT PRIVATE: the epsilon of {what} is infinite ({parts})."
    one = _sum([scheme.epsilon_one for scheme in schemes])
    return PrivacyStatement(
        unit="event",
        relation="replace",
        mechanism=f"{len(schemes)} reports for {what}, whose epsilons add up: {parts}",
        epsilon=epsilon,
        loss=Pure(epsilon, relation="replace").to_dict(),
        covers=COVERS.format(one=f"{one:.6g}"),
    )


def separate(schemes: Sequence[Scheme], what: str) -> None:
    """Raise ValueError if two schemes would give a client the same key."""
    if len({scheme.fingerprint for scheme in schemes}) < len(schemes):
        raise ValueError(
            f"{what}: each variable must have a metric of its own, or a client's secret would give "
            "both the same noise; set `metric` of each scheme."
        )


def _sum(parts: list[float]) -> float:
    """Sum epsilons exactly and round up; infinite if any is."""
    if not all(math.isfinite(part) for part in parts):
        return math.inf
    return round_up(sum((Fraction(part) for part in parts), Fraction(0)))
