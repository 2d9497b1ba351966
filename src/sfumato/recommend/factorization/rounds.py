"""Training in rounds on an engine: groups of users learn at once, and their changes are added."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.core.validation import integer, optional
from sfumato.data.interactions import Interactions
from sfumato.engine import Engine, Rows
from sfumato.recommend.checkpoints import Checkpoint
from sfumato.recommend.factorization.damping import BiasPrior
from sfumato.recommend.factorization.epochs import Progress
from sfumato.recommend.factorization.factor_cells import FactorCells
from sfumato.recommend.factorization.strata import (
    RatingStrata,
    RatingSummary,
    by_group,
    joined,
)

if TYPE_CHECKING:
    from sfumato.recommend.factorization.sketched import SketchFactorization

__all__ = ["RatingStrata", "RoundTraining", "groups_for", "summarised"]

GROUPS = optional(integer(1, 256))
FEWEST, MOST = 2, 256  # groups, if it is left to the engine
OWNER = "SketchFactorization"


def groups_for(given: int | None, engine: Engine, checkpoint: Any) -> int:
    """Return the number of groups: given, of the checkpoint, or one for each core."""
    groups: int | None = GROUPS.check(OWNER, "groups", given)
    if groups is None and checkpoint is not None:
        groups = Checkpoint.stored_groups(checkpoint)
    return min(max(engine.cores, FEWEST), MOST) if groups is None else groups


def summarised(rows: Rows, columns: Any) -> RatingSummary:
    """Summarise the rows; raise ValueError unless they suffice for a fit."""
    found = RatingSummary.of(rows, columns)
    if not found.rows:
        raise ValueError(f"{OWNER}: the source is empty; at least one row is needed.")
    if len(found.kinds) > 1:
        raise TypeError(f"{OWNER}: ids are integers in some rows and text in others; convert them.")
    if len(found.items) < 2:
        raise ValueError(f"{OWNER}: the source has one item only; at least two are needed.")
    return found


@dataclass
class RoundTraining:
    """Rounds of a fit: each stratum of ratings, then the damping of biases, epoch after epoch.

    The table is in the closure of a round. Each group of users changes a copy of it, and the sum of
    all changes is added: users and items of two groups differ, so that but for cells which happen
    to be shared the sum is what one pass after the other would give.
    """

    model: "SketchFactorization"
    plain: dict[str, Any]
    strata: RatingStrata
    prior: BiasPrior | None
    items: np.ndarray  # hashes
    checkpoint: Checkpoint
    rounds: int = field(default=0, init=False)  # complete

    def run(self, valid: Interactions | None, progress: Progress | None) -> None:
        """Run all rounds that the checkpoint does not have."""
        self.rounds, errors = self.checkpoint.load(self._cells.table)
        name = self.model._measure
        for at, error in enumerate(errors):
            self.model.history_.append({"epoch": at + 1, name: error})
        for epoch in range(len(errors), self.plain["epochs"]):
            self._epoch(epoch)
            self.model.history_.append({"epoch": epoch + 1, name: None})
            if valid is not None:
                self.model._changed()
                self.model.history_[-1][name] = self.model._validated(valid, valid)
            self._save()
            if epoch == len(errors):
                self.strata.unpersist_source()
            if progress is not None:
                progress(epoch + 1, self.plain["epochs"], self.model.history_[-1][name])

    @property
    def _cells(self) -> FactorCells:
        return self.model._cells

    def _epoch(self, epoch: int) -> None:
        """Run the rounds of an epoch that are not complete yet."""
        random = np.random.default_rng([self.plain["random_state"], epoch])
        groups = len(self.strata.strata)
        steps = [int(at) for at in random.permutation(groups)]
        rate = self.model._rate(self.plain, epoch / self.plain["epochs"])
        for at in range(self.rounds - epoch * (groups + 1), groups):
            self._add(
                self.strata.strata[steps[at]].fold(self._descent(epoch, at, rate), joined), rate
            )
            self.rounds += 1
            self._save()
        self._finish(rate, random)
        self.rounds += 1

    def _descent(self, epoch: int, at: int, rate: float) -> "_GroupDescent":
        clip, model = self.plain["clip"], self.model
        steps = {
            "clip": math.inf if clip is None else 2 * clip / model.scale_**2,
            "rate": rate,
            "weight": float(self.plain["regularization"]),
            "biases": self.prior is None,
        }
        seed = self.plain["random_state"], epoch, at
        return _GroupDescent(self._cells, model.mean_, model.scale_, steps, seed)

    def _finish(self, rate: float, random: np.random.Generator) -> None:
        """Damp the biases of users on the engine and those of items here, or add the noise."""
        if self.prior is not None:
            users = _GroupDamping(self._cells, _fraction(rate, self.prior.user_damping))
            self._add(self.strata.users.fold(users, joined), rate)
            self._cells.damp(self.items, _fraction(rate, self.prior.item_damping))
        if self.plain["noise"] is not None:
            self._cells.add_noise(math.sqrt(2 * rate * self.plain["noise"]), random)

    def _add(self, change: np.ndarray | None, rate: float) -> None:
        """Add a round's change to the table; raise ValueError where it is not finite."""
        if change is None:
            return
        with np.errstate(all="ignore"):
            self._cells.table[:] += change
        if not np.isfinite(self._cells.table).all():
            raise ValueError(
                f"{OWNER}: the descent diverged at a learning rate of {rate:g}; give a smaller "
                "learning_rate or regularization."
            )

    def _save(self) -> None:
        errors = [entry[self.model._measure] for entry in self.model.history_]
        self.checkpoint.save(self._cells.table, self.rounds, errors)


def _fraction(rate: float, damping: float) -> float:
    """Return what a step of this rate takes off a bias."""
    return 1 - 1 / (1 + rate * damping)


@dataclass(frozen=True)
class _GroupDescent:
    """Fold to the change of the table by one pass over each group's ratings."""

    cells: FactorCells
    mean: float
    scale: float
    steps: dict[str, Any]
    seed: tuple[int, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> np.ndarray | None:
        change = None
        for group, (users, items, ratings) in by_group(batches, ["user", "item", "rating"]):
            own = FactorCells(**self.cells.shape, table=self.cells.table)
            order = np.random.default_rng([*self.seed, group]).permutation(users.size)
            with np.errstate(over="ignore"):  # reported as divergence
                targets = ((ratings[order] - self.mean) / self.scale).astype(np.float32)
            own.descend(users[order], items[order], targets, **self.steps)
            change = joined(change, own.table - self.cells.table)
        return change


@dataclass(frozen=True)
class _GroupDamping:
    """Fold to the change of the table when this fraction is taken off the biases of users."""

    cells: FactorCells
    fraction: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> np.ndarray | None:
        change = None
        for _, (users,) in by_group(batches, ["user"]):
            own = FactorCells(**self.cells.shape, table=self.cells.table)
            own.damp(users, self.fraction)
            change = joined(change, own.table - self.cells.table)
        return change
