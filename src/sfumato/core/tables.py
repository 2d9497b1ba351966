"""Display of objects: a one-line repr, a page in a notebook, and export to data frames.

`described` writes the line; `Page` and `Table` are mixins, for which a class defines its facts or
columns once. None of them shows raw data or secrets: they receive only what may be printed.
"""

import html
import importlib
import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["LONGEST", "ROWS_SHOWN", "Page", "Table", "described"]

LONGEST = 290  # characters of a line
ROWS_SHOWN = 20  # of a table in a notebook


def described(owner: object, after: str = "", /, **facts: Any) -> str:
    """Describe an object in one line: its class and some facts, abbreviated if long.

    Parameters
    ----------
    owner : object
        The object; its class gives the name.
    after : str, default=""
        Text appended verbatim after the facts.
    **facts : object
        Names and values in display order: parameters and sizes, never data.

    Returns
    -------
    str
        At most `LONGEST` characters, without line breaks.

    Examples
    --------
    >>> described(reprlib.Repr(), width=64, bounds=tuple(range(100)))
    'Repr(width=64, bounds=(0, 1, 2, 3, ...))'
    """
    name, after = type(owner).__name__, f"; {after}" if after else ""
    for most in (120, 60, 30, 12):
        shorter = _Shorter(most)
        inside = ", ".join(f"{key}={shorter.repr(value)}" for key, value in facts.items())
        text = " ".join(f"{name}({inside}{after})".split("\n"))
        if len(text) <= LONGEST:
            return text
    return f"{text[: LONGEST - len(after) - 4]}...{after})"


class _Shorter(reprlib.Repr):
    """Reprs of at most `most` characters, or of four parts of a collection."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = 4
        self.maxstring = self.maxother = self.maxlong = most

    def repr_instance(self, value: Any, level: int) -> str:
        """Show a function by its name, without its address."""
        name = getattr(value, "__qualname__", None)
        return name if callable(value) and name else super().repr_instance(value, level)

    def repr_ndarray(self, array: np.ndarray, level: int) -> str:
        """Show only the shape and dtype of an array: its content may be data."""
        return f"<{' x '.join(map(str, array.shape))} {array.dtype}>"


class Page:
    """Mixin for objects that notebooks show as a table of facts, from `_facts`."""

    def _facts(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{_text(name)}</th>"
            f"<td style='text-align:left'>{_text(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>{_text(type(self).__name__)}</caption>{rows}</table>"


class Table:
    """Mixin for results with columns, from `_columns`: export to data frames, and notebooks.

    Examples
    --------
    >>> class Prices(Table):
    ...     def _columns(self):
    ...         return {"item": ["tea", "milk"], "price": np.array([3.5, 1.0])}
    >>> Prices().to_arrow().to_pylist()
    [{'item': 'tea', 'price': 3.5}, {'item': 'milk', 'price': 1.0}]
    """

    def _columns(self) -> Mapping[str, Sequence[Any] | np.ndarray]:
        """The columns by name, all of one length."""
        raise NotImplementedError

    def to_arrow(self) -> "pa.Table":
        """Convert the result to an Arrow table.

        Returns
        -------
        pyarrow.Table
            One column per field of the result; None becomes null.
        """
        pa: Any = importlib.import_module("pyarrow")
        return pa.table({name: pa.array(column) for name, column in self._columns().items()})

    def to_pandas(self) -> "pd.DataFrame":
        """Convert the result to a pandas data frame; pandas must be installed.

        Returns
        -------
        pandas.DataFrame
            One column per field of the result.
        """
        self._needs("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> "pl.DataFrame":
        """Convert the result to a polars data frame; polars must be installed.

        Returns
        -------
        polars.DataFrame
            One column per field of the result.
        """
        frame: pl.DataFrame = self._needs("polars").from_arrow(self.to_arrow())
        return frame

    def _needs(self, package: str) -> Any:
        try:
            return importlib.import_module(package)
        except ImportError:
            raise ImportError(
                f"{type(self).__name__}: to_{package} needs {package}, which is not installed; "
                f"install it by `pip install {package}`, or take to_arrow."
            ) from None

    def _repr_html_(self) -> str:
        columns = self._columns()
        total = max(map(len, columns.values()), default=0)
        shown = zip(*(column[:ROWS_SHOWN] for column in columns.values()), strict=True)
        head = "".join(f"<th>{_text(name)}</th>" for name in columns)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown)
        more = f"<p>{total - ROWS_SHOWN} more rows</p>" if total > ROWS_SHOWN else ""
        return (
            f"<table><caption>{_text(repr(self))}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>{more}"
        )


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        number = "" if math.isnan(value) else f"{value:.6g}"
        return f"<td style='text-align:right'>{number}</td>"
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return f"<td style='text-align:right'>{value}</td>"
    return f"<td>{_text(value)}</td>"


def _text(value: Any) -> str:
    """A value as HTML-escaped text, cut to 1000 characters."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return html.escape("" if value is None else str(value)[:1000])
