"""The rating sets of the benchmarks: real ones where the folder is there, worlds of their shape."""

import os
from pathlib import Path

import numpy as np

from sfumato.data import generate_world, read_interactions
from sfumato.recommend.metrics import rating as metrics

SEEDS = range(5)
FILES = {
    "movielens-1m": ("movielens-1m/ratings.dat.gz", {}),
    "movielens-100k": ("movielens-100k/u.data.gz", {}),
}
# Users, items and ratings as in table 4.1 of the thesis, and the bounds and step of a rating.
SHAPES = {
    "movielens-1m": (6_040, 3_706, 1_000_209, (1, 5), 1),
    "movielens-10m": (69_878, 10_677, 10_000_054, (0.5, 5), 0.5),
    "eachmovie": (61_265, 1_623, 2_811_718, (1, 6), 1),
    "netflix": (480_136, 17_167, 96_649_938, (1, 5), 1),
}


def folder():
    """Where the real sets are: SFUMATO_DATA, or shared/data beside the checkout."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("SFUMATO_DATA", beside))


def real(name):
    """A real set, or None where its file is not there."""
    path, options = FILES[name]
    return read_interactions(folder() / path, **options) if (folder() / path).exists() else None


def world(name, share=1.0, seed=0):
    """A generated set of the named shape, or a share of its users and ratings."""
    users, items, ratings, bounds, step = SHAPES[name]
    made = generate_world(
        users=int(users * share),
        items=items,
        ratings=int(ratings * share),
        bounds=bounds,
        step=step,
        random_state=seed,
    )
    return made.interactions


def shaped_as_movielens():
    """MovieLens-1M, or a world of its shape where its file is not there; with its name."""
    found = real("movielens-1m")
    if found is not None:
        return "movielens-1m", found
    return "generated, shape of movielens-1m", world("movielens-1m")


def rmse(model, test):
    return float(metrics.rmse(test.ratings, model.predict(test.users, test.items)))


def spread(values):
    """Mean, and lowest and highest, of a figure over seeds."""
    return {
        "mean": float(np.mean(values)),
        "low": float(np.min(values)),
        "high": float(np.max(values)),
        "runs": [round(float(each), 5) for each in values],
    }
