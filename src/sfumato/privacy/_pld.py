"""The privacy loss distribution of each kind of loss, never below the true one."""

import math
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np

from sfumato.privacy._gaussian_mass import REACH, masses
from sfumato.privacy._renyi import basic
from sfumato.privacy.loss import Concentrated, Flips, GaussianNoise, LaplaceNoise, Loss, Sampled

__all__ = ["Atoms", "directions", "has_pair"]

BEYOND = 4 * math.exp(-(REACH**2) / 2)


@dataclass(frozen=True)
class Atoms:
    """Values of log(P / Q) with their mass under P, of a pair of laws that is the worst.

    infinity: mass where Q has none; width: how much lower a true loss may be; repeat: how many
    independent times.
    """

    losses: np.ndarray
    masses: np.ndarray
    infinity: float = 0.0
    width: float = 0.0
    repeat: int = 1


@singledispatch
def has_pair(loss: Loss) -> bool:
    """Whether a worst pair of laws is known; a rho alone has none."""
    return True


@has_pair.register
def _(loss: Concentrated) -> bool:
    return False


@has_pair.register
def _(loss: Sampled) -> bool:
    return has_pair(loss.of)


@singledispatch
def atoms(loss: Loss) -> Atoms:
    """The pair of `_renyi.curve`: two answers, and the chance of telling all."""
    bound, delta = basic(loss)
    right = 1 / (1 + math.exp(-bound))
    both = np.array([right, math.exp(-bound) * right]) * (1 - delta)
    return Atoms(np.array([bound, -bound]), both, infinity=delta)


@atoms.register
def _(loss: GaussianNoise) -> Atoms:
    spread, shift = loss.cells * loss.variance, loss.cells * loss.change
    law = masses(loss.variance, loss.cells, -math.ceil(REACH * math.sqrt(spread)), 2**19)
    slope = float(shift / spread)
    losses = slope * (law.steps + (law.size - 1) + float(law.first + shift / 2))
    return Atoms(losses, law.weights, BEYOND, slope * (law.size - 1))


@atoms.register
def _(loss: LaplaceNoise) -> Atoms:
    """One cell: all x <= 0 have the largest loss, all x >= change the least; blocks between."""
    t, c = float(1 / loss.scale), loss.change
    size = -(-c // 2**16)
    start = np.arange(1, c, size, dtype=float)
    count = np.minimum(size, c - start)
    inner = np.exp(-t * start) * -np.expm1(-t * count)
    mass = np.concatenate([[1.0], inner, [math.exp(-t * c)]]) / (1 + math.exp(-t))
    losses = np.concatenate([[t * c], t * (c - 2 * start), [-t * c]])
    return Atoms(losses, mass, width=2 * t * (size - 1), repeat=loss.cells)


@atoms.register
def _(loss: Flips) -> Atoms:
    """So many of the bits stay as they are: binomial."""
    if loss.cells > 10_000:
        return replace(atoms(replace(loss, cells=1)), repeat=loss.cells)
    from scipy.special import gammaln

    n, kept = loss.cells, np.arange(loss.cells + 1.0)
    p, keep = float(loss.probability), float(1 - loss.probability)
    log = gammaln(n + 1) - gammaln(kept + 1) - gammaln(n - kept + 1)
    mass = np.exp(log + kept * math.log(keep) + (n - kept) * math.log(p))
    return Atoms(loss.each * (2 * kept - n), mass / mass.sum())


@singledispatch
def directions(loss: Loss) -> tuple[Atoms, Atoms]:
    """The worst pair when a unit leaves, and when it joins: noise does not tell them apart."""
    both = atoms(loss)
    return both, both


@directions.register
def _(loss: Sampled) -> tuple[Atoms, Atoms]:
    """((1 - r) Q + r P, Q) and (Q, (1 - r) Q + r P): Zhu, Dong and Wang 2022, theorem 11."""
    if isinstance(loss.of, Sampled):  # a sample of a sample
        rate = math.nextafter(loss.rate * loss.of.rate, 1)
        return directions(replace(loss.of, rate=rate))
    whole = atoms(loss.of)
    if whole.repeat > 1:  # only one joint law can be sampled; its pure epsilon is such a law
        whole = atoms.dispatch(Loss)(loss.of)
    r, low = loss.rate, whole.losses - whole.width
    with np.errstate(divide="ignore"):
        under_q = np.exp(np.minimum(np.log(whole.masses) - low, 0.0))
    rest = max(0.0, 1 - float(under_q.sum()))  # where P has no mass, or none that was kept
    leaves = Atoms(
        np.append(_mixed(whole.losses, r), _mixed(low.min(), r)),
        np.append(r * whole.masses + (1 - r) * under_q, (1 - r) * rest),
        infinity=r * whole.infinity + BEYOND,
    )
    joins = Atoms(
        np.append(-_mixed(low, r), -math.log1p(-r)), np.append(under_q, rest), infinity=BEYOND
    )
    return leaves, joins


def _mixed(losses: Any, rate: float) -> Any:
    """log(1 - rate + rate exp(loss)), without overflow."""
    return np.logaddexp(math.log1p(-rate), math.log(rate) + losses)
