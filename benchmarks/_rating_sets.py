"""The sets whose ratings are predicted, each with its pairs of training and test rows."""

import numpy as np
from _ratings import folder, real
from sparse_ratings import book_crossing, film_trust, last_fm

from sfumato.data import Interactions, generate_world, read_interactions

SEEDS = range(3)


def by_row(load, share):
    """Random splits by row, one for each seed."""

    def parts():
        data = load()
        if data is None:
            return None
        return [tuple(data.split(share, 1 - share, random_state=seed)) for seed in SEEDS]

    return parts


def official_folds():
    """The five folds that come with MovieLens-100K."""
    names = [[folder() / "movielens-100k" / f"u{fold}.{part}.gz" for part in ("base", "test")]
             for fold in range(1, 6)]  # fmt: skip
    if not names[0][0].exists():
        return None
    return [tuple(read_interactions(path) for path in pair) for pair in names]


def generated():
    world = generate_world(users=3_000, items=1_000, ratings=150_000, random_state=1).interactions
    times = np.random.default_rng(0).uniform(0, 3e7, len(world))  # which nothing depends on
    return Interactions(world.users, world.items, world.ratings, times)


SETS = {
    "MovieLens-1M": by_row(lambda: real("movielens-1m"), 0.9),
    "MovieLens-100K, official folds": official_folds,
    "FilmTrust": by_row(film_trust, 0.8),
    "Book-Crossing, 1 to 10": by_row(lambda: book_crossing(zeros=False), 0.8),
    "Last.fm, logarithms": by_row(last_fm, 0.8),
    "generated": by_row(generated, 0.8),
}
