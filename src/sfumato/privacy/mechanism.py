"""What every mechanism declares: domain, relation, sensitivity and cost; and how it runs."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato._require import one_of, whole
from sfumato.privacy._source import Source
from sfumato.privacy.loss import RELATIONS, Approximate, Loss
from sfumato.privacy.statement import PrivacyStatement

__all__ = ["Mechanism"]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A randomised answer with a proved cost.

    `domain` says what values it takes; `relation` and `sensitivity` how much one unit may change
    them; `loss(distance)` what it costs for data that differ by so many units. `run(value)` checks
    the value and answers once; `sample(value, trials)` answers the same value again and again, each
    time afresh, as an audit needs. Nothing is accounted here: charge `loss()` to a ledger first.
    A subclass declares the limits of its fields in LIMITS, and describes itself in `_sentence`.
    """

    relation: str = "add/remove"
    domain = ""
    LIMITS: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name, limit in {"relation": one_of(RELATIONS), **self.LIMITS}.items():
            object.__setattr__(self, name, limit.check(owner, name, getattr(self, name)))

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

    def statement(self, unit: str, **fields: Any) -> PrivacyStatement:
        """What one answer promises."""
        loss, (epsilon, delta) = self.loss(), self._promise()
        return PrivacyStatement(
            unit=unit,
            relation=self.relation,
            mechanism=self._sentence(),
            epsilon=epsilon,
            delta=delta,
            loss=loss.to_dict(),
            **fields,
        )

    def _promise(self) -> tuple[float, float]:
        """Epsilon and delta of the loss, where it has them."""
        loss = self.loss()
        if isinstance(loss, Approximate):
            return loss.bound, loss.delta
        return loss.epsilon, 0.0

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _sentence(self) -> str:
        raise NotImplementedError

    def _trials(self, trials: int) -> int:
        return whole(1).check(type(self).__name__, "trials", trials)
