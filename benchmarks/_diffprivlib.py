"""diffprivlib's models on one table, run by a Python of its own: `python _diffprivlib.py TASK.npz`.

diffprivlib 0.6.6 does not work with the scikit-learn that we use (LogisticRegression asks for an
option that is gone), so `make bench` gives it an environment of its own, .venv-peers. This file is
both sides: `scores` and `principal_components` are called by the benchmarks, the rest runs there
and prints JSON.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

PYTHON = Path(
    os.environ.get(
        "SFUMATO_PEERS", Path(__file__).resolve().parents[1] / ".venv-peers" / "bin" / "python"
    )
)
PATIENCE = float(os.environ.get("SFUMATO_PATIENCE", "300"))  # seconds for all draws of a set


def scores(model, train, test, epsilons, draws, **options):
    """One list of scores for each epsilon, or why there is none.

    Parameters: model, "logistic", "naive Bayes" or "linear"; train and test, (points, target);
    options, its public bounds: norm, low, high, target_low, target_high.
    """
    given = dict(zip(("X", "y", "X_test", "y_test"), (*train, *test), strict=True))
    given |= {"model": model, "epsilons": epsilons, "draws": draws}
    return _run("scores", {**given, **options})


def principal_components(rows, n, low, high, epsilons, draws):
    """Components of each draw for each epsilon, or why there are none; bounds are public."""
    given = {"model": "PCA", "X": rows, "n": n, "low": low, "high": high}
    # Its sampler rejects nearly everything where variances differ much and epsilon is large.
    return _run("components", {**given, "epsilons": epsilons, "draws": draws}, PATIENCE)


def _run(name, task, patience=None):
    """What the other Python prints for a task, under a name; waits for `patience` seconds."""
    if not PYTHON.exists():
        return {"missing": "no environment for diffprivlib: make .venv-peers/ready"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.npz"
        np.savez(path, **task)
        command = [PYTHON, __file__, path]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=patience
            )
        except subprocess.TimeoutExpired:
            return {"missing": f"not done after {patience:g} s"}
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    return {name: json.loads(done.stdout)}


def made(task, epsilon, seed):
    from diffprivlib.models import GaussianNB, LinearRegression, LogisticRegression

    if task["model"] == "logistic":
        norm = float(task["norm"])
        return LogisticRegression(epsilon=epsilon, data_norm=norm, max_iter=1000, random_state=seed)
    bounds = task["low"], task["high"]
    if task["model"] == "naive Bayes":
        return GaussianNB(epsilon=epsilon, bounds=bounds, random_state=seed)
    return LinearRegression(
        epsilon=epsilon,
        bounds_X=bounds,
        bounds_y=(float(task["target_low"]), float(task["target_high"])),
        random_state=seed,
    )


def _components(task):
    """The components of each draw, as lists; the norm is that of the box around its centre."""
    from diffprivlib.models import PCA

    rows, n = task["X"], int(task["n"])
    low, high = (np.full(rows.shape[1], float(task[end])) for end in ("low", "high"))
    norm = float(np.linalg.norm(high - low) / 2)

    def fitted(epsilon, seed):
        options = {"bounds": (low, high), "data_norm": norm, "random_state": seed}
        return PCA(n, epsilon=epsilon, **options).fit(rows).components_.tolist()

    draws = range(int(task["draws"]))
    return [[fitted(float(epsilon), seed) for seed in draws] for epsilon in task["epsilons"]]


def main(path):
    warnings.filterwarnings("ignore")
    task = dict(np.load(path))
    if task["model"] == "PCA":
        print(json.dumps(_components(task)))
        return
    result = [
        [
            made(task, float(epsilon), seed)
            .fit(task["X"], task["y"])
            .score(task["X_test"], task["y_test"])
            for seed in range(int(task["draws"]))
        ]
        for epsilon in task["epsilons"]
    ]
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1])
