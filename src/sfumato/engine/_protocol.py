"""What every engine offers: the same call, and a sentence for each option that it lacks."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from sfumato.sketch import Sketch

__all__ = ["Engine", "Progress", "S"]

S = TypeVar("S", bound=Sketch)
Progress = Callable[[int, int | None], None]


class Engine(Protocol):
    """A module that runs work; `lacks` maps an option of `map_merge` to why it is not there."""

    @property
    def lacks(self) -> Mapping[str, str]: ...

    def map_merge(
        self,
        source: Any,
        make_sketch: Callable[[], S],
        *,
        column: str | None = None,
        weights: str | None = None,
        threads: int | None = None,
        memory_limit: int | None = None,
        batch_rows: int | None = None,
        progress: Progress | None = None,
        update: Callable[[S, pa.RecordBatch], Any] | None = None,
    ) -> S:
        """The sketch of all rows of the source; see `sfumato.engine.local.map_merge`."""
        ...
