"""The errors that Sfumato raises on purpose: one family, each also a built-in exception.

Nothing of Sfumato is imported here, so that any code may name an error cheaply. Every class can be
pickled without loss, and so passed between processes.
"""

from typing import Any, Self

__all__ = [
    "BudgetExceeded",
    "DuplicateReportsError",
    "EngineError",
    "FormatError",
    "IndexFormatError",
    "LedgerDamaged",
    "ModelFormatError",
    "NotFittedError",
    "NullValueError",
    "ParameterError",
    "ParameterTypeError",
    "ServiceError",
    "SfumatoError",
    "SketchFormatError",
    "StaleIndexError",
    "StoreDamaged",
    "StoreUnavailable",
    "StoreVersionError",
]


class SfumatoError(Exception):
    """Base class of all errors that Sfumato raises on purpose.

    Examples
    --------
    >>> from sfumato.sketch import CountMin
    >>> try:
    ...     CountMin(width=1)
    ... except SfumatoError as error:
    ...     print(error)
    CountMin: width must be an integer from 2 to 4294967296, not 1.
    """


class _AnyParameterError(SfumatoError):
    """Base of the errors of one parameter: its owner and its name."""

    owner: str = ""
    parameter: str = ""

    def __init__(self, sentence: str = "", *, owner: str = "", parameter: str = "") -> None:
        super().__init__(sentence)
        self.owner, self.parameter = owner, parameter

    @classmethod
    def of(cls, owner: str, parameter: str, problem: str) -> Self:
        """Build the error with the message ``owner: parameter problem``.

        Parameters
        ----------
        owner : str
            Class or function that has the parameter.
        parameter : str
            Name of the parameter.
        problem : str
            The rest of the message: what is invalid, and what would be valid.

        Returns
        -------
        Self
            The error, to be raised.
        """
        return cls(f"{owner}: {parameter} {problem}", owner=owner, parameter=parameter)

    def renamed(self, owner: str, parameter: str | None = None) -> Self:
        """Copy the error for another owner, as when a class passes its parameters on.

        Parameters
        ----------
        owner : str
            Class or function that the caller knows.
        parameter : str or None, default=None
            Name of the parameter there; None if it is the same.

        Returns
        -------
        Self
            The error with the new names, also in its message where that begins with the old ones.
        """
        named = self.parameter if parameter is None else parameter
        lead = f"{self.owner}: {self.parameter} "
        if not str(self).startswith(lead):
            return type(self)(str(self), owner=owner, parameter=named)
        return self.of(owner, named, str(self).removeprefix(lead))


class ParameterError(_AnyParameterError, ValueError):
    """A parameter has an invalid value, or is required and was not given.

    Parameters
    ----------
    sentence : str, default=""
        The message: what is invalid, and what would be valid. It may contain the value of the
        parameter, never data.
    owner : str, default=""
        Class or function that has the parameter.
    parameter : str, default=""
        Name of the parameter to give or to change.

    Attributes
    ----------
    owner, parameter : str
        As given, so that callers need not parse the message.

    Examples
    --------
    >>> error = ParameterError.of("CountMin", "width", "must be at least 2, not 1.")
    >>> str(error), error.owner, error.parameter
    ('CountMin: width must be at least 2, not 1.', 'CountMin', 'width')
    """


class ParameterTypeError(_AnyParameterError, TypeError):
    """A parameter has a value of an invalid type.

    Parameters
    ----------
    sentence : str, default=""
        The message: what is invalid, and what would be valid.
    owner : str, default=""
        Class or function that has the parameter.
    parameter : str, default=""
        Name of the parameter to change.

    Attributes
    ----------
    owner, parameter : str
        As given, so that callers need not parse the message.

    Examples
    --------
    >>> from sfumato.sketch import CountMin
    >>> try:
    ...     CountMin(64).update(["tea"], weights=[1.5])
    ... except ParameterTypeError as error:
    ...     print(error.owner, error.parameter)
    CountMin weights
    """


class NullValueError(SfumatoError, ValueError):
    """A column contains a null where every row needs a value.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> try:
    ...     Interactions(["ann", None], [7, 8], [5, 4])
    ... except NullValueError as error:
    ...     print(error)
    users: row 1 is null (type string); drop or fill nulls first.
    """


class EngineError(SfumatoError, ValueError):
    """An engine cannot run the work: it is not installed, not reachable, or cannot read the source.

    Examples
    --------
    >>> from sfumato.engine import SparkEngine
    >>> try:
    ...     SparkEngine("nowhere")
    ... except EngineError as error:
    ...     print(error)
    SparkEngine: master must be an address of Spark, such as local[2] or spark://host:7077.
    """


class FormatError(SfumatoError, ValueError):
    """A file, or its bytes, is not a complete, intact Sfumato file that this version can read.

    Examples
    --------
    >>> import sfumato
    >>> try:
    ...     sfumato.load(b"something else")
    ... except FormatError as error:
    ...     print(error)
    load: not a file of ours: the magic bytes are missing or cut off.
    """


class SketchFormatError(FormatError):
    """The bytes are not a complete, intact sketch or release that this version can read.

    Examples
    --------
    >>> from sfumato.sketch import CountMin
    >>> data = CountMin(64).to_bytes()
    >>> try:
    ...     CountMin.from_bytes(data[:-1])
    ... except SketchFormatError as error:
    ...     print(error)
    the sketch is cut off or damaged: its checksum does not hold.
    """


class IndexFormatError(SketchFormatError):
    """The file is not a complete, intact index that this version can read.

    Examples
    --------
    >>> from sfumato import retrieve, sketch
    >>> try:
    ...     retrieve.load(sketch.CountMin(64).to_bytes())
    ... except IndexFormatError as error:
    ...     print(error)
    not an index: the file holds a sketch, a model or a release.
    """


class ModelFormatError(FormatError):
    """The bytes are not a complete, intact model that this version can read.

    Examples
    --------
    >>> from sfumato import recommend, sketch
    >>> try:
    ...     recommend.load(sketch.CountMin(64).to_bytes())
    ... except ModelFormatError as error:
    ...     print(error)
    Estimator: the bytes hold a 'CountMin'.
    """


class NotFittedError(SfumatoError, ValueError, AttributeError):
    """A model was used before it was fitted.

    Estimators of `sfumato.density` raise a subclass that is also scikit-learn's `NotFittedError`.

    Examples
    --------
    >>> from sfumato.recommend import DenseFactorization
    >>> try:
    ...     DenseFactorization().predict([1], [2])
    ... except NotFittedError as error:
    ...     print(error)
    DenseFactorization: not fitted yet; call fit first.
    """


class StaleIndexError(SfumatoError, ValueError):
    """The model was trained further after the index was built, so their results would differ.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import DenseFactorization
    >>> ratings = Interactions([1, 1, 2], [7, 8, 7], [5, 4, 3])
    >>> model = DenseFactorization(factors=2, epochs=1).fit(ratings)
    >>> index = model.index()
    >>> _ = model.partial_fit(ratings)
    >>> try:
    ...     index.recommend([1])
    ... except StaleIndexError as error:
    ...     print(error)
    ItemIndex: the model has changed since the index was made; call index again.
    """


class DuplicateReportsError(SfumatoError, ValueError):
    """Two counts to be merged both contain some of the same reports.

    Counts are sums, so the duplicates cannot be taken out again.

    Examples
    --------
    >>> from sfumato.telemetry import Counts, Rappor, ReportEncoder
    >>> reports = ReportEncoder(Rappor(8, 2, 4, f=0.5)).encode_many(["tea", "milk"])
    >>> try:
    ...     Counts(reports.scheme).update(reports).merge(Counts(reports.scheme).update(reports))
    ... except DuplicateReportsError as error:
    ...     print(str(error)[:43])
    Counts: cannot merge, 2 reports are in both
    """


class LedgerDamaged(SfumatoError, ValueError):  # noqa: N818 - what a caller reads is that it is
    """A ledger's file, or a file beside it, is not what was written; it grants no more budget.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sfumato.privacy import Ledger
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "shop.ledger")
    ...     _ = path.write_bytes(b"not a ledger")
    ...     try:
    ...         Ledger(path).datasets()
    ...     except LedgerDamaged:
    ...         print("restore the ledger from a backup")
    restore the ledger from a backup
    """


class BudgetExceeded(SfumatoError, ValueError):  # noqa: N818 - a caller reads that it is exceeded
    """A release costs more than the remaining budget; nothing was charged or released.

    Parameters
    ----------
    dataset : str
        Name of the data set whose budget it is.
    remaining : Cost
        What is left of the budget.
    budget : Cost
        The total budget.
    cost : Cost
        What the release costs by itself.

    Attributes
    ----------
    dataset : str
        As given.
    remaining, budget, cost : Cost
        As given; each has an ``epsilon`` and a ``delta``.

    Examples
    --------
    >>> from collections import namedtuple
    >>> Cost = namedtuple("Cost", "epsilon delta")
    >>> error = BudgetExceeded("views", Cost(0.5, 0), Cost(2, 0), Cost(1, 0))
    >>> print(str(error)[:40], error.cost.epsilon)
    Ledger: 'views' has epsilon 0.5 left of  1
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


class StoreUnavailable(SfumatoError, OSError):  # noqa: N818 - a caller reads that it is, for now
    """The database of a store cannot be used now: not reachable, its disk full, or overloaded.

    Nothing was acknowledged. What is repeated with the same event ids, report ids or release key
    takes effect once.

    Examples
    --------
    >>> from sfumato.store import open_store
    >>> try:
    ...     open_store("/nowhere/shop.db")
    ... except StoreUnavailable as error:
    ...     print(error)
    Store: there is no folder for /nowhere/shop.db.
    """


class StoreDamaged(SfumatoError, ValueError):  # noqa: N818 - what a caller reads is that it is
    """A store's database or backup is not one of ours, or not what was written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sfumato.store import open_store
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "shop.db")
    ...     _ = path.write_bytes(b"not a store")
    ...     try:
    ...         open_store(path)
    ...     except StoreDamaged:
    ...         print("restore the store from a backup")
    restore the store from a backup
    """


class StoreVersionError(SfumatoError, ValueError):
    """The tables of a store, or a backup, have a version that this program does not use.

    Examples
    --------
    >>> error = StoreVersionError("Store: shop.db has version 9, and this program reads 1.")
    >>> isinstance(error, ValueError)
    True
    """


class ServiceError(SfumatoError, OSError):
    """The service refused a call of a client, or could not be reached.

    Parameters
    ----------
    detail : str
        The service's sentence.
    status : int, default=0
        Status of HTTP; 0 where there was no answer.
    problem : dict or None, default=None
        The answer, with "type" and, where known, "field" and "position".

    Attributes
    ----------
    status : int
        Status of HTTP.
    problem : dict
        The answer.

    Examples
    --------
    >>> error = ServiceError("The key needs the scope read.", 403, {})
    >>> error.status, str(error)
    (403, 'The key needs the scope read.')
    """

    def __init__(self, detail: str, status: int = 0, problem: Any = None) -> None:
        super().__init__(detail, status, problem)
        problem = {} if problem is None else problem
        self.detail, self.status, self.problem = detail, status, problem

    def __str__(self) -> str:
        return self.detail
