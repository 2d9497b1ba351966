"""Timing: all calls of a contest take turns in one process, and ratios are of one turn."""

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from sfumato.cli.bench.contest import Case, Contest, Work

__all__ = ["CEILING", "OURS", "measure", "spread"]

OURS, CEILING = "ours", "ceiling"
SHORTEST = 0.02  # CPU seconds of a run, far above the step of the clock
Clock = Callable[[], float]


def measure(case: Case, size: int, runs: int, clock: Clock = time.process_time) -> dict[str, Any]:
    """Measure one case.

    The calls take turns, run by run and in alternating order, so that a slow moment of the machine
    meets all of them. CPU time of the whole process counts: a second thread is not free.

    Parameters
    ----------
    case : Case
        What to measure.
    size : int
        Number of items.
    runs : int
        Runs of each call after the first, which warms it and is not timed.
    clock : callable, default=time.process_time
        Seconds since some start.

    Returns
    -------
    dict
        The figures of the case in JSON's types.
    """
    contest = case.prepare(size)
    works, missing = _prepared(contest)
    answers = {name: _warmed(work) for name, work in works.items() if name == OURS}
    for name in [each for each in works if each != OURS]:
        try:
            answers[name] = _warmed(works[name])
        except Exception as error:  # a peer of another version; ours is measured all the same
            missing[name] = _reason(error)
            del works[name]
    seconds = _turns(works, runs, clock)
    rates = {name: [works[name].items / each for each in found] for name, found in seconds.items()}
    return {
        "case": case.name,
        "question": case.question,
        "unit": case.unit,
        "items": size,
        "runs": runs,
        "answer_is": case.answer,
        "ours": {"rate": spread(rates[OURS]), "answer": answers[OURS]},
        "ceiling": _beside(rates, CEILING, name=case.ceiling) if CEILING in rates else None,
        "peers": [
            {"missing": missing[name], "name": name}
            if name in missing
            else _beside(rates, name, name=name, answer=answers[name])
            for name in contest.peers
        ],
    }


def spread(values: list[float]) -> dict[str, float]:
    """Median, lowest and highest of some figures."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def _prepared(contest: Contest) -> tuple[dict[str, Work], dict[str, str]]:
    """The works of all, ours first, and why peers are missing."""
    works, missing = {OURS: contest.ours}, {}
    for name, prepare in contest.peers.items():
        try:
            works[name] = prepare()
        except Exception as error:
            missing[name] = _reason(error)
    if contest.ceiling is not None:
        works[CEILING] = contest.ceiling
    return works, missing


def _reason(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def _warmed(work: Work) -> float | None:
    """The figure of the answer of a first run."""
    found = work.run()
    return None if work.answer is None else float(work.answer(found))


def _turns(works: Mapping[str, Work], runs: int, clock: Clock) -> dict[str, list[float]]:
    """Seconds of every run of each call."""
    loops = {name: _loops(work, clock) for name, work in works.items()}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    order = list(works)
    gc.collect()
    gc.disable()
    try:
        for _ in range(runs):
            for name in order:
                seconds[name].append(_seconds(works[name], loops[name], clock) / loops[name])
            order.reverse()
    finally:
        gc.enable()
    return seconds


def _loops(work: Work, clock: Clock) -> int:
    loops = 1
    while _seconds(work, loops, clock) < SHORTEST:
        loops *= 2
    return loops


def _seconds(work: Work, loops: int, clock: Clock) -> float:
    start = clock()
    for _ in range(loops):
        work.run()
    return clock() - start


def _beside(rates: Mapping[str, list[float]], other: str, **more: Any) -> dict[str, Any]:
    """The rates of another call, and ours over it, run by run."""
    ratios = [mine / theirs for mine, theirs in zip(rates[OURS], rates[other], strict=True)]
    return {**more, "rate": spread(rates[other]), "ratio": spread(ratios)}
