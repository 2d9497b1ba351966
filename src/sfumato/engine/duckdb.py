"""Sketches in DuckDB's SQL, embedded: the functions that `sfumato.engine.spark` has."""

from typing import Any

import pyarrow as pa

from sfumato.engine.sql_functions import MAKERS, built_bytes, estimates_of, merged_bytes

__all__ = ["register"]


def register(connection: Any) -> None:
    """Register functions of sketches for SQL of a connection.

    Parameters
    ----------
    connection : DuckDBPyConnection
        The connection.

    Notes
    -----
    The functions are those of `sfumato.engine.sql_functions`.

    **Guarantee.** The bytes are those of the same sketch anywhere else; `sfumato.load` reads them.

    The keys of a group are gathered in a list before Python aggregates them, as DuckDB has no
    aggregates in Python. For sketches of files larger than memory use `map_merge`.

    Examples
    --------
    >>> import duckdb
    >>> connection = duckdb.connect()
    >>> register(connection)
    >>> query = "SELECT sfumato_estimate(sfumato_count_min(x)) FROM range(10) t(x)"
    >>> connection.execute(query).fetchone()
    (10.0,)
    """
    for name in MAKERS:
        _aggregate(connection, name, _building(name))
    _aggregate(connection, "sfumato_merge", _merged)
    connection.create_function(
        "sfumato_estimate", _estimated, None, "DOUBLE", type="arrow", null_handling="special"
    )


def _aggregate(connection: Any, name: str, function: Any) -> None:
    """Make an aggregate of a function of lists: a macro that gathers the list."""
    connection.create_function(
        f"{name}_of_list", function, None, "BLOB", type="arrow", null_handling="special"
    )
    connection.execute(
        f"CREATE OR REPLACE TEMP MACRO {name}(x) AS {name}_of_list(list(x) FILTER (x IS NOT NULL))"
    )


def _lists(column: Any) -> list[pa.Array]:
    """Each list of a column of lists; an empty one for null."""
    empty = pa.nulls(0)
    return [empty if each.values is None else each.values for each in column]


def _building(name: str) -> Any:
    def function(column: Any) -> pa.Array:
        return pa.array([built_bytes(name, keys) for keys in _lists(column)], pa.binary())

    return function


def _merged(column: Any) -> pa.Array:
    return pa.array([merged_bytes(each.to_pylist()) for each in _lists(column)], pa.binary())


def _estimated(*columns: Any) -> pa.Array:
    return pa.array(estimates_of(*(each.to_pylist() for each in columns)), pa.float64())
