"""The functions of `pyarrow.compute`, which is imported when one of them is first used.

It makes a Python function of each of Arrow's when it is imported, and reading a stored sketch or a
model calls none of them.
"""

from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pyarrow.compute

    globals()[name] = found = getattr(pyarrow.compute, name)  # from now on without this function
    return found
