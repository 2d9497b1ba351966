"""Timing, the machine's ceilings, and the table and JSON that every benchmark writes."""

import json
import platform
import statistics
import sys
import time
from pathlib import Path

import numba
import numpy as np

RESULTS = Path(__file__).parent / "results"


def rate(work, items, runs=7):
    """Million items a second: median, lowest and highest of several warm runs."""
    work()
    rates = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        rates.append(items / (time.perf_counter() - start) / 1e6)
    return summary(rates)


def summary(rates):
    return {
        "median": statistics.median(rates),
        "low": min(rates),
        "high": max(rates),
        "runs": [round(each, 2) for each in rates],
    }


def together(rounds):
    """One table from several rounds of the same figures: all their runs, and the median ceiling."""
    merged = []
    for rows in zip(*rounds, strict=True):
        first = rows[0]
        peers = {
            name: figure
            if "missing" in figure
            else summary([run for row in rows for run in row["peers"][name]["runs"]])
            for name, figure in first["peers"].items()
        }
        ours = summary([run for row in rows for run in row["ours"]["runs"]])
        ceiling = statistics.median(row["ceiling"] for row in rows)
        merged.append({**first, "ours": ours, "ceiling": ceiling, "peers": peers})
    return merged


def peer(make, items, runs=3):
    """The rate of a peer, or why there is none."""
    try:
        return rate(make(), items, runs)
    except ImportError as error:
        return {"missing": str(error)}


@numba.njit(nogil=True)
def _increment(cells, slots):
    for i in range(slots.size):
        cells[slots[i]] += 1


@numba.njit(nogil=True)
def _gather(cells, slots):
    total = 0
    for i in range(slots.size):
        total += cells[slots[i]]
    return total


@numba.njit(nogil=True)
def _sum(values):
    total = 0
    for i in range(values.size):
        total ^= values[i]
    return total


class Ceilings:
    """What this machine does at best: random increments and reads of a table, and plain reading.

    Measured anew for every figure, right before it: the memory of a shared machine is not always
    equally fast.
    """

    def _measure(self, table, touch):
        slots = np.random.default_rng(0).integers(0, table.size, 1 << 22, dtype=np.uint32)
        return rate(lambda: touch(table, slots), slots.size)["median"]

    def increments(self, cells, dtype):
        """M/s of random `cells[slot] += 1`, positions given."""
        return self._measure(np.zeros(cells, dtype), _increment)

    def reads(self, cells, dtype):
        """M/s of random reads, positions given."""
        return self._measure(np.zeros(cells, dtype), _gather)

    def stream(self, bytes_per_item=8):
        """M items/s at the speed of reading memory once."""
        values = np.arange(1 << 25)
        return rate(lambda: _sum(values), values.nbytes)["median"] / bytes_per_item


def machine():
    """What the figures were measured on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return {
        "cpu": model,
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
    }


def show(row):
    """One line for people, as soon as it is known."""
    ours = row["ours"]
    value = f"{ours['median']:9.1f} ({ours['low']:.0f}-{ours['high']:.0f})"
    target = f"target {row['target']}" if row.get("target") is not None else ""
    ceiling = f"ceiling {row['ceiling']:.0f}" if row.get("ceiling") else ""
    peers = ", ".join(
        f"{name} {'missing' if 'missing' in figure else format(figure['median'], '.3g')}"
        for name, figure in row.get("peers", {}).items()
    )
    print(f"{row['name']:<44}{value:>24}  {target:<12}{ceiling:<14}{peers}", flush=True)
    return row


def write(name, content):
    """The results as JSON beside the scripts."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), **content}, indent=1) + "\n")
    print(f"wrote {path}", file=sys.stderr)


def write_parts(name, parts, wanted):
    """Run the wanted parts, or all; write each as soon as it is done beside those done before.

    The machine is that of the first of them; "machines" names that of a part of another one.
    """
    for part in wanted or parts:
        if part not in parts:
            sys.exit(f"there is no part {part!r}; there are {', '.join(parts)}.")
        found, path = parts[part](), RESULTS / f"{name}.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        retained = {each: before[each] for each in parts if each in before}
        if set(retained) - {part}:
            retained["machine"] = before["machine"]
            others = {**before.get("machines", {}), part: machine()}
            others = {each: of for each, of in others.items() if of != before["machine"]}
            retained |= {"machines": others} if others else {}
        write(name, {**retained, part: found})
