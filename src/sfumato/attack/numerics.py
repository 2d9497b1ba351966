"""Chances and their log odds, without overflow and never certain.

Columns and tables of numbers as formulas take them: finite or not, but within their limits.
Entropy and divergence of coins, in nats. Users in blocks, worked off by threads: the same answer
whatever the number of threads. Products with a matrix that stays, computed by the calling thread
alone. Weights of a logistic regression.
"""

import math
import os
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from sfumato.core.validation import integer, optional
from sfumato.kernels.lanes import aligned
from sfumato.kernels.top_k import ABREAST, WIDE, every

__all__ = [
    "LEAST",
    "THREADS",
    "Factor",
    "Progress",
    "binary_divergence",
    "binary_entropy",
    "in_blocks",
    "log_odds",
    "logistic_weights",
    "sigmoid",
    "within",
]

SLOPE = 1e-7  # of the mean loss of logistic weights, at which they are found
LEAST = 1e-6  # no item is out of the question, none is certain; samples of a chain can be 0 or 1


def log_odds(chances: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), of chances cut to what can still be changed by evidence.

    >>> log_odds(np.array([0.5, 1.0])).round(2)
    array([ 0.  , 13.82])
    """
    chances = np.clip(chances, LEAST, 1 - LEAST)
    return np.asarray(np.log(chances) - np.log1p(-chances))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x); SciPy's expit takes as long for float64, five times as long for float32.

    >>> sigmoid(np.array([-1e4, 0.0]))
    array([0. , 0.5])
    """
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def within(owner: str, name: str, values: Any, low: float, high: float = math.inf) -> np.ndarray:
    """Numbers as float64, refused unless all lie from low to high, both included.

    >>> within("flips", "share", [0, 0.5], 0, 1)
    array([0. , 0.5])
    """
    try:
        given = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} must be numbers.") from None
    if not bool(((given >= low) & (given <= high)).all()):  # also false for what is no number
        top = f" to {high:g}" if high < math.inf else " up"
        raise ValueError(f"{owner}: {name} must be numbers from {low:g}{top}.")
    return given


def binary_entropy(chance: Any) -> np.ndarray:
    """(3.17): the entropy of a coin, in nats; 0 where it is certain.

    Parameters
    ----------
    chance : object
        TODO.

    Returns
    -------
    ndarray
        TODO.

    Examples
    --------
    >>> binary_entropy([0, 0.5, 1]).round(4)
    array([0.    , 0.6931, 0.    ])
    """
    from scipy.special import xlog1py, xlogy

    chance = within("binary_entropy", "chance", chance, 0, 1)
    return np.asarray(np.abs(xlogy(chance, chance) + xlog1py(1 - chance, -chance)))


def binary_divergence(chance: Any, other: Any) -> np.ndarray:
    """The divergence of a coin from another, in nats; infinite where the other rules it out.

    Parameters
    ----------
    chance : object
        TODO.
    other : object
        TODO.

    Returns
    -------
    ndarray
        The divergence of a coin from another, in nats; infinite where the other rules it out.

    Examples
    --------
    >>> binary_divergence(0.5, [0.5, 0.25, 1]).round(4)
    array([0.    , 0.1438,    inf])
    """
    from scipy.special import rel_entr

    chance = within("binary_divergence", "chance", chance, 0, 1)
    other = within("binary_divergence", "other", other, 0, 1)
    apart = rel_entr(chance, other) + rel_entr(1 - chance, 1 - other)
    return np.asarray(np.maximum(apart, 0))


Progress = Callable[[int, int], Any]
THREADS = optional(integer(1, 1024))
PAUSE = 0.1  # seconds between two looks at Ctrl-C


def in_blocks(
    users: int,
    size: int,
    work: Callable[[slice], None],
    threads: int | None,
    progress: Progress | None,
) -> None:
    """Call work for every block of so many users, on threads; progress here, as blocks end.

    An error stops the blocks that have not begun and is raised; so does Ctrl-C, after the blocks
    at hand.
    """
    blocks = [slice(start, min(start + size, users)) for start in range(0, users, size)]
    with ThreadPoolExecutor(threads or _cores()) as pool:
        waiting = {pool.submit(work, block): block for block in blocks}
        done = 0
        try:
            while waiting:
                ended, _ = wait(waiting, PAUSE, FIRST_COMPLETED)
                for future in ended:
                    block = waiting.pop(future)
                    future.result()
                    done += block.stop - block.start
                if progress is not None and ended:
                    progress(done, users)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Factor:
    """A matrix that rows are multiplied with, again and again, in single precision.

    BLAS shares a product out to threads of its own. Where all cores have a block of users already,
    these wait for each other: on two busy cores decoding took eight times as long.

    >>> Factor(np.arange(6.0).reshape(2, 3)).after(np.array([[1, 1], [0, 2]]))
    array([[ 3.,  5.,  7.],
           [ 6.,  8., 10.]], dtype=float32)
    """

    def __init__(self, matrix: np.ndarray) -> None:
        inner, self._columns = matrix.shape
        panels = -(-self._columns // WIDE)
        wide = np.zeros((inner, panels * WIDE), np.float32)
        wide[:, : self._columns] = matrix
        self._panels = aligned((panels, inner, WIDE), np.float32)
        self._panels[:] = wide.reshape(inner, panels, WIDE).transpose(1, 0, 2)

    def after(self, rows: np.ndarray) -> np.ndarray:
        """rows @ matrix."""
        count = len(rows)
        queries = np.zeros((-(-count // ABREAST) * ABREAST, rows.shape[1]), np.float32)
        queries[:count] = rows
        out = np.empty((len(queries), self._panels.shape[0] * WIDE), np.float32)
        every(self._panels, queries, out)
        return out[:count, : self._columns]


def logistic_weights(features: np.ndarray, truth: np.ndarray, ridge: float = 1.0) -> np.ndarray:
    """Weights of features for the log-odds that `truth` is 1, by scikit-learn's Newton steps.

    Parameters: features, a row of numbers for each of them, no constant is added; truth, 0 or 1;
    ridge, on all weights.

    >>> logistic_weights(np.ones((1, 4)), np.array([1, 1, 1, 0]), ridge=1e-9).round(3)  # 3 to 1
    array([1.099])
    """
    from sklearn.linear_model import LogisticRegression  # slow to load, and only audits need it

    rows, counted = features.T, np.ones(len(truth))
    if truth.min() == truth.max():  # refused by it, unless a row of the other class weighs nothing
        rows, counted = np.concatenate([rows, rows[:1]]), np.append(counted, 0)
        truth = np.append(truth, 1 - truth[0])
    model = LogisticRegression(
        C=1 / ridge, solver="newton-cholesky", fit_intercept=False, tol=SLOPE
    )
    with warnings.catch_warnings():  # where features are one, L-BFGS takes over and arrives too
        warnings.filterwarnings("ignore", "Line search of Newton solver")
        return np.asarray(model.fit(rows, truth, counted).coef_[0])
