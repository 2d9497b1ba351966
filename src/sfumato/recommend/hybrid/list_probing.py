"""Learning how lists are combined best: by NDCG on rows held out of the histories."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.data.interactions import Interactions
from sfumato.recommend.hybrid.combining import squashed, standardized
from sfumato.recommend.hybrid.parts import score_table
from sfumato.recommend.ranking import barred, excluded_by

__all__ = ["HeldOutLists", "learned_short_list", "learned_weights"]

LIST = 10  # items of the lists that are measured
CANDIDATES = 200  # of each part that a list is made of while weights are learned
CELLS = 1 << 23  # scores of each part that are in memory
WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
ROUNDS = 3
LEAST = 1e-4  # relative gain of NDCG that a change of weights must have
SHORT_LISTS = (1, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000)


@dataclass(frozen=True)
class HeldOutLists:
    """Standardised scores of the parts for users with held-out items, and which items these are.

    scores: (parts, users, items); hits, eligible: (users, items); wanted: held-out items of users.
    """

    scores: np.ndarray
    hits: np.ndarray
    eligible: np.ndarray
    wanted: np.ndarray

    @classmethod
    def of(
        cls, models: Iterable[Any], rest: Interactions, held_out: Interactions, random_state: int
    ) -> "HeldOutLists":
        """Score all items for a random sample of the users with held-out items."""
        models = list(models)
        catalogue = models[0].catalogue_
        at = catalogue.positions(held_out.items)
        held_out, at = held_out.filter(at >= 0), at[at >= 0]
        ids, codes = np.unique(held_out.users, return_inverse=True)
        most = max(1, CELLS // len(catalogue))
        sample = np.random.default_rng(random_state).permutation(ids.size)[:most]
        row_of = np.full(ids.size, -1)
        row_of[sample] = np.arange(sample.size)
        rows = row_of[codes]
        hits = np.zeros((sample.size, len(catalogue)), bool)
        hits[rows[rows >= 0], at[rows >= 0]] = True
        users = ids[sample]
        excluded = excluded_by("", users, rest, catalogue)
        bars = barred(np.zeros(hits.shape), None, excluded, slice(0, users.size))
        scores = np.stack([standardized(score_table(model, users)) for model in models])
        return cls(scores, hits & (bars == 0), bars == 0, (hits & (bars == 0)).sum(axis=1))


def _ndcg(scores: np.ndarray, hits: np.ndarray, wanted: np.ndarray) -> float:
    """Mean NDCG of the best ten of each row, over rows with a wanted item."""
    n = min(LIST, scores.shape[1])
    best = np.argpartition(-scores, n - 1, axis=1)[:, :n]
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
    best = np.take_along_axis(best, order, axis=1)
    discounts = 1 / np.log2(np.arange(2, n + 2))
    gains = (np.take_along_axis(hits, best, axis=1) * discounts).sum(axis=1)
    ideal = np.concatenate([[0.0], np.cumsum(discounts)])[np.minimum(wanted, n)]
    return float((gains[wanted > 0] / ideal[wanted > 0]).mean()) if (wanted > 0).any() else 0.0


def learned_weights(lists: HeldOutLists) -> np.ndarray:
    """Return the weights of standardised scores, of sum 1, that give the best lists.

    Coordinate search from the best part alone, over items that are near the top of any part.
    """
    scores, hits = _near_the_top(lists)
    alone = [_ndcg(each, hits, lists.wanted) for each in scores]
    weights = np.zeros(len(scores))
    weights[int(np.argmax(alone))] = 1
    best = max(alone)
    for _ in range(ROUNDS):
        before = best
        for at in range(len(scores)):
            for value in WEIGHTS:
                tried = weights.copy()
                tried[at] = value
                if not tried.any():
                    continue
                found = _ndcg(np.tensordot(tried, scores, 1), hits, lists.wanted)
                if found > best * (1 + LEAST):
                    weights, best = tried, found
        if best == before:
            break
    return np.asarray(weights / weights.sum())


def _near_the_top(lists: HeldOutLists) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and hits of the items that are among the best of any part, by user."""
    scores = np.where(lists.eligible, lists.scores, -np.inf)
    n = min(CANDIDATES, scores.shape[2])
    if n * len(scores) >= scores.shape[2]:
        return np.where(lists.eligible, lists.scores, -1e9), lists.hits
    best = np.argpartition(-scores, n - 1, axis=2)[:, :, :n]
    at = np.sort(best.transpose(1, 0, 2).reshape(scores.shape[1], -1), axis=1)
    again = np.diff(at, axis=1, prepend=-1) == 0
    found = np.take_along_axis(lists.scores, at[None], axis=2)
    there = np.take_along_axis(lists.eligible, at, axis=1) & ~again
    return np.where(there, found, -1e9), np.take_along_axis(lists.hits, at, axis=1)


def learned_short_list(lists: HeldOutLists) -> int:
    """Return the length of the short-list of the first part that gives the best lists."""
    first, second = (np.where(lists.eligible, squashed(each), -1.0) for each in lists.scores)
    n = min(SHORT_LISTS[-1], first.shape[1])
    at = np.argsort(-first, axis=1, kind="stable")[:, :n]
    hits = np.take_along_axis(lists.hits, at, axis=1)
    first, re_ranked = (np.take_along_axis(each, at, axis=1) for each in (first, second))
    found = {
        length: _ndcg(np.where(np.arange(n) < length, re_ranked + 2, first), hits, lists.wanted)
        for length in SHORT_LISTS
        if length <= n
    }
    found[second.shape[1]] = _ndcg(second, lists.hits, lists.wanted)
    return max(found, key=lambda length: found[length])
