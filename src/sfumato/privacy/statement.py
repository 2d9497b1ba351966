"""The privacy statement: what a release promises, to whom, by which mechanism, and at what cost."""

import json
import math
import textwrap
from dataclasses import asdict, dataclass, fields
from decimal import ROUND_CEILING, Context
from typing import Any, Self

from sfumato.core.tables import Page
from sfumato.core.validation import DELTA, checked, integer, one_of, positive
from sfumato.privacy.accounting.losses import RELATIONS, Loss

__all__ = ["SCHEMA", "WEAK_DELTA", "WEAK_EPSILON", "PrivacyStatement", "weakness"]

UNITS = ("event", "item of a profile", "user", "basket", "adjacency list", "edge")
UNACCOUNTED = "unaccounted"
SYSTEM = "operating system"
INSECURE = "insecure: seeded for tests, not private"

# Where a guarantee, proved or not, says next to nothing; public, and the same for all data.
# Above epsilon 20 an observer's odds about a unit may grow by more than exp(20) = 485 million: who
# held its presence for one in a million before seeing a release may be sure of it afterwards.
WEAK_EPSILON = 20.0
# A release that publishes each unit's data as they are with probability delta is (0, delta)
# private: of N units, N delta are then expected to lie open. So delta must be far below 1 / N. N is
# private, hence a constant: from 10,000 units on, which most data sets have, 1e-4 allows one.
WEAK_DELTA = 1e-4


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyStatement(Page):
    """What a release promises. It travels inside the release; `print` writes all of it.

    unit, whose presence is hidden; relation, of neighbouring data; mechanism, a sentence, and
    `loss`, its description that composes; epsilon and delta; proof, "proved" (of the code that
    runs) or "measured"; covers, what the promise is about; source, of the noise; dataset, ledger
    and release, the budget entry, or "unaccounted"; audit, what measured it, where the curator
    wrote that down; contributions, how many events a unit has at most, for which the curator
    vouches. Nothing in it depends on private data. `warning` says where epsilon or delta is so
    large that the promise is worth next to nothing; it follows from them and is not stored.

    Parameters
    ----------
    unit : str
        TODO.
    relation : str
        TODO.
    mechanism : str
        TODO.
    epsilon : float
        TODO.
    delta : float, default=0.0
        TODO.
    loss : dict
        TODO.
    proof : str, default="proved"
        TODO.
    covers : str, default="the whole release"
        TODO.
    source : str, default="operating system"
        TODO.
    dataset : str, default=""
        TODO.
    ledger : str, default="unaccounted"
        TODO.
    release : str, default=""
        TODO.
    audit : str, default=""
        TODO.
    contributions : int, default=1
        TODO.

    Examples
    --------
    >>> told = PrivacyStatement(
    ...     unit="event", relation="add/remove", mechanism="discrete Laplace, scale 2 on each cell",
    ...     epsilon=0.5, covers="the whole file", loss={})
    >>> told.delta, told.ledger
    (0.0, 'unaccounted')
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
        for field in fields(self):
            wanted = _TYPES[field.name]
            value = getattr(self, field.name)
            if not isinstance(value, wanted):
                raise ValueError(f"PrivacyStatement: {field.name} must be a {wanted.__name__}.")
            # A line break could forge a line of what repr prints.
            if isinstance(value, str) and not value.isprintable():
                raise ValueError(f"PrivacyStatement: {field.name} must be one line of text.")
        self._check_cost()

    def _check_cost(self) -> None:
        """A statement may not claim less than the description of its own cost gives."""
        if not self.loss:
            return
        known = Loss.from_dict(self.loss)
        if known.relation != self.relation:
            raise ValueError("PrivacyStatement: loss must be under the relation of the statement.")
        if known.epsilon > self.epsilon * (1 + 1e-12) and self._costs(known) > self.epsilon:
            raise ValueError("PrivacyStatement: epsilon must not be below that of the loss.")

    def _costs(self, known: Loss) -> float:
        """What the loss costs at this delta, less what bisection may leave."""
        from sfumato.privacy.accounting.calibration import epsilon_of

        return epsilon_of(known, self.delta) * (1 - 1e-6) if self.delta else math.inf

    @property
    def insecure(self) -> bool:
        """True where the noise could be computed again from a seed."""
        return self.source != SYSTEM

    @property
    def warning(self) -> str:
        """A sentence where the promise hides next to nothing (see `weakness`), else ""."""
        return weakness(self.epsilon, self.delta)

    def to_dict(self) -> dict[str, Any]:
        """The statement as plain JSON values, as `SCHEMA` describes them.

        Returns
        -------
        dict
            The statement as plain JSON values, as `SCHEMA` describes them.
        """
        return asdict(self)

    def to_json(self) -> str:
        """TODO.

        Returns
        -------
        str
            TODO.
        """
        return json.dumps(self.to_dict(), allow_nan=False, sort_keys=True)

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Self:
        """The statement that was told; ValueError where a field is missing, strange or wrong.

        Parameters
        ----------
        told : dict
            TODO.

        Returns
        -------
        Self
            The statement that was told; ValueError where a field is missing, strange or wrong.
        """
        if not isinstance(told, dict) or set(told) != set(_TYPES):
            raise ValueError("PrivacyStatement: the fields are not those of a statement.")
        return cls(**told)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """TODO.

        Parameters
        ----------
        text : str
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        return cls.from_dict(json.loads(text))

    @property
    def headline(self) -> str:
        """Proved, measured or NOT PRIVATE; epsilon and delta, rounded up; whether they are weak."""
        cost = f"epsilon {_up(self.epsilon)}" + (f", delta {_up(self.delta)}" if self.delta else "")
        weak = ", hides next to nothing" if self.warning else ""
        return f"{'NOT PRIVATE' if self.insecure else self.proof}, {cost}{weak}"

    def __repr__(self) -> str:
        hides = f"one {self.unit}{self._events()} ({self.relation})"
        paid = UNACCOUNTED if self.ledger == UNACCOUNTED else f"data set {self.dataset!r:.60}"
        return f"PrivacyStatement({self.headline}; {hides}; {paid})"

    def __str__(self) -> str:
        lines = [_hanging(name, text) for name, text in self._lines().items()]
        return "\n".join([f"PrivacyStatement: {self.headline}", *lines])

    def _lines(self) -> dict[str, str]:
        told = {
            "warning": self.warning,
            "hides": f"one {self.unit}{self._events()} ({self.relation})",
            "by": self.mechanism,
            "covers": self.covers,
            "noise from": self.source,
            "budget": self._budget(),
            "audit": self.audit,
        }
        return {name: text for name, text in told.items() if text}

    def _facts(self) -> dict[str, str]:
        return {"promise": self.headline, **self._lines()}

    def _events(self) -> str:
        return f" of at most {self.contributions} events" if self.contributions > 1 else ""

    def _budget(self) -> str:
        if self.ledger == UNACCOUNTED:
            return "unaccounted: no ledger was charged"
        return f"data set {self.dataset!r}, release {self.release!r}, ledger {self.ledger!r}"


def weakness(epsilon: float, delta: float = 0.0) -> str:
    """What is wrong with a guarantee of such numbers, in a sentence; "" where nothing is.

    Parameters
    ----------
    epsilon : float
        Of the guarantee; above `WEAK_EPSILON` it hides next to nothing.
    delta : float, default=0
        Of the guarantee; from `WEAK_DELTA` on it may give away whole units.

    Returns
    -------
    str
        The sentence, without anything that depends on data.

    Examples
    --------
    >>> weakness(1.0, 1e-6)
    ''
    >>> weakness(25.0)
    "epsilon above 20 hides next to nothing: an observer's odds about a unit may grow exp(25)-fold."
    """
    told = []
    if epsilon > WEAK_EPSILON:
        told.append(
            f"epsilon above {WEAK_EPSILON:g} hides next to nothing: an observer's odds about a "
            f"unit may grow exp({_up(epsilon)})-fold."
        )
    if delta >= WEAK_DELTA:
        told.append(
            f"delta from {WEAK_DELTA:g} on may give units away: a share of {_up(delta)} of them "
            "may be published as they are."
        )
    return " ".join(told)


def _hanging(name: str, text: str) -> str:
    """One field, broken to fit a terminal, its lines under each other."""
    begin = f"  {name:<12}"
    return textwrap.fill(text, 80, initial_indent=begin, subsequent_indent=" " * len(begin))


def _up(number: float) -> str:
    """Six digits, none of which promises more than is true."""
    if float(f"{number:.6g}") == number:
        return f"{number:.6g}"
    digits = Context(prec=6, rounding=ROUND_CEILING).create_decimal(number)
    return f"{float(digits):.6g}"


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
    for field in fields(PrivacyStatement)
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
