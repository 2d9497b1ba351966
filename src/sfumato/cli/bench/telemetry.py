"""Benchmarks of telemetry: reports made, counted and decoded."""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.cli.bench.contest import Case, Contest, Work
from sfumato.telemetry import Counts, Rappor, ReportEncoder, decode

__all__ = ["CASES"]

SCHEME = Rappor(bits=128, hashes=2, cohorts=64, f=0.73)
NAMES = [f"value-{at}" for at in range(1_000)]
COMMON = 100  # values that clients have; the other candidates are nobody's
FEW = 2_000  # reports of a peer that makes them one by one


def _values(size: int) -> Any:
    """Values of clients, the first ones most often."""
    drawn = np.random.default_rng(0).exponential(COMMON / 5, size).astype(np.int32) % COMMON
    return pa.DictionaryArray.from_arrays(pa.array(drawn), pa.array(NAMES))


def encoding(size: int) -> Contest:
    """Reports made in one process."""
    values = _values(size)

    def pure_ldp() -> Work:
        from pure_ldp.frequency_oracles.rappor import RAPPORClient
        from xxhash import xxh64

        def hashed(seed: int, value: Any) -> int:
            return xxh64(str(value).encode(), seed=seed).intdigest() % SCHEME.bits

        cohorts = range(SCHEME.cohorts)
        hashes = [[partial(hashed, 2 * each), partial(hashed, 2 * each + 1)] for each in cohorts]
        client = RAPPORClient(f=SCHEME.f, m=SCHEME.bits, hash_funcs=hashes, num_of_cohorts=64)
        drawn = values.indices[:FEW].to_pylist()
        return Work(lambda: [client.privatise(value) for value in drawn], FEW)

    ours = Work(partial(ReportEncoder(SCHEME, seed=0).encode_many, values), size)
    return Contest(ours, {"pure-ldp": pure_ldp})


def counting(size: int) -> Contest:
    """Reports added up by cohort."""
    reports = ReportEncoder(SCHEME, seed=0).encode_many(_values(size))

    def plain() -> Work:
        def sums() -> list[np.ndarray]:
            order = np.argsort(reports.cohorts, kind="stable")
            ends = np.searchsorted(reports.cohorts[order], np.arange(1, SCHEME.cohorts))
            parts = np.split(reports.payload[order], ends)
            return [
                np.unpackbits(part, axis=1, bitorder="little").sum(axis=0, dtype=np.int64)
                for part in parts
            ]

        return Work(sums, size)

    words = np.ascontiguousarray(reports.payload).view(np.uint64)
    ours = Work(lambda: Counts(SCHEME, keep_ids=False).update(reports), size)
    return Contest(ours, {"NumPy": plain}, Work(words.sum, size))


def decoding(size: int) -> Contest:
    """Counts of a thousand candidates, with the error of the hundred that clients have."""
    values = _values(size)
    counts = Counts(SCHEME).update(ReportEncoder(SCHEME, seed=0).encode_many(values))
    truth = np.bincount(values.indices.to_numpy(), minlength=len(NAMES))[:COMMON]

    def error(estimates: Any) -> float:
        return float(np.abs(np.asarray(estimates)[:COMMON] - truth).sum() / size)

    def lasso() -> Work:
        from sklearn.linear_model import Lasso

        reports = np.asarray(counts.reports)
        known = (counts.cells / reports[:, None] - SCHEME.low) / (SCHEME.high - SCHEME.low)

        members = SCHEME.members(pa.array(NAMES))  # candidates x cohorts x hashes

        def fit() -> np.ndarray:
            design = np.zeros((SCHEME.cohorts, SCHEME.bits, len(NAMES)), np.float32)
            candidates, cohorts, hashes = np.nonzero(members >= 0)
            design[cohorts, members[candidates, cohorts, hashes], candidates] = 1
            model = Lasso(alpha=1e-5, positive=True)
            flat = design.reshape(-1, len(NAMES))
            return np.asarray(model.fit(flat, known.ravel().astype(np.float32)).coef_ * size)

        return Work(fit, len(NAMES), error)

    def ours() -> Any:
        return decode(counts, NAMES)

    work = Work(ours, len(NAMES), lambda found: error(found.estimate))
    return Contest(work, {"scikit-learn's Lasso": lasso})


CASES = (
    Case(
        "telemetry/encode",
        "RAPPOR reports made",
        "reports",
        encoding,
        1_000_000,
        200_000,
    ),
    Case(
        "telemetry/count",
        "reports added up by cohort",
        "reports",
        counting,
        1_000_000,
        200_000,
        "",
        "reading the reports once (NumPy)",
    ),
    Case(
        "telemetry/decode",
        f"counts of {len(NAMES):,} candidates; ours with errors and p-values",
        "candidates",
        decoding,
        1_000_000,
        200_000,
        "sum of errors over reports",
    ),
)
