"""Hashes learned from public data: linear maps after which what belongs together collides more."""

from typing import Any

import numpy as np

from sfumato.core.arrays import rows
from sfumato.core.typing import Column
from sfumato.core.validation import integer, positive
from sfumato.sketch.lsh.euclidean import Euclidean

__all__ = ["separating", "whitened"]


def whitened(public: Any, *, bandwidth: float, bounds: Any, ridge: float = 1e-6) -> Euclidean:
    """Euclidean hashes in units of the spread of public data, whatever its units and correlations.

    Parameters
    ----------
    public : object
        Rows of numbers, at least two.
    bandwidth : float
        In standard deviations.
    bounds : object
        As for `Euclidean`, in the units of the data.
    ridge : float, default=1e-06
        What is added to the variance of every direction of the scaled columns, above 0, so that
        columns that repeat others do no harm.

    Returns
    -------
    Euclidean
        TODO.

    Notes
    -----
    **Guarantee.** The kernel is that of `Euclidean` at the distance |A x - A q|, where A `public`
    has covariance I: no unit and no correlation of columns matters. THE DATA MUST BE PUBLIC: the
    map travels in every file and release, and nothing here is private.

    References
    ----------
    .. [1] Mahalanobis 1936; hashing after a learned map: Kulis, Jain and Grauman 2009.

    Examples
    --------
    >>> family = whitened([[0, 0], [0, 100], [1, 0], [1, 100]], bandwidth=1.0, bounds=(-1e3, 1e3))
    >>> family.kernel([[0, 0]], [[1, 0], [0, 100]]).round(3).tolist()
    [[0.195, 0.195]]
    """
    points = _checked("whitened", public, 2)
    ridge = positive.check("whitened", "ridge", ridge)
    map_ = _unspread(points - points.mean(axis=0), ridge)
    return Euclidean(bandwidth, bounds, transform=_plain(map_), dimension=points.shape[1])


def separating(
    public: Any,
    labels: Column,
    *,
    bandwidth: float,
    bounds: Any,
    directions: int | None = None,
    ridge: float = 1e-3,
) -> Euclidean:
    """Euclidean hashes along the directions in which the classes of public data differ most.

    Parameters
    ----------
    public : object
        Rows of numbers.
    labels : array_like
        One for each row, of two classes at least.
    bandwidth : float
        In standard deviations within a class.
    bounds : object
        As for `Euclidean`.
    directions : int or None, default=None
        Rows of A, by default one less than there are classes (no more differ) or the dimension if
        that is less.
    ridge : float, default=0.001
        As for `whitened`, of the variance within classes.

    Returns
    -------
    Euclidean
        TODO.

    Notes
    -----
    **Guarantee.** The kernel is that of `Euclidean` at the distance |A x - A q|, where the rows of
    A are the leading linear discriminants of `public`, in units of the spread within a class:
    points of one class collide more often than those of two, as far as a linear map can tell them
    apart. THE DATA MUST BE PUBLIC, labels too: the map travels in every file and release.

    References
    ----------
    .. [1] Fisher 1936; classes that collide more often: Coleman and Shrivastava 2021, section 7.2.

    Examples
    --------
    >>> x = [[0, 0], [0, 9], [1, 0], [1, 9], [5, 0], [5, 9], [6, 0], [6, 9]]
    >>> family = separating(x, [0, 0, 0, 0, 1, 1, 1, 1], bandwidth=2.0, bounds=(0, 10))
    >>> family.kernel([[0, 0]], [[1, 9], [5, 0]]).round(2).tolist()
    [[0.37, 0.08]]
    """
    points = _checked("separating", public, 2)
    classes, members = _classes(labels, len(points))
    most = min(points.shape[1], len(classes) - 1)
    count = most if directions is None else directions
    count = integer(1, points.shape[1]).check("separating", "directions", count)
    ridge = positive.check("separating", "ridge", ridge)
    means = np.stack([points[members == each].mean(axis=0) for each in range(len(classes))])
    root = _unspread(points - means[members], ridge)
    between = (means[members] - points.mean(axis=0)) @ root.T
    _, vectors = np.linalg.eigh(between.T @ between)
    map_ = vectors[:, ::-1][:, :count].T @ root
    return Euclidean(bandwidth, bounds, transform=_plain(map_), dimension=points.shape[1])


def _checked(owner: str, public: Any, least: int) -> np.ndarray:
    points = rows(owner, public)
    if len(points) < least:
        raise ValueError(f"{owner}: public must have at least {least} rows, not {len(points)}.")
    return points


def _classes(labels: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    given = np.asarray(labels)
    if given.shape != (count,):
        raise ValueError(
            f"separating: labels must be one for each of {count} rows, not {given.shape}."
        )
    classes, members = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        raise ValueError("separating: labels must be of two classes at least; use whitened.")
    return classes, members


def _unspread(points: np.ndarray, ridge: float) -> np.ndarray:
    """A map after which centred points have covariance I, but for the ridge."""
    spread = np.sqrt((points**2).mean(axis=0))
    spread[spread == 0] = 1.0  # a column that never changes tells no unit
    scaled = points / spread
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(points))
    return np.asarray((vectors / np.sqrt(values + ridge)) @ vectors.T / spread)


def _plain(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    # Rounded to 24 digits: what is left differs less between machines, and is shorter in files.
    # Not by float32, whose range some units of columns leave.
    digits, exponents = np.frexp(matrix)
    rounded = np.ldexp(np.rint(np.ldexp(digits, 24)), exponents - 24)
    return tuple(tuple(row) for row in rounded.tolist())
