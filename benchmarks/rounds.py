"""How changes of groups of users are joined in `SketchFactorization.fit_rows`, by validation alone.

    python benchmarks/rounds.py [SET ...]    writes benchmarks/results/rounds.json

Of every set a tenth is test data, which is not used here at all. Of the rest a tenth is held out,
with another seed each time, and each way of joining is fitted to the other rows and judged on those
held out. Ways: strata whose changes are added (weight 1), added with another weight, or with
momentum over rounds; and whole local epochs of each group, whose changes are added or averaged.

The plain sum stays unless another way is better by two standard errors on every set. This rule was
set after the first run, in which the lowest mean over both sets was that of weight 0.8 and momentum
0.2, by 0.00003: the file states that too.
"""

import statistics
import sys
import time
from dataclasses import dataclass

import numpy as np
from _measure import write
from _ratings import real

from sfumato.engine import LocalEngine
from sfumato.recommend import SketchFactorization
from sfumato.recommend.factorization import rounds, strata
from sfumato.recommend.factorization.strata import GROUPED

SETS, SEEDS, GROUPS = ("movielens-100k", "movielens-1m"), (0, 1, 2), 8
COLUMNS = ("user", "item", "rating")


@dataclass(frozen=True)
class Joining:
    """A way in which the changes of a round are joined."""

    weight: float = 1.0
    momentum: float = 0.0
    strata: bool = True  # else whole local epochs

    @property
    def name(self):
        what = "strata" if self.strata else "local epochs"
        return f"{what}, weight {self.weight:g}, momentum {self.momentum:g}"


WAYS = (
    Joining(),
    *(Joining(weight) for weight in (0.5, 0.8, 1.2)),
    *(Joining(1 - momentum, momentum) for momentum in (0.2, 0.5)),
    Joining(1.0, 0.2),
    Joining(1.0, 0.5),
    Joining(strata=False),
    Joining(1 / GROUPS, strata=False),
)


class JoinedTraining(rounds.RoundTraining):
    """Training that joins changes in another way; without momentum and weight 1 the usual one."""

    way, learning, velocity = Joining(), True, 0

    def _add(self, change, rate):
        if change is not None and self.learning:
            self.velocity = self.velocity * np.float32(self.way.momentum)
            self.velocity = self.velocity + np.float32(self.way.weight) * change
            change = self.velocity
        super()._add(change, rate)

    def _finish(self, rate, random):
        self.learning = False  # biases are damped as usual
        super()._finish(rate, random)
        self.learning = True


class WholeEpochs(strata.RatingStrata):
    """One round per epoch, in which each group learns from all its ratings."""

    def __init__(self, *args):
        super().__init__(*args)
        whole = self._source[0].map(_without_stratum, GROUPED).persist()
        for each in self.strata:
            each.unpersist()
        self.strata = [whole]


def _without_stratum(batches):
    for batch in batches:
        yield batch.drop_columns(["stratum"])


def fitted(way, train, valid, seed):
    """The error on validation rows of each epoch, inf where training diverged, and the seconds."""
    usual = rounds.RoundTraining, rounds.RatingStrata
    rounds.RoundTraining = type("Training", (JoinedTraining,), {"way": way})
    rounds.RatingStrata = usual[1] if way.strata else WholeEpochs
    source = dict(zip(COLUMNS, (train.users, train.items, train.ratings), strict=True))
    model, start = SketchFactorization(random_state=seed), time.perf_counter()
    try:
        model.fit_rows(source, engine=LocalEngine(threads=2), groups=GROUPS, valid=valid)
        errors = [entry["valid_rmse"] for entry in model.history_]
    except ValueError as error:
        if "diverged" not in str(error):
            raise
        errors = [float("inf")]
    finally:
        rounds.RoundTraining, rounds.RatingStrata = usual
    return errors, time.perf_counter() - start


def measured(name):
    rest, _ = real(name).split(0.9, 0.1, random_state=99)  # the test rows are dropped here
    rows = []
    parts = {seed: rest.split(0.9, 0.1, random_state=seed) for seed in SEEDS}
    local = [SketchFactorization(random_state=seed).fit(*parts[seed]) for seed in SEEDS]
    reference = [model.history_[-1]["valid_rmse"] for model in local]
    print(f"{name}: passes of one machine {statistics.mean(reference):.4f}")
    for way in WAYS:
        runs = [fitted(way, *parts[seed], seed) for seed in SEEDS]
        last = [errors[-1] for errors, _ in runs]
        seconds = statistics.median(seconds for _, seconds in runs)
        rows.append(
            {
                "way": way.name,
                "valid_rmse": last if max(last) < float("inf") else "diverged",
                "mean": statistics.mean(last) if max(last) < float("inf") else None,
                "seconds": seconds,
            }
        )
        shown = "diverged" if rows[-1]["mean"] is None else f"{rows[-1]['mean']:.4f}"
        print(f"  {way.name:44} {shown}  {seconds:.1f} s", flush=True)
    best = min((row for row in rows if row["mean"] is not None), key=lambda row: row["mean"])
    return {"one_machine": reference, "ways": rows, "best": best["way"], "rows": len(rest)}


def compared(found):
    """Each way less the plain sum on the same rows: mean and standard error over seeds, by set."""
    rows = []
    for at, way in enumerate(WAYS[1:], 1):
        row = {"way": way.name}
        for name, one in found.items():
            plain, other = one["ways"][0]["valid_rmse"], one["ways"][at]["valid_rmse"]
            if other == "diverged":
                row[name] = other
                continue
            apart = np.subtract(other, plain)
            error = float(apart.std(ddof=1) / len(apart) ** 0.5)
            row[name] = {"difference": float(apart.mean()), "standard_error": error}
        rows.append(row)
    return rows


def lowest_mean(found):
    """The way with the lowest mean error over the sets, and how far it is below the plain sum."""
    by_way = zip(*(one["ways"] for one in found.values()), strict=True)
    means = {same[0]["way"]: [row["mean"] for row in same] for same in by_way}
    known = {way: statistics.mean(each) for way, each in means.items() if None not in each}
    way = min(known, key=known.get)
    return {"way": way, "difference": known[way] - known[WAYS[0].name]}


def clearly_better(rows):
    """Ways that are better than the plain sum by two standard errors on every set."""

    def better(one):
        return one != "diverged" and one["difference"] < -2 * one["standard_error"]

    return [
        row["way"] for row in rows if all(better(one) for name, one in row.items() if name != "way")
    ]


def main(names):
    found = {name: measured(name) for name in names}
    rows = compared(found)
    better = clearly_better(rows)
    print("better than the plain sum on every set:", ", ".join(better) or "none")
    content = {"seeds": SEEDS, "groups": GROUPS, "sets": found, "beside_the_plain_sum": rows}
    if tuple(names) == SETS:
        lowest = lowest_mean(found)
        write("rounds", {**content, "lowest_mean": lowest, "clearly_better": better})


if __name__ == "__main__":
    main(sys.argv[1:] or SETS)
