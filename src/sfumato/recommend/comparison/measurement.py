"""Measures one fitted model on one split: the values of users, in all slices, and of its lists."""

from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from sfumato.core.ids import positions
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import predictions
from sfumato.recommend.comparison.clustered_means import UserSums
from sfumato.recommend.comparison.protocol import EvaluationProtocol, pair_codes
from sfumato.recommend.metrics.beyond_accuracy import coverage, diversity, novelty
from sfumato.recommend.metrics.ranking import PER_USER, filled, matched
from sfumato.recommend.metrics.rating import mae, recommended

__all__ = ["EVERYTHING", "ITEM_SLICES", "Measurement", "SplitData", "measured", "user_slices"]

EVERYTHING = "all"
ITEM_SLICES = ("head items", "tail items", "new items")
DIVERSE_LISTS = 1000  # lists whose diversity is measured, at most


@dataclass(frozen=True)
class Measurement:
    """What was measured: sums of users by slice and metric, properties of the lists, seconds."""

    sums: dict[tuple[str, str], UserSums]
    lists: dict[str, float]
    answer_seconds: float


def user_slices(protocol: EvaluationProtocol) -> list[str]:
    """Return the names of the slices of users, fewest training rows first."""
    names, low = [], 0
    for high in protocol.activity:
        names.append(f"{low} rows" if low == high else f"{low} to {high} rows")
        low = high + 1
    return [*names, f"{low} rows or more"]


class SplitData:
    """One split as integer codes, common to all models that are measured on it.

    A row here is a test row; with the objective "ranking" only one that a list should contain.
    """

    def __init__(self, data: Interactions, protocol: EvaluationProtocol, repeat: int) -> None:
        self.protocol = protocol
        self.train: Interactions
        self.train, test = protocol.parts(data, repeat)
        if protocol.objective == "ranking" and protocol.relevant_from is not None:
            test = test.filter(test.ratings >= protocol.relevant_from)
        self.test = test
        if not len(self.train) or not len(test):
            raise ValueError(
                "compare: the split leaves no row to learn from or none to find; give more data, "
                "another split or test_size, or a lower relevant_from."
            )
        self.user_ids: np.ndarray
        self.item_ids: np.ndarray
        self.user_ids, self.item_ids = data.coded().user_ids, data.coded().item_ids
        self.users: np.ndarray
        self.items: np.ndarray
        self.users, self.items = self._codes(data, test)
        users, items = self._codes(data, self.train)
        # Codes above those of the data are for other items of a catalogue, one per slot of a list.
        shape = self.item_ids.size + self.longest_list, self.user_ids.size
        self.owners: Any = csr_array((np.ones(users.size, np.float32), (items, users)), shape=shape)
        self.owners.data[:] = 1.0  # a pair that the data has twice is one owner

    @staticmethod
    def _codes(data: Interactions, part: Interactions) -> tuple[np.ndarray, np.ndarray]:
        users, items = np.divmod(pair_codes(data, part), len(data.coded().item_ids))
        return users, items

    @property
    def longest_list(self) -> int:
        """Length of the lists that the metrics need; 0 for ratings."""
        return max(_parsed(name)[1] for name in self.protocol.metrics)

    @cached_property
    def item_counts(self) -> np.ndarray:
        """Number of users in train who have each item."""
        return np.asarray(self.owners.sum(axis=1), np.float64)

    @cached_property
    def user_counts(self) -> np.ndarray:
        """Number of items that each user has in train."""
        return np.asarray(self.owners.sum(axis=0), np.float64)

    @property
    def known_users(self) -> int:
        """Number of users in train."""
        return int((self.user_counts > 0).sum())

    @cached_property
    def surprise(self) -> np.ndarray:
        """Bits of each item: -log2 of the fraction of users who have it, at least one of them."""
        return np.asarray(-np.log2(np.maximum(self.item_counts, 1) / self.known_users))

    @cached_property
    def slices(self) -> dict[str, np.ndarray]:
        """Rows of each slice as a mask; slices without rows are left out."""
        by_user = np.searchsorted(self.protocol.activity, self.user_counts)[self.users]
        masks = {EVERYTHING: np.ones(self.users.size, bool)}
        for code, name in enumerate(user_slices(self.protocol)):
            masks[name] = by_user == code
        of = self._popularity_class()[self.items]
        masks |= {name: of == code for code, name in enumerate(ITEM_SLICES)}
        return {name: mask for name, mask in masks.items() if mask.any()}

    def _popularity_class(self) -> np.ndarray:
        """0 for items of the head, 1 for those of the tail, 2 for those without training rows."""
        order = np.argsort(-self.item_counts, kind="stable")
        before = np.cumsum(self.item_counts[order]) - self.item_counts[order]
        classes = np.empty(order.size, np.int64)
        classes[order] = np.where(before < self.protocol.head * self.item_counts.sum(), 0, 1)
        classes[self.item_counts == 0] = 2
        return classes

    @cached_property
    def listed_users(self) -> tuple[np.ndarray, np.ndarray]:
        """Codes of the users with a row, and the position of each row's user among them."""
        users, at = np.unique(self.users, return_inverse=True)
        return users, at


def measured(model: Any, split: SplitData) -> Measurement:
    """Measure a model that was fitted on the training part of a split."""
    if split.protocol.objective == "ratings":
        return _of_ratings(model, split)
    return _of_lists(model, split)


def _of_ratings(model: Any, split: SplitData) -> Measurement:
    """Squared and absolute errors of the predicted ratings."""
    if not hasattr(model, "predict") or not getattr(model, "predicts_ratings", True):
        raise TypeError(f"{type(model).__name__} predicts no ratings; compare it by ranking.")
    begun = perf_counter()
    predicted = predictions(model, split.test)
    seconds = perf_counter() - begun
    mae(split.test.ratings, predicted)  # raises unless there is one finite number per row
    errors = predicted - split.test.ratings
    values = {"rmse": errors**2, "mae": np.abs(errors)}
    size, sums = split.user_ids.size, {}
    for part, mask in split.slices.items():
        counts = np.bincount(split.users[mask], minlength=size)
        for name in split.protocol.metrics:
            total = np.bincount(split.users[mask], values[name][mask], minlength=size)
            sums[part, name] = UserSums(total, counts)
    return Measurement(sums, {}, seconds)


def _of_lists(model: Any, split: SplitData) -> Measurement:
    """Ranking metrics of the lists, in every slice, and properties of the lists themselves."""
    if not hasattr(model, "recommend"):
        raise TypeError(f"{type(model).__name__} recommends no lists; compare it by ratings.")
    users, at = split.listed_users
    wanted = [_parsed(name) for name in split.protocol.metrics]
    begun = perf_counter()
    items, scores = recommended(model, split.user_ids[users], split.longest_list, split.train)
    seconds = perf_counter() - begun
    codes, mask = _coded(items, scores, split)
    sums = {}
    for part, rows in split.slices.items():
        found = matched("compare", codes, (at[rows], split.items[rows]), scores=mask)
        there = found.relevant > 0
        counts = np.bincount(users[there], minlength=split.user_ids.size)
        for name, (metric, n) in zip(split.protocol.metrics, wanted, strict=True):
            values = PER_USER[metric](found.first(n))[there]
            total = np.bincount(users[there], values, minlength=split.user_ids.size)
            sums[part, name] = UserSums(total, counts)
    first = wanted[0][1]
    about = {
        "coverage": _coverage(model, items[:, :first], scores[:, :first], split),
        **_about(codes[:, :first], mask[:, :first], split),
    }
    return Measurement(sums, about, seconds)


def _parsed(name: str) -> tuple[str, int]:
    """Return a metric and the length of its lists, of a name such as "ndcg@10"; 0 for ratings."""
    metric, _, n = name.partition("@")
    return metric, int(n or 0)


def _coded(
    items: np.ndarray, scores: np.ndarray, split: SplitData
) -> tuple[np.ndarray, np.ndarray]:
    """Return item codes of lists of equal length, and the mask of slots that contain an item."""
    n = split.longest_list
    there = filled("compare", items, scores)
    shape = split.listed_users[0].size, n
    if len(there) != shape[0] or there.shape[1] > n:
        raise ValueError(f"recommend must return a list of at most {n} items for each user.")
    codes, mask = np.zeros(shape, np.int64), np.zeros(shape, bool)
    mask[:, : there.shape[1]] = there
    ids = np.asarray(items)[there]
    found = positions(ids if ids.dtype == object else ids.astype(np.int64), split.item_ids)
    unknown = split.item_ids.size + np.nonzero(there)[1]
    codes[mask] = np.where(found >= 0, found, unknown)
    return codes, mask


def _coverage(model: Any, items: np.ndarray, scores: np.ndarray, split: SplitData) -> float:
    """Return the fraction of the model's catalogue that is in at least one list."""
    catalogue = getattr(model, "catalogue_", None)
    if catalogue is None:
        catalogue = split.train.coded().item_ids
    return coverage(items, getattr(catalogue, "ids", catalogue), scores=scores)


def _about(codes: np.ndarray, mask: np.ndarray, split: SplitData) -> dict[str, float]:
    """Return diversity, novelty and popularity bias of the lists."""
    some = np.unique(np.linspace(0, len(codes) - 1, min(DIVERSE_LISTS, len(codes))).astype(int))
    items = np.unique(codes[some])
    every = np.arange(split.item_counts.size)
    return {
        "diversity": diversity(codes[some], items, split.owners[items], scores=mask[some]),
        "novelty": novelty(codes, every, split.item_counts, split.known_users, scores=mask),
        "popularity_bias": _popularity_bias(codes, mask, split),
    }


def _popularity_bias(codes: np.ndarray, mask: np.ndarray, split: SplitData) -> float:
    """Return how much more popular lists are than their users' training items, in bits."""
    users = split.listed_users[0]
    own, listed = split.user_counts[users], mask.sum(axis=1)
    history = (split.owners.T @ split.surprise)[users] / np.maximum(own, 1)
    recommendation = np.where(mask, split.surprise[codes], 0.0).sum(axis=1) / np.maximum(listed, 1)
    both = (own > 0) & (listed > 0)
    return float((history - recommendation)[both].mean()) if both.any() else float("nan")
