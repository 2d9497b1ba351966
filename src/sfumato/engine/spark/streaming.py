"""A sketch of a stream of Spark, brought up to date by every micro-batch exactly once."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sfumato.core.storage import load
from sfumato.core.tables import described
from sfumato.engine.base import S
from sfumato.engine.spark.engine import SparkEngine

__all__ = ["StreamSketch"]

NAME = re.compile(r"sketch-(\d{12})\.sfu")


class StreamSketch:
    """The sketch of all rows of a stream so far, in a folder.

    Parameters
    ----------
    engine : SparkEngine
        The engine of the session that has the stream.
    make_sketch : callable
        Returns a new, empty sketch; always with the same parameters.
    folder : path_like
        Where the sketch and Spark's checkpoint are stored; it is made if it is not there.

    Notes
    -----
    **Guarantee.** Every row counts exactly once, also where the driver or an executor is killed and
    the stream is started again with the same folder: a micro-batch that Spark repeats has a number
    whose sketch is there already. The source must be one that Spark can replay.

    Examples
    --------
    >>> from sfumato.sketch import HyperLogLog
    >>> def users_so_far(engine, events, folder):
    ...     stream = StreamSketch(engine, HyperLogLog, folder)
    ...     stream.start(events, column="user").awaitTermination()
    ...     return stream.read().estimate()
    """

    def __init__(self, engine: SparkEngine, make_sketch: Callable[[], S], folder: Any) -> None:
        self._engine, self._make = engine, make_sketch
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return described(self, sketch=type(self._make()).__name__)

    def start(
        self,
        frame: Any,
        *,
        column: str,
        weights: str | None = None,
        trigger: dict[str, Any] | None = None,
    ) -> Any:
        """Start to read a stream.

        Parameters
        ----------
        frame : DataFrame
            A streaming data frame of Spark.
        column : str
            Name of the column of keys.
        weights : str or None, default=None
            Name of the column of weights; None counts every row once.
        trigger : dict or None, default=None
            When micro-batches begin, as arguments of Spark's ``trigger``, such as
            ``{"processingTime": "10 seconds"}``; None for what there is now, then the end.

        Returns
        -------
        StreamingQuery
            The query of Spark: ``awaitTermination()`` waits for it and ``stop()`` ends it.
        """

        def add(batch: Any, number: int) -> None:
            self._add(number, lambda: self._sketch(batch, column, weights))

        writer = frame.writeStream.foreachBatch(add)
        writer = writer.option("checkpointLocation", str(self._folder / "checkpoint"))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def read(self) -> Any:
        """Read the sketch as of the latest micro-batch.

        Returns
        -------
        Sketch
            The sketch; an empty one before the first micro-batch.
        """
        stored = self._stored()
        return load(stored[max(stored)]) if stored else self._make()

    def _sketch(self, batch: Any, column: str, weights: str | None) -> Any:
        return self._engine.map_merge(batch, self._make, column=column, weights=weights)

    def _add(self, number: int, made: Callable[[], Any]) -> None:
        """Merge a micro-batch, unless its number was merged; older files are removed after."""
        stored = self._stored()
        if stored and max(stored) >= number:
            return
        self.read().merge(made()).save(self._folder / f"sketch-{number:012}.sfu")
        for path in stored.values():
            path.unlink(missing_ok=True)

    def _stored(self) -> dict[int, Path]:
        found = ((NAME.fullmatch(path.name), path) for path in self._folder.iterdir())
        return {int(match[1]): path for match, path in found if match}
