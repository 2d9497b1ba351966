"""The product of many privacy loss distributions, on a grid, with every error counted.

A loss between two points of the grid is split over both so that its mass under P and under Q stays
as it is: the true pair is post-processing of that one (Doroshenko et al. 2022, "connect the dots").
The sums are taken by Fourier transforms; what these round, and the mass beyond their window, is
added to every delta.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch, wraps
from typing import Any

import numpy as np

from sfumato.privacy._gaussian_mass import ROUNDING
from sfumato.privacy._pld import directions, has_pair
from sfumato.privacy._renyi import basic
from sfumato.privacy.loss import Loss, Sampled

__all__ = [
    "FINEST",
    "GRID",
    "LARGEST",
    "TAIL",
    "TILTS",
    "Distribution",
    "Grid",
    "certain",
    "distribution",
    "on_grid",
    "spread",
    "summed",
    "unfolded",
]

GRID = 2**12  # points wanted on the way from 0 to the largest loss that matters
FINEST = 2**18  # and at most
LARGEST = 2**23  # points of a window; a wider one is left to simpler bounds
TAIL = 1e-20  # mass beyond the window
KEPT = 2**25  # bytes of results that each of two caches holds, whatever losses a file tells of
TILTS = np.array([0.5, 1, 2, 4, 7, 10, 16, 30, 60, 120])  # of the window's bound, per deviation


@dataclass(frozen=True)
class Grid:
    """The law of a loss: mass[i] at (lowest + i) step, so many times; `over`, its mass above 1."""

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
        """The log of the mean of exp(tilt point)."""
        held = np.flatnonzero(self.mass)
        tilted = tilt * (self.lowest + held)
        most = float(tilted.max())
        return most + math.log(float(self.mass[held] @ np.exp(tilted - most)))


@dataclass(frozen=True)
class Distribution:
    """The mass of a product at the losses step, 2 step, ...; lower ones matter to no epsilon.

    `scale` multiplies and `extra` is added to every delta.
    """

    step: float
    mass: np.ndarray
    scale: float
    extra: float

    def delta(self, epsilon: float) -> float:
        """The delta at this epsilon, rounded up."""
        first = math.floor(epsilon / self.step)
        losses = np.arange(first + 1, self.mass.size + 1) * self.step
        over = -float(self.mass[first:] @ np.expm1(np.minimum(epsilon - losses, 0.0)))
        return min(1.0, (max(over, 0.0) + self.extra) * self.scale)

    def epsilon(self, delta: float) -> float:
        """The least epsilon at this delta, rounded up; infinite where none is known."""
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
        """About the epsilon at this delta: sums from the top solve A - exp(epsilon) B = delta."""
        losses = np.arange(1, self.mass.size + 1) * self.step
        over = np.cumsum(self.mass[::-1])[::-1]
        under = np.cumsum((self.mass * np.exp(-losses))[::-1])[::-1]
        wanted = delta / self.scale - self.extra
        # The first point whose losses above it, with its own as epsilon, hold no more than that.
        with np.errstate(over="ignore", invalid="ignore"):  # a guess, which the caller checks
            at = int(np.argmax(over - np.exp(losses) * under <= wanted))
        if not under[at] > 0 or not over[at] > wanted:
            return float(losses[at])
        return math.log((over[at] - wanted) / under[at])


def _kept(size: Callable[[Any], int]) -> Callable[[Any], Any]:
    """A cache of a function of hashable values whose results take KEPT bytes at most together."""

    def keeping(function: Callable[..., Any]) -> Callable[..., Any]:
        known: OrderedDict[Hashable, Any] = OrderedDict()
        held, lock = 0, threading.Lock()

        @wraps(function)
        def call(*given: Hashable) -> Any:
            nonlocal held
            with lock:
                if given in known:
                    known.move_to_end(given)
                    return known[given]
            found = function(*given)
            with lock:
                if given not in known:
                    known[given] = found
                    held += size(found)
                while held > KEPT:
                    held -= size(known.popitem(last=False)[1])
            return found

        return call

    return keeping


def distribution(losses: Mapping[Loss, int]) -> list[Distribution]:
    """The product, when a unit leaves and when it joins; empty where a loss has no distribution."""
    if not losses or not all(map(has_pair, losses)):
        return []
    found: list[Distribution] = _sides(frozenset(losses.items()))
    return found


@_kept(lambda found: sum(each.mass.nbytes for each in found) + 200)
def _sides(counted: frozenset[tuple[Loss, int]]) -> list[Distribution]:
    losses = dict(counted)
    step, limit = _grid_of(losses)
    found = []
    for side in (0, 1) if any(isinstance(loss, Sampled) for loss in losses) else (0,):
        laws = [(on_grid(loss, side, step, limit), count) for loss, count in losses.items()]
        if any(law is None for law, _ in laws):
            return []
        repeated = [replace(law, times=law.times * count) for law, count in laws if law]
        made = _product(repeated, step)
        if made is None:
            return []
        found.append(made)
    return found


def _product(laws: list[Grid], step: float) -> Distribution | None:
    low, high = _window(laws)
    size = 1 << (high - low).bit_length()
    if size > LARGEST:
        return None
    total = np.ones(size // 2 + 1, complex)
    # |total| without one use of the law that is least there, and how large that one is.
    others, least = np.ones(total.size), np.ones(total.size)
    for law in laws:
        transform = np.fft.rfft(np.bincount(law.points % size, law.mass, size))
        total *= transform if law.times == 1 else transform**law.times
        height = np.abs(transform)
        others *= np.maximum(height, least)
        others *= 1 if law.times == 1 else height ** (law.times - 1)
        least = np.minimum(height, least)
    mass = unfolded(np.fft.irfft(total, size), low)
    error = _rounding(sum(law.times for law in laws), others)
    return summed(mass, low, step, certain(laws), error + TAIL)


def unfolded(folded: np.ndarray, low: int) -> np.ndarray:
    """The mass from a point on, of a sum that was taken modulo the size."""
    return np.roll(folded, -(low % folded.size))


def _rounding(uses: int, others: np.ndarray) -> float:
    """The most that all rounding adds to a sum of the mass.

    Every entry of a law's transform is off by e = 2**-50 log2(size) at most, and the product by e
    times the product of all others, for each use. The root of the mean square of that is the L2
    norm of the error of the mass (Parseval), and sqrt(size) times it bounds the sum.
    """
    size = 2 * others.size
    each = 2.0**-50 * math.log2(size)
    return math.sqrt(size) * each * (1 + uses) * math.sqrt(float((others**2).mean()))


def certain(laws: list[Grid]) -> tuple[float, float]:
    """The logs of the mass that is not at infinity, and of what it was divided by."""
    kept = sum(law.times * math.log1p(-law.infinity) for law in laws)
    return kept, sum(law.times * math.log(law.over) for law in laws)


def summed(
    mass: np.ndarray, low: int, step: float, logs: tuple[float, float], error: float
) -> Distribution:
    positive = np.concatenate([np.zeros(max(low - 1, 0)), mass[max(1 - low, 0) :]])
    scale = math.exp(min(700.0, logs[1])) * ROUNDING
    return Distribution(step, positive, scale, -math.expm1(logs[0]) + error)


def _window(laws: list[Grid]) -> tuple[int, int]:
    """Where all but TAIL of the sum lies, by Chernoff's bound at some tilts."""
    low = sum(law.times * law.lowest for law in laws)
    high = sum(law.times * (law.lowest + law.mass.size - 1) for law in laws)
    variance = sum(law.times * law.variance for law in laws)
    for tilt in TILTS / math.sqrt(variance + 1):
        above = sum(law.times * law.log_moment(tilt) for law in laws)
        below = sum(law.times * law.log_moment(-tilt) for law in laws)
        high = min(high, math.ceil((above - math.log(TAIL / 2)) / tilt))
        low = max(low, math.floor((math.log(TAIL / 2) - below) / tilt))
    return low, max(low, high)


def _grid_of(losses: Mapping[Loss, int]) -> tuple[float, float]:
    """A step that resolves the smallest loss, and a loss that the sum hardly passes."""
    bounds = [(basic(loss)[0], spread(loss), count) for loss, count in losses.items()]
    rho = sum(each * count for _, each, count in bounds)
    most = min(sum(bound * count for bound, _, count in bounds), rho + 9 * math.sqrt(2 * rho))
    least = min(min(bound, math.sqrt(2 * each)) for bound, each, _ in bounds)
    finest = max(min(most / GRID, least / 16), most / FINEST)
    return 2.0 ** math.floor(math.log2(finest)), most


@singledispatch
def spread(loss: Loss) -> float:
    """About half the variance of the loss; it only chooses the grid, so it need not be a bound."""
    bound = basic(loss)[0]
    return min(loss.rho, bound, bound * bound / 2)


@spread.register
def _(loss: Sampled) -> float:
    whole = spread(loss.of)
    return min(whole, loss.rate**2 * math.expm1(min(2 * whole, 100.0)) / 2)


@_kept(lambda found: 200 if found is None else found.mass.nbytes + 200)
def on_grid(loss: Loss, side: int, step: float, limit: float) -> Grid | None:
    """The losses on a grid of this step; None where that would have too many points."""
    pair = directions(loss)[side]
    # Losses may be taken higher than they are: far below 0 none of them matters.
    losses = np.maximum(pair.losses, -limit)
    below = np.floor(losses / step)
    share = np.clip(np.expm1(below * step - losses) / math.expm1(-step), 0.0, 1.0)
    if not float(below.max() - below.min()) < LARGEST:
        return None
    lowest = int(below.min())
    index = (below - lowest).astype(np.int64)
    mass = np.zeros(int(index.max()) + 2)
    mass += np.bincount(index, pair.masses * (1 - share), mass.size)
    mass += np.bincount(index + 1, pair.masses * share, mass.size)
    total = float(mass.sum()) + pair.infinity
    over = max(1.0, total)
    missing = max(0.0, 1 - total)
    return Grid(lowest, mass / over, (pair.infinity + missing) / over, over, pair.repeat)
