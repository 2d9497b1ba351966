"""Small models with the shape of our factor models, for tests of attacks; and a world for them."""

import numpy as np

from sfumato.data.interactions import Interactions

USERS, ITEMS, SHELVES = 300, 200, 5


def ratings_world(rows=12_000, seed=0):
    """Ratings from 1 to 5 by three true factors and noise; some users rate far more than others."""
    draws = np.random.default_rng(seed)
    weight = np.linspace(1, 10, USERS)
    chance = np.repeat(weight / weight.sum() / ITEMS, ITEMS)
    pairs = draws.choice(USERS * ITEMS, rows, replace=False, p=chance)
    users, items = np.divmod(pairs, ITEMS)
    p, q = draws.normal(0, 0.6, (USERS, 3)), draws.normal(0, 0.6, (ITEMS, 3))
    truth = 3 + (p[users] * q[items]).sum(axis=1) + draws.normal(0, 0.5, rows)
    return Interactions(users, items, np.clip(np.rint(truth), 1, 5))


class LeastSquares:
    """Alternating least squares; with many factors and next to no ridge it learns by heart."""

    def __init__(self, factors, ridge, sweeps=6):
        self.factors, self.ridge, self.sweeps = factors, ridge, sweeps

    def fit(self, train):
        self.mean_ = train.ratings.mean()
        rest = train.ratings - self.mean_
        rated = np.zeros((USERS, ITEMS))
        observed = np.zeros((USERS, ITEMS), bool)
        rated[train.users, train.items], observed[train.users, train.items] = rest, True
        self.q = np.random.default_rng(0).normal(0, 0.3, (ITEMS, self.factors))
        for _ in range(self.sweeps):
            self.p = self._solved(self.q, rated, observed)
            self.q = self._solved(self.p, rated.T, observed.T)
        return self

    def _solved(self, q, rated, observed):
        moments = np.einsum("ui,ij,ik->ujk", observed.astype(float), q, q, optimize=True)
        ridge = self.ridge * np.eye(self.factors)
        return np.linalg.solve(moments + ridge, (rated @ q)[..., None])[..., 0]

    def _user_vectors(self, users):
        return np.c_[self.p[users], np.zeros(len(users))].astype(np.float32)

    def _item_vectors(self, items):
        return np.c_[self.q[items], np.zeros(len(items))].astype(np.float32)

    def predict(self, users, items):
        result = self.mean_ + (self.p[users] * self.q[items]).sum(axis=1)
        return np.clip(result, 1, 5)


class Means:
    """The mean rating of a shelf of 40 items: next to nothing is learned of any one rating.

    Means of single items, of 30 ratings each, would be betrayed: a rating is a thirtieth of them.
    """

    def fit(self, train):
        self.mean_ = train.ratings.mean()
        shelf, every = train.items % SHELVES, np.arange(ITEMS) % SHELVES
        rest = np.bincount(shelf, train.ratings - self.mean_, SHELVES)
        self.bias = (rest / np.bincount(shelf, minlength=SHELVES))[every]
        return self

    def _user_vectors(self, users):
        return np.zeros((len(users), 3), np.float32)

    def _item_vectors(self, items):
        return np.c_[np.zeros((len(items), 2)), self.bias[items]].astype(np.float32)

    def predict(self, users, items):
        return self.mean_ + self.bias[items]


class Recited:
    """Predicts what a list says, for the pairs in it, in their order."""

    def __init__(self, pairs, result):
        self.known = dict(zip(zip(pairs.users, pairs.items, strict=True), result, strict=True))

    def predict(self, users, items):
        return np.array([self.known[pair] for pair in zip(users, items, strict=True)])
