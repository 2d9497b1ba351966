"""Speed of profiles and of attacks on them, one thread, beside the machine's ceilings.

python benchmarks/profiles.py [PART ...]    writes benchmarks/results/profiles.json
"""

import statistics
import sys
import time

import numpy as np
from _measure import Ceilings, write_parts
from thesis_ch3 import Scene
from threadpoolctl import threadpool_limits

from sfumato.attack import joint_decoder
from sfumato.data import Interactions
from sfumato.privacy.noise import discrete as noise
from sfumato.profile import Blip, Jlt, Minima, Signs

PROFILES, ITEMS, CATALOGUE = 100_000, 100, 10_000


def seconds(work, runs=5):
    """Median, least and most seconds of warm runs."""
    work()
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return {"median": statistics.median(taken), "low": min(taken), "high": max(taken)}


def population(profiles):
    """Profiles of about 100 items, drawn evenly."""
    draws = np.random.default_rng(0)
    users = np.repeat(np.arange(profiles), ITEMS)
    return Interactions(users, draws.integers(0, CATALOGUE, users.size), np.ones(users.size))


def line(name, ours, target, beside):
    print(f"{name:<64}{ours:<36}target {target:<24}{beside}", flush=True)
    return {"name": name, "ours": ours, "target": target, "beside": beside}


def gibbs():
    """20,000 steps of one chain on profiles of MovieLens, prefiltered to 6 times the size."""
    scene = Scene("movielens", 0)
    one = scene.attacked.filter(np.isin(scene.attacked.users, scene.users[:40]))
    observed = Blip(bits=5000, hashes=20, epsilon=8).release(one, users=np.unique(one.users))
    run = lambda: joint_decoder(  # noqa: E731
        observed, scene.items, scene.popular, method="gibbs", sizes=scene.sizes, threads=1
    )
    taken = seconds(run)
    each = {key: value / len(observed) for key, value in taken.items()}
    items = len(one) / len(observed)
    ours = f"{each['median']:.3f} s ({each['low']:.3f}-{each['high']:.3f})"
    name = f"20,000 Gibbs steps, a profile ({len(observed)} of {items:.0f} items on average)"
    return [line(name, ours, "0.12 s", f"{each['median'] / 20_000 * 1e6:.2f} us a step")]


def encoding():
    """Profiles a minute, from raw columns to noisy codes, and what of it the noise alone takes."""
    before = population(PROFILES)
    rows, everybody = [], np.unique(before.users)
    for mechanism, target in (
        (Blip(bits=5000, hashes=20, epsilon=8), ">= 5 million"),
        (Minima(epsilon=8), "-"),
        (Jlt(dimensions=1000, epsilon=8), "-"),
        (Signs(bits=1000, epsilon=8), "-"),
    ):
        fed = type(mechanism)(**mechanism.parameters).update(before)
        whole = seconds(lambda of=mechanism: of.release(before, users=everybody), runs=3)
        ready = seconds(lambda of=fed: of.release(users=everybody), runs=3)
        kind = type(mechanism).__name__
        for label, taken in (("from columns", whole), ("fed before", ready)):
            rate = PROFILES / taken["median"] * 60 / 1e6
            low, high = (PROFILES / taken[end] * 60 / 1e6 for end in ("high", "low"))
            rows.append(
                line(
                    f"{kind}: profiles of {ITEMS} items released, {label}",
                    f"{rate:.2f} million a minute ({low:.2f}-{high:.2f})",
                    target,
                    _noise_alone(mechanism),
                )
            )
    return rows


def _noise_alone(mechanism):
    if not isinstance(mechanism, Blip):
        return "-"
    p = mechanism.release(population(1), users=[0]).flip_probability
    taken = seconds(lambda: noise.flips(p, 5000 * PROFILES), runs=3)
    return f"flips alone {PROFILES / taken['median'] * 60 / 1e6:.2f} million a minute"


def nearest():
    """Ten nearest of 1,000,000 released profiles of 5,000 bits, beside reading as many bytes."""
    part = population(10_000)
    draws = np.random.default_rng(1)
    made = Blip(bits=5000, hashes=20, epsilon=8).release_batches(
        (
            Interactions(part.users + 10_000 * k, draws.permutation(part.items), part.ratings)
            for k in range(100)
        ),
        users=(range(10_000 * k, 10_000 * (k + 1)) for k in range(100)),
    )
    parts = list(made)
    everybody = _joined(parts)
    everybody.nearest_rows([0])  # counts the ones of all rows, once
    one = seconds(lambda: everybody.nearest_rows([5]), runs=15)
    many = seconds(lambda: everybody.nearest_rows(np.arange(16)), runs=3)
    read = everybody.words.nbytes / (Ceilings().stream(1) * 1e6)
    return [
        line(
            "ten nearest of 1,000,000 BLIP profiles of 5,000 bits, a query",
            f"{one['median'] * 1e3:.0f} ms ({one['low'] * 1e3:.0f}-{one['high'] * 1e3:.0f})",
            "80 ms",
            f"{everybody.words.nbytes / 2**20:.0f} MiB read in {read * 1e3:.0f} ms",
        ),
        line(
            "the same, sixteen queries at once, a query",
            f"{many['median'] / 16 * 1e3:.0f} ms ({many['low'] / 16 * 1e3:.0f}-"
            f"{many['high'] / 16 * 1e3:.0f})",
            "-",
            "-",
        ),
    ]


def _joined(parts):
    """Parts of one release side by side, as a server would keep them."""
    first = parts[0]
    arrays = {name: np.concatenate([getattr(p, name) for p in parts]) for name in first._layout()}
    return type(first)._make(first.parameters, arrays, first.statement)


def rows():
    return [*gibbs(), *encoding(), *nearest()]


if __name__ == "__main__":
    threadpool_limits(1)
    write_parts("profiles", {"rows": rows}, sys.argv[1:])
