"""Privacy statements: what a release guarantees, for whom, by which mechanism, and at what cost."""

import json
import math
import re
import textwrap
from dataclasses import asdict, dataclass
from dataclasses import fields as fields_of
from decimal import ROUND_CEILING, Context
from typing import Any, Self

from sfumato.core.tables import Page
from sfumato.core.validation import DELTA, checked, integer, one_of, positive
from sfumato.privacy.accounting.losses import GaussianNoise, LaplaceNoise, Loss
from sfumato.privacy.units import RELATIONS, UNITS

__all__ = ["SCHEMA", "UNITS", "WEAK_DELTA", "WEAK_EPSILON", "PrivacyStatement", "weakness"]

UNACCOUNTED = "unaccounted"
SYSTEM = "operating system"
INSECURE = "insecure: seeded for tests, not private"

# Where a guarantee, proved or not, says next to nothing; public, and the same for all data.
# Above epsilon 20 an observer's odds about a unit may grow by more than exp(20) = 485 million: who
# thought its presence one in a million before reading a release may be sure of it afterwards.
WEAK_EPSILON = 20.0
# A release that publishes each unit's data as they are with probability delta is (0, delta)
# private: of N units, N delta are then expected to lie open. So delta must be far below 1 / N. N is
# private, hence a constant: from 10,000 units on, which most data sets have, 1e-4 allows one.
WEAK_DELTA = 1e-4


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyStatement(Page):
    """Guarantee of a release, which travels inside the release; `print` shows all of it.

    The text says what epsilon and delta mean for one unit, and how large the noise on each number
    is beside the change by one event. Nothing in a statement depends on private data.

    Parameters
    ----------
    unit : str
        Unit of privacy: "event", "item of a profile", "user", "basket", "adjacency list" or "edge".
    relation : str
        Adjacency of data sets: "add/remove" or "replace" of one unit.
    mechanism : str
        One line that describes the mechanism and its noise.
    epsilon : float
        Epsilon of the guarantee, above 0.
    delta : float, default=0.0
        Delta of the guarantee, from 0 to below 1.
    loss : dict
        `Loss.to_dict` of the release, which composes more tightly than (epsilon, delta); may be
        empty.
    proof : str, default="proved"
        "proved" (of the code that runs) or "measured".
    covers : str, default="the whole release"
        What an attacker may observe under the guarantee.
    source : str, default="operating system"
        Source of the random bits; any other than the default is insecure, for tests.
    dataset : str, default=""
        Data set of the ledger that was charged.
    ledger : str, default="unaccounted"
        Name of the ledger that was charged.
    release : str, default=""
        Release id of the charge.
    audit : str, default=""
        What measured the guarantee, where the curator wrote that down.
    contributions : int, default=1
        Largest number of events of one unit, for which the curator vouches.

    Notes
    -----
    **Guarantee.** A statement cannot be built, or read, whose epsilon is below that of its own
    `loss` at its delta.

    Examples
    --------
    >>> statement = PrivacyStatement(
    ...     unit="event", relation="add/remove", mechanism="discrete Laplace, scale 2 on each cell",
    ...     epsilon=0.5, covers="the whole file", loss={})
    >>> statement.delta, statement.ledger
    (0.0, 'unaccounted')
    >>> print(statement)  # doctest: +ELLIPSIS
    PrivacyStatement: proved, epsilon 0.5
      protects    one event (add/remove)
      means       0.5-differentially private: adding or removing one event (a row or
                  a rating) changes the probability of any outcome by a factor of at
                  most e^0.5 = 1.65.
    ...
    """

    unit: str
    relation: str
    mechanism: str
    epsilon: float
    delta: float = 0.0
    loss: dict[str, Any]
    proof: str = "proved"
    covers: str = "the whole release"
    source: str = SYSTEM
    dataset: str = ""
    ledger: str = UNACCOUNTED
    release: str = ""
    audit: str = ""
    contributions: int = 1

    def __post_init__(self) -> None:
        checked(self, _LIMITS)
        for field in fields_of(self):
            wanted = _TYPES[field.name]
            value = getattr(self, field.name)
            if not isinstance(value, wanted):
                raise ValueError(f"PrivacyStatement: {field.name} must be a {wanted.__name__}.")
            # A line break could forge a line of what repr prints.
            if isinstance(value, str) and not value.isprintable():
                raise ValueError(f"PrivacyStatement: {field.name} must be one line of text.")
        self._check_cost()

    def _check_cost(self) -> None:
        """Raise where the statement claims less than its own loss."""
        if not self.loss:
            return
        known = Loss.from_dict(self.loss)
        if known.relation != self.relation:
            raise ValueError("PrivacyStatement: loss must be under the relation of the statement.")
        if known.epsilon > self.epsilon * (1 + 1e-12) and self._costs(known) > self.epsilon:
            raise ValueError("PrivacyStatement: epsilon must not be below that of the loss.")

    def _costs(self, known: Loss) -> float:
        """Return the epsilon of a loss at this delta, less the tolerance of bisection."""
        from sfumato.privacy.accounting.calibration import epsilon_of

        return epsilon_of(known, self.delta) * (1 - 1e-6) if self.delta else math.inf

    @property
    def insecure(self) -> bool:
        """Whether the noise could be computed again from a seed: then nothing is private."""
        return self.source != SYSTEM

    @property
    def warning(self) -> str:
        """Sentence where the guarantee protects next to nothing (see `weakness`), else ""."""
        return weakness(self.epsilon, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """Convert the statement to plain JSON values, as `SCHEMA` describes them.

        Returns
        -------
        dict
            All fields by name.
        """
        return asdict(self)

    def to_json(self) -> str:
        """Convert the statement to JSON text.

        Returns
        -------
        str
            One JSON object with sorted keys.
        """
        return json.dumps(self.to_dict(), allow_nan=False, sort_keys=True)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """Build a statement from its fields.

        Parameters
        ----------
        fields : dict
            Result of `to_dict`.

        Returns
        -------
        Self
            The statement.

        Raises
        ------
        ValueError
            If a field is missing, unknown or invalid.
        """
        if not isinstance(fields, dict) or set(fields) != set(_TYPES):
            raise ValueError("PrivacyStatement: the fields are not those of a statement.")
        return cls(**fields)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Build a statement from JSON text.

        Parameters
        ----------
        text : str
            Result of `to_json`.

        Returns
        -------
        Self
            The statement.

        Raises
        ------
        ValueError
            If the text is malformed, or a field is missing, unknown or invalid.
        """
        return cls.from_dict(json.loads(text))

    @property
    def headline(self) -> str:
        """Proved, measured or NOT PRIVATE; epsilon and delta rounded up; whether they are weak."""
        cost = f"epsilon {_up(self.epsilon)}" + (f", delta {_up(self.delta)}" if self.delta else "")
        weak = ", hides next to nothing" if self.warning else ""
        return f"{'NOT PRIVATE' if self.insecure else self.proof}, {cost}{weak}"

    def __repr__(self) -> str:
        protected = f"one {self.unit}{self._events()} ({self.relation})"
        paid = UNACCOUNTED if self.ledger == UNACCOUNTED else f"data set {self.dataset!r:.60}"
        return f"PrivacyStatement({self.headline}; {protected}; {paid})"

    def __str__(self) -> str:
        lines = [_hanging(name, text) for name, text in self._lines().items()]
        return "\n".join([f"PrivacyStatement: {self.headline}", *lines])

    def _lines(self) -> dict[str, str]:
        """Return the lines of the text by name."""
        lines = {
            "warning": self.warning,
            "protects": f"one {self.unit}{self._events()} ({self.relation})",
            "means": self._meaning(),
            "by": self.mechanism,
            "covers": self.covers,
            "noise from": self.source,
            "budget": self._budget(),
            "audit": self.audit,
        }
        return {name: text for name, text in lines.items() if text}

    def _facts(self) -> dict[str, str]:
        return {"guarantee": self.headline, **self._lines()}

    def _meaning(self) -> str:
        """Say what epsilon and delta mean for one unit, and what the noise means in events."""
        if self.insecure:
            return ""
        cost = f"({_up(self.epsilon)}, {_up(self.delta)})" if self.delta else _up(self.epsilon)
        measured = "" if self.proof == "proved" else "as far as measured, "
        inside = " (a row or a rating)" if self.unit == "event" else ""
        if self.contributions > 1:
            inside = f" (at most {self.contributions} events: rows or ratings)"
        change = f"adding or removing one {self.unit}{inside}"
        if self.relation == "replace":
            change = f"replacing one {self.unit}{inside} by another"
        factor = f"e^{_up(self.epsilon)}"
        if self.epsilon < 700:  # beyond, exp is no float
            factor += f" = {_up(math.nextafter(math.exp(self.epsilon), math.inf), 3)}"
        plus = f", plus {_up(self.delta)}" if self.delta else ""
        return (
            f"{measured}{cost}-differentially private: {change} changes the probability of any "
            f"outcome by a factor of at most {factor}{plus}.{self._noise()}"
        )

    def _noise(self) -> str:
        """Say how large the noise on each number is, in events or beside the sensitivity."""
        found = _NOISE.match(self.mechanism)
        scale = float(found["scale"]) if found else 0.0
        if found is None or not MIN_SCALE <= scale <= 2**40:
            return ""
        from sfumato.privacy.noise.distribution import NoiseDistribution

        deviation = math.sqrt(NoiseDistribution(found["kind"], scale).variance)
        if found["times"]:
            events = deviation / max(int(found["times"]), 1)
            return f" The noise on an item's count has a standard deviation of {events:.3g} events."
        sentence = f" The noise on each number has a standard deviation of {deviation:.3g}"
        if not found["weight"]:
            return f"{sentence}{self._sensitivity()}."
        weight = max(int(found["weight"]), 1)
        each = "" if weight == 1 else f", at most {weight} each,"
        return f"{sentence}, as much as {deviation / weight:.3g} events{each} add to it."

    def _sensitivity(self) -> str:
        """Say how much one unit changes the numbers, where the loss has it."""
        loss = Loss.from_dict(self.loss) if self.loss else None
        if isinstance(loss, LaplaceNoise):
            total = f"{loss.change * loss.cells} in total (L1 sensitivity)"
        elif isinstance(loss, GaussianNoise):
            norm = math.sqrt(loss.cells) * loss.change
            total = f"{_up(norm, 3)} in Euclidean norm (L2 sensitivity)"
        else:
            return ""
        return f"; one {self.unit}{self._events()} changes the numbers by at most {total}"

    def _events(self) -> str:
        """Return the limit on a unit's events in words, "" for one."""
        return f" of at most {self.contributions} events" if self.contributions > 1 else ""

    def _budget(self) -> str:
        """Return in words what was charged."""
        if self.ledger == UNACCOUNTED:
            return "unaccounted: no ledger was charged"
        return f"data set {self.dataset!r}, release {self.release!r}, ledger {self.ledger!r}"


def weakness(epsilon: float, delta: float = 0.0) -> str:
    """Return a sentence about an epsilon or delta too large to protect anyone, else "".

    Parameters
    ----------
    epsilon : float
        Epsilon of a guarantee; above `WEAK_EPSILON` it protects next to nothing.
    delta : float, default=0.0
        Delta of a guarantee; from `WEAK_DELTA` on it may give away entire units.

    Returns
    -------
    str
        One or two sentences that depend on epsilon and delta alone.

    Examples
    --------
    >>> weakness(1.0, 1e-6)
    ''
    >>> weakness(25.0)
    "epsilon above 20 hides next to nothing: an observer's odds about a unit may grow exp(25)-fold."
    """
    sentences = []
    if epsilon > WEAK_EPSILON:
        sentences.append(
            f"epsilon above {WEAK_EPSILON:g} hides next to nothing: an observer's odds about a "
            f"unit may grow exp({_up(epsilon)})-fold."
        )
    if delta >= WEAK_DELTA:
        sentences.append(
            f"delta from {WEAK_DELTA:g} on may give units away: a fraction of {_up(delta)} of them "
            "may be published as they are."
        )
    return " ".join(sentences)


def _hanging(name: str, text: str) -> str:
    """Format one field for a terminal, with its lines under each other."""
    begin = f"  {name:<12}"
    return textwrap.fill(text, 80, initial_indent=begin, subsequent_indent=" " * len(begin))


def _up(number: float, digits: int = 6) -> str:
    """Format a number rounded up to this many significant digits."""
    if float(f"{number:.{digits}g}") == number:
        return f"{number:.{digits}g}"
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(number)
    return f"{float(rounded):.{digits}g}"


# Mechanisms that add noise of one scale to each released number, as they describe themselves;
# with the weight of an event where the numbers are sums of weights.
_NOISE = re.compile(
    r"discrete (?P<kind>Laplace|Gaussian) noise(?: of|,) (?:scale|sigma) "
    r"(?P<scale>[0-9]{1,16}(?:\.[0-9]{1,16})?(?:e[+-][0-9]{1,3})?),? on "
    r"(?:each\b(?:.*; an event weighs at most (?P<weight>[0-9]{1,19})$)?"
    r"|(?P<times>[0-9]{1,19}) times the counts )"
)
MIN_SCALE = 2**-10  # below, the noise is 0 but for a probability of exp(-1024)


_LIMITS: dict[str, Any] = {
    "relation": one_of(RELATIONS),
    "unit": one_of(UNITS),
    "proof": one_of(("proved", "measured")),
    "source": one_of((SYSTEM, INSECURE)),
    "epsilon": positive,
    "delta": DELTA,
    "contributions": integer(1, 2**31),
}
_TYPES = {
    field.name: {"epsilon": float, "delta": float, "loss": dict, "contributions": int}.get(
        field.name, str
    )
    for field in fields_of(PrivacyStatement)
}
_CHOICES = {
    name: list(limit.choices) for name, limit in _LIMITS.items() if hasattr(limit, "choices")
}
_NUMBERS = {
    "epsilon": {"exclusiveMinimum": 0},
    "delta": {"minimum": 0, "exclusiveMaximum": 1},
    "contributions": {"minimum": 1, "maximum": 2**31},
}
_NAMES = {str: "string", float: "number", dict: "object", int: "integer"}

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "PrivacyStatement",
    "type": "object",
    "additionalProperties": False,
    "required": sorted(_TYPES),
    "properties": {
        name: {
            "type": _NAMES[kind],
            **({"enum": _CHOICES[name]} if name in _CHOICES else {}),
            **_NUMBERS.get(name, {}),
        }
        for name, kind in _TYPES.items()
    },
}
