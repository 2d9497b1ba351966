"""The errors that Sfumato raises on purpose: one family, each also the built-in it is a case of.

Nothing is imported here, so that any code may name an error without loading a room. Every class
can be pickled, and arrives as it was on the other side of a process.
"""

from typing import Any, Self

__all__ = [
    "BudgetExceeded",
    "DuplicateReportsError",
    "FormatError",
    "IndexFormatError",
    "LedgerDamaged",
    "ModelFormatError",
    "NotFittedError",
    "NullValueError",
    "ParameterError",
    "ParameterTypeError",
    "SfumatoError",
    "SketchFormatError",
    "StaleIndexError",
]


class SfumatoError(Exception):
    """The base of all errors of this module."""


class _AnyParameterError(SfumatoError):
    """What errors of a parameter share: whose it is, and its name."""

    owner: str = ""
    parameter: str = ""

    def __init__(self, sentence: str = "", *, owner: str = "", parameter: str = "") -> None:
        super().__init__(sentence)
        self.owner, self.parameter = owner, parameter

    @classmethod
    def of(cls, owner: str, parameter: str, problem: str) -> Self:
        """The error whose sentence is ``owner: parameter problem``.

        Parameters
        ----------
        owner : str
            TODO.
        parameter : str
            TODO.
        problem : str
            TODO.

        Returns
        -------
        Self
            The error whose sentence is ``owner: parameter problem``.
        """
        return cls(f"{owner}: {parameter} {problem}", owner=owner, parameter=parameter)

    def renamed(self, owner: str, parameter: str | None = None) -> Self:
        """The same error as one of another owner, and under another name of the parameter.

        Parameters
        ----------
        owner : str
            TODO.
        parameter : str or None, default=None
            TODO.

        Returns
        -------
        Self
            The same error as one of another owner, and under another name of the parameter.
        """
        named = self.parameter if parameter is None else parameter
        lead = f"{self.owner}: {self.parameter} "
        if not str(self).startswith(lead):
            return type(self)(str(self), owner=owner, parameter=named)
        return self.of(owner, named, str(self).removeprefix(lead))


class ParameterError(_AnyParameterError, ValueError):
    """A parameter has a value that it cannot take, or is needed and was not given.

    Parameters
    ----------
    sentence : str
        What is wrong, and what would be right. It may hold the value of the parameter, never data.
    owner : str, default=""
        The class or function that has the parameter.
    parameter : str, default=""
        The name of the parameter to give or to change.

    Attributes
    ----------
    owner, parameter : str
        As given, so that no caller has to search the sentence.

    Examples
    --------
    >>> error = ParameterError.of("CountMin", "width", "must be at least 2, not 1.")
    >>> str(error), error.owner, error.parameter
    ('CountMin: width must be at least 2, not 1.', 'CountMin', 'width')
    """


class ParameterTypeError(_AnyParameterError, TypeError):
    """A parameter is of a type that it cannot have; see `ParameterError` for the attributes.

    Parameters
    ----------
    sentence : str, default=""
        TODO.
    owner : str, default=""
        TODO.
    parameter : str, default=""
        TODO.
    """


class NullValueError(SfumatoError, ValueError):
    """A column holds a null where every row must have a value."""


class FormatError(SfumatoError, ValueError):
    """A file, or bytes, are not a whole, intact one of ours that this version can read."""


class SketchFormatError(FormatError):
    """The bytes are not a whole, intact sketch that this version can read."""


class IndexFormatError(SketchFormatError):
    """The file is not a whole, intact index that this version can read."""


class ModelFormatError(FormatError):
    """The bytes are not a whole, intact model that this version can read."""


class NotFittedError(SfumatoError, ValueError, AttributeError):
    """A model was asked before it learned anything.

    Estimators of `sfumato.density` raise a subclass that is scikit-learn's error of this name too.
    """


class StaleIndexError(SfumatoError, ValueError):
    """The model has learned since the index was made, so their answers would not agree."""


class DuplicateReportsError(SfumatoError, ValueError):
    """The same reports are in both of two counts, which cannot be told apart any more."""


class LedgerDamaged(SfumatoError, ValueError):  # noqa: N818 - what a caller reads is that it is
    """A ledger's file, or a blob beside it, is not what was written; nothing is granted from it."""


class BudgetExceeded(SfumatoError, ValueError):  # noqa: N818 - a caller reads that it is exceeded
    """A release costs more than is left; nothing was charged and nothing released.

    Attributes
    ----------
    dataset : str
        Whose budget it is.
    remaining, budget, cost : Cost
        What is left of the budget, all of it, and what the release costs by itself; each has an
        ``epsilon`` and a ``delta``.
    """

    def __init__(self, dataset: str, remaining: Any, budget: Any, cost: Any) -> None:
        super().__init__(dataset, remaining, budget, cost)
        self.dataset, self.remaining, self.budget, self.cost = dataset, remaining, budget, cost

    def __str__(self) -> str:
        pure = "" if self.budget.delta else " and takes pure losses only"
        at = f" at delta {self.budget.delta:g}" if self.budget.delta else ""
        return (
            f"Ledger: {self.dataset!r} has epsilon {self.remaining.epsilon:.6g} left of "
            f"{self.budget.epsilon:g}{at}{pure}; this costs {self.cost.epsilon:.6g}. "
            "Nothing was charged."
        )
