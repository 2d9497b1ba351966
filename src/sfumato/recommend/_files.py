"""The bytes of a model: class, version, parameters, learned state, catalogue; nothing unpickled."""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sfumato.recommend._catalogue import Catalogue
from sfumato.sketch._format import (
    Packed,
    SketchFormatError,
    damaged,
    pack,
    packed_file,
    write_whole,
)

if TYPE_CHECKING:
    from sfumato.recommend._estimator import Estimator

__all__ = [
    "ModelFormatError",
    "kind_in",
    "load",
    "model_file",
    "read_model",
    "to_bytes",
    "write_whole",
]

M = TypeVar("M", bound="Estimator")


class ModelFormatError(ValueError):
    """The bytes are not a whole, intact model that this version can read."""


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
    with _as_model():
        packed = Packed(data)
    kind = kinds.get(packed.kind)
    if kind is None or not issubclass(kind, wanted):
        raise ModelFormatError(f"{wanted.__name__}: the bytes hold a {packed.kind!r}.")
    if packed.version != kind.version:
        raise ModelFormatError(
            f"{packed.kind}: version {packed.version} of the format cannot be read, only "
            f"{kind.version}; use the sfumato that wrote it, or fit the model anew."
        )
    with damaged(packed.kind, ModelFormatError):
        return _restored(kind, packed)


@contextlib.contextmanager
def _as_model() -> Iterator[None]:
    """Sketches and models share one format, but the reader holds a model in hand."""
    try:
        yield
    except SketchFormatError as error:
        raise ModelFormatError(f"model: {error}".replace("sketch", "model")) from None


def model_file(path: str | os.PathLike[str]) -> memoryview:
    """The bytes of a model's file; ModelFormatError for one that is none, or not whole."""
    with _as_model():
        return packed_file(path)


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


def kind_in(data: Any) -> str:
    """What kind of thing the bytes hold, "" where they are damaged."""
    try:
        return Packed(data).kind
    except SketchFormatError:
        return ""


def load(source: Any) -> Any:
    """Any model or released neighbours, from a path or bytes; ModelFormatError for anything else.

    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import DenseFactorization
    >>> seen = Interactions([1, 2], [10, 20], [5, 5])
    >>> data = DenseFactorization(factors=4).fit(seen).to_bytes()
    >>> load(data).predict(1, 10)
    array([5.])
    """
    from sfumato.recommend._estimator import Estimator

    if isinstance(source, str | os.PathLike):
        source = model_file(source)
    if kind_in(source) == "ReleasedNeighbours":
        from sfumato.recommend.released_neighbours import ReleasedNeighbours

        return ReleasedNeighbours.from_bytes(source)
    return Estimator.from_bytes(source)
