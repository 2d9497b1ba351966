"""What a new process waits for: importing a room, its first call, and short commands.

python benchmarks/first_use.py [imports] [fresh] [warm] [commands]
    writes benchmarks/results/first_use.json, all parts unless some are named

Every figure is that of a fresh process: wall seconds (median of several processes) and CPU seconds
beside them. A first call is timed from after the import to its answer, and includes all that is
loaded on first use, such as Numba. `fresh` compiles into an empty NUMBA_CACHE_DIR; `warm` repeats
the same call in another process with the cache that it left.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import write_parts

# Python keeps the bytecode of modules, as it does by itself.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
LIMITS = {"imports": 0.35, "fresh": 2.0, "warm": 0.3, "commands": 0.5}
RUNS = {"imports": 7, "fresh": 1, "warm": 5, "commands": 7}

RATINGS = """
draw = np.random.default_rng(0).integers
data = Interactions(draw(0, 200, 4000), draw(0, 100, 4000), draw(1, 6, 4000))
"""
# For each room: what is imported, what is prepared before the clock starts, and the call.
ROOMS = {
    "sketch": (
        "from sfumato.sketch import BloomFilter, CountMin, HyperLogLog",
        "words = [f'word {i}' for i in range(1000)]",
        "HyperLogLog().update(words).estimate()\n"
        "CountMin(1024).update(words).estimate(words[:10])\n"
        "BloomFilter(1 << 14).update(words).contains(words[:10])",
    ),
    "sketch MinHash": (
        "from sfumato.sketch import MinHash",
        "words = [f'word {i}' for i in range(1000)]",
        "MinHash(128).update(words).similarity(MinHash(128).update(words[:500]))",
    ),
    "retrieve BinaryIndex": (
        "from sfumato.retrieve import BinaryIndex",
        "rows = np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32)",
        "BinaryIndex(256).fit(rows).add(np.arange(len(rows)), rows).search(rows[:1], 10)",
    ),
    "profile Blip": (
        "from sfumato.data import Interactions\nfrom sfumato.profile import Blip",
        RATINGS,
        "made = Blip(epsilon=3.0).release(data, users=range(200))\nmade.similarity(made)",
    ),
    "telemetry": (
        "from sfumato.telemetry import Counts, Rappor, ReportEncoder, decode",
        "words = [f'word {i % 20}' for i in range(2000)]",
        "scheme = Rappor(f=0.5, p=0.25, q=0.75)\n"
        "reports = ReportEncoder(scheme).encode_many(words)\n"
        "decode(Counts(scheme).update(reports), words[:20])",
    ),
    "recommend SketchFactorization": (
        "from sfumato.data import Interactions\nfrom sfumato.recommend import SketchFactorization",
        RATINGS,
        "SketchFactorization(epochs=2).fit(data).recommend([1], 10)",
    ),
    "recommend LinearItems": (
        "from sfumato.data import Interactions\nfrom sfumato.recommend import LinearItems",
        RATINGS,
        "LinearItems().fit(data).recommend([1], 10)",
    ),
    "density SketchDensity, private": (
        "from sfumato.density import SketchDensity",
        "rows = np.random.default_rng(0).uniform(size=(2000, 2))",
        "SketchDensity(bandwidth=0.2, epsilon=1.0, bounds=([0, 0], [1, 1])).fit(rows)"
        ".score_samples(rows[:10])",
    ),
    "privacy noise": (
        "from sfumato.privacy import discrete_gaussian, discrete_laplace",
        "",
        "discrete_laplace(10.0, 100)\ndiscrete_gaussian(10.0, 100)",
    ),
    "mine.itemsets": (
        "from sfumato.mine.itemsets import Baskets, frequent_itemsets",
        "baskets = [[str(i % 7), str(i % 11), str(i % 13)] for i in range(2000)]",
        "frequent_itemsets(Baskets(baskets), min_support=0.01)",
    ),
    "mine.similar": (
        "from sfumato.mine.similar import near_duplicates",
        "texts = [f'a text of several words, number {i % 90} of them all' for i in range(100)]",
        "near_duplicates(texts, threshold=0.9)",
    ),
    "mine.cluster": (
        "from sfumato.mine.cluster import KMeans",
        "rows = np.random.default_rng(0).normal(size=(2000, 4))",
        "KMeans(5, random_state=0).fit(rows).predict(rows[:10])",
    ),
    "mine.rank": (
        "from sfumato.mine.rank import Graph, pagerank",
        "sources, targets = np.random.default_rng(0).integers(0, 500, (2, 5000))",
        "pagerank(Graph(sources, targets))",
    ),
}
TIMED = """
import time, json
def clocks():
    return time.perf_counter(), time.process_time()
{before}
start = clocks()
{work}
end = clocks()
print(json.dumps([end[0] - start[0], end[1] - start[1]]))
"""


def measured(part, code, environment=None, runs=None):
    """Wall and CPU seconds of the timed part of a program, in fresh processes."""
    found = []
    for _ in range(runs or RUNS[part]):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**ENVIRONMENT, **(environment or {})},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
    return summary(part, found)


def summary(part, found):
    walls, cpus = zip(*found, strict=True)
    return {
        "seconds": statistics.median(walls),
        "cpu_seconds": statistics.median(cpus),
        "limit": LIMITS[part],
        "runs": [round(each, 3) for each in walls],
    }


def show(name, row):
    above = "" if row["seconds"] <= row["limit"] else "  above"
    figures = f"{row['seconds']:8.3f} s {row['cpu_seconds']:8.3f} s of CPU"
    print(f"{name:<44}{figures}  at most {row['limit']:g}{above}", flush=True)
    return {"name": name, **row}


def imports():
    """Each room with the names of its first call, in a process that has imported nothing."""
    return [
        show(f"import {name}", measured("imports", TIMED.format(before="", work=names)))
        for name, (names, _, _) in ROOMS.items()
    ]


def _program(name):
    names, prepared, call = ROOMS[name]
    return TIMED.format(before=f"import numpy as np\n{names}\n{prepared}", work=call)


def fresh():
    """First calls that have to compile all kernels they use."""
    rows = []
    for name in ROOMS:
        with tempfile.TemporaryDirectory() as cache:
            settings = {"NUMBA_CACHE_DIR": cache}
            rows.append(show(f"first call, {name}", measured("fresh", _program(name), settings)))
    return rows


def warm():
    """First calls of a process that finds all kernels compiled."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        settings = {"NUMBA_CACHE_DIR": cache}
        for name in ROOMS:
            measured("warm", _program(name), settings, runs=1)
            row = measured("warm", _program(name), settings)
            rows.append(show(f"first call, compiled, {name}", row))
    return rows


FILES = """
import sys
from pathlib import Path
import numpy as np
from sfumato.data import Interactions
from sfumato.privacy import Ledger
from sfumato.recommend import SketchFactorization
from sfumato.sketch import BloomFilter, CountMin, HyperLogLog
folder = Path(sys.argv[1])
words = [f'word {i}' for i in range(1000)]
for kind in (HyperLogLog(), CountMin(1 << 12), BloomFilter(1 << 16)):
    kind.update(words).save(folder / f"{type(kind).__name__}.sfu")
draw = np.random.default_rng(0).integers
data = Interactions(draw(0, 200, 4000), draw(0, 100, 4000), draw(1, 6, 4000))
SketchFactorization(epochs=2).fit(data).save(folder / "model.sfu")
Ledger(folder / "ledger.db").create("shop", epsilon=1.0)
"""
COMMANDS = (
    "--help",
    "sketch info CountMin.sfu",
    "sketch estimate HyperLogLog.sfu",
    "sketch estimate CountMin.sfu word",
    "sketch estimate BloomFilter.sfu word",
    "inspect CountMin.sfu",
    "inspect model.sfu",
    "recommend model.sfu 1",
    "budget show ledger.db",
)


def commands():
    """Short commands, from the start of the process to its end."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(Path(folder) / "kernels")}
        subprocess.run([sys.executable, "-c", FILES, folder], env=settings, check=True)
        return [show(f"sfumato {each}", _command(each, folder, settings)) for each in COMMANDS]


# The process of a command is timed from outside, by a parent that has nothing else to do.
OUTSIDE = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([wall, used.ru_utime + used.ru_stime]))
"""


def _command(written, folder, settings):
    line = [sys.executable, "-c", OUTSIDE, sys.executable, "-m", "sfumato", *written.split()]
    found = []
    for _ in range(1 + RUNS["commands"]):
        done = subprocess.run(line, cwd=folder, env=settings, capture_output=True, check=True)
        found.append(json.loads(done.stdout))
    return summary("commands", found[1:])  # the first compiles what it uses


if __name__ == "__main__":
    parts = {"imports": imports, "fresh": fresh, "warm": warm, "commands": commands}
    write_parts("first_use", parts, sys.argv[1:])
