"""The file of an index of tables: written whole, mapped, and checked before kernels see it."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from sfumato._require import whole
from sfumato.retrieve import _index_file as files
from sfumato.retrieve._index_file import IndexFormatError
from sfumato.retrieve._index_state import lift_from
from sfumato.retrieve._tabled import Learned, Tabled
from sfumato.sketch._format import damaged

__all__ = ["KIND", "restored", "save"]

KIND, VERSION = "LshIndex", 1
COUNT, DIMENSION = whole(0, 2**31 - 1), whole(1, 2**24)
Index = TypeVar("Index")


def save(path: str | os.PathLike[str], parameters: dict[str, Any], now: Tabled) -> None:
    """Write all that `restored` needs."""
    lift = now.learned.lift
    header = {
        "kind": KIND,
        "version": VERSION,
        "parameters": parameters,
        "count": now.count,
        "dimension": now.learned.dimension,
        "radius": None if lift is None else lift.radius,
    }
    files.write(path, header, now.arrays())


def restored(
    path: str | os.PathLike[str], make: Callable[..., Index], *, check: bool
) -> tuple[Index, Tabled]:
    """The index that `make` makes of the parameters, and its rows, mapped.

    With `check` all of the file is read and verified.
    """
    header, arrays = files.opened(path, check=check)
    files.expect(header, KIND, VERSION)
    with damaged(KIND, IndexFormatError):
        return make(**header["parameters"]), _rows(header, arrays, check)


def _rows(header: dict[str, Any], arrays: dict[str, np.ndarray], check: bool) -> Tabled:
    parameters = header["parameters"]
    count = COUNT.check("file", "count", header["count"])
    dimension = DIMENSION.check("file", "dimension", header["dimension"])
    lift = lift_from(header["radius"], arrays.get("centre"), dimension)
    if (lift is not None) != (parameters["metric"] == "inner"):
        raise ValueError("the radius does not fit the metric.")
    learned = Learned.of(parameters, lift, dimension)
    return Tabled.restored(learned, count, arrays, keep=parameters["keep_vectors"], check=check)
