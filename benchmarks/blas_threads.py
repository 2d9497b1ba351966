"""Wall and CPU seconds of every room, with all threads of the linear algebra and with one.

python benchmarks/blas_threads.py [WORD ...]
    writes benchmarks/results/blas_threads.json; words choose the rows whose names contain one

Each work runs in a process of its own, once warm, with OPENBLAS_NUM_THREADS unset and set to 1.
Where both take as long, our calls limit the threads by themselves, or threads do no harm.
"""

import json
import os
import subprocess
import sys
import time

import numpy as np
from _measure import write

CLIENTS = 100_000
THREADS = ("all", "one")


def _telemetry(candidates, method="weighted"):
    from sfumato.telemetry import Rappor, ReportEncoder, decode

    scheme = Rappor(bits=64, hashes=2, cohorts=64, f=0.5, p=0.25, q=0.75, metric="word")
    words = [f"w{number}" for number in range(candidates)]
    drawn = np.random.default_rng(0).zipf(1.5, CLIENTS) % candidates
    reports = ReportEncoder(scheme, seed=1).encode_many([words[number] for number in drawn])
    return lambda: decode(reports, words, method=method)


def _points(columns=8, rows=20_000):
    random = np.random.default_rng(0)
    points = random.standard_normal((rows, columns))
    return points, points @ random.standard_normal(columns) + random.standard_normal(rows)


def _density():
    from sfumato.density import SketchDensity

    points, _ = _points()
    return lambda: SketchDensity(random_state=0).fit(points).score_samples(points[:2000])


def _classify():
    from sfumato.density import SketchClassifier

    points, target = _points(40)
    return lambda: SketchClassifier().fit(points, target > 0).predict(points)


def _regress():
    from sfumato.density import SketchRegressor

    points, target = _points(20)
    return lambda: SketchRegressor(random_state=0).fit(points, target).predict(points)


def _events(users, items, each=20):
    from sfumato.data import Interactions

    random = np.random.default_rng(0)
    chosen = random.zipf(1.3, users * each) % items
    return Interactions(np.repeat(np.arange(users), each), chosen, np.ones(users * each))


def _linear_items(items):
    from sfumato.recommend import LinearItems

    events = _events(4_000, items)
    return lambda: LinearItems().fit(events)


def _als():
    from sfumato.recommend import ALS

    events = _events(4_000, 1_000)
    return lambda: ALS(epochs=3, random_state=0).fit(events)


def _svd():
    from sfumato.mine.decompose import svd

    matrix = np.random.default_rng(0).standard_normal((2_000, 300))
    return lambda: svd(matrix, 20)


def _cur():
    from sfumato.mine.decompose import cur

    matrix = np.random.default_rng(0).standard_normal((1_000, 300))
    return lambda: cur(matrix, 60, 60)


def _pca():
    from sfumato.mine.decompose import PCA

    points, _ = _points(30)
    return lambda: PCA(10).fit(points)


def _learned():
    from sfumato.retrieve import BinaryIndex

    points, _ = _points(64, 5_000)
    return lambda: BinaryIndex(128, "learned").fit(points)


def _decoder():
    from sfumato.attack import joint_decoder
    from sfumato.profile import Blip

    private = Blip(bits=256, hashes=2, epsilon=3, seed=0)
    released = private.release(_events(200, 100), users=np.arange(200))
    return lambda: joint_decoder(released, np.arange(100))


def _cluster():
    from sfumato.mine.cluster import KMeans

    points, _ = _points(16, 50_000)
    return lambda: KMeans(20, n_init=1, random_state=0).fit(points)


WORKS = {
    "telemetry: decode 43 candidates": lambda: _telemetry(43),
    "telemetry: decode 600 candidates": lambda: _telemetry(600),
    "telemetry: likelihood of 43 candidates": lambda: _telemetry(43, "likelihood"),
    "density: fit and score": _density,
    "density: classify": _classify,
    "density: regress": _regress,
    "recommend: LinearItems, 300 items": lambda: _linear_items(300),
    "recommend: LinearItems, 3,000 items": lambda: _linear_items(3_000),
    "recommend: ALS": _als,
    "decompose: svd": _svd,
    "decompose: cur": _cur,
    "decompose: PCA": _pca,
    "retrieve: learned encoder": _learned,
    "attack: joint decoder": _decoder,
    "cluster: k-means": _cluster,
}


def measured(name, runs=3):
    """Median wall and CPU seconds of the work in this process, after a first run."""
    work = WORKS[name]()
    work()
    found = []
    for _ in range(runs):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    wall, cpu = np.median(found, axis=0)
    return {"wall": float(wall), "cpu": float(cpu)}


def row(name):
    """Both variants of one work."""
    found = {"name": name}
    for threads in THREADS:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            environment.pop(variable, None)
            if threads == "one":
                environment[variable] = "1"
        command = [sys.executable, __file__, "--work", name]
        done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
        found[threads] = json.loads(done.stdout.splitlines()[-1])
    shown = [f"{kind} {found[kind]['wall']:7.3f} {found[kind]['cpu']:7.3f} s" for kind in THREADS]
    print(f"{name:<42}{'   '.join(shown)}", flush=True)
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        print(json.dumps(measured(sys.argv[2])))
    else:
        words = sys.argv[1:]
        chosen = [name for name in WORKS if not words or any(word in name for word in words)]
        write("blas_threads", {"rows": [row(name) for name in chosen]})
