"""Content-based lists and ratings by attributes, where nothing but features is known.

    python benchmarks/content.py [news] [films] [artists] [users] [hundred] [books] [index] [speed]
        writes benchmarks/results/content.json, all parts unless some are named

News: bbc-news documents, read by generated readers with known tastes; a fifth of the documents is
new. Films: MovieLens-1M, a fifth of the films is new. Artists: Last.fm lists by tags, beside
popularity. Users: MovieLens-1M ratings of users without any training rating. Hundred: lists and
new users of MovieLens-100K. Books: lists of Book-Crossing by title, author and publisher. Index:
recall of lists from buckets. Speed: TF-IDF of generated documents. The sets are read from the
folder that SFUMATO_DATA names.

What was chosen where: `terms` on bbc-news with other readers; `prior` on validation rows of
MovieLens-1M, Last.fm and MovieLens-100K, after 0.5, from the first two alone, had lost to
popularity on test rows of the third; the order of effects of AttributeMeans on new users of
MovieLens-1M. Nothing was chosen on Book-Crossing, nor on the new users of MovieLens-100K.
"""

import gzip
import resource
import sys
import time

import numpy as np
import pyarrow.parquet as pq
from _measure import write_parts
from _ratings import folder

from sfumato.data import Features, Interactions, read_features, read_interactions
from sfumato.recommend import AttributeMeans, ContentBased, DampedMeans, Popular, TfIdf

N = 10
SEEDS = range(10, 15)  # defaults were chosen with seeds 0 to 2
READERS, READ, TESTED = 1000, 20, 5
DISCOUNT = 1 / np.log2(np.arange(2, N + 2))


def documents():
    """Texts and classes of bbc-news, each text once."""
    table = pq.read_table(folder() / "bbc-news" / "bbc_news.parquet")
    texts = np.array(table["text"].to_pylist(), object)
    classes = np.unique(table["category"].to_pylist(), return_inverse=True)[1]
    first = np.sort(np.unique(texts.astype(str), return_index=True)[1])
    return texts[first], classes[first]


def readers(classes, seed, new_part=0.2):
    """Readers with tastes over five classes, and documents of different popularity.

    Returns the order of documents, which of them are new, the tastes, training and test rows.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(classes.size)
    popularity = random.lognormal(0, 1, classes.size)
    new = np.zeros(classes.size, bool)
    new[random.permutation(classes.size)[: int(new_part * classes.size)]] = True
    tastes = random.dirichlet(np.full(5, 0.3), READERS)
    rows = {False: [], True: []}
    for taste in tastes:
        weights = taste[classes[order]] * popularity
        for part, count in ((False, READ), (True, TESTED)):
            chances = np.where(new == part, weights, 0)
            rows[part].append(
                random.choice(order.size, count, replace=False, p=chances / chances.sum())
            )
    train, test = (
        Interactions(np.repeat(np.arange(READERS), count), np.concatenate(rows[part]))
        for part, count in ((False, READ), (True, TESTED))
    )
    return order, new, tastes, train, test


def gains(items, users, test):
    """NDCG and recall of each user's list of N."""
    wanted = {}
    for user, item in zip(test.users.tolist(), test.items.tolist(), strict=True):
        wanted.setdefault(user, set()).add(item)
    out = []
    for user, row in zip(users, items.tolist(), strict=True):
        right = np.array([item in wanted[user] for item in row])
        most = min(len(wanted[user]), N)
        out.append((right @ DISCOUNT / DISCOUNT[:most].sum(), right.sum() / len(wanted[user])))
    return np.array(out)


def mean(values):
    """Mean with a 95 % interval over users."""
    half = 1.96 * values.std(ddof=1) / np.sqrt(values.size)
    return {"mean": float(values.mean()), "low": float(values.mean() - half),
            "high": float(values.mean() + half)}  # fmt: skip


def table(found, against):
    """Metrics of every list, and paired differences of `against` to the others.

    A list is given as pairs of users and their values; what seeds give one user is one mean.
    """
    rows, found = {}, {name: by_user(each) for name, each in found.items()}
    for name, values in found.items():
        rows[name] = {"ndcg": mean(values[:, 0]), "recall": mean(values[:, 1])}
        if name != against:
            rows[name]["less_ndcg"] = mean(found[against][:, 0] - values[:, 0])
        print(f"{name:<28}", *(f"{rows[name][each]['mean']:.4f}" for each in ("ndcg", "recall")))
    return rows


def by_user(runs):
    """Means of each user's values over all runs, since runs of one user are not independent."""
    users = np.concatenate([np.asarray(each[0]) for each in runs])
    values = np.concatenate([each[1] for each in runs])
    _, at = np.unique(users, return_inverse=True)
    sums = np.stack([np.bincount(at, column) for column in values.T], axis=1)
    return sums / np.bincount(at)[:, None]


def lists_among(allowed, scores):
    """The N best of the allowed items by these scores, one row per user."""
    return np.argsort(-np.where(allowed, scores, -np.inf), axis=1, kind="stable")[:, :N]


def news():
    """Lists of new documents beside popularity, chance, and the reader's true tastes."""
    texts, classes = documents()
    found, example = {}, None
    for seed in SEEDS:
        order, new, tastes, train, test = readers(classes, seed)
        features = Features(np.arange(order.size), texts[order])
        users, random = np.arange(READERS), np.random.default_rng(seed)
        noise = random.random((READERS, order.size))
        model = ContentBased().fit(train, features=features)
        popular = Popular().fit(train, catalogue=np.arange(order.size))
        lists = {
            "content": model.recommend(users, N, filter=new[model.catalogue_.ids])[0],
            "popular": popular.recommend(users, N, filter=new)[0],
            "random": lists_among(new, noise),
            "true class tastes": lists_among(new, tastes[:, classes[order]] + 1e-9 * noise),
        }
        for name, items in lists.items():
            found.setdefault(name, []).append(
                (users + READERS * seed, gains(items, users, test))  # other readers for each seed
            )
        if example is None:
            item = int(lists["content"][0, 0])
            example = {"text": texts[order][item][:80], **model.explain(0, item)}
            example["profile"] = model.user_profile(0, 8)
    print(example)
    rows = table(found, "content")
    return {"documents": len(texts), "readers": READERS * len(SEEDS), "lists": rows,
            "example": example}  # fmt: skip


def films():
    """Lists of films that nobody has rated yet, by title and genre, on MovieLens-1M."""
    home = folder() / "movielens-1m"
    ratings = read_interactions(home / "ratings.dat.gz")
    tables = {
        "genres": read_features(home / "movies.dat.gz", categories={"genre": 2}, separator="|"),
        "genres and titles": read_features(
            home / "movies.dat.gz", texts=1, categories={"genre": 2}, separator="|"
        ),
    }
    found = {}
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        ids = np.unique(ratings.items)
        held = random.permutation(ids)[: ids.size // 5]
        outside = np.isin(ratings.items, held)
        train, test = ratings.filter(~outside), ratings.filter(outside & (ratings.ratings >= 4))
        users = np.unique(test.users)
        for name, known in tables.items():
            model = ContentBased().fit(train, features=known.take(known.positions(ids)))
            items = model.recommend(users, N, filter=np.isin(model.catalogue_.ids, held))[0]
            found.setdefault(name, []).append((users, gains(items, users.tolist(), test)))
        some = held[np.argsort(random.random((users.size, held.size)), axis=1)[:, :N]]
        found.setdefault("random", []).append((users, gains(some, users.tolist(), test)))
    return table(found, "genres")


def tagged_artists():
    """Who listened to which artist of Last.fm, and the tags of the artists."""
    home = folder() / "lastfm-hetrec"
    listened, tagged = (
        pq.read_table(home / f"user_{name}_artist_rels.parquet") for name in ("listen", "tag")
    )
    data = Interactions(*(listened[name].to_numpy() for name in listened.column_names[:2]))
    tags = {}
    for artist, tag in zip(
        tagged["targetNodeId"].to_pylist(), tagged["tagID"].to_pylist(), strict=True
    ):
        tags.setdefault(artist, []).append(f"tag{tag}")
    features = Features(list(tags), [" ".join(each) for each in tags.values()])
    return data, features


def artists():
    """Lists of all artists by their tags beside popularity, 90 % of the rows to learn from."""
    data, features = tagged_artists()
    found = {}
    for seed in SEEDS:
        train, test = data.split(0.9, 0.1, random_state=seed)
        users = np.unique(test.users)
        for name, model in (
            ("content", ContentBased().fit(train, features=features)),
            ("content, prior=0", ContentBased(prior=0).fit(train, features=features)),
            ("popular", Popular().fit(train)),
        ):
            items = model.recommend(users, N, exclude=train)[0]
            found.setdefault(name, []).append((users, gains(items, users.tolist(), test)))
    return table(found, "content")


def users():
    """RMSE of users without any training rating: item means, and by attributes."""
    home = folder() / "movielens-1m"
    ratings = read_interactions(home / "ratings.dat.gz")
    people = read_features(
        home / "users.dat.gz", categories={"gender": 1, "age": 2, "occupation": 3}
    )
    genres = read_features(home / "movies.dat.gz", categories={"genre": 2}, separator="|")
    return new_users(ratings, people, genres)


def new_users(ratings, people, genres):
    """RMSE where a fifth of the users is left out entirely."""
    ids, sums = np.unique(ratings.users), {}
    counts = np.zeros(ids.size)
    for seed in SEEDS:
        held = np.random.default_rng(seed).permutation(ids)[: ids.size // 5]
        outside = np.isin(ratings.users, held)
        train, test = ratings.filter(~outside), ratings.filter(outside)
        at = np.searchsorted(ids, test.users)
        counts += np.bincount(at, minlength=ids.size)
        for name, model in (
            ("item means", DampedMeans().fit(train)),
            ("attributes", AttributeMeans().fit(train, attributes=people)),
            ("with genres", AttributeMeans().fit(train, attributes=people, features=genres)),
        ):
            errors = (model.predict(test.users, test.items) - test.ratings) ** 2
            sums[name] = sums.get(name, 0) + np.bincount(at, errors, minlength=ids.size)
    return rmse_table(sums, counts, "item means")


def hundred_thousand():
    """Ratings of MovieLens-100K, attributes of users, and genres of films."""
    home = folder() / "movielens-100k"
    ratings = read_interactions(home / "u.data.gz")
    people = read_features(
        home / "u.user.gz",
        categories={"age": 1, "gender": 2, "occupation": 3},
        delimiter="|",
        header=False,
    ).to_arrow()
    decades = [int(age[0]) // 10 for age in people["age"].to_pylist()]
    others = {name: people[name] for name in ("gender", "occupation")}
    people = Features(people["id"], categories={"age": decades, **others})
    with gzip.open(home / "u.item.gz", "rt", encoding="latin-1") as lines:
        films = [line.rstrip("\n").split("|") for line in lines]
    genres = Features(
        [int(film[0]) for film in films],
        categories={
            "genre": [np.flatnonzero(np.array(film[5:]) == "1").tolist() for film in films]
        },
    )
    return ratings, people, genres


def hundred():
    """MovieLens-100K: lists by genre beside popularity, and ratings of new users."""
    ratings, people, genres = hundred_thousand()
    found = {}
    for seed in SEEDS:
        train, test = ratings.split(0.9, 0.1, random_state=seed)
        chosen = np.unique(test.users)
        for name, model in (
            ("content", ContentBased().fit(train, features=genres)),
            ("content, prior=0", ContentBased(prior=0).fit(train, features=genres)),
            ("popular", Popular().fit(train)),
        ):
            items = model.recommend(chosen, N, exclude=train)[0]
            found.setdefault(name, []).append((chosen, gains(items, chosen.tolist(), test)))
    return {"lists": table(found, "content"), "new users": new_users(ratings, people, genres)}


def books():
    """Lists of Book-Crossing by title, author and publisher, for 2,000 users of each seed."""
    home = folder() / "book-crossing"
    features = read_features(
        home / "BX-Books-no-urls.csv.gz",
        ids="ISBN",
        texts="Book-Title",
        categories={"author": "Book-Author", "publisher": "Publisher"},
        missing="empty",
    )
    data = read_interactions(home / "BX-Book-Ratings.csv.gz", ratings=False)
    found = {}
    for seed in (10, 11):
        train, test = data.split(0.8, 0.2, random_state=seed)
        active = np.intersect1d(np.unique(test.users), np.unique(train.users))
        chosen = np.random.default_rng(seed).choice(active, 2000, replace=False)
        test = test.filter(np.isin(test.users, chosen))
        for name, model in (
            ("content", ContentBased().fit(train, features=features)),
            ("content, prior=0", ContentBased(prior=0).fit(train, features=features)),
            ("popular", Popular().fit(train)),
        ):
            items = model.recommend(chosen, N, exclude=train)[0]
            found.setdefault(name, []).append((chosen, gains(items, chosen.tolist(), test)))
    return table(found, "content")


def rmse_table(sums, counts, base):
    """RMSE of all, and the difference to a base with a bootstrap interval over users."""
    random, rows = np.random.default_rng(0), {}
    there = np.flatnonzero(counts)
    draws = random.choice(there, (1000, there.size))
    for name, each in sums.items():
        rows[name] = {"rmse": float(np.sqrt(each.sum() / counts.sum()))}
        if name != base:
            both = [np.sqrt(s[draws].sum(1) / counts[draws].sum(1)) for s in (sums[base], each)]
            low, high = np.quantile(both[0] - both[1], (0.025, 0.975))
            rows[name]["less_rmse"] = {"low": float(low), "high": float(high)}
        print(name, rows[name])
    return rows


def index():
    """Recall of the 10 best of bbc-news readers from buckets, by what the buckets contain."""
    texts, classes = documents()
    order, _, _, train, _ = readers(classes, SEEDS[0])
    model = ContentBased(prior=0).fit(train, features=Features(np.arange(order.size), texts[order]))
    who, rows = np.arange(READERS), []
    for bands, keys, probes in (
        (16, None, 16), (16, None, 64), (32, 6, 4), (32, 6, 8), (64, 6, 4), (64, 8, 16), (16, 4, 2),
    ):  # fmt: skip
        found = model.index(bands=bands, rows=keys, probes=probes)
        rows.append({"bands": bands, "rows": keys, "probes": probes,
                     "recall": found.recall(who, N), "touched": found.touched(who)})  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def speed():
    """Seconds of TF-IDF profiles of 100,000 generated documents of 150 words, and their memory."""
    random, count = np.random.default_rng(0), 100_000
    words = np.array([f"w{rank}" for rank in range(200_000)], object)
    chances = np.cumsum(1 / np.arange(1, words.size + 1) ** 1.05)
    drawn = words[np.searchsorted(chances / chances[-1], random.random((count, 150)))]
    features = Features(np.arange(count), [" ".join(each) for each in drawn])
    del drawn
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    made = TfIdf(terms=100).fit_transform(features)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = {"documents": count, "words": made.shape[1], "seconds": seconds,
           "peak_mib": peak / 1024, "of_which_input_mib": before / 1024}  # fmt: skip
    print(row)
    return row


PARTS = {
    "news": news,
    "films": films,
    "artists": artists,
    "users": users,
    "hundred": hundred,
    "books": books,
    "index": index,
    "speed": speed,
}

if __name__ == "__main__":
    write_parts("content", PARTS, sys.argv[1:])
