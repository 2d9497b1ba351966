"""Where work runs: one interface, `map_merge`, and the local threads that keep it."""

from sfumato.engine._protocol import Engine, Progress
from sfumato.engine.local import map_merge

__all__ = ["Engine", "Progress", "map_merge"]
