"""Other packages' recommenders behind our two calls, `fit(train)` and `recommend(users, n)`.

Every peer is built from its package's own parameters. Rows enter as preferences of weight 1
("equal"), as log(1 + rating) ("log"), or as BM25 weights of the ratings ("bm25", from implicit).
`seconds` is the time of the package's own fit, without making its input. A user of whom there is no
training row gets the most popular items, as ours do; training items are never listed.

- lenskit 2025 asks for pandas 2 and torch, and its older versions do not work with our Numba;
- rectools 0.19 asks for NumPy 1 on Python 3.11: its ALS, BPR and item-kNN wrap implicit, and its
  EASE is the closed form of cornac's;
so neither can share our process. cornac's WMF, VAECF and LightGCN ask for torch.
"""

import time
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp

from sfumato.core.arrays import top_n

ROWS = 256  # users whose scores are computed at a time


class Peer:
    """Codes users and items, times the fit, and lists what `scores` orders."""

    def __init__(self, *, weighting="equal", **parameters):
        self.weighting, self.parameters = weighting, parameters

    def fit(self, train):
        self.user_ids, users = np.unique(train.users, return_inverse=True)
        self.item_ids, items = np.unique(train.items, return_inverse=True)
        shape = self.user_ids.size, self.item_ids.size
        values = np.asarray(train.ratings, np.float32)
        self.rows = sp.csr_matrix((self._weights(values), (users, items)), shape)
        if self.weighting == "bm25":
            from implicit.nearest_neighbours import bm25_weight

            self.rows = bm25_weight(self.rows.T, K1=100, B=0.8).T.tocsr().astype(np.float32)
        self.popularity = np.bincount(items, minlength=shape[1])
        work = self.prepared(users, items, values)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            work()
            self.seconds = time.perf_counter() - start
        return self

    def recommend(self, users, n, exclude=None):
        """Lists and scores; what to exclude is the training data in any case."""
        at = np.minimum(np.searchsorted(self.user_ids, users), self.user_ids.size - 1)
        known = self.user_ids[at] == users
        found = np.tile(np.argsort(-self.popularity, kind="stable")[:n], (len(users), 1))
        scores = np.zeros(found.shape)
        found[known], scores[known] = self.lists(at[known], n)
        return np.where(scores > -np.inf, self.item_ids[found], -1), scores

    def lists(self, rows, n):
        found, values = np.zeros((rows.size, n), np.int64), np.zeros((rows.size, n))
        for start in range(0, rows.size, ROWS):
            part = slice(start, start + ROWS)
            table = np.array(self.scores(rows[part]), np.float64)
            table[self.rows[rows[part]].nonzero()] = -np.inf
            found[part], values[part] = top_n(table, n)
        return found, values

    def prepared(self, users, items, values):
        """Make the package's input, and return what is left to do: its fit."""
        raise NotImplementedError

    def scores(self, rows):
        """Scores of all items for these users, where `lists` is not the package's own."""
        raise NotImplementedError

    def _weights(self, values):
        if self.weighting == "equal":
            return np.ones_like(values)
        return np.log1p(values) if self.weighting == "log" else values


class Implicit(Peer):
    """implicit's models, which rank by themselves."""

    def __init__(self, *, kind, **parameters):
        super().__init__(**parameters)
        self.kind = kind

    def prepared(self, users, items, values):
        self.model = self._made()
        return lambda: self.model.fit(self.rows, show_progress=False)

    def lists(self, rows, n):
        found, values = self.model.recommend(rows, self.rows[rows], N=n)
        empty = (found < 0) | (values <= np.finfo(np.float32).min)
        return np.where(empty, 0, found), np.where(empty, -np.inf, values)

    def _made(self):
        from implicit.cpu.als import AlternatingLeastSquares
        from implicit.cpu.bpr import BayesianPersonalizedRanking
        from implicit.nearest_neighbours import (
            BM25Recommender,
            CosineRecommender,
            TFIDFRecommender,
        )

        options = dict(self.parameters)
        if "regularization_of_alpha" in options:
            options["regularization"] = options.pop("regularization_of_alpha") * options["alpha"]
        if self.kind in ("als", "bpr"):
            makers = {"als": AlternatingLeastSquares, "bpr": BayesianPersonalizedRanking}
            return makers[self.kind](num_threads=1, random_state=0, **options)
        neighbours = {
            "cosine": CosineRecommender,
            "tfidf": TFIDFRecommender,
            "bm25": BM25Recommender,
            "bm25, K1 100, B 0.25": partial(BM25Recommender, K1=100.0, B=0.25),
        }
        return neighbours[self.kind](num_threads=1, **options)


class Cornac(Peer):
    """cornac's models, asked for one user's scores at a time, as they answer."""

    def __init__(self, *, kind, weighting="equal", **parameters):
        super().__init__(weighting=weighting, **parameters)
        self.kind = kind

    def prepared(self, users, items, values):
        import cornac

        ids = [dict(zip(range(size), range(size), strict=True)) for size in self.rows.shape]
        data = cornac.data.Dataset(*self.rows.shape, *ids, self._entries(users, items, values), 0)
        options = {} if self.kind == "EASE" else {"num_threads": 1}
        options |= {"seed": 0, "verbose": False, **self.parameters}
        self.model = getattr(cornac.models, self.kind)(**options)
        return lambda: self.model.fit(data)

    def _entries(self, users, items, values):
        rows = self.rows.tocoo()
        return rows.row, rows.col, rows.data.astype(float)

    def scores(self, rows):
        return np.stack([np.ravel(self.model.score(row)) for row in rows.tolist()])


class CornacNeighbours(Cornac):
    """cornac's neighbours: weighted means of ratings, not sums; `weighting` is of its cosine."""

    def __init__(self, *, kind, **parameters):
        super().__init__(kind=kind)
        self.parameters = parameters

    def _entries(self, users, items, values):
        return users, items, values.astype(float)


class Surprise(Peer):
    """surprise's SVD of ratings: a model of stars, whose products are taken for all items."""

    def prepared(self, users, items, values):
        import pandas as pd
        from surprise import SVD, Dataset, Reader

        frame = pd.DataFrame({"user": users, "item": items, "rating": values})
        reader = Reader(rating_scale=(float(values.min()), float(values.max())))
        data = Dataset.load_from_df(frame, reader).build_full_trainset()
        self.model, self.data = SVD(random_state=0, **self.parameters), data
        return lambda: self.model.fit(data)

    def scores(self, rows):
        own = [self.data.to_inner_uid(row) for row in rows.tolist()]
        at = [self.data.to_inner_iid(item) for item in range(self.item_ids.size)]
        return (self.model.pu[own] @ self.model.qi.T + self.model.bi)[:, at]


class MyFm(Peer):
    """myFM's Bayesian factorization of ratings: the mean over samples, taken for all items."""

    def prepared(self, users, items, values):
        from myfm import MyFMRegressor

        size = self.user_ids.size
        pairs = np.column_stack([users, items + size]).ravel()
        starts = np.arange(0, pairs.size + 1, 2)
        rows = sp.csr_matrix((np.ones(pairs.size), pairs, starts))
        rank = self.parameters.get("rank", 8)
        self.model = MyFMRegressor(rank=rank, random_seed=0)
        grouping = [size, self.item_ids.size]
        return lambda: self.model.fit(rows, values, n_iter=100, group_shapes=grouping)

    def scores(self, rows):
        size, samples = self.user_ids.size, self.model.predictor_.samples
        vectors = np.hstack([sample.V for sample in samples]) / np.sqrt(len(samples))
        biases = np.mean([sample.w for sample in samples], axis=0)
        return vectors[rows] @ vectors[size:].T + biases[size:]
