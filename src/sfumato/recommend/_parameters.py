"""Parameters with declared limits, stored as given: scikit-learn's habits, in one place."""

from typing import Any, ClassVar, Self

from sfumato._require import Limit

__all__ = ["Parameters"]


class Parameters:
    """The base of what is built with keywords that `fit` checks against `LIMITS`."""

    LIMITS: ClassVar[dict[str, Limit]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters as they were given; deep is there for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in self.LIMITS}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; the next `fit` checks and uses them, what was learned stays."""
        for name in params:
            if name not in self.LIMITS:
                known = ", ".join(self.LIMITS)
                raise ValueError(
                    f"{type(self).__name__}: {name} is no parameter; there are {known}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({inside})"

    def _limited(self) -> dict[str, Any]:
        """The parameters in their plain types, or ValueError naming the first that is wrong."""
        owner = type(self).__name__
        return {
            name: limit.check(owner, name, getattr(self, name))
            for name, limit in self.LIMITS.items()
        }
