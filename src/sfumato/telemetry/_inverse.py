"""The inverse of an information matrix, and which of its unknowns it does not tell at all."""

import numpy as np
from scipy import linalg

__all__ = ["inverted"]

_NOTHING = 1e-10  # an eigenvalue of the scaled matrix that is rounding
_PART = 1e-6  # of an unknown, squared, along what is not told


def inverted(information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inverse where there is one, and a mask of the unknowns that are identified.

    Guarantee: with rows scaled to a diagonal of 1, directions with an eigenvalue below 1e-10 of the
    largest are left out, and unknowns that take part in one are not identified.
    Parameters: information, symmetric with a positive diagonal.

    >>> inverse, identified = inverted(np.array([[2.0, 0, 0], [0, 1, 1], [0, 1, 1]]))
    >>> inverse[0, 0].round(6), identified
    (np.float64(0.5), array([ True, False, False]))
    """
    scale = 1 / np.sqrt(information.diagonal())
    values, vectors = linalg.eigh(information * scale * scale[:, None], check_finite=False)
    told = values > _NOTHING * values[-1]
    half = vectors[:, told] / np.sqrt(values[told]) * scale[:, None]
    return half @ half.T, (vectors[:, ~told] ** 2).sum(axis=1) <= _PART
