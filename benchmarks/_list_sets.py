"""The sets whose lists are measured: real ones where their files are, and a generated world."""

import pyarrow.parquet as pq
from _ratings import folder, real

from sfumato.data import Interactions, generate_world, read_interactions

COUNTS = {"Last.fm"}  # sets whose ratings are counts: weights of rows are a choice there


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
