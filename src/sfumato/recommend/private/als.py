"""Alternating noisy least squares: items and users in turn, each step from noisy sums alone.

A component of a user was computed from that user's ratings, and so from the very rating that the
next step multiplies it by: residual noise would be taken for signal. Its expected share is known
and is taken off (`feedback`), as the Onsager term is in approximate message passing (Bayati and
Montanari 2011); without it, noise feeds itself from step to step.

Users' vectors from their own events and released item vectors alone: never released themselves.
Noisy item means between exact biases of the users, which stay with them (joint privacy).
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
LENGTH = 3**0.5  # of typical vectors beside the 1 that measures biases
TYPICAL = 0.9  # share of events whose vectors are shorter
DECIDED = 4  # the step from which components that do not show are given up
SHOWING = 3.0  # errors above 0
WIDTH = 64


@dataclass(frozen=True)
class NoisyFactors:
    """Noisy biases and components, (rows, 1 + components) each, in units of half the range.

    residual: the variance of what is not explained; user_bias: the variance of users' biases.
    """

    mean: float
    users: np.ndarray
    items: np.ndarray
    residual: float
    user_bias: float


def signs(rows: int, seed: int) -> np.ndarray:
    """Public random vectors of LENGTH: the bits of a hash of each row's number."""
    words = hash_column(np.arange(rows), seed)
    bits = np.unpackbits(words.view(np.uint8), bitorder="little").reshape(rows, WIDTH)
    return np.asarray((2.0 * bits - 1) * (LENGTH / WIDTH**0.5))


@dataclass
class _Side:
    """What is known of the users, or of the items."""

    bias: np.ndarray
    known: Measurements | None = None
    believed: np.ndarray | None = None
    vectors: np.ndarray | None = None  # to measure the other side by
    feedback: np.ndarray | None = None  # of own ratings in the vectors of the other side
    spread: float = 0.0

    def whole(self, both: bool) -> np.ndarray:
        """Biases and components beside each other, where both sides have components."""
        parts = [self.bias[:, None]]
        if both and self.believed is not None:
            parts.append(self.believed)
        return np.concatenate(parts, axis=1)

    @property
    def counts(self) -> np.ndarray:
        return np.ones(self.bias.size) if self.known is None else self.known.counts


@dataclass
class Alternation:
    """So many steps of equal shares of the budget; `run` spends all of it."""

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
        """Everything learned, from noisy sums and public numbers alone."""
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
        users, items = self.sides["users"], self.sides["items"]
        both = users.believed is not None and items.believed is not None
        p, q = users.whole(both), items.whole(both)
        return NoisyFactors(self.mean, p, q, self.residual, users.spread)

    def _step(self, step: int, side: str, other: str) -> None:
        own, others = self.sides[side], self.sides[other]
        vectors, scale = self._scaled(others)
        both = own.believed is not None and others.believed is not None
        mine, theirs = own.whole(both), others.whole(both)
        compared = theirs.copy()
        compared[:, 0] += self.mean
        share = (1 - FIRST) / self.steps
        told = self.sums.measure(
            side,
            mine,
            compared,
            vectors,
            Fraction(share),
            length=LENGTH if vectors.size else 0.0,
            counted=own.known is None,
        )
        self._take(own, told)
        assert own.known is not None
        sums = told.sums + own.counts[:, None] * (mine @ _means(theirs, told, others.counts))
        if own.feedback is not None and vectors.size:
            sums[:, 1:] -= self.residual * own.counts[:, None] * own.feedback / scale
        x = np.concatenate([np.ones((len(vectors), 1)), told.vectors], axis=1)
        own.known.add(sums, x, told.variance)
        if step == 0:
            self._begin(own, others, sums, told)
        else:
            self._learn(step, own, others)

    def _scaled(self, others: _Side) -> tuple[np.ndarray, float]:
        """The other side's vectors, the typical one of LENGTH."""
        if others.vectors is None:
            return np.empty((others.bias.size, 0)), 1.0
        norms = np.linalg.norm(others.vectors, axis=1)
        order = np.argsort(norms, kind="stable")
        reached = np.cumsum(others.counts[order]) / others.counts.sum()
        place = min(int(np.searchsorted(reached, TYPICAL)), order.size - 1)
        scale = max(float(norms[order[place]]) / LENGTH, 1e-9)
        return others.vectors / scale, scale

    def _take(self, own: _Side, told: Measured) -> None:
        """Counts, the first time, and the variance of residuals."""
        if told.counts is not None:
            own.known = Measurements(true_counts(told.counts, told.count_variance, self.ratings))
        self.residual = float(np.clip(told.energy / self.ratings, 1e-3, 1.0))

    def _begin(self, own: _Side, others: _Side, sums: np.ndarray, told: Measured) -> None:
        counts = own.counts[:, None]
        variance = counts * self.residual + told.variance
        own.bias, own.spread = shrunk_biases(
            NoisyObservations(sums[:, :1], counts, variance), own.counts
        )
        if told.vectors.size:
            begun, others.feedback = beginning(
                sums[:, 1:],
                told.vectors,
                told.variance,
                own.counts,
                self.residual,
                self.wanted,
            )
            own.vectors = capped(begun, own.counts)

    def _learn(self, step: int, own: _Side, others: _Side) -> None:
        assert own.known is not None
        wanted = np.ones((others.bias.size, 1))
        if others.vectors is not None:
            wanted = np.concatenate([wanted, unit_power(others.vectors, others.counts)], axis=1)
        seen = own.known.towards(wanted, others.counts, self.residual)
        own.bias, own.spread = shrunk_biases(_columns(seen, slice(0, 1)), own.counts)
        if wanted.shape[1] == 1:
            return
        found = components(_columns(seen, slice(1, None)), wanted[:, 1:], own.counts)
        if step >= DECIDED and found.clearest < SHOWING:
            for each in (own, others):
                each.believed = each.vectors = each.feedback = None
            return
        self._follow(own, others, found)

    def _follow(self, own: _Side, others: _Side, found: Components) -> None:
        own.believed, others.believed = found.believed, found.against
        own.vectors = capped(found.followed, own.counts)
        others.feedback = found.against * found.feedback


def _columns(seen: NoisyObservations, which: slice) -> NoisyObservations:
    return NoisyObservations(seen.sums[:, which], seen.slope[:, which], seen.variance[:, which])


def _means(theirs: np.ndarray, told: Measured, counts: np.ndarray) -> np.ndarray:
    """The weighted mean of (1, components of the other) times (1, vectors), which adds back."""
    ones = np.ones((len(theirs), 1))
    y = np.concatenate([ones, theirs[:, 1:]], axis=1) * (counts / counts.sum())[:, None]
    return np.asarray(y.T @ np.concatenate([ones, told.vectors], axis=1))


def own_vectors(events: Events, known: NoisyFactors) -> np.ndarray:
    """(users, 1 + components): ridge regressions of own ratings on noisy item vectors.

    The ridges are the variance of residuals over that of users' biases, and over 1, which is that
    of users' components by the scale of the items'. Users without events have zeros.
    """
    size, width = events.sizes["users"], known.items.shape[1]
    x = np.concatenate([np.ones((len(known.items), 1)), known.items[:, 1:]], axis=1)
    left = events.ratings / 2.0**GRID - known.mean - known.items[events.items, 0]
    gram, out = np.zeros((size, width, width)), np.zeros((size, width))
    kernels.grams(events.users, events.items, left, x, gram, out)
    ridge = np.full(width, known.residual)
    ridge[0] /= known.user_bias
    kernels.solve(gram, ridge, out)
    return out


STEPS = 4
USER_BIAS = 0.03  # variance of users' biases, where half the range of ratings is 1


def item_means(sums: NoisySums) -> NoisyFactors:
    """The mean and the items' biases; users' rows are empty. It spends the whole budget."""
    sizes = sums.events.sizes
    number, rated = sums.total(FIRST)
    ratings = max(number, 1.0)
    mean = float(np.clip(rated / ratings, -1, 1))
    known = NoisyFactors(mean, np.empty((0, 1)), np.zeros((sizes["items"], 1)), 0.25, USER_BIAS)
    counts, measured = np.ones(sizes["items"]), np.zeros(sizes["items"])
    for step in range(STEPS):
        users = own_vectors(sums.events, known) if step else np.zeros((sizes["users"], 1))
        users[:, 0] += known.mean
        told = sums.measure(
            "items",
            known.items,
            users,
            np.empty((sizes["users"], 0)),
            Fraction(1 - FIRST) / STEPS,
            counted=step == 0,
        )
        if told.counts is not None:
            counts = true_counts(told.counts, told.count_variance, ratings)
        residual = float(np.clip(told.energy / ratings, 1e-3, 1.0))
        measured += told.sums[:, 0] + counts * known.items[:, 0]
        seen = _mean_of(measured, step + 1, counts, residual, told.variance)
        known = replace(known, items=shrunk_biases(seen, counts)[0][:, None], residual=residual)
    return known


def _mean_of(
    measured: np.ndarray, steps: int, counts: np.ndarray, residual: float, variance: float
) -> NoisyObservations:
    """The mean of the sums of so many steps, whose noises differ and whose ratings are the same."""
    slope = counts[:, None]
    return NoisyObservations(measured[:, None] / steps, slope, slope * residual + variance / steps)
