"""A split of ratings as numbered rows, and how well factors do on it: lists, order and error."""

from dataclasses import dataclass, field

import numpy as np

from sfumato.recommend.metrics import rating as metrics
from sfumato.recommend.ranking import CatalogueVectors, ExcludedItems

PLACES = 10
LIKED = 4  # the rating from which on an item was liked
PAIRS = 1 << 16  # products of pairs at a time


@dataclass(frozen=True)
class Part:
    """Ratings of one part, users and items as rows of the whole set."""

    users: np.ndarray
    items: np.ndarray
    ratings: np.ndarray

    def liked(self):
        return self.users[self.ratings >= LIKED], self.items[self.ratings >= LIKED]

    def products(self, users, items):
        """The product of the two vectors of each pair."""
        out = np.empty(self.users.size, np.float32)
        for start in range(0, out.size, PAIRS):
            rows = slice(start, start + PAIRS)
            out[rows] = (users[self.users[rows]] * items[self.items[rows]]).sum(axis=1)
        return out


@dataclass(frozen=True)
class Split:
    """Random parts of 80, 10 and 10 % by a seed, and what was computed for it and is used again.

    `train_set` is the first part as Interactions, of `user_ids` and `item_ids`.
    """

    seed: int
    train_set: object
    user_ids: np.ndarray
    item_ids: np.ndarray
    train: Part
    valid: Part
    test: Part
    kept: dict = field(default_factory=dict)

    @classmethod
    def of(cls, data, seed):
        parts = data.split(0.8, 0.1, 0.1, random_state=seed)
        ids = np.unique(data.users), np.unique(data.items)
        numbered = [
            Part(np.searchsorted(ids[0], p.users), np.searchsorted(ids[1], p.items), p.ratings)
            for p in parts
        ]
        return cls(seed, parts[0], *ids, *numbered)

    @property
    def shape(self):
        return self.user_ids.size, self.item_ids.size

    def once(self, key, make):
        """What `make` gives, computed when first used."""
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def lists(self, users, items, numbers=None, *, test):
        """NDCG and recall of the ten items of the largest product plus the item's number.

        Without numbers a random one far below a step of a distance breaks ties.
        """
        part, before = (
            (self.test, (self.train, self.valid)) if test else (self.valid, (self.train,))
        )
        if numbers is None:
            numbers = 1e-4 * np.random.default_rng(self.seed).random(self.shape[1])
        beside = np.ones((len(users), 1), np.float32)
        shelf = CatalogueVectors.of(np.hstack([items, numbers[:, None]]).astype(np.float32))
        queries, known = np.hstack([users, beside]).astype(np.float32), self._known()
        found, scores = shelf.best(queries, PLACES, known, self._excluded(before))
        result = metrics.ranked(found, part.liked(), scores=scores)
        return {"ndcg": result["ndcg"], "recall": result["recall"]}

    def own(self, users, items, numbers):
        """NDCG of each user's own test items, put in order by the scores."""
        part = self.test
        scores = part.products(users, items) + numbers[part.items]
        order = np.lexsort((-scores, part.users))
        who = part.users[order]
        place = np.arange(who.size) - np.searchsorted(who, who)
        top = place < PLACES
        found, result = np.full((2, self.shape[0], PLACES), -1.0)
        result[:] = -np.inf
        found[who[top], place[top]] = part.items[order][top]
        result[who[top], place[top]] = scores[order][top]
        return metrics.ranked(found.astype(np.int64), part.liked(), scores=result)["ndcg"]

    def line(self, users, items, biases):
        """The line from products to what biases leave, through the validation part, and its RMSE.

        Parameters: biases, of users, with the mean of all ratings in them, and of items.
        """
        rest = self.valid.ratings - biases[0][self.valid.users] - biases[1][self.valid.items]
        products = self.valid.products(users, items)
        if not np.ptp(products):
            return 0.0, 0.0, float(np.sqrt(np.mean(rest**2)))
        slope, height = np.polyfit(products, rest, 1)
        error = np.sqrt(np.mean((rest - slope * products - height) ** 2))
        return float(slope), float(height), float(error)

    def rated(self, users, items, biases):
        """RMSE on test, NDCG among the user's own test items, and lists over all items."""
        slope, height, _ = self.line(users, items, biases)
        part = self.test
        result = slope * part.products(users, items) + height
        result += biases[0][part.users] + biases[1][part.items]
        error = metrics.rmse(part.ratings, np.clip(result, 1, 5))
        ties = 1e-6 * np.random.default_rng(self.seed).random(self.shape[1])
        ranked = np.float32(slope) * users, items, biases[1] + ties
        lists = self.lists(*ranked, test=True)
        return {"rmse": error, "own": self.own(*ranked), **lists}

    def _known(self):
        return np.bincount(self.train.items, minlength=self.shape[1]) > 0

    def _excluded(self, parts):
        users = np.concatenate([part.users for part in parts])
        items = np.concatenate([part.items for part in parts])
        order = np.argsort(users, kind="stable")
        starts = np.searchsorted(users[order], np.arange(self.shape[0] + 1))
        return ExcludedItems(starts, items[order], np.arange(self.shape[0]))
