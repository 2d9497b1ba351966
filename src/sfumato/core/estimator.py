"""Estimators that keep scikit-learn's habits, and load it only where it is used.

Importing scikit-learn takes longer than importing the rest of a room. `BaseEstimator` and the
mixins of `estimator_mixins` answer to its protocol (parameters, clones, tags, metadata routing,
output containers, pages in notebooks) as those of `sklearn.base` do: parameters and fits are
handled here, and what only scikit-learn itself asks for is passed on to its own functions.
"""

import functools
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import MethodType
from typing import Any, Self

from sfumato.errors import NotFittedError

__all__ = [
    "BaseEstimator",
    "available_if",
    "not_fitted",
    "sklearn_setting",
]

# Methods whose further arguments scikit-learn can route.
ROUTED = (
    *("fit", "partial_fit", "predict", "predict_proba", "predict_log_proba", "decision_function"),
    *("score", "split", "transform", "inverse_transform"),
)
DATA = frozenset(("X", "y", "Y", "Xt", "yt"))  # arguments that are never routed
LINE, MOST = 80, 700  # characters of a line, and of all, in `repr`


def sklearn_setting(name: str, default: Any) -> Any:
    """A setting of `sklearn.set_config`; the default while scikit-learn is not loaded."""
    config = getattr(sys.modules.get("sklearn"), "get_config", None)
    return default if config is None else config().get(name, default)


def not_fitted(message: str) -> NotFittedError:
    """The error of an estimator before `fit`, which scikit-learn takes for its own, too."""
    from sfumato.core.estimator_errors import EstimatorNotFittedError

    return EstimatorNotFittedError(message)


class _AvailableIf:
    """A method that exists only on objects that pass a check."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], Any]) -> None:
        self.method, self.check = method, check
        functools.update_wrapper(self, method)  # type: ignore[arg-type]

    def _require(self, each: Any) -> None:
        name = self.method.__name__
        problem = f"This {type(each).__name__!r} has no attribute {name!r}"
        try:
            found = self.check(each)
        except Exception as error:
            raise AttributeError(problem, name=name, obj=each) from error
        if not found:
            raise AttributeError(problem, name=name, obj=each)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is not None:
            self._require(instance)
            return MethodType(self.method, instance)

        @functools.wraps(self.method)
        def unbound(each: Any, *given: Any, **named: Any) -> Any:
            self._require(each)
            return self.method(each, *given, **named)

        return unbound


def available_if(check: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make a method exist only on objects for which the check is true.

    >>> class Even:
    ...     def __init__(self, number):
    ...         self.number = number
    ...
    ...     @available_if(lambda self: self.number % 2 == 0)
    ...     def half(self):
    ...         return self.number // 2
    >>> Even(4).half(), hasattr(Even(3), "half")
    (2, False)
    """
    return lambda method: _AvailableIf(method, check)


class _OfSklearn:
    """An attribute of scikit-learn's BaseEstimator, looked up when it is first used."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        from sklearn import base

        found = inspect.getattr_static(base.BaseEstimator, self.name)
        return found.__get__(instance, owner)


class _RequestSetter:
    """`set_fit_request` and its like, which choose the metadata that a method is given."""

    def __init__(self, method: str, names: list[str]) -> None:
        self.method, self.names = method, names

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        from sklearn.utils._metadata_requests import RequestMethod

        return RequestMethod(self.method, self.names).__get__(instance, owner)


def _routed_arguments(method: Any) -> list[str]:
    """Arguments of a method that are neither data nor gathered by a star."""
    if not inspect.isfunction(method):
        return []
    _, *given = inspect.signature(method).parameters.values()
    return sorted(
        each.name
        for each in given
        if each.name not in DATA and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    )


class BaseEstimator:
    """What `sklearn.base.BaseEstimator` offers, without loading scikit-learn.

    Parameters are the arguments of `__init__`, which stores them as given under their names.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for method in ROUTED:
            setter = f"set_{method}_request"
            names = _routed_arguments(getattr(cls, method, None))
            if names or hasattr(cls, setter):
                setattr(cls, setter, _RequestSetter(method, names))

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(cls._defaults())

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """The default of each parameter, in the order of `__init__`."""
        if cls.__init__ is object.__init__:
            return {}
        _, *given = inspect.signature(cls.__init__).parameters.values()
        return {each.name: each.default for each in given if each.kind != each.VAR_KEYWORD}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the estimator.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of parameters that are estimators, by names such as
            ``estimator__epsilon``.

        Returns
        -------
        dict of str to object
            Values by name.
        """
        found: dict[str, Any] = {}
        for name in self._get_param_names():
            value = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                inner = value.get_params().items()
                found.update((f"{name}__{key}", each) for key, each in inner)
            found[name] = value
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator.

        Parameters
        ----------
        **params : object
            New values by name; ``name__inner`` sets a parameter of a parameter.

        Returns
        -------
        Self
            The object itself.
        """
        if not params:
            return self
        valid = self.get_params()
        inner: dict[str, dict[str, Any]] = defaultdict(dict)
        for whole, value in params.items():
            name, nested, key = whole.partition("__")
            if name not in valid:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. "
                    f"Valid parameters are: {self._get_param_names()!r}."
                )
            if nested:
                inner[name][key] = value
            else:
                setattr(self, name, value)
                valid[name] = value
        for name, values in inner.items():
            valid[name].set_params(**values)
        return self

    def get_metadata_routing(self) -> Any:
        """Return which arguments of its methods a scikit-learn meta-estimator passes on.

        Returns
        -------
        object
            A `sklearn.utils.metadata_routing.MetadataRequest`.
        """
        return self._get_metadata_request()

    _get_metadata_request = _OfSklearn()
    # Which of these `_get_metadata_request` calls depends on the version of scikit-learn.
    _get_class_level_metadata_request_values = _OfSklearn()
    _get_default_requests = _OfSklearn()
    _build_request_for_signature = _OfSklearn()

    __sklearn_clone__: Any = _OfSklearn()

    def __sklearn_tags__(self) -> Any:
        from sklearn import base

        return base.BaseEstimator.__sklearn_tags__(self)

    def __dir__(self) -> Iterable[str]:
        # Methods that this object lacks are left out, and none is looked up in scikit-learn.
        return [name for name in super().__dir__() if self._is_later(name) or hasattr(self, name)]

    def _is_later(self, name: str) -> bool:
        """Whether an attribute is looked up in scikit-learn."""
        found = inspect.getattr_static(type(self), name, None)
        return isinstance(found, _OfSklearn | _RequestSetter)

    def __repr__(self) -> str:
        return _call(type(self).__name__, self._shown_parameters())

    def _shown_parameters(self) -> dict[str, Any]:
        given = self.get_params(deep=False)
        if not sklearn_setting("print_changed_only", True):
            return given
        defaults = self._defaults()
        return {name: value for name, value in given.items() if repr(value) != repr(defaults[name])}

    @property
    def _repr_html_(self) -> Callable[[], str]:
        if sklearn_setting("display", "diagram") != "diagram":
            raise AttributeError("_repr_html_ needs the setting display='diagram'.")
        return self._repr_html_inner

    def _repr_html_inner(self) -> str:
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        texts = {"text/plain": repr(self)}
        if sklearn_setting("display", "diagram") == "diagram":
            texts["text/html"] = self._repr_html_inner()
        return texts

    # Parts of the page, by versions of scikit-learn that show them.
    _get_params_html = _OfSklearn()
    _get_fitted_attr_html = _OfSklearn()


def _call(name: str, parameters: dict[str, Any]) -> str:
    """A call as one would write it, in lines of at most 80 characters where it can be cut."""
    start = f"{name}("
    lines = [start]
    for number, (key, value) in enumerate(parameters.items(), 1):
        part = f"{key}={value!r}" + ("," if number < len(parameters) else ")")
        empty = lines[-1].strip() in ("", start)
        if not empty and len(lines[-1]) + 1 + len(part) > LINE:
            lines.append(" " * len(start) + part)
        else:
            lines[-1] += part if empty else f" {part}"
    whole = "\n".join(lines) if parameters else f"{start})"
    return whole if len(whole) <= MOST else f"{whole[: MOST // 2]}...{whole[-MOST // 2 :]}"
