"""Classifiers trained on synthetic tables and tested on real rows, beside simpler samplers.

    python benchmarks/synthetic_tables.py [chosen] [reported]
        writes benchmarks/results/synthetic_tables.json, both parts unless one is named

A table is cut by row, 80 % to fit a sampler and 20 % to test, with three seeds. A gradient-boosted
classifier learns as many synthetic rows as there were real ones; shown is its area under the ROC
curve on the real test rows. "independent" is the sampler with all of epsilon for the columns by
class, and no pairs; "sketch" a `SketchSampler` for each class of numeric columns in units of their
bounds. "grouped" is the sampler without pairs, with groups of cells in small classes; "independent"
has them only where the noisy number of rows, which has a thousandth of epsilon, is far below 0.
Settings were chosen on the sets of "chosen" alone. Sets whose files are missing are left out.
"""

import gzip
import sys
import warnings
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pandas as pd
from _measure import write_parts
from _ratings import folder
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from sfumato.density import PrivateTableSampler, SketchSampler
from sfumato.density.synthesize import distribution, marginals
from sfumato.privacy.random_source import InsecureSeededSource

SEEDS = range(3)
EPSILONS = (0.1, 1.0, 10.0)
MOST = 60_000  # rows of a set
ADBENCH = {
    "spambase": "35_SpamBase",
    "pendigits": "28_pendigits",
    "annthyroid": "2_annthyroid",
    "cardio": "6_cardio",
    "magic": "22_magic.gamma",
    "donors": "11_donors",
    "cover": "10_cover",
    "mammography": "23_mammography",
}
CHOSEN = ("skin", "spambase", "pendigits", "annthyroid", "generated")
REPORTED = ("magic", "census", "donors", "cover", "mammography")


def numeric(X, y):
    """A table of numeric columns and its public description: the ranges of the whole set."""
    names = [f"x{at}" for at in range(X.shape[1])]
    public = {
        name: (float(low), float(max(high, low + 1e-9)))
        for name, low, high in zip(names, X.min(0), X.max(0), strict=True)
    }
    table = pd.DataFrame(X, columns=names).assign(label=np.where(y, "yes", "no"))
    return table, {**public, "label": ["no", "yes"]}


def adbench(name):
    path = folder() / "adbench" / f"{ADBENCH[name]}.npz"
    if not path.exists():
        return None
    stored = np.load(path)
    return numeric(stored["X"].astype(float), stored["y"].astype(bool))


def skin():
    path = folder() / "uci-skin" / "Skin_NonSkin.txt.gz"
    if not path.exists():
        return None
    rows = np.loadtxt(path)
    table, _ = numeric(rows[:, :3], rows[:, 3] == 1)
    return table.astype({"x0": int, "x1": int, "x2": int}), {
        **{name: range(256) for name in ("x0", "x1", "x2")},
        "label": ["no", "yes"],
    }


def generated():
    """Classes that differ in how their columns go together, and in no column alone."""
    draws = np.random.default_rng(9)
    y = draws.random(20_000) < 0.4
    shared = draws.normal(size=(y.size, 3))
    X = np.concatenate([shared, np.where(y, 1, -1)[:, None] * shared], axis=1)
    return numeric(np.clip(X + draws.normal(0, 0.7, X.shape), -4, 4), y)


def census():
    """Ten columns of the census: integers, and texts whose lists are public."""
    path = folder() / "census-income" / "census-income.data.gz"
    if not path.exists():
        return None
    places = {0: "age", 1: "worker", 4: "education", 7: "marital", 9: "occupation", 12: "sex"}
    places |= {16: "gains", 18: "dividends", 30: "employer", 39: "weeks", 41: "label"}
    with gzip.open(path, "rt") as lines:
        table = pd.read_csv(lines, header=None, usecols=list(places), skipinitialspace=True)
    table = table.rename(columns=places).rename(columns=str)
    table["label"] = np.where(table["label"].str.startswith("50000+"), "yes", "no")
    public = {"age": range(91), "gains": range(100_000), "dividends": range(100_000)}
    public |= {"employer": range(7), "weeks": range(53)}
    listed = [name for name in table if name not in public]
    return table, public | {name: sorted(table[name].unique()) for name in listed}


OTHERS = {"skin": skin, "generated": generated, "census": census}


def synthetic(method, train, public, epsilon, seed):
    """As many synthetic rows as real ones."""
    if method == "sketch":
        return by_kernels(train, public, epsilon, seed)
    model = PrivateTableSampler(public, target="label", epsilon=epsilon, random_state=seed)
    if method == "ours":
        return fitted(model, train, seed).sample(len(train)).to_pandas()
    if method == "grouped":
        with never_paired():
            return fitted(model, train, seed).sample(len(train)).to_pandas()
    # Independent columns by class: the same, with all of epsilon for them.
    share = {"ALONE": Fraction(999, 1000), "CLASSES": Fraction(1, 1000)}
    with (
        patch.multiple(marginals, **share),
        patch.object(distribution, "DETAIL", -10.0),
        never_paired(),
    ):
        return fitted(model, train, seed).sample(len(train)).to_pandas()


def fitted(model, train, seed):
    """The sampler; every method has the same noise, up to its scale, for a fair comparison."""
    return model.fit(train, source=InsecureSeededSource(seed))


def never_paired():
    return patch.object(marginals.Plans, "helps", lambda *_: False)


def by_kernels(train, public, epsilon, seed):
    """Points of each class from a sketch of its own, in units of the bounds; None for texts."""
    names = [name for name in public if name != "label"]
    if not all(isinstance(public[name], tuple | range) for name in names):
        return None
    low = np.array([min(public[name]) for name in names], float)
    width = np.array([max(public[name]) for name in names], float) - low
    parts = []
    for label, rows in train.groupby("label"):
        model = SketchSampler(bandwidth=0.1, epsilon=epsilon, bounds=(0, 1), random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of much noise, at small epsilon
            model.fit(((rows[names] - low) / width).to_numpy())
        drawn = low + model.sample(len(rows)) * width
        parts.append(pd.DataFrame(drawn, columns=names).assign(label=label))
    return pd.concat(parts)


def area(rows, test, public):
    """Area under the ROC curve of a classifier of these rows, on the test rows."""
    if rows is None:
        return None
    if rows["label"].nunique() < 2:
        return 0.5

    def coded(table):
        out = table[[name for name in public if name != "label"]].copy()
        for name in out:
            if isinstance(public[name], list):
                out[name] = pd.Categorical(out[name], public[name]).codes
        return out

    model = HistGradientBoostingClassifier(random_state=0).fit(coded(rows), rows["label"] == "yes")
    return float(roc_auc_score(test["label"] == "yes", model.predict_proba(coded(test))[:, 1]))


def table_of(name):
    made = OTHERS[name]() if name in OTHERS else adbench(name)
    if made is None or len(made[0]) <= MOST:
        return made
    return made[0].sample(MOST, random_state=0).reset_index(drop=True), made[1]


def measured(name, methods=("ours", "independent", "sketch"), epsilons=EPSILONS):
    """Mean areas over the seeds, by method and epsilon."""
    made = table_of(name)
    if made is None:
        return None
    table, public = made
    found = {}
    for seed in SEEDS:
        train, test = train_test_split(table, test_size=0.2, random_state=seed)
        found.setdefault("real", []).append(area(train, test, public))
        for epsilon in epsilons:
            for method in methods if epsilon == 1 else methods[:2]:
                rows = synthetic(method, train, public, epsilon, seed)
                found.setdefault(f"{method} {epsilon:g}", []).append(area(rows, test, public))
    out = {"rows": len(table), "columns": len(public) - 1}
    for key, areas in found.items():
        if areas[0] is not None:
            out[key] = {"auc": round(np.mean(areas), 4), "spread": round(np.ptp(areas), 4)}
    print(name, {key: each["auc"] for key, each in out.items() if isinstance(each, dict)})
    return out


def part(names):
    found = {name: measured(name) for name in names}
    return {name: each for name, each in found.items() if each is not None}


if __name__ == "__main__":
    parts = {"chosen": lambda: part(CHOSEN), "reported": lambda: part(REPORTED)}
    write_parts("synthetic_tables", parts, sys.argv[1:])
