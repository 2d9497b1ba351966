"""The files that six journeys of users pass through, and how often they switch between files.

    python docs/journeys.py                        # a line for each journey
    python docs/journeys.py --files telemetry      # its files in the order of their first call
    python docs/journeys.py --calls private        # and who calls whom, how often
    python docs/journeys.py --write                # the lists of files in docs/architecture.md

It traces the package that Python imports, so `PYTHONPATH=OTHER/src` measures another checkout,
also one from before rooms were nested. A switch is a call into, or a return to, another file
than the one that ran. Each journey runs once before it is traced: compilation, imports and
caches are no part of it.
"""

import argparse
import collections
import inspect
import json
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

import sfumato

ROOT = str(Path(sfumato.__file__).parent) + "/"
PAGE = Path(__file__).with_name("architecture.md")
RECORD = PAGE.parents[1] / "benchmarks" / "results" / "journeys.json"
RUNS = 5  # of a journey before its files are listed: noise may take a rare path
LIST = re.compile(r"<!-- files: (\w+) -->\n(.*?)<!-- end -->", re.S)


class Trace:
    """Calls between files of the package while the context is open, in this thread."""

    def __init__(self):
        self.files = {}  # file: its functions, both in the order of their first call
        self.visits = []  # the file that runs, each time that it changes
        self.calls = collections.Counter()  # (calling file, called file): how often
        self._stack = [None]

    @property
    def switches(self):
        return max(len(self.visits) - 1, 0)

    def __enter__(self):
        sys.setprofile(self._event)
        return self

    def __exit__(self, *error):
        sys.setprofile(None)

    def _event(self, frame, event, _):
        if event == "call":
            self._enter(frame.f_code)
        elif event == "return" and len(self._stack) > 1:
            self._stack.pop()
            self._visit(self._stack[-1])

    def _enter(self, code):
        # Code of others, and what a dataclass writes, counts as the file that called it.
        caller = self._stack[-1]
        ours = code.co_filename.startswith(ROOT)
        file = code.co_filename.removeprefix(ROOT) if ours else caller
        self._stack.append(file)
        if ours:
            self.files.setdefault(file, {}).setdefault(code.co_qualname)
            if caller not in (None, file):
                self.calls[caller, file] += 1
            self._visit(file)

    def _visit(self, file):
        if file is not None and self.visits[-1:] != [file]:
            self.visits.append(file)


def release() -> Callable[[], object]:
    """Count events, release the counts from a budget, ask the release."""
    from sfumato.privacy import Ledger
    from sfumato.sketch import CountMin

    events = np.random.default_rng(0).zipf(1.2, 20_000) % 5_000

    def run():
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(folder + "/shop.ledger")
            ledger.create("orders", epsilon=2, delta=1e-6, unit="event")
            counts = CountMin(512, 4).update(events)
            counts.release(1, ledger=ledger, dataset="orders").estimate([1, 2, 3])

    return run


def recommend() -> Callable[[], object]:
    """Fit factors held in a sketch, recommend items that users do not have."""
    from sfumato.data import generate_world
    from sfumato.recommend import SketchFactorization

    train, _ = generate_world(users=100, items=60, ratings=3_000).interactions.split(0.9, 0.1)
    return lambda: (
        SketchFactorization(space_gain=2.0).fit(train).recommend([1, 2, 3], n=10, exclude=train)
    )


def private() -> Callable[[], object]:
    """Fit factors with proved privacy of users."""
    from sfumato.data import generate_world
    from sfumato.recommend import PrivateFactorization

    ratings = generate_world(users=100, items=60, ratings=3_000).interactions
    return lambda: PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5)).fit(
        ratings, users=range(100), catalogue=range(60)
    )


def attack() -> Callable[[], object]:
    """Release profiles as noisy Bloom filters, rebuild them from the release."""
    from sfumato.attack import joint_decoder
    from sfumato.data import generate_world
    from sfumato.profile import Blip

    profiles = generate_world(users=40, items=60, ratings=900).interactions
    public = "users" in inspect.signature(Blip.release).parameters
    users = {"users": range(40)} if public else {}
    return lambda: joint_decoder(Blip(epsilon=8).release(profiles, **users), range(60))


def telemetry() -> Callable[[], object]:
    """Choose parameters, encode values on clients, count the reports, decode the counts."""
    from sfumato import telemetry as room
    from sfumato.telemetry import Counts, decode

    scheme = room.Rappor if "Rappor" in room.__all__ else room.Params
    encoder = room.ReportEncoder if "ReportEncoder" in room.__all__ else room.Encoder
    values = ["tea"] * 6_000 + ["milk"] * 3_000

    def run():
        params = scheme.for_epsilon(4, bits=64, cohorts=16, metric="drink")
        reports = encoder(params).encode_many(values)
        decode(Counts(params).update(reports), ["tea", "milk", "rum"])

    return run


def classify() -> Callable[[], object]:
    """Fit a private classifier of rows, name the classes of further rows."""
    from sfumato.density import SketchClassifier

    rows = np.random.default_rng(0).uniform(0, 100, (2_000, 4))
    classes = (rows[:, 0] > 50).astype(int)

    def run():
        model = SketchClassifier(epsilon=1.0, bounds=(0, 100), classes=[0, 1])
        model.fit(rows, classes).predict(rows[:10])

    return run


JOURNEYS = {
    each.__name__: each for each in (release, recommend, private, attack, telemetry, classify)
}


def traced(name: str, runs: int = 1) -> Trace:
    """The trace of so many runs of one journey, after a first one."""
    run = JOURNEYS[name]()
    run()
    with Trace() as trace:
        for _ in range(runs):
            run()
    return trace


def listed(page: str) -> dict[str, list[str]]:
    """The files of each journey as the page has them."""
    return {name: re.findall(r"`([^`]+)`", files) for name, files in LIST.findall(page)}


def page() -> str:
    """The page with the files that run now."""

    def files(found: re.Match[str]) -> str:
        names = [f"`{file}`" for file in traced(found[1], RUNS).files]
        return f"<!-- files: {found[1]} -->\n{', '.join(names)}\n<!-- end -->"

    return LIST.sub(files, PAGE.read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("journeys", nargs="*", help=", ".join(JOURNEYS))
    parser.add_argument("--files", action="store_true", help="list files and their functions")
    parser.add_argument("--calls", action="store_true", help="list calls between files")
    parser.add_argument("--write", action="store_true", help="write the lists of files")
    parser.add_argument("--record", metavar="LABEL", help=f"keep the counts in {RECORD.name}")
    target = parser.parse_args()
    warnings.simplefilter("ignore")
    if target.write:
        PAGE.write_text(page())
        return
    counts = {}
    for name in target.journeys or JOURNEYS:
        trace = traced(name)
        counts[name] = {"files": len(trace.files), "switches": trace.switches}
        print(f"{name:10} {len(trace.files):3} files {trace.switches:5} switches")
        if target.files:
            for file, functions in trace.files.items():
                print(f"    {file}: {', '.join(functions)}")
        if target.calls:
            for (caller, called), times in trace.calls.most_common():
                print(f"    {times:4}  {caller} -> {called}")
    if target.record:
        recorded = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        RECORD.write_text(json.dumps(recorded | {target.record: counts}, indent=1) + "\n")


if __name__ == "__main__":
    main()
