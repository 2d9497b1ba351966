"""Base class of hash families: a kernel, and hash functions that collide with its probability.

Also the checks of families nested inside other families: each must be one kernel over the same
points, and gets hash functions of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
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
    "Sum",
    "WeightedRows",
    "check_compatible",
    "children",
    "family",
    "read_all",
]

PAIRS = 2**20  # of points and queries at a time: 8 MiB


@dataclass(frozen=True)
class Draw:
    """The hash functions of a family: rows 0 to `rows` - 1, drawn from a seed.

    strata: rows are "independent", or "stratified" (same marginal distribution, spread evenly).
    """

    rows: int
    seed: int
    strata: str = "stratified"

    def child(self, number: int, rows: int | None = None) -> Self:
        """Independent hash functions for part `number` of a composed family."""
        seed = int(hash_column([number], self.seed)[0])
        return type(self)(self.rows if rows is None else rows, seed, self.strata)


@dataclass(frozen=True)
class Points:
    """Points as a family stores them: its own arrays, the number of points and of clipped ones."""

    parts: tuple[Any, ...]
    size: int
    clipped: int = 0


@dataclass(frozen=True)
class WeightedRows:
    """The rows that estimate one kernel of a weighted sum, and that kernel's weight."""

    weight: float
    rows: slice


class Family:
    """Base class of families of locality-sensitive hash functions.

    A subclass is a frozen dataclass whose fields are public parameters. It defines a kernel k(x, q)
    and hash functions that collide with that probability.

    Notes
    -----
    **Guarantee.** For each row of a draw, P(code(x) = code(q)) = k(x, q) over seeds. In a weighted
    sum this is true of each term, and the kernel is the weighted sum of theirs. The code of a point
    depends on that point alone: not on other points, nor on the machine.

    Examples
    --------
    >>> from sfumato.sketch.lsh import Angular
    >>> family = Angular(bits=2, dimension=3)
    >>> Family.from_dict(family.to_dict()) == family
    True
    """

    name: ClassVar[str] = ""
    KINDS: ClassVar[dict[str, type["Family"]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.name:
            Family.KINDS[cls.name] = cls

    def __repr__(self) -> str:
        names = [each.name for each in dataclass_fields(self)]  # type: ignore[arg-type]
        return described(self, **{name: getattr(self, name) for name in names})

    @property
    def dimension(self) -> int:
        """Number of coordinates of a point; 0 if points are sets."""
        raise NotImplementedError

    @property
    def entries(self) -> int:
        """Number of float64 values that store the hash functions of one row."""
        return self.dimension + 1

    def read(self, owner: str, data: Any) -> Points:
        """Check points and convert them to the family's own arrays.

        Parameters
        ----------
        owner : str
            Name that begins the error messages.
        data : object
            Points in any container that the family accepts: rows of numbers, or sets.

        Returns
        -------
        Points
            The converted points, their number, and how many were clipped to the bounds.
        """
        raise NotImplementedError

    def kernel(self, points: Matrix, queries: Matrix) -> np.ndarray:
        """Compute the exact kernel of every pair of a point and a query.

        Parameters
        ----------
        points : array_like
            Points, one per row, or sets.
        queries : array_like
            Queries of the same form.

        Returns
        -------
        ndarray
            Kernel values of shape (number of points, number of queries).
        """
        raise NotImplementedError

    def sums(self, points: Matrix, queries: Matrix, weights: Column | None = None) -> np.ndarray:
        """Compute the exact kernel sum over all points at every query.

        Takes time proportional to the number of pairs; `Race` estimates the same sums from a
        sketch.

        Parameters
        ----------
        points : array_like
            Points, one per row, or sets.
        queries : array_like
            Queries of the same form.
        weights : array_like or None, default=None
            One number per point; None for 1 each.

        Returns
        -------
        ndarray
            One sum per query: that of weight times kernel over all points.
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
        """Count the codes that each row can take.

        Parameters
        ----------
        draw : Draw
            The hash functions.

        Returns
        -------
        ndarray or None
            For each row an int64 n such that its codes are 0 to n - 1; None if codes are unbounded.
        """
        return None

    def codes(self, points: Points, draw: Draw, rows: slice) -> np.ndarray:
        """Hash every point by the given rows of a draw.

        Parameters
        ----------
        points : Points
            What `read` returned.
        draw : Draw
            The hash functions.
        rows : slice
            The rows to compute.

        Returns
        -------
        ndarray
            Codes (int64) of shape (number of points, number of rows).
        """
        raise NotImplementedError

    def linear(self, draw: Draw) -> np.ndarray | None:
        """Return the hash functions as one matrix, if they are linear.

        Parameters
        ----------
        draw : Draw
            The hash functions.

        Returns
        -------
        ndarray or None
            A matrix M with codes floor(M @ P), where P = points.parts[0] has one column per point.
            None unless every sum of those products is exact in float64, whatever its order.
        """
        return None

    def shares(self, draw: Draw) -> list[WeightedRows]:
        """List the blocks of rows that belong to each term of a weighted sum.

        Parameters
        ----------
        draw : Draw
            The hash functions.

        Returns
        -------
        list of WeightedRows
            Weight and rows of each term; one entry of weight 1 unless the family is a sum.
        """
        return [WeightedRows(1.0, slice(0, draw.rows))]

    def to_dict(self) -> dict[str, Any]:
        """Describe the family by plain JSON values.

        Returns
        -------
        dict
            The name of the family and its parameters, as `from_dict` reads them.
        """
        names = [each.name for each in dataclass_fields(self)]  # type: ignore[arg-type]
        return {"name": self.name, **{name: _plain(getattr(self, name)) for name in names}}

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "Family":
        """Build the family that `to_dict` described.

        Parameters
        ----------
        fields : mapping
            The name of a family and all of its parameters.

        Returns
        -------
        Family
            A family equal to the described one.

        Raises
        ------
        ValueError
            If the name is unknown, a parameter is missing, unknown or invalid, or families are
            nested too deep.
        """
        fields = dict(fields)
        name = str(fields.pop("name", ""))
        if name == "jaccard":
            raise ValueError(
                "Family: sets were hashed by the type of their members before version 0.1; make it "
                "anew from its data."
            )
        kind = Family.KINDS.get(name)
        if kind is None or set(fields) != {each.name for each in dataclass_fields(kind)}:  # type: ignore[arg-type]
            raise ValueError("Family: the description is not one of ours.")
        try:
            return kind(**fields)
        except RecursionError:
            raise ValueError("Family: the description is nested too deep.") from None


class _FamilyLimit:
    """Validator of a `kernel` parameter: a family, or its description from a file."""

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
    """A parameter as a JSON value: families as their descriptions, tuples as lists."""
    if isinstance(value, Family):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


class Sum(Family):
    """A family that estimates several kernels, each from its own block of rows."""


class _PartLimit:
    """Validator of a family inside another one: a single kernel, not a sum."""

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
    """A family, given itself or by its description; ValueError if nested too deep."""
    try:
        return FAMILY.check(owner, name, value)
    except RecursionError:
        raise ValueError(f"{owner}: {name} is nested too deep.") from None


def check_compatible(owner: str, parts: Sequence[Family]) -> None:
    """Raise ValueError unless all parts take points of the same dimension."""
    for part in parts[1:]:
        if part.dimension != parts[0].dimension:
            raise ValueError(
                f"{owner}: parts must take the same points; dimension is {parts[0].dimension} of "
                f"{parts[0].name} and {part.dimension} of {part.name} (0: sets)."
            )


def read_all(parts: Sequence[Family], owner: str, data: Any) -> Points:
    """The points as each part reads them; `clipped` is the largest count over the parts."""
    read = tuple(part.read(owner, data) for part in parts)
    return Points(read, read[0].size, max(each.clipped for each in read))


def children(count: int, draw: Draw) -> list[Draw]:
    """Independent draws, one for each factor of a product.

    Only the first may be stratified: row r of two stratified draws has the same position in one
    pattern, so a mean over rows of products would not converge however many rows there are.
    """
    draws = [draw.child(number) for number in range(count)]
    return [draws[0], *(replace(each, strata="independent") for each in draws[1:])]
