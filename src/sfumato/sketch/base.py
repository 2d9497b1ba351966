"""Base classes of sketches: start, copy and merge, from the cells that a sketch declares.

`KeyedSketch` is for sketches of keys, which it hashes; `LinearSketch` for sketches of one vector
with float64 cells that are linear in it; `WeighedRelease` for the private release of a sketch that
records its heaviest weight, which bounds the effect of one event on its counters.
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
from sfumato.core.few_keys import KEY_TYPES, key_hash
from sfumato.core.file_format import Packed
from sfumato.core.hashing import HashedKeys, KeyColumn, hashed_keys
from sfumato.core.storage import TOTAL, Cells, Stored, load
from sfumato.core.typing import Column, Key
from sfumato.core.validation import integer
from sfumato.errors import ParameterError
from sfumato.kernels.alignment import aligned
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseOptions, ReleaseRequest

__all__ = [
    "COUNT",
    "EXACT",
    "FLOAT_SUMS",
    "HEAVIEST",
    "SIGNED",
    "Cells",
    "KeyedSketch",
    "LinearSketch",
    "Merging",
    "Sketch",
    "WeighedRelease",
    "answers_to",
    "bounded_weight",
    "check_heaviest",
    "check_one_key",
    "heaviest",
    "load",
    "refused",
    "rounding",
]

SEED = integer(0, 2**64 - 1)
COUNT = integer(0, 2**31 - 1)  # weight of one event that is only added
SIGNED = integer(-(2**31) + 1, 2**31 - 1)  # weight of one event that may also remove
JOINS = {"add": np.add, "or": np.bitwise_or, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Merging:
    """How the merge of a sketch compares with one sketch of both streams.

    Parameters
    ----------
    kind : {"exact", "rounding", "refused"}
        "exact": the merged sketch is equal bit for bit to one of both streams. "rounding": its
        cells differ by rounding errors. "refused": it cannot merge.
    reason : str, default=""
        Why the merge is not exact.
    tolerance : float, default=0.0
        For "rounding", the maximum difference of a cell, as a fraction of the sum of the absolute
        values of everything that was added.

    Examples
    --------
    >>> from sfumato.sketch import CountMin, FeatureHasher
    >>> CountMin(64).merging.kind
    'exact'
    >>> FeatureHasher(64).merging.kind
    'rounding'
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
    """Base class of all sketches: summaries of a stream in fixed memory.

    Sketches of the same parameters can be merged, compared with ``==``, copied and saved. Use a
    subclass, such as `CountMin`.

    Notes
    -----
    Several threads may read one sketch at the same time. A thread that updates or merges a sketch
    needs exclusive access to it; give each thread its own sketch and merge them, as
    `sfumato.engine.map_merge` does.

    **Guarantee.** A call that raises leaves the sketch unchanged. Ctrl-C may leave part of a column
    counted, but the bounds on the effect of one event (`heaviest`, `mass`) are updated before any
    cell, so a later release still adds enough noise.

    Examples
    --------
    >>> from sfumato.sketch import CountMin, Sketch
    >>> monday, tuesday = CountMin(64).update(["tea"]), CountMin(64).update(["tea", "milk"])
    >>> isinstance(monday, Sketch)
    True
    >>> week = monday.copy().merge(tuesday)
    >>> week == CountMin(64).update(["tea", "tea", "milk"])
    True
    """

    _no_release = "no mechanism is proved for it."
    _idempotent: ClassVar[bool] = False  # whether a repeated key changes nothing

    @property
    def merging(self) -> Merging:
        """Whether the merge of this sketch is exact; see `Merging`."""
        return EXACT

    def merge(self, other: Self) -> Self:
        """Add the stream of another sketch to this one, in place.

        Parameters
        ----------
        other : Self
            Sketch of the same class and parameters, the seed included, over other events. It is not
            changed.

        Returns
        -------
        Self
            The sketch itself, now of both streams; `merging` states whether it is exactly the
            sketch of the concatenated streams.

        Raises
        ------
        TypeError
            The other is not a sketch of this class.
        ValueError
            A parameter differs, the sketch cannot merge (`merging.kind` is "refused"), or `other`
            is the sketch itself and its events would count twice.
        """
        self._check_mergeable(other)
        self._join(other)
        return self

    def copy(self) -> Self:
        """Copy the sketch.

        Returns
        -------
        Self
            An equal sketch with its own memory; updates of one do not change the other.
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
        """Refuse a private release, which this sketch does not support.

        Parameters
        ----------
        *args, **options : object
            Not used.

        Returns
        -------
        object
            Nothing is returned.

        Raises
        ------
        ValueError
            Always; the message says why, and what can be released instead.
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


Answer = Callable[[np.ndarray, np.ndarray], object]


def answers_to(keys: Any, seed: int, dtype: Any, answer: Answer) -> Any:
    """Fill an array by ``answer(hashes, out)`` for a column; for one key, return a Python value."""
    if isinstance(keys, KEY_TYPES):
        out = np.empty(1, dtype)
        answer(key_hash(keys, seed), out)
        return out.item()
    hashed = hashed_keys(keys, seed)
    out = np.empty(hashed.size, dtype)
    for rows, hashes in hashed.blocks:
        answer(hashes, out[rows])
    return out


def check_one_key(owner: str, key: Any) -> None:
    """Raise TypeError for a column, or anything else that is not one key."""
    if not isinstance(key, KEY_TYPES):
        raise TypeError(
            f"{owner}: one key is expected, not {type(key).__name__}; give a column to update, "
            "contains or estimate."
        )


class KeyedSketch(Sketch):
    """Base class of sketches of keys of any types; `sfumato.hashing` says which keys are equal."""

    seed: int
    keys: str  # "some" once there were any keys

    def update(self, keys: Column) -> Self:
        """Add keys.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; 7, "7" and 7.0 are the same key, and all missing values are one key.

        Returns
        -------
        Self
            The sketch itself.
        """
        raise NotImplementedError

    def add(self, key: Key) -> Self:
        """Add one key.

        Parameters
        ----------
        key : scalar
            Key of any type, a text too; `update` takes a column of keys.

        Returns
        -------
        Self
            The sketch itself, as after ``update([key])``.
        """
        check_one_key(type(self).__name__, key)
        return self.update([key])

    def _key_column(self, keys: Any) -> KeyColumn:
        self._refuse_one(keys)
        return keys if isinstance(keys, KeyColumn) else KeyColumn(keys)

    def _hashed(self, keys: Any) -> HashedKeys:
        """The hashes of a column of keys, without the overhead of `KeyColumn` for a few."""
        self._refuse_one(keys)
        return hashed_keys(keys, self.seed)

    def _key_hash(self, key: Any) -> np.ndarray:
        """The hash of one key, uint64 of shape (1,); TypeError for a column."""
        check_one_key(type(self).__name__, key)
        return key_hash(key, self.seed)

    def _refuse_one(self, keys: Any) -> None:
        if isinstance(keys, str | bytes):  # whose letters would be a column; numbers are refused
            raise TypeError(
                f"{type(self).__name__}: a column of keys is expected, not one "
                f"{type(keys).__name__}; add takes one key, or put it into a list."
            )

    def _note_keys(self, column: KeyColumn | HashedKeys) -> None:
        """Record whether there were any keys; their types are not recorded."""
        if column.size:
            self._note_key()

    def _note_key(self) -> None:
        if not self.keys:
            self.keys = SOME

    @classmethod
    def _reads(cls, packed: Packed) -> bool:
        """Read the previous version too, of integer keys only: digits in texts hashed otherwise."""
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
            raise ValueError("the state of the keys is invalid.")


HEAVIEST = 1e140  # the squares of cells up to here can be summed
LARGEST_ENTRY = 8.0  # no cell exceeds the mass times this; Gaussian entries end at 6.8


FLOAT_SUMS = (  # why sketches of real weights have no release
    "its cells are float64 sums, whose rounding depends on all other events; count "
    "integer weights in a CountSketch and release that."
)


class LinearSketch(Sketch, in_files=False):
    """Base class of sketches of one vector, whose cells are linear in it.

    The cells, times `_scale`, have the vector's squared norm and inner products in expectation.
    `mass` is the sum of the absolute values of everything that was added, even if it cancelled.
    """

    mass: float
    _cells: np.ndarray

    @property
    def merging(self) -> Merging:
        return rounding("cells are float64, so sums in another order differ by rounding.")

    def norm(self) -> float:
        """Estimate the Euclidean norm of the vector.

        Returns
        -------
        float
            The norm of the cells, the square root of ``inner(self)``.
        """
        return math.sqrt(self.inner(self))

    def inner(self, other: Self) -> float:
        """Estimate the inner product with the vector of another sketch.

        Parameters
        ----------
        other : Self
            Sketch of the same class and parameters, the seed included.

        Returns
        -------
        float
            The inner product of the cells, an unbiased estimate of that of the vectors.
        """
        self._check_same(other, "compare")
        return float(np.dot(self._cells, other._cells)) * self._scale**2

    def distance(self, other: Self) -> float:
        """Estimate the Euclidean distance to the vector of another sketch.

        Parameters
        ----------
        other : Self
            Sketch of the same class and parameters, the seed included.

        Returns
        -------
        float
            The distance of the cells; its square is an unbiased estimate.
        """
        self._check_same(other, "compare")
        return float(np.linalg.norm(self._cells - other._cells)) * self._scale

    @property
    def _scale(self) -> float:
        return 1.0

    def _heavier(self, added: float) -> float:
        """The mass after an addition; raises if a cell could overflow."""
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
    """The largest of `count` absolute weights; None stands for all ones."""
    return min(count, 1) if sizes is None else int(sizes.max(initial=0))


def bounded_weight(owner: str, weight: int, most: int) -> int:
    """Check the bound that a caller declares on all weights; raise if an event exceeds it."""
    weight = WEIGHT.check(owner, "weight", weight)
    if most > weight:
        # The message does not disclose the largest weight: it may end up in a log.
        problem = (
            f"is {weight}, but the sketch holds a heavier event; give what is publicly known to "
            "bound every event (do not search for it: that would leak), or clip the weights before "
            "they are counted."
        )
        raise ParameterError.of(owner, "weight", problem)
    return weight


R = TypeVar("R", bound=Release)
Q = TypeVar("Q", bound=Release)


class WeighedRelease(Generic[R]):
    """Mixin for the release of a sketch that records its `heaviest` weight.

    It comes before the sketch's base class in the list of bases.
    A subclass calibrates the noise in `_calibrated_release`. The docstring of that method states
    the guarantee; it becomes the Notes of the subclass's `release`, and may end in sections
    References and Examples.
    """

    heaviest: int

    def _weigh(self, weight: int) -> None:
        """Record the heaviest weight of some events, before any cell changes."""
        if weight > self.heaviest:
            self.heaviest = weight

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
        calibrate: Callable[[ReleaseRequest, int, str | None], CalibratedRelease[Q]],
        epsilon: float | Privacy | None,
        delta: float,
        weight: int,
        noise: str | None,
        options: ReleaseOptions,
    ) -> Q:
        """Calibrate and publish; a ledger is charged before any noise is drawn."""
        owner = type(self).__name__
        self._check_releasable()
        weight = bounded_weight(owner, weight, self.heaviest)
        request = ReleaseRequest.of(owner, epsilon, delta, options)
        return calibrate(request, weight, noise).publish(request)

    def _check_releasable(self) -> None:
        """Raise ValueError with the reason if cells of this kind have no private release."""

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
    """Raise ValueError if a file's heaviest weight contradicts the sum of absolute weights."""
    if not min(mass, 1) <= most <= min(mass, WEIGHT.high):
        raise ValueError("the heaviest weight does not fit the sum of all.")
