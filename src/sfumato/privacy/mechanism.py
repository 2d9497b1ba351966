"""What every mechanism declares: domain, relation, sensitivity and cost; and how it runs."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato._require import whole
from sfumato.privacy._source import Source
from sfumato.privacy.loss import Loss
from sfumato.privacy.statement import PrivacyStatement

__all__ = ["Mechanism"]


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """A randomised answer with a proved cost.

    `domain` says what values it takes; `relation` and `sensitivity` how much one unit may change
    them; `loss(distance)` what it costs for data that differ by so many units. `run(value)` checks
    the value and answers once; `sample(value, trials)` answers the same value again and again, each
    time afresh, as an audit needs. Nothing is accounted here: charge `loss()` to a ledger first.
    """

    relation: str = "add/remove"
    domain = ""

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
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError
