"""Numerics of attacks: log-odds, entropies, checked arrays, threads over users, logistic fits."""

import math
import os
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from sfumato.core.validation import integer, optional
from sfumato.kernels import top_k
from sfumato.kernels.alignment import aligned

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

SLOPE = 1e-7  # gradient tolerance of the mean logistic loss
LEAST = 1e-6  # probabilities are clipped to this: sample means of a chain can be 0 or 1


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """log(p / (1 - p)), with probabilities clipped so that evidence can still change them.

    >>> log_odds(np.array([0.5, 1.0])).round(2)
    array([ 0.  , 13.82])
    """
    probabilities = np.clip(probabilities, LEAST, 1 - LEAST)
    return np.asarray(np.log(probabilities) - np.log1p(-probabilities))


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-x); SciPy's expit is as fast for float64 and five times slower for float32.

    >>> sigmoid(np.array([-1e4, 0.0]))
    array([0. , 0.5])
    """
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def within(owner: str, name: str, values: Any, low: float, high: float = math.inf) -> np.ndarray:
    """Values as float64; ValueError unless all lie from low to high, both included.

    >>> within("flips", "rate", [0, 0.5], 0, 1)
    array([0. , 0.5])
    """
    try:
        given = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{owner}: {name} must be numbers.") from None
    if not bool(((given >= low) & (given <= high)).all()):  # also false for NaN
        top = f" to {high:g}" if high < math.inf else " up"
        raise ValueError(f"{owner}: {name} must be numbers from {low:g}{top}.")
    return given


def binary_entropy(chance: Any) -> np.ndarray:
    """Compute the entropy of a Bernoulli distribution.

    Parameters
    ----------
    chance : array_like
        Probability of success, from 0 to 1.

    Returns
    -------
    ndarray
        Entropy in nats, from 0 to log 2.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 3.3, equation (3.17) (binary entropy).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> binary_entropy([0, 0.5, 1]).round(4)
    array([0.    , 0.6931, 0.    ])
    """
    from scipy.special import xlog1py, xlogy

    chance = within("binary_entropy", "chance", chance, 0, 1)
    return np.asarray(np.abs(xlogy(chance, chance) + xlog1py(1 - chance, -chance)))


def binary_divergence(chance: Any, other: Any) -> np.ndarray:
    """Compute the KL divergence of two Bernoulli distributions.

    Parameters
    ----------
    chance : array_like
        Probability of success under the first distribution, from 0 to 1.
    other : array_like
        Probability of success under the second distribution, from 0 to 1.

    Returns
    -------
    ndarray
        Divergence of the first from the second in nats, at least 0; infinite where the second gives
        probability 0 to an outcome that the first allows.

    Examples
    --------
    >>> binary_divergence(0.5, [0.5, 0.25, 1]).round(4)
    array([0.    , 0.1438,    inf])
    """
    from scipy.special import rel_entr

    chance = within("binary_divergence", "chance", chance, 0, 1)
    other = within("binary_divergence", "other", other, 0, 1)
    divergence = rel_entr(chance, other) + rel_entr(1 - chance, 1 - other)
    return np.asarray(np.maximum(divergence, 0))


Progress = Callable[[int, int], Any]
THREADS = optional(integer(1, 1024))
PAUSE = 0.1  # seconds between two checks for Ctrl-C


def in_blocks(
    users: int,
    size: int,
    work: Callable[[slice], None],
    threads: int | None,
    progress: Progress | None,
) -> None:
    """Call work for each block of `size` users on threads; report progress as blocks end.

    An error cancels the blocks that have not begun and is raised; so does Ctrl-C, after the running
    blocks have ended. The result does not depend on the number of threads.
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
    """Number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Factor:
    """A fixed right-hand matrix for repeated float32 products on the calling thread alone.

    BLAS would split each product over threads of its own. Where all cores already work on a block
    of users, these wait for each other: on two busy cores decoding took eight times as long.

    >>> Factor(np.arange(6.0).reshape(2, 3)).after(np.array([[1, 1], [0, 2]]))
    array([[ 3.,  5.,  7.],
           [ 6.,  8., 10.]], dtype=float32)
    """

    def __init__(self, matrix: np.ndarray) -> None:
        inner, self._columns = matrix.shape
        panels = -(-self._columns // top_k.WIDE)
        wide = np.zeros((inner, panels * top_k.WIDE), np.float32)
        wide[:, : self._columns] = matrix
        self._panels = aligned((panels, inner, top_k.WIDE), np.float32)
        self._panels[:] = wide.reshape(inner, panels, top_k.WIDE).transpose(1, 0, 2)

    def after(self, rows: np.ndarray) -> np.ndarray:
        """rows @ matrix."""
        count = len(rows)
        queries = np.zeros((-(-count // top_k.ABREAST) * top_k.ABREAST, rows.shape[1]), np.float32)
        queries[:count] = rows
        out = np.empty((len(queries), self._panels.shape[0] * top_k.WIDE), np.float32)
        top_k.every(self._panels, queries, out)
        return out[:count, : self._columns]


def logistic_weights(features: np.ndarray, truth: np.ndarray, ridge: float = 1.0) -> np.ndarray:
    """Weights of a logistic regression for `truth` = 1, by scikit-learn's Newton steps.

    Takes features x samples (no constant is added), labels 0 or 1 and the ridge penalty on all
    weights.

    >>> logistic_weights(np.ones((1, 4)), np.array([1, 1, 1, 0]), ridge=1e-9).round(3)  # 3 to 1
    array([1.099])
    """
    from sklearn.linear_model import LogisticRegression  # slow to import, and only audits need it

    rows, counted = features.T, np.ones(len(truth))
    if truth.min() == truth.max():  # scikit-learn needs both classes: add a row of weight 0
        rows, counted = np.concatenate([rows, rows[:1]]), np.append(counted, 0)
        truth = np.append(truth, 1 - truth[0])
    model = LogisticRegression(
        C=1 / ridge, solver="newton-cholesky", fit_intercept=False, tol=SLOPE
    )
    with warnings.catch_warnings():  # for collinear features L-BFGS takes over and converges
        warnings.filterwarnings("ignore", "Line search of Newton solver")
        return np.asarray(model.fit(rows, truth, counted).coef_[0])
