"""Privacy loss distributions: upper bounds for each kind of loss, and their product on a grid.

Every discretisation and rounding error is counted in the resulting (epsilon, delta).
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch, wraps
from typing import Any

import numpy as np

from sfumato.privacy.accounting.discrete_gaussian import DEVIATIONS, ROUNDING, masses
from sfumato.privacy.accounting.losses import (
    Concentrated,
    Flips,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Sampled,
)
from sfumato.privacy.accounting.rdp import basic

__all__ = [
    "FINEST",
    "GRID",
    "LARGEST",
    "TAIL",
    "TILTS",
    "Atoms",
    "Distribution",
    "Grid",
    "certain",
    "directions",
    "distribution",
    "half_variance",
    "has_pair",
    "on_grid",
    "summed",
    "unfolded",
]

BEYOND = 4 * math.exp(-(DEVIATIONS**2) / 2)


@dataclass(frozen=True)
class Atoms:
    """Values of log(P / Q) with their mass under P, for a dominating pair of distributions.

    infinity: mass where Q has none; width: how much lower a true loss may be; repeat: number of
    independent repetitions.
    """

    losses: np.ndarray
    masses: np.ndarray
    infinity: float = 0.0
    width: float = 0.0
    repeat: int = 1


@singledispatch
def has_pair(loss: Loss) -> bool:
    """Return whether a dominating pair is known; a loss given by rho alone has none."""
    return True


@has_pair.register
def _(loss: Concentrated) -> bool:
    return False


@has_pair.register
def _(loss: Sampled) -> bool:
    return has_pair(loss.of)


@singledispatch
def atoms(loss: Loss) -> Atoms:
    """Return the pair of binary randomized response, with mass delta at an infinite loss."""
    bound, delta = basic(loss)
    right = 1 / (1 + math.exp(-bound))
    both = np.array([right, math.exp(-bound) * right]) * (1 - delta)
    return Atoms(np.array([bound, -bound]), both, infinity=delta)


@atoms.register
def _(loss: GaussianNoise) -> Atoms:
    variance, shift = loss.cells * loss.variance, loss.cells * loss.change
    blocks = masses(loss.variance, loss.cells, -math.ceil(DEVIATIONS * math.sqrt(variance)), 2**19)
    slope = float(shift / variance)
    losses = slope * (blocks.steps + (blocks.size - 1) + float(blocks.first + shift / 2))
    return Atoms(losses, blocks.weights, BEYOND, slope * (blocks.size - 1))


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
    """The number of bits that are not flipped is binomial."""
    if loss.cells > 10_000:
        return replace(atoms(replace(loss, cells=1)), repeat=loss.cells)
    from scipy.special import gammaln

    n, intact = loss.cells, np.arange(loss.cells + 1.0)
    p, keep = float(loss.probability), float(1 - loss.probability)
    log = gammaln(n + 1) - gammaln(intact + 1) - gammaln(n - intact + 1)
    mass = np.exp(log + intact * math.log(keep) + (n - intact) * math.log(p))
    return Atoms(loss.each * (2 * intact - n), mass / mass.sum())


@singledispatch
def directions(loss: Loss) -> tuple[Atoms, Atoms]:
    """Return the dominating pairs for removing and for adding a unit, equal for noise."""
    both = atoms(loss)
    return both, both


@directions.register
def _(loss: Sampled) -> tuple[Atoms, Atoms]:
    """((1 - r) Q + r P, Q) and (Q, (1 - r) Q + r P).

    Zhu, Dong and Wang 2022, Theorem 11: dominating pairs of samples.
    """
    if isinstance(loss.of, Sampled):  # a sample of a sample
        rate = math.nextafter(loss.rate * loss.of.rate, 1)
        return directions(replace(loss.of, rate=rate))
    inner = atoms(loss.of)
    if inner.repeat > 1:  # only one joint pair can be sampled; that of the pure epsilon is one
        inner = atoms.dispatch(Loss)(loss.of)
    r, low = loss.rate, inner.losses - inner.width
    with np.errstate(divide="ignore"):
        under_q = np.exp(np.minimum(np.log(inner.masses) - low, 0.0))
    remaining = max(0.0, 1 - float(under_q.sum()))  # where P has no mass, or none that was retained
    leaves = Atoms(
        np.append(_mixed(inner.losses, r), _mixed(low.min(), r)),
        np.append(r * inner.masses + (1 - r) * under_q, (1 - r) * remaining),
        infinity=r * inner.infinity + BEYOND,
    )
    joins = Atoms(
        np.append(-_mixed(low, r), -math.log1p(-r)), np.append(under_q, remaining), infinity=BEYOND
    )
    return leaves, joins


def _mixed(losses: Any, rate: float) -> Any:
    """log(1 - rate + rate exp(loss)), without overflow."""
    return np.logaddexp(math.log1p(-rate), math.log(rate) + losses)


GRID = 2**12  # points wanted on the way from 0 to the largest loss that matters
FINEST = 2**18  # and at most
LARGEST = 2**23  # points of a window; a wider one is left to simpler bounds
TAIL = 1e-20  # mass beyond the window
CACHE_BYTES = 2**25  # of results in each of two caches, whatever losses a file contains
TILTS = np.array([0.5, 1, 2, 4, 7, 10, 16, 30, 60, 120])  # of the window's bound, per deviation


@dataclass(frozen=True)
class Grid:
    """Distribution of one loss: mass[i] at (lowest + i) * step, repeated `times` times.

    over: what the total mass was divided by where rounding made it exceed 1.
    """

    lowest: int
    mass: np.ndarray
    infinity: float
    over: float
    times: int

    @property
    def points(self) -> np.ndarray:
        return self.lowest + np.arange(self.mass.size)

    @property
    def variance(self) -> float:
        return float(self.mass @ (self.points - float(self.mass @ self.points)) ** 2)

    def log_moment(self, tilt: float) -> float:
        """Return the log of the mean of exp(tilt * point)."""
        nonzero = np.flatnonzero(self.mass)
        tilted = tilt * (self.lowest + nonzero)
        most = float(tilted.max())
        return most + math.log(float(self.mass[nonzero] @ np.exp(tilted - most)))


@dataclass(frozen=True)
class Distribution:
    """Mass of a product at the losses step, 2 step, ...; lower losses matter to no epsilon.

    `scale` multiplies and `extra` is added to every delta.
    """

    step: float
    mass: np.ndarray
    scale: float
    extra: float

    def delta(self, epsilon: float) -> float:
        """Return the delta at this epsilon, rounded up."""
        first = math.floor(epsilon / self.step)
        losses = np.arange(first + 1, self.mass.size + 1) * self.step
        over = -float(self.mass[first:] @ np.expm1(np.minimum(epsilon - losses, 0.0)))
        return min(1.0, (max(over, 0.0) + self.extra) * self.scale)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at this delta, rounded up; infinite where none is known."""
        low, high = 0.0, (self.mass.size + 1) * self.step
        if self.delta(high) > delta:
            return math.inf
        if self.delta(0.0) <= delta:
            return 0.0
        near = self._near(delta)
        for guess in (near * (1 - 4e-8), near * (1 + 4e-8)):
            if low < guess < high:
                low, high = (low, guess) if self.delta(guess) <= delta else (guess, high)
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def _near(self, delta: float) -> float:
        """Guess the epsilon at this delta: sums from the top solve A - exp(epsilon) B = delta."""
        losses = np.arange(1, self.mass.size + 1) * self.step
        over = np.cumsum(self.mass[::-1])[::-1]
        under = np.cumsum((self.mass * np.exp(-losses))[::-1])[::-1]
        wanted = delta / self.scale - self.extra
        # The first point above which, with its own loss as epsilon, is no more mass than that.
        with np.errstate(over="ignore", invalid="ignore"):  # a guess, which the caller checks
            at = int(np.argmax(over - np.exp(losses) * under <= wanted))
        if not under[at] > 0 or not over[at] > wanted:
            return float(losses[at])
        return math.log((over[at] - wanted) / under[at])


def _cached(size: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Cache results of a function of hashable values, CACHE_BYTES at most in total."""

    def keeping(function: Callable[..., Any]) -> Callable[..., Any]:
        known: OrderedDict[Hashable, Any] = OrderedDict()
        used, lock = 0, threading.Lock()

        @wraps(function)
        def call(*given: Hashable) -> Any:
            nonlocal used
            with lock:
                if given in known:
                    known.move_to_end(given)
                    return known[given]
            found = function(*given)
            with lock:
                if given not in known:
                    known[given] = found
                    used += size(found)
                while used > CACHE_BYTES:
                    used -= size(known.popitem(last=False)[1])
            return found

        return call

    return keeping


def distribution(losses: Mapping[Loss, int]) -> list[Distribution]:
    """Return the product for removing and for adding a unit; empty where a loss has no pair."""
    if not losses or not all(map(has_pair, losses)):
        return []
    found: list[Distribution] = _sides(frozenset(losses.items()))
    return found


@_cached(lambda found: sum(each.mass.nbytes for each in found) + 200)
def _sides(counted: frozenset[tuple[Loss, int]]) -> list[Distribution]:
    losses = dict(counted)
    step, limit = _grid_of(losses)
    found = []
    for side in (0, 1) if any(isinstance(loss, Sampled) for loss in losses) else (0,):
        grids = [(on_grid(loss, side, step, limit), count) for loss, count in losses.items()]
        if any(grid is None for grid, _ in grids):
            return []
        repeated = [replace(grid, times=grid.times * count) for grid, count in grids if grid]
        made = _product(repeated, step)
        if made is None:
            return []
        found.append(made)
    return found


def _product(grids: list[Grid], step: float) -> Distribution | None:
    low, high = _window(grids)
    size = 1 << (high - low).bit_length()
    if size > LARGEST:
        return None
    total = np.ones(size // 2 + 1, complex)
    # |total| without one use of the loss that is smallest there, and how large that one is.
    others, least = np.ones(total.size), np.ones(total.size)
    for grid in grids:
        transform = np.fft.rfft(np.bincount(grid.points % size, grid.mass, size))
        total *= transform if grid.times == 1 else transform**grid.times
        height = np.abs(transform)
        others *= np.maximum(height, least)
        others *= 1 if grid.times == 1 else height ** (grid.times - 1)
        least = np.minimum(height, least)
    mass = unfolded(np.fft.irfft(total, size), low)
    error = _rounding(sum(grid.times for grid in grids), others)
    return summed(mass, low, step, certain(grids), error + TAIL)


def unfolded(folded: np.ndarray, low: int) -> np.ndarray:
    """Shift a mass computed modulo its size so that it starts at the point `low`."""
    return np.roll(folded, -(low % folded.size))


def _rounding(uses: int, others: np.ndarray) -> float:
    """Bound what all rounding adds to a sum of the mass.

    Every entry of a transform is off by e = 2**-50 log2(size) at most, and the product by e
    times the product of all others, for each use. The root of the mean square of that is the L2
    norm of the error of the mass (Parseval), and sqrt(size) times it bounds the sum.
    """
    size = 2 * others.size
    each = 2.0**-50 * math.log2(size)
    return math.sqrt(size) * each * (1 + uses) * math.sqrt(float((others**2).mean()))


def certain(grids: list[Grid]) -> tuple[float, float]:
    """Return the logs of the mass that is not at infinity, and of what it was divided by."""
    finite = sum(grid.times * math.log1p(-grid.infinity) for grid in grids)
    return finite, sum(grid.times * math.log(grid.over) for grid in grids)


def summed(
    mass: np.ndarray, low: int, step: float, logs: tuple[float, float], error: float
) -> Distribution:
    positive = np.concatenate([np.zeros(max(low - 1, 0)), mass[max(1 - low, 0) :]])
    scale = math.exp(min(700.0, logs[1])) * ROUNDING
    return Distribution(step, positive, scale, -math.expm1(logs[0]) + error)


def _window(grids: list[Grid]) -> tuple[int, int]:
    """Return the interval that contains all but TAIL of the sum, by Chernoff bounds."""
    low = sum(grid.times * grid.lowest for grid in grids)
    high = sum(grid.times * (grid.lowest + grid.mass.size - 1) for grid in grids)
    variance = sum(grid.times * grid.variance for grid in grids)
    for tilt in TILTS / math.sqrt(variance + 1):
        above = sum(grid.times * grid.log_moment(tilt) for grid in grids)
        below = sum(grid.times * grid.log_moment(-tilt) for grid in grids)
        high = min(high, math.ceil((above - math.log(TAIL / 2)) / tilt))
        low = max(low, math.floor((math.log(TAIL / 2) - below) / tilt))
    return low, max(low, high)


def _grid_of(losses: Mapping[Loss, int]) -> tuple[float, float]:
    """Return a step that resolves the smallest loss, and a loss that the sum hardly exceeds."""
    bounds = [(basic(loss)[0], half_variance(loss), count) for loss, count in losses.items()]
    rho = sum(each * count for _, each, count in bounds)
    most = min(sum(bound * count for bound, _, count in bounds), rho + 9 * math.sqrt(2 * rho))
    least = min(min(bound, math.sqrt(2 * each)) for bound, each, _ in bounds)
    finest = max(min(most / GRID, least / 16), most / FINEST)
    return 2.0 ** math.floor(math.log2(finest)), most


@singledispatch
def half_variance(loss: Loss) -> float:
    """Return about half the variance of the loss; it only chooses the grid, so it is no bound."""
    bound = basic(loss)[0]
    return min(loss.rho, bound, bound * bound / 2)


@half_variance.register
def _sampled_deviation(loss: Sampled) -> float:
    inner = half_variance(loss.of)
    return min(inner, loss.rate**2 * math.expm1(min(2 * inner, 100.0)) / 2)


@_cached(lambda found: 200 if found is None else found.mass.nbytes + 200)
def on_grid(loss: Loss, side: int, step: float, limit: float) -> Grid | None:
    """Discretise a loss on a grid of this step; None where that would need too many points."""
    pair = directions(loss)[side]
    # Losses may be taken higher than they are: far below 0 none of them matters.
    losses = np.maximum(pair.losses, -limit)
    below = np.floor(losses / step)
    upper = np.clip(np.expm1(below * step - losses) / math.expm1(-step), 0.0, 1.0)
    if not float(below.max() - below.min()) < LARGEST:
        return None
    lowest = int(below.min())
    index = (below - lowest).astype(np.int64)
    mass = np.zeros(int(index.max()) + 2)
    mass += np.bincount(index, pair.masses * (1 - upper), mass.size)
    mass += np.bincount(index + 1, pair.masses * upper, mass.size)
    total = float(mass.sum()) + pair.infinity
    over = max(1.0, total)
    missing = max(0.0, 1 - total)
    return Grid(lowest, mass / over, (pair.infinity + missing) / over, over, pair.repeat)
