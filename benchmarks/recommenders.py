"""Lists from implicit feedback beside popularity, neighbours and rating models: full catalogue.

Every set is split by row, 80 % to learn from and 20 % to find, with three seeds; whatever a user
has in the test part is relevant, training items are excluded, and every item of the catalogue is a
candidate. Models have their defaults. The rule of the defaults was chosen with FilmTrust,
MovieLens-100K and Last.fm in sight; MovieLens-1M and the generated world were not looked at.
Sets whose files are missing are left out.
"""

import statistics
import time

import numpy as np
import pyarrow.parquet as pq
from _measure import write
from _ratings import folder, real

from sfumato.data import Interactions, generate_world, read_interactions
from sfumato.recommend import (
    DenseFactorization,
    ItemNeighbours,
    LinearItems,
    Popular,
    UserNeighbours,
    metrics,
)

SEEDS = range(3)
MATRIX = 12_000  # items up to which a dense matrix of them is solved here


def film_trust():
    path = folder() / "filmtrust" / "ratings.tsv.gz"
    return read_interactions(path, header=False, delimiter="\t") if path.exists() else None


def last_fm():
    path = folder() / "lastfm-hetrec" / "user_listen_artist_rels.parquet"
    if not path.exists():
        return None
    table = pq.read_table(path)
    return Interactions(*(table[name].to_numpy() for name in table.column_names[:3]))


SETS = {
    "FilmTrust": film_trust,
    "MovieLens-100K": lambda: real("movielens-100k"),
    "MovieLens-1M": lambda: real("movielens-1m"),
    "Last.fm": last_fm,
    "generated": lambda: (
        generate_world(users=3_000, items=1_000, ratings=90_000, random_state=1).interactions
    ),
}
MODELS = {
    "popularity": Popular,
    "LinearItems": LinearItems,
    "ItemNeighbours": ItemNeighbours,
    "ItemNeighbours, cosine": lambda: ItemNeighbours(exponent=0.5),
    "UserNeighbours": UserNeighbours,
    "DenseFactorization, ratings": DenseFactorization,
}


def measured(make, train, test):
    """NDCG@10, Recall@20, and the seconds of fit and of all lists."""
    start = time.perf_counter()
    model = make().fit(train)
    fit = time.perf_counter() - start
    users = np.unique(test.users)
    start = time.perf_counter()
    lists, scores = model.recommend(users, 20, exclude=train)
    seconds = time.perf_counter() - start
    options = dict(users=users)
    return {
        "ndcg_10": metrics.ndcg(lists[:, :10], test, scores=scores[:, :10], **options),
        "recall_20": metrics.recall(lists, test, scores=scores, **options),
        "fit": fit,
        "lists": seconds,
    }


def rows(name, data):
    for label, make in MODELS.items():
        if label == "LinearItems" and np.unique(data.items).size > MATRIX:
            continue
        found = []
        for seed in SEEDS:
            train, test = data.split(0.8, 0.2, random_state=seed)
            found.append(measured(make, train, test))
        row = {key: [round(each[key], 4) for each in found] for key in found[0]}
        middle = {key: statistics.median(values) for key, values in row.items()}
        print(
            f"{name:<16}{label:<30}NDCG@10 {middle['ndcg_10']:.4f}  "
            f"Recall@20 {middle['recall_20']:.4f}  fit {middle['fit']:.2f} s",
            flush=True,
        )
        yield {"set": name, "model": label, **row}


def main():
    found = []
    for name, load in SETS.items():
        data = load()
        if data is not None:
            found += rows(name, data)
    write("recommenders", {"rows": found})


if __name__ == "__main__":
    main()
