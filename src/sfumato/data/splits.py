"""Splits of interactions into train and test: at random, by user, by time, in folds."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.core.deprecation import renamed_arguments
from sfumato.core.validation import (
    RandomState,
    between,
    check_random_state,
    flag,
    fraction,
    integer,
    number,
)

if TYPE_CHECKING:
    from sfumato.data.interactions import Interactions

__all__ = [
    "folds",
    "leave_last_out",
    "random_rows",
    "split_by_time",
    "split_by_user",
    "without_rare",
]

FRACTION = between(0, 1 + 1e-9, above=True)


def random_rows(rows: int, sizes: Sequence[float], random_state: RandomState) -> list[np.ndarray]:
    """Sample sorted, disjoint row numbers for parts of these fractions."""
    for size in sizes:
        FRACTION.check("split", "each size", size)
    if not sizes or sum(sizes) > 1 + 1e-9:
        raise ValueError(
            f"split: sizes must be fractions that sum to at most 1, not {tuple(sizes)}."
        )
    order = check_random_state("split", random_state).permutation(rows)
    ends = np.rint(np.cumsum(sizes) * rows).astype(np.int64)
    return [np.sort(part) for part in np.split(order, ends)[: len(sizes)]]


@renamed_arguments(seed="random_state")
def split_by_user(
    interactions: "Interactions",
    leave: float = 1,
    *,
    latest: bool = False,
    random_state: RandomState = 0,
) -> tuple["Interactions", "Interactions"]:
    """Split into train and test with rows of every user in both.

    Parameters
    ----------
    interactions : Interactions
        The rows to split.
    leave : float, default=1
        Rows of each user for the test: an integer from 1, or a fraction below 1 of the user's rows,
        rounded down.
    latest : bool, default=False
        Whether to take the latest rows by time, instead of random ones.
    random_state : int, Generator or None, default=0
        Seed or generator; None for a fresh seed.

    Returns
    -------
    train : Interactions
        Rows to learn from.
    test : Interactions
        Rows to evaluate on.

    Notes
    -----
    **Guarantee.** No user has all rows in the test: all rows of users with at most `leave` rows are
    in train.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> interactions = Interactions([1, 1, 1, 2], [1, 2, 3, 1], [5, 4, 3, 2], times=[7, 9, 8, 7])
    >>> train, test = split_by_user(interactions, 1, latest=True)
    >>> test.items
    array([2])
    """
    relative = isinstance(leave, float | np.floating)
    limit = fraction if relative else integer(1)
    leave = limit.check("split_by_user", "leave", leave)
    if flag.check("split_by_user", "latest", latest):
        order = _times_of("split_by_user", interactions)
    else:
        order = check_random_state("split_by_user", random_state).permutation(len(interactions))
    users = interactions.coded().user_codes
    from_last, sizes = _positions_from_last(users, order)
    wanted = np.floor(leave * sizes + 1e-9) if relative else np.where(sizes > leave, leave, 0)
    return _parted(interactions, from_last < wanted)


def leave_last_out(
    interactions: "Interactions", leave: int = 1
) -> tuple["Interactions", "Interactions"]:
    """Split off the last rows of every user, by time, or by their order if there are no times.

    Parameters
    ----------
    interactions : Interactions
        The rows to split.
    leave : int, default=1
        Rows of each user for the test, at least 1.

    Returns
    -------
    train : Interactions
        Rows to learn from.
    test : Interactions
        Rows to evaluate on.

    Notes
    -----
    **Guarantee.** Rows of equal time count in their order. All rows of users with at most `leave`
    rows are in train. `split_by_user` takes random rows, or a fraction of them.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> train, test = leave_last_out(Interactions([1, 1, 2], ["tea", "rum", "tea"]))
    >>> test.items
    array(['rum'], dtype=object)
    """
    leave = integer(1).check("leave_last_out", "leave", leave)
    times = np.zeros(len(interactions)) if interactions.times is None else interactions.times
    from_last, sizes = _positions_from_last(interactions.coded().user_codes, times)
    return _parted(interactions, (from_last < leave) & (sizes > leave))


def split_by_time(
    interactions: "Interactions", share: float | None = None, *, at: float | None = None
) -> tuple["Interactions", "Interactions"]:
    """Split into train and test so that no row of train is later than a row of test.

    Parameters
    ----------
    interactions : Interactions
        The rows to split, with times.
    share : float or None, default=None
        Fraction of the rows, the latest, for the test, between 0 and 1. Among rows of equal time
        the last ones are taken first. Give either `share` or `at`.
    at : float or None, default=None
        First time of the test, in the unit of `times`.

    Returns
    -------
    train : Interactions
        Rows to learn from.
    test : Interactions
        Rows to evaluate on.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> interactions = Interactions([1, 1, 2], [1, 2, 3], [5, 4, 3], times=[30, 10, 20])
    >>> [part.times for part in split_by_time(interactions, at=20)]
    [array([10]), array([30, 20])]
    """
    if (share is None) == (at is None):
        raise ValueError("split_by_time: give a share or the moment `at`, one of the two.")
    times = _times_of("split_by_time", interactions)
    if at is not None:
        return _parted(interactions, times >= float(number.check("split_by_time", "at", at)))
    rows = round(fraction.check("split_by_time", "share", share) * len(interactions))
    test = np.zeros(len(interactions), bool)
    test[np.argsort(times, kind="stable")[len(interactions) - rows :]] = True
    return _parted(interactions, test)


@renamed_arguments(count="n", seed="random_state")
def folds(
    interactions: "Interactions", n: int = 5, *, random_state: RandomState = 0
) -> Iterator[tuple["Interactions", "Interactions"]]:
    """Split into n pairs of train and test for cross-validation.

    Parameters
    ----------
    interactions : Interactions
        The rows to split.
    n : int, default=5
        Number of folds, from 2 to the number of rows.
    random_state : int, Generator or None, default=0
        Seed or generator; None for a fresh seed.

    Returns
    -------
    iterator of (Interactions, Interactions)
        Pairs of train and test. Every row is in exactly one test, and the sizes of tests differ by
        at most one row.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> interactions = Interactions([1, 2, 3, 4, 5], [1, 1, 2, 2, 3], [5, 4, 3, 2, 1])
    >>> [(len(train), len(test)) for train, test in folds(interactions, n=2)]
    [(2, 3), (3, 2)]
    """
    n = integer(2, max(2, len(interactions))).check("folds", "n", n)
    order = check_random_state("folds", random_state).permutation(len(interactions))
    fold = np.empty(len(interactions), np.int64)
    fold[order] = np.arange(len(interactions)) % n
    return (_parted(interactions, fold == each) for each in range(n))


def without_rare(test: "Interactions", train: "Interactions", least: int = 10) -> "Interactions":
    """Select the test rows whose user and item are frequent in train.

    Frequencies are counted in train, so that no test row decides whether it is evaluated itself.

    Parameters
    ----------
    test : Interactions
        Rows to select from.
    train : Interactions
        Rows to count in, with ids of the same types.
    least : int, default=10
        Minimum number of rows in train of the user, and of the item; at least 0.

    Returns
    -------
    Interactions
        The rows of `test` whose user and item both have at least `least` rows in `train`.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> train = Interactions([1, 1, 2], ["tea", "milk", "tea"], [5, 4, 3])
    >>> test = Interactions([1, 2], ["tea", "tea"], [5, 4])
    >>> without_rare(test, train, least=2).users
    array([1])
    """
    least = integer(0).check("without_rare", "least", least)
    keep = np.ones(len(test), bool)
    for name in ("users", "items"):
        keep &= _counts(getattr(test, name), getattr(train, name), name) >= least
    return test.filter(keep)


def _counts(wanted: np.ndarray, known: np.ndarray, name: str) -> np.ndarray:
    """Number of occurrences of each wanted id among the known ones."""
    if wanted.dtype != known.dtype and wanted.size and known.size:
        raise TypeError(f"without_rare: {name} are integers in one part and texts in the other.")
    _, codes = np.unique(np.concatenate([known, wanted]), return_inverse=True)
    counts = np.bincount(codes[: known.size], minlength=int(codes.max(initial=0)) + 1)
    return np.asarray(counts[codes[known.size :]])


def _times_of(owner: str, interactions: "Interactions") -> np.ndarray:
    if interactions.times is None:
        raise ValueError(f"{owner}: the interactions have no times; read them with times.")
    return np.asarray(interactions.times)


def _positions_from_last(groups: np.ndarray, order: Any) -> tuple[np.ndarray, np.ndarray]:
    """Position of each row in its group, 0 for the last in this order, and the group's size."""
    sizes = np.bincount(groups, minlength=1)
    rows = np.lexsort((np.arange(groups.size), order, groups))
    ends = np.cumsum(sizes)
    from_last = np.empty(groups.size, np.int64)
    from_last[rows] = ends[groups[rows]] - 1 - np.arange(groups.size)
    return from_last, sizes[groups]


def _parted(
    interactions: "Interactions", test: np.ndarray
) -> tuple["Interactions", "Interactions"]:
    return interactions.filter(~test), interactions.filter(test)
