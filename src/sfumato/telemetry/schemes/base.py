"""What every scheme of reports is: cohorts by cells, chances, a line that names it, JSON.

Chances in steps of 2**-32, so that one random word decides, which never cost more than asked.
Reports of one cell: one random word decides whether it is of the value or any of all cells. What a
client is promised that sends reports of several schemes: their costs add up.
"""

import hashlib
import json
import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
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
LONGEST = 200  # bytes of a metric's name
ENTRIES = 1 << 20  # of a table of members that is made at a time
COVERS = (
    "one value of one client, for ever, to who sees all its reports but not its secret: many "
    "reports of a value reveal no more than its permanent response. It is per distinct value and "
    "secret: a changed value, cleared storage, another metric or new parameters draw a new "
    "response, and what they cost adds up. One report alone costs epsilon {one}. Permanent "
    "responses come from HMAC-SHA-256, so the promise is computational: it holds against who "
    "cannot break HMAC. Secrets are separated by metric and parameters; clients that share one "
    "give equal permanent responses to equal values, which shows that they are equal, and who has "
    "it can undo the noise. Not hidden: how often a client reports, its cohort, and that reports "
    "with like noise are of one client and value"
)


@dataclass(frozen=True, repr=False)
class Scheme:
    """A table of cohorts by cells, in which every report marks some cells of its cohort.

    A value has a set of cells in each cohort. A report marks a cell of that set with the chance
    `high` and any other with `low`, both of the code that runs: independently (kind "bits"), or
    exactly one cell (kind "symbol"), or a fixed number of them (kind "subset").

    A payload of kind "symbol" is the cell as uint32, low byte first; else cell i is bit i & 7 of
    byte i >> 3.

    Parameters
    ----------
    metric : str, default=""
        Text up to 200 bytes that separates secrets, without control characters.
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
        names = [each.name for each in fields(self) if each.init and each.repr]
        return described(self, **{name: getattr(self, name) for name in names})

    def line(self) -> str:
        """All that clients and servers must agree on, in one line.

        Returns
        -------
        str
            All that clients and servers must agree on, in one line.
        """
        raise NotImplementedError

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that reports carry: the start of SHA-256 of the line."""
        return hashlib.sha256(self.line().encode()).hexdigest()[:16]

    @property
    def domain(self) -> list[Any] | None:
        """The values that can be reported, in the order of their cells, where they are known."""
        return None

    @property
    def payload_bytes(self) -> int:
        """TODO."""
        return 4 if self.kind == "symbol" else -(-self.cells // 8)

    def values(self, column: Column) -> Values:
        """A column of values as the scheme takes them; ValueError or TypeError by position.

        Parameters
        ----------
        column : array_like
            TODO.

        Returns
        -------
        Values
            A column of values as the scheme takes them; ValueError or TypeError by position.
        """
        return value_column(column)

    def reported(self, column: Column) -> Values:
        """A column of what clients report, each row by itself; none raises.

        What is no value is reported as the scheme says by a public rule: as an empty text here.

        Parameters
        ----------
        column : array_like
            TODO.

        Returns
        -------
        Values
            A column of what clients report, each row by itself; none raises.
        """
        return reported_column(column)

    def members(self, values: Column) -> np.ndarray:
        """The cells of each value in each cohort: int32 (n, cohorts, s), -1 where there are fewer.

        Parameters
        ----------
        values : array_like
            A column of text or integers (or what the scheme's domain holds).

        Returns
        -------
        ndarray
            The cells of each value in each cohort: int32 (n, cohorts, s), -1 where there are fewer.
        """
        raise NotImplementedError

    def own_members(self, values: Values, cohorts: np.ndarray) -> np.ndarray:
        """The cells of the value of each row in its own cohort: int32 (n, s).

        Parameters
        ----------
        values : Values
            TODO.
        cohorts : ndarray
            TODO.

        Returns
        -------
        ndarray
            The cells of the value of each row in its own cohort: int32 (n, s).
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
        """Members as int32 (n, s), once it is sure that none lies beyond the cells.

        Parameters
        ----------
        members : ndarray
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        low, high = members.min(initial=0), members.max(initial=0)
        if members.ndim != 2 or not -1 <= low <= high < self.cells:
            raise ValueError(
                f"{type(self).__name__}: members must be rows of cells from 0 to {self.cells - 1}, "
                "or -1 for none."
            )
        return np.ascontiguousarray(members, np.int32)

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """The permanent response of every row to its cells, int32 (n, s): uint8 payloads.

        Parameters
        ----------
        stream : Stream
            TODO.
        members : ndarray
            TODO.

        Returns
        -------
        ndarray
            The permanent response of every row to its cells, int32 (n, s): uint8 payloads.
        """
        raise NotImplementedError

    def instant(self, payload: np.ndarray, source: Source) -> np.ndarray:
        """What is sent of a permanent response: itself, where no fresh noise is added.

        Parameters
        ----------
        payload : ndarray
            TODO.
        source : Source
            TODO.

        Returns
        -------
        ndarray
            What is sent of a permanent response: itself, where no fresh noise is added.
        """
        return payload

    def loss(self) -> Loss:
        """What a permanent response costs, as a description that composes.

        Returns
        -------
        Loss
            What a permanent response costs, as a description that composes.
        """
        raise NotImplementedError

    @property
    def epsilon_permanent(self) -> float:
        """Of all reports of one value."""
        return self.loss().epsilon

    @property
    def epsilon_one(self) -> float:
        """Of one report: the same, where no fresh noise is added."""
        return self.epsilon_permanent

    def sentence(self) -> str:
        """The mechanism in a few words.

        Returns
        -------
        str
            The mechanism in a few words.
        """
        raise NotImplementedError

    def statement(self) -> PrivacyStatement | str:
        """What a client is promised; a plain warning where there is nothing to promise.

        Returns
        -------
        PrivacyStatement or str
            What a client is promised; a plain warning where there is nothing to promise.
        """
        if not math.isfinite(self.epsilon_permanent):
            return (
                f"NOT PRIVATE: epsilon_permanent is infinite ({self.sentence()}). Who collects the "
                f"reports of a client may learn its value. One report alone: {self._one()}."
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
        """How many cohorts, for a sentence."""
        return f"{self.cohorts} cohort{'' if self.cohorts == 1 else 's'}"

    def _one(self) -> str:
        return f"{self.epsilon_one:.6g}" if math.isfinite(self.epsilon_one) else "infinite"

    def to_json(self) -> str:
        """The parameters as JSON, with their fingerprint.

        Returns
        -------
        str
            The parameters as JSON, with their fingerprint.
        """
        told = {"format": FORMAT, "version": VERSION, "scheme": self.name, "metric": self.metric}
        told |= self._told() | {"fingerprint": self.fingerprint}
        return json.dumps(told, ensure_ascii=False, indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """The scheme of `to_json`; ValueError where the text is not that of one.

        Parameters
        ----------
        text : str or bytes
            TODO.

        Returns
        -------
        Self
            The scheme of `to_json`; ValueError where the text is not that of one.
        """
        scheme = read_scheme(text)
        if not isinstance(scheme, cls):
            raise ValueError(f"{cls.__name__}: the parameters are of the scheme {scheme.name!r}.")
        return scheme

    def _told(self) -> dict[str, Any]:
        """The parameters beside the metric, as plain JSON values."""
        held = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: value for name, value in held.items() if name != "metric" and value is not None
        }


def read_scheme(text: str | bytes) -> Scheme:
    """The scheme that a JSON text of parameters describes; its fingerprint must agree.

    Parameters
    ----------
    text : str or bytes
        TODO.

    Returns
    -------
    Scheme
        The scheme that a JSON text of parameters describes; its fingerprint must agree.
    """
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("parameters: the text is not JSON.") from None
    if not isinstance(told, dict) or told.pop("format", None) != FORMAT:
        raise ValueError(f"parameters: the text must be JSON of the format {FORMAT!r}.")
    if (version := told.pop("version", None)) != VERSION:
        raise ValueError(f"parameters: version must be {VERSION}, not {version!r}.")
    kind = Scheme.KNOWN.get(str(name := told.pop("scheme", None)))
    if kind is None:
        raise ValueError(f"parameters: scheme must be one of {sorted(Scheme.KNOWN)}, not {name!r}.")
    mark = told.pop("fingerprint", None)
    if strange := sorted(set(told) - {each.name for each in fields(kind)}):
        raise ValueError(f"parameters: {strange[0]!r} is no parameter of the scheme {name!r}.")
    try:
        scheme = kind(**told)
    except (TypeError, ArithmeticError, LookupError, RecursionError, MemoryError) as error:
        raise ValueError(f"parameters: {error}.") from None
    if mark != scheme.fingerprint:
        raise ValueError(
            "parameters: fingerprint must be that of these parameters: the parameters were "
            "changed; take the whole text from where it was made."
        )
    return scheme


def log_up(ratio: Fraction) -> float:
    """The logarithm of a ratio of at least 1, rounded up."""
    return math.log1p(float(ratio - 1)) * UP


def _is_line(text: Any) -> bool:
    try:
        fits = isinstance(text, str) and len(text.encode()) <= LONGEST
    except UnicodeEncodeError:
        return False
    return fits and not any(unicodedata.category(letter) == "Cc" for letter in text)


GRID = 2**32


def log_ratio(more: Fraction, less: Fraction) -> float:
    """The log of more / less, which is above 1, rounded up: an epsilon that may be promised."""
    return Flips(less / (more + less)).epsilon


def symbol_step(owner: str, cells: int, members: int, epsilon: float) -> int:
    """The fewest words, of GRID, that lead to each cell that is not the value's, within epsilon.

    All cells get so many, and the value's own share what is left, which `members` divides: it is
    1, or it and `cells` are powers of two.
    """

    def fits(wrong: int) -> bool:
        extra = (GRID - cells * wrong) // members
        return extra > 0 and log_ratio(Fraction(wrong + extra), Fraction(wrong)) <= epsilon

    most = (GRID - members) // cells
    if most < 1 or not fits(most):
        raise _nothing(owner, epsilon)
    return _least(fits, most)


def subset_step(owner: str, cells: int, chosen: int, epsilon: float) -> int:
    """The most words, of GRID, that put the value's own cell in the subset, within epsilon.

    Given that it is in, every subset with it is as likely as any other; and so without it. There
    are chosen / (cells - chosen) as many of the first kind as of the second.
    """
    odds = Fraction(cells - chosen, chosen)

    def fits(left_out: int) -> bool:
        kept = odds * (GRID - left_out)
        return kept > left_out and log_ratio(kept, Fraction(left_out)) <= epsilon

    even = GRID * (cells - chosen) // cells  # left out so often, a report would tell nothing
    most = even - (even * cells == GRID * (cells - chosen))
    if most < 1 or not fits(most):
        raise _nothing(owner, epsilon)
    return GRID - _least(fits, most)


def _least(fits: Callable[[int], bool], most: int) -> int:
    """The least number from 1 on that fits, when `most` does and so do all in between."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _nothing(owner: str, epsilon: float) -> ValueError:
    return ValueError(
        f"{owner}: epsilon must be larger, not {epsilon!r}, or the cells fewer: reports in steps "
        f"of 2**-32 would tell nothing."
    )


BLOCK = 1 << 16  # rows answered at a time, whose words stay in the cache


@dataclass(frozen=True, repr=False)
class SymbolScheme(Scheme):
    """A report marks one cell: of 2**32 words, `wrong` lead to each cell, the rest to the value's.

    A value has `set_size` cells, which share that rest equally, so a cell that is the value's has
    the chance `high` and any other `low`; their ratio is at most exp(epsilon).
    """

    epsilon: float = field(kw_only=True)
    kind: ClassVar[str] = "symbol"
    LIMITS: ClassVar[dict[str, Any]] = {"epsilon": positive}

    @property
    def set_size(self) -> int:
        """TODO."""
        return 1

    @cached_property
    def wrong(self) -> int:
        """How many of 2**32 words lead to each cell that is not the value's."""
        return symbol_step(type(self).__name__, self.cells, self.set_size, self.epsilon)

    @property
    def extra(self) -> int:
        """How many more lead to each cell of the value."""
        return (GRID - self.cells * self.wrong) // self.set_size

    @property
    def high(self) -> Fraction:
        """TODO."""
        return Fraction(self.wrong + self.extra, GRID)

    @property
    def low(self) -> Fraction:
        """TODO."""
        return Fraction(self.wrong, GRID)

    def loss(self) -> Loss:
        """Between two values a report is a function of one bit that was flipped.

        Returns
        -------
        Loss
            TODO.
        """
        return Flips(self.low / (self.high + self.low), relation="replace")

    def respond(self, stream: Stream, members: np.ndarray) -> np.ndarray:
        """The cell that the first word of each row's stream leads to, as uint32, low byte first.

        Parameters
        ----------
        stream : Stream
            TODO.
        members : ndarray
            TODO.

        Returns
        -------
        ndarray
            The cell that the first word of each row's stream leads to, as uint32, low byte first.
        """
        out = np.empty((members.shape[0], 4), np.uint8)
        for begin in range(0, len(out), BLOCK):
            own = members[begin : begin + BLOCK]
            words = stream.words(np.arange(begin, begin + len(own)), 0, 1)[:, 0]
            answers = self._cells_of(words.astype(np.int64), own).astype("<u4")
            out[begin : begin + BLOCK] = answers.view(np.uint8).reshape(-1, 4)
        return out

    def _cells_of(self, words: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The first cells * wrong words lead to all cells alike, the others to the value's own."""
        rest = words - self.cells * self.wrong
        kept = own[np.arange(len(own)), np.maximum(rest, 0) // self.extra]
        return np.where(rest < 0, words // self.wrong, kept)


def pair_statement(first: Scheme, second: Scheme) -> PrivacyStatement | str:
    """What a client is promised that reports two variables: the two epsilons add up.

    Parameters
    ----------
    first : Scheme
        TODO.
    second : Scheme
        TODO.

    Returns
    -------
    PrivacyStatement or str
        What a client is promised that reports two variables: the two epsilons add up.

    Notes
    -----
    **Guarantee.** Epsilon is at least the sum of both permanent epsilons, by basic composition,
    since both variables may change at once; a metric of its own for each keeps their noise
    independent.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> tea, cup = (Rappor.for_epsilon(1, metric=name, bits=16) for name in ("tea", "cup"))
    >>> told = pair_statement(tea, cup)
    >>> told.epsilon >= tea.epsilon_permanent + cup.epsilon_permanent
    True
    """
    return together([first, second], f"the pair of metrics {first.metric!r} and {second.metric!r}")


def together(schemes: Sequence[Scheme], what: str) -> PrivacyStatement | str:
    """The statement of one client that answers all schemes once, under replacing all its values."""
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
    """Refuse schemes that would give a client the same key twice."""
    if len({scheme.fingerprint for scheme in schemes}) < len(schemes):
        raise ValueError(
            f"{what}: each variable must have a metric of its own, or a client's secret would give "
            "both the same noise; set `metric` of each scheme."
        )


def _sum(parts: list[float]) -> float:
    if not all(math.isfinite(part) for part in parts):
        return math.inf
    return round_up(sum((Fraction(part) for part in parts), Fraction(0)))
