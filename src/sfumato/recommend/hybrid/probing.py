"""Probing: rows held out of the training data, and what is learned from them of the parts."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.data.interactions import Interactions
from sfumato.recommend.hybrid.parts import score_pairs
from sfumato.recommend.hybrid.stacking import FOLDS, Probe, Stacking
from sfumato.recommend.hybrid.support import Support

__all__ = ["META", "Blend", "ProbedRatings", "parted", "probe_rows"]

PROBE_ROWS = 50_000  # that folds=None collects, if so few folds do
MOST_FOLDS = 5
META = 2  # meta-features of a pair: the logarithms of the numbers of rows of user and item
CONFIDENCE = 0.95


def probe_rows(
    train: Interactions, used: np.ndarray, plain: dict[str, Any]
) -> Iterator[np.ndarray]:
    """Yield the rows of each probe part, among those that may be used."""
    size = max(1, round(plain["probe"] * used.size))
    if plain["probe_by"] == "latest":
        assert train.times is not None
        order = used[np.argsort(train.times[used], kind="stable")]
        yield order[-size:]
        return
    folds = plain["folds"]
    if folds is None:
        most = min(MOST_FOLDS, int(1 / plain["probe"] + 1e-9))
        folds = min(max(-(-PROBE_ROWS // size), 1), most)
    order = used[np.random.default_rng(plain["random_state"]).permutation(used.size)]
    for fold in range(folds):
        yield order[fold * size : (fold + 1) * size]


def parted(train: Interactions, rows: np.ndarray) -> tuple[Interactions, Interactions]:
    """Return the other rows, and these."""
    there = np.zeros(len(train), bool)
    there[rows] = True
    return train.filter(~there), train.filter(there)


@dataclass
class ProbedRatings:
    """What parts predict for held-out ratings, collected over probe parts."""

    scores: list[np.ndarray] = field(default_factory=list)
    counts: list[np.ndarray] = field(default_factory=list)
    rows: list[Interactions] = field(default_factory=list)

    def add(self, models: dict[str, Any], held_out: Interactions, support: Support) -> None:
        """Collect the scores of models that were fitted without these rows."""
        users, items = held_out.users, held_out.items
        catalogue = next(iter(models.values())).catalogue_
        own = support.of_users(users), support.of_items(catalogue.positions(items))
        self.scores.append(
            np.stack([score_pairs(each, users, items, held_out.times) for each in models.values()])
        )
        self.counts.append(np.stack(own))
        self.rows.append(held_out)

    def users(self) -> np.ndarray:
        """Return a number for the user of each row."""
        ids = np.concatenate([each.users for each in self.rows])
        return np.asarray(np.unique(ids, return_inverse=True)[1])


@dataclass(frozen=True)
class Blend:
    """Weights of parts and meta-features, and what each part adds."""

    weights: np.ndarray
    scales: np.ndarray
    parts: list[dict[str, Any]]
    rmse: float | None

    @classmethod
    def equal(cls, names: list[str]) -> "Blend":
        """The plain mean of the parts, of which nothing was measured."""
        weights = np.zeros((len(names) + 1, META + 1))
        weights[:-1, 0] = 1 / len(names)
        unknown = dict.fromkeys(("rmse", "rmse_without", "adds", "low", "high"))
        parts = [{"name": name, "weight": 1 / len(names), **unknown} for name in names]
        return cls(weights, np.array([[0.0] * META, [1.0] * META]), parts, None)

    @classmethod
    def learned(
        cls,
        probed: ProbedRatings,
        names: list[str],
        mean: float,
        bounds: tuple[float, float],
        plain: dict[str, Any],
    ) -> "Blend":
        """Learn the weights on the probe parts."""
        users = probed.users()
        meta = np.log1p(np.concatenate(probed.counts, axis=1)).T
        scales = np.stack([meta.mean(0), np.maximum(meta.std(0), 1e-6)])
        groups = np.random.default_rng(plain["random_state"]).integers(FOLDS, size=users.max() + 1)
        ratings = np.concatenate([each.ratings for each in probed.rows]).astype(np.float64)
        probe = Probe(
            np.concatenate(probed.scores, axis=1).T - mean,
            (meta - scales[0]) / scales[1],
            ratings - mean,
            groups[users],
        )
        stacking = Stacking.of(probe, meta=plain["by_support"])
        errors = _Errors(users, probe.targets, (bounds[0] - mean, bounds[1] - mean))
        whole = errors.of(stacking.validated(probe))
        parts = [
            {
                "name": name,
                "weight": float(stacking.weights[at, 0]),
                "rmse": errors.of(probe.scores[:, at]).linearized(True)[0],
                **_added(probe.without(at), plain["by_support"], errors, whole),
            }
            for at, name in enumerate(names)
        ]
        return cls(stacking.weights, scales, parts, whole.linearized(True)[0])


@dataclass(frozen=True)
class _Errors:
    """Squared errors of predictions, clipped to the bounds, by user."""

    users: np.ndarray
    targets: np.ndarray
    bounds: tuple[float, float]

    def of(self, predicted: np.ndarray) -> Any:
        from sfumato.recommend.comparison.clustered_means import UserSums  # of all models

        squares = (np.clip(predicted, *self.bounds) - self.targets) ** 2
        return UserSums(np.bincount(self.users, squares), np.bincount(self.users))


def _added(others: Probe, meta: bool, errors: _Errors, whole: Any) -> dict[str, float | None]:
    """Return what a part adds to the others: the error of their own blend less that of all."""
    from sfumato.recommend.comparison.clustered_means import difference  # of all models

    if others.scores.shape[1] == 0:
        return dict.fromkeys(("rmse_without", "adds", "low", "high"))
    without = errors.of(Stacking.of(others, meta=meta).validated(others))
    found = difference(without, whole, CONFIDENCE, root=True)
    finite = np.isfinite([found.low, found.high]).all()  # not for a single user
    return {
        "rmse_without": without.linearized(True)[0],
        "adds": found.value,
        "low": found.low if finite else None,
        "high": found.high if finite else None,
    }
