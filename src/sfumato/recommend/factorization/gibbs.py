"""Gibbs sampling of matrix factorizations: every number in turn, given all the others."""

import math
from typing import Any

import numpy as np
from numpy.random import Generator

from sfumato.kernels.recommend import gibbs_factors as kernels
from sfumato.recommend.factorization.posterior_mean import Sample

__all__ = ["GibbsChain"]

START = 0.1  # standard deviation of the initial components
# Priors, for ratings of variance 1: Gamma distributions of shape SHAPE and rate RATE.
SHAPE, RATE = 0.5, 0.5
DEGREES = np.geomspace(1.0, 256.0, 65)  # of freedom of precisions, equally likely a priori
LOG_GAMMAS = np.array([math.lgamma(each / 2) for each in DEGREES])


class GibbsChain:
    """State of the sampler: values of users and items, their priors, and residuals.

    A rating of user u and item i has the mean c_u + d_i + A_u.B_i and the precision a_u b_i. A_u is
    the user's own vector plus a vector for each item of u, divided by the root of their number, and
    so is c_u (`implicit` "users" or "both"); B_i and d_i likewise from the users of i ("items" or
    "both"). All own values and all implicit ones of a component have a normal prior of unknown
    variance. Own biases also have an unknown mean, c and d. Precisions have the prior Gamma(v / 2,
    v / 2), v unknown, times one common precision.

    Parameters
    ----------
    users, items : ndarray of shape (n,)
        Codes from 0 of each rating's user and item; each code occurs.
    targets : ndarray of shape (n,)
        Ratings, rescaled to mean 0 and variance 1.
    factors : int
        Components of a vector.
    implicit : {"users", "items", "both"} or None
        Which sides have implicit vectors.
    random : Generator
        Source of all draws.
    """

    def __init__(
        self,
        users: np.ndarray,
        items: np.ndarray,
        targets: np.ndarray,
        factors: int,
        implicit: str | None,
        random: Generator,
    ) -> None:
        by_user, by_item = _grouped(users, items), _grouped(items, users)
        self.random: np.random.Generator
        self.rows: tuple[Any, Any]
        self.random, self.rows = random, by_user[:2]
        self.residuals: Any = np.asarray(targets, np.float32)[by_user[2]]
        self.users: GibbsSide = GibbsSide(
            by_user[0], by_item[:2], implicit in ("users", "both"), factors, random
        )
        self.items: GibbsSide = GibbsSide(
            by_item[0], by_user[:2], implicit in ("items", "both"), factors, random
        )
        self.precision = 1.0
        # The last change of the predictions that residuals do not have yet: an outer product.
        self._change = np.zeros(self.users.size, np.float32), np.zeros(self.items.size, np.float32)
        for component in range(1, factors + 1):
            self._change = self.users.total[component], self.items.total[component]
            self._settle()

    def sweep(self) -> None:
        """Draw all values once, then all precisions."""
        for component in range(len(self.users.total)):
            self._draw_users(component)
            self._draw_items(component)
        self._settle()
        self._draw_precisions()

    def sample(self) -> Sample:
        """Return the vectors as they are, without the means of the biases."""
        p, q = self.users.total, self.items.total
        c, d = self.users.mean, self.items.mean
        return Sample(p[1:].T, q[1:].T, p[0] - np.float32(c), q[0] - np.float32(d), c + d)

    def noise(self) -> float:
        """Return the root mean square of the residuals."""
        return float(np.sqrt(np.mean(np.square(self.residuals, dtype=np.float64))))

    def _draw_users(self, component: int) -> None:
        side = self.users
        values = self.items.values(component)
        weighted = values * self.items.precisions
        scaled = side.precisions * np.float32(self.precision)
        sums = side.sums
        kernels.by_user(*self.rows, *self._change, values, weighted, scaled, self.residuals, *sums)
        self._change = side.draw(component, self.random), values

    def _draw_items(self, component: int) -> None:
        side = self.items
        values = self.users.values(component)
        scaled = self.users.precisions * np.float32(self.precision)
        given = values, scaled, side.precisions, self.residuals
        kernels.by_item(*self.rows, *self._change, *given, *side.sums)
        self._change = values, side.draw(component, self.random)

    def _settle(self) -> None:
        """Subtract the last change from the residuals."""
        ones = np.ones(self.users.size, np.float32)
        none = np.zeros(self.items.size, np.float32)
        kernels.by_user(
            *self.rows, *self._change, none, none, ones, self.residuals, *self.users.sums
        )
        self._change = 0 * ones, none

    def _draw_precisions(self) -> None:
        """Draw the precisions of users, of items, and what all have in common."""
        by_user, by_item = np.empty(self.users.size), np.empty(self.items.size)
        for side, found in ((self.users, by_user), (self.items, by_item)):
            given = self.users.precisions, self.items.precisions
            kernels.squares(*self.rows, self.residuals, *given, by_user, by_item)
            side.draw_precisions(self.precision * found, self.random)
        total = float(self.items.precisions @ by_item)
        shape = SHAPE + self.residuals.size / 2
        self.precision = float(self.random.gamma(shape) / (RATE + total / 2))


class GibbsSide:
    """Values of users, or of items: row 0 of a table are biases, the others components."""

    def __init__(
        self,
        starts: np.ndarray,
        members: tuple[np.ndarray, np.ndarray],
        implicit: bool,
        factors: int,
        random: Generator,
    ) -> None:
        counts = np.diff(starts)
        self.size: int
        self.counts: np.ndarray
        self.members: tuple[np.ndarray, np.ndarray]
        self.size, self.counts, self.members = counts.size, counts, members
        self.own = random.standard_normal((factors + 1, counts.size), np.float32)
        self.own *= np.float32(START)
        self.own[0] = 0
        self.total: np.ndarray = self.own.copy()
        others = members[0].size - 1 if implicit else 0
        self.implicit: np.ndarray = np.zeros((factors + 1, others), np.float32)
        self.weights: np.ndarray = (1 / np.sqrt(counts)).astype(np.float32)
        self.precisions, self.degrees = np.ones(counts.size, np.float32), 8.0
        self.mean = 0.0
        self.sums: tuple[np.ndarray, np.ndarray] = (
            np.empty(counts.size, np.float32),
            np.empty(counts.size, np.float32),
        )
        self._room = np.zeros((counts.size, 4), np.float32)

    def values(self, component: int) -> np.ndarray:
        """Return what the other side's values are multiplied by: a bias by 1."""
        return self.total[component] if component else np.ones(self.size, np.float32)

    def draw(self, component: int, random: Generator) -> np.ndarray:
        """Draw own and implicit values of one component from `sums`; return the changes."""
        own, implicit = self.own[component], self.implicit[component]
        changes = np.zeros(self.size, np.float32)
        precision = prior_precision(own, self.mean if not component else 0.0, random)
        if not component:
            about = own.sum(dtype=np.float64) / (own.size + 1)
            self.mean = float(random.normal(about, ((own.size + 1) * precision) ** -0.5))
        mean = np.float32(0 if component else self.mean)
        normals = random.standard_normal(self.size, np.float32)
        kernels.draw(*self.sums, mean, np.float32(precision), normals, own, changes)
        if implicit.size:
            precision = prior_precision(implicit, 0.0, random)
            normals = random.standard_normal(implicit.size, np.float32)
            given = *self.sums, np.float32(precision), normals, self._room
            kernels.draw_implicit(*self.members, self.weights, *given, implicit, changes)
        self.total[component] += changes
        return changes

    def draw_precisions(self, squares: np.ndarray, random: Generator) -> None:
        """Draw precisions, given weighted sums of squares; then their degrees of freedom."""
        shapes, rates = (self.degrees + self.counts) / 2, (self.degrees + squares) / 2
        drawn = random.gamma(shapes) / rates
        self.precisions = drawn.astype(np.float32)
        half = DEGREES / 2
        fit = float(np.log(drawn).sum() - drawn.sum())
        logs = drawn.size * (half * np.log(half) - LOG_GAMMAS) + half * fit
        odds = np.exp(logs - logs.max())
        self.degrees = float(random.choice(DEGREES, p=odds / odds.sum()))


def prior_precision(values: np.ndarray, mean: float, random: Generator) -> float:
    """Draw the precision of these values' normal prior, which that of their mean shares."""
    square = float(np.square(values - np.float32(mean), dtype=np.float64).sum()) + mean * mean
    return float(random.gamma(SHAPE + (values.size + 1) / 2) / (RATE + square / 2))


def _grouped(rows: np.ndarray, columns: np.ndarray) -> tuple[Any, Any, Any]:
    """Return starts of rows, columns in their order, and that order."""
    order = np.lexsort((columns, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows))]).astype(np.int64)
    return starts, columns[order].astype(np.int32), order
