"""How fast list models learn and answer, beside implicit and bare linear algebra; one thread.

Ours and the peer take turns in one process; a ratio is of neighbouring runs. Our fits begin with
columns of ids, the peers' with their matrix already made.

    python benchmarks/_list_speed.py LABEL FILE    fits one model on a stored world (see `scale`)
"""

import inspect
import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from _list_peers import Implicit
from _list_sets import SETS
from _memory import Peak, resident
from _ratings import shaped_as_movielens
from scipy.linalg import lapack

from sfumato import recommend
from sfumato.data import Interactions, generate_world

ROUNDS = 5
FACTORS = 64
ALS = {"factors": FACTORS, "regularization": 0.4}  # without a choice of its own, which takes epochs
WORLD = {"users": 200_000, "items": 50_000, "ratings": 20_000_000, "random_state": 1}
# Who answers one user, and who claims scale: class and parameters; absent ones are left out.
ANSWERING = {
    "Popular": ("Popular", {}),
    "ItemNeighbours": ("ItemNeighbours", {}),
    "LinearItems": ("LinearItems", {}),
    "UserNeighbours": ("UserNeighbours", {}),
    "ALS": ("ALS", ALS),
    "DenseFactorization, ranking": ("DenseFactorization", {"objective": "ranking"}),
    "SketchFactorization, ranking": ("SketchFactorization", {"objective": "ranking"}),
}
SCALE = {
    "Popular": ("Popular", {}),
    "ItemNeighbours": ("ItemNeighbours", {}),
    "LinearItems": ("LinearItems", {}),
    "ALS": ("ALS", ALS),
    "SketchFactorization, ranking, one epoch": (
        "SketchFactorization",
        {"objective": "ranking", "epochs": 1},
    ),
}


def built(name, parameters):
    """A model of ours, or None where this version has no such model or parameter."""
    known = getattr(recommend, name, None)
    if known is None or not set(parameters) <= set(inspect.signature(known).parameters):
        return None
    return known(**parameters)


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def middle(values, digits=3):
    values = [round(each, digits) for each in values]
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def beside(name, target, ours, peer):
    """Alternate two callables that return seconds; the ratio is ours over the peer's."""
    ours(), peer()
    runs = [(ours(), peer()) for _ in range(ROUNDS)]
    row = {
        "name": name,
        "target": target,
        "ratio": middle([one / two for one, two in runs]),
        "seconds": middle([one for one, _ in runs]),
        "peer_seconds": middle([two for _, two in runs]),
    }
    print(row, flush=True)
    return row


def movies():
    return shaped_as_movielens()[1].split(0.8, 0.2, random_state=0)[0]


def als_epoch():
    """An epoch by the difference of a longer and a shorter fit, 64 factors."""
    train, span = movies(), 4

    def ours():
        fits = (built("ALS", {**ALS, "epochs": each}) for each in (1, 1 + span))
        short, long = (seconds(partial(fit.fit, train)) for fit in fits)
        return (long - short) / span

    def peer():
        fits = (Implicit(kind="als", factors=FACTORS, iterations=each) for each in (1, 1 + span))
        short, long = (fit.fit(train).seconds for fit in fits)
        return (long - short) / span

    if built("ALS", ALS) is None:
        return []
    return [beside("ALS epoch / implicit's, 64 factors", 0.7, ours, peer)]


def neighbours_fit():
    """A dense set and a sparse one of many items."""
    rows = []
    for name in ("MovieLens-1M", "Last.fm"):
        data = SETS[name]()
        if data is None:
            continue
        train = data.split(0.8, 0.2, random_state=0)[0]
        ours = recommend.ItemNeighbours(neighbours=100, exponent=0.5, shrinkage=0.0)
        fit = partial(seconds, partial(ours.fit, train))
        peer = Implicit(kind="cosine", K=100)
        label = f"item-kNN fit / implicit's, cosine, 100 neighbours, {name}"
        rows.append(beside(label, 1.0, fit, lambda peer=peer, train=train: peer.fit(train).seconds))
    return rows


def linear_fit():
    train = movies()
    model = recommend.LinearItems()
    rows = Implicit(kind="cosine", K=1).fit(train).rows.astype(np.float64)

    def bare():
        gram = (rows.T @ rows).toarray()
        gram[np.diag_indices_from(gram)] += 300.0
        factor, _ = lapack.dpotrf(gram.T, lower=1, overwrite_a=1)
        lapack.dpotri(factor, lower=1, overwrite_c=1)

    ours, peer = partial(model.fit, train), bare
    name = "LinearItems fit / sparse Gram matrix, Cholesky, inverse"
    return [beside(name, 1.2, partial(seconds, ours), partial(seconds, peer))]


def top_ten():
    """One user's list, warm: all items, and without the user's own."""
    train = movies()
    users = np.unique(train.users)[::6][:1000]
    taken = [Interactions(*(column[train.users == user] for column in columns(train)))
             for user in users[:200]]  # fmt: skip
    rows = []
    for label, (name, parameters) in ANSWERING.items():
        model = built(name, parameters)
        if model is None:
            continue
        model.fit(train)
        plain = [partial(model.recommend, user) for user in users.tolist()]
        without = [
            partial(model.recommend, user, exclude=own)
            for user, own in zip(users.tolist(), taken, strict=False)
        ]
        row = {"name": f"one user's ten, {label}", "target_us": 100}
        rows.append(row | {"us": each_call(plain), "us_without_own": each_call(without)})
        print(rows[-1], flush=True)
    return rows


def columns(data):
    return data.users, data.items, data.ratings


def each_call(calls):
    """Microseconds of a call: the median over rounds of the mean over calls."""
    for call in calls[:20]:
        call()
    runs = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for call in calls:
            call()
        runs.append((time.perf_counter() - start) / len(calls) * 1e6)
    return middle(runs, 1)


def stream():
    """Events through partial_fit of the ranking sketch, in batches of 100 and alone."""
    model = built("SketchFactorization", {"objective": "ranking"})
    if model is None:
        return []
    train, later = shaped_as_movielens()[1].split(0.8, 0.2, random_state=0)
    model.fit(train)
    rows = []
    for size, target in ((100, 20), (1, 150)):
        parts = [slice(at, at + size) for at in range(0, 500 * size, size)]
        batches = [Interactions(*(column[part] for column in columns(later))) for part in parts]
        found = each_call([partial(model.partial_fit, batch) for batch in batches])
        row = {"name": f"an event through partial_fit, batches of {size}", "target_us": target}
        rows.append(row | {"us": {key: round(us / size, 2) for key, us in found.items()}})
        print(rows[-1], flush=True)
    return rows


SPEED = (als_epoch, neighbours_fit, linear_fit, top_ten, stream)


def speed(only):
    """All entries of the section, or those whose function is named."""
    parts = [part for part in SPEED if not only or part.__name__ in only]
    return {part.__name__: part() for part in parts}


def scale(only):
    """20 million generated interactions, each model in a process of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "world.npz"
        data = generate_world(**WORLD).interactions
        np.savez(path, users=data.users, items=data.items, ratings=data.ratings)
        del data
        for label, (name, parameters) in SCALE.items():
            if built(name, parameters) is None or (only and label not in only):
                continue
            command = [sys.executable, __file__, label, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            last = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()[-1:]
            found[label] = json.loads(last[0]) if done.returncode == 0 else {"failed": last}
            print(label, found[label], flush=True)
    return found


def fitted(label, path):
    """Fit one model on the stored world: seconds, and the peak of the fit and of the process."""
    stored = np.load(path)
    data = Interactions(stored["users"], stored["items"], stored["ratings"])
    model = built(*SCALE[label])
    with Peak() as peak:
        taken = seconds(lambda: model.fit(data))
    users = np.unique(data.users[:100_000])[:1000]
    lists = seconds(lambda: model.recommend(users, 10))
    return {
        "rows": len(data),
        "fit_seconds": round(taken, 1),
        "fit_mib": peak.mib,
        "process_mib": round(resident(), 1),
        "nbytes_mib": round(model.nbytes / 2**20, 1),
        "us_a_list": round(lists / users.size * 1e6, 1),
    }


if __name__ == "__main__":
    print(json.dumps(fitted(*sys.argv[1:])))
