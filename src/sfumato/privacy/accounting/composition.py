"""Composition of losses: the smallest of all bounds that a method of accounting gives."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch

import numpy as np

from sfumato.privacy.accounting import calibration as calibrate
from sfumato.privacy.accounting import pld, rdp
from sfumato.privacy.accounting.losses import (
    Approximate,
    Flips,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Pure,
    Sampled,
)
from sfumato.privacy.accounting.pld import has_pair
from sfumato.privacy.accounting.running_composition import Running
from sfumato.privacy.rounding import pure_rho, round_up

__all__ = ["METHODS", "Composition", "delta_at", "epsilon_at", "pure_sum", "rho_sum"]

METHODS = ("pld", "rdp", "zcdp")
Losses = Mapping[Loss, int]
MANY = 64  # kinds of losses that are composed one by one
EACH = 512  # that a running composition is built of one by one


def pure_sum(losses: Losses) -> float:
    """Sum the pure epsilons exactly, rounded up."""
    return _sum((loss.epsilon, count) for loss, count in losses.items())


def rho_sum(losses: Losses) -> float:
    """Sum the rhos exactly, rounded up."""
    return _sum((loss.rho, count) for loss, count in losses.items())


def epsilon_at(losses: Losses, delta: float, method: str) -> float:
    """Return the smallest epsilon at this delta; a method includes all simpler ones."""
    best = pure_sum(losses)
    if delta == 0 or best == 0:
        return best
    losses = _gathered(losses, 8 if len(losses) > MANY else 0)
    bound, slip = _basic(losses)
    left = delta - slip
    if left >= 0:
        best = min(best, bound)
    if left > 0:
        best = min(best, calibrate.concentrated_epsilon(left, _rho(losses)))
        if method != "zcdp":
            best = min(best, rdp.epsilon_of(_curve(losses), left))
    return min(best, _tight_epsilon(losses, delta)) if method == "pld" else best


def delta_at(losses: Losses, epsilon: float, method: str) -> float:
    """Return the smallest delta at this epsilon; a method includes all simpler ones."""
    if pure_sum(losses) <= epsilon:
        return 0.0
    losses = _gathered(losses, 8 if len(losses) > MANY else 0)
    bound, slip = _basic(losses)
    best = slip if bound <= epsilon else 1.0
    best = min(best, slip + calibrate.concentrated_delta(epsilon, _rho(losses)))
    if method != "zcdp":
        best = min(best, slip + rdp.delta_of(_curve(losses), epsilon))
    return min(best, _tight_delta(losses, epsilon)) if method == "pld" else best


@dataclass(frozen=True)
class Composition:
    """Immutable composition of many losses; `joined` returns it with one more.

    A product of distributions where all losses have one, and the sum of their Renyi curves; slip:
    the sum of deltas that stand beside the curves; terms: how many were added to it.
    """

    product: Running | None
    curve: np.ndarray
    slip: Fraction
    terms: int

    @classmethod
    def of(cls, losses: Losses) -> "Composition":
        """Compose losses; of more than EACH kinds, each is rounded to cost up to 1/256 more."""
        some = _gathered(losses, 9 if len(losses) > EACH else 0)
        slips = (Fraction(rdp.basic(loss)[1]) * count for loss, count in some.items())
        return cls(Running.of(some), _curve(some), sum(slips, Fraction(0)), len(some))

    def joined(self, loss: Loss) -> "Composition | None":
        """Compose one more loss; None where the product must be built anew."""
        product = None
        if self.product is not None and has_pair(loss):
            product = self.product.joined(loss)
            if product is None:
                return None
        slip = self.slip + Fraction(rdp.basic(loss)[1])
        return Composition(product, self.curve + rdp.curve(loss), slip, self.terms + 1)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at this delta (above 0), rounded up."""
        left = -round_up(self.slip - Fraction(delta))
        best = math.inf
        if left > 0:  # each addition rounds by less than a part in 2**52
            best = rdp.epsilon_of(self.curve * (1 + 2.0**-52 * self.terms), left)
        return best if self.product is None else min(best, self.product.epsilon(delta))

    def to_bytes(self) -> bytes:
        """Serialize the composition; the file adds its own checksum."""
        header = json.dumps({"slip": str(self.slip), "terms": self.terms}).encode()
        product = b"" if self.product is None else self.product.to_bytes()
        start = len(header).to_bytes(4, "little") + header
        return start + self.curve.astype("<f8").tobytes() + product

    @classmethod
    def from_bytes(cls, data: bytes) -> "Composition":
        """Read what `to_bytes` wrote."""
        start = 4 + int.from_bytes(data[:4], "little")
        header, end = json.loads(data[4:start]), start + 8 * rdp.ORDERS.size
        product = Running.from_bytes(data[end:]) if len(data) > end else None
        curve = np.frombuffer(data[start:end], "<f8")
        return cls(product, curve, Fraction(header["slip"]), header["terms"])


def _basic(losses: Losses) -> tuple[float, float]:
    """Add epsilons and deltas (Dwork and Roth 2014, Theorem 3.16: basic composition)."""
    each = [(rdp.basic(loss), count) for loss, count in losses.items()]
    bound = _sum((one, count) for (one, _), count in each)
    return bound, _sum((slip, count) for (_, slip), count in each)


def _rho(losses: Losses) -> float:
    """Sum the rhos; an (epsilon, delta) counts as pure epsilon beside the delta of `_basic`."""
    each = ((min(loss.rho, pure_rho(rdp.basic(loss)[0])), n) for loss, n in losses.items())
    return _sum(each)


def _curve(losses: Losses) -> np.ndarray:
    curves = [count * rdp.curve(loss) for loss, count in losses.items()]
    return np.asarray(np.sum(curves, axis=0) * (1 + 1e-12))


def _tight_epsilon(losses: Losses, delta: float) -> float:
    alone = _alone(losses)
    if alone is not None:
        return calibrate.gaussian_epsilon(
            delta, alone.variance, change=alone.change, cells=alone.cells
        )
    return max((side.epsilon(delta) for side in pld.distribution(losses)), default=math.inf)


def _tight_delta(losses: Losses, epsilon: float) -> float:
    alone = _alone(losses)
    if alone is not None:
        return calibrate.variance_delta(epsilon, alone.variance, alone.change, alone.cells)
    return max((side.delta(epsilon) for side in pld.distribution(losses)), default=1.0)


def _alone(losses: Losses) -> GaussianNoise | None:
    """Return the loss if it is a single Gaussian noise, whose exact mass needs no grid."""
    only = next(iter(losses)) if len(losses) == 1 else None
    return only if isinstance(only, GaussianNoise) else None


def _gathered(losses: Losses, bits: int) -> Losses:
    """Merge uses of the same noise into one use with more cells.

    With bits, many kinds become fewer: each costs up to a part in 2**(bits - 1) more.
    """
    found: Counter[Loss] = Counter()
    for loss, count in losses.items():
        one, times = _unit(_dearer(loss, bits) if bits else loss)
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
def _dearer(loss: Loss, bits: int) -> Loss:
    """Return a loss with rounded parameters that costs up to a part in 2**(bits - 1) more."""
    return loss


@_dearer.register
def _(loss: Pure, bits: int) -> Loss:
    return replace(loss, epsilon=_ceil(loss.epsilon, bits))


@_dearer.register
def _(loss: LaplaceNoise, bits: int) -> Loss:
    return replace(loss, scale=_floor(loss.scale, bits))


@_dearer.register
def _(loss: GaussianNoise, bits: int) -> Loss:
    return replace(loss, variance=_floor(loss.variance, bits))


@_dearer.register
def _(loss: Flips, bits: int) -> Loss:
    if loss.probability < Fraction(1, 4):
        return replace(loss, probability=_floor(loss.probability, bits))
    half = Fraction(1, 2)  # near it, how far off decides the cost
    return replace(loss, probability=half + _floor(loss.probability - half, bits))


@_dearer.register
def _(loss: Approximate, bits: int) -> Loss:
    bound, delta = _ceil(loss.bound, bits), _ceil(loss.delta, bits)
    return replace(loss, bound=bound, delta=min(delta, max(loss.delta, 0.5)))


@_dearer.register
def _(loss: Sampled, bits: int) -> Loss:
    rate = min(_ceil(loss.rate, bits), 1 - 2**-20)
    return replace(loss, rate=max(rate, loss.rate), of=_dearer(loss.of, bits))


def _floor(number: Fraction, bits: int) -> Fraction:
    """Round down to a number of `bits` leading bits."""
    step = Fraction(2) ** (math.frexp(float(number))[1] - bits)
    return math.floor(number / step) * step


def _ceil(number: float, bits: int) -> float:
    """Round up to a number of `bits` leading bits."""
    return -float(_floor(-Fraction(number), bits))


def _sum(parts: Iterable[tuple[float, int]]) -> float:
    """Sum count * number exactly, rounded up."""
    total = Fraction(0)
    for number, count in parts:
        if not math.isfinite(number):
            return math.inf
        total += Fraction(number) * count
    return round_up(total)
