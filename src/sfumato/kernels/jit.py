"""The one way kernels are compiled: nogil, cached, and never stale when any kernel file changed."""

import functools
from pathlib import Path

import numba
from numba.core import caching

__all__ = ["inline", "kernel"]


@functools.cache
def _room_stamp() -> tuple[tuple[str, int, int], ...]:
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return tuple((str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files)


def _stamped(locator: type) -> type:
    # Numba's own stamp is the kernel's file alone, so a changed helper in another file would leave
    # callers that inlined the old one. The stamp of the whole folder rebuilds them.
    return type(locator.__name__, (locator,), {"get_source_stamp": lambda self: _room_stamp()})


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes = [_stamped(each) for each in caching.CompileResultCacheImpl._locator_classes]


class _Cache(caching.FunctionCache):
    _impl_class = _Implementation


def kernel(function):
    """Compile an array kernel that runs without the GIL and is loaded from disk the next time."""
    compiled = numba.njit(nogil=True, error_model="numpy")(function)
    compiled._cache = _Cache(compiled.py_func)
    return compiled


def inline(function):
    """Compile a helper that LLVM folds into every kernel that calls it."""
    compiled = numba.njit(nogil=True, error_model="numpy", forceinline=True)(function)
    compiled._cache = _Cache(compiled.py_func)
    return compiled
