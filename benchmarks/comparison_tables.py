"""The table sampler and the classifier beside peers and the trivial: comparison_tables.json.

    python benchmarks/comparison_tables.py [sampler] [classifier]
        measures both parts, or those that are named, and writes the rows of all that were measured

Sampler: area under the ROC curve, on real test rows, of gradient boosting that learned as many
synthetic rows as there are real ones; at epsilon 10**6 for "infinity", since it has no other way.
"Independent columns by class" has all of epsilon for counts of cells (of groups where a noisy class
is far below 0); "ours" counts groups of cells in small classes, as the sampler does. Classifier:
accuracy on test rows. Bounds are the ranges of the whole set, as if published. Settings were chosen
on the sets that rows name. Sets whose files are missing are left out.
"""

import json
import sys

import numpy as np
from _comparison import row, write_rows
from _diffprivlib import scores
from _dpmm import PYTHON as DPMM
from _dpmm import synthetic_codes
from _measure import RESULTS
from _ratings import folder
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from synthetic_tables import area, synthetic, table_of

from sfumato.density import SketchClassifier
from sfumato.density.synthesize.columns import COLUMNS, codes_of

SEEDS = range(3)
SAMPLER_SEEDS = range(5)  # a rare class has few rows, and areas vary more
SAMPLED = ("magic", "census", "mammography", "donors", "cover")
SAMPLER_CHOSEN = (
    "skin, SpamBase, pendigits, annthyroid, thyroid, cardio, generated classes; "
    "seen while choosing: census"
)
MOST = 8000  # rows of a set, of which synthetic ones are learned
MOST_CLASSIFIED = 15_000
INFINITE = 1e6
PEER_CELLS = 16
ALONE = "independent columns by class"
MST = "dpmm MST, delta 1e-6, one seed"
CLASSIFIER_CHOSEN = "digits, BBC news, SpamBase, pendigits, annthyroid"


def by_mst(train, test, public, epsilon):
    """The area of dpmm's MST with seed 0, or why there is none."""
    if epsilon == INFINITE or not DPMM:
        return {"missing": "no environment for dpmm" if not DPMM else "no privacy loss, no run"}
    columns = COLUMNS.check("benchmark", "columns", public)
    codes = codes_of("benchmark", train, columns, PEER_CELLS)
    drawn = synthetic_codes("MST", codes, [c.cells(PEER_CELLS) for c in columns], epsilon, 0)
    if isinstance(drawn, dict):
        return drawn
    rng = np.random.default_rng(0)
    import pandas as pd

    rows = {
        each.name: each.drawn(drawn[:, at], PEER_CELLS, rng).to_pandas()
        for at, each in enumerate(columns)
    }
    return [area(pd.DataFrame(rows), test, public)]


def sampled():
    """Rows, set after set."""
    for name in SAMPLED:
        made = table_of(name)
        if made is None:
            continue
        table, public = made
        table = table.sample(min(len(table), MOST), random_state=0).reset_index(drop=True)
        parts = [train_test_split(table, test_size=0.2, random_state=s) for s in SAMPLER_SEEDS]
        real = [area(train, test, public) for train, test in parts]
        for epsilon in (0.1, 1.0, INFINITE):
            ours, alone, grouped = (
                [
                    area(synthetic(method, train, public, epsilon, seed), test, public)
                    for seed, (train, test) in enumerate(parts)
                ]
                for method in ("ours", "independent", "grouped")
            )
            peers = {"real rows, no privacy": real}
            if epsilon == 1:
                peers[MST] = by_mst(*parts[0], public, epsilon)
            yield show(
                row(
                    *("PrivateTableSampler", name, "ROC area, trained on synthetic rows"),
                    *("higher", ours, peers, {ALONE: alone, f"{ALONE}, ours": grouped}),
                    chosen_on=SAMPLER_CHOSEN,
                    setting=_epsilon(epsilon),
                )
            )


def regression_classes(name, classes=2):
    """A published table of numbers; the classes are equal parts of its target, in order."""
    path = folder() / "uci-regression" / f"{name}.csv.gz"
    if not path.exists():
        return None
    values = np.loadtxt(path, delimiter=",")
    cuts = np.quantile(values[:, -1], np.arange(1, classes) / classes)
    return values[:, :-1], np.searchsorted(cuts, values[:, -1])


def magic():
    path = folder() / "adbench" / "22_magic.gamma.npz"
    if not path.exists():
        return None
    stored = np.load(path)
    return stored["X"].astype(float), stored["y"].astype(int)


CLASSIFIED = {
    "magic": magic,
    "elevators": lambda: regression_classes("elevators"),
    "bike": lambda: regression_classes("bike"),
    "parkinsons": lambda: regression_classes("parkinsons"),
    "keggdirected, thirds": lambda: regression_classes("keggdirected", 3),
}


def classified():
    """Rows, set after set."""
    for name, read in CLASSIFIED.items():
        data = read()
        if data is None:
            continue
        X, y = data
        chosen = np.random.default_rng(0).permutation(len(X))[:MOST_CLASSIFIED]
        X, y = X[chosen], y[chosen]
        low, high = X.min(axis=0), X.max(axis=0)
        high = np.where(high > low, high, low + 1)
        kinds = np.unique(y).tolist()
        parts = [train_test_split(X, y, test_size=0.3, random_state=seed) for seed in SEEDS]
        most = [max(np.mean(y_test == kind) for kind in kinds) for *_, y_test in parts]
        for epsilon in (0.1, 1.0, None):
            terms = dict(classes=kinds, bounds=(low.tolist(), high.tolist()), epsilon=epsilon)
            ours = [
                SketchClassifier(**terms).fit(train, y_train).score(test, y_test)
                for train, test, y_train, y_test in parts
            ]
            peers = (
                open_peers(parts) if epsilon is None else private_peers(parts, low, high, epsilon)
            )
            yield show(
                row(
                    *("SketchClassifier", name, "accuracy", "higher", ours, peers),
                    {"most frequent class": most},
                    chosen_on=CLASSIFIER_CHOSEN,
                    setting=_epsilon(epsilon),
                )
            )


def open_peers(parts):
    """Peers without privacy."""
    made = {
        "logistic regression": lambda: make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=2000)
        ),
        "GaussianNB": GaussianNB,
    }
    return {
        name: [
            make().fit(train, y_train).score(test, y_test) for train, test, y_train, y_test in parts
        ]
        for name, make in made.items()
    }


def private_peers(parts, low, high, epsilon):
    """diffprivlib's models, of columns from 0 to 1, each on all parts; one draw of noise each."""
    found = {"logistic": [], "naive Bayes": []}
    for train, test, y_train, y_test in parts:
        wide = [(rows - low) / (high - low) for rows in (train, test)]
        for model, figures in found.items():
            given = dict(norm=np.sqrt(len(low)), low=0.0, high=1.0)
            done = scores(model, (wide[0], y_train), (wide[1], y_test), [epsilon], 1, **given)
            figures.append(done if "missing" in done else done["scores"][0][0])
    return {
        f"diffprivlib {name}": next((each for each in figures if isinstance(each, dict)), figures)
        for name, figures in found.items()
    }


def _epsilon(epsilon):
    return "epsilon " + ("infinity" if epsilon in (None, INFINITE) else f"{epsilon:g}")


def show(one):
    medians = {
        name: round(each["median"], 4)
        for kind in ("peers", "trivial")
        for name, each in one[kind].items()
        if "median" in each
    }
    ours = round(one["ours"]["median"], 4)
    print(one["model"], one["data"], one["setting"], ours, medians, flush=True)
    return one


if __name__ == "__main__":
    parts = {"sampler": sampled, "classifier": classified}
    models = {"sampler": "PrivateTableSampler", "classifier": "SketchClassifier"}
    named = sys.argv[1:] or list(parts)
    path = RESULTS / "comparison_tables.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    again = {models[name] for name in named}
    rows = [each for each in before if each["model"] not in again]
    for name in named:
        for each in parts[name]():
            rows.append(each)
            write_rows("tables", rows)
