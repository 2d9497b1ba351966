"""Files of NumPy and SciPy as tables: columns of a matrix, named arrays, or sparse entries."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["SPARSE", "sparse_of", "table_of"]

EXACT = 2.0**53  # below it floats are integers one by one
SPARSE = ("row", "column", "value")  # columns of the entries of a sparse matrix


def table_of(path: Path) -> pa.Table:
    """The arrays of a .npy or .npz as a table; nothing is unpickled.

    A matrix has one column for each of its own, named by their numbers, as has an array of one
    dimension; those that hold integers alone are of integers, as ids beside ratings are. A
    structured array and a .npz have the names of their parts. A sparse matrix of SciPy is the table
    of its entries.
    """
    loaded = _loaded(path)
    if isinstance(loaded, np.ndarray):
        return _of_array(path, loaded)
    if "format" in loaded:
        entries = sparse_of(path).tocoo()
        return pa.table(dict(zip(SPARSE, (entries.row, entries.col, entries.data), strict=True)))
    sizes = {name: array.shape for name, array in loaded.items()}
    if len(loaded) == 1:
        return _of_array(path, next(iter(loaded.values())))
    if len(set(sizes.values())) > 1 or any(len(shape) != 1 for shape in sizes.values()):
        raise ValueError(f"{path}: must hold columns of one length, not arrays of shapes {sizes}.")
    return pa.table({name: _column(path, array) for name, array in loaded.items()})


def sparse_of(path: Path) -> Any:
    """The sparse matrix that SciPy wrote."""
    from scipy.sparse import load_npz

    try:
        return load_npz(path)
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path}: is no sparse matrix that scipy.sparse.save_npz wrote.") from None


def _loaded(path: Path) -> Any:
    """An array, or a dict of arrays."""
    try:
        found = np.load(path, allow_pickle=False)
        return found if isinstance(found, np.ndarray) else {name: found[name] for name in found}
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path}: is no array of numbers or texts that NumPy wrote.") from None


def _of_array(path: Path, array: np.ndarray) -> pa.Table:
    if array.dtype.names is not None:
        return pa.table({name: _column(path, array[name]) for name in array.dtype.names})
    if array.ndim not in (1, 2):
        raise ValueError(f"{path}: must hold one or two dimensions, not shape {array.shape}.")
    matrix = array.reshape(len(array), -1)
    return pa.table({str(j): _column(path, _whole(matrix[:, j])) for j in range(matrix.shape[1])})


def _whole(values: np.ndarray) -> np.ndarray:
    """Floats as integers, where all of them are."""
    if values.dtype.kind != "f" or not (np.abs(values) < EXACT).all():
        return values
    return values.astype(np.int64) if np.array_equal(values, np.rint(values)) else values


def _column(path: Path, values: np.ndarray) -> pa.Array:
    if values.dtype.kind not in "iufbUS" or values.ndim != 1:
        raise ValueError(f"{path}: must hold numbers or texts, not {values.dtype}.")
    if values.dtype.kind in "US":
        return pa.array(values.tolist())
    return pa.array(np.ascontiguousarray(values, values.dtype.newbyteorder("=")))
