"""Vectors and their ids from the files that commands are given."""

from pathlib import Path
from typing import Any

import numpy as np

from sfumato.cli._show import beginning

__all__ = ["read"]


def read(
    file: Path, ids: Path | None, id_column: str | None, first: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Ids and vectors, one a row; ids count from `first` where none are told."""
    beginning(file, "file of vectors")
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
    except (ValueError, EOFError):
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
    wanted = (
        f"{file}: must have one column of lists of one length, or columns of numbers of one kind, "
        "besides an --id-column"
    )
    if any(column.null_count for column in columns):
        raise ValueError(f"{wanted}, and nothing that is null.")
    if len(columns) == 1 and _lists(columns[0].type):
        lengths = np.asarray(columns[0].value_lengths())
        if lengths.size and (lengths != lengths[0]).any():
            raise ValueError(f"{wanted}.")
        flat = columns[0].flatten().to_numpy(zero_copy_only=False)
        return np.asarray(flat.reshape(len(table), lengths[0] if lengths.size else 0))
    kinds = (pa.types.is_floating, pa.types.is_integer)
    # A column of whole numbers beside others is an id that was not named.
    if not columns or not any(all(is_so(column.type) for column in columns) for is_so in kinds):
        raise ValueError(f"{wanted}.")
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns])


def _lists(kind: Any) -> bool:
    from pyarrow import types

    return any(
        is_so(kind) for is_so in (types.is_list, types.is_large_list, types.is_fixed_size_list)
    )


def _listed(file: Path) -> np.ndarray:
    try:
        return np.array([_id(line) for line in file.read_text().split()], np.int64)
    except (ValueError, OverflowError):
        raise ValueError(
            f"{file}: ids must be whole numbers from 0 to 2**63 - 1, one a line."
        ) from None


def _id(line: str) -> int:
    if not line.isascii() or not line.isdigit():
        raise ValueError("no whole number.")
    return int(line)
