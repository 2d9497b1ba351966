"""An Arrow table as a file of CSV or Parquet: whole or not at all."""

from pathlib import Path
from typing import Any

__all__ = ["write_table"]


def write_table(path: Path, table: Any) -> None:
    """Write the table in the form that the ending of the name asks for, .csv or .parquet."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from sfumato.sketch._format import write_whole

    out = pa.BufferOutputStream()
    put = csv.write_csv if path.suffix.lower() == ".csv" else parquet.write_table
    put(table, out)
    write_whole(path, out.getvalue().to_pybytes())
