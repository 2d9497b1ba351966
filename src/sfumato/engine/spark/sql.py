"""Sketches in Spark SQL: aggregates that build and merge them, and a function that reads them."""

import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from sfumato.engine.spark.session import translated
from sfumato.engine.sql_functions import MAKERS, built_bytes, estimates_of, merged_bytes

__all__ = ["register"]

EXACT = 2.0**53  # up to which a float is any integer


def register(session: Any) -> None:
    """Register functions of sketches for SQL of a session.

    Parameters
    ----------
    session : SparkSession
        The session.

    Notes
    -----
    The functions are those of `sfumato.engine.sql_functions`.

    **Guarantee.** The bytes are those of the same sketch on one machine; `sfumato.load` reads them.
    A column of integers beyond 2**53 that also has nulls is refused, since Spark passes it on as
    floats: cast it to text.

    Spark brings all keys of a group to one task before Python aggregates them. For large groups
    use `SparkEngine.map_merge`, which moves only sketches.

    Examples
    --------
    >>> def by_country(session):
    ...     register(session)
    ...     return session.sql("SELECT country, sfumato_hll(user) FROM events GROUP BY country")
    """
    functions: Any = importlib.import_module("pyspark.sql.functions")
    kinds = functions.PandasUDFType

    def aggregate(function: Callable[[Any], bytes | None]) -> Any:
        return functions.pandas_udf(function, "binary", kinds.GROUPED_AGG)

    with translated():
        for name in MAKERS:
            session.udf.register(name, aggregate(_building(name)))
        session.udf.register("sfumato_merge", aggregate(lambda column: merged_bytes(column)))
        estimate = functions.pandas_udf(_estimated, "double", kinds.SCALAR)
        session.udf.register("sfumato_estimate", estimate)


def _building(name: str) -> Callable[[Any], bytes]:
    return lambda column: built_bytes(name, _keys(column))


def _keys(column: Any) -> pa.Array:
    """A pandas column of keys as Arrow's; NaN is how Spark writes a null of numbers."""
    if column.dtype.kind == "f" and column.isna().any() and (column.abs() >= EXACT).any():
        raise ValueError(
            "sfumato: integers beyond 2**53 with nulls among them arrive as floats; cast the "
            "column to string."
        )
    return pa.array(column, from_pandas=True)


def _estimated(*columns: Any) -> Any:
    import pandas as pd

    return pd.Series(estimates_of(*columns), dtype=float)
