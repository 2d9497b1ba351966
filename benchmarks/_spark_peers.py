"""Spark's own sketches and models beside ours, on the same files and the same two cores."""

import statistics

import numpy as np
import pyarrow as pa
from _ratings import shaped_as_movielens
from _spark_meter import Meter

from sfumato.engine import map_merge
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.mine.similar import near_duplicates
from sfumato.recommend import ALS, SketchFactorization
from sfumato.sketch import CountMin, HyperLogLog

ROUNDS = 3
EVENTS, PARTITIONS = 8_000_000, 8
TEXTS = 4_000  # with 10,000, Spark's join did not end within its 4 GiB


def peer_rows(engine, folder, written, events):
    """Every row: the work, then for ours and Spark's seconds, MiB and errors."""
    table = events(EVENTS)
    path = written(table, f"{folder}/events", PARTITIONS)
    users = table["user"].to_numpy()
    works = [
        lambda: _distinct(engine, path, users),
        lambda: _counts(engine, path, users),
        lambda: _itemsets(engine, written, folder),
        lambda: _duplicates(engine, written, folder),
        lambda: _ratings(engine, written, folder),
        lambda: _lists(engine, written, folder),
    ]
    rows = []
    for work in works:
        rows.append(work())
        print(rows[-1], flush=True)
    return rows


def _measured(engine, works):
    """Each work in turn, several rounds, after one that is not counted; medians and answers."""
    answers = {name: work() for name, work in works.items()}
    used = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            with Meter(engine.session) as meter:
                answers[name] = work()
            used[name].append(meter)
    figures = {
        name: {
            "seconds": statistics.median(each.seconds for each in meters),
            "low": min(each.seconds for each in meters),
            "high": max(each.seconds for each in meters),
            "mib": max(each.mib for each in meters),
            "moved_bytes": meters[-1].moved["shuffle_bytes"] + meters[-1].moved["result_bytes"],
        }
        for name, meters in used.items()
    }
    return figures, answers


def _row(name, figures, errors, trivial=None):
    for each, error in errors.items():
        figures[each] = {**figures[each], **error}
    return {"name": name, **figures, **({"trivial": trivial} if trivial else {})}


def _distinct(engine, path, users):
    from pyspark.sql.functions import approx_count_distinct, count_distinct

    frame, exact = engine.session.read.parquet(path), np.unique(users).size
    works = {
        "ours": lambda: map_merge(path, HyperLogLog, column="user", engine=engine).estimate(),
        "spark": lambda: frame.agg(approx_count_distinct("user", 0.0081)).first()[0],
        "exact": lambda: frame.agg(count_distinct("user")).first()[0],
    }
    figures, answers = _measured(engine, works)
    errors = {name: {"relative_error": abs(answer / exact - 1)} for name, answer in answers.items()}
    return _row("distinct users, standard error .8 %", figures, errors)


def _counts(engine, path, users):
    from pyspark.sql.functions import col, count_min_sketch, lit

    frame = engine.session.read.parquet(path)
    width, depth = 1 << 12, 4
    sample = np.unique(np.random.default_rng(0).choice(users, 2_000))
    counts = np.bincount(users, minlength=sample.max() + 1)[sample]
    confidence = 1 - np.exp2(-depth)  # four rows, as Spark counts them
    works = {
        "ours": lambda: map_merge(
            path, lambda: CountMin(width, depth), column="user", engine=engine
        ),
        "spark": lambda: frame.agg(
            count_min_sketch(col("user"), lit(2.0 / width), lit(float(confidence)), lit(1))
        ).first()[0],
    }
    figures, answers = _measured(engine, works)
    ours = np.asarray(answers["ours"].estimate(sample)) - counts
    load = engine.session._jvm.org.apache.spark.util.sketch.CountMinSketch.readFrom
    theirs = load(bytearray(answers["spark"]))
    spark = np.array([theirs.estimateCount(int(user)) for user in sample]) - counts
    errors = {
        "ours": {"mean_error": float(ours.mean()), "bytes": len(answers["ours"].to_bytes())},
        "spark": {"mean_error": float(spark.mean()), "bytes": len(answers["spark"])},
    }
    return _row("counts of users, 4 rows of 4,096", figures, errors)


def _itemsets(engine, written, folder):
    from pyspark.ml.fpm import FPGrowth

    rng = np.random.default_rng(2)
    baskets = [np.unique(rng.zipf(1.25, 12) % 2_000).tolist() for _ in range(200_000)]
    path = written(pa.table({"items": baskets}), f"{folder}/baskets", PARTITIONS)
    frame = engine.session.read.parquet(path)
    growth = FPGrowth(itemsCol="items", minSupport=0.002)
    works = {
        "ours": lambda: frequent_itemsets(path, min_support=0.002, engine=engine),
        "spark": lambda: growth.fit(frame).freqItemsets.collect(),
    }
    figures, answers = _measured(engine, works)
    errors = {name: {"itemsets": len(answer)} for name, answer in answers.items()}
    theirs = {frozenset(row["items"]): row["freq"] for row in answers["spark"]}
    same = {frozenset(items): count for items, count in answers["ours"].to_list()} == theirs
    return {**_row("itemsets of 200,000 baskets, .2 %", figures, errors), "equal": same}


def _duplicates(engine, written, folder):
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import HashingTF, MinHashLSH, NGram, RegexTokenizer
    from pyspark.sql.functions import col

    rng = np.random.default_rng(3)
    texts, planted = [], 0
    for at in range(TEXTS):
        letters = np.random.default_rng(at // 2).choice(list("abcdefghijklmnop "), 200)
        if at % 2:
            letters[rng.integers(0, 200, 2)] = "z"
            planted += 1
        texts.append("".join(letters))
    path = written(pa.table({"id": range(len(texts)), "text": texts}), f"{folder}/texts", 4)
    frame = engine.session.read.parquet(path)
    lower = RegexTokenizer(pattern="", inputCol="text", outputCol="letters", minTokenLength=1)
    shingles = NGram(n=5, inputCol="letters", outputCol="shingles")
    hashed = HashingTF(inputCol="shingles", outputCol="features", binary=True, numFeatures=1 << 20)
    minima = MinHashLSH(inputCol="features", outputCol="hashes", numHashTables=8, seed=1)

    def spark():
        rows = Pipeline(stages=[lower, shingles, hashed]).fit(frame).transform(frame)
        model = minima.fit(rows)
        joined = model.approxSimilarityJoin(rows, rows, 0.3, distCol="distance")
        pairs = joined.filter(col("datasetA.id") < col("datasetB.id"))
        return {(row[0], row[1]) for row in pairs.select("datasetA.id", "datasetB.id").collect()}

    def ours():
        found = near_duplicates(path, 0.7, engine=engine)
        return set(zip(found["first"].to_pylist(), found["second"].to_pylist(), strict=True))

    figures, answers = _measured(engine, {"ours": ours, "spark": spark})
    wanted = {(at, at + 1) for at in range(0, len(texts), 2)}
    errors = {
        name: {"pairs": len(answer), "planted_found": len(answer & wanted) / planted}
        for name, answer in answers.items()
    }
    return _row(f"near duplicates of {TEXTS:,} texts, similarity .7", figures, errors)


def _split(written, folder, name):
    set_name, data = shaped_as_movielens()
    train, test = data.split(0.9, 0.1, random_state=0)
    columns = {"user": train.users, "item": train.items, "rating": train.ratings}
    return set_name, train, test, written(pa.table(columns), f"{folder}/{name}", PARTITIONS)


def _predicted(model, train, test):
    """Ratings of the test pairs by a model of Spark; the mean where it knows no user or item."""
    users = dict(model.userFactors.rdd.map(lambda row: (row[0], row[1])).collect())
    items = dict(model.itemFactors.rdd.map(lambda row: (row[0], row[1])).collect())
    mean = float(train.ratings.mean())
    return np.array(
        [
            np.dot(users[user], items[item]) if user in users and item in items else mean
            for user, item in zip(test.users.tolist(), test.items.tolist(), strict=True)
        ]
    )


def _ratings(engine, written, folder):
    from pyspark.ml import recommendation

    set_name, train, test, path = _split(written, folder, "ratings")
    frame = engine.session.read.parquet(path)
    als = recommendation.ALS(
        userCol="user",
        itemCol="item",
        ratingCol="rating",
        rank=32,
        maxIter=10,
        regParam=0.1,
        seed=0,
    )
    works = {
        "ours": lambda: SketchFactorization(epochs=20).fit_rows(path, engine=engine, groups=2),
        "spark": lambda: als.fit(frame),
    }
    figures, answers = _measured(engine, works)
    ours = answers["ours"].predict(test.users, test.items)
    found = {"ours": ours, "spark": _predicted(answers["spark"], train, test)}
    errors = {
        name: {"rmse": float(np.sqrt(np.mean((each - test.ratings) ** 2)))}
        for name, each in found.items()
    }
    mean = float(np.sqrt(np.mean((test.ratings - train.ratings.mean()) ** 2)))
    return _row(f"ratings, {set_name}", figures, errors, {"rmse of the mean": mean})


def _lists(engine, written, folder):
    from pyspark.ml import recommendation

    set_name, train, test, path = _split(written, folder, "lists")
    frame = engine.session.read.parquet(path)
    als = recommendation.ALS(
        userCol="user", itemCol="item", ratingCol="rating", rank=32, maxIter=10,
        implicitPrefs=True, alpha=1.0, regParam=0.1, seed=0,
    )  # fmt: skip
    works = {
        "ours": lambda: ALS(factors=32, epochs=10).fit_rows(path, engine=engine),
        "spark": lambda: als.fit(frame),
    }
    figures, answers = _measured(engine, works)
    users = np.unique(test.users)[:1_000]
    own = {user: set() for user in users.tolist()}
    for user, item in zip(train.users.tolist(), train.items.tolist(), strict=True):
        if user in own:
            own[user].add(item)
    hidden = {user: set() for user in own}
    for user, item in zip(test.users.tolist(), test.items.tolist(), strict=True):
        if user in hidden:
            hidden[user].add(item)
    lists = {"ours": answers["ours"].recommend(users, 10, exclude=train)[0].tolist()}
    vectors = dict(answers["spark"].userFactors.rdd.map(lambda row: (row[0], row[1])).collect())
    rows = answers["spark"].itemFactors.collect()
    ids, factors = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    popular = np.unique(train.items, return_counts=True)
    by_count = popular[0][np.argsort(-popular[1], kind="stable")].tolist()
    lists["spark"] = [
        _unowned(ids[np.argsort(-(factors @ vectors[user]))].tolist(), own[user])
        if user in vectors
        else []
        for user in users.tolist()
    ]
    lists["trivial"] = [_unowned(by_count, own[user]) for user in users.tolist()]
    recall = {
        name: float(
            np.mean(
                [
                    len(set(found) & hidden[user]) / min(10, len(hidden[user]))
                    for found, user in zip(each, users.tolist(), strict=True)
                ]
            )
        )
        for name, each in lists.items()
    }
    errors = {name: {"recall_at_10": recall[name]} for name in ("ours", "spark")}
    trivial = {"recall_at_10 of popularity": recall["trivial"]}
    return _row(f"lists, {set_name}", figures, errors, trivial)


def _unowned(ranked, owned):
    return [item for item in ranked if item not in owned][:10]
