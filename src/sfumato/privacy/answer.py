"""An answer of a mechanism that may leave the curator: numbers and their privacy statement."""

import json
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
                raise ValueError(f"version {told['version']} cannot be read, only {VERSION}.")
            numbers = np.array(told["value"], np.dtype(told["dtype"]))
            statement = PrivacyStatement.from_dict(told["statement"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise ValueError(f"Answer: the bytes are none, or damaged: {error}") from None
        return cls(numbers.item() if numbers.ndim == 0 else numbers, statement)
