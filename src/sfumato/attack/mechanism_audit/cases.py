"""Every shipped mechanism by name, with the two neighbouring inputs that reveal most about it."""

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.core.validation import one_of, positive
from sfumato.privacy import mechanisms

__all__ = ["CASES", "named"]

Case = tuple[mechanisms.Mechanism, tuple[Any, Any]]
DELTA = 1e-6  # default delta of mechanisms that need one
LOW = Fraction(1, 8)  # noise of a median with which most answers are exact
MANY = 2**17  # equal rows, enough for that at every epsilon


def named(name: str, epsilon: float, delta: float | None = None) -> Case:
    """Mechanism of this name and epsilon (and delta, if it needs one), with two neighbours.

    >>> mechanism, neighbours = named("laplace", 0.5)
    >>> mechanism.loss().epsilon, neighbours
    (0.5, (0, 1))
    """
    name = one_of(tuple(CASES)).check("audit", "mechanism", name)
    epsilon = positive.check("audit", "epsilon", epsilon)
    return CASES[name](epsilon, DELTA if delta is None else delta)


def _exponential(epsilon: float, delta: float) -> Case:
    # One favourite among many: its weight rises while the sum of all weights falls.
    others = 15
    mechanism = mechanisms.Exponential(1, epsilon, candidates=1 + others)
    return mechanism, ([0] + [1] * others, [1] + [0] * others)


def _posterior_sample(epsilon: float, delta: float) -> Case:
    # Rows that agree leave little to the other parameter, and one more takes nearly all it can;
    # with still more of them it would be sampled too rarely to be counted.
    rows = [1] * min(64, math.ceil(2 / epsilon))
    model = mechanisms.BetaBernoulli(0.25, 2)
    return mechanisms.PosteriorSample(model, epsilon), (rows, [*rows, 1])


def _smooth_median(epsilon: float, delta: float) -> Case:
    # One more of many equal rows lowers the noise by a step; at a low scale the probability of any
    # other answer falls by nearly the square of it, and is still large enough to be counted.
    mechanism = mechanisms.SmoothMedian(epsilon, 0, 2)
    rows = bisect_left(range(MANY), True, key=lambda n: mechanism.scale([1] * n) <= LOW)
    return mechanism, ([1] * (rows - 1), [1] * rows)


# Two candidates, level or apart: the loser's probability falls by the full factor e^epsilon.
LEVEL_OR_APART = ([0, 0], [1, -1])

CASES: dict[str, Callable[[float, float], Case]] = {
    "binary-response": lambda epsilon, delta: (mechanisms.BinaryResponse(epsilon), (0, 1)),
    "binary-tree-counter": lambda epsilon, delta: (
        mechanisms.BinaryTreeCounter(epsilon, horizon=4),
        ([0, 0, 0, 0], [1, 0, 0, 0]),
    ),
    "exponential": _exponential,
    "gaussian": lambda epsilon, delta: (mechanisms.Gaussian(1, epsilon, delta), (0, 1)),
    "kary-response": lambda epsilon, delta: (mechanisms.KaryResponse(4, epsilon), (0, 1)),
    "laplace": lambda epsilon, delta: (mechanisms.Laplace(1, epsilon), (0, 1)),
    "pan-private-counter": lambda epsilon, delta: (
        mechanisms.PanPrivateCounter(epsilon / 2, epsilon / 2),
        (([0], [0]), ([0], [1])),
    ),
    "pan-private-distinct": lambda epsilon, delta: (
        # A less noisy bit in the state lets the output leak more of its budget.
        mechanisms.PanPrivateDistinct(0.8 * epsilon, 0.2 * epsilon, cells=2),
        (([], []), ([7], [7])),
    ),
    "permute-and-flip": lambda epsilon, delta: (
        mechanisms.PermuteAndFlip(1, epsilon, candidates=2),
        LEVEL_OR_APART,
    ),
    "report-noisy-max": lambda epsilon, delta: (
        mechanisms.ReportNoisyMax(1, epsilon, candidates=2),
        LEVEL_OR_APART,
    ),
    "posterior-sample": _posterior_sample,
    "sample-and-aggregate": lambda epsilon, delta: (
        mechanisms.SampleAndAggregate(np.sum, epsilon, 1, 0, 1),
        ([0], [0, 1]),
    ),
    "smooth-median": _smooth_median,
}
