"""Training in epochs: each runs to its end, and Ctrl-C keeps those that are complete."""

import _signal  # type: ignore[import-not-found] # whose functions `signal` wraps in enums, which take as long as an event
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["Progress", "run_epochs", "run_uninterrupted"]

SIGINT = int(signal.SIGINT)

Progress = Callable[[int, int, float | None], Any]  # epoch, epochs and what validation measures


def run_epochs(
    epochs: int, epoch: Callable[[], Any], after: Callable[[], Any] | None = None
) -> bool:
    """Run epochs, each to its end and `after` behind it; False if Ctrl-C ended them early.

    KeyboardInterrupt is raised where nothing is to be kept: no epoch is complete, or one failed.
    """
    complete = 0

    def run() -> None:
        nonlocal complete
        before, complete = complete, 0  # tables that an epoch left half-way are not to be used
        epoch()
        complete = before + 1

    try:
        for _ in range(epochs):
            run_uninterrupted(run)
            if after is not None:
                after()
    except KeyboardInterrupt:
        if not complete:
            raise
        return False
    return True


def run_uninterrupted(work: Callable[[], Any]) -> None:
    """Run `work` to its end; a Ctrl-C meanwhile is handled afterwards."""
    handler = _signal.getsignal(SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        work()  # only the main thread may defer Ctrl-C
        return
    pending: list[tuple[int, FrameType | None]] = []
    _signal.signal(SIGINT, lambda *what: pending.append(what))
    try:
        work()
    finally:
        _signal.signal(SIGINT, handler)
        if pending:
            handler(*pending[0])
