"""Private factorization: error over epsilon beside private means and other private learners.

    python benchmarks/private_factorization.py [epsilons] [others] [neighbours]
        writes benchmarks/results/private_factorization.json, all parts unless some are named

Random 80/10/10, five seeds of split and noise together, delta 1e-6. Nothing is tuned on the data:
the settings are the public rule of the model, the same for all rows. Accounts, catalogue and bounds
are public. "Private means" get the whole budget: noise-aware means, no factors.
"""

import sys

import numpy as np
from _measure import write_parts
from _private_baselines import NoisyDescent, NoisyRatings
from _ratings import SEEDS, rmse, shaped_as_movielens, spread

from sfumato.recommend import DenseFactorization, PrivateFactorization
from sfumato.recommend.bias import DampedMeans

EPSILONS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0)
ASKED = {1.0: 0.929, 4.0: 0.904, 8.0: 0.890}
DELTA, BOUNDS = 1e-6, (1, 5)


def splits():
    name, data = shaped_as_movielens()
    public = {"users": np.unique(data.users), "catalogue": np.unique(data.items)}
    return name, public, [data.split(0.8, 0.1, 0.1, random_state=seed) for seed in SEEDS]


def fitted(public, train, **options):
    return PrivateFactorization(delta=DELTA, bounds=BOUNDS, **options).fit(train, **public)


def epsilons():
    """Whole file, event level: factors by the public rule, and means with the whole budget."""
    name, public, parts = splits()
    without = [rmse(DampedMeans().fit(train), test) for train, _, test in parts]
    rows = [{"name": "means only, not private", "rmse": spread(without)}]
    for epsilon in EPSILONS:
        factors = [fitted(public, train, epsilon=epsilon) for train, _, _ in parts]
        means = [fitted(public, train, epsilon=epsilon, factors=1) for train, _, _ in parts]
        errors = [rmse(model, part[2]) for model, part in zip(factors, parts, strict=True)]
        plain = [rmse(model, part[2]) for model, part in zip(means, parts, strict=True)]
        row = {"epsilon": epsilon, "target": ASKED.get(epsilon), "rmse": spread(errors)}
        row |= {"private_means": spread(plain), "numbers": factors[0].item_vectors_.shape[1]}
        rows.append(row)
        print(epsilon, row["rmse"]["mean"], row["private_means"]["mean"], flush=True)
    return {"data": name, "delta": DELTA, "rows": rows}


def others():
    """At epsilon 10 and others: joint, user level, and other ways to be private."""
    name, public, parts = splits()
    rows = []

    def add(label, epsilon, fit):
        errors = [rmse(fit(train), test) for train, _, test in parts]
        rows.append({"name": label, "epsilon": epsilon, "rmse": spread(errors)})
        print(label, epsilon, rows[-1]["rmse"]["mean"], flush=True)

    add("not private: means only", None, lambda train: DampedMeans().fit(train))
    add("not private: dense", None, lambda train: DenseFactorization().fit(train))
    for epsilon in (1.0, 4.0, 8.0, 10.0):
        given = {"epsilon": epsilon}
        add("file, event", epsilon, lambda t, g=given: fitted(public, t, **g))
        add("file, event, means", epsilon, lambda t, g=given: fitted(public, t, factors=1, **g))
        add(
            "joint, event",
            epsilon,
            lambda t, g=given: fitted(public, t, covers="joint", **g).personal(t),
        )
        settings = {"delta": DELTA, "bounds": BOUNDS, **given}
        add("noisy descent", epsilon, lambda t, s=settings: NoisyDescent(**s).fit(t, **public))
        add(
            "noise on ratings (protects values only)",
            epsilon,
            lambda t, s=settings: NoisyRatings(**s).fit(t, **public),
        )
    items = {"catalogue": public["catalogue"]}
    for per_user in (50, 100, 200):
        user = {"epsilon": 10.0, "unit": "user", "covers": "joint", "per_user": per_user}
        add(
            f"joint, user, {per_user} ratings each",
            10.0,
            lambda t, u=user: fitted(items, t, **u).personal(t),
        )
        add(
            f"joint, user, {per_user} ratings each, means",
            10.0,
            lambda t, u=user: fitted(items, t, factors=1, **u).personal(t),
        )
    return {"data": name, "delta": DELTA, "rows": rows}


if __name__ == "__main__":
    parts = {"epsilons": epsilons, "others": others}
    write_parts("private_factorization", parts, sys.argv[1:])
