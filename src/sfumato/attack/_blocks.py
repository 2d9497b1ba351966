"""Users in blocks, worked off by threads: the same answer whatever the number of threads."""

import os
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

from sfumato._require import optional, whole

__all__ = ["THREADS", "Progress", "in_blocks"]

Progress = Callable[[int, int], Any]
THREADS = optional(whole(1, 1024))
PAUSE = 0.1  # seconds between two looks at Ctrl-C


def in_blocks(
    users: int,
    size: int,
    work: Callable[[slice], None],
    threads: int | None,
    progress: Progress | None,
) -> None:
    """Call work for every block of so many users, on threads; progress here, as blocks end.

    An error stops the blocks that have not begun and is raised; so does Ctrl-C, after the blocks
    at hand.
    """
    blocks = [slice(start, min(start + size, users)) for start in range(0, users, size)]
    with ThreadPoolExecutor(threads or _cores()) as pool:
        waiting = {pool.submit(work, block): block for block in blocks}
        done = 0
        try:
            while waiting:
                ended, _ = wait(waiting, PAUSE, FIRST_COMPLETED)
                for future in ended:
                    block = waiting.pop(future)
                    future.result()
                    done += block.stop - block.start
                if progress is not None and ended:
                    progress(done, users)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
