"""Renyi differential privacy: the curve of each loss, and the epsilon or delta of a curve."""

import math
from functools import singledispatch
from typing import Any

import numpy as np

from sfumato.privacy.accounting.discrete_gaussian import ROUNDING
from sfumato.privacy.accounting.losses import (
    Approximate,
    Concentrated,
    Flips,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Pure,
    Sampled,
)

__all__ = ["ORDERS", "basic", "curve", "delta_of", "epsilon_of"]

ORDERS = 1 + np.geomspace(1e-3, 1e6, 1500)
MAX_INTEGER_ORDER = 256  # the largest order at which a sample is expanded
MIRRORED = (Flips, GaussianNoise, LaplaceNoise, Pure)  # a reflection swaps their worst pairs


@singledispatch
def basic(loss: Loss) -> tuple[float, float]:
    """Return the (epsilon, delta) that basic composition adds up."""
    return loss.epsilon, 0.0


@basic.register
def _(loss: Approximate) -> tuple[float, float]:
    return loss.bound, loss.delta


@basic.register
def _(loss: Sampled) -> tuple[float, float]:
    """Balle, Barthe and Gaboardi 2018, Theorem 8: amplification by Poisson sampling."""
    bound, delta = basic(loss.of)
    return loss.amplified(bound), loss.rate * delta


@singledispatch
def curve(loss: Loss) -> np.ndarray:
    """Return the Renyi divergences at ORDERS, apart from the delta of `basic`.

    Pure epsilon: binary randomized response with odds exp(epsilon) dominates every pure mechanism;
    (epsilon, delta) is that with probability 1 - delta (Kairouz, Oh and Viswanath 2015: reduction
    to randomized response).
    """
    return _answers(basic(loss)[0])


@curve.register
def _(loss: Concentrated) -> np.ndarray:
    return ORDERS * loss.rho


@curve.register
def _(loss: GaussianNoise) -> np.ndarray:
    return ORDERS * loss.rho


@curve.register
def _(loss: Flips) -> np.ndarray:
    return loss.cells * _answers(loss.each)


@curve.register
def _(loss: LaplaceNoise) -> np.ndarray:
    """Per cell the sum of p(x)**a p(x - c)**(1 - a) in three parts: x <= 0, between, x >= c."""
    t, c = float(1 / loss.scale), float(loss.change)
    if not t * c < 700:
        return loss.cells * _answers(t * c * ROUNDING)
    tilt = 2 * ORDERS - 1
    left, right = (ORDERS - 1) * t * c, -ORDERS * t * c
    # The terms between fall by exp(-t tilt) from each x to the next, and there are c - 1 of them.
    between = left - t * tilt + _log1mexp(t * tilt * (c - 1)) - _log1mexp(t * tilt)
    between = np.where(c > 1, between + _log1mexp(t), -np.inf)
    total = np.logaddexp(np.logaddexp(left, right), between) - math.log1p(math.exp(-t))
    return loss.cells * _bounded(total, t * c * ROUNDING)


@curve.register
def _(loss: Sampled) -> np.ndarray:
    """Divergences are quasi-convex: a sample costs no more than all units; or by `basic`."""
    bound, delta = basic(loss)
    inner = curve(loss.of) if delta == 0 else math.inf
    found = np.asarray(np.minimum(_answers(bound), inner))
    if not isinstance(loss.of, MIRRORED):
        return found
    return np.asarray(np.minimum(found, _sampled(loss.rate, curve(loss.of))))


def _sampled(rate: float, inner: np.ndarray) -> np.ndarray:
    """Return the curve of a Poisson sample, where a reflection swaps the dominating pair P and Q.

    At an integer order a, E_Q (1 - r + r P / Q)**a is the sum over k of (a choose k) (1 - r)**(a -
    k) r**k exp((k - 1) D_k), and the reflection makes the other direction no worse (Mironov, Talwar
    and Zhang 2019, Theorem 5 and section 3.3: sampled mechanisms). Curves grow with the order: an
    order that is no integer takes the next one.
    """
    from scipy.special import gammaln

    k = np.arange(MAX_INTEGER_ORDER + 1.0)
    at = np.searchsorted(ORDERS, k[2:])  # the first order that is not below
    moments = np.concatenate([[0.0, 0.0], (k[2:] - 1) * inner[at]])
    logs = k * math.log(rate) - gammaln(k + 1) + moments
    out = np.full(MAX_INTEGER_ORDER + 1, math.inf)
    for a in range(2, MAX_INTEGER_ORDER + 1):
        unsampled = (a - k[: a + 1]) * math.log1p(-rate) - gammaln(a - k[: a + 1] + 1)
        terms = logs[: a + 1] + unsampled + gammaln(a + 1.0)
        most = float(terms.max())
        total = most + math.log(float(np.exp(terms - most).sum()))
        out[a] = (max(total, 0.0) + 1e-11 * (1 + a)) / (a - 1)
    integer_order = np.ceil(ORDERS).astype(np.int64)
    return np.where(
        integer_order <= MAX_INTEGER_ORDER,
        out[np.minimum(integer_order, MAX_INTEGER_ORDER)],
        math.inf,
    )


def epsilon_of(curve: np.ndarray, delta: float) -> float:
    """Convert a curve to epsilon at the best order (Canonne et al. 2020, Proposition 12)."""
    more = ORDERS - 1
    fixed = -math.log(delta) - np.log(more) - ORDERS * np.log1p(1 / more)
    with np.errstate(invalid="ignore"):
        least = float(np.nanmin(curve + fixed / more))
    return max(0.0, least + abs(least) * 1e-9)


def delta_of(curve: np.ndarray, epsilon: float) -> float:
    """Convert a curve to delta by the same proposition."""
    more = ORDERS - 1
    log = more * (curve - epsilon) - np.log(more) - ORDERS * np.log1p(1 / more)
    least = float(np.min(log + np.abs(log) * 1e-9))
    return math.exp(min(least, 0.0)) + 1e-300


def _answers(epsilon: float) -> np.ndarray:
    """Return the curve of binary randomized response with odds exp(epsilon)."""
    if not epsilon < 1e15:
        return np.full(ORDERS.size, epsilon)
    log = np.logaddexp(ORDERS * epsilon, (1 - ORDERS) * epsilon)
    return _bounded(log - np.logaddexp(0.0, epsilon), epsilon)


def _bounded(log: np.ndarray, epsilon: float) -> np.ndarray:
    """Divide log moments by a - 1, rounded up, but at most what pure epsilon gives."""
    slack = 1e-14 * (1 + ORDERS * epsilon)
    return np.minimum((log + slack) / (ORDERS - 1), np.minimum(epsilon, ORDERS * epsilon**2 / 2))


def _log1mexp(x: Any) -> Any:
    """Compute log(1 - exp(-x)) for x > 0, and minus infinity at 0."""
    with np.errstate(divide="ignore"):
        return np.log(-np.expm1(-np.asarray(x)))
