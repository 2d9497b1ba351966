"""Engines that build sketches from large sources: one interface, `map_merge`, on local threads."""

from sfumato.engine.local import Engine, Progress, map_merge

__all__ = ["Engine", "Progress", "map_merge"]
