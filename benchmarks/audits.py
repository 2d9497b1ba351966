"""What an audit measures of every shipped mechanism at epsilon 1, beside what it claims.

    python benchmarks/audits.py    writes benchmarks/results/audits.json

Lower bounds at confidence 0.95 from 100,000 trials on each neighbour, five seeds: median and range.
"""

import statistics

from _measure import write

from sfumato.attack import audit
from sfumato.attack.mechanism_audit.cases import CASES, named
from sfumato.privacy.random_source import InsecureSeededSource

SEEDS, TRIALS = range(5), 100_000


def row(name):
    mechanism, neighbours = named(name, 1.0, 1e-5)
    found = [
        audit(mechanism, neighbours, TRIALS, source=InsecureSeededSource(seed)) for seed in SEEDS
    ]
    bounds = [each.epsilon for each in found]
    print(f"{name:<22} {statistics.median(bounds):.3f} of {found[0].claimed:.3f}", flush=True)
    return dict(
        mechanism=name,
        claimed=found[0].claimed,
        delta=found[0].delta,
        ceiling=found[0].ceiling,
        median=statistics.median(bounds),
        low=min(bounds),
        high=max(bounds),
    )


def main():
    rows = [row(name) for name in CASES]
    write("audits", {"trials": TRIALS, "seeds": len(SEEDS), "confidence": 0.95, "rows": rows})


if __name__ == "__main__":
    main()
