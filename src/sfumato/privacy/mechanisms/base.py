"""What every mechanism declares: domain, relation, sensitivity and cost; and how it runs.

An answer of a mechanism that may leave the curator: numbers and their privacy statement.
Mechanisms whose sensitivity is stated by their user: a field that has no default.
"""

import json
import math
import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.integer_columns import LARGEST
from sfumato.core.tables import described
from sfumato.core.validation import checked, integer, one_of
from sfumato.errors import FormatError
from sfumato.privacy.accounting.losses import RELATIONS, Loss
from sfumato.privacy.random_source import InsecureSeededSource, Source, stated
from sfumato.privacy.release import paid_by, whose
from sfumato.privacy.statement import PrivacyStatement

__all__ = ["Answer", "Mechanism", "Stated"]

VERSION = 1


@dataclass(frozen=True, eq=False)
class Answer:
    """What a mechanism answered once, with what that promises; made by `Mechanism.release`."""

    value: Any
    statement: PrivacyStatement

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return described(self, self.statement.headline, value=self.value)

    def __str__(self) -> str:
        return f"Answer: {self.value!r}\n{self.statement}"

    def to_bytes(self) -> bytes:
        """The answer as JSON: version, value, its type, statement."""
        numbers = np.asarray(self.value)
        told = {
            "version": VERSION,
            "value": numbers.tolist(),
            "dtype": numbers.dtype.str,
            "statement": self.statement.to_dict(),
        }
        return json.dumps(told, allow_nan=False, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The answer in these bytes; FormatError where they are none."""
        try:
            told = json.loads(data)
            if told["version"] != VERSION:
                raise ValueError(f"version {told['version']!r:.20} cannot be read, only {VERSION}.")
            numbers = np.array(told["value"], _dtype(told["dtype"]))
            statement = PrivacyStatement.from_dict(told["statement"])
        except Exception as error:  # whatever it is, the content is at fault
            raise FormatError(f"Answer: the bytes are none, or damaged: {error!s:.500}") from None
        return cls(numbers.item() if numbers.ndim == 0 else numbers, statement)


def _dtype(text: str) -> np.dtype:
    """The type of plain numbers, or of short texts; any other could ask for any memory."""
    if not re.fullmatch(r"[<|][biuf][1248]|<U[0-9]{1,3}", text):
        raise ValueError("its numbers are of an unknown type.")
    return np.dtype(text)


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A randomised answer with a proved cost.

    `domain` says what values it takes; `relation` and `sensitivity` how much one unit may change
    them; `loss(distance)` what it costs for data that differ by so many units. `run(value)` checks
    the value and answers once; `sample(value, trials)` answers the same value again and again, each
    time afresh, as an audit needs. Neither is accounted: `release(value, ledger=, dataset=)` is. A
    subclass declares the limits of its fields in LIMITS, and describes itself in `_sentence`.

    Parameters
    ----------
    relation : str, default="add/remove"
        TODO.
    """

    relation: str = "add/remove"
    domain = ""
    LIMITS: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        checked(self, {"relation": one_of(RELATIONS), **self.LIMITS})

    @property
    def sensitivity(self) -> Any:
        """The most that one unit changes the value by, in the norm that the mechanism uses."""
        raise NotImplementedError

    def loss(self, distance: int = 1) -> Loss:
        """The cost for data that differ by so many units.

        Parameters
        ----------
        distance : int, default=1
            TODO.

        Returns
        -------
        Loss
            The cost for data that differ by so many units.
        """
        one = self._loss()
        distance = integer(1).check(type(self).__name__, "distance", distance)
        return one if distance == 1 else one.group(distance)

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        """One answer.

        Parameters
        ----------
        value : object
            TODO.
        source : Source or None, default=None
            TODO.

        Returns
        -------
        object
            One answer.
        """
        raise NotImplementedError

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        """Many answers for the same value, the first axis being the trial; for audits.

        Parameters
        ----------
        value : object
            TODO.
        trials : int
            TODO.
        source : Source or None, default=None
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        raise NotImplementedError

    def release(
        self,
        value: Any,
        *,
        ledger: Any = None,
        dataset: str | None = None,
        unit: str | None = None,
        contributions: int | None = None,
        release_id: str | None = None,
        source: Source | None = None,
        **how: Any,
    ) -> Answer:
        """One answer with its statement; with a ledger it is charged first, and stored.

        value; ledger (or its path) and dataset, who pays;

        Parameters
        ----------
        value : object
            TODO.
        ledger : object, default=None
            TODO.
        dataset : str or None, default=None
            TODO.
        unit : str or None, default=None
            Whose presence is hidden: that of the data set if there is one.
        contributions : int or None, default=None
            How many events or rows a unit has at most, where that is not what the sensitivity was
            stated for.
        release_id : str or None, default=None
            Whose retry returns the stored answer and costs nothing.
        source : Source or None, default=None
            For tests only; and what `run` takes.
        **how : object
            TODO.

        Returns
        -------
        Answer
            One answer with its statement; with a ledger it is charged first, and stored.
        """
        owner = type(self).__name__
        if hasattr(value, "__next__"):
            raise TypeError(f"{owner}: value must be a whole column, not an iterator; list it.")
        asked = dict(ledger=ledger, dataset=dataset, unit=unit, release_id=release_id)
        payer, name = paid_by(owner, asked)
        hidden = self._hides(how)
        asked["unit"] = unit or (None if payer else hidden)
        unit, _ = whose(owner, payer, name, {**asked, "relation": self.relation})
        times = _times(owner, unit, hidden, contributions)
        unpaid = self.statement(unit, source=source, contributions=times)
        # A run with bits that are thrown away finds what cannot be told before it is charged.
        Answer(self.run(value, source=InsecureSeededSource(0), **how), unpaid).to_bytes()
        if payer is None:
            return Answer(self.run(value, source=source, **how), unpaid)

        def made(release_id: str) -> bytes:
            paid = replace(unpaid, dataset=name, ledger=payer.name, release=release_id)
            return Answer(self.run(value, source=source, **how), paid).to_bytes()

        return Answer.from_bytes(
            payer.release(name, self.loss(times), self._sentence(), made, release_id)
        )

    def _hides(self, how: dict[str, Any]) -> str | None:
        """What one step of distance is; None if whatever the sensitivity was stated for."""
        return "event"

    def statement(
        self, unit: str, *, source: Source | None = None, contributions: int = 1, **fields: Any
    ) -> PrivacyStatement:
        """What one answer promises a unit of so many events, made with this source.

        Further fields are those of the statement, as they are.

        Parameters
        ----------
        unit : str
            TODO.
        source : Source or None, default=None
            TODO.
        contributions : int, default=1
            TODO.
        **fields : object
            TODO.

        Returns
        -------
        PrivacyStatement
            What one answer promises a unit of so many events, made with this source.
        """
        loss, (epsilon, delta) = self.loss(contributions), self._promise()
        if contributions > 1:
            epsilon, delta = _cost(loss, delta)
        return PrivacyStatement(
            unit=unit,
            relation=self.relation,
            mechanism=self._sentence(),
            epsilon=epsilon,
            delta=delta,
            loss=loss.to_dict(),
            contributions=contributions,
            **{"source": stated(source), "covers": self.covers, **fields},
        )

    def _promise(self) -> tuple[float, float]:
        """Epsilon and delta of the loss."""
        return self.loss().epsilon, 0.0

    @property
    def covers(self) -> str:
        """What the promise is about."""
        return "the whole answer"

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _sentence(self) -> str:
        raise NotImplementedError

    def _trials(self, trials: int) -> int:
        return integer(1).check(type(self).__name__, "trials", trials)


def _times(owner: str, unit: str, hidden: str | None, contributions: int | None) -> int:
    """How many steps apart a unit may move the value."""
    if contributions is None and (hidden in (None, unit) or unit == "item of a profile"):
        return 1
    if contributions is None:
        raise ValueError(
            f"{owner}: contributions must be given for unit {unit!r}: the most events or rows of "
            "one unit in the value."
        )
    return integer(1, 2**31).check(owner, "contributions", contributions)


def _cost(loss: Loss, delta: float) -> tuple[float, float]:
    from sfumato.privacy.accounting.calibration import epsilon_of

    return (loss.epsilon, 0.0) if loss.epsilon < math.inf else (epsilon_of(loss, delta), delta)


@dataclass(frozen=True)
class Stated(Mechanism):
    """A mechanism that declares `sensitivity: int = field()`, an integer from 1 up."""

    sensitivity = 0  # in place of the base's property, over which no field could be written
    LIMITS: ClassVar[dict[str, Any]] = {"sensitivity": integer(1, LARGEST)}

    def _hides(self, how: dict[str, Any]) -> None:
        return None
