"""What a family of locality-sensitive hashes is: a kernel, and functions that collide by it.

Families inside families: checked, of the same points, and each with hashes of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.arrays import matrix_of
from sfumato.core.hashing import hash_column
from sfumato.core.ids import plain_numbers
from sfumato.core.tables import described
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit
from sfumato.errors import ParameterError

__all__ = [
    "FAMILY",
    "PART",
    "Draw",
    "Family",
    "Points",
    "Share",
    "Sum",
    "check_alike",
    "children",
    "family",
    "read_all",
]

PAIRS = 2**20  # of points and queries at a time: 8 MiB


@dataclass(frozen=True)
class Draw:
    """Which hash functions of a family: row r of `rows`, drawn from a seed.

    strata: "independent" of each other, or "stratified", each of the same law but spread evenly.
    """

    rows: int
    seed: int
    strata: str = "stratified"

    def child(self, number: int, rows: int | None = None) -> Self:
        """Functions that do not depend on these, for part `number` of a composed family."""
        seed = int(hash_column([number], self.seed)[0])
        return type(self)(self.rows if rows is None else rows, seed, self.strata)


@dataclass(frozen=True)
class Points:
    """What was read: arrays in the family's own form, how many points, how many were clipped."""

    parts: tuple[Any, ...]
    size: int
    clipped: int = 0


@dataclass(frozen=True)
class Share:
    """Rows that estimate one kernel of a weighted sum: the weight, and from which row to which."""

    weight: float
    rows: slice


class Family:
    """The base of all families; a subclass is a frozen dataclass of public parameters.

    Notes
    -----
    **Guarantee.** For one row of a draw, P(code(x) = code(q)) = kernel(x, q) over seeds (of one
    share, where there are several: the kernel is then the weighted sum of theirs). Codes depend on
    the point alone, never on the others or on the machine.
    """

    name: ClassVar[str] = ""
    KINDS: ClassVar[dict[str, type["Family"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.name:
            Family.KINDS[cls.name] = cls

    def __repr__(self) -> str:
        names = [each.name for each in fields(self)]  # type: ignore[arg-type]
        return described(self, **{name: getattr(self, name) for name in names})

    @property
    def dimension(self) -> int:
        """Numbers in a point; 0 where points are sets."""
        raise NotImplementedError

    @property
    def entries(self) -> int:
        """Numbers that the hash functions of one row are kept as."""
        return self.dimension + 1

    def read(self, owner: str, data: Any) -> Points:
        """The points of any container, checked whole; errors name the owner.

        Parameters
        ----------
        owner : str
            TODO.
        data : object
            TODO.

        Returns
        -------
        Points
            The points of any container, checked whole; errors name the owner.
        """
        raise NotImplementedError

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        """The exact kernel of every point (down) and query (across).

        Parameters
        ----------
        points : array_like
            TODO.
        queries : array_like
            TODO.

        Returns
        -------
        ndarray
            The exact kernel of every point (down) and query (across).
        """
        raise NotImplementedError

    def sums(self, points: Matrix, queries: Matrix, weights: Column | None = None) -> np.ndarray:
        """The exact kernel sum over all points, by their weights or by one, at every query.

        Parameters
        ----------
        points : array_like
            TODO.
        queries : array_like
            TODO.
        weights : array_like or None, default=None
            TODO.

        Returns
        -------
        ndarray
            The exact kernel sum over all points, by their weights or by one, at every query.
        """
        if not self.dimension:  # sets come in containers that only their family can cut
            kernel = self.kernel(points, queries)
            return np.asarray((np.ones(len(kernel)) if weights is None else weights) @ kernel)
        owner = type(self).__name__
        points = matrix_of(owner, points, self.dimension)
        queries = matrix_of(owner, queries, self.dimension)
        weights = np.ones(len(points)) if weights is None else plain_numbers(weights)
        out, step = np.zeros(len(queries)), max(1, PAIRS // max(1, len(queries)))
        for start in range(0, len(points), step):
            part = slice(start, start + step)
            out += weights[part] @ self.kernel(points[part], queries)
        return out

    def buckets(self, draw: Draw) -> np.ndarray | None:
        """How many codes each row can give, 0, 1, ... (int64); None where that is not bounded.

        Parameters
        ----------
        draw : Draw
            TODO.

        Returns
        -------
        ndarray or None
            How many codes each row can give, 0, 1, ...
        """
        return None

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        """The int64 code of every point (down) in these rows of the draw (across).

        Parameters
        ----------
        points : Points
            TODO.
        draw : Draw
            TODO.
        rows : slice
            TODO.

        Returns
        -------
        ndarray
            The int64 code of every point (down) in these rows of the draw (across).
        """
        raise NotImplementedError

    def linear(self, draw: Draw) -> np.ndarray | None:
        """A matrix M with codes floor(M @ P); P = points.parts[0] has a column for each point.

        Only where every sum of the products is exact in float64, whatever its order; else None.

        Parameters
        ----------
        draw : Draw
            TODO.

        Returns
        -------
        ndarray or None
            A matrix M with codes floor(M @ P); P = points.parts[0] has a column for each point.
        """
        return None

    def shares(self, draw: Draw) -> list[Share]:
        """The parts of a weighted sum; one of weight 1 unless the family is such a sum.

        Parameters
        ----------
        draw : Draw
            TODO.

        Returns
        -------
        list
            The parts of a weighted sum; one of weight 1 unless the family is such a sum.
        """
        return [Share(1.0, slice(0, draw.rows))]

    def to_dict(self) -> dict[str, Any]:
        """The family as plain JSON values.

        Returns
        -------
        dict
            The family as plain JSON values.
        """
        told = {each.name: _plain(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]
        return {"name": self.name, **told}

    @staticmethod
    def from_dict(told: Mapping[str, Any]) -> "Family":
        """The family that was described; ValueError where it is none.

        Parameters
        ----------
        told : mapping
            TODO.

        Returns
        -------
        Family
            The family that was described; ValueError where it is none.
        """
        told = dict(told)
        name = str(told.pop("name", ""))
        if name == "jaccard":
            raise ValueError(
                "Family: sets were hashed by the type of their members before version 0.1; make it "
                "anew from its data."
            )
        kind = Family.KINDS.get(name)
        if kind is None or set(told) != {each.name for each in fields(kind)}:  # type: ignore[arg-type]
            raise ValueError("Family: the description is not one of ours.")
        try:
            return kind(**told)
        except RecursionError:
            raise ValueError("Family: the description is nested too deep.") from None


class _FamilyLimit:
    """The limit of a `kernel` parameter: a family, or its description from a file."""

    def check(self, owner: str, name: str, value: Any) -> Family:
        if isinstance(value, Family):
            return value
        if isinstance(value, Mapping):
            return Family.from_dict(value)
        problem = (
            "must be a family of sfumato.sketch.lsh, as Euclidean(bandwidth=1.0, bounds=(0, 10)), "
            f"not {type(value).__name__}."
        )
        raise ParameterError.of(owner, name, problem)

    def bad(self) -> list[Any]:
        return [None, 1, "gaussian", Family]


FAMILY = _FamilyLimit()


def _plain(value: Any) -> Any:
    if isinstance(value, Family):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


class Sum(Family):
    """A family whose rows are shared out among several kernels."""


class _PartLimit:
    """The limit of a family inside another one: one kernel, not a sum of several."""

    def check(self, owner: str, name: str, value: Any) -> Family:
        part = family(owner, name, value)
        if isinstance(part, Sum):
            problem = (
                "must be one kernel, not a sum of several; multiply out, and sum the products."
            )
            raise ParameterError.of(owner, name, problem)
        return part

    def bad(self) -> list[Any]:
        return FAMILY.bad()


PART: Limit = _PartLimit()


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
