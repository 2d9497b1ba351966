"""Files of tables: their first bytes, and tables written atomically.

Nothing heavy is imported until a table is written, so that commands can check files first.
"""

import errno
import stat
from pathlib import Path
from typing import Any

__all__ = ["beginning", "table_bytes", "without_formulas", "write_table"]

# What a spreadsheet takes for a formula, or skips before one; some take wide signs too.
FORMULA = "^([=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20])"


def beginning(file: Path, what: str = "file of ours", *, pipes: bool = False) -> bytes:
    """First bytes of a file, which show its kind; b"" for a pipe.

    Devices are refused, and pipes unless `pipes` is true.
    """
    mode = file.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{file}: is a folder, not a {what}.")
    if pipes and stat.S_ISFIFO(mode):
        return b""
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(file))
    with file.open("rb") as opened:
        return opened.read(16)


def write_table(path: Path, table: Any, *, formulas: bool = False) -> None:
    """Write the table as .csv or .parquet, by the ending of the name; see `table_bytes`."""
    from sfumato.core.file_format import write_atomic

    write_atomic(path, table_bytes(path, table, formulas=formulas))


def table_bytes(path: Path, table: Any, *, formulas: bool = False) -> bytes:
    """The content of a table's file, .csv or .parquet by the ending of the name.

    In a CSV, texts that a spreadsheet would run as formulas are prefixed by an apostrophe, unless
    `formulas` leaves all texts as they are.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    out = pa.BufferOutputStream()
    if path.suffix.lower() == ".csv":
        csv.write_csv(table if formulas else without_formulas(table), out)
    else:
        parquet.write_table(table, out)
    content: bytes = out.getvalue().to_pybytes()
    return content


def without_formulas(table: Any) -> Any:
    """Prefix texts and names that begin like a formula by an apostrophe.

    Numbers stay as they are, also below 0. A Parquet file, which has types, needs none of this.

    >>> import pyarrow as pa
    >>> without_formulas(pa.table({"value": ["=1+1", "tea"], "count": [-1, 2]})).to_pydict()
    {'value': ["'=1+1", 'tea'], 'count': [-1, 2]}
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for column in table.columns:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            column = pc.replace_substring_regex(column.cast(kind), FORMULA, r"'\1")
        columns.append(column)
    names = pa.array(table.column_names, pa.string())
    shown = pc.replace_substring_regex(names, FORMULA, r"'\1").to_pylist()
    return pa.table(columns, names=shown)
