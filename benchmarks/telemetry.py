"""RAPPOR and its successors on the words of the Brown corpus: errors, what is found, and limits.

    python benchmarks/telemetry.py [table] [errors] [beside] [hundred] [found] [sweeps] ...
        writes benchmarks/results/telemetry.json: the parts that are named, or all

Every token is a client that reports once: k = 48, h = 2, m = 8, f = 0.73 unless a row says else,
and every other scheme has the same epsilon. Reports are encoded, counted and decoded anew in every
run, seeds 0, 1, ... A word has the same cells in every run, but for the row that says else. Errors
are against the true counts of the clients; `bound` is the Cramer-Rao standard error at the truth.
A count is visible if it is above 4 standard errors even of a decoder that knows all other counts.
"""

import resource
import subprocess
import sys
import time
from functools import partial

import numpy as np
from _known_multiset import posterior_means
from _ldp_peers import rappor, subsets_of
from _measure import write_parts
from _word_runs import (
    LEVEL,
    averaged,
    bound_of,
    decoded,
    figures,
    flat,
    judged,
    many,
    redrawn,
    reported,
    said,
)
from _words import absent, words

from sfumato.telemetry import (
    Counts,
    HadamardResponse,
    LocalHashing,
    Rappor,
    SubsetSelection,
    decode,
)

SEED = {"bits": 48, "hashes": 2, "cohorts": 8, "f": 0.73}
RUNS, SLOW, FEW, THREE = 50, 50, 10, 3  # runs: by counts, over full reports, of a sweep, of peers


def schemes(epsilon, top):
    """Every scheme at one epsilon; those for known words have one more category for the others."""
    known = [*top, "(other)"]
    return {
        "RAPPOR": Rappor(**SEED),
        "local hashing": LocalHashing(epsilon),
        "subset selection, hashed": SubsetSelection(epsilon),
        "subset selection, known words": SubsetSelection(epsilon, categories=known),
        "Hadamard response, known words": HadamardResponse(epsilon, categories=known),
        "basic RAPPOR, known words": Rappor.for_epsilon(epsilon, categories=known),
    }


def errors():
    """Two hundred true candidates: the notes' table, every method and scheme, the bounds."""
    world = words()
    top = world.text[:200]
    epsilon = Rappor(**SEED).epsilon_permanent
    rows = [said("the same count for each", flat(world, 200))]
    add = lambda name, *given, **options: rows.append(said(name, many(*given, **options)))  # noqa: E731
    ways = schemes(epsilon, top)
    rappor = ways.pop("RAPPOR")
    counted, full = (bound_of(rappor, world, 200, full_reports=each) for each in (False, True))
    given = world.clients(), top
    add("RAPPOR counts, the notes' Lasso", rappor, *given, RUNS, world, counted, method="lasso")
    add("RAPPOR counts, weighted", rappor, *given, RUNS, world, counted, method="weighted")
    rows.append(said("the same, cells drawn anew", redrawn(rappor, world, 200, RUNS, counted)))
    add("RAPPOR reports, likelihood", rappor, *given, SLOW, world, full, method="likelihood")
    for name, scheme in ways.items():
        values = world.known(200) if "known" in name else world.clients()
        add(name, scheme, values, top, RUNS, world, bound_of(scheme, world, 200))
    counts = next(row for row in rows if row["name"] == "RAPPOR counts, weighted")
    for row in rows:
        row["of_counts"] = row["standard_error"] / counts["standard_error"]
    reports = int(world.counts.sum())
    return {"data": world.data, "reports": reports, "epsilon": epsilon, "rows": rows}


def beside():
    """Two hundred true candidates with two hundred absent ones beside: errors of the true ones."""
    world, scheme = words(), Rappor(**SEED)
    own = lambda way, runs, anew: said(way.__doc__, _beside(world, scheme, way, runs, anew))  # noqa: E731
    rows = [own(_by_counts, RUNS, anew) | {"anew": anew} for anew in (False, True)]
    rows += [own(_by_reports, FEW, anew) | {"anew": anew} for anew in (False, True)]
    rows += [own(_by_known_counts, FEW, anew) | {"anew": anew} for anew in (False, True)]
    return {"data": world.data, "absent": 200, "rows": rows}


def _beside(world, scheme, way, runs, anew):
    """Figures of a way; with other cells in every run if `anew`."""
    estimates, results = [], []
    for seed in range(runs):
        drawn = world._replace(text=[f"{word} {seed}" for word in world.text]) if anew else world
        nobody = [f"{word} {seed}" for word in absent(200)] if anew else absent(200)
        candidates = [*drawn.text[:200], *nobody]
        estimate, result = way(drawn, scheme, reported(scheme, drawn.clients(), seed), candidates)
        estimates.append(estimate[:200])
        results += [result] if result else []
    row = figures(scheme, estimates, [], world, 200, None)
    if results:  # of all four hundred
        true = np.append(world.counts[:200], np.zeros(200))
        covered = [(each["low"] <= true) & (true <= each["high"]) for each in results]
        row["coverage"] = float(np.mean(covered))
    return row


def _by_counts(_, scheme, reports, candidates):
    """RAPPOR counts, weighted"""
    result = decode(Counts(scheme).update(reports), candidates, level=LEVEL)
    return np.asarray(result["estimate"]), result


def _by_reports(_, __, reports, candidates):
    """RAPPOR reports, likelihood"""
    result = decode(reports, candidates, level=LEVEL, method="likelihood")
    return np.asarray(result["estimate"]), result


def _by_known_counts(world, scheme, reports, candidates):
    """RAPPOR counts, all true counts known but for their order"""
    true = np.append(world.counts[:200], np.zeros(200)).astype(float)
    counts = Counts(scheme).update(reports)
    return posterior_means(counts, candidates, true, world.counts[200:], 0), None


def hundred():
    """The hundred most frequent words: observed standard errors beside the bound."""
    world = words()
    rows = []
    for full, method in ((False, "weighted"), (True, "likelihood")):
        scheme = Rappor(**SEED)
        bounds = bound_of(scheme, world, 100, full_reports=full)
        given = scheme, world.clients(), world.text[:100], RUNS, world, bounds
        rows.append(said(f"RAPPOR, {method}", many(*given, method=method)))
    return {"data": world.data, "rows": rows}


def found():
    """Two hundred true and two hundred absent candidates: what is detected, and what is false."""
    world, scheme = words(), Rappor(**SEED)
    standard = bound_of(scheme, world, 200, alone=True)
    rows = []
    for method, correction in (
        ("lasso", "bonferroni"),
        ("weighted", "benjamini-hochberg"),
        ("weighted", "bonferroni"),
        ("likelihood", "benjamini-hochberg"),
    ):
        options = {"method": method, "correction": correction}
        runs = [judged(world, scheme, 200, 200, s, standard, **options) for s in range(RUNS)]
        worst = min(run["precision"] for run in runs)
        row = {"runs": RUNS, **averaged(runs), "worst_precision": worst}
        rows.append(said(f"{method}, {correction}", row))
    return {"data": world.data, "level": LEVEL, "rows": rows}


SWEEPS = {
    "bits": (16, 32, 48, 64, 96, 128),
    "hashes": (1, 2, 4, 6, 8),
    "cohorts": (2, 4, 8, 16, 32, 64),
}


def sweeps():
    """Figures 3 to 5 of the notes: k, h and m in turn, epsilon as before, and its recall."""
    world = words()
    epsilon = Rappor(**SEED).epsilon_permanent
    rows = []
    for name, values in SWEEPS.items():
        for value in values:
            shape = {**SEED, name: value}
            del shape["f"]
            scheme = Rappor.for_epsilon(epsilon, **shape)
            standard = bound_of(scheme, world, 100, alone=True)
            for method in ("lasso", "weighted"):
                run = partial(judged, world, scheme, 100, 100, standard=standard, method=method)
                row = averaged([run(seed=seed) for seed in range(FEW)])
                row |= {"parameter": name, "value": value, "f": scheme.f, "method": method}
                rows.append(said(f"{name} {value} {method}", row))
    return {"data": world.data, "runs": FEW, "candidates": [100, 100], "rows": rows}


def table():
    """Table 6.4 and figure 6 of the notes: one run, seed 0, its first ninety words."""
    world = words()
    result = decoded(Rappor(**SEED), world.clients(), world.text[:200], 0, method="weighted")
    columns = ("estimate", "std_error", "low", "high", "p_value")
    rows = [
        {"word": world.text[i], "true": int(world.counts[i])}
        | {name: float(result[name][i]) for name in columns}
        | {"detected": bool(result["detected"][i])}
        for i in range(90)
    ]
    other = {"estimate": float(result.other), "std_error": float(result.other_std_error)}
    other["true"] = int(world.counts[200:].sum())
    return {"data": world.data, "rows": rows, "other": other, "dispersion": result.dispersion}


def large():
    """Ten thousand candidates in a process of its own: seconds and the most memory it took."""
    rows = []
    for candidates in (1_000, 10_000):
        code = f"import telemetry; telemetry._large({candidates})"
        result = subprocess.check_output([sys.executable, "-c", code], cwd=sys.path[0], text=True)
        seconds, gigabytes, rank, found = (float(each) for each in result.split())
        row = {"candidates": candidates, "seconds": seconds, "gigabytes": gigabytes}
        row |= {"rank": int(rank), "found": int(found)}
        rows.append(said(f"{candidates} candidates, k = 128, m = 64", row))
    return {"rows": rows}


def _large(candidates):
    world = words()
    scheme = Rappor(bits=128, hashes=2, cohorts=64, f=0.73)
    counts = Counts(scheme).update(reported(scheme, world.clients(), 0))
    decode(counts, world.text[:50])  # kernels compiled
    start = time.perf_counter()
    result = decode(counts, world.text[:candidates])
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(seconds, memory, result.rank, int(np.sum(result["detected"])))


def peers():
    """The ten words by peers, at the same epsilon: errors of a few runs, and seconds of one."""
    world, top = words(), 200
    codes = np.repeat(np.arange(len(world.text)), world.counts)
    epsilon = Rappor(**SEED).epsilon_permanent
    ways = {"pure-ldp, RAPPOR": _pure_ldp, "multi-freq-ldpy, subset selection": _multi_freq_ldpy}
    rows = []
    for name, way in ways.items():
        start = time.perf_counter()
        estimates = [np.asarray(way(codes, top, epsilon, seed))[:top] for seed in range(THREE)]
        row = figures(None, estimates, [], world, top, None)
        rows.append(said(name, row | {"seconds": (time.perf_counter() - start) / THREE}))
    return {"data": world.data, "rows": rows}


def _pure_ldp(codes, top, epsilon, seed):
    server, client = rappor(SEED, top, seed)
    for code in codes.tolist():
        server.aggregate(client.privatise(code + 1))
    return server.estimate_all(range(1, top + 1))


def _multi_freq_ldpy(codes, top, epsilon, seed):
    return subsets_of(np.minimum(codes, top).tolist(), top + 1, epsilon, seed)


def published():
    """google/rappor's own tolerances: a Zipf distribution over 100 values, a million reports."""
    shares = 1 / np.arange(1, 101)
    counts = np.random.default_rng(0).multinomial(1_000_000, shares / shares.sum())
    text = [f"v{i}" for i in range(1, 101)]
    values = np.repeat(np.array(text), counts)
    scheme = Rappor(bits=8, hashes=2, cohorts=32, f=0.5, p=0.4, q=0.6)
    rows = []
    for seed in range(FEW):
        result = decoded(scheme, values, text, seed)
        off = np.abs(np.asarray(result["estimate"]) - counts)
        row = {"l1": float(off.sum()), "linf": float(off.max())}
        rows.append(said(f"seed {seed}", row))
    return {
        "l1_allowed": 300 * 1_000_000**0.5,
        "linf_allowed": 100 * float(counts.max()) ** 0.5,
        "epsilon_one": scheme.epsilon_one,
        "rows": rows,
    }


if __name__ == "__main__":
    parts = (table, errors, beside, hundred, found, sweeps, large, published, peers)
    write_parts("telemetry", {part.__name__: part for part in parts}, sys.argv[1:])
