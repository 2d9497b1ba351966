"""Points drawn from a function that only has values: by rejection, or by a moving population.

Weighted places whose kernel sums are those of a sketch: the smoothing of the kernel undone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from sfumato.core.bounds import Pair
from sfumato.density.evaluation_grid import Field
from sfumato.sketch.kernel_sums.radial_kernels import profile

__all__ = ["Match", "by_population", "by_rejection", "matched"]

Values = Callable[[np.ndarray], np.ndarray]

CELLS = 2**14  # of the envelope, at most
PROBES = 4  # values looked at in each cell of it
MARGIN = 1.25  # what a cell's height stands above the largest value seen in it
TRIES = 400  # proposals for each point wanted, before rejection gives up
PARTICLES = 1024  # of a population, at least
MOVES = 3  # of each particle at a temperature
LAST_MOVES = 24  # at the last one
LEAST = 1e-100  # of the largest value seen: what counts as none


def by_rejection(values: Values, bounds: Pair, size: int, rng: np.random.Generator) -> np.ndarray:
    """Points with density proportional to the values' positive part, within the bounds.

    The envelope is constant on cells of the box, a quarter above the largest of four values in
    each. Where a later value is higher still, the cell is raised and all points are drawn anew, so
    that no accepted point came from an envelope that is known to be too low.
    Raises RuntimeError where too few proposals are accepted, as happens in many dimensions.

    Caffo, Booth and Davis 2002: rejection with an empirical supremum.
    """
    envelope = _Envelope.of(values, bounds, rng)
    kept: list[np.ndarray] = []
    found, left = 0, TRIES * max(size, 64)
    while found < size:
        if left <= 0:
            raise RuntimeError(
                "sample: rejection accepted too few proposals; take method='mcmc', or a larger "
                "bandwidth."
            )
        tried = min(max(4 * (size - found), 1024), 2**16)
        accepted, raised = envelope.tried(values, tried, rng)
        left -= tried
        kept = [] if raised else [*kept, accepted]
        found = sum(map(len, kept))
    return np.concatenate([*kept, np.empty((0, len(bounds[0])))])[:size]


@dataclass
class _Envelope:
    """A function that is constant on equal cells of a box."""

    low: np.ndarray
    sides: np.ndarray
    shape: tuple[int, ...]
    heights: np.ndarray

    @classmethod
    def of(cls, values: Values, bounds: Pair, rng: np.random.Generator) -> "_Envelope":
        low, high = np.array(bounds[0]), np.array(bounds[1])
        each = max(1, int(CELLS ** (1 / low.size) + 1e-9))
        shape = (each,) * low.size
        envelope = cls(low, (high - low) / each, shape, np.zeros(each**low.size))
        cells = np.repeat(np.arange(envelope.heights.size), PROBES)
        seen = _positive(values, envelope.points(cells, rng))
        envelope.heights = MARGIN * seen.reshape(-1, PROBES).max(axis=1)
        # A cell of only zeros may still hold mass: it keeps a small chance to be looked at.
        envelope.heights += max(envelope.heights.mean(), 1e-300) / 100
        return envelope

    def points(self, cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """A uniform point of each of these cells."""
        if self.heights.size == 1:  # of more columns than NumPy has axes
            return np.asarray(self.low + rng.random((cells.size, self.low.size)) * self.sides)
        positions = np.column_stack(np.unravel_index(cells, self.shape))
        return np.asarray(self.low + (positions + rng.random(positions.shape)) * self.sides)

    def tried(
        self, values: Values, count: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, bool]:
        """The proposals that are accepted, and whether one was above the envelope."""
        ends = np.cumsum(self.heights)
        cells = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
        cells = np.minimum(cells, self.heights.size - 1)
        points = self.points(cells, rng)
        seen = _positive(values, points)
        accepted = rng.random(count) * self.heights[cells] < seen
        above = seen > self.heights[cells]
        np.maximum.at(self.heights, cells[above], MARGIN * seen[above])
        return points[accepted], bool(above.any())


def by_population(values: Values, bounds: Pair, size: int, rng: np.random.Generator) -> np.ndarray:
    """Points with density nearly proportional to the values' positive part, in any dimension.

    A population starts uniform in the box and follows the values' powers from 0 to 1, each the
    next one that leaves half of it effective: resampled, then moved by Metropolis steps along
    differences of the other half of the population. The points are not quite independent.

    Del Moral, Doucet and Jasra 2006; steps: ter Braak 2006, in halves as Goodman and Weare 2010.
    """
    low, high = np.array(bounds[0]), np.array(bounds[1])
    count = 2 * math.ceil(max(size, PARTICLES) / 2)
    points = low + rng.random((count, low.size)) * (high - low)
    logs = _logs(values, points)
    power = 0.0
    while power < 1:
        step = _next_step(logs, 1 - power)
        power = 1.0 if step >= 1 - power else power + step
        chosen = _resampled(np.exp(step * (logs - logs.max())), rng)
        points, logs = points[chosen], logs[chosen]
        for _ in range(MOVES if power < 1 else LAST_MOVES):
            _move(values, points, logs, (low, high), power, rng)
    return np.asarray(points[rng.permutation(count)[:size]])


def _move(
    values: Values,
    points: np.ndarray,
    logs: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    power: float,
    rng: np.random.Generator,
) -> None:
    """One Metropolis step of each particle, in place: of one half along the other, and back."""
    count, dimension = points.shape
    order = rng.permutation(count)
    for mine, theirs in (np.split(order, 2), np.split(order, 2)[::-1]):
        one, other = rng.choice(theirs, mine.size), rng.choice(theirs, mine.size)
        length = np.where(rng.random(mine.size) < 0.1, 1.0, 2.38 / math.sqrt(2 * dimension))
        step = (points[one] - points[other]) * length[:, None]
        step += rng.normal(size=step.shape) * (box[1] - box[0]) * 1e-3
        fresh = _reflected(points[mine] + step, *box)
        told = _logs(values, fresh, logs.max())
        taken = np.log(rng.random(mine.size)) < power * (told - logs[mine])
        points[mine[taken]], logs[mine[taken]] = fresh[taken], told[taken]


def _reflected(points: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Points folded back at the sides of the box: symmetric, so that Metropolis still holds."""
    turns = np.mod(points - low, 2 * (high - low))
    return np.asarray(low + np.minimum(turns, 2 * (high - low) - turns))


def _next_step(logs: np.ndarray, left: float) -> float:
    """The largest power, up to what is left, whose weights leave half of the particles."""
    low, high = 0.0, left
    if _effective(logs, high) >= logs.size / 2:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if _effective(logs, middle) >= logs.size / 2 else (low, middle)
    return max(low, 1e-6)


def _effective(logs: np.ndarray, power: float) -> float:
    weights = np.exp(power * (logs - logs.max()))
    return float(weights.sum() ** 2 / (weights**2).sum())


def _resampled(weights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Places of particles, each as often as its share says, up to one: systematic resampling."""
    ends = np.cumsum(weights)
    marks = (np.arange(weights.size) + rng.random()) / weights.size * ends[-1]
    return np.asarray(np.minimum(np.searchsorted(ends, marks), weights.size - 1))


def _positive(values: Values, points: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(values(points), 0.0))


def _logs(values: Values, points: np.ndarray, known: float = -math.inf) -> np.ndarray:
    """Logarithms of values, and of what counts as none, by the largest that is known."""
    seen = _positive(values, points)
    largest = max(float(seen.max(initial=0.0)), math.exp(known), 1e-300)
    return np.asarray(np.log(np.maximum(seen, LEAST * largest)))


POSITIONS = 1023  # candidates at a time: their kernel matrix has 4 MiB
ROUNDS = 2  # the second one places candidates where the first found weight
STEPS = 30  # of each round; more would fit the noise
POWER_STEPS = 8  # for the largest eigenvalue, which bounds a step
TABLE = 2**14  # values of the kernel
NEIGHBOUR = 3  # which neighbour's distance a drawn point may stray by, itself the first


@dataclass(frozen=True)
class Match:
    """Places, the share of the points that is near each, and how far its points may stray."""

    positions: np.ndarray
    shares: np.ndarray
    reach: np.ndarray

    def drawn(self, field: Field, size: int, rng: np.random.Generator) -> np.ndarray:
        """Points near places that are taken by their shares, within the field's bounds."""
        chosen = rng.choice(len(self.positions), size, p=self.shares)
        stray = rng.normal(size=(size, field.dimension)) * self.reach[chosen, None]
        return np.clip(self.positions[chosen] + stray, *map(np.array, field.bounds))


def matched(field: Field, rng: np.random.Generator) -> Match:
    """Non-negative shares, summing to 1, of places in the box, with the kernel sums of the field.

    They minimise w K w / 2 - w f, which is half the squared distance in the kernel's own space
    between them and the data, up to a constant and to the errors of f; so it asks only for f at
    the places. Candidates are even points of the box, points drawn by the field, and points drawn
    by its power d + 1, which is integrable even where the kernel falls as 1 / distance.

    The distance: Gretton et al. 2012; its steps: Beck and Teboulle 2009, begun anew where they
    turn back (O'Donoghue and Candes 2015).
    """
    third = POSITIONS // 3
    sharp = partial(_power, field, field.dimension + 1)
    positions = np.concatenate(
        [
            field.uniform(third, rng),
            by_population(field.values, field.bounds, third, rng),
            by_population(sharp, field.bounds, third, rng),
        ]
    )
    for left in reversed(range(ROUNDS)):
        shares = _shares(_kernel(field, positions), field.values(positions))
        if left:
            positions = _nearer(field, positions, shares, rng)
    return Match(positions, shares, _reach(positions))


def _power(field: Field, power: int, points: np.ndarray) -> np.ndarray:
    return np.asarray(np.clip(field.values(points), 0.0, 1.0) ** power)  # noise may pass 1


def _kernel(field: Field, positions: np.ndarray) -> np.ndarray:
    """The kernel of every two places within 1e-6, read from a table over r / (1 + r)."""
    from scipy.spatial.distance import pdist, squareform

    far = pdist(positions) / field.setting.bandwidth
    at = TABLE * (far / (1 + far))
    left = at.astype(np.int32)
    ends = np.arange(TABLE) / TABLE
    table = np.append(profile(field.setting.kernel, ends / (1 - ends)), 0.0)
    near = table[left] + (at - left) * np.diff(table, append=0.0)[left]
    kernel = squareform(near.astype(np.float32), checks=False)
    np.fill_diagonal(kernel, 1.0)
    return np.asarray(kernel)


def _shares(kernel: np.ndarray, told: np.ndarray) -> np.ndarray:
    """Where w K w / 2 - w f is least on the simplex, nearly: accelerated projected steps."""
    length = 1 / _largest_eigenvalue(kernel)
    told = told.astype(kernel.dtype)
    shares = ahead = np.full(told.size, 1 / told.size, kernel.dtype)
    pace = 1.0
    for _ in range(STEPS):
        fresh = _on_simplex(ahead - length * (kernel @ ahead - told))
        if (fresh - shares) @ (ahead - fresh) > 0:
            pace = 1.0
        faster = (1 + math.sqrt(1 + 4 * pace**2)) / 2
        ahead = fresh + (pace - 1) / faster * (fresh - shares)
        shares, pace = fresh, faster
    return np.asarray(shares / shares.sum(dtype=np.float64), np.float64)


def _largest_eigenvalue(kernel: np.ndarray) -> float:
    """A little above it; every entry is positive, so that repeated products find it soon."""
    vector = np.ones(len(kernel), kernel.dtype)
    for _ in range(POWER_STEPS):
        vector = kernel @ vector
        vector /= np.linalg.norm(vector)
    return float(vector @ (kernel @ vector)) * 1.1


def _on_simplex(vector: np.ndarray) -> np.ndarray:
    """The nearest vector of non-negative numbers that sum to 1 (Duchi et al. 2008)."""
    falling = np.sort(vector)[::-1]
    over = (np.cumsum(falling) - 1) / np.arange(1, vector.size + 1)
    return np.asarray(np.maximum(vector - over[np.flatnonzero(falling > over)[-1]], 0.0))


def _nearer(
    field: Field, positions: np.ndarray, shares: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The places that got a share, and new ones around them in place of the others."""
    used = positions[shares > 0]
    fresh = len(positions) - len(used)
    spread = np.full(len(positions), field.setting.bandwidth / 2 / np.sqrt(field.dimension))
    return np.concatenate([used, Match(positions, shares, spread).drawn(field, fresh, rng)])


def _reach(positions: np.ndarray) -> np.ndarray:
    """Half the distance to a near neighbour, as a deviation along each axis."""
    from scipy.spatial import KDTree

    apart = KDTree(positions).query(positions, NEIGHBOUR)[0][:, -1]
    return np.asarray(apart / 2 / np.sqrt(positions.shape[1]))
