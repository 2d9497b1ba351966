"""Metrics of predicted ratings, and all metrics of a model at once."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np

from sfumato.core.typing import Column, Ids, Matrix
from sfumato.core.validation import integer, optional
from sfumato.recommend.base import predictions
from sfumato.recommend.metrics.beyond_accuracy import coverage
from sfumato.recommend.metrics.ranking import ranked

__all__ = ["auc", "evaluate", "mae", "recommended", "rmse", "roc_curve", "spearman"]

LIST = optional(integer(1, 2**20))
USERS = 1024  # of a block, or more so that there are 64 blocks at most


def rmse(truth: Any, predicted: Column) -> float:
    """Compute the root mean squared error.

    Parameters
    ----------
    truth : array_like of shape (n,)
        True ratings: finite numbers, at least one.
    predicted : array_like of shape (n,)
        Predicted ratings: finite numbers.

    Returns
    -------
    float
        `sqrt(mean((truth - predicted)**2))`, in the unit of the ratings; 0 is perfect.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (2.1) (root mean squared error).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> rmse([1, 2], [1, 4])
    1.4142135623730951
    """
    truth, predicted = _columns("rmse", truth=truth, predicted=predicted)
    return float(np.sqrt(np.mean((truth - predicted) ** 2)))


def mae(truth: Any, predicted: Column) -> float:
    """Compute the mean absolute error.

    Parameters
    ----------
    truth : array_like of shape (n,)
        True ratings: finite numbers, at least one.
    predicted : array_like of shape (n,)
        Predicted ratings: finite numbers.

    Returns
    -------
    float
        `mean(abs(truth - predicted))`, in the unit of the ratings; 0 is perfect.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equation (2.2) (mean absolute error).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> mae([1, 2], [1, 4])
    1.0
    """
    truth, predicted = _columns("mae", truth=truth, predicted=predicted)
    return float(np.mean(np.abs(truth - predicted)))


def spearman(truth: Any, predicted: Column, *, users: Ids | None = None) -> float:
    """Compute Spearman's rank correlation.

    Parameters
    ----------
    truth : array_like of shape (n,)
        True ratings: finite numbers, at least one. Ties get their mean rank.
    predicted : array_like of shape (n,)
        Predicted ratings: finite numbers.
    users : array_like, scalar or None, default=None
        The user of each row. If given, the correlation is computed per user and averaged over the
        users whose true and predicted ratings both vary.

    Returns
    -------
    float
        Correlation from -1 to 1; NaN if it is undefined for everybody.

    Examples
    --------
    >>> spearman([1, 2, 3, 4], [10, 30, 20, 40])
    0.8
    """
    truth, predicted = _columns("spearman", truth=truth, predicted=predicted)
    of, size = _groups("spearman", users, truth.size)
    ones, others = _centred(_ranks(truth, of), of, size), _centred(_ranks(predicted, of), of, size)
    together = np.bincount(of, ones * others, size)
    scale = np.sqrt(np.bincount(of, ones**2, size) * np.bincount(of, others**2, size))
    varied = scale > 0
    return float((together[varied] / scale[varied]).mean()) if varied.any() else float("nan")


def auc(relevant: Column, scores: Matrix, *, users: Ids | None = None) -> float:
    """Compute the area under the ROC curve.

    Parameters
    ----------
    relevant : array_like of shape (n,)
        Booleans: whether each row is relevant.
    scores : array_like of shape (n,)
        Finite numbers.
    users : array_like, scalar or None, default=None
        The user of each row. If given, the area is computed per user and averaged over the users
        who have both relevant and irrelevant rows.

    Returns
    -------
    float
        Probability that a random relevant row has a higher score than a random irrelevant one, a
        tie counting one half; NaN if there is no such pair.

    Examples
    --------
    >>> auc([True, False, True, False], [0.9, 0.8, 0.3, 0.3])
    0.625
    """
    right, values = _relevant("auc", relevant, scores)
    of, size = _groups("auc", users, values.size)
    ranks = _ranks(values, of)
    ones = np.bincount(of, right, size)
    pairs = ones * (np.bincount(of, minlength=size) - ones)
    above = np.bincount(of, ranks * right, size) - ones * (ones + 1) / 2
    return float((above[pairs > 0] / pairs[pairs > 0]).mean()) if pairs.any() else float("nan")


def roc_curve(relevant: Column, scores: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute the ROC curve: true beside false positives as more rows are recommended.

    Parameters
    ----------
    relevant : array_like of shape (n,)
        Booleans: whether each row is relevant; at least one is and one is not.
    scores : array_like of shape (n,)
        Finite numbers.

    Returns
    -------
    false_positives : ndarray of shape (k + 1,)
        Fraction of the irrelevant rows with a score of at least each threshold, from 0 to 1.
    true_positives : ndarray of shape (k + 1,)
        The same of the relevant rows. The area under the curve (trapezoids) is `auc`.
    thresholds : ndarray of shape (k + 1,)
        Infinity, and then the k distinct scores, descending.

    Raises
    ------
    ValueError
        If all rows are relevant, or none.

    Examples
    --------
    >>> roc_curve([True, False, True, False], [0.9, 0.8, 0.3, 0.3])[1]
    array([0. , 0.5, 0.5, 1. ])
    """
    right, values = _relevant("roc_curve", relevant, scores)
    if right.all() or not right.any():
        raise ValueError("roc_curve: relevant must have both True and False.")
    order = np.argsort(-values, kind="stable")
    right, values = right[order], values[order]
    last = np.flatnonzero(np.diff(values, append=-np.inf) != 0)  # of each run of equal scores
    true, false = (np.cumsum(each)[last] / each.sum() for each in (right, ~right))
    starts = np.zeros(1)
    return (
        np.concatenate([starts, false]),
        np.concatenate([starts, true]),
        np.concatenate([[np.inf], values[last]]),
    )


def _relevant(owner: str, relevant: Any, scores: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return relevance as booleans and scores as finite numbers, of one length."""
    right = np.asarray(relevant)
    if right.dtype != np.bool_:
        raise TypeError(f"{owner}: relevant must be booleans, not {right.dtype}.")
    return right, _columns(owner, relevant=right, scores=scores)[1]


def evaluate(
    model: Any,
    test: Any,
    *,
    n: int | None = None,
    exclude: Any = None,
    relevant_from: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, float]:
    """Evaluate a fitted model on test interactions.

    The result is computed from raw data: it is for the curator and not covered by any privacy
    statement.

    Parameters
    ----------
    model : object
        A fitted model with `predict(users, items)` and, for lists, `recommend(users, n, exclude=)`
        (or `user_items=` in place of `exclude`) and `catalogue_`.
    test : Interactions
        Test interactions, at least one.
    n : int or None, default=None
        Length of the recommended lists, at least 1. If None, no lists are evaluated.
    exclude : Interactions or None, default=None
        Interactions that are not to be recommended again, usually the training data.
    relevant_from : float or None, default=None
        Lowest rating of a relevant test item; None means that all test items are relevant, as for
        a test without ratings.
    progress : callable or None, default=None
        Called as `progress(done, total)` after each block of users, whose lists are then made
        together; None makes those of all users in one call.

    Returns
    -------
    dict
        "rmse" and "mae" if the model predicts ratings and the test has some, "n" (number of test
        rows), "nbytes" if the model has a size; if `n` is given also the result of `ranked` for
        every test user, "coverage", and "places" (the length of the lists).

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> from sfumato.recommend import DampedMeans
    >>> ratings = Interactions(users=[1, 1, 2], items=[10, 20, 10], ratings=[5, 3, 4])
    >>> result = evaluate(DampedMeans(damping=0).fit(ratings), ratings)
    >>> round(result["mae"], 3), result["n"]
    (0.167, 3)
    """
    if not len(test):
        raise ValueError("evaluate: test must have at least one row.")
    n = LIST.check("evaluate", "n", n)
    rated = getattr(test, "has_ratings", True)
    if relevant_from is not None and not rated:
        raise ValueError("evaluate: relevant_from must be None, since test has no ratings.")
    result: dict[str, float] = {}
    if rated and hasattr(model, "predict") and getattr(model, "predicts_ratings", True):
        predicted = predictions(model, test)
        result = {"rmse": rmse(test.ratings, predicted), "mae": mae(test.ratings, predicted)}
    result["n"] = len(test)
    if getattr(model, "nbytes", None) is not None:
        result["nbytes"] = int(model.nbytes)
    if n is None:
        return result
    return result | _lists(model, test, n, exclude, relevant_from, progress)


def _lists(
    model: Any,
    test: Any,
    n: int,
    exclude: Any,
    relevant_from: float | None,
    progress: Callable[[int, int], None] | None,
) -> dict[str, float]:
    """Return the metrics of the lists that the model recommends to the test users."""
    coded = test.coded()
    users = coded.user_ids
    block = len(users) if progress is None else max(USERS, -(-len(users) // 64))
    found = []
    for start in range(0, len(users), block):
        found.append(recommended(model, users[start : start + block], n, exclude))
        if progress is not None:
            progress(min(start + block, len(users)), len(users))
    items, scores = (np.concatenate(each) for each in zip(*found, strict=True))
    least = -np.inf if relevant_from is None else relevant_from
    right = np.asarray(test.ratings >= least)
    result = ranked(items, (coded.user_codes[right], test.items[right]), scores=scores)
    catalogue = getattr(model.catalogue_, "ids", model.catalogue_)
    return {**result, "coverage": coverage(items, catalogue, scores=scores), "places": n}


def recommended(model: Any, users: Ids, n: int, exclude: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the lists of a model and their scores, without the items that `exclude` has."""
    # Neighbour releases recommend from a user's own items; other models leave them out.
    own = "user_items" if "user_items" in signature(model.recommend).parameters else "exclude"
    items, scores = model.recommend(users, n, **{own: exclude})
    return items, scores


def _columns(owner: str, **columns: Any) -> list[np.ndarray]:
    """Return each column as finite float64, all of one length above 0; raise if they are not."""
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
    """Return a code from 0 for the user of each row, and the number of users."""
    if users is None:
        return np.zeros(size, np.int64), 1
    column = np.asarray(users)
    if column.shape != (size,):
        raise ValueError(f"{owner}: users must be one for each of {size} rows.")
    named, of = np.unique(column, return_inverse=True)
    return of, named.size


def _ranks(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Return ranks from 1 within each group; ties get their mean rank."""
    order = np.lexsort((values, of))
    group, value = of[order], values[order]
    new = np.diff(group, prepend=-1) != 0
    run = np.cumsum(new | (np.diff(value, prepend=value[0] - 1) != 0)) - 1
    within = np.arange(value.size) - np.flatnonzero(new)[np.cumsum(new) - 1] + 1.0
    ranks = np.empty(value.size)
    ranks[order] = (np.bincount(run, within) / np.bincount(run))[run]
    return ranks


def _centred(values: np.ndarray, of: np.ndarray, size: int) -> np.ndarray:
    """Return the values less the mean of their group."""
    return np.asarray(
        values - (np.bincount(of, values, size) / np.bincount(of, minlength=size))[of]
    )
