"""Tables of numbers by the names of their columns: errors tell file, row, column, never a value."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.cli._arrow_file import write_table

__all__ = ["Source", "names_of", "write"]

BATCH = 1 << 16  # rows at a time
WHICH = "--columns a,b,... names those of the points."


@dataclass(frozen=True)
class Source:
    """A file of points, and a column beside them if one is named.

    names: of the points' columns, none for a matrix in a .npy; text: whether the column beside is
    classes; skip_nulls: leave out rows with an empty or NaN cell, which are refused otherwise.
    """

    file: Path
    names: list[str] | None
    beside: str | None = None
    text: bool = False
    skip_nulls: bool = False
    remedy: str = "drop or fill such rows."

    def parts(self) -> Iterator[tuple[Any, np.ndarray | None]]:
        """Points and the column beside them, a part of the rows at a time, none of them empty."""
        row, none = 0, True
        for columns in self._matrix() if self.names is None else self._columns():
            whole = self._whole(columns, row)
            row += len(next(iter(columns.values())))
            if whole is None:
                continue
            none = False
            other = whole.pop(self.beside) if self.beside is not None else None
            yield (_stacked(whole) if self.names is None else pa.table(whole)), _plain(other)
        if none:
            raise ValueError(f"{self.file}: has no rows to use.")

    def all(self) -> tuple[Any, np.ndarray | None]:
        """All rows at once."""
        parts = list(self.parts())
        points = [each for each, _ in parts]
        beside = [other for _, other in parts if other is not None]
        joined = np.concatenate(points) if self.names is None else pa.concat_tables(points)
        return joined, np.concatenate(beside) if beside else None

    def _matrix(self) -> Iterator[dict[str, Any]]:
        from sfumato.cli._vectors import _array

        rows = _array(self.file)
        for at in range(0, len(rows), BATCH):
            part = np.asarray(rows[at : at + BATCH], np.float64)
            yield {f"x{j}": pa.array(part[:, j]) for j in range(part.shape[1])}

    def _columns(self) -> Iterator[dict[str, Any]]:
        from sfumato.data import read_batches

        points = self.names or []
        wanted = [*points] if self.beside is None else [*points, self.beside]
        # Numbers of a text file are read as text, since the first rows alone may look whole.
        parquet = self.file.name.lower().endswith(".parquet")
        labels = [self.beside] if self.beside is not None and self.text else []
        row, as_text = 0, labels if parquet else wanted
        for batch in read_batches(self.file, wanted, batch_rows=BATCH, text=as_text):
            yield {
                name: batch.column(name)
                if name in labels
                else self._numbers(batch.column(name), name, row)
                for name in wanted
            }
            row += batch.num_rows

    def _numbers(self, column: Any, name: str, row: int) -> Any:
        if pa.types.is_string(column.type) and not self.file.name.lower().endswith(".parquet"):
            column = pc.utf8_trim_whitespace(column)
            found = _cast(column)
            if found is None:
                at = row + _first_misfit(column)
                raise ValueError(
                    f"{self.file}: row {at}: column {name!r} must hold numbers; {WHICH}"
                )
            return found
        found = None if pa.types.is_string(column.type) else _cast(column)
        if found is None:
            raise ValueError(
                f"{self.file}: column {name!r} must hold numbers, not {column.type}; {WHICH}"
            )
        return found

    def _whole(self, columns: dict[str, Any], row: int) -> dict[str, Any] | None:
        """The rows of which every cell is there; None where no row is left."""
        missing = np.zeros(len(next(iter(columns.values()))), bool)
        for name, column in columns.items():
            empty = pc.is_null(column, nan_is_null=True).to_numpy(zero_copy_only=False)
            if empty.any() and not self.skip_nulls:
                at = row + 1 + int(empty.argmax())
                raise ValueError(
                    f"{self.file}: row {at}: column {name!r} is empty or NaN; {self.remedy}"
                )
            missing |= empty
        if missing.all():
            return None
        kept = pa.array(~missing)
        return {name: column.filter(kept) for name, column in columns.items()}


def names_of(file: Path) -> list[str]:
    """The names of all columns of a file, in its order."""
    import pyarrow.parquet as pq

    from sfumato.data import _text
    from sfumato.data.batches import matches

    (file,) = matches(file)[:1]
    if file.name.lower().endswith(".parquet"):
        try:
            return list(pq.read_schema(file).names)
        except pa.ArrowException:
            raise ValueError(f"{file}: cannot be read as Parquet.") from None
    form = _text.form_of(file)
    if form is None:
        raise ValueError(
            f"{file}: the name must end in .npy, .parquet, {', '.join(_text.ENDINGS)}."
        )
    return _text._header(file, form) if form.delimiter else _text.json_names(file, form)


def write(path: Path, columns: dict[str, Any]) -> None:
    """Write columns by their names as a whole table: .csv or .parquet."""
    write_table(path, pa.table({name: pa.array(values) for name, values in columns.items()}))


def _cast(column: Any) -> Any:
    """The column as numbers, or None where one cell is none."""
    try:
        return column.cast(pa.float64(), safe=False)
    except pa.ArrowException:
        return None


def _first_misfit(column: Any) -> int:
    """The first row, from 1, that is no number; halving finds it in a few casts."""
    good, bad = 0, len(column)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if _cast(column.slice(0, middle)) is None else (middle, bad)
    return bad


def _stacked(columns: dict[str, Any]) -> np.ndarray:
    return np.column_stack([column.to_numpy(zero_copy_only=False) for column in columns.values()])


def _plain(column: Any) -> np.ndarray | None:
    if column is None:
        return None
    values = column.to_numpy(zero_copy_only=False)
    return np.asarray(values.astype(str) if values.dtype == object else values)
