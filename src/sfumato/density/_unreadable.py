"""Why a table is not read as points, with its column and never with a cell."""

from typing import Any

import numpy as np

__all__ = ["why_unreadable"]

SENTENCES = {
    "Complex data not supported": "X must hold real numbers. Complex data not supported.",
    "Expected 2D array": "X must have rows and columns, and is no table. Expected 2D array. "
    "Reshape your data: array.reshape(-1, 1) for one column, array.reshape(1, -1) for one row.",
}
REMEDY = "give codes 0, 1, ... by a public list"


def why_unreadable(error: Exception, data: Any) -> str | None:
    """Our sentence for an error of scikit-learn or NumPy, whose own may hold a cell; or None."""
    if str(error).startswith("could not convert"):
        return f"X must hold numbers; {_text_column(data)} holds text; {REMEDY}."
    return next((ours for start, ours in SENTENCES.items() if str(error).startswith(start)), None)


def _text_column(data: Any) -> str:
    """The first column that is not of numbers, by its name or else its number."""
    names = getattr(data, "column_names", getattr(data, "columns", None))
    table = np.asarray(data, object)
    for place in range(table.shape[1] if table.ndim == 2 else 0):
        try:
            table[:, place].astype(np.float64)
        except (TypeError, ValueError):
            name = place if names is None else names[place]
            return f"column {name!r}" if isinstance(name, str) else f"column {place}"
    return "a column"
