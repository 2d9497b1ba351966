"""Base classes of all mechanisms, and the answer that a mechanism releases."""

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
    """Released answer of a mechanism with its privacy statement; see `Mechanism.release`."""

    value: Any
    statement: PrivacyStatement

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and self.to_bytes() == other.to_bytes()

    def __repr__(self) -> str:
        return described(self, self.statement.headline, value=self.value)

    def __str__(self) -> str:
        return f"Answer: {self.value!r}\n{self.statement}"

    def to_bytes(self) -> bytes:
        """Serialize the answer as JSON: version, value, dtype and statement."""
        numbers = np.asarray(self.value)
        fields = {
            "version": VERSION,
            "value": numbers.tolist(),
            "dtype": numbers.dtype.str,
            "statement": self.statement.to_dict(),
        }
        return json.dumps(fields, allow_nan=False, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read an answer; FormatError where the bytes are malformed."""
        try:
            fields = json.loads(data)
            if fields["version"] != VERSION:
                raise ValueError(
                    f"version {fields['version']!r:.20} cannot be read, only {VERSION}."
                )
            numbers = np.array(fields["value"], _dtype(fields["dtype"]))
            statement = PrivacyStatement.from_dict(fields["statement"])
        except Exception as error:  # whatever it is, the content is at fault
            raise FormatError(f"Answer: the bytes are none, or damaged: {error!s:.500}") from None
        return cls(numbers.item() if numbers.ndim == 0 else numbers, statement)


def _dtype(text: str) -> np.dtype:
    """Return the dtype of numbers or short texts; any other could demand any amount of memory."""
    if not re.fullmatch(r"[<|][biuf][1248]|<U[0-9]{1,3}", text):
        raise ValueError("its numbers are of an unknown type.")
    return np.dtype(text)


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """Base class of all mechanisms: a randomized answer with a proved privacy loss.

    `domain` says which values are accepted, `relation` and `sensitivity` how much one unit may
    change them, and `loss` what an answer costs. `run` and `sample` are not accounted: use
    `release` for whatever leaves the curator.

    Parameters
    ----------
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" (one unit is added or removed) or "replace" (one unit
        is replaced by another).

    Notes
    -----
    **Guarantee.** One answer has the privacy loss `loss()` for data sets that differ by one unit
    under `relation`, provided that one unit changes the value by at most `sensitivity`. A subclass
    declares the valid ranges of its fields in LIMITS and describes itself in `_sentence`.

    Examples
    --------
    >>> from sfumato.privacy.mechanisms import Laplace
    >>> count = Laplace(sensitivity=1, epsilon=0.5)
    >>> isinstance(count, Mechanism), count.loss(distance=3).epsilon
    (True, 1.5)
    >>> answer = count.release(41)
    >>> answer.statement.epsilon
    0.5
    """

    relation: str = "add/remove"
    domain = ""
    LIMITS: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        checked(self, {"relation": one_of(RELATIONS), **self.LIMITS})

    @property
    def sensitivity(self) -> Any:
        """Largest change of the value by one unit, in the norm that the mechanism uses."""
        raise NotImplementedError

    def loss(self, distance: int = 1) -> Loss:
        """Return the privacy loss of one answer.

        Parameters
        ----------
        distance : int, default=1
            Number of units in which the data sets differ (group privacy), at least 1.

        Returns
        -------
        Loss
            Loss under the mechanism's `relation`.
        """
        one = self._loss()
        distance = integer(1).check(type(self).__name__, "distance", distance)
        return one if distance == 1 else one.group(distance)

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        """Answer once, without a statement and without charging a ledger.

        Parameters
        ----------
        value : object
            Private value, as `domain` describes it.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        object
            The randomized answer.
        """
        raise NotImplementedError

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        """Answer the same value many times independently, as an audit needs.

        Every answer costs `loss()` again; nothing is charged.

        Parameters
        ----------
        value : object
            Private value, as `domain` describes it.
        trials : int
            Number of answers, at least 1.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        ndarray
            Answers, one per trial along the first axis.
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
        """Answer once with a privacy statement; a ledger is charged first, and stores the answer.

        Parameters
        ----------
        value : object
            Private value, as `domain` describes it.
        ledger : object, default=None
            Ledger that is charged, or its path; needs `dataset`. None releases unaccounted.
        dataset : str or None, default=None
            Data set of the ledger whose budget is charged.
        unit : str or None, default=None
            Unit of privacy: that of the data set where there is a ledger, else what one step of the
            mechanism's sensitivity stands for.
        contributions : int or None, default=None
            Largest number of events or rows of one unit in the value, at least 1. Required where
            the sensitivity was stated for a smaller unit.
        release_id : str or None, default=None
            Name of the release; a retry with the same name returns the stored answer at no cost.
            Needs a ledger.
        source : Source or None, default=None
            Source of random bits, for tests only: the statement then says that it is not private.
        **how : object
            Further keyword arguments of `run`.

        Returns
        -------
        Answer
            Value and statement.

        Raises
        ------
        BudgetExceeded
            If the remaining budget of the data set is too small; nothing is drawn then.
        """
        owner = type(self).__name__
        if hasattr(value, "__next__"):
            raise TypeError(f"{owner}: value must be a whole column, not an iterator; list it.")
        options = dict(ledger=ledger, dataset=dataset, unit=unit, release_id=release_id)
        payer, name = paid_by(owner, options)
        protected = self._protected_unit(how)
        options["unit"] = unit or (None if payer else protected)
        unit, _ = whose(owner, payer, name, {**options, "relation": self.relation})
        times = _times(owner, unit, protected, contributions)
        unpaid = self.statement(unit, source=source, contributions=times)
        # A trial run, whose bits are thrown away, finds invalid values before anything is charged.
        Answer(self.run(value, source=InsecureSeededSource(0), **how), unpaid).to_bytes()
        if payer is None:
            return Answer(self.run(value, source=source, **how), unpaid)

        def made(release_id: str) -> bytes:
            paid = replace(unpaid, dataset=name, ledger=payer.name, release=release_id)
            return Answer(self.run(value, source=source, **how), paid).to_bytes()

        return Answer.from_bytes(
            payer.release(name, self.loss(times), self._sentence(), made, release_id)
        )

    def _protected_unit(self, how: dict[str, Any]) -> str | None:
        """Return the unit that one step of distance stands for; None if the caller states it."""
        return "event"

    def statement(
        self, unit: str, *, source: Source | None = None, contributions: int = 1, **fields: Any
    ) -> PrivacyStatement:
        """Return the privacy statement of one answer.

        Parameters
        ----------
        unit : str
            Unit of privacy, as "event" or "user".
        source : Source or None, default=None
            Source of random bits that the answer is made with.
        contributions : int, default=1
            Largest number of events or rows of one unit, at least 1.
        **fields : object
            Further fields of the statement.

        Returns
        -------
        PrivacyStatement
            Statement with the loss of `contributions` steps of distance.
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
        """Return epsilon and delta of the loss."""
        return self.loss().epsilon, 0.0

    @property
    def covers(self) -> str:
        """What an attacker may observe under the guarantee, as in the statement."""
        return "the whole answer"

    def _loss(self) -> Loss:
        """Return the loss at distance 1."""
        raise NotImplementedError

    def _sentence(self) -> str:
        """Describe mechanism and noise scale for the statement."""
        raise NotImplementedError

    def _trials(self, trials: int) -> int:
        """Check the number of trials."""
        return integer(1).check(type(self).__name__, "trials", trials)


def _times(owner: str, unit: str, protected: str | None, contributions: int | None) -> int:
    """Return the number of steps of distance that one unit may move the value by."""
    if contributions is None and (protected in (None, unit) or unit == "item of a profile"):
        return 1
    if contributions is None:
        raise ValueError(
            f"{owner}: contributions must be given for unit {unit!r}: the most events or rows of "
            "one unit in the value."
        )
    return integer(1, 2**31).check(owner, "contributions", contributions)


def _cost(loss: Loss, delta: float) -> tuple[float, float]:
    """Return epsilon and delta of a loss: pure where possible, else at this delta."""
    from sfumato.privacy.accounting.calibration import epsilon_of

    return (loss.epsilon, 0.0) if loss.epsilon < math.inf else (epsilon_of(loss, delta), delta)


@dataclass(frozen=True)
class Stated(Mechanism):
    """Mechanism whose sensitivity the caller states, as a field without default."""

    sensitivity = 0  # replaces the base's property, which no field could override
    LIMITS: ClassVar[dict[str, Any]] = {"sensitivity": integer(1, LARGEST)}

    def _protected_unit(self, how: dict[str, Any]) -> None:
        return None
