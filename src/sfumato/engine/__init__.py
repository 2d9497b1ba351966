"""Engines, on which sketches are built and algorithms run: threads of this machine, or Spark."""

import importlib
from typing import Any

from sfumato.engine.base import Engine, Progress, Rows
from sfumato.engine.contributions import bound_rows
from sfumato.engine.local import LocalEngine, map_merge

__all__ = ["Engine", "LocalEngine", "Progress", "Rows", "SparkEngine", "bound_rows", "map_merge"]


def __getattr__(name: str) -> Any:
    if name == "SparkEngine":  # pyspark is imported when it is used
        return importlib.import_module("sfumato.engine.spark").SparkEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
