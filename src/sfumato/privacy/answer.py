"""An answer of a mechanism that may leave the curator: numbers and their privacy statement."""

import json
import re
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sfumato.privacy.statement import PrivacyStatement

__all__ = ["Answer"]

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
        return f"Answer: {self.value!r}\n{self.statement!r}"

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
        """The answer in these bytes; ValueError where they are none."""
        try:
            told = json.loads(data)
            if told["version"] != VERSION:
                raise ValueError(f"version {told['version']!r:.20} cannot be read, only {VERSION}.")
            numbers = np.array(told["value"], _dtype(told["dtype"]))
            statement = PrivacyStatement.from_dict(told["statement"])
        except Exception as error:  # whatever it is, the content is at fault
            raise ValueError(f"Answer: the bytes are none, or damaged: {error!s:.500}") from None
        return cls(numbers.item() if numbers.ndim == 0 else numbers, statement)


def _dtype(text: str) -> np.dtype:
    """The type of plain numbers, or of short texts; any other could ask for any memory."""
    if not re.fullmatch(r"[<|][biuf][1248]|<U[0-9]{1,3}", text):
        raise ValueError("its numbers are of an unknown type.")
    return np.dtype(text)
