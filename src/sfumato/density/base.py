"""The base class of the density estimators: parameters, input checks, release, merge and files.

Also the valid ranges of the shared parameters, and errors that name the estimator instead of the
sketch inside it. No error message repeats a cell of the data.
"""

import contextlib
import copy
import inspect
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sfumato.core.arrays import LARGEST, Readers, private_points
from sfumato.core.bounds import BOUNDS, Box, Pair
from sfumato.core.estimator import BaseEstimator, not_fitted
from sfumato.core.estimator_data import check_feature_names, validate_data
from sfumato.core.file_format import packed_file
from sfumato.core.ids import plain_numbers
from sfumato.core.storage import REGISTRIES
from sfumato.core.typing import Bytes, Column, Matrix
from sfumato.core.validation import (
    DELTA,
    RANDOM_STATE,
    Limit,
    integer,
    one_of,
    optional,
    positive,
    random_seed,
)
from sfumato.density import serialization
from sfumato.density.backends import TYPES, Setting, choose, make
from sfumato.errors import ParameterError, ParameterTypeError
from sfumato.privacy.parameters import PRIVACY, Privacy, cloned_ledger, separate_parameters
from sfumato.privacy.random_source import Source
from sfumato.sketch.kernel_sums.grid import KernelGrid
from sfumato.sketch.kernel_sums.radial_kernels import KERNEL

__all__ = [
    "BACKENDS",
    "LIMITS",
    "KernelEstimator",
    "naming",
    "noise_from",
    "why_unreadable",
]

BACKENDS = ("race", "grid", "slices", "fourier")


class _Anything:
    """A limit that accepts any value: the release checks it, once the ledger is open."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        return value

    def bad(self) -> list[Any]:
        return []


LIMITS: dict[str, Limit] = {
    "bandwidth": positive,
    "kernel": KERNEL,
    "backend": one_of(("auto", *BACKENDS)),
    "rows": optional(integer(1, 2**20)),
    "width": integer(2, 2**31),
    "expected_size": optional(integer(1)),
    "epsilon": optional(positive),
    "delta": DELTA,
    "bounds": optional(BOUNDS),
    "ledger": _Anything(),
    "dataset": _Anything(),
    "unit": _Anything(),
    "relation": _Anything(),
    "contributions": optional(integer(1, 2**31)),
    "release_id": _Anything(),
    "privacy": PRIVACY,
    "random_state": RANDOM_STATE,
}


@contextlib.contextmanager
def naming(owner: str, inner: str) -> Iterator[None]:
    """Make errors raised inside begin with the name of the owner instead of the inner sketch.

    >>> with naming("SketchDensity", "KernelGrid"):
    ...     raise ValueError("KernelGrid: epsilon is too small.")
    Traceback (most recent call last):
    ValueError: SketchDensity: epsilon is too small.
    """
    try:
        yield
    except Exception as error:
        if error.args and str(error.args[0]).startswith(f"{inner}: "):
            said = str(error.args[0]).removeprefix(f"{inner}: ")
            error.args = (f"{owner}: {said}", *error.args[1:])
            if isinstance(error, ParameterError | ParameterTypeError):
                error.owner = owner
        raise


SENTENCES = {
    "Complex data not supported": "X must hold real numbers. Complex data not supported.",
    "Expected 2D array": "X must have rows and columns, and is no table. Expected 2D array. "
    "Reshape your data: array.reshape(-1, 1) for one column, array.reshape(1, -1) for one row.",
}
REMEDY = "give codes 0, 1, ... by a public list, or SketchClassifier the list in categorical"


def why_unreadable(error: Exception, data: Any) -> str | None:
    """Our sentence for an error of scikit-learn or NumPy that may quote a cell, or None."""
    if str(error).startswith("could not convert"):
        return f"X must hold numbers; {_text_column(data)} holds text; {REMEDY}."
    return next((ours for start, ours in SENTENCES.items() if str(error).startswith(start)), None)


def _text_column(data: Any) -> str:
    """The first column that is not numeric, by name or else by position."""
    names = getattr(data, "column_names", getattr(data, "columns", None))
    table = np.asarray(data, object)
    for position in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, position].astype(np.float64)
        except (TypeError, ValueError):
            name = position if names is None else names[position]
            return f"column {name!r}" if isinstance(name, str) else f"column {position}"
    return "a column"


COLUMNS = integer(1, 2**16)  # number of columns that a file may state
READ = (*TYPES, "statistics", "angles", "surrogate", "columns", "kernel")
_NOISE: ContextVar[Source | None] = ContextVar("sfumato-density-noise", default=None)
OPTIONS = ("ledger", "dataset", "unit", "relation", "contributions", "release_id")


@contextlib.contextmanager
def noise_from(source: Source) -> Iterator[None]:
    """Draw the noise of private fits inside from this source; for tests, as statements then say."""
    token = _NOISE.set(source)
    try:
        yield
    finally:
        _NOISE.reset(token)


class KernelEstimator(BaseEstimator):
    """Base class of the estimators over kernel sums.

    A subclass takes its parameters by keyword, stores them as given, and declares the valid ranges
    of those it adds in `LIMITS`. Its `fit` begins with `_check` and `_training_rows`, gets the
    public configuration from `_setting`, fills sketches made by `_empty`, and passes each to
    `_release_if_private`, which returns the sketch itself without privacy and its release
    otherwise; the sketch is then discarded. `_parts` lists the sketches or releases for files,
    `_state` the other fitted values.

    With epsilon no content of a row raises, warns, or changes how another row is read: rows are
    read one by one (`private_points`), dropped if a cell is not a number, and clipped to `bounds`.
    Any number of rows is accepted, also none. Invalid parameters, containers of an invalid type and
    an unexpected number of columns are public, and are refused.

    `privacy`, a `sfumato.privacy.Privacy`, replaces epsilon, delta and everything in OPTIONS. A
    clone or deep copy of an estimator with a ledger may not charge it, unless that `Privacy` allows
    it; a pickled one may.
    """

    LIMITS: ClassVar[dict[str, Limit]] = LIMITS
    KINDS: ClassVar[dict[str, type["KernelEstimator"]]] = {}
    version: ClassVar[int] = 1  # of the parts' meaning; files of another version are refused

    n_features_in_: int
    bounds_: Pair
    backend_: str
    sketch_: Any
    release_: Any
    statement_: Any
    clipped_: int

    def __init__(
        self,
        *,
        bandwidth: float = 1.0,
        kernel: str = "p-stable",
        backend: str = "auto",
        rows: int | None = None,
        width: int = 1024,
        expected_size: int | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        bounds: Any = None,
        ledger: Any = None,
        dataset: str | None = None,
        unit: str | None = None,
        relation: str | None = None,
        contributions: int | None = None,
        release_id: str | None = None,
        privacy: Privacy | None = None,
        random_state: Any = None,
    ) -> None:
        self._store(locals())

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # parameters, which `_store` sets

    def __init_subclass__(cls, *, in_files: bool = True, **options: Any) -> None:
        super().__init_subclass__(**options)
        if in_files:
            KernelEstimator.KINDS[cls.__name__] = cls

    def _store(self, given: dict[str, Any]) -> None:
        """Store the arguments of `__init__` as given; its signature names them."""
        for name, value in given.items():
            if name != "self":
                setattr(self, name, value)

    def __sklearn_clone__(self) -> Self:
        lent: Any = copy.copy(self)
        lent.ledger = cloned_ledger(self.ledger)  # a `Privacy` is cloned by a rule of its own
        twin: Self = super(KernelEstimator, lent).__sklearn_clone__()
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        lent = {**self.__dict__, "ledger": cloned_ledger(self.ledger)}
        twin.__dict__.update(copy.deepcopy(lent, memo))
        return twin

    @property
    def _owner(self) -> str:
        return type(self).__name__

    @property
    def _private(self) -> bool:
        """Whether a fit would be private."""
        return self.epsilon is not None or self.privacy is not None

    def _given(self) -> dict[str, Any]:
        """The parameters as given, with those of `privacy` expanded."""
        signature = inspect.signature(type(self)).parameters
        defaults = {name: each.default for name, each in signature.items()}
        return separate_parameters(self._owner, self.get_params(deep=False), defaults)

    def _check(self) -> dict[str, Any]:
        """Convert parameters to plain types; raise ValueError for the first invalid one."""
        given = self._given()
        plain = {
            name: limit.check(self._owner, name, given[name])
            for name, limit in self.LIMITS.items()
            if name in given
        }
        if plain["epsilon"] is None and (plain["delta"] or plain["ledger"] is not None):
            name = "delta" if plain["delta"] else "ledger"
            raise ValueError(f"{self._owner}: {name} needs an epsilon; give both or neither.")
        self._require_bounds(plain)
        return plain

    def _require_bounds(self, plain: dict[str, Any]) -> None:
        if plain["epsilon"] is not None and plain["bounds"] is None:
            raise ValueError(
                f"{self._owner}: bounds must be given with epsilon: public limits (low, high) of "
                "the columns, never taken from private data."
            )

    def _resolved(self, X: Any, plain: dict[str, Any]) -> dict[str, Any]:
        """The parameters with what follows from the names and the number of X's columns."""
        return plain

    def _readers(self, plain: dict[str, Any]) -> Readers:
        """Functions that read columns, by position, that do not contain numbers."""
        return {}

    def _training_rows(
        self, X: Any, sample_weight: Any, plain: dict[str, Any], *, reset: bool = True
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Training points and integer weights (None for ones); with epsilon by the public rule."""
        if plain["epsilon"] is None:
            points = self._train(X, reset=reset)
            return points, self._weights(sample_weight, len(points))
        self._refuse_weights(sample_weight)
        points = self._private_points(X, plain, reset=reset)
        return points[~np.isnan(points).any(axis=1)], None

    def _private_points(self, X: Any, plain: dict[str, Any], *, reset: bool = True) -> np.ndarray:
        """All rows clipped to the bounds, NaN in rows to drop; no row is refused."""
        points = self._numbers(X, plain, reset=reset)
        box = Box.of(self._owner, plain["bounds"], points.shape[1])
        self.n_features_in_ = points.shape[1]
        return np.asarray(np.clip(points, box.low, box.high))

    def _numbers(self, X: Any, plain: dict[str, Any], *, reset: bool = True) -> np.ndarray:
        """All rows as numbers, NaN for cells that are not; refuses only what is public."""
        check_feature_names(self, X, reset=reset)
        points = private_points(self._owner, X, self._columns_given(plain), self._readers(plain))
        if not reset and points.shape[1] != self.n_features_in_:
            raise ValueError(
                f"{self._owner}: X has {points.shape[1]} columns, but {self.n_features_in_} are "
                "expected."
            )
        return points

    def _columns_given(self, plain: dict[str, Any]) -> int | None:
        """Number of columns that the bounds state; None if one pair serves all."""
        one_for_all = plain["bounds"] is None or all(np.ndim(side) == 0 for side in self.bounds)
        return None if one_for_all else len(plain["bounds"][0])

    def _target_masks(
        self, y: Any, plain: dict[str, Any], rows: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """For `input_report`: masks of the rows dropped and clipped because of y."""
        return np.zeros(rows, bool), np.zeros(rows, bool)

    def input_report(self, X: Matrix, y: Column | None = None) -> dict[str, int]:
        """Count the rows that a fit with epsilon would drop and clip.

        Parameters
        ----------
        X : array_like
            Data as `fit` takes them.
        y : array_like or None, default=None
            Labels or targets as `fit` takes them.

        Returns
        -------
        dict of str to int
            `rows`, all rows; `dropped`, those with a cell that is not a number, a label that is not
            in the public list, or no target; `clipped`, those of the others that are outside the
            bounds.

        Notes
        -----
        The counts are exact and not private: they are for the curator alone, and no estimator,
        release or file stores them.
        """
        twin = type(self)(**self.get_params(deep=False))
        plain = twin._resolved(X, self._check())
        if plain["bounds"] is None:
            raise ValueError(f"{self._owner}: bounds must be given for a report.")
        points = twin._numbers(X, plain)
        box = Box.of(self._owner, plain["bounds"], points.shape[1])
        dropped, outside = twin._target_masks(y, plain, len(points))
        dropped = dropped | np.isnan(points).any(axis=1)
        outside = outside | (np.clip(points, box.low, box.high) != points).any(axis=1)
        clipped = int((outside & ~dropped).sum())
        return {"rows": len(points), "dropped": int(dropped.sum()), "clipped": clipped}

    def _train(self, X: Any, *, reset: bool = True) -> np.ndarray:
        """Training points without NaN, and without infinities if no bounds clip them."""
        points = self._matrix(X, reset=reset)
        self._refuse_nan(points, np.isnan(points), "NaN")
        if self.bounds is None:
            self._refuse_nan(points, np.isinf(points), "inf, which needs bounds to be clipped to")
        return points

    def _queries(self, X: Any) -> np.ndarray:
        """Finite query points with the number of columns of the training data."""
        self._check_fitted()
        points = self._matrix(X, reset=False)
        self._refuse_nan(points, ~np.isfinite(points), "NaN or inf")
        return points

    def _matrix(self, X: Any, *, reset: bool) -> np.ndarray:
        if isinstance(X, np.ma.MaskedArray):
            X = plain_numbers(X)  # scikit-learn would lose the mask
        try:
            return validate_data(self, X, reset=reset, ensure_all_finite=False)
        except ValueError as error:
            ours = why_unreadable(error, X)
            if ours is None:
                raise
            raise ValueError(f"{self._owner}: {ours}") from None

    def _refuse_nan(self, points: np.ndarray, invalid: np.ndarray, what: str) -> None:
        if invalid.any():
            row, column = np.argwhere(invalid)[0]
            raise ValueError(
                f"{self._owner}: X must be finite; row {row}, column {column} holds {what}. "
                "Drop or fill such rows first."
            )

    def _weights(self, sample_weight: Any, rows: int) -> np.ndarray | None:
        """Integer weights as int64, None for ones."""
        if sample_weight is None:
            return None
        weights = plain_numbers(sample_weight)
        if weights.shape != (rows,):
            raise ValueError(
                f"{self._owner}: sample_weight must have one number per row, {rows}, not the shape "
                f"{weights.shape}."
            )
        numbers = weights if weights.dtype.kind in "iuf" else np.full(rows, -1)
        with np.errstate(invalid="ignore"):
            integer = numbers.astype(np.int64)
        if not (integer == numbers).all() or integer.min() < 0:
            raise ValueError(f"{self._owner}: sample_weight must be integers from 0 up.")
        if not integer.any():
            raise ValueError(f"{self._owner}: every sample_weight is zero; one must be above.")
        return integer

    def _refuse_weights(self, sample_weight: Any) -> None:
        """Refuse weights in a private fit without reading them, since reading could reveal data."""
        if sample_weight is not None:
            raise ValueError(
                f"{self._owner}: sample_weight must be None with epsilon, which protects one event "
                "of weight 1; repeat rows and give contributions, or release a sketch yourself."
            )

    def _setting(
        self, plain: dict[str, Any], points: np.ndarray, weights: np.ndarray | None = None
    ) -> Setting:
        """The public configuration; with epsilon points give only their number of columns."""
        dimension = points.shape[1]
        if plain["bounds"] is not None:
            bounds = Box.of(self._owner, plain["bounds"], dimension).bounds
        else:
            used = points if weights is None else points[weights > 0]
            bounds = _bounds_of(self._owner, used, plain["bandwidth"])
        names = ("backend", "kernel", "bandwidth", "rows", "width", "epsilon", "delta")
        options = {name: plain[name] for name in (*names, "expected_size", "contributions")}
        return choose(self._owner, **options, bounds=bounds, seed=hash_seed(plain["random_state"]))

    def _empty(self, setting: Setting) -> Any:
        """An empty sketch of this configuration."""
        with naming(self._owner, TYPES[setting.backend]):
            return make(setting)

    def _release_if_private(self, sketch: Any, plain: dict[str, Any], **more: Any) -> Any:
        """The sketch itself without privacy, else its release, charged before noise is drawn."""
        if plain["epsilon"] is None:
            return sketch
        options = {name: plain[name] for name in OPTIONS if plain[name] is not None}
        if _NOISE.get() is not None:
            options["source"] = _NOISE.get()
        with naming(self._owner, type(sketch).__name__):
            if isinstance(sketch, KernelGrid) and not plain["delta"]:
                return sketch.release_adaptive(plain["epsilon"], **{**options, **more})
            return sketch.release(plain["epsilon"], plain["delta"], **{**options, **more})

    def _check_fitted(self) -> None:
        if not self._parts():
            raise not_fitted(f"{self._owner}: not fitted yet; call fit first.")

    def _parts(self) -> dict[str, Any]:
        """The sketches or releases of the estimator by name; empty before fit."""
        return {
            name: getattr(self, name) for name in ("sketch_", "release_") if hasattr(self, name)
        }

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        """Take over the sketches or releases read from a file."""
        for name, part in parts.items():
            setattr(self, name, part)

    def _state(self) -> dict[str, Any]:
        """The other fitted values that may be saved, as plain JSON values."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        return dict(
            columns=self.n_features_in_, names=names, bounds=self.bounds_, backend=self.backend_
        )

    def _restore_state(self, state: dict[str, Any]) -> None:
        """Restore the values that `_state` returned."""
        self.n_features_in_ = COLUMNS.check("file", "columns", state["columns"])
        names = state["names"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("the names of the columns are no texts.")
        if len(names) not in (0, self.n_features_in_):
            raise ValueError("there are not as many names as columns.")
        if names:
            self.feature_names_in_: np.ndarray = np.array(names, object)
        self.bounds_ = Box.of(self._owner, state["bounds"], self.n_features_in_).bounds
        self.backend_ = one_of(READ).check("file", "backend", state["backend"])

    def to_bytes(self) -> bytes:
        """Serialize the fitted estimator.

        Returns
        -------
        bytes
            Class, version, parameters, fitted state and a checksum. With `epsilon` only the release
            is stored, and no ledger.
        """
        self._check_fitted()
        return serialization.to_bytes(self)

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """Restore an estimator from its bytes.

        Parameters
        ----------
        data : bytes_like
            What `to_bytes` returned.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        SketchFormatError
            If the bytes are truncated, damaged or of another class or version.
        """
        return serialization.read(data, cls)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a file atomically.

        Parameters
        ----------
        path : path_like
            File to write or replace; after a failure the old file is unchanged.
        """
        serialization.write_atomic(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an estimator from a file.

        Parameters
        ----------
        path : path_like
            File written by `save`.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        SketchFormatError
            If the file is truncated, damaged or of another class or version.
        """
        return cls.from_bytes(packed_file(path))


REGISTRIES.append(KernelEstimator.KINDS)


def _bounds_of(owner: str, points: np.ndarray, bandwidth: float) -> Pair:
    """The bounding box of the points, widened to at least one bandwidth per column."""
    low, high = points.min(axis=0), points.max(axis=0)
    far = np.maximum(np.abs(low), np.abs(high))
    if far.max() > LARGEST / 2:
        column = int(far.argmax())
        raise ValueError(
            f"{owner}: X must be within {LARGEST / 2:g}; column {column} is not. Rescale it, or "
            "give bounds to clip it to."
        )
    flat = np.maximum(np.maximum(bandwidth, far * 2.0**-50) - (high - low), 0) / 2
    return tuple(map(float, low - flat)), tuple(map(float, high + flat))


def hash_seed(random_state: Any) -> int:
    """The seed of all hash functions; 0 for None, so that two estimators can merge."""
    return 0 if random_state is None else random_seed("hash_seed", random_state)
