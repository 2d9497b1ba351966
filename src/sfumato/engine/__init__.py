"""Where work runs: one interface, `map_merge`, and the local threads that keep it."""

from sfumato.engine.local import Engine, Progress, map_merge

__all__ = ["Engine", "Progress", "map_merge"]
