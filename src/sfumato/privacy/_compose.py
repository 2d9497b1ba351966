"""What a collection of losses costs together: the least of all bounds that a method knows."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import singledispatch

import numpy as np

from sfumato.privacy import _product, _renyi, calibrate
from sfumato.privacy._upward import pure_rho, round_up
from sfumato.privacy.loss import (
    Approximate,
    Flips,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Pure,
    Sampled,
)

__all__ = ["METHODS", "delta_at", "epsilon_at", "pure_sum", "rho_sum"]

METHODS = ("pld", "rdp", "zcdp")
Losses = Mapping[Loss, int]
MANY = 64  # kinds of losses that are composed one by one


def pure_sum(losses: Losses) -> float:
    """The exact sum of the pure epsilons, rounded up."""
    return _sum((loss.epsilon, count) for loss, count in losses.items())


def rho_sum(losses: Losses) -> float:
    """The exact sum of the rhos, rounded up."""
    return _sum((loss.rho, count) for loss, count in losses.items())


def epsilon_at(losses: Losses, delta: float, method: str) -> float:
    """The least epsilon at this delta; a method also knows what the simpler ones know."""
    best = pure_sum(losses)
    if delta == 0 or best == 0:
        return best
    losses = _gathered(losses)
    bound, slip = _basic(losses)
    left = delta - slip
    if left >= 0:
        best = min(best, bound)
    if left > 0:
        best = min(best, calibrate.concentrated_epsilon(left, _rho(losses)))
        if method != "zcdp":
            best = min(best, _renyi.epsilon_of(_curve(losses), left))
    return min(best, _tight_epsilon(losses, delta)) if method == "pld" else best


def delta_at(losses: Losses, epsilon: float, method: str) -> float:
    """The least delta at this epsilon, likewise."""
    if pure_sum(losses) <= epsilon:
        return 0.0
    losses = _gathered(losses)
    bound, slip = _basic(losses)
    best = slip if bound <= epsilon else 1.0
    best = min(best, slip + calibrate.concentrated_delta(epsilon, _rho(losses)))
    if method != "zcdp":
        best = min(best, slip + _renyi.delta_of(_curve(losses), epsilon))
    return min(best, _tight_delta(losses, epsilon)) if method == "pld" else best


def _basic(losses: Losses) -> tuple[float, float]:
    """Epsilons and deltas added up (Dwork and Roth 2014, theorem 3.16)."""
    each = [(_renyi.basic(loss), count) for loss, count in losses.items()]
    bound = _sum((one, count) for (one, _), count in each)
    return bound, _sum((slip, count) for (_, slip), count in each)


def _rho(losses: Losses) -> float:
    """With the delta of `_basic` set aside, an (epsilon, delta) is as good as a pure epsilon."""
    each = ((min(loss.rho, pure_rho(_renyi.basic(loss)[0])), n) for loss, n in losses.items())
    return _sum(each)


def _curve(losses: Losses) -> np.ndarray:
    curves = [count * _renyi.curve(loss) for loss, count in losses.items()]
    return np.asarray(np.sum(curves, axis=0) * (1 + 1e-12))


def _tight_epsilon(losses: Losses, delta: float) -> float:
    alone = _alone(losses)
    if alone is not None:
        return calibrate.gaussian_epsilon(
            delta, alone.variance, change=alone.change, cells=alone.cells
        )
    return max((side.epsilon(delta) for side in _product.distribution(losses)), default=math.inf)


def _tight_delta(losses: Losses, epsilon: float) -> float:
    alone = _alone(losses)
    if alone is not None:
        return calibrate.variance_delta(epsilon, alone.variance, alone.change, alone.cells)
    return max((side.delta(epsilon) for side in _product.distribution(losses)), default=1.0)


def _alone(losses: Losses) -> GaussianNoise | None:
    """The one Gaussian noise that is all there is; its exact mass needs no grid."""
    only = next(iter(losses)) if len(losses) == 1 else None
    return only if isinstance(only, GaussianNoise) else None


def _gathered(losses: Losses) -> Losses:
    """Uses of the same Gaussian noise are one use with more cells; many kinds become fewer."""
    coarse = len(losses) > MANY
    found: Counter[Loss] = Counter()
    for loss, count in losses.items():
        one, times = _unit(_dearer(loss) if coarse else loss)
        found[one] += times * count
    return Counter(dict(_many(one, count) for one, count in found.items()))


@singledispatch
def _unit(loss: Loss) -> tuple[Loss, int]:
    return loss, 1


@_unit.register
def _(loss: GaussianNoise) -> tuple[Loss, int]:
    return replace(loss, cells=1), loss.cells


@singledispatch
def _many(loss: Loss, count: int) -> tuple[Loss, int]:
    return loss, count


@_many.register
def _(loss: GaussianNoise, count: int) -> tuple[Loss, int]:
    return (replace(loss, cells=count), 1) if count < 2**63 else (loss, count)


@_unit.register
def _(loss: Flips) -> tuple[Loss, int]:
    return replace(loss, cells=1), loss.cells


@_many.register
def _(loss: Flips, count: int) -> tuple[Loss, int]:
    return (replace(loss, cells=count), 1) if count < 2**63 else (loss, count)


@singledispatch
def _dearer(loss: Loss) -> Loss:
    """A loss that costs up to one percent more, and that others are made equal to."""
    return loss


@_dearer.register
def _(loss: Pure) -> Loss:
    return replace(loss, epsilon=-float(_floor(-Fraction(loss.epsilon))))


@_dearer.register
def _(loss: LaplaceNoise) -> Loss:
    return replace(loss, scale=_floor(loss.scale))


@_dearer.register
def _(loss: GaussianNoise) -> Loss:
    return replace(loss, variance=_floor(loss.variance))


@_dearer.register
def _(loss: Flips) -> Loss:
    return replace(loss, probability=_floor(loss.probability))


@_dearer.register
def _(loss: Approximate) -> Loss:
    bound, delta = (-float(_floor(-Fraction(each))) for each in (loss.bound, loss.delta))
    return replace(loss, bound=bound, delta=min(delta, max(loss.delta, 0.5)))


@_dearer.register
def _(loss: Sampled) -> Loss:
    rate = min(-float(_floor(-Fraction(loss.rate))), 1 - 2**-20)
    return replace(loss, rate=max(rate, loss.rate), of=_dearer(loss.of))


def _floor(number: Fraction) -> Fraction:
    """Down to a multiple of the power of two that is 1/256 to 1/128 of it."""
    step = Fraction(2) ** (math.frexp(float(number))[1] - 8)
    return math.floor(number / step) * step


def _sum(parts: Iterable[tuple[float, int]]) -> float:
    """The exact sum of count times number, rounded up."""
    total = Fraction(0)
    for number, count in parts:
        if not math.isfinite(number):
            return math.inf
        total += Fraction(number) * count
    return round_up(total)
