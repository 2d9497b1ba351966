"""dpmm's samplers on one table of cells, run by a Python of its own: `python _dpmm.py TASK.npz`.

dpmm 0.1.9 (MST and PrivBayes) asks for packages that we do not; SFUMATO_TABLE_PEERS names the
Python of an environment that has it. This file is both sides: `synthetic_codes` is called by the
benchmarks, the rest runs there and stores the drawn cells.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PYTHON = os.environ.get("SFUMATO_TABLE_PEERS", "")
PATIENCE = float(os.environ.get("SFUMATO_PATIENCE", "300"))  # seconds for a table
DELTA = 1e-6  # of MST, which has no pure variant
STEPS = 60  # of its inference: its default, 5,000, takes more than ten minutes a table


def synthetic_codes(model, codes, sizes, epsilon, seed):
    """As many rows of cells as were given, or why there are none; sizes: cells of each column."""
    if not PYTHON:
        return {"missing": "no environment for dpmm: set SFUMATO_TABLE_PEERS"}
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "task.npz", Path(folder) / "drawn.npy"
        task = {"model": model, "codes": codes, "sizes": sizes, "epsilon": epsilon, "seed": seed}
        np.savez(path, out=str(out), **task)
        command = [PYTHON, __file__, path]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return {"missing": f"not done after {PATIENCE:g} s"}
        if done.returncode:
            return {"missing": done.stderr.strip().splitlines()[-1]}
        return np.load(out)


def main(path):
    import pandas as pd
    from dpmm.models.mst import MSTGM
    from dpmm.models.priv_bayes import PrivBayesGM

    task = dict(np.load(path))
    names = [f"x{at}" for at in range(len(task["sizes"]))]
    domain = dict(zip(names, map(int, task["sizes"]), strict=True))
    kind, delta = {"MST": (MSTGM, DELTA), "PrivBayes": (PrivBayesGM, 0.0)}[str(task["model"])]
    made = kind(
        domain=domain,
        epsilon=float(task["epsilon"]),
        delta=delta,
        n_iters=STEPS,
        n_jobs=1,
        random_state=np.random.RandomState(int(task["seed"])),
    )
    made.fit(pd.DataFrame(task["codes"], columns=names))
    drawn = made.generate(len(task["codes"]))
    np.save(str(task["out"]), drawn[names].to_numpy(np.int64))


if __name__ == "__main__":
    main(sys.argv[1])
