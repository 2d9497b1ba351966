"""Chapter 4 of the thesis again: table 4.2 and the shapes of figures 4.1 to 4.8.

    python benchmarks/thesis_ch4.py [PART ...]    writes benchmarks/results/thesis_ch4.json

MovieLens-1M is real where the folder is there (SFUMATO_DATA). EachMovie, MovieLens-10M and Netflix
are not available: generated worlds of their shape stand in, so their rows can be compared with each
other, not with the thesis. Random 80/10/10; regularization (in one pass the rate) is chosen on the
validation part; test is read once. As in the thesis, damped means of users and items are taken off
first and the factors learn what is left, so biases need no room in the sketch. Every number is
hashed on its own where the number of factors varies, and by blocks elsewhere; all of them are read,
whatever the gain (active=d). The maps have every second value of the thesis' ten.
"""

import math
import sys
from functools import partial

import numpy as np
from _measure import write_parts
from _ratings import SEEDS, rmse, shaped_as_movielens, spread, world

from sfumato.attack import kl_divergence
from sfumato.data import Interactions, without_rare
from sfumato.recommend import DenseFactorization, SketchFactorization
from sfumato.recommend.bias import DampedMeans

FACTORS = (1, 2, 4, 8, 16, 32)
GAINS = (1, 2, 4, 8, 16, 32)
WEIGHTS = (0.001, 0.005, 0.02)
SWEPT = (0.0, 0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 1.0, 10.0)  # figure 4.5
CLIPPED = (0.005, 0.01, 0.02, 0.03, 0.05)  # figures 4.7 and 4.8
THESIS = {
    "movielens-1m": {"dense": 0.873, "sketch, depth 4": 0.876, "hashing": 0.906},
    "movielens-10m": {"dense": 0.811, "sketch, depth 4": 0.809, "hashing": 0.818},
    "eachmovie": {"dense": 1.145, "sketch, depth 4": 1.146, "hashing": 1.159},
    "netflix": {"dense": 0.854, "sketch, depth 4": 0.855, "hashing": 0.862},
}


class OnMeans:
    """A model of what damped means leave over: the protocol of the thesis (4.1.5.1)."""

    def __init__(self, model):
        self.model, self.means = model, DampedMeans()

    def fit(self, train, watched=None):
        self.means.fit(train)
        self.low, self.high = train.ratings.min(), train.ratings.max()
        self.model.fit(self._left(train), None if watched is None else self._left(watched))
        return self

    def predict(self, users, items):
        both = self.means.predict(users, items) + self.model.predict(users, items)
        return np.clip(both, self.low, self.high)

    def _left(self, rows):
        left = rows.ratings - self.means.predict(rows.users, rows.items)
        return Interactions(rows.users, rows.items, left)


def dense(**options):
    return OnMeans(DenseFactorization(**options))


def sketch(**options):
    return OnMeans(SketchFactorization(**options))


KINDS = {
    "dense": lambda **options: dense(**options),
    "sketch, depth 4": lambda **options: sketch(depth=4, **options),
    "hashing": lambda **options: sketch(depth=1, **options),
}


def parts_of(data, seed):
    """Train, validation and test rows; rows of users and items seen < 10 times are not tested."""
    train, valid, test = data.split(0.8, 0.1, 0.1, random_state=seed)
    return train, without_rare(valid, train, 10), without_rare(test, train, 10)


def best(make, train, valid, choices):
    """The choice of the lowest validation error and its model; what diverges is out."""
    scored = []
    for choice in choices:
        try:
            model = make(**choice).fit(train)
        except ValueError as error:
            if "diverged" not in str(error):
                raise
            continue
        scored.append((rmse(model, valid), len(scored), choice, model))
    lowest = min(scored, key=lambda each: each[:2])
    return lowest[2], lowest[3]


def weights(values=WEIGHTS):
    return [{"regularization": weight} for weight in values]


def table():
    """Table 4.2: d = 32, gain 1, all three in the same memory."""
    rows = []
    for name in THESIS:
        share = {"netflix": 0.1}.get(name, 1.0)
        seeds = SEEDS if name == "movielens-1m" else range(1)
        rows += _table_rows(name, share, seeds)
    return rows


def _table_rows(name, share, seeds):
    source = shaped_as_movielens() if name == "movielens-1m" else None
    label, data = source or (f"generated, shape of {name}", world(name, share))
    found = {kind: [] for kind in ("means only", *KINDS)}
    for seed in seeds:
        train, valid, test = parts_of(data, seed)
        found["means only"].append(rmse(DampedMeans().fit(train), test))
        for kind, make in KINDS.items():
            choices = weights() if len(train) < 3e6 else weights((0.005, 0.02))
            found[kind].append(rmse(best(make, train, valid, choices)[1], test))
    rows = [
        {
            "data": label,
            "share": share,
            "ratings": len(data),
            "kind": kind,
            "rmse": spread(values),
            "thesis": THESIS[name].get(kind),
        }
        for kind, values in found.items()
    ]
    for row in rows:
        print(row, flush=True)
    return rows


def _map(data, factors, gains, choices, epochs=20):
    train, valid, test = parts_of(data, 0)
    rows = [{"kind": "means only", "rmse": rmse(DampedMeans().fit(train), test)}]
    for depth in (1, 4):
        for d in factors:
            for gain in gains:

                def make(d=d, gain=gain, depth=depth, **options):
                    return sketch(
                        factors=d,
                        depth=depth,
                        space_gain=gain,
                        layout="component",
                        epochs=epochs,
                        **options,
                    )

                choice, model = best(make, train, valid, choices)
                row = {"depth": depth, "factors": d, "gain": gain, "rmse": rmse(model, test)}
                rows.append({**row, **choice, "nbytes": model.model.nbytes})
                print(rows[-1], flush=True)
    return rows


def heat_map():
    """Figures 4.1 and 4.6: RMSE and the best lambda over d and gain, MovieLens-1M."""
    name, data = shaped_as_movielens()
    return {"data": name, "rows": _map(data, FACTORS, GAINS, weights())}


def heat_map_eachmovie():
    """Figure 4.2, on a world of EachMovie's shape with a quarter of its users and ratings."""
    rows = _map(world("eachmovie", 0.25), (2, 8, 32), (1, 4, 16), weights())
    return {"data": "generated, a quarter of the users and ratings of eachmovie", "rows": rows}


def convergence():
    """Figure 4.3: test RMSE after each epoch, a world of MovieLens-10M's shape."""
    train, _, test = parts_of(world("movielens-10m"), 0)
    rows = {}
    for kind, make in KINDS.items():
        model = make().fit(train, test)  # watched, not chosen by: the curve is the figure
        rows[kind] = [epoch["valid_rmse"] for epoch in model.model.history_]
        print(kind, rows[kind], flush=True)
    rows["means only"] = rmse(DampedMeans().fit(train), test)
    return {"data": "generated, shape of movielens-10m", "rows": rows}


def dynamic():
    """Figure 4.4: one pass over the data; dense with d_r numbers, sketches in the same memory.

    A stream has no means to take off first, so biases are learned with the factors here. The sketch
    reads all 32 numbers, or by our rule as many as it has cells for ("our rule").
    """
    train, valid, test = parts_of(world("eachmovie"), 0)
    rows = [{"kind": "means only", "rmse": rmse(DampedMeans().fit(train), test)}]
    choices = [
        {"learning_rate": rate, "regularization": weight, "decay": 1.0}
        for rate in (0.02, 0.05, 0.1, 0.2)
        for weight in (0.005, 0.03)
    ]
    for size in (1, 2, 4, 8, 16, 32):
        shape = {"space_gain": 32 / size, "epochs": 1}
        cases = {
            "dense": partial(DenseFactorization, factors=size, epochs=1),
            "sketch, depth 4": partial(SketchFactorization, depth=4, active=32, **shape),
            "hashing": partial(SketchFactorization, depth=1, active=32, **shape),
            "our rule": partial(SketchFactorization, depth=4, **shape),
        }
        for kind, make in cases.items():
            choice, model = best(make, train, valid, choices)
            rows.append({"kind": kind, "size": size, "rmse": rmse(model, test), **choice})
            print(rows[-1], flush=True)
    return {"data": "generated, shape of eachmovie", "rows": rows}


def sweep():
    """Figure 4.5: RMSE over lambda, d = 32, gain 1, after 20 and after 100 epochs, MovieLens-1M.

    Means are taken off first, as in the thesis, or biases are learned with the factors. Lambda 0
    and the one of the lowest validation error are fitted on three splits.
    """
    name, data = shaped_as_movielens()
    train, _, test = parts_of(data, 0)
    rows = [{"kind": "means only", "rmse": rmse(DampedMeans().fit(train), test)}]
    for biases in ("means", "learned"):
        for epochs in (20, 100):
            for kind in KINDS:
                rows += _swept(data, kind, biases, epochs)
    return {"data": name, "rows": rows}


def _swept(data, kind, biases, epochs):
    case = {"kind": kind, "biases": biases, "epochs": epochs}
    rows = [_weighed(data, case, weight, seed=0) for weight in SWEPT]
    chosen = min(rows, key=lambda row: row["valid"])
    for row in {row["regularization"]: row for row in (rows[0], chosen)}.values():
        again = [_weighed(data, case, row["regularization"], seed)["rmse"] for seed in (1, 2)]
        row["splits"] = spread([row["rmse"], *again])
    chosen["chosen"] = True
    for row in rows:
        print(row, flush=True)
    return rows


def _weighed(data, case, weight, seed):
    """Validation and test RMSE of a case of the sweep; infinite where it diverged."""
    train, valid, test = parts_of(data, seed)
    model = KINDS[case["kind"]](epochs=case["epochs"], regularization=weight)
    model = model if case["biases"] == "means" else model.model
    try:
        model.fit(train)
    except ValueError as error:
        if "diverged" not in str(error):
            raise
        return {**case, "regularization": weight, "valid": math.inf, "rmse": None}
    return {
        **case,
        "regularization": weight,
        "valid": rmse(model, valid),
        "rmse": rmse(model, test),
    }


def clipping():
    """Figures 4.7 and 4.8: RMSE and KL divergence over the clip, T = 100, d and gain varied."""
    name, data = shaped_as_movielens()
    train, _, test = parts_of(data, 0)
    means = DampedMeans().fit(train)
    rows = [{"kind": "means only", "rmse": rmse(means, test), "kld": _leak(means, train, test)}]
    for d in (16, 32):
        for gain in (None, 1, 2, 4):
            rows += _clipped(data, d, gain)
    return {"data": name, "rows": rows}


def _clipped(data, d, gain):
    """Rows of all clips, with the lambda that is best on validation data without a clip."""
    train, valid, test = parts_of(data, 0)
    kind = "dense" if gain is None else f"sketch, gain {gain}"
    shape = {"factors": d, "epochs": 100}
    if gain is not None:
        shape |= {"depth": 4, "space_gain": float(gain), "active": d}
    make = partial(dense if gain is None else sketch, **shape)
    chosen, model = best(make, train, valid, weights(CLIPPED))
    rows = []
    for clip in (2.0, 4.0, 8.0, None):
        fitted = model if clip is None else make(clip=clip, **chosen).fit(train)
        row = {"kind": kind, "factors": d, "clip": clip, **chosen}
        row |= {"rmse": rmse(fitted, test), "kld": _leak(fitted, train, test)}
        rows.append(row)
        print(row, flush=True)
    return rows


def _leak(model, train, test):
    errors = [model.predict(rows.users, rows.items) - rows.ratings for rows in (train, test)]
    return float(kl_divergence(*map(np.asarray, errors)).kld)


if __name__ == "__main__":
    parts = (table, heat_map, heat_map_eachmovie, convergence, dynamic, sweep, clipping)
    write_parts("thesis_ch4", {part.__name__: part for part in parts}, sys.argv[1:])
