"""diffprivlib's models on one table, run by a Python of its own: `python _diffprivlib.py TASK.npz`.

diffprivlib 0.6.6 does not work with the scikit-learn that we use (LogisticRegression asks for an
option that is gone), so `make bench` gives it an environment of its own, .venv-peers. This file is
both sides: `scores` is called by the benchmarks, the rest runs there and prints JSON.
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


def scores(model, train, test, epsilons, draws, **options):
    """One list of scores for each epsilon, or why there is none.

    Parameters: model, "logistic", "naive Bayes" or "linear"; train and test, (points, target);
    options, its public bounds: norm, low, high, target_low, target_high.
    """
    if not PYTHON.exists():
        return {"missing": "no environment for diffprivlib: make .venv-peers/ready"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.npz"
        given = dict(zip(("X", "y", "X_test", "y_test"), (*train, *test), strict=True))
        given |= {"model": model, "epsilons": epsilons, "draws": draws}
        np.savez(path, **given, **options)
        done = subprocess.run([PYTHON, __file__, path], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"missing": done.stderr.strip().splitlines()[-1]}
    return {"scores": json.loads(done.stdout)}


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


def main(path):
    warnings.filterwarnings("ignore")
    task = dict(np.load(path))
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
