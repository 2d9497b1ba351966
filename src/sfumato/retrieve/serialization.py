"""Conversion of indexes to the header and arrays of their files, and back with validation."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sfumato.core.file_format import damaged
from sfumato.core.validation import integer, positive
from sfumato.kernels.retrieve.layout import BLOCK
from sfumato.retrieve import file_format
from sfumato.retrieve import file_format as files
from sfumato.retrieve.binary.cell_blocks import CellBlocks
from sfumato.retrieve.binary.partition import CellPartition
from sfumato.retrieve.binary.store import Panels, RowWriter, StoredRows, check_ids
from sfumato.retrieve.binary.training import Fitted
from sfumato.retrieve.encoders.base import CodeEncoder
from sfumato.retrieve.file_format import IndexFormatError
from sfumato.retrieve.lsh.store import BandHashes, Tabled
from sfumato.retrieve.metric import Lift, Paraboloid, Space
from sfumato.retrieve.row_ids import RowIds, taken_names

__all__ = [
    "KIND",
    "LSH_KIND",
    "VERSION",
    "lift_from",
    "restored",
    "restored_lsh",
    "save",
    "save_lsh",
]

T = TypeVar("T")
KIND, VERSION, CELL_VERSION = "BinaryIndex", 2, 3
# Version 4 also has norms of learned codes for cosines, Euclidean distances, and texts as ids;
# earlier files of learned codes for cosines are read, and their norms computed from the codes.
NORM_VERSION = 4
ONE = np.uint64(1)
COUNT = integer(0, 2**47)


def save(
    path: str | os.PathLike[str],
    parameters: dict[str, Any],
    fitted: Fitted,
    rows: RowWriter,
    partition: CellPartition | None,
    ids: RowIds,
) -> None:
    """Write a BinaryIndex: all that `restored` needs, in the earliest version that has it."""
    (state, learned), lift, stored = fitted.encoder.state(), fitted.space.lift, rows.stored
    header = {
        "kind": KIND,
        "version": _version(parameters, fitted, ids),
        "parameters": parameters,
        "encoder": state,
        "radius": None if lift is None else lift.radius,
        "signs": fitted.signs,
        "count": stored.count,
    }
    arrays = {f"encoder.{name}": array for name, array in learned.items()}
    if lift is not None:
        arrays["centre"] = lift.centre
    if fitted.space.paraboloid is not None:
        arrays["paraboloid.centre"] = fitted.space.paraboloid.centre
        header["scale"] = fitted.space.paraboloid.scale
    if fitted.distances:
        header["distances"] = True
    if partition is not None and rows.cells is not None:
        header |= {"living": stored.living, "rows": partition.rows}
        arrays |= {"cells.centres": partition.centres, "cells.coverage": partition.coverage}
        arrays["cells.owners"] = rows.cells.owners
    columns = stored.arrays()
    if ids.kind == "text":  # which the file numbers anew
        living = stored.rows()
        columns |= ids.arrays(stored.ids[living])
        columns["ids"] = np.zeros(stored.count, np.int64)
        columns["ids"][living] = np.arange(living.size)
    file_format.write(path, header, {**arrays, **columns})


def restored(
    path: file_format.Source, build: Callable[..., T], *, check: bool
) -> tuple[T, Fitted, RowWriter, CellPartition | None, RowIds]:
    """Read a BinaryIndex: the index built from its parameters, and its state with mapped rows."""
    header, arrays = file_format.opened(path, check=check)
    known = header.get("version") in (CELL_VERSION, NORM_VERSION)
    file_format.expect(header, KIND, header["version"] if known else VERSION)
    with damaged(KIND, IndexFormatError):
        given, fitted = _fitted(header, arrays)
        index = build(**given)
        count = COUNT.check("file", "count", header["count"])
        partition = _partition(header, arrays, fitted) if "cells.centres" in arrays else None
        cells = None if partition is None else _cells(len(partition), count, header, arrays)
        if fitted.normalised and header["version"] != NORM_VERSION:
            arrays["factors"] = _norms(count, arrays["words"], fitted)
        names = taken_names(arrays) if header["version"] == NORM_VERSION else {}
        stored = _stored_rows(count, arrays, fitted, given, None if cells is None else header)
        if cells is not None:
            stored = replace(stored, cells=cells.chains)
        if check:
            check_ids(stored.ids[stored.rows()])
        ids = RowIds.restored(names, stored.ids[stored.rows()])
    return index, fitted, RowWriter(stored, cells), partition, ids


def _version(parameters: dict[str, Any], fitted: Fitted, ids: RowIds) -> int:
    """The earliest version that can represent the index."""
    if fitted.normalised or fitted.shifted or ids.kind == "text":
        return NORM_VERSION
    return CELL_VERSION if "partitions" in parameters else VERSION


def _norms(count: int, words: np.ndarray, fitted: Fitted) -> np.ndarray:
    """Factors of the codes of a file that has none."""
    return fitted.inverse_norms(Panels.over(words, count).take(np.arange(count)))


def _partition(
    header: dict[str, Any], arrays: dict[str, np.ndarray], fitted: Fitted
) -> CellPartition:
    """The centres of cells and their coverage; ValueError where they are invalid."""
    centres, coverage = arrays.pop("cells.centres"), arrays.pop("cells.coverage")
    rows, width = COUNT.check("file", "rows", header["rows"]), fitted.encoder.dimension_
    if fitted.space.paraboloid is not None:
        width = fitted.dimension + 1
    fits = centres.dtype == np.float32 and centres.ndim == 2 and centres.shape[1] == width
    if not fits or len(centres) == 0 or not np.isfinite(centres).all():
        raise ValueError("the centres of cells have the wrong type or shape.")
    fits = coverage.dtype == np.float64 and coverage.shape == (len(centres),)
    if not fits or not (np.diff(coverage, prepend=0, append=1) >= -1e-9).all():
        raise ValueError("the coverage of cells is invalid.")
    return CellPartition(centres.copy(), coverage.copy(), rows)


def _cells(
    cells: int, count: int, header: dict[str, Any], arrays: dict[str, np.ndarray]
) -> CellBlocks:
    """The cell of each block; ValueError where cells, blocks and living rows do not fit."""
    owners, alive = arrays.pop("cells.owners"), arrays["alive"]
    shape, living = (count // BLOCK,), COUNT.check("file", "living", header["living"])
    fits = count % BLOCK == 0 and owners.dtype == np.int32 and owners.shape == shape
    if not fits or (owners.size and not 0 <= owners.min() <= owners.max() < cells):
        raise ValueError("the cells of blocks are invalid.")
    prefix = alive.dtype == np.uint64 and alive.shape == shape and not (alive & (alive + ONE)).any()
    if not prefix or int(np.bitwise_count(alive).sum()) != living:
        raise ValueError("the living rows of cells are invalid.")
    return CellBlocks.over(cells, owners, alive)


def _fitted(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> tuple[dict[str, Any], Fitted]:
    learned = {
        name.removeprefix("encoder."): arrays.pop(name).copy()
        for name in list(arrays)
        if name.startswith("encoder.")
    }
    encoder = CodeEncoder.from_state(header["encoder"], learned)
    given, signs = dict(header["parameters"]), header["signs"]
    if isinstance(given["encoder"], dict):
        given["encoder"] = encoder
    flat = given["metric"] == "euclidean"
    lifted = given["metric"] != "cosine" and not encoder.tells_lengths
    width = encoder.dimension_ - lifted
    lift = lift_from(header["radius"], arrays.pop("centre", None), width)
    curved = lift_from(header.get("scale"), arrays.pop("paraboloid.centre", None), width)
    if (lift is not None) != lifted or (curved is not None) != flat:
        raise ValueError("the radius does not fit the metric.")
    if not isinstance(signs, float) or not 0 <= signs <= 1 or encoder.bits != given["bits"]:
        raise ValueError("the fraction of signs or the number of bits is invalid.")
    paraboloid = None if curved is None else Paraboloid(*curved)
    distances = header.get("distances", False)
    if not isinstance(distances, bool) or (distances and given["metric"] != "cosine"):
        raise ValueError("the way that cosines are ranked is invalid.")
    return given, Fitted(encoder, Space(given["metric"], lift, paraboloid), signs, distances)


def lift_from(radius: Any, centre: np.ndarray | None, dimension: int) -> Lift | None:
    """Lift stored in a file, None if the file has none; ValueError if it is invalid."""
    if radius is None and centre is None:
        return None
    if centre is None or centre.dtype != np.float64 or centre.shape != (dimension,):
        raise ValueError("the centre has the wrong type or shape.")
    if not np.isfinite(centre).all():
        raise ValueError("the centre is not finite.")
    return Lift(centre.copy(), positive.check("file", "radius", radius))


def _stored_rows(
    count: int,
    arrays: dict[str, np.ndarray],
    fitted: Fitted,
    given: dict[str, Any],
    celled: dict[str, Any] | None,
) -> StoredRows:
    """The rows, once each array has the type and shape that kernels rely on."""
    blocks = (-(-count // BLOCK), fitted.words, BLOCK)
    layout: dict[str, tuple[Any, tuple[int, ...]]] = {
        "words": (np.uint64, blocks),
        "ids": (np.int64, (count,)),
    }
    if celled is not None:
        layout["alive"] = np.uint64, (count // BLOCK,)
    if fitted.factored:
        layout["factors"] = np.float32, (count,)
    if fitted.shifted:
        layout["shifts"] = np.float32, (count,)
    if fitted.encoder.short:
        layout["short"] = np.uint64, blocks
    if given["keep_vectors"]:
        layout["vectors"] = np.float32, (count, fitted.dimension)
    found = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    if found != {name: (np.dtype(dtype), shape) for name, (dtype, shape) in layout.items()}:
        raise ValueError("an array is missing, or has the wrong type or shape.")
    living = count if celled is None else int(celled["living"])
    return StoredRows(
        count=count, living=living, ids=arrays["ids"], words=arrays["words"],
        short=arrays.get("short"), factors=arrays.get("factors"), vectors=arrays.get("vectors"),
        alive=arrays.get("alive"), shifts=arrays.get("shifts"),
    )  # fmt: skip


LSH_KIND, LSH_VERSION = "LshIndex", 1
LSH_SETS_VERSION = 2  # also sets, and texts as ids
LSH_COUNT, DIMENSION = integer(0, 2**31 - 1), integer(1, 2**24)
Index = TypeVar("Index")


def save_lsh(path: str | os.PathLike[str], parameters: dict[str, Any], now: Tabled) -> None:
    """Write an LshIndex: all that `restored_lsh` needs."""
    lift = now.learned.lift
    header = {
        "kind": LSH_KIND,
        "version": LSH_SETS_VERSION if _is_new(parameters, now) else LSH_VERSION,
        "parameters": parameters,
        "count": now.count,
        "dimension": now.learned.dimension,
        "radius": None if lift is None else lift.radius,
    }
    files.write(path, header, now.arrays())


def _is_new(parameters: dict[str, Any], now: Tabled) -> bool:
    return parameters["metric"] == "jaccard" or now.names.kind == "text"


def restored_lsh(
    path: file_format.Source, make: Callable[..., Index], *, check: bool
) -> tuple[Index, Tabled]:
    """Read an LshIndex: the index built from its parameters, and its mapped rows.

    With `check` the entire file is read and verified.
    """
    header, arrays = files.opened(path, check=check)
    newer = header.get("version") == LSH_SETS_VERSION
    files.expect(header, LSH_KIND, LSH_SETS_VERSION if newer else LSH_VERSION)
    with damaged(LSH_KIND, IndexFormatError):
        return make(**header["parameters"]), _rows(header, arrays, check)


def _rows(header: dict[str, Any], arrays: dict[str, np.ndarray], check: bool) -> Tabled:
    parameters = header["parameters"]
    count = LSH_COUNT.check("file", "count", header["count"])
    dimension = DIMENSION.check("file", "dimension", header["dimension"])
    lift = lift_from(header["radius"], arrays.get("centre"), dimension)
    if (lift is not None) != (parameters["metric"] == "inner"):
        raise ValueError("the radius does not fit the metric.")
    learned = BandHashes.of(parameters, lift, dimension)
    return Tabled.restored(learned, count, arrays, keep=parameters["keep_vectors"], check=check)
