"""What every sketch is: how it starts, copies and merges, from the cells it declares.

What sketches of keys share: hashed columns, and the memory whether there were any. What sketches
of one vector share whose float64 cells are linear in it: sums, products, norms. The heaviest
weight a sketch has taken: what bounds the effect of one event on its counters, and their release.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import cleandoc
from types import FunctionType
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    NoReturn,
    Self,
    TypeVar,
    Unpack,
    get_args,
    get_type_hints,
)

import numpy as np

from sfumato.core.arrays import WEIGHT
from sfumato.core.file_format import Packed
from sfumato.core.hashing import KeyColumn
from sfumato.core.storage import TOTAL, Cells, Stored, load
from sfumato.core.validation import integer
from sfumato.errors import ParameterError
from sfumato.kernels.lanes import aligned
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseOptions, ReleaseRequest

__all__ = [
    "EXACT",
    "FLOAT_SUMS",
    "HEAVIEST",
    "Cells",
    "KeyedSketch",
    "LinearSketch",
    "Merging",
    "Sketch",
    "WeighedRelease",
    "bounded_weight",
    "check_heaviest",
    "heaviest",
    "load",
    "refused",
    "rounding",
]

SEED = integer(0, 2**64 - 1)
JOINS = {"add": np.add, "or": np.bitwise_or, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Merging:
    """How a sketch merges: bit for bit, up to rounding, or not at all, and why.

    tolerance: the most that a cell of a rounding merge may differ from that of one stream, as a
    share of the sum of the sizes of all that was added.

    Parameters
    ----------
    kind : {"exact", "rounding", "refused"}
        TODO.
    reason : str, default=""
        TODO.
    tolerance : float, default=0.0
        TODO.
    """

    kind: Literal["exact", "rounding", "refused"]
    reason: str = ""
    tolerance: float = 0.0


EXACT = Merging("exact")


def rounding(reason: str, tolerance: float = 1e-9) -> Merging:
    return Merging("rounding", reason, tolerance)


def refused(reason: str) -> Merging:
    return Merging("refused", reason)


class Sketch(Stored):
    """The base of all sketches.

    Several threads may read one sketch at a time; a thread that updates or merges needs the sketch
    to itself (give each thread its own and merge them, as the engine does). A call that raises
    leaves the sketch as it was; Ctrl-C may leave a part of the column counted, but what bounds the
    effect of one event (`heaviest`, `mass`) is written before any cell, so that no release of the
    rest claims less than is true.
    """

    _no_release = "no mechanism is proved for it."
    _idempotent: ClassVar[bool] = False  # whether a key that comes again changes nothing

    @property
    def merging(self) -> Merging:
        """How this sketch merges; see `Merging`."""
        return EXACT

    def merge(self, other: Self) -> Self:
        """Take in another sketch of the same parameters, as if its stream had come here too.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        self._check_mergeable(other)
        self._join(other)
        return self

    def copy(self) -> Self:
        """An independent sketch with the same content.

        Returns
        -------
        Self
            An independent sketch with the same content.
        """
        twin = type(self).__new__(type(self))
        for name in (*self._limits, *self._scalars):
            vars(twin)[name] = getattr(self, name)
        for name, array in self._arrays().items():
            fresh = aligned(array.shape, array.dtype)
            fresh[...] = array
            vars(twin)[name] = fresh
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def release(self, *args: Any, **options: Any) -> Any:
        """A private release; refused here, with the reason.

        Parameters
        ----------
        *args : object
            TODO.
        **options : object
            TODO.

        Returns
        -------
        object
            A private release; refused here, with the reason.
        """
        self._refuse_release()

    def _refuse_release(self) -> NoReturn:
        raise ValueError(f"{type(self).__name__}: cannot be released, {self._no_release}")

    def _allocate(self) -> None:
        vars(self).update(self._scalars)
        for name, cells in self._layout().items():
            array = aligned(tuple(max(length, 0) for length in cells.shape), cells.dtype)
            if cells.start:
                array.fill(cells.start)
            vars(self)[name] = array

    def _check_mergeable(self, other: "Sketch") -> None:
        self._check_same(other, "merge")
        if self.merging.kind == "refused":
            raise ValueError(f"{type(self).__name__}: cannot merge, {self.merging.reason}")
        if other is self and not self._idempotent:
            raise ValueError(
                f"{type(self).__name__}: cannot merge with itself, every event would count twice; "
                "merge a sketch of other events."
            )

    def _join(self, other: Self) -> None:
        totals = {
            name: TOTAL.check(type(self).__name__, name, getattr(self, name) + getattr(other, name))
            for name, start in self._scalars.items()
            if type(start) is int
        }
        self.__dict__.update(totals)  # at once, or Ctrl-C might leave some that do not fit
        for name, cells in self._layout().items():
            mine = getattr(self, name)
            JOINS[cells.join](mine, getattr(other, name), out=mine)


NONE, SOME = "", "some"


class KeyedSketch(Sketch):
    """A sketch of a column of keys of any types; see `sfumato.hashing` for what one key is."""

    seed: int
    keys: str  # "some" once there were any

    def _key_column(self, keys: Any) -> KeyColumn:
        return keys if isinstance(keys, KeyColumn) else KeyColumn(keys)

    def _note_keys(self, column: KeyColumn) -> None:
        """Remember whether there were any keys; which types they had is nowhere kept."""
        self.keys = SOME if column.size else self.keys

    @classmethod
    def _reads(cls, packed: Packed) -> bool:
        """The version before, where keys were integers: digits as text had other hashes then."""
        known = packed.version == cls.version - 1 and packed.state.get("keys") in ("", "integers")
        if known and packed.state["keys"]:
            packed.state["keys"] = SOME
        return known

    def _hashes(self, column: KeyColumn) -> Iterator[tuple[slice, np.ndarray]]:
        for start, hashes in column.blocks(self.seed):
            yield slice(start, start + hashes.size), hashes

    def _join(self, other: Self) -> None:
        super()._join(other)
        self.keys = self.keys or other.keys

    def _check_state(self) -> None:
        super()._check_state()
        if self.keys not in (NONE, SOME):
            raise ValueError("whether there are keys is not said.")


HEAVIEST = 1e140  # the squares of cells up to here can be summed
LARGEST_ENTRY = 8.0  # no cell exceeds the mass times this; Gaussian entries end at 6.8


FLOAT_SUMS = (  # why sketches of real weights have no release
    "its cells are float64 sums, whose rounding depends on all other events; count whole "
    "weights in a CountSketch and release that."
)


class LinearSketch(Sketch, in_files=False):
    """A sketch whose cells, times `_scale`, have the vector's norm and inner products on average.

    `mass` is the sum of the sizes of all that was added, whatever cancelled since.
    """

    mass: float
    _cells: np.ndarray

    @property
    def merging(self) -> Merging:
        return rounding("cells are float64, so sums in another order differ by rounding.")

    def norm(self) -> float:
        """The Euclidean norm of the vector.

        Returns
        -------
        float
            The Euclidean norm of the vector.
        """
        return math.sqrt(self.inner(self))

    def inner(self, other: Self) -> float:
        """The inner product with the vector of a sketch of the same parameters.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            The inner product with the vector of a sketch of the same parameters.
        """
        self._check_same(other, "compare")
        return float(np.dot(self._cells, other._cells)) * self._scale**2

    def distance(self, other: Self) -> float:
        """The Euclidean distance to the vector of a sketch of the same parameters.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        float
            The Euclidean distance to the vector of a sketch of the same parameters.
        """
        self._check_same(other, "compare")
        return float(np.linalg.norm(self._cells - other._cells)) * self._scale

    @property
    def _scale(self) -> float:
        return 1.0

    def _heavier(self, added: float) -> float:
        """The mass after an addition; raises before any cell could overflow."""
        mass = self.mass + float(added)
        if not mass <= HEAVIEST:
            raise ValueError(
                f"{type(self).__name__}: the sizes of all that is added must sum to at most "
                f"{HEAVIEST:g}; scale the numbers."
            )
        return mass

    def _join(self, other: Any) -> None:
        self.mass = self._heavier(other.mass)
        super()._join(other)

    def _check_state(self) -> None:
        super()._check_state()
        largest = float(np.abs(self._cells).max(initial=0))
        if not (0 <= self.mass <= HEAVIEST and largest <= LARGEST_ENTRY * self.mass):
            raise ValueError("a cell is larger than all that was added.")


def heaviest(sizes: np.ndarray | None, count: int) -> int:
    """The largest of so many sizes of weights; None stands for all ones."""
    return min(count, 1) if sizes is None else int(sizes.max(initial=0))


def bounded_weight(owner: str, weight: int, most: int) -> int:
    """The weight that a caller promises no event exceeds, once no event did."""
    weight = WEIGHT.check(owner, "weight", weight)
    if most > weight:
        # How heavy it is stays untold: the sentence may end up in a log.
        problem = (
            f"is {weight}, but the sketch holds a heavier event; give what is publicly known to "
            "bound every event (do not search for it: that would tell), or clip the weights before "
            "they are counted."
        )
        raise ParameterError.of(owner, "weight", problem)
    return weight


R = TypeVar("R", bound=Release)


class WeighedRelease(Generic[R]):
    """The release of a sketch that knows its `heaviest` weight; named before the sketch's base.

    A subclass calibrates the noise in `_calibrated_release`. The docstring of that method states
    the guarantee; it becomes the Notes of the subclass's `release`, and may end in sections
    References and Examples.
    """

    heaviest: int

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_calibrated_release" in vars(cls) and "release" not in vars(cls):
            cls.release = _documented(cls)  # type: ignore[method-assign]

    def release(
        self,
        epsilon: float | Privacy | None = None,
        delta: float = 0.0,
        *,
        weight: int = 1,
        noise: str | None = None,
        **options: Unpack[ReleaseOptions],
    ) -> R:
        """Release a differentially private copy with noise added to every cell.

        Parameters
        ----------
        epsilon : float, Privacy or None, default=None
            Privacy loss of the release, above 0. A `sfumato.privacy.Privacy` here, or as the
            option `privacy`, replaces `epsilon`, `delta` and the options except `source`.
        delta : float, default=0.0
            Failure probability of the privacy guarantee, from 0 to below 1.
        weight : int, default=1
            Upper bound on the absolute weight of any one event, at least 1; the noise is
            proportional to it. It must be public knowledge, not computed from the data.
        noise : str or None, default=None
            Noise distribution: "laplace" ("cube" in `Moments`), or "gaussian", which needs a
            `delta` above 0. None selects the one with the smaller variance.
        **options : dict
            The other terms of the release:

            - `ledger`, `dataset`: the `Ledger` or its path, and the data set in it whose budget is
              charged. Give both or neither; without them the release is unaccounted.
            - `unit`, `relation`: the unit of privacy (default "event") and the adjacency relation,
              "add/remove" (default) or "replace". With a ledger, those of its data set.
            - `contributions`: the maximum number of events of one unit in the sketch. Required
              unless the unit is "event" or "item of a profile", for which it is 1.
            - `release_id`: a name under which the ledger stores the release; a retry returns the
              stored bytes at no cost.
            - `privacy`: a `Privacy` in place of `epsilon`.
            - `source`: a seeded noise source, for tests only; the statement then says so.

        Returns
        -------
        R
            The released copy. It answers queries, does not take updates, and has the privacy
            `statement` of the release.

        Raises
        ------
        ParameterError
            The sketch contains an event heavier than `weight`.
        BudgetExceeded
            The ledger has less budget left than the release costs. Nothing was charged.
        """
        return self._released(self._calibrated_release, epsilon, delta, weight, noise, options)

    def _released(
        self,
        plan: Callable[[ReleaseRequest, int, str | None], CalibratedRelease[R]],
        epsilon: float | Privacy | None,
        delta: float,
        weight: int,
        noise: str | None,
        options: ReleaseOptions,
    ) -> R:
        """Calibrate and publish; a ledger is charged before any noise is drawn."""
        owner = type(self).__name__
        self._check_releasable()
        weight = bounded_weight(owner, weight, self.heaviest)
        request = ReleaseRequest.of(owner, epsilon, delta, options)
        return plan(request, weight, noise).publish(request)

    def _check_releasable(self) -> None:
        """Raise ValueError, with the reason, where there is no proof for this sketch's cells."""

    def _calibrated_release(
        self, request: ReleaseRequest, weight: int, noise: str | None
    ) -> CalibratedRelease[R]:
        """Calibrate the noise to the request, for events of weight at most `weight`."""
        raise NotImplementedError


def _documented(kind: type[WeighedRelease[Any]]) -> Any:
    """A `release` for this class, with its own return type and its guarantee as Notes."""
    shared, calibrated = WeighedRelease.release, kind._calibrated_release
    own = FunctionType(
        shared.__code__, shared.__globals__, "release", shared.__defaults__, shared.__closure__
    )
    released = get_args(get_type_hints(calibrated)["return"])[0]
    own.__kwdefaults__ = shared.__kwdefaults__
    own.__module__, own.__qualname__ = kind.__module__, f"{kind.__qualname__}.release"
    own.__annotations__ = {**shared.__annotations__, "return": released}
    if shared.__doc__ and calibrated.__doc__:  # none under python -OO
        text = cleandoc(shared.__doc__).replace("\nR\n", f"\n{released.__name__}\n")
        own.__doc__ = f"{text}\n\nNotes\n-----\n{cleandoc(calibrated.__doc__)}\n"
    return own


def check_heaviest(most: int, mass: int) -> None:
    """Raise ValueError where a file's heaviest weight contradicts the sum of all sizes."""
    if not min(mass, 1) <= most <= min(mass, WEIGHT.high):
        raise ValueError("the heaviest weight does not fit the sum of all.")
