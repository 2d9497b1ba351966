"""Noisy alternating least squares: items and users in turn, each step from noisy sums alone.

A user's components were computed from that user's ratings, and so from the very rating that the
next step multiplies them by: residual noise would be taken for signal. The expected contribution is
known and subtracted (`feedback`), like the Onsager term of approximate message passing (Bayati and
Montanari 2011); otherwise noise would amplify itself from step to step.

Under joint privacy, users' vectors are computed from their own events and released item vectors
(`own_vectors`) and never released; `item_means` alternates noisy item means with users' exact
biases.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.kernels.recommend import noisy_als as kernels
from sfumato.recommend.private.inputs import FIRST, GRID, Events, Rule
from sfumato.recommend.private.noisy_statistics import Measured, NoisySums
from sfumato.recommend.private.shrinkage import (
    Components,
    Measurements,
    NoisyObservations,
    beginning,
    capped,
    components,
    shrunk_biases,
    true_counts,
    unit_power,
)

__all__ = ["Alternation", "NoisyFactors", "item_means", "own_vectors", "signs"]

SIDES = ("items", "users")
LENGTH = 3**0.5  # norm of a typical vector, beside the 1 that measures biases
TYPICAL = 0.9  # fraction of events with a shorter vector than the typical one
DECIDED = 4  # step from which components without signal are dropped
SHOWING = 3.0  # standard errors above 0 that count as signal
WIDTH = 64  # components of the random starting vectors


@dataclass(frozen=True)
class NoisyFactors:
    """Noisy biases and components, (rows, 1 + components), in units of half the rating range.

    residual: variance of the unexplained part; user_bias: variance of users' biases.
    """

    mean: float
    users: np.ndarray
    items: np.ndarray
    residual: float
    user_bias: float


def signs(rows: int, seed: int) -> np.ndarray:
    """Return public random vectors of norm LENGTH, from the bits of a hash of each row's number."""
    words = hash_column(np.arange(rows), seed)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(rows, WIDTH)
    return np.asarray((2.0 * bits - 1) * (LENGTH / WIDTH**0.5))


@dataclass
class _Side:
    """State of the users, or of the items."""

    bias: np.ndarray
    known: Measurements | None = None
    believed: np.ndarray | None = None
    vectors: np.ndarray | None = None  # against which the other side is measured
    feedback: np.ndarray | None = None  # of own ratings through the other side's vectors
    bias_variance: float = 0.0

    def stacked(self, both: bool) -> np.ndarray:
        """Return biases and, if both sides have them, components as columns."""
        parts = [self.bias[:, None]]
        if both and self.believed is not None:
            parts.append(self.believed)
        return np.concatenate(parts, axis=1)

    @property
    def counts(self) -> np.ndarray:
        """Estimated number of events of each row."""
        return np.ones(self.bias.size) if self.known is None else self.known.counts


@dataclass
class Alternation:
    """Alternating least squares in `steps` steps of equal budget; `run` spends all of it."""

    sums: NoisySums
    steps: int
    factors: int | None = None
    seed: int = 0
    mean: float = 0.0
    ratings: float = 1.0
    residual: float = 0.25
    wanted: int = 0
    sides: dict[str, _Side] = field(default_factory=dict)

    def run(self) -> NoisyFactors:
        """Fit the factors from noisy sums and public numbers alone."""
        sizes, budget = self.sums.events.sizes, self.sums.budget
        number, rated = self.sums.total(FIRST)
        self.ratings = max(number, 1.0)
        self.mean = float(np.clip(rated / self.ratings, -1, 1))
        rule = Rule.of(budget.precision, sizes["users"], sizes["items"], self.ratings, self.factors)
        self.wanted = min(rule.components, WIDTH, sizes["items"] - 1)
        self.sides = {side: _Side(np.zeros(sizes[side])) for side in SIDES}
        if self.wanted:
            self.sides["users"].vectors = signs(sizes["users"], self.seed)
        for step in range(self.steps):
            self._step(step, SIDES[step % 2], SIDES[(step + 1) % 2])
        return self._learned()

    def _learned(self) -> NoisyFactors:
        """Return the fitted factors; components only if both sides have them."""
        users, items = self.sides["users"], self.sides["items"]
        both = users.believed is not None and items.believed is not None
        p, q = users.stacked(both), items.stacked(both)
        return NoisyFactors(self.mean, p, q, self.residual, users.bias_variance)

    def _step(self, step: int, side: str, other: str) -> None:
        """Measure one side against the other and update it."""
        own, others = self.sides[side], self.sides[other]
        vectors, scale = self._scaled(others)
        both = own.believed is not None and others.believed is not None
        mine, theirs = own.stacked(both), others.stacked(both)
        compared = theirs.copy()
        compared[:, 0] += self.mean
        fraction = (1 - FIRST) / self.steps
        measured = self.sums.measure(
            side,
            mine,
            compared,
            vectors,
            Fraction(fraction),
            length=LENGTH if vectors.size else 0.0,
            counted=own.known is None,
        )
        self._take(own, measured)
        assert own.known is not None
        sums = measured.sums + own.counts[:, None] * (
            mine @ _means(theirs, measured, others.counts)
        )
        if own.feedback is not None and vectors.size:
            sums[:, 1:] -= self.residual * own.counts[:, None] * own.feedback / scale
        x = np.concatenate([np.ones((len(vectors), 1)), measured.vectors], axis=1)
        own.known.add(sums, x, measured.variance)
        if step == 0:
            self._begin(own, others, sums, measured)
        else:
            self._learn(step, own, others)

    def _scaled(self, others: _Side) -> tuple[np.ndarray, float]:
        """Return the other side's vectors, scaled so that the typical one has norm LENGTH."""
        if others.vectors is None:
            return np.empty((others.bias.size, 0)), 1.0
        norms = np.linalg.norm(others.vectors, axis=1)
        order = np.argsort(norms, kind="stable")
        cumulative = np.cumsum(others.counts[order]) / others.counts.sum()
        typical = min(int(np.searchsorted(cumulative, TYPICAL)), order.size - 1)
        scale = max(float(norms[order[typical]]) / LENGTH, 1e-9)
        return others.vectors / scale, scale

    def _take(self, own: _Side, measured: Measured) -> None:
        """Set the counts, in a side's first step, and the variance of the residuals."""
        if measured.counts is not None:
            own.known = Measurements(
                true_counts(measured.counts, measured.count_variance, self.ratings)
            )
        self.residual = float(np.clip(measured.energy / self.ratings, 1e-3, 1.0))

    def _begin(self, own: _Side, others: _Side, sums: np.ndarray, measured: Measured) -> None:
        """Set biases and first components from sums against random vectors."""
        counts = own.counts[:, None]
        variance = counts * self.residual + measured.variance
        own.bias, own.bias_variance = shrunk_biases(
            NoisyObservations(sums[:, :1], counts, variance), own.counts
        )
        if measured.vectors.size:
            begun, others.feedback = beginning(
                sums[:, 1:],
                measured.vectors,
                measured.variance,
                own.counts,
                self.residual,
                self.wanted,
            )
            own.vectors = capped(begun, own.counts)

    def _learn(self, step: int, own: _Side, others: _Side) -> None:
        """Update biases and components; drop the components if they show no signal."""
        assert own.known is not None
        wanted = np.ones((others.bias.size, 1))
        if others.vectors is not None:
            wanted = np.concatenate([wanted, unit_power(others.vectors, others.counts)], axis=1)
        observed = own.known.towards(wanted, others.counts, self.residual)
        own.bias, own.bias_variance = shrunk_biases(_columns(observed, slice(0, 1)), own.counts)
        if wanted.shape[1] == 1:
            return
        found = components(_columns(observed, slice(1, None)), wanted[:, 1:], own.counts)
        if step >= DECIDED and found.clearest < SHOWING:
            for each in (own, others):
                each.believed = each.vectors = each.feedback = None
            return
        self._follow(own, others, found)

    def _follow(self, own: _Side, others: _Side, found: Components) -> None:
        """Store the components, and the vectors and feedback of the next step."""
        own.believed, others.believed = found.believed, found.against
        own.vectors = capped(found.followed, own.counts)
        others.feedback = found.against * found.feedback


def _columns(observed: NoisyObservations, which: slice) -> NoisyObservations:
    """Return some columns of the observations."""
    return NoisyObservations(
        observed.sums[:, which], observed.slope[:, which], observed.variance[:, which]
    )


def _means(theirs: np.ndarray, measured: Measured, counts: np.ndarray) -> np.ndarray:
    """Return the weighted mean of (1, other's components) x (1, vectors), which is added back."""
    ones = np.ones((len(theirs), 1))
    y = np.concatenate([ones, theirs[:, 1:]], axis=1) * (counts / counts.sum())[:, None]
    return np.asarray(y.T @ np.concatenate([ones, measured.vectors], axis=1))


def own_vectors(events: Events, known: NoisyFactors) -> np.ndarray:
    """Return (users, 1 + components): ridge regressions of own ratings on noisy item vectors.

    The penalties are the residual variance over that of users' biases and, for components, over 1,
    their variance by the scale of the items'. Users without events get zeros.
    """
    size, width = events.sizes["users"], known.items.shape[1]
    x = np.concatenate([np.ones((len(known.items), 1)), known.items[:, 1:]], axis=1)
    residuals = events.ratings / 2.0**GRID - known.mean - known.items[events.items, 0]
    gram, out = np.zeros((size, width, width)), np.zeros((size, width))
    kernels.grams(events.users, events.items, residuals, x, gram, out)
    ridge = np.full(width, known.residual)
    ridge[0] /= known.user_bias
    kernels.solve(gram, ridge, out)
    return out


STEPS = 4
USER_BIAS = 0.03  # variance of users' biases in units of half the rating range


def item_means(sums: NoisySums) -> NoisyFactors:
    """Return the mean and item biases, without users; spends the entire budget."""
    sizes = sums.events.sizes
    number, rated = sums.total(FIRST)
    ratings = max(number, 1.0)
    mean = float(np.clip(rated / ratings, -1, 1))
    known = NoisyFactors(mean, np.empty((0, 1)), np.zeros((sizes["items"], 1)), 0.25, USER_BIAS)
    counts, totals = np.ones(sizes["items"]), np.zeros(sizes["items"])
    for step in range(STEPS):
        measured = sums.measure(
            "items",
            known.items,
            _OwnBiases(known, first=step == 0),
            None,
            Fraction(1 - FIRST) / STEPS,
            counted=step == 0,
        )
        if measured.counts is not None:
            counts = true_counts(measured.counts, measured.count_variance, ratings)
        residual = float(np.clip(measured.energy / ratings, 1e-3, 1.0))
        totals += measured.sums[:, 0] + counts * known.items[:, 0]
        observed = _mean_of(totals, step + 1, counts, residual, measured.variance)
        known = replace(known, items=shrunk_biases(observed, counts)[0][:, None], residual=residual)
    return known


@dataclass(frozen=True)
class _OwnBiases:
    """The mean plus the bias of each user, from that user's own events; the mean alone at first."""

    known: NoisyFactors
    first: bool

    def __call__(self, events: Events) -> np.ndarray:
        users = np.zeros((events.sizes["users"], 1))
        if not self.first:
            users = own_vectors(events, self.known)
        users[:, 0] += self.known.mean
        return users


def _mean_of(
    totals: np.ndarray, steps: int, counts: np.ndarray, residual: float, variance: float
) -> NoisyObservations:
    """Return the mean of the sums of all steps, whose noise differs and whose ratings are equal."""
    slope = counts[:, None]
    return NoisyObservations(totals[:, None] / steps, slope, slope * residual + variance / steps)
