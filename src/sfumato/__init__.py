"""Learn from personal behaviour without keeping it; subpackages are imported on first use.

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
        mine,
        privacy,
        profile,
        recommend,
        retrieve,
        serve,
        sketch,
        store,
        telemetry,
    )
    from .client import AsyncClient, Client
    from .core import hashing

__all__ = [
    "AsyncClient",
    "Client",
    "__version__",
    "attack",
    "data",
    "density",
    "engine",
    "errors",
    "hashing",
    "load",
    "mine",
    "privacy",
    "profile",
    "recommend",
    "retrieve",
    "serve",
    "sketch",
    "store",
    "telemetry",
]

__version__ = "0.2.0"  # stated here alone: the build reads it from this line

_moved.install()


def load(source: str | os.PathLike[str] | bytes | bytearray | memoryview) -> Any:
    """Load any object that Sfumato saved; only the package that it needs is imported.

    Parameters
    ----------
    source : path_like, bytes, bytearray or memoryview
        Path, or complete content, of a file that `save`, `to_bytes` or a command wrote.

    Returns
    -------
    object
        The sketch, release, released profiles, model, index, estimator, noise share, answer,
        privacy statement, or telemetry counts or parameters, as `load` or `from_bytes` of its own
        package returns it. The file of an index is memory-mapped after its checksums are verified.

    Raises
    ------
    sfumato.errors.FormatError
        The content is not a complete, intact Sfumato file that this version can read. Also raised
        for files that need more than a path: a ledger, which `sfumato.privacy.Ledger` opens, and
        telemetry reports, which are read together with their parameters.
    OSError
        The path does not exist, or is a folder, device or pipe; those are never read.

    Notes
    -----
    **Guarantee.** Nothing is unpickled, and only Sfumato's own modules are imported. A file of a
    class defined elsewhere is read only after its module was imported.

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
    if name in ("AsyncClient", "Client"):
        return getattr(importlib.import_module("sfumato.client"), name)
    if name in __all__:
        return importlib.import_module(f"sfumato.{name}")
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
