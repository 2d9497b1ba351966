"""What is done whole or not at all: numbers that are put back, and Ctrl-C that waits."""

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

__all__ = ["Touched", "is_finite", "put_back", "taken", "to_the_end"]

Touched = list[tuple[np.ndarray, np.ndarray | None]]  # tables and places there; None: everywhere


def taken(touched: Touched) -> list[np.ndarray]:
    """A copy of the numbers at these places.

    >>> table = np.arange(4.0)
    >>> before = taken([(table, np.array([1, 1, 3]))])
    >>> table[:] = np.nan
    >>> put_back([(table, np.array([1, 1, 3]))], before)
    >>> table
    array([nan,  1., nan,  3.])
    """
    return [table.copy() if at is None else table[at] for table, at in touched]


def put_back(touched: Touched, before: list[np.ndarray]) -> None:
    """The numbers at these places as they were taken."""
    for (table, at), numbers in zip(touched, before, strict=True):
        table[... if at is None else at] = numbers


def is_finite(touched: Touched) -> bool:
    """Whether all numbers at these places are finite."""
    with np.errstate(all="ignore"):  # what is not finite leaves no finite sum
        sums = [(table if at is None else table[at]).sum() for table, at in touched]
    return bool(np.isfinite(sums).all())


def to_the_end(work: Callable[[], Any]) -> None:
    """Do work whole: Ctrl-C is held back until it is done, or has failed."""
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        work()  # Ctrl-C is not ours to hold
        return
    held: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *what: held.append(what))
    try:
        work()
    finally:
        signal.signal(signal.SIGINT, usual)
        if held:
            usual(*held[0])
