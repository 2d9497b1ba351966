"""Itemsets out of core: SON and PCY on baskets in Parquet, within a limit of resident memory.

Each run is a process of its own, which reports its seconds, its peak resident memory (interpreter
and libraries included) and a digest of its itemsets and counts; all digests must be equal. Also
the speed of a PCY pass, what hashing eliminates, and the course's comparison of methods, measured.
"""

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _measure import summary, write

BASKETS, ITEMS, LENGTH, GROUP = 10_000_000, 10_000, 8, 250_000
LIMIT, SUPPORT = 512 << 20, 0.001
METHODS = ("pcy", "son")
RUN = """
import json, sys, time
from _itemsets_out_of_core import digest, resident
from sfumato.mine.itemsets import frequent_itemsets, read_baskets
path, method, support, limit = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
limit = limit or None
frequent_itemsets([[1, 2, 3]] * 40, 20, method=method, memory_limit=limit)  # loads the kernels
imported, start, used = resident("VmHWM"), time.perf_counter(), time.process_time()
baskets = read_baskets(path)
found = frequent_itemsets(baskets, support, method=method, memory_limit=limit, explain=True)
seconds, used = time.perf_counter() - start, time.process_time() - used
print(json.dumps({
    "method": method, "seconds": seconds, "cpu_seconds": used, "peak_mib": resident("VmHWM"),
    "imports_mib": imported, "passes": baskets.passes, "itemsets": len(found),
    "by_size": [counts.size for _, counts in found.levels], "digest": digest(found),
    "explain": found.explain,
}))
"""


def resident(field):
    """Resident MiB of this process, from the operating system; VmHWM is the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def digest(found):
    """A digest of all itemsets and counts, whatever their order."""
    rows = sorted((*sorted(items), count) for items, count in found.to_list())
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


class World:
    """Baskets of different items, which follow a Zipf law, with planted itemsets in some.

    Parameters
    ----------
    items, length : int
        Number of items, and of items per basket.
    planted : int
        Number of planted itemsets, of 2 to 5 items; the k-th has frequency proportional to 1 / k.
    share : float
        Fraction of baskets with a planted itemset.
    """

    def __init__(self, items=ITEMS, length=LENGTH, planted=300, share=0.4, seed=0):
        self._rng = np.random.default_rng(seed)
        self._length, self._share = length, share
        self._zipf = np.cumsum(1 / np.arange(1, items + 1) ** 0.9)
        self._which = np.cumsum(1 / np.arange(1, planted + 1))
        self._sets = [
            self._rng.choice(items, 2 + k % 4, replace=False).astype(np.int32)
            for k in range(planted)
        ]

    def draw(self, size):
        """A matrix of baskets, one per row."""
        rows = self._items(size * self._length).reshape(size, self._length)
        chosen = self._pick(self._which, np.flatnonzero(self._rng.random(size) < self._share).size)
        for k, planted in enumerate(self._sets):
            at = np.flatnonzero(chosen == k)
            rows[at, : planted.size] = planted
        self._rng.shuffle(rows)  # which also spreads the planted ones
        return self._without_repeats(rows)

    def _pick(self, cumulated, size):
        at = np.searchsorted(cumulated, self._rng.random(size) * cumulated[-1])
        return np.minimum(at, cumulated.size - 1).astype(np.int32)

    def _items(self, size):
        return self._pick(self._zipf, size)

    def _without_repeats(self, rows):
        while True:
            rows.sort(axis=1)
            again = np.zeros(rows.shape, bool)
            again[:, 1:] = rows[:, 1:] == rows[:, :-1]
            if not again.any():
                return rows
            rows[again] = self._items(int(again.sum()))


def make_file(path, baskets=BASKETS):
    world, schema = World(), pa.schema([("items", pa.list_(pa.int32()))])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, baskets, GROUP):
            rows = world.draw(min(GROUP, baskets - start))
            offsets = np.arange(0, rows.size + 1, rows.shape[1], dtype=np.int32)
            column = pa.ListArray.from_arrays(offsets, rows.ravel())
            writer.write_table(pa.table([column], schema), row_group_size=GROUP)


def run(path, method, limit):
    command = [sys.executable, "-c", RUN, str(path), method, str(SUPPORT), str(limit)]
    folder = Path(__file__).parent
    done = subprocess.run(command, capture_output=True, check=False, text=True, cwd=folder)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def out_of_core(baskets=BASKETS):
    """Time and peak memory of each method within the limit, and of Apriori without one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "baskets.parquet"
        make_file(path, baskets)
        runs = [run(path, method, LIMIT) for method in METHODS]
        reference = run(path, "apriori", 0)
        size = path.stat().st_size
    assert all(each["digest"] == reference["digest"] for each in runs)
    for each in runs:
        each["within_limit"] = each["peak_mib"] * 2**20 <= LIMIT
    return {
        "baskets": baskets,
        "items_per_basket": LENGTH,
        "file_bytes": size,
        "memory_limit_mib": LIMIT >> 20,
        "min_support": SUPPORT,
        "runs": runs,
        "reference": reference,
    }


def pass_rate(baskets=1_000_000):
    """Million pairs hashed per second in one core, by type of the counters of 2**20 buckets."""
    from sfumato.mine.itemsets import BasketChunk
    from sfumato.mine.itemsets.methods.pair_counters import Bitmaps
    from sfumato.mine.itemsets.methods.pcy import BucketCounts

    rows = World().draw(baskets)
    chunk = BasketChunk(np.arange(0, rows.size + 1, LENGTH), rows.ravel())
    pairs = baskets * LENGTH * (LENGTH - 1) // 2
    out = {}
    for name, min_count in (("uint8", 200), ("uint16", 10_000), ("uint32", 100_000)):
        counts = BucketCounts(1 << 20, min_count, np.random.default_rng(0), Bitmaps.none(ITEMS))
        runs = [_cpu_seconds(lambda counts=counts: counts.add(chunk)) for _ in range(10)][1:]
        out[name] = summary([pairs / seconds / 1e6 for seconds in runs])
    return {"buckets": 1 << 20, "pairs": pairs, "million_pairs_per_second": out}


def _cpu_seconds(work):
    start = time.thread_time()
    work()
    return time.thread_time() - start


def eliminated(baskets, min_count, buckets):
    """Candidate pairs left by each kind of hashing with the same memory for buckets."""
    from sfumato.mine.itemsets import frequent_itemsets

    rows = []
    for method, options in (
        ("pcy", {}),
        ("multistage", {"stages": 2}),
        ("multistage", {"stages": 3}),
        *(("multihash", {"tables": tables}) for tables in (2, 3, 4, 8)),
    ):
        found = frequent_itemsets(
            baskets, min_count, method=method, max_size=2, explain=True, buckets=buckets, **options
        )
        hashed = [each for each in found.explain if "buckets" in each]
        counted = next(each for each in found.explain if each["step"] == "count pairs")
        rows.append(
            {
                "method": method,
                **options,
                "buckets": hashed[0]["buckets"],
                "buckets_above": hashed[-1]["buckets_above"],
                "share_eliminated": hashed[-1]["eliminated"],
                "counted": counted["candidates"],
                "frequent": counted["frequent"],
            }
        )
    return rows


def compared(baskets, min_count):
    """The course's table: passes, wrong and missing itemsets, memory, candidates, measured."""
    from sfumato.mine.itemsets import frequent_itemsets

    truth = dict(frequent_itemsets(baskets, min_count, method="eclat").to_list())
    rows = []
    for method, options in (
        ("apriori", {}),
        ("pcy", {}),
        ("multistage", {}),
        ("multihash", {}),
        ("sampling", {"sample": 0.1, "lowered": 0.999, "verify": False}),
        ("sampling", {"sample": 0.1}),
        ("son", {"chunk_baskets": len(baskets) // 10}),
        ("toivonen", {"sample": 0.1}),
    ):
        start, before = time.process_time(), baskets.passes
        found = frequent_itemsets(baskets, min_count, method=method, explain=True, **options)
        seconds, sets = time.process_time() - start, {items for items, _ in found.to_list()}
        rows.append(
            {
                "method": method,
                **options,
                "passes": 1 + baskets.passes - before,
                "false_positives": len(sets - truth.keys()),
                "false_negatives": len(truth.keys() - sets),
                "expected_missed": found.missed,
                "memory": max(each["memory"] for each in found.explain),
                "candidates": _counted(found.explain[1:]),
                "cpu_seconds": seconds,
            }
        )
    return {"itemsets": len(truth), "min_count": min_count, "methods": rows}


def _counted(explain):
    """Candidates that were counted in baskets: not those of single chunks or left by hashing."""
    counting = [each for each in explain if each["step"].startswith(("count", "check"))]
    return sum(each["candidates"] for each in counting)


def sets():
    """Baskets to compare methods on: generated ones, and retail where SFUMATO_DATA has it."""
    from _ratings import folder  # which imports much: not in the processes that are measured

    from sfumato.mine.itemsets import Baskets

    rows = World(items=2_000).draw(200_000)
    out = {"generated": (Baskets((np.arange(0, rows.size + 1, LENGTH), rows.ravel())), 200)}
    retail = folder() / "fimi" / "retail.dat.gz"
    if retail.exists():
        with gzip.open(retail, "rb") as file:
            out["retail"] = Baskets([list(map(int, line.split())) for line in file]), 89
    return out


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--baskets", type=int, default=BASKETS)
    given = parser.parse_args(arguments)
    content = {"out_of_core": out_of_core(given.baskets), "pcy_pass": pass_rate()}
    for name, (baskets, min_count) in sets().items():
        content[name] = {
            "eliminated": {
                str(buckets): eliminated(baskets, min_count, buckets)
                for buckets in (1 << 20, 1 << 17, 1 << 15)
            },
            "compared": compared(baskets, min_count),
        }
    if given.baskets == BASKETS:
        write("itemsets_out_of_core", content)
    print(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
