"""The one way kernels are compiled: nogil, cached, and never stale when any kernel file changed."""

import functools
from pathlib import Path

import numba
from numba.core import caching

__all__ = ["inline", "kernel"]


@functools.cache
def _room_stamp() -> tuple[tuple[str, int, int], ...]:
    room = Path(__file__).parent
    files = sorted(room.rglob("*.py"))
    stats = [(str(file.relative_to(room)), file.stat()) for file in files]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def _stamped(locator: type) -> type:
    # Numba's own stamp is the kernel's file alone, so a changed helper in another file would leave
    # callers that inlined the old one. The stamp of the whole folder rebuilds them.
    return type(locator.__name__, (locator,), {"get_source_stamp": lambda self: _room_stamp()})


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes = [_stamped(each) for each in caching.CompileResultCacheImpl._locator_classes]


class _Cache(caching.FunctionCache):
    _impl_class = _Implementation

    def _load_overload(self, sig, target_context):
        try:
            return super()._load_overload(sig, target_context)
        except OSError:
            raise  # which Numba takes care of
        except Exception:
            # The index names types of a version of ours that is not installed any more.
            self.flush()
            return None


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
