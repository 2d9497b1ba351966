"""Models of ratings on sparse data beside peers and damped means, for docs/comparison.md.

    python benchmarks/comparison_ratings.py     writes benchmarks/results/comparison_ratings.json

All with their default settings, which were chosen on MovieLens-100K and on generated worlds. Three
random splits by row, 80 % to learn from; test rows of unknown users and items are included. Ciao is
not there to be read, so sets of its shape are drawn: users and items by power laws, mostly one or
two ratings an item. Each figure is the RMSE of one split.
"""

import numpy as np
from _comparison import row, write_rows
from _rating_peers import CornacFactors, MyFm, Surprise
from sparse_ratings import book_crossing, film_trust, last_fm

from sfumato.data import Interactions
from sfumato.recommend import DenseFactorization, SketchFactorization
from sfumato.recommend.bias import DampedMeans

SEEDS = range(3)
LARGE = 200_000  # ratings from which on peers that answer one pair at a time are left out


def ciao(users=7_000, items=40_000, ratings=60_000, of_users=1.1, of_items=0.9):
    """Ratings from 1 to 5, mostly high, of biases and of four components smaller than noise."""
    random = np.random.default_rng(3)
    chances = (np.arange(1, n + 1) ** -s for n, s in ((users, of_users), (items, of_items)))
    drawn = [
        random.choice(each.size, 2 * ratings, p=each / each.sum()).astype(np.int64)
        for each in chances
    ]
    pairs = random.permutation(np.unique(drawn[0] * items + drawn[1]))[:ratings]
    who, what = pairs // items, pairs % items
    biases = random.normal(0, 0.45, users)[who] + random.normal(0, 0.4, items)[what]
    tastes, traits = (random.normal(0, 0.35, (n, 4)) for n in (users, items))
    score = 4.3 + biases + (tastes[who] * traits[what]).sum(1) + random.normal(0, 0.75, pairs.size)
    return Interactions(who, what, np.clip(np.round(score), 1, 5))


SETS = {
    "Ciao-like, 60,000 ratings": ciao,
    "Ciao-like, 25,000 ratings": lambda: ciao(items=12_000, ratings=25_000),
    "Ciao-like, 2 a user": lambda: ciao(20_000, 20_000, 40_000, 0.6, 1.0),
    "FilmTrust": film_trust,
    "Last.fm, logarithms": last_fm,
    "Book-Crossing, 1 to 10": lambda: book_crossing(zeros=False),
}
OURS = {"DenseFactorization": DenseFactorization, "SketchFactorization": SketchFactorization}
PEERS = {
    "surprise SVD": (lambda: Surprise(kind="SVD"), True),
    "surprise BaselineOnly": (lambda: Surprise(kind="BaselineOnly"), True),
    "cornac MF": (CornacFactors, False),
    "myFM": (MyFm, True),
}
TRIVIAL = {
    "damped means": DampedMeans,
    "damped means, estimated": lambda: DampedMeans(damping=None),
}


def errors(make, splits):
    """RMSE of each split, or why there is none."""
    try:
        return [
            float(np.sqrt(np.mean((make().fit(a).predict(b.users, b.items) - b.ratings) ** 2)))
            for a, b in splits
        ]
    except ImportError as error:
        return {"missing": str(error)}


def rows():
    for name, load in SETS.items():
        data = load()
        if data is None:
            continue
        splits = [data.split(0.8, 0.2, random_state=seed) for seed in SEEDS]
        slow = len(data) > LARGE
        peers = {
            peer: {"missing": "too slow on this set"} if slow and one else errors(make, splits)
            for peer, (make, one) in PEERS.items()
        }
        trivial = {each: errors(make, splits) for each, make in TRIVIAL.items()}
        for model, make in OURS.items():
            ours = errors(make, splits)
            found = row(model, name, "RMSE", "lower", ours, peers, trivial,
                        chosen_on="MovieLens-100K, generated")  # fmt: skip
            medians = {
                each: round(figure["median"], 4)
                for group in (found["peers"], found["trivial"])
                for each, figure in group.items()
                if "median" in figure
            }
            print(f"{name:<28}{model:<22}{found['ours']['median']:.4f} {medians}", flush=True)
            yield found


if __name__ == "__main__":
    write_rows("ratings", list(rows()))
