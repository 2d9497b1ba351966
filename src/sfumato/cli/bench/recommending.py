"""Benchmarks of recommenders: an epoch of gradient descent, of least squares, one list."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from sfumato.cli.bench.contest import Case, Contest, Work
from sfumato.data import Interactions, generate_world
from sfumato.recommend import ALS, DenseFactorization

__all__ = ["CASES"]

EPOCHS, FACTORS = 3, 32
USERS = 200  # whose lists are made, one at a time


def _world(size: int) -> tuple[Interactions, Interactions]:
    """A world of the shape of MovieLens-1M or a part of it, split."""
    users = max(500, 6040 * size // 1_000_000)
    made = generate_world(users=users, items=3706 * users // 6040, ratings=size, random_state=1)
    train, test = made.interactions.split(0.9, 0.1, random_state=0)
    return train, test


def descent(size: int) -> Contest:
    """Epochs over ratings, from columns to a model, with the error on ratings held out."""
    train, test = _world(size)

    def error(model: DenseFactorization) -> float:
        found = np.asarray(model.predict(test.users, test.items))
        return float(np.sqrt(np.mean((found - test.ratings) ** 2)))

    def cornac() -> Work:
        from cornac.data import Dataset
        from cornac.models import MF

        triples = zip(train.users, train.items, train.ratings, strict=True)
        prepared = Dataset.from_uir(triples, seed=1)
        options = {"k": FACTORS, "max_iter": EPOCHS, "learning_rate": 0.02, "lambda_reg": 0.05}

        def fit() -> Any:
            model = MF(**options, use_bias=True, early_stop=False, num_threads=1, seed=1)
            return model.fit(prepared)

        return Work(fit, EPOCHS * len(train), partial(_cornac_error, test=test))

    model = DenseFactorization(factors=FACTORS, epochs=EPOCHS)
    ours = Work(lambda: model.fit(train), EPOCHS * len(train), error)
    return Contest(ours, {"cornac": cornac})


def _cornac_error(model: Any, test: Interactions) -> float:
    users = np.array([model.uid_map.get(each, -1) for each in test.users])
    items = np.array([model.iid_map.get(each, -1) for each in test.items])
    both = (users >= 0) & (items >= 0)
    score = np.full(len(test), float(model.global_mean))
    user, item = users[both], items[both]
    score[both] += model.u_biases[user] + model.i_biases[item]
    score[both] += np.einsum("ij,ij->i", model.u_factors[user], model.i_factors[item])
    return float(np.sqrt(np.mean((np.clip(score, 1, 5) - test.ratings) ** 2)))


def _implicit(train: Interactions) -> tuple[Any, Any]:
    """A least-squares model of implicit and its matrix of users and items."""
    from implicit.cpu.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    users, items = (np.unique(each, return_inverse=True)[1] for each in (train.users, train.items))
    matrix = csr_matrix((np.full(len(train), 5.0, np.float32), (users, items)))
    model = AlternatingLeastSquares(
        FACTORS, regularization=0.4, iterations=EPOCHS, num_threads=1, random_state=1
    )
    return model, matrix


def squares(size: int) -> Contest:
    """Epochs of implicit least squares, from columns to a model."""
    train, _ = _world(size)

    def implicit() -> Work:
        model, matrix = _implicit(train)
        return Work(lambda: model.fit(matrix, show_progress=False), EPOCHS * len(train))

    model = ALS(factors=FACTORS, regularization=0.4, epochs=EPOCHS)
    return Contest(Work(lambda: model.fit(train), EPOCHS * len(train)), {"implicit": implicit})


def lists(size: int) -> Contest:
    """One user's ten best at a time, from factors that are learned before."""
    train, _ = _world(size)
    users = np.unique(train.users)[:USERS].tolist()
    model = ALS(factors=FACTORS, regularization=0.4, epochs=1).fit(train)

    def implicit() -> Work:
        peer, matrix = _implicit(train)
        peer.iterations = 1
        peer.fit(matrix, show_progress=False)
        rows = [(at, matrix[at]) for at in range(len(users))]
        ask: Callable[..., Any] = partial(peer.recommend, N=10, filter_already_liked_items=False)
        return Work(lambda: [ask(at, row) for at, row in rows], len(users))

    factors = np.random.default_rng(0).normal(size=(len(np.unique(train.items)), FACTORS))
    scores = factors.astype(np.float32)
    return Contest(
        Work(lambda: [model.recommend(user, 10) for user in users], len(users)),
        {"implicit": implicit},
        Work(lambda: [scores @ scores[0] for _ in users], len(users)),
    )


CASES = (
    Case(
        "recommend/descent",
        f"{EPOCHS} epochs of gradient descent, {FACTORS} factors",
        "ratings",
        descent,
        1_000_000,
        100_000,
        "RMSE held out",
    ),
    Case(
        "recommend/least-squares",
        f"{EPOCHS} epochs of implicit least squares, {FACTORS} factors",
        "ratings",
        squares,
        1_000_000,
        100_000,
    ),
    Case(
        "recommend/list",
        "ten best of all items for one user at a time",
        "lists",
        lists,
        1_000_000,
        100_000,
        "",
        "the scores alone (NumPy)",
    ),
)
