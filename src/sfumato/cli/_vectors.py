"""Vectors and their ids from the files that commands are given."""

from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read"]


def read(
    file: Path, ids: Path | None, id_column: str | None, first: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and vectors, one a row; ids count from `first` where none are told."""
    if file.suffix == ".npy":
        if id_column is not None:
            raise ValueError(f"{file}: has no columns; --id-column goes with Parquet.")
        named, rows = None, _array(file)
    else:
        named, rows = _parquet(file, id_column)
    if ids is not None:
        if named is not None:
            raise ValueError("--ids and --id-column: give one of them.")
        named = _listed(ids)
    if named is None:
        named = np.arange(first, first + len(rows))
    if len(named) != len(rows):
        raise ValueError(f"{file}: has {len(rows)} vectors, but there are {len(named)} ids.")
    return named, rows


def _array(file: Path) -> np.ndarray:
    """A matrix that stays on disk until its rows are read."""
    try:
        rows: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
    except ValueError:
        raise ValueError(f"{file}: is no array of numbers that numpy.save wrote.") from None
    if rows.ndim != 2 or rows.dtype.kind not in "fiu":
        raise ValueError(
            f"{file}: must hold a matrix of numbers, one vector a row, not {rows.dtype} of shape "
            f"{rows.shape}."
        )
    return rows


def _parquet(file: Path, id_column: str | None) -> tuple[np.ndarray | None, np.ndarray]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except pa.ArrowInvalid:
        raise ValueError(f"{file}: must be .npy or a Parquet file of vectors.") from None
    named = None
    if id_column is not None:
        if id_column not in table.column_names:
            raise ValueError(f"{file}: has no column {id_column!r}; give another --id-column.")
        named = table.column(id_column).to_numpy()
        table = table.drop_columns([id_column])
    return named, _matrix(file, table)


def _matrix(file: Path, table: Any) -> np.ndarray:
    """One column of lists, or columns of numbers, as a matrix."""
    import pyarrow as pa

    columns = [column.combine_chunks() for column in table.columns]
    wanted = f"{file}: must have one column of lists of one length, or columns of numbers"
    if any(column.null_count for column in columns):
        raise ValueError(f"{wanted}, and nothing that is null.")
    if len(columns) == 1 and hasattr(columns[0].type, "value_type"):
        flat = columns[0].flatten().to_numpy(zero_copy_only=False)
        width = flat.size // max(len(table), 1)
        lengths = columns[0].value_lengths() if not _fixed(columns[0].type) else None
        if width * len(table) != flat.size or (
            lengths is not None and not (lengths.to_numpy() == width).all()
        ):
            raise ValueError(f"{wanted}.")
        return np.asarray(flat.reshape(len(table), width))
    if not columns or not all(
        pa.types.is_floating(column.type) or pa.types.is_integer(column.type) for column in columns
    ):
        raise ValueError(f"{wanted}.")
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])


def _fixed(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_fixed_size_list(kind))


def _listed(file: Path) -> np.ndarray:
    lines = file.read_text().split()
    if not all(line.isdigit() for line in lines):
        raise ValueError(f"{file}: ids must be whole numbers from 0 up, one a line.")
    return np.array(lines, np.int64)
