"""CPU microseconds of single calls: ours beside peers, taking turns in one process."""

import statistics
import time

__all__ = ["call_row", "cpu_microseconds"]

SHORTEST = 0.02  # seconds of CPU time per run, far above the clock's resolution


def cpu_microseconds(works, runs=7, items=1):
    """CPU microseconds per item of each of several functions: median, lowest and highest run.

    The functions take turns, run by run, so that a change of the machine's speed meets all of
    them. CPU time of the whole process counts: a second thread is not free. items: how many each
    call works on.
    """
    loops = {name: _loops(work) for name, work in works.items()}
    found = {name: [] for name in works}
    for _ in range(runs):
        for name, work in works.items():
            found[name].append(_run(work, loops[name]) / (loops[name] * items) * 1e6)
    return {name: _summary(times) for name, times in found.items()}


def call_row(name, ours, limit, peers=None, runs=7, items=1):
    """One row: our call, the limit in microseconds, and calls of peers or why there are none.

    Parameters
    ----------
    name : str
        What is measured.
    ours : callable
        The call, without arguments; warm it needs no compilation.
    limit : float or None
        Largest acceptable median, in microseconds per item.
    peers : dict of str to callable, default=None
        For each peer, a function that prepares its data and returns the call to be timed. An
        ImportError in it is recorded as a missing peer.
    items : int, default=1
        Items that each call works on; times are those of one.
    """
    works, missing = {"": ours}, {}
    for peer, prepare in (peers or {}).items():
        try:
            works[peer] = prepare()
        except ImportError as error:
            missing[peer] = {"missing": str(error)}
    found = cpu_microseconds(works, runs, items)
    row = {"name": name, "unit": "us", "limit": limit, "ours": found.pop("")}
    row["peers"] = {**found, **missing}
    _show(row)
    return row


def _loops(work):
    work()
    loops = 1
    while _run(work, loops) < SHORTEST:
        loops *= 2
    return loops


def _run(work, loops):
    start = time.process_time()
    for _ in range(loops):
        work()
    return time.process_time() - start


def _summary(times):
    return {
        "median": statistics.median(times),
        "low": min(times),
        "high": max(times),
        "runs": [round(each, 3) for each in times],
    }


def _show(row):
    ours, limit = row["ours"], row["limit"]
    value = f"{ours['median']:.4g} us ({ours['low']:.4g} to {ours['high']:.4g})"
    bound = "" if limit is None else f"at most {limit:g}"
    peers = ", ".join(
        f"{name} {'missing' if 'missing' in each else format(each['median'], '.3g')}"
        for name, each in row["peers"].items()
    )
    print(f"{row['name']:<52}{value:>34}  {bound:<14}{peers}", flush=True)
