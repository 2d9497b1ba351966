"""Hybrids of content-based and collaborative models beside each of their parts.

    python benchmarks/hybrids.py [--set SET] [--seconds N]
        writes benchmarks/results/hybrids.json

Lists: NDCG@10 over the full catalogue without the items of the training rows, three seeds, at
most 1,000 users of each. MovieLens-100K (genres) and Last.fm (tags) are split 80/20 by row; where a
fifth of the items is new, all their rows are test rows, and the other rows are split 80/20. The
readers of bbc-news are generated, see content.py. What the seeds give one user is one mean;
differences to parts are paired, with 95 % intervals over users. The best part is the one that is
best on the test rows, so that differences to it are rather too small than too large. Every model
has its defaults.

Feature weight: `feature_weight` of CollectiveItems on a tenth of the training rows of each split,
and on new items among these; the test rows of a split are not read, but rows of the other seeds'
test parts are among its training rows. Ratings: RMSE on MovieLens-100K where a fifth of the users
is new and a tenth of the other rows are test rows too, with bootstrap intervals over users.

Results are saved after each set; what is there is not run again. --seconds starts no set after so
many. Sets whose files are missing are left out.
"""

import argparse
import json
import time
from functools import partial
from inspect import signature

import numpy as np
from _measure import RESULTS, write
from _ratings import folder
from content import (
    READERS,
    N,
    by_user,
    documents,
    gains,
    hundred_thousand,
    mean,
    readers,
    tagged_artists,
)

from sfumato.data import Features, Interactions
from sfumato.recommend import (
    ALS,
    AttributeMeans,
    BayesianFactorization,
    CollectiveItems,
    ContentBased,
    Hybrid,
    LinearItems,
    Popular,
)

SEEDS, USERS = range(20, 23), 1000
FEATURE_WEIGHTS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
PARTS = {"popular": Popular, "content": ContentBased, "linear-items": LinearItems, "als": ALS}
BOTH = ("content", "linear-items")
HYBRIDS = {  # how parts are combined, and which
    "mixed": ("mixed", BOTH),
    "mixed, als": ("mixed", ("als", "linear-items")),
    "weighted": ("weighted", BOTH),
    "weighted, three parts": ("weighted", (*BOTH, "als")),
    "augmentation": ("augmentation", BOTH),
    "cascade": ("cascade", ("linear-items", "als")),
    "switching": ("switching", BOTH),
    "combination": ("combination", BOTH),
}


def real_set(data, features, new_part, seed):
    """Training and test rows, features and new items, if all rows of some items are test rows."""
    random, ids = np.random.default_rng(seed), np.unique(data.items)
    new = random.permutation(ids)[: int(new_part * ids.size)]
    outside = np.isin(data.items, new)
    train, test = data.filter(~outside).split(0.8, 0.2, random_state=seed)
    known = features.take(np.flatnonzero(np.isin(features.ids, ids)))
    return train, joined(test, data.filter(outside)), known, ids, new, 0


def news_set(texts, classes, seed):
    """The same of bbc-news: a reader's documents are a fifth of the known ones, and new ones."""
    order, new, _, read, later = readers(classes, seed)
    train, test = read.split(0.8, 0.2, random_state=seed)
    ids = np.arange(order.size)
    features = Features(ids, texts[order])
    return train, joined(test, later), features, ids, ids[new], READERS * seed


def joined(*parts):
    return Interactions(*(np.concatenate([getattr(each, name) for each in parts])
                          for name in ("users", "items")))  # fmt: skip


def films():
    ratings, _, genres = hundred_thousand()
    return Interactions(ratings.users, ratings.items), genres


SETS = {  # the file that must be there, what is read once, and the split of a seed
    "MovieLens-100K": ("movielens-100k/u.item.gz", films, 0.0),
    "MovieLens-100K, a fifth new": ("movielens-100k/u.item.gz", films, 0.2),
    "Last.fm": ("lastfm-hetrec/user_tag_artist_rels.parquet", tagged_artists, 0.0),
    "Last.fm, a fifth new": ("lastfm-hetrec/user_tag_artist_rels.parquet", tagged_artists, 0.2),
    "bbc-news, a fifth new": ("bbc-news/bbc_news.parquet", documents, None),
}


def splits(load, new_part):
    """What a seed gives, as a function of it."""
    both = load()
    return partial(news_set, *both) if new_part is None else partial(real_set, *both, new_part)


def hybrid(name):
    combine, parts = HYBRIDS[name]
    return Hybrid(
        parts=["collective-items"] if combine == "combination" else parts, combine=combine
    )


def fitted(model, train, ids, features):
    """The model, fitted with features if it, or a part of it, uses them."""
    used = getattr(model, "extras_of_parts", signature(model.fit).parameters)
    given = {"features": features} if "features" in used else {}
    return model.fit(train, catalogue=ids, **given)


def some_users(train, test, seed):
    """At most so many users with training and test rows."""
    both = np.intersect1d(train.users, test.users)
    return np.sort(np.random.default_rng(seed).permutation(both)[:USERS])


def ndcg(model, train, test, users, only=None):
    """NDCG of each user's list, and their ids; of items of `only` if they are given."""
    if only is not None:
        test = test.filter(np.isin(test.items, only))
        users = np.intersect1d(users, test.users)
        only = np.isin(model.catalogue_.ids, only)
    items = model.recommend(users, N, exclude=train, filter=only)[0]
    return users, gains(items, users.tolist(), test)


def lists(path, load, new_part):
    """NDCG of parts and hybrids; of all items and, where some are new, of lists of these."""
    found, learned, split = {}, {}, splits(load, new_part)
    for seed in SEEDS:
        train, test, features, ids, new, offset = split(seed)
        users = some_users(train, test, seed)
        makers = PARTS | {f"hybrid: {name}": partial(hybrid, name) for name in HYBRIDS}
        for name, make in makers.items():
            model = fitted(make(), train, ids, features)
            if name.startswith("hybrid"):
                learned.setdefault(name, []).append(
                    {"weights": model.weights_, "short_list": model.short_list_}
                )
            for kind, only in {"all": None, **({"new": new} if new.size else {})}.items():
                who, values = ndcg(model, train, test, users, only)
                found.setdefault(kind, {}).setdefault(name, []).append((who + offset, values))
    tables = {kind: with_differences(runs) for kind, runs in found.items()}
    return {**tables, "learned": learned}


def with_differences(runs):
    """NDCG of every model, and of hybrids the paired differences to each of their parts."""
    values = {name: by_user(each)[:, 0] for name, each in runs.items()}
    rows = {name: {"ndcg": mean(each)} for name, each in values.items()}
    for name in HYBRIDS:
        row, mine = rows[f"hybrid: {name}"], values[f"hybrid: {name}"]
        row["more_than"] = {part: mean(mine - values[part]) for part in HYBRIDS[name][1]}
        row["best_part"] = max(row["more_than"], key=lambda part: values[part].mean())
    for name, row in rows.items():
        more = row["more_than"][row["best_part"]] if "best_part" in row else {}
        print(f"{name:<32}{row['ndcg']['mean']:.4f}", row.get("best_part", ""),
              *(f"{each:+.4f}" for each in more.values()), flush=True)  # fmt: skip
    return rows


def feature_weights(path, load, new_part):
    """NDCG on validation rows by feature weight, and paired differences to the best one."""
    found, split = {}, splits(load, new_part)
    for seed in SEEDS:
        train, _, features, ids, _, _ = split(seed)
        used = np.unique(train.items)
        new = np.random.default_rng(seed).permutation(used)[: int((new_part or 0) * used.size)]
        outside = np.isin(train.items, new)  # items that are new among the validation rows
        rest, part = train.filter(~outside).split(0.9, 0.1, random_state=seed)
        part = joined(part, train.filter(outside))
        users = some_users(rest, part, seed)
        for weight in (0.0, *FEATURE_WEIGHTS):
            model = fitted(CollectiveItems(feature_weight=weight), rest, ids, features)
            found.setdefault(weight, []).append(ndcg(model, rest, part, users))
    values = {weight: by_user(runs)[:, 0] for weight, runs in found.items()}
    best = max(values, key=lambda weight: values[weight].mean())
    rows = {str(weight): {"ndcg": mean(each), "less": mean(values[best] - each)}
            for weight, each in values.items()}  # fmt: skip
    for weight, row in rows.items():
        print(f"{weight:>6} {row['ndcg']['mean']:.4f}", *(f"{x:.4f}" for x in row["less"].values()))
    return {"best": best, "validation": rows}


def ratings():
    """RMSE of a hybrid of ratings, switching to attributes where a user or item is rare."""
    data, people, _ = hundred_thousand()
    ids, items = np.unique(data.users), np.unique(data.items)
    shape = 2, ids.size  # rows of known and of new users
    counts, sums = np.zeros(shape), {}
    for seed in SEEDS:
        new = np.random.default_rng(seed).permutation(ids)[: ids.size // 5]
        outside = np.isin(data.users, new)
        train, test = data.filter(~outside).split(0.9, 0.1, random_state=seed)
        for kind, rows in enumerate((test, data.filter(outside))):
            counts[kind] += np.bincount(np.searchsorted(ids, rows.users), minlength=ids.size)
        for name, model in (
            ("attribute-means", AttributeMeans()),
            ("bayesian", BayesianFactorization()),
            ("hybrid: switching", Hybrid(parts="attribute-means,bayesian", combine="switching")),
        ):
            given = {} if name == "bayesian" else {"attributes": people}
            model.fit(train, catalogue=items, **given)
            for kind, rows in enumerate((test, data.filter(outside))):
                errors = (model.predict(rows.users, rows.items) - rows.ratings) ** 2
                at = np.searchsorted(ids, rows.users)
                sums.setdefault(name, np.zeros(shape))[kind] += np.bincount(at, errors, ids.size)
    kinds = {"known users": [0], "new users": [1], "all": [0, 1]}
    return {
        kind: rmse_rows({name: each[at].sum(0) for name, each in sums.items()}, counts[at].sum(0))
        for kind, at in kinds.items()
    }


def rmse_rows(sums, counts):
    """RMSE of all, and how much more the hybrid has than each part, over resampled users."""
    there = np.flatnonzero(counts)
    draws = np.random.default_rng(0).choice(there, (1000, there.size))

    def over(each, at):
        return np.sqrt(each[at].sum(-1) / counts[at].sum(-1))

    rows = {name: {"rmse": float(over(each, there))} for name, each in sums.items()}
    mine = sums["hybrid: switching"]
    for name in ("attribute-means", "bayesian"):
        more = over(mine, draws) - over(sums[name], draws)
        low, high = np.quantile(more, (0.025, 0.975)).tolist()
        rows["hybrid: switching"].setdefault("more_than", {})[name] = {
            "mean": rows["hybrid: switching"]["rmse"] - rows[name]["rmse"], "low": low, "high": high
        }  # fmt: skip
    print(rows, flush=True)
    return rows


def jobs():
    """What is measured: the table it belongs to, its set, the file it needs, and how."""
    validated = [name for name in SETS if not name.startswith("bbc")]
    yield from (("feature weight", name, SETS[name][0], partial(feature_weights, *SETS[name]))
                for name in validated)  # fmt: skip
    yield from (("lists", name, each[0], partial(lists, *each)) for name, each in SETS.items())
    yield "ratings", "MovieLens-100K", "movielens-100k/u.user.gz", ratings


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", help="only sets whose name begins so")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options, start = parser.parse_args(), time.perf_counter()
    path = RESULTS / "hybrids.json"
    content = json.loads(path.read_text()) if path.exists() else {}
    for kind, name, needed, run in jobs():
        there = name in content.get(kind, {}) or not (folder() / needed).exists()
        if there or not name.startswith(options.set or ""):
            continue
        if time.perf_counter() - start > options.seconds:
            break
        print(f"{kind}, {name}", flush=True)
        before = time.process_time()
        found = run()
        content.setdefault(kind, {})[name] = {**found, "cpu": time.process_time() - before}
        write("hybrids", {key: each for key, each in content.items() if key != "machine"})


if __name__ == "__main__":
    main()
