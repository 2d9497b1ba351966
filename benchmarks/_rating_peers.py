"""Other packages' models of ratings behind our two calls, `fit(train)` and `predict(users, items)`.

Every peer is built from its package's own parameters and runs on one thread. Ids become codes of
the training rows; a pair with an unknown user or item is answered by the package where it can be
asked about one, and else by what remains of its biases. Predictions are clipped to the range of
the training ratings, as ours are.

lenskit 2025 asks for pandas 2 and torch, so it cannot share our process; cornac's neural models
ask for torch.
"""

import contextlib
import io
import time
import warnings

import numpy as np
import scipy.sparse as sp


class Peer:
    """Codes, clipping, and the seconds of the package's own fit."""

    def __init__(self, **parameters):
        self.parameters = parameters

    def fit(self, train):
        self.user_ids, users = np.unique(train.users, return_inverse=True)
        self.item_ids, items = np.unique(train.items, return_inverse=True)
        values = np.asarray(train.ratings, float)
        self.low, self.high, self.mean = values.min(), values.max(), values.mean()
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            work = self.prepared(users, items, values)
            start = time.perf_counter()
            work()
            self.seconds = time.perf_counter() - start
        return self

    def predict(self, users, items):
        rows, columns = self._codes(self.user_ids, users), self._codes(self.item_ids, items)
        return np.clip(self.scores(rows, columns), self.low, self.high)

    @staticmethod
    def _codes(known, ids):
        at = np.minimum(np.searchsorted(known, ids), known.size - 1)
        return np.where(known[at] == ids, at, -1)

    def prepared(self, users, items, values):
        """Make the package's input, and return what is left to do: its fit."""
        raise NotImplementedError

    def scores(self, rows, columns):
        """Predictions of pairs of codes, -1 for unknown ones."""
        raise NotImplementedError


class Surprise(Peer):
    """surprise's models of ratings, asked for one pair at a time, as they answer."""

    def __init__(self, *, kind, **parameters):
        super().__init__(**parameters)
        self.kind = kind

    def prepared(self, users, items, values):
        import pandas as pd
        import surprise

        frame = pd.DataFrame({"user": users, "item": items, "rating": values})
        reader = surprise.Reader(rating_scale=(self.low, self.high))
        self.data = surprise.Dataset.load_from_df(frame, reader).build_full_trainset()
        options = dict(self.parameters)
        if self.kind.startswith("KNN"):
            similar = {"name": options.pop("name", "pearson_baseline")}
            similar |= {
                key: options.pop(key) for key in ("user_based", "shrinkage") if key in options
            }
            options |= {"sim_options": similar, "verbose": False}
        elif self.kind == "BaselineOnly":
            options = {"bsl_options": {"method": "als", **options}, "verbose": False}
        else:
            options |= {"random_state": 0}
        self.model = getattr(surprise, self.kind)(**options)
        return lambda: self.model.fit(self.data)

    def scores(self, rows, columns):
        found = (
            self.model.predict(row, column, clip=False).est
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
        )
        return np.fromiter(found, float, rows.size)


class CornacFactors(Peer):
    """cornac's matrix factorization with biases, by gradient descent."""

    def prepared(self, users, items, values):
        import cornac

        shape = self.user_ids.size, self.item_ids.size
        ids = [dict(zip(range(size), range(size), strict=True)) for size in shape]
        data = cornac.data.Dataset(*shape, *ids, (users, items, values), 0)
        options = {"use_bias": True, "seed": 0, "verbose": False, "num_threads": 1}
        self.model = cornac.models.MF(**(options | self.parameters))
        return lambda: self.model.fit(data)

    def scores(self, rows, columns):
        model, known = self.model, (rows >= 0) & (columns >= 0)
        found = model.global_mean + np.where(rows >= 0, model.u_biases[rows], 0)
        found = found + np.where(columns >= 0, model.i_biases[columns], 0)
        both = np.einsum("ij,ij->i", model.u_factors[rows], model.i_factors[columns])
        return found + np.where(known, both, 0)


class MyFm(Peer):
    """myFM's Bayesian factorization machine by Gibbs sampling: the mean over its samples.

    With `implicit` its input also has what each user rated and who rated each item, in relation
    blocks: the features of Bayesian SVD++ and its flipped form.
    """

    def __init__(self, *, implicit=False, rank=8, iterations=100):
        super().__init__(implicit=implicit, rank=rank, iterations=iterations)

    def prepared(self, users, items, values):
        from myfm import MyFMRegressor, RelationBlock

        sizes = self.user_ids.size, self.item_ids.size
        rated = sp.csr_matrix((np.ones(users.size), (users, items)), sizes)
        blocks = []
        for own, other in ((rated, sizes[0]), (rated.T.tocsr(), sizes[1])):
            features = sp.identity(other, format="csr")
            if self.parameters["implicit"]:
                counts = np.maximum(np.diff(own.indptr), 1)
                features = sp.hstack([features, sp.diags(counts**-0.5) @ own], format="csr")
            # One row more: an unknown id has no feature.
            blocks.append(sp.vstack([features, sp.csr_matrix((1, features.shape[1]))], "csr"))
        self.blocks, self.relation = blocks, RelationBlock
        groups = []
        for size, other in (sizes, sizes[::-1]):
            groups += [size, other] if self.parameters["implicit"] else [size]
        self.model = MyFMRegressor(rank=self.parameters["rank"], random_seed=0)
        rounds = self.parameters["iterations"]
        return lambda: self.model.fit(
            None, values, X_rel=self._related(users, items), n_iter=rounds, group_shapes=groups
        )

    def _related(self, rows, columns):
        codes = (np.where(each >= 0, each, size) for each, size in (
            (rows, self.user_ids.size), (columns, self.item_ids.size)))  # fmt: skip
        return [self.relation(each, block) for each, block in zip(codes, self.blocks, strict=True)]

    def scores(self, rows, columns):
        return np.asarray(self.model.predict(None, self._related(rows, columns)))
