"""What every model shares besides its answers: declared parameters, checks of data, and files.

The bytes of a model: class, version, parameters, learned state, catalogue; nothing unpickled.
Parameters with declared limits, stored as given: scikit-learn's habits, in one place.
"""

import inspect
import math
import os
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

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
from sfumato.core.storage import REGISTRIES, Cells, read
from sfumato.core.tables import described
from sfumato.core.typing import Bytes
from sfumato.core.validation import Limit, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import ModelFormatError, NotFittedError, ParameterError
from sfumato.privacy.parameters import spread
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.catalogue import Catalogue

__all__ = [
    "BOUNDS",
    "OPTIONAL_BOUNDS",
    "Estimator",
    "Label",
    "ModelFormatError",
    "NotFittedError",
    "Parameters",
    "kind_in",
    "label_of",
    "load",
    "model_file",
    "read_model",
    "to_bytes",
    "write_atomic",
]

M = TypeVar("M", bound="Estimator")


def to_bytes(model: "Estimator") -> bytes:
    """The model as bytes with magic, version, parameters, state, catalogue and checksum."""
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


def read_model(data: Any, wanted: type[M], kinds: dict[str, type[Any]]) -> M:
    """The model of the wanted class in these bytes; ModelFormatError where there is none."""
    return read(data, wanted, kinds.get, _restored, "fit the model anew", MODEL)


def model_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a model's file; ModelFormatError for one that is none, or not whole."""
    return packed_file(path, MODEL)


def _restored(kind: type[M], packed: Packed) -> M:
    model = kind(**packed.parameters)
    model.set_params(**model._check())
    state = dict(packed.state)
    shelf = Catalogue.layout(state.pop("catalogue"))
    model._restore_state(state)
    arrays = packed.arrays({**model._layout(), **shelf})
    model.catalogue_ = Catalogue.from_arrays({name: arrays.pop(name) for name in shelf})
    model._restore_arrays(arrays)
    return model


def load(source: Any) -> Any:
    """Any model or released neighbours, from a path or bytes; ModelFormatError for anything else.

    Parameters
    ----------
    source : object
        TODO.

    Returns
    -------
    object
        TODO.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import DenseFactorization
    >>> seen = Interactions([1, 2], [10, 20], [5, 5])
    >>> data = DenseFactorization(factors=4).fit(seen).to_bytes()
    >>> load(data).predict(1, 10)
    array([5.])
    """
    source = packed_source(source, MODEL)
    if kind_in(source) == "ReleasedNeighbours":
        Packed(source, MODEL)  # damage of a whole file is told as that of a model
        from sfumato.recommend.private.released_neighbours import ReleasedNeighbours

        return ReleasedNeighbours.from_bytes(source)
    return Estimator.from_bytes(source)


class Parameters:
    """The base of what is built with keywords that `fit` checks against `LIMITS`."""

    LIMITS: ClassVar[dict[str, Limit]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters as they were given; deep is there for scikit-learn and changes nothing.

        Parameters
        ----------
        deep : bool, default=True
            TODO.

        Returns
        -------
        dict
            The parameters as they were given; deep is there for scikit-learn and changes nothing.
        """
        return {name: getattr(self, name) for name in self.LIMITS}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; the next `fit` checks and uses them, what was learned stays.

        Parameters
        ----------
        **params : object
            TODO.

        Returns
        -------
        Self
            The object itself.
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
        """The parameters in their plain types, or ValueError naming the first that is wrong."""
        owner, given = type(self).__name__, self._given()
        return {
            name: limit.check(owner, name, given[name])
            for name, limit in self.LIMITS.items()
            if name in given
        }

    def _given(self) -> dict[str, Any]:
        """The parameters as given, with those that `privacy` stands for in their places."""
        signature = inspect.signature(type(self)).parameters
        usual = {name: each.default for name, each in signature.items()}
        return spread(type(self).__name__, self.get_params(), usual)


Label = Literal["none", "measured", "proved"]
SCALARS = ("mean_", "low_", "high_")


class _RatingBoundsLimit:
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
        lost = [(0, 5e-324), (-1.7e308, 1.7e308)]  # half of the range is 0, or infinite
        pairs = [(5, 1), (1, 1), (1, math.inf), (math.nan, 5), ("1", "5"), *lost]
        return [*pairs, (1, 2, 3), 5, "15", None]


BOUNDS = _RatingBoundsLimit()
OPTIONAL_BOUNDS = optional(BOUNDS)


def label_of(statement: PrivacyStatement | None) -> Label:
    """What a statement is worth in one word: none where there is none or its noise is seeded."""
    if statement is None or statement.insecure:
        return "none"
    return "proved" if statement.proof == "proved" else "measured"


class Estimator(Parameters):
    """Parameters with declared limits, learned state that ends in `_`, and a file of both.

    A subclass names its parameters in `LIMITS`, takes them by keyword and stores them as given;
    `fit` begins with `_check`. For files it has `_layout` and, where the arrays are not attributes
    or must hold together, `_arrays` and `_restore_arrays`; where it learned further scalars, it
    extends `_state` and `_restore_state`. `in_files=False` says that it is only a base.
    """

    KINDS: ClassVar[dict[str, type["Estimator"]]] = {}
    version: ClassVar[int] = 1  # of the arrays' meaning; files of another version are refused

    mean_: float
    low_: float
    high_: float
    catalogue_: Catalogue

    def __init_subclass__(cls, *, in_files: bool = True) -> None:
        super().__init_subclass__()
        if in_files:
            Estimator.KINDS[cls.__name__] = cls

    @property
    def statement(self) -> PrivacyStatement | None:
        """What the model promises about privacy; None where it promises nothing."""
        return None

    @property
    def privacy_label(self) -> Label:
        """Whether privacy is proved, only measured, or not claimed."""
        return label_of(self.statement)

    @property
    def nbytes(self) -> int:
        """Bytes of all learned arrays; the catalogue is public and has its own `nbytes`."""
        self._check_fitted()
        return sum(int(array.nbytes) for array in self._arrays().values())

    def to_bytes(self) -> bytes:
        """The model as bytes; no seen list, no raw popularity and nothing infinite is in them.

        Returns
        -------
        bytes
            The model as bytes; no seen list, no raw popularity and nothing infinite is in them.
        """
        self._check_fitted()
        return to_bytes(self)

    @classmethod
    def from_bytes(cls, data: Bytes) -> Self:
        """The model in these bytes; ModelFormatError when they are not a whole, intact one.

        Parameters
        ----------
        data : bytes_like
            TODO.

        Returns
        -------
        Self
            The model in these bytes; ModelFormatError when they are not a whole, intact one.
        """
        return read_model(data, cls, Estimator.KINDS)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that is either complete or not there.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        write_atomic(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The model in a file; ModelFormatError when it is not a whole, intact one.

        Parameters
        ----------
        path : path_like
            TODO.

        Returns
        -------
        Self
            The model in a file; ModelFormatError when it is not a whole, intact one.
        """
        return cls.from_bytes(model_file(path))

    def _check(self) -> dict[str, Any]:
        """The parameters in their plain types, or ValueError naming the first that is wrong."""
        plain = self._limited()
        self._check_together(plain)
        return plain

    def _check_together(self, plain: dict[str, Any]) -> None:
        """Raise ValueError where parameters that are fine alone do not go together."""

    def _check_fitted(self) -> None:
        if "catalogue_" not in self.__dict__:
            raise NotFittedError(f"{type(self).__name__}: not fitted yet; call fit first.")

    def _check_train(self, train: Any, name: str = "train", *, empty: bool = False) -> None:
        """Raise where the data to learn from is no Interactions, or empty where it must not be."""
        owner = type(self).__name__
        if not isinstance(train, Interactions):
            kind = type(train).__name__
            hint = "build them by Interactions(users, items, ratings) or read_interactions"
            raise TypeError(f"{owner}: {name} must be Interactions, not {kind}; {hint}.")
        if not empty and not len(train):
            raise ValueError(f"{owner}: {name} is empty; at least one rating is needed.")

    def _bounds_of(
        self, train: Interactions, bounds: tuple[float, float] | None
    ) -> tuple[float, float]:
        """The given bounds, once all ratings are inside, or else those of the data."""
        ratings = train.ratings
        if bounds is None:
            return float(ratings.min()), float(ratings.max())
        outside = (ratings < bounds[0]) | (ratings > bounds[1])
        if outside.any():
            raise ValueError(
                f"{type(self).__name__}: ratings must be within bounds {bounds}; row "
                f"{int(outside.argmax())} is not: widen the bounds or drop the row."
            )
        return bounds

    @classmethod
    def _catalogue_of(cls, train: Interactions, catalogue: Any) -> Catalogue:
        """The given catalogue, of ids like the items of the data, or those items themselves."""
        if catalogue is None:
            return Catalogue(train.coded().item_ids)
        shelf = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
        if shelf.kind != kind_of(train.items):
            raise TypeError(
                f"{cls.__name__}: catalogue holds {shelf.kind}, but items of the data are "
                f"{kind_of(train.items)}; none of them could be recommended."
            )
        return shelf

    def _layout(self) -> dict[str, Cells]:
        """The arrays of a file, from parameters and scalar state alone (-1: any length)."""
        raise NotImplementedError

    def _arrays(self) -> dict[str, np.ndarray]:
        """The learned arrays, named and ordered as in `_layout`."""
        return {name: getattr(self, name) for name in self._layout()}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        """Take over the arrays of a file; raise ValueError where they do not hold together."""
        for name, array in arrays.items():
            setattr(self, name, array)

    def _state(self) -> dict[str, Any]:
        """The learned scalars, as plain JSON values."""
        state = {name: float(getattr(self, name)) for name in SCALARS}
        if not all(map(math.isfinite, state.values())):
            raise ValueError(f"{type(self).__name__}: what was learned is not finite; fit it anew.")
        return state

    def _restore_state(self, state: dict[str, Any]) -> None:
        """Take over the learned scalars of a file; raise ValueError where one is wrong."""
        for name in SCALARS:
            value = state[name]
            if not isinstance(value, float) or not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number.")
            setattr(self, name, value)
        if self.low_ > self.high_:
            raise ValueError("low_ must not be above high_.")


REGISTRIES.append(Estimator.KINDS)
