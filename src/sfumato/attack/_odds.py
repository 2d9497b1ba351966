"""Chances and their log odds, without overflow and never certain."""

import numpy as np

__all__ = ["LEAST", "log_odds", "sigmoid"]

LEAST = 1e-6  # no item is out of the question, none is certain; samples of a chain can be 0 or 1


def log_odds(chances: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), of chances cut to what can still be changed by evidence.

    >>> log_odds(np.array([0.5, 1.0])).round(2)
    array([ 0.  , 13.82])
    """
    chances = np.clip(chances, LEAST, 1 - LEAST)
    return np.asarray(np.log(chances) - np.log1p(-chances))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x).

    >>> sigmoid(np.array([-1e4, 0.0]))
    array([0. , 0.5])
    """
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))
