"""What mechanisms share beside limits: optional ones, flags, and values of whole numbers."""

from typing import Any

import numpy as np

from sfumato._require import Limit

__all__ = ["LARGEST", "flag", "optional", "whole_numbers"]

LARGEST = 2**62 - 1  # so that a number and its noise fit 64 bits


class optional:
    """A limit that also lets None through."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit

    def check(self, owner: str, name: str, value: Any) -> Any:
        return None if value is None else self.limit.check(owner, name, value)

    def bad(self) -> list[Any]:
        return [value for value in self.limit.bad() if value is not None]


class _Flag:
    def check(self, owner: str, name: str, value: Any) -> bool:
        if not isinstance(value, bool):
            raise ValueError(f"{owner}: {name} must be True or False, not {value!r}.")
        return value

    def bad(self) -> list[Any]:
        return [None, 1, "yes"]


flag = _Flag()


def whole_numbers(owner: str, value: Any, low: int = -LARGEST, high: int = LARGEST) -> np.ndarray:
    """The value as a fresh int64 array, all from low to high; a sentence without data if not."""
    wanted = f"{owner}: value must be whole numbers from {low} to {high}"
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{wanted}, in one regular array.") from None
    if numbers.size and numbers.dtype.kind not in "iu":
        raise ValueError(f"{wanted}, not of type {numbers.dtype}.")
    if numbers.size and not (low <= int(numbers.min()) and int(numbers.max()) <= high):
        raise ValueError(f"{wanted}, and some are not.")
    return numbers.astype(np.int64)
