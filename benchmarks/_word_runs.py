"""Runs of telemetry on the words: encode, count, decode, and what many runs say together."""

import time

import numpy as np
from _measure import summary
from _words import absent

from sfumato.telemetry import Counts, ReportEncoder, cramer_rao, decode

LEVEL = 0.05
ABSOLUTE = np.sqrt(2 / np.pi)  # mean size of a Gaussian error, in standard errors


def reported(scheme, values, seed):
    return ReportEncoder(scheme, seed=seed).encode_many(values)


def decoded(scheme, values, candidates, seed, **options):
    """One run: encode, count unless full reports are wanted, decode."""
    reports = reported(scheme, values, seed)
    full = options.get("method") == "likelihood"
    data = reports if full else Counts(scheme).update(reports)
    return decode(data, candidates, level=LEVEL, **options)


def bound_of(scheme, world, most, **options):
    """The Cramer-Rao standard errors of the most frequent words, at the truth."""
    members = scheme.members(world.text[:most])
    other = int(world.counts[most:].sum())
    return cramer_rao(scheme, members, world.counts[:most], other, **options)


def figures(scheme, estimates, results, world, most, bounds):
    """Errors of many runs: over the seed's ten words, and of all candidates against the bound."""
    true, ten = world.counts[:most].astype(float), world.ten()
    ten = ten[ten < most]
    errors = np.stack(estimates) - true
    relative = np.abs(errors[:, ten]) / true[ten]
    spread = np.sqrt((errors**2).mean(axis=0))
    row = {
        "runs": len(errors),
        "bytes": None if scheme is None else scheme.payload_bytes,
        "error": float(relative.mean()),
        "error_of_runs": summary(relative.mean(axis=1).tolist()),
        "standard_error": float(spread[ten].mean()),
    }
    if bounds is not None:
        row["bound"] = float(bounds[ten].mean())
        row["error_at_bound"] = float((ABSOLUTE * bounds[ten] / true[ten]).mean())
        row["above_bound"] = float(np.median(spread / bounds))
    if results:
        low, high = (np.stack([each[end] for each in results]) for end in ("low", "high"))
        row["coverage"] = float(((low <= true) & (true <= high)).mean())
    return row


def many(scheme, values, candidates, runs, world, bounds=None, **options):
    """The row of one way over several runs."""
    start = time.perf_counter()
    results = [decoded(scheme, values, candidates, seed, **options) for seed in range(runs)]
    seconds = (time.perf_counter() - start) / runs
    estimates = [np.asarray(each["estimate"]) for each in results]
    row = figures(scheme, estimates, results, world, len(candidates), bounds)
    return {**row, "seconds": seconds}


def redrawn(scheme, world, most, runs, bounds):
    """The same with other cells in every run: every word is written in another way."""
    estimates, results = [], []
    for seed in range(runs):
        other = world._replace(text=[f"{word} {seed}" for word in world.text])
        results.append(decoded(scheme, other.clients(), other.text[:most], seed))
        estimates.append(np.asarray(results[-1]["estimate"]))
    return figures(scheme, estimates, results, world, most, bounds)


def said(name, row):
    result = " ".join(
        f"{key} {value:.4g}" for key, value in row.items() if isinstance(value, float)
    )
    print(f"{name:<46}{result}", flush=True)
    return {"name": name, **row}


def flat(world, most):
    """The trivial answer: what the candidates have on average."""
    mean = np.full(most, world.counts[:most].mean())
    return figures(None, [mean], [], world, most, None)


def judged(world, scheme, most, extra, seed, standard, **options):
    """Which candidates were found in one run: precision, recall, and recall of what is visible."""
    candidates = [*world.text[:most], *absent(extra)]
    result = decoded(scheme, world.clients(), candidates, seed, **options)
    found = np.asarray(result["detected"])
    visible = world.counts[:most] > 4 * standard
    own = world.counts[:most] > 4 * np.asarray(result["std_error"])[:most]
    return {
        "precision": float(found[:most].sum() / max(found.sum(), 1)),
        "recall": float(found[:most].mean()),
        "visible": int(visible.sum()),
        "recall_of_visible": float(found[:most][visible].mean()),
        "above_own": int(own.sum()),
        "recall_above_own": float(found[:most][own].mean()) if own.any() else 1.0,
        "found": int(found.sum()),
    }


def averaged(rows):
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
