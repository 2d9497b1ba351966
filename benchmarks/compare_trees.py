"""Two versions of the source, measured in turn on one machine: `compare_trees.py OLD/src NEW/src`.

Each round runs one process a tree, in alternating order, in which every task is warmed and then
timed five times, of which the best counts. The ratio new / old of a task is the median over rounds,
with the range of the rounds beside it. Import and first calls are timed in processes of their own.
Writes results/compare_trees.json and prints a table.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

OUT = Path(__file__).parent / "results" / "compare_trees.json"
TASKS = r"""
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from sfumato.data import generate_world
from sfumato.recommend import DenseFactorization, SketchFactorization
from sfumato.retrieve import BinaryIndex
from sfumato.sketch import AMS, BloomFilter, CountMin, CountSketch, HyperLogLog, MinHash, Race
from sfumato.sketch.lsh import Angular

rng = np.random.default_rng(0)
keys = rng.zipf(1.2, 2_000_000) % 1_000_000
texts = [f"key {k}" for k in keys[:300_000].tolist()]
points = rng.normal(size=(20_000, 16))
world = generate_world(users=2000, items=800, ratings=100_000).interactions
vectors = rng.normal(size=(200_000, 128)).astype(np.float32)
vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
index = BinaryIndex(bits=256)
index.add(np.arange(len(vectors)), vectors)
sketch = CountMin(4096, 4).update(keys)
one = [7]

def fit(kind, **options):
    return lambda: kind(factors=16, epochs=3, **options).fit(world)

tasks = {
    "CountMin.update integers": lambda: CountMin(4096, 4).update(keys),
    "CountMin.update texts": lambda: CountMin(4096, 4).update(texts),
    "CountSketch.update": lambda: CountSketch(4096, 4).update(keys),
    "AMS.update": lambda: AMS(64, 8).update(keys[:200_000]),
    "BloomFilter.update": lambda: BloomFilter(1_000_000).update(keys),
    "HyperLogLog.update": lambda: HyperLogLog().update(keys),
    "MinHash.update": lambda: MinHash(128).update(keys[:200_000]),
    "Race.update": lambda: Race(256, 1024, Angular(bits=4, dimension=16)).update(points),
    "CountMin.estimate one key": lambda: [sketch.estimate(one) for _ in range(2000)],
    "CountMin.release": lambda: sketch.release(1.0),
    "DenseFactorization.fit": fit(DenseFactorization),
    "SketchFactorization.fit": fit(SketchFactorization, space_gain=2.0),
    "BinaryIndex.search": lambda: index.search(vectors[:200], 10),
}
def timed(task):
    begin = time.perf_counter()
    task()
    return time.perf_counter() - begin

found = {}
for name, task in tasks.items():
    try:
        task()
        found[name] = min(timed(task) for _ in range(5))
    except Exception as error:
        print(f"{name}: {error!r}", file=sys.stderr)
print(json.dumps(found))
"""
STARTS = {
    "import sfumato": "import sfumato",
    "import sfumato.sketch": "import sfumato.sketch",
    "import sfumato.density": "import sfumato.density",
    "first CountMin call": "from sfumato.sketch import CountMin; CountMin(64).update([1, 2, 3])",
    "sfumato --help": "import sys; sys.argv = ['sfumato', '--help']; from sfumato.cli import main\n"
    "try: main()\nexcept SystemExit: pass",
}


def run(tree: Path, code: str) -> tuple[float, str]:
    """Seconds of a process with this tree, as it tells them itself, and what it printed."""
    timed = f"import time; _begin = time.perf_counter()\n{code}\n_end = time.perf_counter()\n"
    timed += "import sys; print(_end - _begin, file=sys.stderr)"
    environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", timed]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    return float(done.stderr.split()[-1]), done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parsed = parser.parse_args()
    trees = {"old": parsed.old.resolve(), "new": parsed.new.resolve()}
    for tree in trees.values():  # compiles what is not compiled yet
        run(tree, TASKS)
        for code in STARTS.values():
            run(tree, code)
    seconds: dict[str, dict[str, list[float]]] = {}
    for turn in range(parsed.rounds):
        for side in ("old", "new") if turn % 2 else ("new", "old"):
            measured = json.loads(run(trees[side], TASKS)[1].splitlines()[-1])
            measured |= {name: run(trees[side], code)[0] for name, code in STARTS.items()}
            for name, value in measured.items():
                seconds.setdefault(name, {"old": [], "new": []})[side].append(value)
    rows = []
    for name, sides in seconds.items():
        if not sides["old"] or not sides["new"]:
            continue
        ratios = [new / old for new, old in zip(sides["new"], sides["old"], strict=True)]
        rows.append(
            {
                "task": name,
                "old_seconds": statistics.median(sides["old"]),
                "new_seconds": statistics.median(sides["new"]),
                "ratio": statistics.median(ratios),
                "ratio_range": [min(ratios), max(ratios)],
                "best_ratio": min(sides["new"]) / min(sides["old"]),
            }
        )
    OUT.write_text(json.dumps({"rounds": parsed.rounds, "rows": rows}, indent=1) + "\n")
    for row in rows:
        low, high = row["ratio_range"]
        print(
            f"{row['task']:28} {row['old_seconds']:9.4f} {row['new_seconds']:9.4f} s  "
            f"new / old {row['ratio']:.3f} ({low:.3f} to {high:.3f}), of the best "
            f"{row['best_ratio']:.3f}"
        )


if __name__ == "__main__":
    main()
