"""Private lists over epsilon beside private popularity: full catalogue, one user protected.

    python benchmarks/private_lists.py [SET ...]
        writes benchmarks/results/private_lists.json, all sets unless some are named

Every set is split by row, 80 % to learn from and 20 % to find, with three seeds and several draws
of the noise for each (one for `PrivateNeighbours`, which has noise on all pairs). Delta is 1e-6.
Models are not tuned here, but the constants of the rule by which lists depart from popularity were
chosen with all of these sets in sight. The catalogue is taken for public. Sets whose files are
missing are left out.
"""

import sys

import numpy as np
from _measure import write_parts
from recommenders import SETS

from sfumato.data import generate_world
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import (
    LinearItems,
    Popular,
    PrivateLinearItems,
    PrivateNeighbours,
    PrivatePopular,
    metrics,
)

EPSILONS = (0.25, 0.5, 1, 2, 4, 8, 16)
DELTA = 1e-6
SEEDS = range(3)
DRAWS = {0.25: 40, 0.5: 8}  # of the noise for each split, where it varies most; 3 elsewhere
MANY = 200_000  # rows of a set from which on three are enough
MATRIX = 5_000  # items up to which all pairs are a table; beyond, they are sketched
WORLDS = {
    "generated, few users": lambda: (
        generate_world(users=1_000, items=3_000, ratings=30_000, random_state=1).interactions
    ),
}


def models(epsilon, items):
    """The private models of one budget by name."""
    budget = dict(epsilon=epsilon, delta=DELTA)
    width = None if items <= MATRIX else 2**20
    return {
        "PrivatePopular": PrivatePopular(**budget),
        "PrivateLinearItems": PrivateLinearItems(**budget),
        "PrivateNeighbours": PrivateNeighbours(**budget, per_user=32, width=width),
    }


def draws(label, epsilon, rows):
    if label == "PrivateNeighbours":
        return 1
    return DRAWS.get(epsilon, 3) if rows < MANY else 3


def ndcg(model, train, test, own):
    users = np.unique(test.users)
    lists, scores = model.recommend(users, 10, **{own: train})
    return metrics.ndcg(lists, test, scores=scores, users=users)


def measured(name, data):
    """NDCG@10 of each model and epsilon, a number for each seed."""
    catalogue, rows = np.unique(data.items), {}
    for seed in SEEDS:
        train, test = data.split(0.8, 0.2, random_state=seed)
        exact = {"Popular": Popular()}
        if catalogue.size <= MATRIX:
            exact["LinearItems"] = LinearItems()
        for label, model in exact.items():
            found = ndcg(model.fit(train), train, test, "exclude")
            rows.setdefault((label, None), []).append(found)
        for epsilon in EPSILONS:
            for label, model in models(epsilon, catalogue.size).items():
                for draw in range(draws(label, epsilon, len(data))):
                    noise = InsecureSeededSource(10_000 * seed + 100 * draw + len(label))
                    fitted = model.fit(train, catalogue=catalogue, source=noise)
                    found = ndcg(fitted, train, test, "user_items")
                    rows.setdefault((label, epsilon), []).append(found)
    for (label, epsilon), found in rows.items():
        mean, error = np.mean(found), np.std(found) / len(found) ** 0.5
        budget = "" if epsilon is None else f"epsilon {epsilon:g}"
        print(f"{name:<22}{label:<20}{budget:<14}NDCG@10 {mean:.4f} +- {error:.4f}", flush=True)
    return [
        {"model": label, "epsilon": epsilon, "ndcg_10": [round(each, 4) for each in found]}
        for (label, epsilon), found in rows.items()
    ]


def main():
    loaded = {name: load() for name, load in {**SETS, **WORLDS}.items()}
    parts = {
        name: lambda name=name, data=data: measured(name, data)
        for name, data in loaded.items()
        if data is not None
    }
    write_parts("private_lists", parts, sys.argv[1:])


if __name__ == "__main__":
    main()
