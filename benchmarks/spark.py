"""The same jobs on Spark: equal to one machine, what they move, and Spark's own beside them.

    python benchmarks/spark.py [equal] [moved] [overhead] [peers] [scale]
        writes benchmarks/results/spark.json, all parts unless some are named

Everything runs on `local[2]`, one Java process with two cores and workers of Python; files are in
the page cache. Bytes are those of Spark's own metrics of tasks and stages. `scale` fits a model of
time to some sizes and predicts others that it has not met; what it says of clusters rests on the
assumptions that it prints.
"""

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _measure import write_parts
from _ratings import rmse, shaped_as_movielens
from _spark_meter import Meter
from _spark_peers import peer_rows
from _spark_scale import predictions

from sfumato.engine import LocalEngine, SparkEngine, map_merge
from sfumato.engine.spark.engine import FAN_IN
from sfumato.mine.cluster import KMeans
from sfumato.mine.itemsets import Baskets, frequent_itemsets
from sfumato.mine.rank import Graph, pagerank
from sfumato.mine.similar import near_duplicates
from sfumato.recommend import SketchFactorization
from sfumato.sketch import (
    AMS,
    BloomFilter,
    CountingBloomFilter,
    CountMin,
    CountSketch,
    HyperLogLog,
    MinHash,
    Race,
)
from sfumato.sketch.lsh import Euclidean

# One partition for each file, whatever its size.
SETTINGS = {"spark.sql.files.openCostInBytes": str(2**30), "spark.driver.memory": "4g"}
SKETCHES = {
    "HyperLogLog": HyperLogLog,
    "CountMin": lambda: CountMin(1 << 14),
    "CountMin, compact cells": lambda: CountMin(1 << 14, cells="compact"),
    "CountSketch": lambda: CountSketch(1 << 14),
    "AMS": lambda: AMS(256),
    "BloomFilter": lambda: BloomFilter(1 << 22),
    "CountingBloomFilter": lambda: CountingBloomFilter(1 << 20),
    "MinHash": lambda: MinHash(128),
}
RUNS = 5


def started():
    return SparkEngine("local[2]", settings=SETTINGS)


def events(rows, seed=0):
    """Users of unequal activity, words, and points."""
    rng = np.random.default_rng(seed)
    users = rng.zipf(1.2, rows) % 1_000_000
    return pa.table({"user": users, "x": rng.uniform(0, 1, rows), "y": rng.uniform(0, 1, rows)})


def written(table, folder, files):
    """The pattern of the paths of so many Parquet files, which have the rows of the table."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    size = -(-table.num_rows // files)
    for at in range(files):
        pq.write_table(table.slice(at * size, size), folder / f"{at:04}.parquet")
    return f"{folder}/*.parquet"


def equal():
    """Results on Spark beside those of one machine."""
    with started() as engine, tempfile.TemporaryDirectory() as folder:
        rows = [*_equal_sketches(engine, folder), *_equal_mining(engine, folder)]
        rows += _equal_training(engine, folder)
    for row in rows:
        print(row, flush=True)
    return rows


def _equal_sketches(engine, folder):
    table = events(1_000_000)
    words = pa.array([f"word {user}" for user in table["user"].to_numpy()])
    path = written(table.append_column("word", words), f"{folder}/events", 20)
    cases = [(name, make, column) for name, make in SKETCHES.items() for column in ("user", "word")]
    race = ["x", "y"]
    cases.append(("Race", lambda: Race(50, 256, Euclidean(0.3, (0, 1), dimension=2)), race))
    for name, make, column in cases:
        made = map_merge(path, make, column=column, engine=engine).to_bytes()
        local = map_merge(path, make, column=column, engine=LocalEngine(threads=1)).to_bytes()
        yield {"name": f"{name} of {column}", "asked": "same bytes", "equal": made == local}


def _equal_mining(engine, folder):
    rng, one = np.random.default_rng(1), LocalEngine(threads=1)
    baskets = [np.unique(rng.zipf(1.3, 10) % 500).tolist() for _ in range(50_000)]
    path = written(pa.table({"items": baskets}), f"{folder}/baskets", 5)
    found = frequent_itemsets(path, min_support=0.005, engine=engine)
    local = frequent_itemsets(Baskets(baskets), min_support=0.005)
    same = sorted(found.to_list()) == sorted(local.to_list())
    yield {"name": f"{len(found)} itemsets", "asked": "equal", "equal": same}

    texts = [_edited(rng, at) for at in range(5_000)]
    path = written(pa.table({"id": range(len(texts)), "text": texts}), f"{folder}/texts", 5)
    found, local = near_duplicates(path, 0.8, engine=engine), near_duplicates(texts, 0.8)
    same = found.to_pylist() == local.to_pylist()
    yield {"name": f"{found.num_rows} near duplicates", "asked": "equal", "equal": same}

    points = rng.normal(size=(200_000, 4)) + rng.integers(0, 5, 200_000)[:, None] * 6
    table = pa.table(dict(zip("abcd", points.T, strict=True)))
    path = written(table, f"{folder}/points", 5)
    fits = [
        KMeans(5, random_state=0).fit(path, engine=each, columns=list("abcd"))
        for each in (engine, one)
    ]
    apart = float(np.abs(fits[0].cluster_centers_ - fits[1].cluster_centers_).max())
    same = fits[0].counts_.tolist() == fits[1].counts_.tolist() and apart < 1e-9
    yield {"name": "clusters", "asked": "equal", "equal": same, "largest_difference": apart}

    sources, targets = rng.zipf(1.3, 400_000) % 50_000, rng.integers(0, 60_000, 400_000)
    table = pa.table({"source": sources, "target": targets})
    path = written(table, f"{folder}/edges", 5)
    ranks, local = pagerank(path, engine=engine), pagerank(Graph(sources, targets))
    distance = float(np.abs(ranks.scores - local.scores).sum())
    yield {"name": "PageRank, L1", "asked": 1e-7, "difference": distance, "equal": distance <= 1e-7}


def _edited(rng, at):
    """A text that some others differ from in a few letters."""
    letters = np.random.default_rng(at // 3).choice(list("abcdefghij "), 200)
    letters[rng.integers(0, 200, 3)] = "z"
    return "".join(letters)


def _equal_training(engine, folder, epochs=20):
    name, data = shaped_as_movielens()
    for seed in range(3):
        train, test = data.split(0.9, 0.1, random_state=seed)
        columns = {"user": train.users, "item": train.items, "rating": train.ratings}
        path = written(pa.table(columns), f"{folder}/ratings-{seed}", 8)
        local = rmse(SketchFactorization(epochs=epochs).fit(train), test)
        rounds = rmse(SketchFactorization(epochs=epochs).fit_rows(path, engine=engine), test)
        yield {
            "name": f"RMSE of sketch factorization, {name}, seed {seed}",
            "asked": "within 0.005",
            "local": local,
            "spark": rounds,
            "equal": abs(rounds - local) <= 0.005,
        }


def moved():
    """Bytes that travel for a sketch: by its size and the partitions, not by the rows."""
    rows = []
    with started() as engine, tempfile.TemporaryDirectory() as folder:
        for count in (1_000_000, 4_000_000, 16_000_000):
            for files in (8, 64):
                path = written(events(count), f"{folder}/{count}-{files}", files)
                for name in ("HyperLogLog", "CountMin", "BloomFilter"):
                    make = SKETCHES[name]
                    with Meter(engine.session) as used:
                        made = map_merge(path, make, column="user", engine=engine)
                    size = len(made.to_bytes())
                    travelled = used.moved["shuffle_bytes"] + used.moved["result_bytes"]
                    rows.append(
                        {
                            "sketch": name,
                            "rows": count,
                            "partitions": files,
                            "sketch_bytes": size,
                            "moved_bytes": travelled,
                            "sketches_moved": travelled / size,
                            **used.moved,
                        }
                    )
                    print(rows[-1], flush=True)
    return rows


def overhead():
    """Seconds of jobs with next to no rows: what a job, a task and a level of the tree cost."""
    rows = []
    with started() as engine, tempfile.TemporaryDirectory() as folder:
        for files in (1, 2, 8, 16, 32, 64, 128):
            path = written(events(6_400), f"{folder}/{files}", files)
            used = [_metered(engine, path) for _ in range(RUNS + 1)][1:]
            seconds = [each.seconds for each in used]
            rows.append(
                {
                    "partitions": files,
                    "stages": used[0].moved["stages"],
                    "tasks": used[0].moved["tasks"],
                    "seconds": statistics.median(seconds),
                    "low": min(seconds),
                    "high": max(seconds),
                }
            )
            print(rows[-1], flush=True)
    return {"rows": rows, "seconds": fitted_overhead(rows)}


def fitted_overhead(rows):
    """Seconds of a job, of a task on two cores, and of the second level of the tree."""
    terms = np.array([[1, row["tasks"], row["partitions"] > FAN_IN] for row in rows], float)
    found = np.linalg.lstsq(terms, np.array([row["seconds"] for row in rows]), rcond=None)[0]
    names = "job", "task_on_two_cores", "level_of_the_tree"
    return dict(zip(names, found.tolist(), strict=True))


def _metered(engine, path):
    with Meter(engine.session) as used:
        map_merge(path, HyperLogLog, column="user", engine=engine)
    return used


def peers():
    """Spark's own functions beside ours on the same files: time, memory, error."""
    with started() as engine, tempfile.TemporaryDirectory() as folder:
        return peer_rows(engine, folder, written, events)


def scale():
    """A model of time and cost, fitted here and tried on sizes that it has not met."""
    with started() as engine, tempfile.TemporaryDirectory() as folder:
        return predictions(engine, folder, written, events)


if __name__ == "__main__":
    parts = {
        "equal": equal,
        "moved": moved,
        "overhead": overhead,
        "peers": peers,
        "scale": scale,
    }
    write_parts("spark", parts, sys.argv[1:])
