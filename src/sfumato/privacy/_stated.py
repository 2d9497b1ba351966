"""Mechanisms whose sensitivity is stated by their user: a field that has no default."""

from dataclasses import dataclass
from typing import Any, ClassVar

from sfumato._require import whole
from sfumato.privacy._columns import LARGEST
from sfumato.privacy.mechanism import Mechanism

__all__ = ["Stated"]


@dataclass(frozen=True)
class Stated(Mechanism):
    """A mechanism that declares `sensitivity: int = field()`, a whole number from 1 up."""

    sensitivity = 0  # in place of the base's property, over which no field could be written
    LIMITS: ClassVar[dict[str, Any]] = {"sensitivity": whole(1, LARGEST)}

    def _hides(self, how: dict[str, Any]) -> None:
        return None
