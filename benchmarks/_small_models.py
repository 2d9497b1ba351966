"""Recommenders one call at a time, beside cornac (predict) and implicit (recommend).

Shapes of MovieLens-1M: 6,040 users, 3,700 items, a million ratings drawn by popularity; the live
loop also with 200,000 items. All models have 32 factors.
"""

import numpy as np
from _calls import call_row

from sfumato.data import Interactions
from sfumato.recommend import DenseFactorization, SketchFactorization

USERS, ITEMS, RATINGS, MANY = 6040, 3700, 1_000_000, 200_000
FACTORS, USER, ITEM = 32, 17, 260
MODELS = {"dense": DenseFactorization, "sketch": SketchFactorization}
TABLE = 2**24  # cells, 64 MiB


def rows():
    """All rows of this part."""
    train = _world(ITEMS, RATINGS)
    models = {name: kind(epochs=1, bounds=(1, 5)).fit(train) for name, kind in MODELS.items()}
    made = []
    for name, model in models.items():
        made += _single(name, model, train)
    for name, model in models.items():
        made += _learning(name, model, train, 120)
    more = _world(MANY, 2 * MANY)
    for name, kind in MODELS.items():
        made += _live(
            f"{name}, {MANY:,} items", kind(epochs=1, bounds=(1, 5)).fit(more), more, 1600
        )
    return [*made, _many_events(train)]


def _world(items, count, seed=0):
    """Ratings of popular and rare items, each of them at least once."""
    random = np.random.default_rng(seed)
    drawn = (items * random.random(count - items) ** 3).astype(np.int64)
    what = np.concatenate([np.arange(items), drawn])
    who = random.integers(USERS, size=count)
    return Interactions(who, what, random.integers(1, 6, count).astype(np.float64))


def _single(name, model, train):
    peers = {"cornac": lambda: _cornac(train)}
    yield call_row(f"{name}: predict one pair", lambda: model.predict(USER, ITEM), 15, peers)
    yield call_row(f"{name}: predict lists of one", lambda: model.predict([USER], [ITEM]), 15)
    yield call_row(f"{name}: recommend one user", lambda: model.recommend(USER), 60)
    yield call_row(
        f"{name}: recommend, own items left out",
        lambda: model.recommend(USER, exclude=train),
        80,
        {"implicit": lambda: _implicit(train)},
    )


def _learning(name, model, train, limit):
    for count, most in ((1, 25), (100, 60)):
        learn = _turns(model.partial_fit, _batches(train, count))
        yield call_row(f"{name}: partial_fit of {count}", learn, most)
    yield from _live(name, model, train, limit)


def _live(name, model, train, limit):
    learn = _turns(model.partial_fit, _batches(train, 1))

    def loop():
        learn()
        model.recommend(USER)

    yield call_row(f"{name}: partial_fit of 1, recommend", loop, limit)


def _many_events(train):
    model = SketchFactorization(cells=TABLE, bounds=(1, 5)).partial_fit(train)
    learn = _turns(model.partial_fit, _batches(train, 10_000, 8))
    return call_row("sketch of 64 MiB: partial_fit of 10,000", learn, 5000)


def _batches(train, size, count=200):
    random = np.random.default_rng(1)
    return [train.filter(random.integers(len(train), size=size)) for _ in range(count)]


def _turns(work, values):
    """A call that takes the values one after the other."""
    at = 0

    def call():
        nonlocal at
        at += 1
        work(values[at % len(values)])

    return call


def _cornac(train):
    from cornac.data import Dataset
    from cornac.models import MF

    rows = zip(train.users.tolist(), train.items.tolist(), train.ratings.tolist(), strict=True)
    data = Dataset.from_uir(list(rows), seed=0)
    model = MF(k=FACTORS - 1, max_iter=1, seed=0).fit(data)
    user, item = data.uid_map[USER], data.iid_map[ITEM]
    return lambda: model.rate(user, item)


def _implicit(train):
    import scipy.sparse as sp
    from implicit.als import AlternatingLeastSquares

    table = sp.csr_matrix((train.ratings.astype(np.float32), (train.users, train.items)))
    model = AlternatingLeastSquares(factors=FACTORS, iterations=1, num_threads=1)
    model.fit(table, show_progress=False)
    return lambda: model.recommend(USER, table[USER], N=10)
