"""Learn from personal behaviour without keeping it; each room is imported when first used.

>>> import sfumato
>>> sfumato.sketch.CountMin(64).update(["tea"]).estimate(["tea"])
array([1])
"""

import importlib
from typing import TYPE_CHECKING, Any

from sfumato import _moved

if TYPE_CHECKING:
    from . import (
        attack,
        data,
        density,
        engine,
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
    "hashing",
    "privacy",
    "profile",
    "recommend",
    "retrieve",
    "sketch",
    "telemetry",
]

__version__ = "0.1.0"  # stated here alone: the build reads it from this line

_moved.install()


def __getattr__(name: str) -> Any:
    if name == "hashing":
        return importlib.import_module("sfumato.core.hashing")
    if name in __all__:
        return importlib.import_module(f"sfumato.{name}")
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
