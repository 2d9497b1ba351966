"""Families inside families: checked, of the same points, and each with hashes of its own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sfumato._require import Limit
from sfumato.sketch.lsh._family import FAMILY, Draw, Family, Points

__all__ = ["PART", "Sum", "check_alike", "children", "family", "read_all"]


class Sum(Family):
    """A family whose rows are shared out among several kernels."""


class _Part:
    """The limit of a family inside another one: one kernel, not a sum of several."""

    def check(self, owner: str, name: str, value: Any) -> Family:
        part = family(owner, name, value)
        if isinstance(part, Sum):
            raise ValueError(
                f"{owner}: {name} must be one kernel, not a sum of several; multiply out, and sum "
                "the products."
            )
        return part

    def bad(self) -> list[Any]:
        return FAMILY.bad()


PART: Limit = _Part()


def family(owner: str, name: str, value: Any) -> Family:
    """A family, or that of a description, however deep it is nested."""
    try:
        return FAMILY.check(owner, name, value)
    except RecursionError:
        raise ValueError(f"{owner}: {name} is nested too deep.") from None


def check_alike(owner: str, parts: Sequence[Family]) -> None:
    """Raise where two parts do not take the same points."""
    for part in parts[1:]:
        if part.dimension != parts[0].dimension:
            raise ValueError(
                f"{owner}: parts must take the same points; dimension is {parts[0].dimension} of "
                f"{parts[0].name} and {part.dimension} of {part.name} (0: sets)."
            )


def read_all(parts: Sequence[Family], owner: str, data: Any) -> Points:
    """The points as each part reads them; clipped are those of the part that clips most."""
    read = tuple(part.read(owner, data) for part in parts)
    return Points(read, read[0].size, max(each.clipped for each in read))


def children(count: int, draw: Draw) -> list[Draw]:
    """Draws that do not depend on each other, one for each factor of a product.

    Only the first may be stratified. Row r of two stratified draws has the same place in one
    pattern, and a mean over rows of products would stray however many rows there are.
    """
    draws = [draw.child(number) for number in range(count)]
    return [draws[0], *(replace(each, strata="independent") for each in draws[1:])]
