"""Learn from personal behaviour without keeping it; each room is imported when first used.

>>> import sfumato
>>> sfumato.sketch.CountMin(64).update(["tea"]).estimate(["tea"])
array([1])
"""

from __future__ import annotations

import importlib
import os

from sfumato import _moved

TYPE_CHECKING = False  # typing itself takes half of the time that this import may take
if TYPE_CHECKING:
    from typing import Any

    from . import (
        attack,
        data,
        density,
        engine,
        errors,
        privacy,
        profile,
        recommend,
        retrieve,
        sketch,
        telemetry,
    )
    from .core import hashing

__all__ = [
    "__version__",
    "attack",
    "data",
    "density",
    "engine",
    "errors",
    "hashing",
    "load",
    "privacy",
    "profile",
    "recommend",
    "retrieve",
    "sketch",
    "telemetry",
]

__version__ = "0.1.0"  # stated here alone: the build reads it from this line

_moved.install()


def load(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Any:
    """Whatever a file of ours holds; only the room that it comes from is imported.

    Parameters
    ----------
    source : path or bytes
        A file, or all of its bytes, that `save`, `to_bytes` or a command wrote.

    Returns
    -------
    object
        The sketch, release, released profiles, model, index, estimator, share, answer, privacy
        statement, or the counts or parameters of telemetry: the same that the `load` or
        `from_bytes` of its own room returns. An index in a file is mapped, not read, once its
        checksums hold.

    Raises
    ------
    sfumato.errors.FormatError
        The content is not a whole, intact file of ours that this version can read. It is also
        raised for what needs more than a path: a ledger, which `sfumato.privacy.Ledger` opens, and
        reports of telemetry, which are read with their parameters.
    OSError
        The path names no file, or a folder, device or pipe, of which nothing is read.

    Notes
    -----
    **Guarantee.** Nothing is unpickled, and no code but Sfumato's is imported or run. Files of a
    class of your own are read once its module is imported.

    Examples
    --------
    >>> import sfumato
    >>> data = sfumato.sketch.CountMin(64).update(["tea", "tea"]).to_bytes()
    >>> sfumato.load(data).estimate(["tea"])
    array([2])
    """
    return importlib.import_module("sfumato.core.storage").load_any(source)


def __getattr__(name: str) -> Any:
    if name == "hashing":
        return importlib.import_module("sfumato.core.hashing")
    if name in __all__:
        return importlib.import_module(f"sfumato.{name}")
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
