"""Euclidean hash families with a linear map learned from public data."""

from typing import Any

import numpy as np

from sfumato.core.arrays import rows
from sfumato.core.typing import Column
from sfumato.core.validation import integer, positive
from sfumato.sketch.lsh.euclidean import Euclidean

__all__ = ["separating", "whitened"]


def whitened(public: Any, *, bandwidth: float, bounds: Any, ridge: float = 1e-6) -> Euclidean:
    """Build Euclidean hashes in the standard deviations of public data (Mahalanobis distance).

    Use it if columns have different units or are correlated.

    Parameters
    ----------
    public : array_like of shape (n, d)
        Public rows of numbers, at least two.
    bandwidth : float
        Width of a bucket, in standard deviations; above 0.
    bounds : Pair
        Public bounds as for `Euclidean`, in the units of the data.
    ridge : float, default=1e-06
        Added to the variance of every direction of the standardised columns, above 0, so that
        duplicated columns do no harm.

    Returns
    -------
    Euclidean
        A family whose `transform` is the whitening matrix.

    Notes
    -----
    **Guarantee.** The kernel is that of `Euclidean` at the distance ``|A x - A q|``, where A times
    `public` has covariance I (up to `ridge`): units and correlations of columns do not matter.
    THE DATA MUST BE PUBLIC: the matrix is part of every file and release, and nothing here is
    private.

    References
    ----------
    .. [1] Mahalanobis. "On the generalised distance in statistics". Proceedings of the National
       Institute of Sciences of India 2, 1936.
    .. [2] Kulis, Jain, Grauman. "Fast similarity search for learned metrics". IEEE Transactions on
       Pattern Analysis and Machine Intelligence 31, 2009. https://doi.org/10.1109/TPAMI.2009.151

    Examples
    --------
    >>> family = whitened([[0, 0], [0, 100], [1, 0], [1, 100]], bandwidth=1.0, bounds=(-1e3, 1e3))
    >>> family.kernel([[0, 0]], [[1, 0], [0, 100]]).round(3).tolist()
    [[0.195, 0.195]]
    """
    points = _checked("whitened", public, 2)
    ridge = positive.check("whitened", "ridge", ridge)
    map_ = _whitening(points - points.mean(axis=0), ridge)
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
    """Build Euclidean hashes along the linear discriminants of public labelled data.

    Parameters
    ----------
    public : array_like of shape (n, d)
        Public rows of numbers, at least two.
    labels : array_like of shape (n,)
        One public label per row, of at least two classes.
    bandwidth : float
        Width of a bucket, in standard deviations within a class; above 0.
    bounds : Pair
        Public bounds as for `Euclidean`, in the units of the data.
    directions : int or None, default=None
        Number of discriminants (rows of A), 1 to the dimension. None takes the number of classes
        minus one, beyond which classes do not differ, or the dimension if that is less.
    ridge : float, default=0.001
        Added to the variance within classes of every direction of the standardised columns, above
        0.

    Returns
    -------
    Euclidean
        A family whose `transform` projects on the discriminants.

    Notes
    -----
    **Guarantee.** The kernel is that of `Euclidean` at the distance ``|A x - A q|``, where the rows
    of A are the leading linear discriminants of `public`, in standard deviations within a class:
    points of one class collide more often than points of two, as far as a linear map separates
    them. THE DATA MUST BE PUBLIC, labels included: the matrix is part of every file and release.

    References
    ----------
    .. [1] Fisher. "The Use of Multiple Measurements in Taxonomic Problems". Annals of Eugenics
       7(2), 1936. https://doi.org/10.1111/j.1469-1809.1936.tb02137.x
    .. [2] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
       Applications to Machine Learning at Scale". CCS 2021, section 7.2 (hash functions learned
       from public data). https://arxiv.org/abs/2006.09352

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
    root = _whitening(points - means[members], ridge)
    between = (means[members] - points.mean(axis=0)) @ root.T
    _, vectors = np.linalg.eigh(between.T @ between)
    map_ = vectors[:, ::-1][:, :count].T @ root
    return Euclidean(bandwidth, bounds, transform=_plain(map_), dimension=points.shape[1])


def _checked(owner: str, public: Any, least: int) -> np.ndarray:
    """Public rows as an array; ValueError if there are fewer than `least`."""
    points = rows(owner, public)
    if len(points) < least:
        raise ValueError(f"{owner}: public must have at least {least} rows, not {len(points)}.")
    return points


def _classes(labels: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels, and for each row the index of its own."""
    given = np.asarray(labels)
    if given.shape != (count,):
        raise ValueError(
            f"separating: labels must be one for each of {count} rows, not {given.shape}."
        )
    classes, members = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        raise ValueError("separating: labels must be of two classes at least; use whitened.")
    return classes, members


def _whitening(points: np.ndarray, ridge: float) -> np.ndarray:
    """A matrix after which centred points have covariance I, up to the ridge."""
    scale = np.sqrt((points**2).mean(axis=0))
    scale[scale == 0] = 1.0  # a constant column has no unit
    scaled = points / scale
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(points))
    return np.asarray((vectors / np.sqrt(values + ridge)) @ vectors.T / scale)


def _plain(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    # Rounded to 24 digits: the result differs less between machines and is shorter in files.
    # Not by float32, whose range some units of columns leave.
    """The matrix as tuples of numbers rounded to 24 binary digits."""
    digits, exponents = np.frexp(matrix)
    rounded = np.ldexp(np.rint(np.ldexp(digits, 24)), exponents - 24)
    return tuple(tuple(row) for row in rounded.tolist())
