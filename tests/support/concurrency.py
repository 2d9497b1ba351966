"""Answers that threads get which ask one object at the same moment."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

__all__ = ["at_once"]


def at_once(asks):
    """The answers to all questions, each queried by its own thread once all threads are there."""
    barrier = threading.Barrier(len(asks))

    def answer(ask):
        barrier.wait()
        return ask()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # so that threads are interrupted between any two steps
    try:
        with ThreadPoolExecutor(len(asks)) as pool:
            return list(pool.map(answer, asks))
    finally:
        sys.setswitchinterval(before)
