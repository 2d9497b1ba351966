"""Mechanisms whose fields have declared limits, checked when built, and a sentence to state."""

from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato._require import one_of, whole
from sfumato.privacy.loss import RELATIONS, Approximate, Loss
from sfumato.privacy.mechanism import Mechanism
from sfumato.privacy.statement import PrivacyStatement

__all__ = ["Checked"]

TRIALS = whole(1)


@dataclass(frozen=True, kw_only=True)
class Checked(Mechanism):
    """A mechanism that reads its limits from LIMITS and states itself from `_sentence`."""

    LIMITS: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        owner = type(self).__name__
        for name, limit in {"relation": one_of(RELATIONS), **self.LIMITS}.items():
            object.__setattr__(self, name, limit.check(owner, name, getattr(self, name)))

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
        loss: Loss = self.loss()
        if isinstance(loss, Approximate):
            return loss.bound, loss.delta
        return loss.epsilon, 0.0

    def _sentence(self) -> str:
        raise NotImplementedError

    def _trials(self, trials: int) -> int:
        return TRIALS.check(type(self).__name__, "trials", trials)
