"""One thread of linear algebra where matrices are small: starting more costs more than they save.

BLAS libraries start a thread for each core and let them spin between calls. Many small products
thus take twice the CPU time, and many times as long where another process needs a core.
"""

import sys
import threading
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from typing import Any

__all__ = ["LARGE", "blas_threads", "one_blas_thread", "one_numpy_thread"]

LARGE = 1024  # rows of a square matrix whose products take all threads


class _Limit:
    """One thread in all BLAS libraries that are loaded, while anything is inside."""

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0
        self._before: list[tuple[Any, int]] = []
        self._found: tuple[int, list[Any]] = (0, [])

    def enter(self) -> None:
        with self._lock:
            self._entered += 1
            # SciPy's library may have been loaded since others entered.
            for library in self._libraries()[len(self._before) :]:
                self._before.append((library, library.num_threads))
                _set(library, 1)

    def leave(self) -> None:
        with self._lock:
            self._entered -= 1
            while not self._entered and self._before:
                _set(*self._before.pop())

    def _libraries(self) -> list[Any]:
        """BLAS libraries that all Python threads share: NumPy's, then SciPy's if it is loaded."""
        loaded = 1 + ("scipy.linalg" in sys.modules)
        if self._found[0] != loaded:
            from threadpoolctl import ThreadpoolController

            found = ThreadpoolController().select(user_api="blas").lib_controllers
            known = {each.filepath: each for each in self._found[1]}
            # OpenMP limits each Python thread by itself, which the last one could not undo.
            usable = [each for each in found if getattr(each, "threading_layer", None) != "openmp"]
            new = [each for each in usable if each.filepath not in known]
            self._found = loaded, [*self._found[1], *new]
        return self._found[1]


def _set(library: Any, threads: int) -> None:
    # The public set_num_threads of new versions only works in the first thread to call it.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


_LIMIT = _Limit()


class _OneThread(ContextDecorator):
    """Context, and decorator of functions, in which BLAS libraries use one thread.

    It may be entered again, and by several threads at once: the first to enter limits the
    libraries, which are shared by all, and the last to leave restores what the first found.
    """

    def __init__(self, *, scipy: bool) -> None:
        self._scipy = scipy

    def __enter__(self) -> None:
        if self._scipy:
            import scipy.linalg  # noqa: F401  brings a library of its own, which is loaded here
        _LIMIT.enter()

    def __exit__(self, *_: object) -> None:
        _LIMIT.leave()


one_blas_thread: _OneThread = _OneThread(scipy=True)
# Where nothing inside calls SciPy's linear algebra.
one_numpy_thread: _OneThread = _OneThread(scipy=False)


def blas_threads(size: int) -> AbstractContextManager[None]:
    """Return a context with one BLAS thread if matrices have fewer than 1,024 rows, else with all.

    >>> with blas_threads(40):
    ...     pass
    """
    return one_blas_thread if size < LARGE else nullcontext()
