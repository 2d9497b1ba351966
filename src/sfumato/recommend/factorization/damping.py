"""Damping: how far biases of users and items with few ratings are shrunk, learned from the data."""

from dataclasses import dataclass

import numpy as np

from sfumato.data.interactions import Coded

__all__ = ["BiasPrior"]

USUAL = 5.0  # damping where the data says nothing: that of `DampedMeans`
PRIOR = 3.0  # users and items of usual variance that are added to those of the data
LIMITS = 0.5, 1000.0  # of a damping
ROUNDS = 20
ENOUGH = 0.02  # relative change of both dampings at which the rounds end
ROWS = 1 << 17  # ratings that the variances are estimated from
STAR = 0.9  # residual deviation of five-star ratings, for which learning rates are chosen


@dataclass(frozen=True)
class BiasPrior:
    """Empirical Bayes estimate of a model of biases, ``rating = user + item + residual``.

    All three are taken for independent, of mean 0. A damping is the variance of a residual divided
    by that of the biases: the number of ratings of residual 0 that every user or item is given in
    advance, as in `DampedMeans`, but as many as suit the data. It matters for ids with few ratings.

    `unit` is the factor from the given targets to targets whose residual deviation is that of
    five-star ratings; the biases are in that unit.
    """

    user_damping: float = USUAL
    item_damping: float = USUAL
    unit: float = 1.0
    user_biases: np.ndarray | float = 0.0
    item_biases: np.ndarray | float = 0.0

    @classmethod
    def of(cls, coded: Coded, targets: np.ndarray) -> "BiasPrior":
        """Estimate it from ratings minus their mean."""
        return cls.of_codes(coded.user_codes, coded.item_codes, targets)

    @classmethod
    def of_codes(cls, users: np.ndarray, items: np.ndarray, targets: np.ndarray) -> "BiasPrior":
        """Estimate it from ratings minus their mean, of users and items by number."""
        everything = _Crossed(users, items, targets)
        variance, user_damping, item_damping = everything.sample().variances()
        if not 0 < variance < np.inf:
            return cls()  # constant ratings, or such as diverge
        unit = max(variance**0.5 / STAR, 1.0)  # a wide range alone is no reason for larger steps
        users, items = everything.biases(user_damping, item_damping)
        return cls(user_damping, item_damping, unit, users / unit, items / unit)


class _Crossed:
    """Targets of pairs of users and items, with the biases that explain them."""

    def __init__(self, users: np.ndarray, items: np.ndarray, targets: np.ndarray) -> None:
        self.users, self.items, self.targets = users, items, targets.astype(np.float64)
        self.counts = np.bincount(users), np.bincount(items)

    def sample(self) -> "_Crossed":
        """Return all ratings of every k-th user, so that at most about `ROWS` remain."""
        every = -(-self.users.size // ROWS)
        if every == 1:
            return self
        rows = self.users % every == 0
        return _Crossed(self.users[rows] // every, self.items[rows], self.targets[rows])

    def biases(
        self, user_damping: float, item_damping: float, users: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the users' and items' damped means of what the other side leaves."""
        own = self.targets - (users[self.users] if isinstance(users, np.ndarray) else users)
        items = np.bincount(self.items, own) / (self.counts[1] + item_damping)
        rest = self.targets - items[self.items]
        return np.bincount(self.users, rest) / (self.counts[0] + user_damping), items

    def variances(self) -> tuple[float, float, float]:
        """Return the variance of a residual and the two dampings, a fixed point of both sides.

        A variance is a sum of squares divided by its degrees of freedom: of n ratings of an id with
        damping d, its bias takes n / (n + d).
        """
        dampings, users, variance = (USUAL, USUAL), np.zeros(self.counts[0].size), 0.0
        with np.errstate(all="ignore"):  # infinite targets are reported as divergence
            for _ in range(ROUNDS):
                users, items = self.biases(*dampings, users)
                residuals = self.targets - users[self.users] - items[self.items]
                taken = [
                    float((n / (n + d)).sum()) for n, d in zip(self.counts, dampings, strict=True)
                ]
                variance = float(residuals @ residuals) / max(self.targets.size - sum(taken), 1.0)
                if not 0 < variance < np.inf:
                    break
                before, dampings = (
                    dampings,
                    (
                        _damping(users, taken[0], variance),
                        _damping(items, taken[1], variance),
                    ),
                )
                if np.allclose(dampings, before, rtol=ENOUGH):
                    break
        return variance, *dampings


def _damping(biases: np.ndarray, taken: float, variance: float) -> float:
    """Return the damping of biases with these degrees of freedom, near `USUAL` if they are few."""
    squares = float(biases @ biases) / variance
    return float(np.clip((taken + PRIOR) / (squares + PRIOR / USUAL), *LIMITS))
