"""Rating errors with default settings beside damped means, on sparse and odd sets.

    python benchmarks/sparse_ratings.py [ratings] [compressed]
        writes benchmarks/results/sparse_ratings.json, both parts unless one is named

Ratings: every set is split by row, 80 % to learn from and 20 % to predict, with three seeds; test
rows of unknown users and items are included. Compressed: a private model of MovieLens-100K in count
sketches of several sizes. Sets whose files are missing are left out.
"""

import csv
import gzip
import statistics
import sys
import time
import warnings

import numpy as np
import pyarrow.parquet as pq
from _measure import write_parts
from _ratings import folder, real

from sfumato.data import Interactions, generate_world, read_interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import (
    DenseFactorization,
    PrivateFactorization,
    SketchedFactors,
    SketchFactorization,
    UserNeighbours,
)
from sfumato.recommend.bias import DampedMeans

SEEDS = range(3)
MANY = 50_000  # users from which on neighbours are left out


def book_crossing(zeros):
    """The ratings from 1 to 10, with the zeros of books that were only looked at or without."""
    path = folder() / "book-crossing" / "BX-Book-Ratings.csv.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt", encoding="latin-1") as lines:
        rows = list(csv.reader(lines, delimiter=";"))[1:]
    users, items, ratings = zip(*rows, strict=True)
    ratings = np.array(ratings, float)
    chosen = ratings >= (0 if zeros else 1)
    return Interactions(np.array(users, int)[chosen], np.array(items)[chosen], ratings[chosen])


def film_trust():
    path = folder() / "filmtrust" / "ratings.tsv.gz"
    return read_interactions(path, header=False, delimiter="\t") if path.exists() else None


def last_fm():
    """The logarithms of listening counts."""
    path = folder() / "lastfm-hetrec" / "user_listen_artist_rels.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path)
    users, items, counts = (table[name].to_numpy() for name in table.column_names[:3])
    return Interactions(users, items, np.log1p(counts))


def world(**options):
    given = {"users": 3_000, "items": 1_500, "ratings": 12_000, "random_state": 1, **options}
    return generate_world(**given).interactions


SETS = {
    "FilmTrust": film_trust,
    "MovieLens-100K": lambda: real("movielens-100k"),
    "MovieLens-1M": lambda: real("movielens-1m"),
    "Last.fm, logarithms": last_fm,
    "Book-Crossing, 1 to 10": lambda: book_crossing(zeros=False),
    "Book-Crossing, with 0": lambda: book_crossing(zeros=True),
    "generated, 4 a user": world,
    "generated, 1 to 10": lambda: world(bounds=(1, 10)),
    "generated, 0 to 1": lambda: world(bounds=(0, 1), step=0.1),
    "generated, 0 to 1000": lambda: world(bounds=(0, 1000)),
    "generated, heavy tails": lambda: world(skew=60, activity=2),
    "generated, 1 a user": lambda: world(users=12_000, items=500, activity=0),
    "generated, noise": lambda: world(factors=0, noise=3.0),
}
MODELS = {
    "means": DampedMeans,
    "DenseFactorization": DenseFactorization,
    "SketchFactorization": SketchFactorization,
    "SketchFactorization, gain 2": lambda: SketchFactorization(space_gain=2.0),
    "SketchFactorization, gain 4": lambda: SketchFactorization(space_gain=4.0),
    "UserNeighbours": lambda: UserNeighbours(predicts="ratings"),
}


def errors(model, test):
    miss = model.predict(test.users, test.items) - test.ratings
    return float(np.sqrt(np.mean(miss**2))), float(np.mean(np.abs(miss)))


def ratings():
    """RMSE and MAE of every model on every set, the median of the seeds."""
    rows = []
    for name, load in SETS.items():
        data = load()
        if data is None:
            continue
        row = {"set": name, "ratings": len(data)}
        for label, make in MODELS.items():
            if label == "UserNeighbours" and np.unique(data.users).size > MANY:
                continue
            splits = [data.split(0.8, 0.2, random_state=seed) for seed in SEEDS]
            runs = [errors(make().fit(train), test) for train, test in splits]
            rmse, mae = (statistics.median(each) for each in zip(*runs, strict=True))
            row[label] = {"rmse": rmse, "mae": mae, "runs": runs}
        rows.append(row)
        shown = (
            f"{row[each]['rmse']:.4f} {row[each]['mae']:.4f}" for each in MODELS if each in row
        )
        print(f"{name:<24}", " | ".join(shown), flush=True)
    return {"models": list(MODELS), "rows": rows}


def compressed():
    """RMSE of a private model and of count sketches of its vectors, by their size."""
    data = real("movielens-100k")
    name = "movielens-100k"
    if data is None:
        name, data = "generated", world(users=900, items=1_500, ratings=90_000)
    train, test = data.split(0.8, 0.2, random_state=0)
    public = {"users": np.unique(data.users), "catalogue": np.unique(data.items)}
    model = PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5))
    model.fit(train, **public, source=InsecureSeededSource(1))
    numbers = model.item_vectors_.size + model.user_vectors_.size
    rows = []
    for cells in (numbers // 8, numbers // 4, numbers // 2, numbers, 3 * numbers // 2, 32_768):
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            small = SketchedFactors(cells=cells).fit(model)
        row = {"cells": cells, "nbytes": small.nbytes, "rmse": errors(small, test)[0]}
        rows.append({**row, "warned": bool(caught), "seconds": time.perf_counter() - start})
        print(rows[-1], flush=True)
    source = {"nbytes": model.nbytes, "numbers": numbers, "rmse": errors(model, test)[0]}
    means = errors(DampedMeans().fit(train), test)[0]
    return {"data": name, "model": source, "means": means, "rows": rows}


if __name__ == "__main__":
    write_parts("sparse_ratings", {"ratings": ratings, "compressed": compressed}, sys.argv[1:])
