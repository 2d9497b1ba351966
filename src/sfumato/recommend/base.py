"""What all recommenders share: declared parameters, checks of the training data, and files.

A model file contains class, version, parameters, fitted state and catalogue, with a checksum;
reading one unpickles nothing. Parameters follow scikit-learn: stored as given, checked by `fit`.
"""

import functools
import inspect
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar

import numpy as np

from sfumato.core.file_format import (
    MODEL,
    Packed,
    kind_in,
    pack,
    packed_file,
    packed_source,
    write_atomic,
)
from sfumato.core.ids import kind_of
from sfumato.core.storage import HOMES, REGISTRIES, Cells, Stored, class_of, read
from sfumato.core.tables import described
from sfumato.core.typing import Bytes
from sfumato.core.validation import Limit, optional, random_seed
from sfumato.data.interactions import Interactions
from sfumato.errors import ModelFormatError, NotFittedError, ParameterError
from sfumato.privacy.parameters import separate_parameters
from sfumato.recommend.catalogue import Catalogue

if TYPE_CHECKING:  # a model without privacy needs none of it
    from sfumato.privacy.statement import PrivacyStatement

__all__ = [
    "BOUNDS",
    "OPTIONAL_BOUNDS",
    "Estimator",
    "Label",
    "ModelFormatError",
    "NotFittedError",
    "Parameters",
    "check_has_ratings",
    "finite_number",
    "kind_in",
    "label_of",
    "load",
    "model_file",
    "predictions",
    "read_model",
    "to_bytes",
    "write_atomic",
]

M = TypeVar("M", bound="Estimator")


def to_bytes(model: "Estimator") -> bytes:
    """Serialize a fitted model: header, parameters, state, arrays, catalogue and checksum."""
    header = {
        "kind": type(model).__name__,
        "version": model.version,
        "parameters": model._check(),
        "state": {**model._state(), "catalogue": model.catalogue_.kind},
    }
    arrays = model._arrays()
    for name, array in arrays.items():
        if array.dtype.hasobject:
            raise TypeError(f"{type(model).__name__}: {name} holds objects, not numbers.")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{type(model).__name__}: {name} is not finite; fit the model anew.")
    return pack(header, {**arrays, **model.catalogue_.arrays()})


def read_model(data: Any, wanted: type[M]) -> M:
    """Return the model of class `wanted` in `data`; raise ModelFormatError if there is none."""
    return read(data, wanted, class_of, _restored, "fit the model anew", MODEL)


def model_file(path: str | os.PathLike[str]) -> memoryview:
    """Return the bytes of a model file; raise ModelFormatError if it is truncated or no model."""
    return packed_file(path, MODEL)


def _restored(kind: type[M], packed: Packed) -> M:
    """Build a model of class `kind` from the unpacked parts of a file."""
    model = kind(**packed.parameters)
    model.set_params(**model._check())
    state = dict(packed.state)
    catalogue_layout = Catalogue.layout(state.pop("catalogue"))
    model._restore_state(state)
    arrays = packed.arrays({**model._layout(), **catalogue_layout})
    model.catalogue_ = Catalogue.from_arrays({name: arrays.pop(name) for name in catalogue_layout})
    model._restore_arrays(arrays)
    return model


def load(source: Any) -> Any:
    """Load a model, or a release that recommends, from a path or bytes.

    Parameters
    ----------
    source : path_like or bytes_like
        A file written by `save`, or the result of `to_bytes`.

    Returns
    -------
    Estimator or Stored
        An object of the class that was saved: a model, or a release such as `ReleasedNeighbours`.

    Raises
    ------
    ModelFormatError
        If the source is not a complete, undamaged model of a known class and version.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import DenseFactorization
    >>> ratings = Interactions([1, 2], [10, 20], [5, 5])
    >>> data = DenseFactorization(factors=4).fit(ratings).to_bytes()
    >>> load(data).predict(1, 10)
    array([5.])
    """
    source = packed_source(source, MODEL)
    kind = kind_in(source)
    release: Any = class_of(kind) if kind in Stored.KINDS or kind in HOMES else None
    if hasattr(release, "recommend_fold_in") and not issubclass(release, Estimator):
        Packed(source, MODEL)  # so that a damaged file raises a model's error
        return release.from_bytes(source)
    return Estimator.from_bytes(source)


class Parameters:
    """Base of classes with keyword parameters that are checked against `LIMITS` in `fit`."""

    LIMITS: ClassVar[dict[str, Limit]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters as they were given.

        Parameters
        ----------
        deep : bool, default=True
            Ignored; accepted for compatibility with scikit-learn.

        Returns
        -------
        dict
            The value of each parameter by name.
        """
        return {name: getattr(self, name) for name in self.LIMITS}

    def set_params(self, **params: Any) -> Self:
        """Set parameters; the next `fit` validates and uses them.

        The fitted state does not change.

        Parameters
        ----------
        **params : object
            New values by parameter name.

        Returns
        -------
        Self
            The object itself.

        Raises
        ------
        ValueError
            If a name is not a parameter.
        """
        for name in params:
            if name not in self.LIMITS:
                known = ", ".join(self.LIMITS)
                raise ValueError(
                    f"{type(self).__name__}: {name} is no parameter; there are {known}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        return described(self, **self.get_params())

    def _limited(self) -> dict[str, Any]:
        """Return the parameters as plain types; raise ValueError for the first invalid one."""
        owner, given = type(self).__name__, self._given()
        return {
            name: limit.check(owner, name, given[name])
            for name, limit in self.LIMITS.items()
            if name in given
        }

    def _given(self) -> dict[str, Any]:
        """Return the parameters, those bundled in `privacy` filled in."""
        kind: Any = type(self)
        return separate_parameters(kind.__name__, self.get_params(), _defaults(kind))


@functools.cache
def _defaults(kind: Any) -> dict[str, Any]:
    """Return the defaults of a class's parameters; a signature takes longer than an event."""
    return {name: each.default for name, each in inspect.signature(kind).parameters.items()}


Label = Literal["none", "measured", "proved"]
SCALARS = ("mean_", "low_", "high_")
LARGEST_RATING = 1e12  # in size: models store ratings as float32, and sum up their squares
# Parameters of models of lists that read ratings, and their values that read none.
RATING_READERS = {"relevant_from": None, "weighting": "equal"}


class _RatingBoundsLimit:
    """Limit of a pair (low, high) of finite rating bounds, low below high."""

    def check(self, owner: str, name: str, value: Any) -> tuple[float, float]:
        try:
            low, high = (math.nan if isinstance(v, bool | str) else float(v) for v in value)
        except (TypeError, ValueError, OverflowError):
            low = high = math.nan
        if not (-math.inf < low < high < math.inf and 0 < (high - low) / 2 < math.inf):
            wanted = "a pair of finite numbers (low, high), half their range finite and above 0"
            raise ParameterError.of(owner, name, f"must be {wanted}, not {value!r}.")
        return low, high

    def bad(self) -> list[Any]:
        extremes = [(0, 5e-324), (-1.7e308, 1.7e308)]  # half of the range is 0, or infinite
        pairs = [(5, 1), (1, 1), (1, math.inf), (math.nan, 5), ("1", "5"), *extremes]
        return [*pairs, (1, 2, 3), 5, "15", None]


BOUNDS = _RatingBoundsLimit()
OPTIONAL_BOUNDS = optional(BOUNDS)


def check_has_ratings(owner: str, train: Interactions, name: str = "train") -> None:
    """Raise ValueError for interactions without ratings."""
    if not train.has_ratings:
        raise ParameterError(
            f"{owner}: {name} has no ratings to learn from; give it ratings, or fit a model of "
            "lists, such as LinearItems.",
            owner=owner,
            parameter="ratings",
        )


def predictions(model: Any, rows: Interactions) -> np.ndarray:
    """Return what a model predicts for the pairs of some rows, at their times if it uses times."""
    when = {"times": rows.times} if getattr(model, "uses_times", False) else {}
    return np.asarray(model.predict(rows.users, rows.items, **when))


def finite_number(state: dict[str, Any], name: str) -> float:
    """Return a number of a file's state; raise ValueError unless it is a finite float."""
    value = state[name]
    if not isinstance(value, float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number.")
    return value


def label_of(statement: "PrivacyStatement | None") -> Label:
    """Return "proved", "measured" or "none"; "none" also for a statement with seeded noise."""
    if statement is None or statement.insecure:
        return "none"
    return "proved" if statement.proof == "proved" else "measured"


class Estimator(Parameters):
    """Base of models with declared parameters, fitted attributes (`name_`) and a file format.

    A subclass lists its parameters in `LIMITS`, takes them by keyword, stores them as given and
    begins `fit` with `_check`. For files it implements `_layout`; it overrides `_arrays` and
    `_restore_arrays` if its arrays are not plain attributes or must be validated together, and
    extends `_state` and `_restore_state` by further fitted scalars. `in_files=False` marks an
    abstract base.
    """

    KINDS: ClassVar[dict[str, type["Estimator"]]] = {}
    version: ClassVar[int] = 1  # of the arrays' meaning; other versions are refused

    mean_: float
    low_: float
    high_: float
    catalogue_: Catalogue
    _seed: int = 0  # drawn from random_state when training began, by models that have one

    def __init_subclass__(cls, *, in_files: bool = True) -> None:
        super().__init_subclass__()
        if in_files:
            Estimator.KINDS[cls.__name__] = cls

    @property
    def statement(self) -> "PrivacyStatement | None":
        """Privacy statement of the model; None for a model without a privacy guarantee."""
        return None

    @property
    def predicts_ratings(self) -> bool:
        """Whether `predict` returns ratings; if not, its scores only order items."""
        return True

    @property
    def uses_times(self) -> bool:
        """Whether it learns from times, and `predict` takes those of the pairs."""
        return False

    @property
    def privacy_label(self) -> Label:
        """Privacy in one word: "proved", "measured" or "none"."""
        return label_of(self.statement)

    @property
    def nbytes(self) -> int:
        """Size of all fitted arrays in bytes, without the (public) catalogue."""
        self._check_fitted()
        return sum(int(array.nbytes) for array in self._arrays().values())

    def to_bytes(self) -> bytes:
        """Serialize the fitted model.

        The bytes contain parameters, fitted state and catalogue, but neither training interactions
        nor item popularity.

        Returns
        -------
        bytes
            The content of a model file, with a checksum.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        ValueError
            If a fitted array has a value that is not finite.
        """
        self._check_fitted()
        return to_bytes(self)

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """Restore a model from the result of `to_bytes`.

        Parameters
        ----------
        data : bytes_like
            The content of a model file. Nothing in it is unpickled.

        Returns
        -------
        Self
            The fitted model.

        Raises
        ------
        ModelFormatError
            If the data is truncated, damaged, or a model of another class or version.
        """
        return read_model(data, cls)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file.

        The file is replaced atomically: it is either complete or unchanged.

        Parameters
        ----------
        path : path_like
            Path of the file.
        """
        write_atomic(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load a model from a file written by `save`.

        Parameters
        ----------
        path : path_like
            Path of the file. Nothing in it is unpickled.

        Returns
        -------
        Self
            The fitted model.

        Raises
        ------
        ModelFormatError
            If the file is truncated, damaged, or a model of another class or version.
        """
        return cls.from_bytes(model_file(path))

    def _check(self) -> dict[str, Any]:
        """Return the parameters as plain types; raise ValueError for the first invalid one."""
        plain = self._limited()
        self._check_together(plain)
        if not isinstance(plain.get("random_state", 0), int):  # a file stores the seed drawn
            plain["random_state"] = self._seed
        return plain

    def _new_seed(self) -> int:
        """Return a seed drawn from `random_state`."""
        return random_seed(type(self).__name__, self.get_params()["random_state"])

    def _check_together(self, plain: dict[str, Any]) -> None:
        """Raise ValueError if valid parameters contradict each other."""

    def _check_fitted(self) -> None:
        """Raise NotFittedError before `fit`."""
        if "catalogue_" not in self.__dict__:
            raise NotFittedError(f"{type(self).__name__}: not fitted yet; call fit first.")

    def _check_train(self, train: Any, name: str = "train", *, empty: bool = False) -> None:
        """Raise unless the data is Interactions with rows (unless `empty`) and needed ratings."""
        owner = type(self).__name__
        if not isinstance(train, Interactions):
            kind = type(train).__name__
            hint = "build them by Interactions(users, items, ratings) or read_interactions"
            raise TypeError(f"{owner}: {name} must be Interactions, not {kind}; {hint}.")
        if not empty and not len(train):
            raise ValueError(f"{owner}: {name} is empty; at least one row is needed.")
        objective = getattr(self, "objective", None)  # of this fit; the last one may differ
        if self.predicts_ratings if objective is None else objective == "ratings":
            check_has_ratings(owner, train, name)
        for parameter, unused in () if train.has_ratings else RATING_READERS.items():
            if getattr(self, parameter, unused) != unused:
                wanted = f"must be {unused!r}, since {name} has no ratings."
                raise ParameterError.of(owner, parameter, wanted)

    def _bounds_of(
        self, train: Interactions, bounds: tuple[float, float] | None
    ) -> tuple[float, float]:
        """Return the given bounds if they contain all ratings, or those of the data if None."""
        ratings = train.ratings
        low, high = float(np.minimum.reduce(ratings)), float(np.maximum.reduce(ratings))
        size = max(map(abs, bounds or (low, high)))
        if size > LARGEST_RATING or 0 < size < 1 / LARGEST_RATING:
            raise ValueError(
                f"{type(self).__name__}: ratings must be 0, or up to a size from "
                f"{1 / LARGEST_RATING:g} to {LARGEST_RATING:g}, of which squares fit into floats; "
                "scale them."
            )
        if bounds is None:
            return low, high
        if low < bounds[0] or high > bounds[1]:
            outside = (ratings < bounds[0]) | (ratings > bounds[1])
            raise ValueError(
                f"{type(self).__name__}: ratings must be within bounds {bounds}; row "
                f"{int(outside.argmax())} is not: widen the bounds or drop the row."
            )
        return bounds

    @classmethod
    def _catalogue_of(cls, train: Interactions, catalogue: Any) -> Catalogue:
        """Return the given catalogue, whose ids must be of the data's kind, or the data's items."""
        if catalogue is None:
            return Catalogue(train.coded().item_ids)
        items = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
        if items.kind != kind_of(train.items):
            raise TypeError(
                f"{cls.__name__}: catalogue holds {items.kind}, but items of the data are "
                f"{kind_of(train.items)}; none of them could be recommended."
            )
        return items

    def _layout(self) -> dict[str, Cells]:
        """Return name, type and shape of each array in a file (-1: any length).

        It may depend on parameters and scalar state only.
        """
        raise NotImplementedError

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the fitted arrays, named and ordered as in `_layout`."""
        return {name: getattr(self, name) for name in self._layout()}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Set the fitted arrays from a file; raise ValueError if they are inconsistent."""
        for name, array in arrays.items():
            setattr(self, name, array)

    def _state(self) -> dict[str, Any]:
        """Return the fitted scalars as JSON values."""
        state = {name: float(getattr(self, name)) for name in SCALARS}
        if not all(map(math.isfinite, state.values())):
            raise ValueError(f"{type(self).__name__}: what was learned is not finite; fit it anew.")
        return state

    def _restore_state(self, state: dict[str, Any]) -> None:
        """Set the fitted scalars from a file; raise ValueError for an invalid one."""
        for name in SCALARS:
            setattr(self, name, finite_number(state, name))
        if self.low_ > self.high_:
            raise ValueError("low_ must not be above high_.")


REGISTRIES.append(Estimator.KINDS)
