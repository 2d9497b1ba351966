"""Models of ratings beside other packages: tuned on validation rows with equal budgets.

    python benchmarks/rating_models.py [ratings | gains | users | scale | show] [--set SET]
        [--only MODEL] [--seconds N] [--again]

ratings: RMSE and MAE of test rows, unknown ids included. MovieLens-1M is split by row, 90 % to
learn from, with three seeds; MovieLens-100K has its five official folds; the others are split
80/20 with three seeds. Parameters are chosen on the first split by the RMSE of a tenth of its
training rows: the defaults and points of the model's grid, drawn at random once, six trials in all
for every model, ours or not (three on MovieLens-1M); then the defaults and the chosen ones are
fitted on all splits. gains: learned weights beside similarities, and temporal means beside static
ones, with intervals over users. users: user-based neighbours on MovieLens-1M in a process of its
own, seconds and memory. scale: 20 million generated ratings, each model in a process of its own.
show: what is there, as tables.

Everything runs on one thread. Results are kept in benchmarks/results/rating_models.json by set and
model: what is there is not run again, unless --again; --seconds starts nothing new after so many.
Sets whose files are missing are left out, and so are models of packages that are not installed.
"""

import argparse
import importlib.util
import inspect
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from _measure import RESULTS, write
from _memory import Peak, resident
from _rating_peers import CornacFactors, MyFm, Surprise
from _rating_sets import SETS
from _ratings import real, shaped_as_movielens

from sfumato import recommend
from sfumato.data import Interactions, generate_world
from sfumato.recommend.base import predictions
from sfumato.recommend.comparison import EvaluationProtocol, compare

TRIALS, FEWER = 6, {"MovieLens-1M": 3}
LARGE = 10_000  # ids of which a peer stores a matrix of all pairs
WORLD = {"users": 200_000, "items": 50_000, "ratings": 20_000_000, "random_state": 1}


@dataclass
class Model:
    """How to build a model, the points of its grid, and the package's own defaults.

    `largest` is the number of users or items up to which a model that compares all pairs is run. A
    `slow` model, of which a fit takes minutes, is tried at `slow` points; one of another package is
    fitted on MovieLens-1M to the first split alone.
    """

    make: object
    grid: dict = field(default_factory=dict)
    default: dict = field(default_factory=dict)
    package: str = "sfumato"
    largest: int = 1 << 62
    slow: int | None = None
    timed: bool = False

    @property
    def missing(self):
        return importlib.util.find_spec(self.package) is None

    def points(self, name):
        """The defaults, then points of the grid in a random order that never changes."""
        values = itertools.product(*self.grid.values())
        points = [dict(zip(self.grid, each, strict=True)) for each in values]
        order = np.random.default_rng(0).permutation(len(points))
        chosen = [self.default] + [points[at] for at in order if points[at] != self.default]
        return chosen[: self.slow or FEWER.get(name, TRIALS)] if self.grid else chosen[:1]


def ours(name, grid=None, label=None, slow=None, **fixed):
    """A model of ours by its name, if this version has it with these parameters."""
    known = getattr(recommend, name, None)
    if known is None or not set(fixed) <= set(inspect.signature(known).parameters):
        return {}
    timed = bool(getattr(known(**fixed), "uses_times", False))
    return {label or name: Model(partial(known, **fixed), grid or {}, slow=slow, timed=timed)}


def surprise(kind, grid, largest=1 << 62, slow=None, **fixed):
    make = partial(Surprise, kind=kind, **fixed)
    return Model(make, grid, package="surprise", largest=largest, slow=slow)


DESCENT = {"learning_rate": (0.01, 0.02, 0.04), "regularization": (0.02, 0.05, 0.1)}
MODELS = {
    **ours("DampedMeans", {"damping": (1.0, 2.0, 5.0, 10.0, 20.0)}),
    **ours("DenseFactorization", DESCENT | {"factors": (16, 32, 64), "epochs": (20, 40)}),
    **ours("SketchFactorization"),
    **ours("SVDpp", {"regularization": (0.03, 0.04, 0.06), "learning_rate": (0.01, 0.02)}, slow=3),
    **ours("TimeSVDpp", slow=1),
    **ours("BayesianFactorization", {"factors": (16, 32, 64), "epochs": (150, 300)}, slow=3),
    **ours("LangevinFactorization", slow=1),
    **ours("ImputedSVD"),
    **ours(
        "RatingNeighbours",
        {"neighbours": (20, 50, 100), "shrinkage": (20.0, 50.0, 100.0, 200.0)},
        "RatingNeighbours, items",
        by="items",
    ),
    **ours(
        "RatingNeighbours",
        {"neighbours": (50, 100, 200), "shrinkage": (20.0, 50.0, 100.0, 200.0)},
        "RatingNeighbours, users",
        by="users",
    ),
    **ours("InterpolationWeights"),
    **ours("TemporalMeans"),
    **ours("ClusterMeans"),
    **ours("Eigentaste"),
    **ours("BellKorBlend", slow=1),
    "surprise BaselineOnly": surprise(
        "BaselineOnly", {"reg_i": (2, 5, 10), "reg_u": (5, 10, 15), "n_epochs": (10, 20)}
    ),
    "surprise SVD": surprise(
        "SVD",
        {
            "n_factors": (50, 100, 200),
            "n_epochs": (20, 40, 60),
            "lr_all": (0.005, 0.01),
            "reg_all": (0.02, 0.05, 0.1),
        },
    ),
    "surprise SVD++": surprise(
        "SVDpp", {"n_epochs": (20, 40), "reg_all": (0.02, 0.05, 0.1)}, slow=1
    ),
    "surprise KNNBaseline, items": surprise(
        "KNNBaseline",
        {"k": (20, 40, 60, 80), "shrinkage": (50, 100, 200)},
        user_based=False,
        largest=LARGE,
    ),
    "surprise KNNBaseline, users": surprise(
        "KNNBaseline",
        {"k": (20, 40, 60, 80), "shrinkage": (50, 100, 200)},
        user_based=True,
        largest=LARGE,
    ),
    "cornac MF": Model(
        CornacFactors,
        {
            "k": (10, 32, 64),
            "max_iter": (20, 50, 100),
            "learning_rate": (0.005, 0.01, 0.02),
            "lambda_reg": (0.02, 0.05, 0.1),
        },
        package="cornac",
    ),
    "myfm": Model(MyFm, {"rank": (8, 16, 32), "iterations": (100, 300)}, package="myfm", slow=3),
    "myfm, implicit features": Model(
        partial(MyFm, implicit=True),
        {"rank": (8, 16, 32), "iterations": (100, 300)},
        package="myfm",
        slow=3,
        largest=50_000,  # of Book-Crossing's users and items it takes more than 14 GB
    ),
}
# Who claims scale: class and parameters.
SCALE = {
    "DampedMeans": ("DampedMeans", {}),
    "TemporalMeans": ("TemporalMeans", {}),
    "RatingNeighbours, items": ("RatingNeighbours", {"by": "items"}),
    "RatingNeighbours, users, by LSH": ("RatingNeighbours", {"by": "users", "search": "lsh"}),
    "InterpolationWeights": ("InterpolationWeights", {}),
    "SVDpp, one epoch": ("SVDpp", {"epochs": 1}),
    "BayesianFactorization, two epochs": ("BayesianFactorization", {"epochs": 2, "burn_in": 1}),
}


def errors(model, test):
    """RMSE and MAE, and the squared error of each row."""
    miss = predictions(model, test) - test.ratings
    return float(np.sqrt(np.mean(miss**2))), float(np.mean(np.abs(miss)))


def measured(model, train, test):
    """RMSE, MAE, seconds of the fit and of all predictions, and MiB that both took at most."""
    with Peak() as peak:
        start = time.perf_counter()
        model.fit(train)
        fit = getattr(model, "seconds", time.perf_counter() - start)
        start = time.perf_counter()
        rmse, mae = errors(model, test)
        seconds = time.perf_counter() - start
    found = {"rmse": rmse, "mae": mae, "fit": fit, "predict": seconds}
    return {key: round(value, 5) for key, value in found.items()} | {"mib": peak.mib}


class Results:
    """The JSON by set and model, saved after every fit, so that a run may stop."""

    def __init__(self, seconds, again):
        self.end, self.again = time.monotonic() + seconds, again

    @property
    def content(self):
        """What the file has now: another run may have added to it."""
        path = RESULTS / "rating_models.json"
        content = json.loads(path.read_text()) if path.exists() else {}
        content.pop("machine", None)
        return content

    @property
    def late(self):
        return time.monotonic() > self.end

    def section(self, name, found):
        content = self.content
        write("rating_models", content | {name: content.get(name, {}) | found})

    def run(self, name, label, model, splits):
        """Tune the model on the first split, then fit it as its defaults and its trials say."""
        entry = self._entry(name, label)
        inner = splits[0][0].split(0.9, 0.1, random_state=0)
        wanted = model.points(name)
        entry["trials"] = [each for each in entry["trials"] if each["parameters"] in wanted]
        for parameters in wanted if len(wanted) > 1 else ():
            if all(trial["parameters"] != parameters for trial in entry["trials"]):
                if self.late:
                    return
                trial = measured(model.make(**parameters), *inner)
                entry["trials"].append({"parameters": parameters, **trial})
                self._save(name, label, entry, f"{parameters} {trial['rmse']:.4f}")
        best = min(entry["trials"], key=lambda trial: trial["rmse"], default={})
        chosen = best.get("parameters", model.default)
        if entry.get("chosen") != chosen:
            entry |= {"chosen": chosen, "tuned": []}
        for case, parameters in (("tuned", chosen), ("default", model.default)):
            if case == "default" and parameters == chosen:
                entry[case] = entry["tuned"]
            done = entry.setdefault(case, [])
            while len(done) < len(splits) and not self.late:
                done.append(measured(model.make(**parameters), *splits[len(done)]))
                self._save(name, label, entry, f"{case} {done[-1]['rmse']:.4f}")
        self._save(name, label, entry, line(entry))

    def _entry(self, name, label):
        found = self.content.get("ratings", {}).get(name, {}).get(label)
        return {"trials": []} if found is None or self.again else found

    def _save(self, name, label, entry, text):
        print(f"{name}, {label}: {text}", flush=True)
        content = self.content
        content.setdefault("ratings", {}).setdefault(name, {})[label] = entry
        write("rating_models", content)


def middle(runs, key):
    """The mean over official folds is what others report; over seeds it says as much."""
    return statistics.fmean(run[key] or 0 for run in runs)


def line(entry):
    """Means over the splits, of the defaults and of the tuned parameters."""
    parts = []
    for case in ("default", "tuned"):
        if entry.get(case):
            runs = entry[case]
            parts.append(
                f"{case} {middle(runs, 'rmse'):.4f} {middle(runs, 'mae'):.4f} "
                f"fit {middle(runs, 'fit'):.1f} s predict {middle(runs, 'predict'):.1f} s "
                f"{middle(runs, 'mib'):.0f} MiB ({len(runs)})"
            )
    return f"{' | '.join(parts)} {entry.get('chosen', '')}"


def ratings(results, sets, labels):
    for name in sets:
        splits = SETS[name]()
        if splits is None:
            continue
        for label in labels:
            model, coded = MODELS[label], splits[0][0].coded()
            most = max(coded.user_ids.size, coded.item_ids.size)
            if model.missing or most > model.largest or results.late:
                continue
            if not model.timed or splits[0][0].times is not None:
                fewer = model.slow and model.package != "sfumato" and name == "MovieLens-1M"
                results.run(name, label, model, splits[:1] if fewer else splits)


def gains(results):
    """Learned weights beside plain item-based neighbours, temporal means beside static ones."""
    found = {}
    for name in ("movielens-1m", "movielens-100k"):
        data = real(name)
        if data is None:
            continue
        cases = {
            "learned weights, by row": (
                {"items": recommend.RatingNeighbours(by="items"),
                 "weights": recommend.InterpolationWeights()}, "row", "weights", "items"),
            "temporal means, by time": (
                {"static": recommend.DampedMeans(damping=None),
                 "temporal": recommend.TemporalMeans()}, "time", "temporal", "static"),
            "temporal means, by row": (
                {"static": recommend.DampedMeans(damping=None),
                 "temporal": recommend.TemporalMeans()}, "row", "temporal", "static"),
        }  # fmt: skip
        for case, (models, split, one, other) in cases.items():
            protocol = EvaluationProtocol(objective="ratings", split=split, test_size=0.1)
            compared = compare(models, data, protocol)
            rmse = {each: compared.results[each].metrics["rmse"].value for each in models}
            less = compared.difference(one, other, "rmse")
            found[f"{name}, {case}"] = {
                "rmse": rmse,
                "difference": {"value": less.value, "low": less.low, "high": less.high},
            }
            print(name, case, found[f"{name}, {case}"], flush=True)
    results.section("gains", found)


def alone(arguments):
    """Run a part of this file in a process of its own and return its JSON."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def neighbours_of_users():
    """Fit and evaluate user-based neighbours; a first small fit loads the compiled kernels."""
    small = generate_world(users=60, items=40, ratings=900, random_state=1).interactions
    warm = recommend.RatingNeighbours(by="users").fit(small)
    warm.predict(small.users, small.items)
    name, data = shaped_as_movielens()
    train, test = data.split(0.9, 0.1, random_state=0)
    start = time.perf_counter()
    model = recommend.RatingNeighbours(by="users").fit(train)
    rmse, _ = errors(model, test)
    seconds = time.perf_counter() - start
    print(json.dumps({"data": name, "rmse": rmse, "seconds": seconds, "process_mib": resident()}))


def scale_of(label, path):
    """Fit one model on a stored world."""
    name, parameters = SCALE[label]
    with np.load(path) as columns:
        train = Interactions(*(columns[each] for each in ("users", "items", "ratings", "times")))
        test = Interactions(*(columns[f"test_{each}"] for each in ("users", "items", "ratings")))
    before = resident()
    start, cpu = time.perf_counter(), time.process_time()
    model = getattr(recommend, name)(**parameters).fit(train)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    found = {"seconds": round(seconds, 1), "cpu": round(cpu, 1), "rmse": errors(model, test)[0]}
    print(json.dumps({**found, "process_mib": resident(), "before_mib": before}))


def scale(results, only):
    """20 million ratings, which each model reads from a file."""
    world = generate_world(**WORLD).interactions
    train, test = world.split(0.995, 0.005, random_state=0)
    times = np.random.default_rng(0).uniform(0, 1e8, len(train))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "world.npz"
        parts = {"": train, "test_": test}
        columns = {
            f"{part}{name}": getattr(rows, name)
            for part, rows in parts.items()
            for name in ("users", "items", "ratings")
        }
        np.savez(path, **columns, times=times)
        del world, train, test, times, parts, columns
        for label in SCALE:
            if (not only or any(part in label for part in only)) and not results.late:
                found = alone(["scale-of", label, str(path)])
                print(label, found, flush=True)
                results.section("scale", {label: found})


def show(results):
    """What is there: a line for each set and model, then a table of tuned errors in Markdown."""
    stored = results.content.get("ratings", {})
    found = {name: stored[name] for name in SETS if name in stored}
    for name, models in found.items():
        for label, entry in models.items():
            print(f"{name:<32}{label:<34}{line(entry)}")
    print(f"\n| RMSE (MAE), tuned | {' | '.join(found)} |")
    print("|---" * (1 + len(found)) + "|")
    for label in MODELS:
        cells = [cell(models.get(label, {}).get("tuned", ())) for models in found.values()]
        print(f"| {label} | {' | '.join(cells)} |")


def cell(runs):
    if not runs:
        return "-"
    return f"{middle(runs, 'rmse'):.4f} ({middle(runs, 'mae'):.4f})".replace("0.", ".")


def main():
    if sys.argv[1:2] == ["scale-of"]:
        return scale_of(*sys.argv[2:])
    if sys.argv[1:2] == ["users-alone"]:
        return neighbours_of_users()
    parser = argparse.ArgumentParser()
    sections = ("ratings", "gains", "users", "scale", "show")
    parser.add_argument("section", nargs="?", choices=sections)
    parser.add_argument("--set", action="append", choices=SETS)
    parser.add_argument("--only", action="append", help="a model, by its label or a part of it")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    labels = [
        label for label in MODELS if not given.only or any(part in label for part in given.only)
    ]
    results = Results(given.seconds, given.again)
    if given.section in (None, "ratings"):
        ratings(results, given.set or list(SETS), labels)
    if given.section in (None, "gains"):
        gains(results)
    if given.section in (None, "users"):
        results.section("users", {"user-based": alone(["users-alone"])})
        print(results.content["users"])
    if given.section in (None, "scale"):
        scale(results, given.only)
    if given.section == "show":
        show(results)
    return None


if __name__ == "__main__":
    main()
