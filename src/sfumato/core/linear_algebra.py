"""One thread of linear algebra where matrices are small: starting more costs more than they save.

BLAS libraries start a thread for each core and let them spin between calls. Many small products
thus take twice the CPU time, and many times as long where another process needs a core.
"""

import threading
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from functools import cached_property
from typing import Any

__all__ = ["LARGE", "blas_threads", "one_blas_thread"]

LARGE = 1024  # rows of a square matrix whose products take all threads


class _OneThread(ContextDecorator):
    """Context, and decorator of functions, in which BLAS libraries use one thread.

    It may be entered again, and by several threads at once: the first to enter limits the
    libraries, which are shared by all, and the last to leave restores what the first found.
    """

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if not self._entered:
                self._before = [library.num_threads for library in self._libraries]
                self._set([1] * len(self._libraries))
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                self._set(self._before)

    def _set(self, threads: list[int]) -> None:
        for library, number in zip(self._libraries, threads, strict=True):
            # The public set_num_threads of new versions only works in the first thread to call it.
            getattr(library, "_real_set_num_threads", library.set_num_threads)(number)

    @cached_property
    def _libraries(self) -> list[Any]:
        """BLAS libraries that all Python threads share: those of NumPy and SciPy, loaded here."""
        import scipy.linalg  # noqa: F401  brings its own
        from threadpoolctl import ThreadpoolController

        found = ThreadpoolController().select(user_api="blas").lib_controllers
        # OpenMP limits each Python thread by itself, which the last one could not undo.
        return [each for each in found if getattr(each, "threading_layer", None) != "openmp"]


one_blas_thread = _OneThread()


def blas_threads(size: int) -> AbstractContextManager[None]:
    """Return a context with one BLAS thread if matrices have fewer than 1,024 rows, else with all.

    >>> with blas_threads(40):
    ...     pass
    """
    return one_blas_thread if size < LARGE else nullcontext()
