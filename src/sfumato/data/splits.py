"""Ratings apart for learning and for judging: by chance, by user, by time, in folds."""

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

__all__ = ["folds", "random_rows", "split_by_time", "split_by_user", "without_rare"]

SHARE = between(0, 1 + 1e-9, above=True)


def random_rows(rows: int, sizes: Sequence[float], random_state: RandomState) -> list[np.ndarray]:
    """Random rows for parts of these shares, each sorted; no row is in two parts."""
    for size in sizes:
        SHARE.check("split", "each size", size)
    if not sizes or sum(sizes) > 1 + 1e-9:
        raise ValueError(f"split: sizes must be shares that sum to at most 1, not {tuple(sizes)}.")
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
    """Train and test with rows of every user in both, as far as they have enough.

    Parameters
    ----------
    interactions : Interactions
        TODO.
    leave : float, default=1
        Rows of each user for the test, an integer from 1; or a share of them below 1, rounded down.
    latest : bool, default=False
        Take the latest rows, by time, in place of random ones.
    random_state : int, Generator or None, default=0
        An int, a numpy Generator or None.

    Returns
    -------
    tuple
        TODO.

    Notes
    -----
    **Guarantee.** Nobody loses all rows to the test: who has no more than `leave` stays in train.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> seen = Interactions([1, 1, 1, 2], [1, 2, 3, 1], [5, 4, 3, 2], times=[7, 9, 8, 7])
    >>> train, test = split_by_user(seen, 1, latest=True)
    >>> test.items
    array([2])
    """
    share = isinstance(leave, float | np.floating)
    limit = fraction if share else integer(1)
    leave = limit.check("split_by_user", "leave", leave)
    if flag.check("split_by_user", "latest", latest):
        order = _times_of("split_by_user", interactions)
    else:
        order = check_random_state("split_by_user", random_state).permutation(len(interactions))
    users = interactions.coded().user_codes
    left, many = _places_from_last(users, order)
    wanted = np.floor(leave * many + 1e-9) if share else np.where(many > leave, leave, 0)
    return _parted(interactions, left < wanted)


def split_by_time(
    interactions: "Interactions", share: float | None = None, *, at: float | None = None
) -> tuple["Interactions", "Interactions"]:
    """Train and test so that no row of train is later than a row of test.

    Parameters
    ----------
    interactions : Interactions
        TODO.
    share : float or None, default=None
        Of the rows, the latest, for the test; or at, the first moment of the test, in the unit of
        `times`. Of rows of one time, those that come later are taken first.
    at : float or None, default=None
        TODO.

    Returns
    -------
    tuple
        TODO.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> seen = Interactions([1, 1, 2], [1, 2, 3], [5, 4, 3], times=[30, 10, 20])
    >>> [part.times for part in split_by_time(seen, at=20)]
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
    """Pairs of train and test: every row is in one test, and all tests are as large within one row.

    Parameters
    ----------
    interactions : Interactions
        TODO.
    n : int, default=5
        Of folds, from 2 up to the rows.
    random_state : int, Generator or None, default=0
        An int, a numpy Generator or None.

    Returns
    -------
    iterator
        TODO.
    """
    n = integer(2, max(2, len(interactions))).check("folds", "n", n)
    order = check_random_state("folds", random_state).permutation(len(interactions))
    fold = np.empty(len(interactions), np.int64)
    fold[order] = np.arange(len(interactions)) % n
    return (_parted(interactions, fold == each) for each in range(n))


def without_rare(test: "Interactions", train: "Interactions", least: int = 10) -> "Interactions":
    """The rows of test whose user and item both occur `least` times or more in train.

    How often is counted in train, so that no row of test decides whether it is itself judged.

    Parameters
    ----------
    test : Interactions
        TODO.
    train : Interactions
        TODO.
    least : int, default=10
        TODO.

    Returns
    -------
    Interactions
        The rows of test whose user and item both occur `least` times or more in train.
    """
    least = integer(0).check("without_rare", "least", least)
    keep = np.ones(len(test), bool)
    for name in ("users", "items"):
        keep &= _counts(getattr(test, name), getattr(train, name), name) >= least
    return test.filter(keep)


def _counts(wanted: np.ndarray, seen: np.ndarray, name: str) -> np.ndarray:
    """How often each of the wanted ids is among those seen."""
    if wanted.dtype != seen.dtype and wanted.size and seen.size:
        raise TypeError(f"without_rare: {name} are integers in one part and texts in the other.")
    _, codes = np.unique(np.concatenate([seen, wanted]), return_inverse=True)
    counts = np.bincount(codes[: seen.size], minlength=int(codes.max(initial=0)) + 1)
    return np.asarray(counts[codes[seen.size :]])


def _times_of(owner: str, interactions: "Interactions") -> np.ndarray:
    if interactions.times is None:
        raise ValueError(f"{owner}: the interactions have no times; read them with times.")
    return np.asarray(interactions.times)


def _places_from_last(groups: np.ndarray, order: Any) -> tuple[np.ndarray, np.ndarray]:
    """For each row its place in its group, 0 for the last in this order, and the group's size."""
    sizes = np.bincount(groups, minlength=1)
    rows = np.lexsort((np.arange(groups.size), order, groups))
    ends = np.cumsum(sizes)
    left = np.empty(groups.size, np.int64)
    left[rows] = ends[groups[rows]] - 1 - np.arange(groups.size)
    return left, sizes[groups]


def _parted(
    interactions: "Interactions", test: np.ndarray
) -> tuple["Interactions", "Interactions"]:
    return interactions.filter(~test), interactions.filter(test)
