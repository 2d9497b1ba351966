"""Names of a package: imported when first used, or old ones, which warn and go with version 1.0."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

TYPE_CHECKING = False  # typing would take most of the time of a light import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

__all__ = ["on_demand", "renamed", "renamed_method"]


_ALIAS = """Do the same as `{new}`, under an old name that goes with version 1.0.

        Parameters
        ----------
        *args, **options : object
            Those of `{new}`.

        Returns
        -------
        object
            What `{new}` returns.
        """


def on_demand(module: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports each of its names when it is first used.

    Parameters
    ----------
    module : str
        The package's `__name__`.
    homes : mapping of str to tuple of str
        The names that each module below the package has.

    Returns
    -------
    callable
        Takes a name that the package lacks, and keeps what it finds in the package.
    """
    known = {name: home for home, names in homes.items() for name in names}

    def attribute(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(f"{module}.{known[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    return attribute


def renamed(
    module: str, names: Mapping[str, str], others: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose classes or functions have new names.

    Parameters
    ----------
    module : str
        The module's `__name__`.
    names : mapping of str to str
        The new name of each old one; the new ones are attributes of the module.
    others : callable, optional
        What fetches names that are not old ones, in a module that imports its own when first used.

    Returns
    -------
    callable
        Takes a name that the module lacks. For an old name it warns (DeprecationWarning) and
        returns what has the new name; for any other it asks `others`, or raises AttributeError.

    Examples
    --------
    >>> read = renamed("math", {"root": "sqrt"})
    >>> with warnings.catch_warnings(action="ignore"):
    ...     read("root")(9.0)
    3.0
    """

    def attribute(name: str) -> Any:
        if name not in names:
            if others is not None:
                return others(name)
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = names[name]
        warnings.warn(_moved_sentence(f"{module}.{name}", new), DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], new)

    return attribute


def renamed_method(old: str, new: str) -> Callable[..., Any]:
    """A method of the old name, to be put into a class, that warns and calls the new one.

    Parameters
    ----------
    old, new : str
        The names of the method.

    Examples
    --------
    >>> class Shelf:
    ...     def place(self, item):
    ...         return f"{item} stands"
    ...
    ...     put = renamed_method("put", "place")
    >>> with warnings.catch_warnings(action="ignore"):
    ...     Shelf().put("tea")
    'tea stands'
    """

    message = f"{old} is now called {new}; the old name goes with version 1.0."

    def method(self: Any, *args: Any, **options: Any) -> Any:
        warnings.warn(f"{type(self).__name__}.{message}", DeprecationWarning, stacklevel=2)
        return getattr(self, new)(*args, **options)

    method.__name__, method.__qualname__ = old, old
    method.__doc__ = _ALIAS.format(new=new)
    method.__deprecated__ = message  # type: ignore[attr-defined]
    return method


def _moved_sentence(old: str, new: str) -> str:
    return f"{old} is now called {new}; the old name goes with version 1.0."
