"""What every mechanism declares: domain, relation, sensitivity and cost; and how it runs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato._require import checked, one_of, whole
from sfumato.privacy._source import InsecureSeededSource, Source, stated
from sfumato.privacy.answer import Answer
from sfumato.privacy.loss import RELATIONS, Loss
from sfumato.privacy.statement import PrivacyStatement

__all__ = ["Mechanism"]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A randomised answer with a proved cost.

    `domain` says what values it takes; `relation` and `sensitivity` how much one unit may change
    them; `loss(distance)` what it costs for data that differ by so many units. `run(value)` checks
    the value and answers once; `sample(value, trials)` answers the same value again and again, each
    time afresh, as an audit needs. Neither is accounted: `release(value, ledger=, dataset=)` is.
    A subclass declares the limits of its fields in LIMITS, and describes itself in `_sentence`.
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
        """The cost for data that differ by so many units."""
        one = self._loss()
        distance = whole(1).check(type(self).__name__, "distance", distance)
        return one if distance == 1 else one.group(distance)

    def run(self, value: Any, *, source: Source | None = None) -> Any:
        """One answer."""
        raise NotImplementedError

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        """Many answers for the same value, the first axis being the trial; for audits."""
        raise NotImplementedError

    def release(
        self,
        value: Any,
        *,
        ledger: Any = None,
        dataset: str | None = None,
        unit: str = "event",
        release_id: str | None = None,
        source: Source | None = None,
    ) -> Answer:
        """One answer with its statement; with a ledger it is charged first, and stored.

        Parameters: value; ledger and dataset, who pays (the unit is then that of the data set);
        release_id, whose retry returns the stored answer and costs nothing; source, for tests only.
        """
        # A run with bits that are thrown away finds a bad value before anything is charged.
        self.run(value, source=InsecureSeededSource(0))
        unpaid = self.statement(unit, source=source)
        if ledger is None:
            return Answer(self.run(value, source=source), unpaid)
        known = ledger.dataset(dataset)

        def made(release_id: str) -> bytes:
            paid = dict(dataset=known.name, ledger=ledger.name, release=release_id)
            statement = self.statement(known.unit, source=source, **paid)
            return Answer(self.run(value, source=source), statement).to_bytes()

        data = ledger.release(known.name, self.loss(), self._sentence(), made, release_id)
        return Answer.from_bytes(data)

    def statement(
        self, unit: str, *, source: Source | None = None, **fields: Any
    ) -> PrivacyStatement:
        """What one answer promises, made with this source; further fields as they are."""
        loss, (epsilon, delta) = self.loss(), self._promise()
        return PrivacyStatement(
            unit=unit,
            relation=self.relation,
            mechanism=self._sentence(),
            epsilon=epsilon,
            delta=delta,
            loss=loss.to_dict(),
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
        return whole(1).check(type(self).__name__, "trials", trials)
