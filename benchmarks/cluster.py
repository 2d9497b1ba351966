"""Clusters beside peers: k-means, BFR from disk, private k-means, and shapes.

    python benchmarks/cluster.py [kmeans] [bfr] [private] [shapes] [--small]
        writes benchmarks/results/cluster.json, all parts unless some are named

kmeans: CPU seconds in one process and one thread, five seeds: scikit-learn's MiniBatchKMeans (batch
10,000), our time to the inertia that it reaches, scikit-learn's KMeans with its defaults, ours with
its defaults, and faiss. Sets: blobs of three overlaps, and a real one that nothing was tuned on.
Every inertia is computed anew in float64. bfr: a Parquet file of 10 million rows at 4 standard
deviations between the nearest centres, in a process of its own, beside k-means on a sample of 1 %.
private: mean squared distance beside diffprivlib (_diffprivlib_clusters.py), without privacy, and
with one centre. shapes: rings and moons (_cluster_shapes.py). --small takes a tenth of the rows.
The real set is read from the folder that SFUMATO_DATA names.
"""

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from _measure import write_parts
from threadpoolctl import threadpool_limits

SEEDS = range(5)
SMALL = "--small" in sys.argv
K, D = 20, 16


def inertia(points, centres):
    """Sum of squared distances to the nearest centres, in float64."""
    from sfumato.kernels.mine.cluster import nearest_centres as kernels

    labels, total = np.empty(len(points), np.int32), 0.0
    centres = np.ascontiguousarray(centres, np.float64)
    for at in range(0, len(points), 1 << 17):
        rows = np.ascontiguousarray(points[at : at + (1 << 17)], np.float64)
        squared = np.empty(len(rows))
        kernels.nearest(rows, centres, labels[: len(rows)], squared)
        total += float(squared.sum())
    return total


def blobs(n, apart, seed=0, dtype=np.float32):
    """Normal clusters of deviation 1; `apart`: the distance of the nearest two centres."""
    from scipy.spatial.distance import pdist

    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(K, D))
    centres *= apart / pdist(centres).min()
    out = np.empty((n, D), dtype)
    for at in range(0, n, 1 << 17):
        size = min(1 << 17, n - at)
        out[at : at + size] = centres[rng.integers(K, size=size)] + rng.normal(size=(size, D))
    return out


def real():
    """A real table: standardised columns of the largest of ADBench, or None."""
    folder = Path(os.environ.get("SFUMATO_DATA", Path(__file__).parents[2] / "shared" / "data"))
    file = folder / "adbench" / "11_donors.npz"
    if not file.exists():
        return None
    X = np.load(file)["X"].astype(np.float64)
    return ((X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)).astype(np.float32)


def timed(work):
    """CPU seconds of a call, and what it returns."""
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def faiss_kmeans(points, seed):
    import faiss

    faiss.omp_set_num_threads(1)
    model = faiss.Kmeans(points.shape[1], K, niter=25, seed=seed + 1, verbose=False)
    model.train(points)
    return model.centroids


def time_to(points, seed, goal):
    """CPU seconds until our centres have an inertia of at most `goal`: fewest iterations needed."""
    from sfumato.mine.cluster import KMeans

    for iterations in (1, 2, 4, 8, 300):
        spent, model = timed(
            lambda: KMeans(K, random_state=seed, max_iter=iterations).fit(points)  # noqa: B023
        )
        reached = inertia(points, model.cluster_centers_) <= goal
        if reached:
            break
    return spent, iterations, reached


def kmeans():
    """Ratios of CPU time, and inertia, on every set."""
    from sklearn.cluster import KMeans as Lloyd
    from sklearn.cluster import MiniBatchKMeans

    from sfumato.mine.cluster import KMeans

    n = 100_000 if SMALL else 1_000_000
    sets = {f"blobs {apart:g} deviations apart": blobs(n, apart) for apart in (1.0, 2.0, 4.0)}
    table = real()
    if table is not None:
        sets["adbench donors"] = table[: n if SMALL else None]
    warnings.filterwarnings("ignore")
    KMeans(K, random_state=0).fit(next(iter(sets.values()))[:5000])  # compiled, and not timed
    rows = []
    for name, points in sets.items():
        runs = []
        for seed in SEEDS:
            batch, peer = timed(
                lambda: MiniBatchKMeans(K, batch_size=10_000, random_state=seed).fit(points)  # noqa: B023
            )
            goal = inertia(points, peer.cluster_centers_)
            reach, iterations, reached = time_to(points, seed, goal)
            lloyd, peer = timed(lambda: Lloyd(K, random_state=seed).fit(points))  # noqa: B023
            theirs = inertia(points, peer.cluster_centers_)
            full, mine = timed(lambda: KMeans(K, random_state=seed).fit(points))  # noqa: B023
            ours = inertia(points, mine.cluster_centers_)
            run = {
                "seed": seed,
                "minibatch_s": round(batch, 3),
                "minibatch_inertia": goal,
                "ours_to_it_s": round(reach, 3),
                "iterations_to_it": iterations,
                "reached": reached,
                "lloyd_s": round(lloyd, 3),
                "lloyd_inertia": theirs,
                "ours_s": round(full, 3),
                "ours_inertia": ours,
            }
            if importlib.util.find_spec("faiss"):
                spent, centres = timed(lambda: faiss_kmeans(points, seed))  # noqa: B023
                run |= {"faiss_s": round(spent, 3), "faiss_inertia": inertia(points, centres)}
            runs.append(run)
            print(name, run, flush=True)
        rows.append({"set": name, "shape": list(points.shape), **_ratios(runs), "runs": runs})
        print({key: value for key, value in rows[-1].items() if key != "runs"}, flush=True)
    return rows


def _ratios(runs):
    def middle(one, two):
        return round(statistics.median(run[one] / run[two] for run in runs), 3)

    mean = {
        name: statistics.mean(run[name] for run in runs) for name in runs[0] if "inertia" in name
    }
    return {
        "time_to_minibatch": middle("ours_to_it_s", "minibatch_s"),
        "target_to_minibatch": 0.8,
        "time_to_lloyd": middle("ours_s", "lloyd_s"),
        "target_to_lloyd": 0.7,
        "worst_inertia_to_lloyd": max(run["ours_inertia"] / run["lloyd_inertia"] for run in runs),
        "mean_inertia_to_lloyd": mean["ours_inertia"] / mean["lloyd_inertia"],
        **({"time_to_faiss": middle("ours_s", "faiss_s")} if "faiss_s" in runs[0] else {}),
        **(
            {"mean_inertia_to_faiss": mean["ours_inertia"] / mean["faiss_inertia"]}
            if "faiss_s" in runs[0]
            else {}
        ),
    }


def write_rows(path, n):
    """Write n rows and their true labels to Parquet, some at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from scipy.spatial.distance import pdist

    rng = np.random.default_rng(7)
    centres = rng.normal(size=(K, D))
    centres *= 4 / pdist(centres).min()
    names = [f"x{j}" for j in range(D)]
    schema = pa.schema([*((name, pa.float32()) for name in names), ("label", pa.int32())])
    with pq.ParquetWriter(path, schema) as writer:
        for at in range(0, n, 1 << 18):
            size = min(1 << 18, n - at)
            labels = rng.integers(K, size=size).astype(np.int32)
            points = (centres[labels] + rng.normal(size=(size, D))).astype(np.float32)
            columns = [*(pa.array(column) for column in points.T), pa.array(labels)]
            writer.write_table(pa.table(columns, schema=schema))


CHILD = """
import json, sys, time
import numpy as np
from _memory import resident
from sfumato.data import read_batches
from sfumato.mine.cluster import BFR, KMeans
path, k, d, way = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
names = [f"x{j}" for j in range(d)]
begin, cpu = time.perf_counter(), time.process_time()
if way == "bfr":
    model = BFR(k).fit(path, columns=names)
else:
    rng, parts = np.random.default_rng(0), []
    for batch in read_batches(path, names):
        rows = np.column_stack([column.to_numpy() for column in batch.columns])
        parts.append(rows[rng.random(len(rows)) < 0.01])
    model = KMeans(k, random_state=0).fit(np.concatenate(parts))
spent = {"seconds": time.perf_counter() - begin, "cpu_s": time.process_time() - cpu}
table = np.zeros((k, k), np.int64)
for batch in read_batches(path, [*names, "label"]):
    rows = np.column_stack([batch.column(name).to_numpy() for name in names])
    labels = np.asarray(batch.column("label"))
    np.add.at(table, (model.predict(rows), labels), 1)
purity = float(table.max(axis=1).sum() / table.sum())
print(json.dumps({**spent, "rows": int(table.sum()), "purity": purity, "peak_mib": resident()}))
"""


def bfr():
    """Time, memory of the process and purity, beside k-means on a sample."""
    n = 1_000_000 if SMALL else 10_000_000
    found = {"rows": n, "columns": D, "clusters": K, "target_mib": 600, "target_purity": 0.95}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        # In a process of its own too, so that this one stays small.
        make = f"import cluster; cluster.write_rows({str(path)!r}, {n})"
        here = {"cwd": Path(__file__).parent, "check": True}
        subprocess.run([sys.executable, "-c", make], **here)
        for way in ("bfr", "sample"):
            command = [sys.executable, "-c", CHILD, str(path), str(K), str(D), way]
            done = subprocess.run(command, capture_output=True, text=True, **here)
            found[way] = json.loads(done.stdout)
            print(way, found[way], flush=True)
    return found


# rows, columns, clusters
PRIVATE = [(10_000, 2, 5), (100_000, 2, 15), (100_000, 5, 10), (100_000, 16, 20), (10**6, 16, 20)]
EPSILONS = [0.5, 1.0, 4.0]
DRAWS = 5


def private():
    """Mean squared distance to the nearest centre: medians over releases."""
    import _diffprivlib_clusters as peer

    from sfumato.mine.cluster import KMeans, PrivateBFR, PrivateKMeans

    rows = []
    for n, d, k in PRIVATE[: 4 if SMALL else None]:
        n = n // 10 if SMALL else n
        rng = np.random.default_rng(1)
        points = rng.uniform(-3, 3, size=(k, d))[rng.integers(k, size=n)]
        points += rng.normal(size=(n, d)) * 0.4
        bounds = [-5.0] * d, [5.0] * d

        def loss(centres, points=points):
            return inertia(points, centres) / len(points)

        exact = loss(KMeans(k, random_state=0).fit(points).cluster_centers_)
        about = {"rows": n, "columns": d, "clusters": k, "exact": exact}
        about["one_centre"] = loss(np.zeros((1, d)))
        ways = {
            "kmeans": lambda eps, seed: PrivateKMeans(k, eps, bounds=bounds, seed=seed),  # noqa: B023
            "gaussian": lambda eps, seed: PrivateKMeans(k, eps, 1e-6, bounds=bounds, seed=seed),  # noqa: B023
            "bfr": lambda eps, seed: PrivateBFR(k, eps, bounds=bounds, seed=seed),  # noqa: B023
            "no_partition": lambda eps, seed: PrivateKMeans(
                k,  # noqa: B023
                eps,
                bounds=bounds,  # noqa: B023
                seed=seed,
                cells=0,
                rounds=5,
            ),
        }
        theirs = peer.losses(points, k, bounds, EPSILONS, DRAWS) if n <= 100_000 else {}
        for at, epsilon in enumerate(EPSILONS):
            row = {**about, "epsilon": epsilon}
            for name, make in ways.items():
                found = [
                    loss(make(epsilon, seed).fit(points).release_.cluster_centers)
                    for seed in range(DRAWS)
                ]
                row[name] = statistics.median(found)
            if "losses" in theirs:
                row["diffprivlib"] = statistics.median(theirs["losses"][at])
            elif theirs:
                row["diffprivlib"] = theirs
            rows.append(row)
            print(row, flush=True)
    return rows


def shapes():
    """Rings, moons and other shapes; skipped where their module is not there."""
    if importlib.util.find_spec("_cluster_shapes") is None:
        return {"missing": "_cluster_shapes.py"}
    import _cluster_shapes

    return _cluster_shapes.run()


if __name__ == "__main__":
    parts = {"kmeans": kmeans, "bfr": bfr, "private": private, "shapes": shapes}
    wanted = [word for word in sys.argv[1:] if word != "--small"]
    with threadpool_limits(1):
        write_parts("cluster", parts, wanted)
