"""diffprivlib's KMeans on one table, run by a Python of its own (see _diffprivlib.py).

This file is both sides: `losses` is called by the benchmarks, the rest runs there, prints JSON.
"""

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from _diffprivlib import PYTHON


def losses(points, k, bounds, epsilons, draws):
    """One list of mean squared distances for each epsilon, or why there is none."""
    if not PYTHON.exists():
        return {"missing": "no environment for diffprivlib: make .venv-peers/ready"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.npz"
        given = {"X": points, "k": k, "low": bounds[0], "high": bounds[1]}
        np.savez(path, **given, epsilons=epsilons, draws=draws)
        done = subprocess.run([PYTHON, __file__, path], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    return {"losses": json.loads(done.stdout)}


def main(path):
    warnings.filterwarnings("ignore")
    from diffprivlib.models import KMeans

    task = dict(np.load(path))
    points, bounds = task["X"], (task["low"], task["high"])

    def loss(epsilon, seed):
        model = KMeans(int(task["k"]), epsilon=epsilon, bounds=bounds, random_state=seed)
        centres = model.fit(points).cluster_centers_
        nearest = np.full(len(points), np.inf)
        for centre in centres:
            nearest = np.minimum(nearest, np.square(points - centre).sum(axis=1))
        return float(nearest.mean())

    draws = range(int(task["draws"]))
    print(json.dumps([[loss(float(e), seed) for seed in draws] for e in task["epsilons"]]))


if __name__ == "__main__":
    main(sys.argv[1])
