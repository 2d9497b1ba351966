"""Lists from implicit feedback beside other packages: full catalogue, tuned with equal budgets.

    python benchmarks/recommenders.py [lists | speed | scale] [--set SET] [--only MODEL]
        [--seconds N] [--again]

Every set is split by row, 80 % to learn from and 20 % to find, with three seeds; whatever a user
has in the test part is relevant, training items are excluded, and every item of the catalogue is a
candidate. NDCG@10 and Recall@20 are ours, for every model. Parameters are chosen on the first seed
by NDCG@10 of a tenth of its training rows: the defaults and points of the model's grid, drawn at
random once, eight trials in all for every model; then the defaults and the chosen ones are fitted
on all training rows of the three seeds. Everything runs on one thread. Results are kept in
benchmarks/results/recommenders.json by set and model: what is there is not run again, unless
--again; --seconds starts nothing new after so many. Sets whose files are missing are left out, and
so are models of packages that are not installed.

The rule of our defaults was chosen with FilmTrust, MovieLens-100K and Last.fm in sight.
"""

import argparse
import importlib.util
import itertools
import json
import statistics
import time
from dataclasses import dataclass, field
from functools import partial

import _list_speed
import numpy as np
from _list_peers import Cornac, CornacNeighbours, Implicit, MyFm, Surprise
from _list_sets import COUNTS, SETS
from _measure import RESULTS, write
from _memory import Peak

from sfumato import recommend
from sfumato.recommend import metrics

SEEDS = range(3)
TRIALS = 8
# A dense matrix of Last.fm's 17,632 items takes minutes: fewer trials, of all packages alike.
FEWER = {
    ("Last.fm", "LinearItems"): 4,
    ("Last.fm", "cornac EASE"): 4,
    # A fit takes half a minute: our defaults, which were not chosen on this set.
    **{
        ("MovieLens-1M", f"{name}, objective ranking{gain}"): 1
        for name, gain in (
            ("DenseFactorization", ""),
            ("SketchFactorization", ", space_gain 1.0"),
            ("SketchFactorization", ", space_gain 4.0"),
        )
    },
}


class Random:
    """A random order of all items for each user."""

    def fit(self, train):
        self.items = np.unique(train.items)
        return self

    def recommend(self, users, n, exclude):
        out = np.zeros((len(users), n), self.items.dtype)
        rng = np.random.default_rng(0)
        taken = dict.fromkeys(zip(exclude.users.tolist(), exclude.items.tolist(), strict=True))
        for row, user in enumerate(users.tolist()):
            order = (item for item in rng.permutation(self.items) if (user, item) not in taken)
            out[row] = list(itertools.islice(order, n))
        return out, np.ones(out.shape)


@dataclass
class Model:
    """How to build a model, the points of its grid, and what the package's own defaults are.

    `counts` is added to the grid on sets of counts. Without a grid there is nothing to choose: the
    lists of rating models are no better for it. `largest` is the number of rows up to which a slow
    model is run.
    """

    make: object
    grid: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)
    default: dict = field(default_factory=dict)
    package: str = "sfumato"
    largest: int = 1 << 62

    @property
    def missing(self):
        return importlib.util.find_spec(self.package) is None

    def trials(self, name, label):
        """The defaults, then points of the grid in a random order that never changes."""
        grid = self.grid | (self.counts if name in COUNTS else {})
        points = [dict(zip(grid, each, strict=True)) for each in itertools.product(*grid.values())]
        order = np.random.default_rng(0).permutation(len(points))
        chosen = [self.default] + [points[at] for at in order if points[at] != self.default]
        return chosen[: FEWER.get((name, label), TRIALS)] if self.grid else chosen[:1]


def ours(name, grid, **fixed):
    """A model of ours by its name, if this version has it with these parameters."""
    known = getattr(recommend, name, None)
    if known is None or not set(fixed) <= set(known().get_params()):
        return {}
    label = ", ".join([name, *(f"{key} {value}" for key, value in fixed.items())])
    counts = {"weighting": ("equal", "log")} if "weighting" in known().get_params() else {}
    counts = {} if name == "UserNeighbours" else counts  # its weighting is of neighbours
    return {label: Model(partial(known, **fixed), grid, counts if grid else {})}


NEIGHBOURS = (20, 50, 100, 200, 500)
PENALTIES = (10.0, 30.0, 100.0, 200.0, 300.0, 500.0, 700.0, 1000.0, 1500.0, 2000.0, 3000.0, 5000.0)
WEIGHTINGS = {"weighting": ("equal", "log", "bm25")}
RANKING = {
    "factors": (32, 64),
    "learning_rate": (0.05, 0.1, 0.2),
    "regularization": (0.02, 0.05, 0.1),
    "epochs": (20, 40),
}
MODELS = {
    "random": Model(Random),
    **ours("Popular", {}),
    **ours("LinearItems", {"regularization": PENALTIES}),
    **ours(
        "ItemNeighbours",
        {
            "neighbours": NEIGHBOURS,
            "transform": ("none", "tfidf", "bm25"),
            "exponent": (0.1, 0.3, 0.5),
            "shrinkage": (0.0, 20.0, 100.0),
        },
    ),
    **ours(
        "UserNeighbours",
        {
            "neighbours": (20, 50, 100, 200, 400, 800),
            "metric": ("cosine", "jaccard"),
            "shrink": (True, False),
        },
    ),
    **ours(
        "ALS",
        {
            "factors": (64, 128),
            "regularization": (0.2, 0.4, 0.57, 0.8),
            "confidence": (1.0, 5.0, 20.0),
        },
    ),
    **ours("DenseFactorization", RANKING, objective="ranking"),
    **ours("SketchFactorization", RANKING, objective="ranking", space_gain=1.0),
    **ours("SketchFactorization", RANKING, objective="ranking", space_gain=4.0),
    "implicit ALS": Model(
        partial(Implicit, kind="als"),
        {
            "factors": (64, 128),
            "alpha": (1.0, 5.0, 20.0),
            "regularization_of_alpha": (2.0, 10.0),  # only their ratio matters much
        },
        WEIGHTINGS,
        package="implicit",
    ),
    "implicit BPR": Model(
        partial(Implicit, kind="bpr"),
        {
            "factors": (32, 64, 128),
            "learning_rate": (0.01, 0.05, 0.1),
            "regularization": (0.001, 0.01, 0.05),
            "iterations": (100, 200),
        },
        package="implicit",
    ),
    "implicit item-kNN": Model(
        Implicit,
        {"kind": ("cosine", "tfidf", "bm25", "bm25, K1 100, B 0.25"), "K": NEIGHBOURS},
        WEIGHTINGS,
        default={"kind": "cosine", "K": 20},
        package="implicit",
    ),
    "cornac EASE": Model(
        partial(Cornac, kind="EASE"),
        {"lamb": (30, 100, 200, 300, 500, 1000, 2000), "posB": (True, False)},
        {"weighting": ("equal", "log")},
        package="cornac",
    ),
    "cornac BPR": Model(
        partial(Cornac, kind="BPR"),
        {
            "k": (32, 64, 128),
            "learning_rate": (0.01, 0.05, 0.1),
            "lambda_reg": (0.001, 0.01, 0.05),
            "max_iter": (100, 200),
        },
        package="cornac",
    ),
    "ratings: DenseFactorization": Model(recommend.DenseFactorization),
    "ratings: cornac ItemKNN": Model(
        partial(CornacNeighbours, kind="ItemKNN"), package="cornac", largest=200_000
    ),
    "ratings: cornac UserKNN": Model(
        partial(CornacNeighbours, kind="UserKNN"), package="cornac", largest=200_000
    ),
    "ratings: surprise SVD": Model(Surprise, package="surprise"),
    "ratings: myfm": Model(MyFm, package="myfm"),
}


def measured(model, train, test):
    """NDCG@10, Recall@20, seconds of the fit and of all lists, and MiB that both took at most."""
    users = np.unique(test.users)
    with Peak() as peak:
        start = time.perf_counter()
        model.fit(train)
        fit = getattr(model, "seconds", time.perf_counter() - start)
        start = time.perf_counter()
        lists, scores = model.recommend(users, 20, exclude=train)
        seconds = time.perf_counter() - start
    found = {
        "ndcg_10": metrics.ndcg(lists[:, :10], test, scores=scores[:, :10], users=users),
        "recall_20": metrics.recall(lists, test, scores=scores, users=users),
        "fit": fit,
        "lists": seconds,
    }
    return {key: round(value, 4) for key, value in found.items()} | {"mib": peak.mib}


class Results:
    """The lists of the JSON by set and model, saved after every fit, so that a run may stop."""

    def __init__(self, seconds, again):
        self.end, self.again = time.monotonic() + seconds, again

    @property
    def content(self):
        """What the file has now: another run may have added to it."""
        path = RESULTS / "recommenders.json"
        content = json.loads(path.read_text()) if path.exists() else {}
        content.pop("machine", None)
        return content

    def section(self, name, found):
        content = self.content
        write("recommenders", content | {name: content.get(name, {}) | found})

    def run(self, name, label, model, data):
        """Tune the model on a set, then fit it as its defaults and its trials say."""
        entry = self._entry(name, label)
        train = data.split(0.8, 0.2, random_state=SEEDS[0])[0]
        inner = train.split(0.9, 0.1, random_state=SEEDS[0])
        wanted = model.trials(name, label)
        entry["trials"] = [each for each in entry["trials"] if each["parameters"] in wanted]
        for parameters in wanted if len(wanted) > 1 else ():
            if all(trial["parameters"] != parameters for trial in entry["trials"]):
                if self.late:
                    return
                trial = measured(model.make(**parameters), *inner)
                entry["trials"].append({"parameters": parameters, **trial})
                self._save(name, label, entry, f"{parameters} {trial['ndcg_10']:.4f}")
        best = max(entry["trials"], key=lambda trial: trial["ndcg_10"], default={})
        chosen = best.get("parameters", model.default)
        if entry.get("chosen") != chosen:
            entry |= {"chosen": chosen, "tuned": []}
        for case, parameters in (("default", model.default), ("tuned", chosen)):
            if case == "tuned" and parameters == model.default:
                entry[case] = entry["default"]
            done = entry.setdefault(case, [])
            while len(done) < len(SEEDS) and not self.late:
                parts = data.split(0.8, 0.2, random_state=SEEDS[len(done)])
                done.append(measured(model.make(**parameters), *parts))
                self._save(name, label, entry, f"{case} {done[-1]['ndcg_10']:.4f}")
        self._save(name, label, entry, line(entry))

    @property
    def late(self):
        return time.monotonic() > self.end

    def _entry(self, name, label):
        found = self.content.get("lists", {}).get(name, {}).get(label)
        return {"trials": []} if found is None or self.again else found

    def _save(self, name, label, entry, text):
        print(f"{name}, {label}: {text}", flush=True)
        content = self.content
        content.setdefault("lists", {}).setdefault(name, {})[label] = entry
        write("recommenders", content)


def line(entry):
    """Medians over the seeds, of the defaults and of the tuned parameters."""
    parts = []
    for case in ("default", "tuned"):
        if len(entry.get(case, ())) == len(SEEDS):
            middle = {
                key: statistics.median(run[key] or 0 for run in entry[case])
                for key in ("ndcg_10", "recall_20", "fit", "lists", "mib")
            }
            parts.append(
                f"{case} {middle['ndcg_10']:.4f} {middle['recall_20']:.4f} "
                f"fit {middle['fit']:.2f} s lists {middle['lists']:.2f} s {middle['mib']:.0f} MiB"
            )
    return f"{' | '.join(parts)} {entry.get('chosen', '')}"


def lists(results, sets, labels):
    for name in sets:
        data = SETS[name]()
        for label in labels if data is not None else ():
            model = MODELS[label]
            if not model.missing and len(data) <= model.largest and not results.late:
                results.run(name, label, model, data)


def show(results):
    """What is there: a line for each set and model, then a table of tuned lists in Markdown."""
    lists = results.content.get("lists", {})
    found = {name: lists[name] for name in SETS if name in lists}
    for name, models in found.items():
        for label, entry in models.items():
            print(f"{name:<16}{label:<50}{line(entry)}")
    print(f"\n| NDCG@10 (Recall@20), tuned | {' | '.join(found)} |")
    print("|---" * (1 + len(found)) + "|")
    for label in MODELS:
        cells = [cell(models.get(label, {}).get("tuned", ())) for models in found.values()]
        print(f"| {label} | {' | '.join(cells)} |")


def cell(runs):
    if len(runs) < len(SEEDS):
        return "-"
    middle = [statistics.median(run[key] for run in runs) for key in ("ndcg_10", "recall_20")]
    return "{:.3f} ({:.3f})".format(*middle).replace("0.", ".")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("section", nargs="?", choices=("lists", "speed", "scale", "show"))
    parser.add_argument("--set", action="append", choices=SETS)
    parser.add_argument("--only", action="append", help="a model, by its label or a part of it")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    labels = [
        label for label in MODELS if not given.only or any(part in label for part in given.only)
    ]
    results = Results(given.seconds, given.again)
    if given.section in (None, "lists"):
        lists(results, given.set or list(SETS), labels)
    for name in ("speed", "scale"):
        if given.section in (None, name):
            results.section(name, getattr(_list_speed, name)(given.only))
    if given.section == "show":
        show(results)


if __name__ == "__main__":
    main()
