"""Lazy imports of a package, and old names and arguments that warn until version 1.0."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module

TYPE_CHECKING = False  # typing would take most of the time of a light import
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = [
    "keyword_only",
    "on_demand",
    "renamed",
    "renamed_arguments",
    "renamed_method",
    "renamed_property",
]


_ALIAS = """Call `{new}`; this old name is deprecated and will be removed in version 1.0.

        Parameters
        ----------
        *args, **options : object
            Passed to `{new}`.

        Returns
        -------
        object
            The result of `{new}`.
        """


def on_demand(module: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Make a package's `__getattr__` that imports each public name on first use.

    Parameters
    ----------
    module : str
        `__name__` of the package.
    homes : mapping of str to tuple of str
        For each submodule, relative to the package, the names it defines; a module that begins
        with "sfumato." is that module, wherever it is.

    Returns
    -------
    callable
        Takes the missing name, imports its submodule, stores the object in the package and returns
        it. Raises AttributeError for a name that is not in `homes`.

    Examples
    --------
    >>> fetch = on_demand("xml", {"etree.ElementTree": ("fromstring",)})
    >>> fetch("fromstring")("<tea/>").tag
    'tea'
    """
    known = {name: home for home, names in homes.items() for name in names}

    def attribute(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home = known[name]
        value = getattr(
            import_module(home if home.startswith("sfumato.") else f"{module}.{home}"), name
        )
        setattr(sys.modules[module], name, value)
        return value

    return attribute


def renamed(
    module: str, names: Mapping[str, str], others: Callable[[str], Any] | None = None
) -> Callable[[str], Any]:
    """Make a module's `__getattr__` that resolves old names with a DeprecationWarning.

    Parameters
    ----------
    module : str
        `__name__` of the module.
    names : mapping of str to str
        New name for each old name; the new names are attributes of the module.
    others : callable or None, default=None
        Fallback for names that are not old ones, such as the result of `on_demand`.

    Returns
    -------
    callable
        Takes the missing name. For an old name it warns and returns the object of the new name;
        otherwise it calls `others`, or raises AttributeError if there is none.

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
        value = getattr(sys.modules[module], new)  # first: an import may forget what was warned of
        warnings.warn(_moved_sentence(f"{module}.{name}", new), DeprecationWarning, stacklevel=2)
        return value

    return attribute


def renamed_method(old: str, new: str) -> Callable[..., Any]:
    """Make a method with an old name that warns and calls the new one.

    Parameters
    ----------
    old, new : str
        Old and new name of the method.

    Returns
    -------
    callable
        The method, to be assigned to the old name in the class body.

    Examples
    --------
    >>> class Catalogue:
    ...     def add(self, item):
    ...         return f"{item} added"
    ...
    ...     put = renamed_method("put", "add")
    >>> with warnings.catch_warnings(action="ignore"):
    ...     Catalogue().put("tea")
    'tea added'
    """

    message = f"{old} is now called {new}; the old name goes with version 1.0."

    def method(self: Any, *args: Any, **options: Any) -> Any:
        warnings.warn(f"{type(self).__name__}.{message}", DeprecationWarning, stacklevel=2)
        return getattr(self, new)(*args, **options)

    method.__name__, method.__qualname__ = old, old
    method.__doc__ = _ALIAS.format(new=new)
    method.__deprecated__ = message  # type: ignore[attr-defined]
    return method


def renamed_property(old: str, new: str) -> Any:
    """Make a property with an old name that warns and reads the new attribute.

    Parameters
    ----------
    old, new : str
        Names of the attribute.

    Returns
    -------
    property
        To be assigned to `old` in the class body.

    Examples
    --------
    >>> class Box:
    ...     width = 3
    ...     breadth = renamed_property("breadth", "width")
    >>> with warnings.catch_warnings(action="ignore"):
    ...     Box().breadth
    3
    """

    def attribute(self: Any) -> Any:
        sentence = _moved_sentence(f"{type(self).__name__}.{old}", new)
        warnings.warn(sentence, DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    attribute.__name__ = old
    doc = f"Value of `{new}`; this old name is deprecated and will be removed in version 1.0."
    return property(attribute, doc=doc)


def renamed_arguments(**renamed: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept arguments by their old names too, with a DeprecationWarning.

    Parameters
    ----------
    **renamed : str
        New name for each old name. Giving both in one call raises TypeError.

    Returns
    -------
    callable
        The decorator.

    Examples
    --------
    >>> @renamed_arguments(k="n")
    ... def largest(values, n=1):
    ...     return sorted(values)[-n:]
    >>> largest([3, 1, 2], n=2)
    [2, 3]
    """

    import functools

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        name = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in renamed.keys() & kwargs.keys():
                new = renamed[old]
                if new in kwargs:
                    raise TypeError(f"{name}: {old} is the old name of {new}; give {new} alone.")
                warnings.warn(
                    f"{name}: {old} is now called {new}; the old name goes with version 1.0.",
                    DeprecationWarning,
                    stacklevel=2,
                )
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate


def keyword_only(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept keyword-only arguments by position too, with a DeprecationWarning.

    Parameters
    ----------
    *names : str
        Arguments that used to follow the positional ones, in their former order.

    Returns
    -------
    callable
        The decorator.

    Examples
    --------
    >>> @keyword_only("n")
    ... def largest(values, *, n=1):
    ...     return sorted(values)[-n:]
    >>> largest([3, 1, 2], n=2)
    [2, 3]
    """

    import functools
    import inspect

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kinds = (each.kind for each in inspect.signature(function).parameters.values())
        count = sum(kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            more: Any = dict(zip(names, args[count:], strict=False))
            if not more or len(args) > count + len(names) or more.keys() & kwargs.keys():
                return function(*args, **kwargs)
            given = ", ".join(more)
            warnings.warn(
                f"{function.__qualname__}: give {given} by name; positions go with version 1.0.",
                DeprecationWarning,
                stacklevel=2,
            )
            found: Any = function
            return found(*args[:count], **kwargs, **more)  # type: ignore[no-any-return]

        return call

    return decorate


def _moved_sentence(old: str, new: str) -> str:
    return f"{old} is now called {new}; the old name goes with version 1.0."
