"""Modules of this folder that run when one of their names is first used, whoever imported them.

Numba takes longer to import than all rooms together, and reading a stored sketch, a budget or a
model's facts compiles nothing. Importing a module of kernels therefore makes an empty module, which
`sys.modules` holds like any other; the first look at a name of it runs its file, once, while other
threads wait. From then on it is a plain module, without any cost.

One lock serves all of them. It cannot deadlock with the locks of imports: kernels import no other
room, and importing one only makes the empty module, so nothing waits for this lock while holding
the lock of an import that a kernel's file needs.
"""

import sys
import threading
import types
from importlib.machinery import ModuleSpec, PathFinder

__all__ = ["install"]

_FOLDER = f"{__package__}."
_LOCK = threading.RLock()
# What imports, copies of modules and their printed form read; none needs the file.
_OF_THE_IMPORT = frozenset(
    ("__class__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__")
)


class _Pending(types.ModuleType):
    """A module whose file has not run yet."""

    def __getattribute__(self, name):
        if name in _OF_THE_IMPORT:
            return super().__getattribute__(name)
        with _LOCK:
            if type(self) is _Pending:
                _run(self)
        return getattr(self, name)

    def __setattr__(self, name, value):
        if name not in _OF_THE_IMPORT:
            _Pending.__getattribute__(self, "__dict__")  # else the file would undo it later
        types.ModuleType.__setattr__(self, name, value)


class _Running(_Pending):
    """A module whose file is being run by the thread that holds the lock."""

    def __getattribute__(self, name):
        if name in _OF_THE_IMPORT:
            return super().__getattribute__(name)
        with _LOCK:
            return types.ModuleType.__getattribute__(self, name)

    __setattr__ = types.ModuleType.__setattr__


def _run(module):
    """Run the module's file; what fails may be tried again."""
    object.__setattr__(module, "__class__", _Running)
    try:
        module.__spec__.loader.run(module)
    except BaseException:
        object.__setattr__(module, "__class__", _Pending)
        raise
    object.__setattr__(module, "__class__", types.ModuleType)


class _Loader:
    """Loads an empty module in place of that of the given loader."""

    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        """Leave the file for later."""
        module.__class__ = _Pending

    def run(self, module):
        self._loader.exec_module(module)

    def __getattr__(self, name):
        return getattr(self._loader, name)  # get_source and others, for tracebacks and tools


class _KernelFinder:
    """Finds the modules of this folder where Python does, and wraps their loader."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith(_FOLDER):
            return None
        spec: ModuleSpec | None = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.submodule_search_locations is None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    """Install the finder, once; packages are found and loaded as ever."""
    if not any(type(each).__module__ == __name__ for each in sys.meta_path):
        sys.meta_path.insert(0, _KernelFinder())
