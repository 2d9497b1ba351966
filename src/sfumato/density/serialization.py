"""Files of estimators: class, version, parameters and fitted state; nothing is unpickled."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sfumato.core.file_format import (
    Packed,
    kind_in,
    kind_of_file,
    pack,
    packed_source,
    write_atomic,
)
from sfumato.core.storage import Cells, Stored, class_of
from sfumato.core.storage import read as read_packed
from sfumato.errors import SketchFormatError
from sfumato.privacy.release import Release

if TYPE_CHECKING:
    from sfumato.density.base import KernelEstimator

__all__ = ["holds_model", "load", "read", "to_bytes", "write_atomic"]

E = TypeVar("E", bound="KernelEstimator")
TABLES = "ReleasedMarginals"  # the one release that is the file of its estimator
RELEASED = {  # the estimator that reads each kind of release
    "ReleasedAdaptiveGrid": "SketchDensity",
    "ReleasedAdaptiveMoments": "SketchRegressor",
    "ReleasedClassColumns": "SketchClassifier",
    "ReleasedClassKernels": "SketchClassifier",
    "ReleasedKernelFourier": "SketchDensity",
    "ReleasedKernelGrid": "SketchDensity",
    "ReleasedKernelSlices": "SketchDensity",
    "ReleasedMoments": "SketchRegressor",
    TABLES: "PrivateTableSampler",
    "ReleasedRace": "SketchDensity",
    "ReleasedSliceTable": "SketchAnomalyDetector",
}
PAIRS = "pairs"  # the one key of a mapping in a file
PAYING = ("ledger", "dataset", "release_id")  # of a past fit; the statement names them


def to_bytes(model: "KernelEstimator") -> bytes:
    """Serialize an estimator with magic, version, parameters, state, parts and checksum."""
    stored = model._parts()
    if model._private and any(
        isinstance(part, Stored) and not isinstance(part, Release) for part in stored.values()
    ):
        raise ValueError(
            f"{type(model).__name__}: epsilon is set, but what was learned is not private; fit "
            "again before it is saved."
        )
    if not all(isinstance(part, Stored) for part in stored.values()):
        raise ValueError(
            f"{type(model).__name__}: a combination of releases has no file; save each of them."
        )
    parameters = {name: _plain(value) for name, value in model._given().items()}
    parts = {name: np.frombuffer(part.to_bytes(), np.uint8) for name, part in stored.items()}
    header = {
        "kind": type(model).__name__,
        "version": model.version,
        "parameters": {**parameters, **dict.fromkeys(PAYING)},
        "state": {"learned": model._state(), "parts": list(parts)},
    }
    return pack(header, parts)


def read(data: Any, wanted: type[E]) -> E:
    """Restore the estimator of the wanted class from bytes, or raise SketchFormatError."""

    def find(name: str) -> type[Any]:
        kind = _class_of(name)
        if kind is None or not issubclass(kind, wanted):
            raise SketchFormatError(f"{_reader(wanted)}: the bytes hold a {_what(name)}.")
        return kind

    return read_packed(data, wanted, find, _restored, "fit the estimator anew")


def _reader(wanted: type[Any]) -> str:
    """The name that errors begin with: the wanted estimator, or `density.load` for any."""
    from sfumato.density.base import KernelEstimator

    return "density.load" if wanted is KernelEstimator else wanted.__name__


def _what(kind: str) -> str:
    """The kind found in a file, and how to read it if it is not an estimator."""
    from sfumato import density

    model = RELEASED.get(kind)
    if model is not None:
        getattr(density, model)  # so that its releases are known, to sketch.load as well
    stored = class_of(kind)
    if stored is None:
        return repr(kind)
    what = "release" if issubclass(stored, Release) else "sketch"
    remedy = f" and take {model}.from_release(release)" if model else ""
    return f"{kind!r}, a {what}; read it with sfumato.sketch.load{remedy}"


def _class_of(kind: str) -> type[Any] | None:
    """The estimator class of this name, imported if necessary; None if there is none."""
    from sfumato import density
    from sfumato.density.base import KernelEstimator

    if kind in density.__all__:
        getattr(density, kind)
    return KernelEstimator.KINDS.get(kind)


def _restored(kind: type[E], packed: Packed) -> E:
    """Build an estimator from an unpacked file."""
    model = kind(**{name: _given(value) for name, value in packed.parameters.items()})
    plain = model._check()
    layout = {str(name): Cells(np.uint8, (-1,)) for name in packed.state["parts"]}
    parts = {
        name: Stored.from_bytes(cells.tobytes()) for name, cells in packed.arrays(layout).items()
    }
    if plain["epsilon"] is not None and not all(isinstance(p, Release) for p in parts.values()):
        raise ValueError("a private estimator holds releases only.")
    model._restore_state(packed.state["learned"])
    model._restore_parts(parts)
    return model


def _plain(value: Any) -> Any:
    """A parameter as JSON: arrays as lists, mappings as pairs; random generators are not stored."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):  # an object of JSON would make texts of integer keys
        return {PAIRS: [[_plain(key), _plain(part)] for key, part in value.items()]}
    return value


def _given(value: Any) -> Any:
    """A parameter that `_plain` wrote."""
    return dict(value[PAIRS]) if isinstance(value, dict) and PAIRS in value else value


def holds_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file's header names an estimator of this package; the body may be damaged."""
    kind = kind_of_file(path)
    return kind == TABLES or _class_of(kind) is not None


def load(source: Any) -> Any:
    """Load any density estimator from its bytes or from a file.

    Parameters
    ----------
    source : bytes_like or path_like
        What `to_bytes` returned, or the path of a file written by `save`.

    Returns
    -------
    KernelEstimator or PrivateTableSampler
        The fitted estimator, of the class that was saved.

    Raises
    ------
    SketchFormatError
        If the source is truncated, damaged, or holds a sketch or release instead of an estimator.

    Examples
    --------
    >>> from sfumato.density import SketchDensity, load
    >>> model = SketchDensity(bounds=(0, 10)).fit([[1.0], [2.0]])
    >>> type(load(model.to_bytes())).__name__
    'SketchDensity'
    """
    from sfumato.density.base import KernelEstimator

    data = packed_source(source)
    if kind_in(data) == TABLES:
        from sfumato.density.synthesize.sampler import PrivateTableSampler

        return PrivateTableSampler.from_bytes(data)
    return KernelEstimator.from_bytes(data)
