"""The table sampler and the classifier beside peers and the trivial: comparison_tables.json.

    python benchmarks/comparison_tables.py [sampler] [classifier] [0.1] [1] [infinity]
        measures both parts at every epsilon, or those that are named, and writes the rows of all
        that were measured

Sampler: area under the ROC curve, on real test rows, of gradient boosting that learned as many
synthetic rows as there are real ones; at epsilon 10**6 for "infinity", since it has no other way.
"Independent columns by class" has all of epsilon for counts of cells (of groups where a noisy class
is far below 0); "ours" is the sampler without pairs, as it is by itself where noise is large.
Classifier: accuracy on test rows. Bounds are the ranges of the whole set, as if published. Settings
were chosen on the sets that rows name. Sets whose files are missing are left out.
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
INFINITE = 1e6
# Areas vary more: a rare class has few rows, and noise is large at the smallest epsilon.
SAMPLER_SEEDS = {0.1: range(9), 1.0: range(5), INFINITE: range(5)}
SAMPLED = ("magic", "census", "mammography", "donors", "cover")
SAMPLER_CHOSEN = (
    "skin, SpamBase, pendigits, annthyroid, thyroid, cardio, generated classes; "
    "seen while choosing: census"
)
MOST = 8000  # rows of a set, of which synthetic ones are learned
MOST_CLASSIFIED = 15_000
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


def sampled(epsilons):
    """Rows, set after set, at these numbers or None for infinity."""
    for name in SAMPLED:
        made = table_of(name)
        if made is None:
            continue
        table, public = made
        table = table.sample(min(len(table), MOST), random_state=0).reset_index(drop=True)
        given = [INFINITE if each is None else each for each in epsilons]
        most = max(len(SAMPLER_SEEDS[each]) for each in given)
        every = [train_test_split(table, test_size=0.2, random_state=s) for s in range(most)]
        every_real = [area(train, test, public) for train, test in every]
        for epsilon in given:
            parts, real = (each[: len(SAMPLER_SEEDS[epsilon])] for each in (every, every_real))
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


def classified(epsilons):
    """Rows, set after set, at these numbers or None for infinity."""
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
        for epsilon in epsilons:
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


EPSILONS = {"0.1": 0.1, "1": 1.0, "infinity": None}
PARTS = {
    "sampler": (sampled, "PrivateTableSampler"),
    "classifier": (classified, "SketchClassifier"),
}


def main(words):
    parts = [name for name in PARTS if name in words] or list(PARTS)
    epsilons = [each for name, each in EPSILONS.items() if name in words] or [*EPSILONS.values()]
    path = RESULTS / "comparison_tables.json"
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = {_key(each): each for each in before}
    for name in parts:
        for each in PARTS[name][0](epsilons):
            rows[_key(each)] = each  # in the place of the row that was measured before
            write_rows("tables", list(rows.values()))


def _key(made):
    return made["model"], made["data"], made["setting"]


if __name__ == "__main__":
    main(sys.argv[1:])
