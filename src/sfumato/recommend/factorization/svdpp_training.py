"""Training of SVD++ and its variant in time: tables, epochs and penalties."""

import math
from typing import Any

import numpy as np
from numpy.random import Generator

from sfumato.core.validation import between
from sfumato.kernels.alignment import aligned
from sfumato.kernels.recommend import sgd_svdpp
from sfumato.recommend.factorization.damping import BiasPrior
from sfumato.recommend.factorization.passes import in_ratings
from sfumato.recommend.factorization.sgd import START
from sfumato.recommend.ratings.rated_rows import RatedRows

__all__ = ["PENALTIES", "PENALTY", "SvdppTraining"]

LANES = 16
PENALTY = between(0, math.inf)
PENALTIES = (
    "user_regularization",
    "item_regularization",
    "implicit_regularization",
    "user_bias_regularization",
    "item_bias_regularization",
)


class SvdppTraining:
    """Tables of SVD++ in stars while they are trained, and the ratings in the order of users."""

    def __init__(
        self, owner: str, plain: dict[str, Any], rated: RatedRows, mean: float, scale: float
    ) -> None:
        self.owner = owner  # the model's name in errors
        self.plain: dict[str, Any]
        self.random: np.random.Generator
        self.plain, self.random = plain, np.random.default_rng(plain["random_state"])
        self.starts: np.ndarray
        self.items: np.ndarray
        self.rows: np.ndarray
        self.starts, self.items, self.rows = rated.starts, rated.positions, np.arange(len(rated))
        users, items = rated.starts.size - 1, rated.items
        with np.errstate(over="ignore"):  # overflow of float32 is reported as divergence
            targets = np.asarray((rated.ratings - mean) / scale, np.float32)
        self.prior = BiasPrior()
        if plain["regularization"] > 0:
            self.prior = BiasPrior.of_codes(rated.user_rows, self.items, targets)
        self.scale: float
        self.targets: np.ndarray
        self.scale, self.targets = scale * self.prior.unit, targets / np.float32(self.prior.unit)
        self.p: np.ndarray
        self.q: np.ndarray
        self.p, self.q = (_started(n, plain["factors"], self.random) for n in (users, items))
        self.y: np.ndarray = aligned(self.q.shape, np.float32)
        self.biases: tuple[np.ndarray, np.ndarray] = (
            np.zeros(users, np.float32),
            np.zeros(items, np.float32),
        )
        for own, given in zip(
            self.biases, (self.prior.user_biases, self.prior.item_biases), strict=True
        ):
            own[: np.size(given)] = given  # the last ones may have no ratings
        self.sums: np.ndarray = aligned(2 * self.p.shape[1], np.float32)

    def epoch(self, number: int) -> None:
        """Run one epoch, the first is 0; raise ValueError if numbers overflow."""
        plain = self.plain
        rate = plain["learning_rate"] / (1 + plain["decay"] * number / plain["epochs"])
        order = self.random.permutation(self.starts.size - 1)
        seed = self.random.integers(2**64, dtype=np.uint64)
        steps = np.array([rate, *(1 - rate * each for each in self.penalties())], np.float32)
        rows = order, self.starts, self.items, self.targets, self.rows, seed, steps
        self.step(*rows, self.sums)
        self.damp(rate)
        with np.errstate(all="ignore"):  # a value that is not finite leaves no finite sum
            if not np.isfinite([table.sum() for table in self.tables()]).all():
                raise ValueError(
                    f"{self.owner}: the descent diverged at a learning rate of {rate:g}; give a "
                    "smaller learning_rate or regularization."
                )

    def step(self, *rows: Any) -> None:
        """Run the kernel on all rows."""
        sgd_svdpp.descend(*rows, *self.tables())

    def tables(self) -> tuple[np.ndarray, ...]:
        """Return what is learned, in the order of the kernel."""
        return self.p, self.q, self.y, *self.biases

    def penalties(self) -> list[float]:
        """Return the penalties of p, q, y and both biases; 0 for biases that are damped."""
        plain = self.plain
        common = [plain["regularization"]] * 3 + [0.0, 0.0]
        return [
            usual if plain[name] is None else plain[name]
            for name, usual in zip(PENALTIES, common, strict=True)
        ]

    def damp(self, rate: float) -> None:
        """Shrink the biases that have no penalty of their own, as `DenseFactorization` does."""
        dampings = self.prior.user_damping, self.prior.item_damping
        for biases, name, damping in zip(self.biases, PENALTIES[3:], dampings, strict=True):
            if self.plain["regularization"] > 0 and self.plain[name] is None:
                biases /= np.float32(1 + rate * damping)

    def implicit(self) -> np.ndarray:
        """Return y in the unit of the ratings."""
        components = self.plain["factors"] - 1
        return np.array(self.y[:, :components] * np.float32(self.scale**0.5))

    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of users, the implicit sums included, and of items."""
        sums = np.zeros_like(self.p)
        sgd_svdpp.implicit_sums(self.starts, self.items, self.y, sums)
        return self.joined(self.p + sums, self.biases[0]), self.joined(self.q, self.biases[1])

    def joined(self, components: np.ndarray, biases: np.ndarray) -> np.ndarray:
        """Return rows of components and, last, biases in the unit of the ratings."""
        unit = in_ratings(self.plain["factors"], self.scale)
        return np.asarray(np.column_stack([components[:, : unit.size - 1], biases]) * unit)


def _started(count: int, factors: int, random: Generator) -> np.ndarray:
    """Return rows of small random components, zero-padded to whole blocks."""
    table = aligned((count, max(-(-(factors - 1) // LANES), 1) * LANES), np.float32)
    drawn = random.standard_normal((count, factors - 1), np.float32)
    table[:, : factors - 1] = drawn * np.float32(START)
    return table
