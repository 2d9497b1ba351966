"""How good predictions of ratings are, and all figures of a model at once."""

from inspect import signature
from typing import Any

import numpy as np

from sfumato.core.typing import Column, Ids, Matrix
from sfumato.core.validation import integer, optional
from sfumato.recommend.metrics.beyond_accuracy import coverage
from sfumato.recommend.metrics.ranking import ranked

__all__ = ["auc", "evaluate", "mae", "rmse", "spearman"]

LIST = optional(integer(1, 2**20))


def rmse(truth: Any, predicted: Column) -> float:
    """The root of the mean squared error.

    Thesis (2.1).

    two columns of finite numbers, of one length above 0.

    Parameters
    ----------
    truth : object
        TODO.
    predicted : array_like
        TODO.

    Returns
    -------
    float
        The root of the mean squared error.

    Examples
    --------
    >>> rmse([1, 2], [1, 4])
    1.4142135623730951
    """
    truth, predicted = _columns("rmse", truth=truth, predicted=predicted)
    return float(np.sqrt(np.mean((truth - predicted) ** 2)))


def mae(truth: Any, predicted: Column) -> float:
    """The mean absolute error, of columns as in `rmse`.

    Thesis (2.2).

    Parameters
    ----------
    truth : object
        TODO.
    predicted : array_like
        TODO.

    Returns
    -------
    float
        The mean absolute error, of columns as in `rmse`.

    Examples
    --------
    >>> mae([1, 2], [1, 4])
    1.0
    """
    truth, predicted = _columns("mae", truth=truth, predicted=predicted)
    return float(np.mean(np.abs(truth - predicted)))


def spearman(truth: Any, predicted: Column, *, users: Ids | None = None) -> float:
    """The correlation of the ranks of two columns, equal numbers sharing their mean rank.

    columns as in `rmse`;

    Parameters
    ----------
    truth : object
        TODO.
    predicted : array_like
        TODO.
    users : array_like, scalar or None, default=None
        The user of each row as an integer: then the mean of every user's own correlation, users
        left out whose truth or predictions are all equal. NaN where nothing is left.

    Returns
    -------
    float
        The correlation of the ranks of two columns, equal numbers sharing their mean rank.

    Examples
    --------
    >>> spearman([1, 2, 3, 4], [10, 30, 20, 40])
    0.8
    """
    truth, predicted = _columns("spearman", truth=truth, predicted=predicted)
    of, size = _groups("spearman", users, truth.size)
    ones, others = _centred(_ranks(truth, of), of, size), _centred(_ranks(predicted, of), of, size)
    together = np.bincount(of, ones * others, size)
    spread = np.sqrt(np.bincount(of, ones**2, size) * np.bincount(of, others**2, size))
    told = spread > 0
    return float((together[told] / spread[told]).mean()) if told.any() else float("nan")


def auc(relevant: Column, scores: Matrix, *, users: Ids | None = None) -> float:
    """The chance that a relevant row scores above an irrelevant one, an equal score counting half.

    Parameters
    ----------
    relevant : array_like
        A column of booleans.
    scores : array_like
        Finite numbers.
    users : array_like, scalar or None, default=None
        The user of each row as an integer: then the mean of every user's own chance, users left out
        who lack either kind. NaN where nothing is left.

    Returns
    -------
    float
        The chance that a relevant row scores above an irrelevant one, an equal score counting half.

    Examples
    --------
    >>> auc([True, False, True, False], [0.9, 0.8, 0.3, 0.3])
    0.625
    """
    right = np.asarray(relevant)
    if right.dtype != np.bool_:
        raise TypeError(f"auc: relevant must be booleans, not {right.dtype}.")
    _, told = _columns("auc", relevant=right, scores=scores)
    of, size = _groups("auc", users, told.size)
    ranks = _ranks(told, of)
    ones = np.bincount(of, right, size)
    pairs = ones * (np.bincount(of, minlength=size) - ones)
    above = np.bincount(of, ranks * right, size) - ones * (ones + 1) / 2
    return float((above[pairs > 0] / pairs[pairs > 0]).mean()) if pairs.any() else float("nan")


def evaluate(
    model: Any,
    test: Any,
    *,
    n: int | None = None,
    exclude: Any = None,
    relevant_from: float | None = None,
) -> dict[str, float]:
    """What a fitted model does on interactions it has not seen, as a plain dict.

    rmse and mae where it predicts ratings, n, the rows they are over, and nbytes where it has them;
    where n is given also all of `ranked` on lists of that many items for every user of the test
    set, `coverage`, and `places`, how many items that is. For the curator: it is computed from raw
    data and is no part of a release.

    Parameters
    ----------
    model : object
        With predict(users, items) and, for lists, recommend(users, n, exclude=), or user_items= in
        place of exclude, and catalogue_.
    test : object
        Interactions, not empty.
    n : int or None, default=None
        From 1 up, or None.
    exclude : object, default=None
        The interactions that are not to be recommended again, usually the training set.
    relevant_from : float or None, default=None
        The rating from which on an item of the test set was right; None, all of them.

    Returns
    -------
    dict
        What a fitted model does on interactions it has not seen, as a plain dict.
    """
    if not len(test):
        raise ValueError("evaluate: test must have at least one row.")
    n = LIST.check("evaluate", "n", n)
    told: dict[str, float] = {}
    if hasattr(model, "predict"):
        predicted = model.predict(test.users, test.items)
        told = {"rmse": rmse(test.ratings, predicted), "mae": mae(test.ratings, predicted)}
    told["n"] = len(test)
    if getattr(model, "nbytes", None) is not None:
        told["nbytes"] = int(model.nbytes)
    return told if n is None else told | _lists(model, test, n, exclude, relevant_from)


def _lists(
    model: Any, test: Any, n: int, exclude: Any, relevant_from: float | None
) -> dict[str, float]:
    coded = test.coded()
    # What a user had is what neighbour releases recommend from, and what others leave out.
    own = "user_items" if "user_items" in signature(model.recommend).parameters else "exclude"
    items, scores = model.recommend(coded.user_ids, n, **{own: exclude})
    least = -np.inf if relevant_from is None else relevant_from
    right = np.asarray(test.ratings >= least)
    told = ranked(items, (coded.user_codes[right], test.items[right]), scores=scores)
    catalogue = getattr(model.catalogue_, "ids", model.catalogue_)
    return {**told, "coverage": coverage(items, catalogue, scores=scores), "places": n}


def _columns(owner: str, **columns: Any) -> list[np.ndarray]:
    """Each as finite float64, all of one length."""
    made = []
    for name, column in columns.items():
        array = np.asarray(column)
        if array.ndim != 1 or array.dtype.kind not in "biuf":
            raise TypeError(f"{owner}: {name} must be one column of numbers.")
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ValueError(f"{owner}: {name} must be finite, and row {row} is not.")
        made.append(array)
    if len({array.size for array in made}) > 1 or not made[0].size:
        sizes = " and ".join(str(array.size) for array in made)
        raise ValueError(f"{owner}: the columns must have one length above 0, not {sizes}.")
    return made


def _groups(owner: str, users: Any, size: int) -> tuple[np.ndarray, int]:
    """A number from 0 on for the user of each row, and how many there are."""
    if users is None:
        return np.zeros(size, np.int64), 1
    column = np.asarray(users)
    if column.shape != (size,):
        raise ValueError(f"{owner}: users must be one for each of {size} rows.")
    named, of = np.unique(column, return_inverse=True)
    return of, named.size


def _ranks(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Ranks from 1 on within each group, equal values sharing the mean of their ranks."""
    order = np.lexsort((values, of))
    group, value = of[order], values[order]
    new = np.diff(group, prepend=-1) != 0
    run = np.cumsum(new | (np.diff(value, prepend=value[0] - 1) != 0)) - 1
    within = np.arange(value.size) - np.flatnonzero(new)[np.cumsum(new) - 1] + 1.0
    ranks = np.empty(value.size)
    ranks[order] = (np.bincount(run, within) / np.bincount(run))[run]
    return ranks


def _centred(values: np.ndarray, of: np.ndarray, size: int) -> np.ndarray:
    return np.asarray(
        values - (np.bincount(of, values, size) / np.bincount(of, minlength=size))[of]
    )
