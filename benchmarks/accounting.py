"""Epsilon and time of composed losses beside dp-accounting, and of one more charge to a ledger.

    python benchmarks/accounting.py    writes benchmarks/results/accounting.json

Each composition is at delta 1e-6, timed from nothing in one process after one warm run of each
library. The baseline is the plain sum of epsilons (basic composition).
"""

import statistics
import tempfile
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from _measure import write

from sfumato.privacy import Accountant, Ledger
from sfumato.privacy.accounting import calibration as calibrate
from sfumato.privacy.accounting import composition, pld
from sfumato.privacy.accounting.losses import Flips, GaussianNoise, LaplaceNoise, Pure, Sampled
from sfumato.privacy.accounting.running_composition import Running

DELTA, RUNS, MOST = 1e-6, 5, 20_000
CASES = {
    "100 x Gaussian, sigma 40": [(GaussianNoise(Fraction(1600)), 100)],
    "4 cells of Gaussian, sigma 8.5": [(GaussianNoise(Fraction(289, 4), 1, 4), 1)],
    "1000 x Laplace, scale 65": [(LaplaceNoise(Fraction(65)), 1000)],
    "500 x randomized response, p 0.49": [(Flips(Fraction(49, 100)), 500)],
    "1000 x Gaussian, sigma 4, sample of 1 %": [(Sampled(0.01, GaussianNoise(Fraction(16))), 1000)],
    "Laplace, Gaussian and pure, 100 each": [
        (LaplaceNoise(Fraction(60)), 100),
        (GaussianNoise(Fraction(2500)), 100),
        (Pure(0.01), 100),
    ],
}


def ours(losses, method="pld"):
    for cached in (
        pld._sides,
        pld.on_grid,
        calibrate._epsilon,
        calibrate.variance_delta,
    ):
        cached.cache_clear()
    accountant = Accountant(method)
    for loss, count in losses:
        accountant.compose(loss, count)
    return accountant.epsilon(DELTA)


def of_peer(loss, library):
    """The privacy loss distribution of one loss, by dp-accounting."""
    if isinstance(loss, Sampled):
        return library.from_discrete_gaussian_mechanism(
            float(loss.of.variance) ** 0.5, loss.of.change, sampling_prob=loss.rate
        )
    if isinstance(loss, GaussianNoise):
        one = library.from_discrete_gaussian_mechanism(float(loss.variance) ** 0.5, loss.change)
        return one.self_compose(loss.cells)
    if isinstance(loss, LaplaceNoise):
        return library.from_discrete_laplace_mechanism(float(1 / loss.scale), loss.change)
    if isinstance(loss, Flips):
        return library.from_randomized_response(2 * float(loss.probability), 2)
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    return library.from_privacy_parameters(DifferentialPrivacyParameters(loss.epsilon))


def peer(losses):
    from dp_accounting.pld import privacy_loss_distribution as library

    total = None
    for loss, count in losses:
        each = of_peer(loss, library).self_compose(count)
        total = each if total is None else total.compose(each)
    return total.get_epsilon_for_delta(DELTA)


def timed(work, *arguments):
    work(*arguments)
    seconds = []
    for _ in range(RUNS):
        start = time.perf_counter()
        epsilon = work(*arguments)
        seconds.append(time.perf_counter() - start)
    return dict(epsilon=epsilon, seconds=statistics.median(seconds))


def row(name):
    losses = CASES[name]
    plain = sum(loss.epsilon * count for loss, count in losses)
    found = dict(
        name=name,
        ours=timed(ours, losses),
        rdp=ours(losses, "rdp"),
        peer=timed(peer, losses),
        plain_sum=plain if plain < float("inf") else None,
    )
    mine, theirs = found["ours"], found["peer"]
    print(
        f"{name:<42} {mine['epsilon']:.5f} in {mine['seconds']:.3f} s, dp-accounting "
        f"{theirs['epsilon']:.5f} in {theirs['seconds']:.3f} s, rdp {found['rdp']:.4f}"
    )
    return found


def next_charge():
    """Seconds to check and store one more charge after 1000, a new process's caches being empty."""
    losses = [LaplaceNoise(Fraction(60)), Pure(0.015), Flips(Fraction(498, 1000))]
    seconds = []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as folder:
            ledger = Ledger(Path(folder) / "bench.ledger")
            ledger.create("d", epsilon=20, delta=DELTA)
            for k in range(1000):
                ledger.charge("d", losses[k % 3], "bench")
            ours([])
            start = time.perf_counter()
            ledger.charge("d", 0.0123, "the next one")
            seconds.append(round(time.perf_counter() - start, 4))
            ledger.close()
    print(f"one more charge after 1000: {seconds} s")
    return seconds


def different(k, pure):
    """Losses of which no two are alike: pure, Laplace and, with a delta, Gaussian."""
    kinds = [Pure(0.008 + 1e-7 * k), LaplaceNoise(120 + Fraction(k, 1000))]
    return (kinds if pure else [*kinds, GaussianNoise(10_000 + Fraction(k, 10))])[
        k % (2 if pure else 3)
    ]


def clock(work, *arguments):
    wall, cpu = time.perf_counter(), time.process_time()
    work(*arguments)
    return 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - wall)


def growing(pure):
    """Milliseconds of a charge and of `remaining` as a ledger grows to 20,000 different losses."""
    found = dict(budget="pure" if pure else f"delta {DELTA}", charges=[])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.ledger"
        ledger = Ledger(path)
        ledger.create("d", epsilon=1000, delta=0 if pure else DELTA)
        spans, lowered, before = [], 0, 0.0
        for k in range(MOST):
            spans.append(clock(ledger.charge, "d", different(k, pure), "bench"))
            if k + 1 in (10, 1000, MOST):
                # Of the charges around that one, as single ones are at the mercy of the machine.
                cpu, wall = (statistics.median(each) for each in zip(*spans[-9:], strict=True))
                left = statistics.median(clock(ledger.remaining, "d")[1] for _ in range(5))
                row = dict(charge=k + 1, cpu_ms=cpu, wall_ms=wall, remaining_ms=left)
                found["charges"].append({name: round(each, 3) for name, each in row.items()})
            if k % 100 == 0:
                lowered += ledger.spent("d").epsilon < before
                before = ledger.spent("d").epsilon
        found["slowest_cpu_ms"] = round(max(cpu for cpu, _ in spans), 1)
        found["lowered"] = lowered
        spent = ledger.spent("d").epsilon
        ledger.close()
        found["file_mb"] = round(path.stat().st_size / 1e6, 1)
        again = []
        found["open_ms"] = round(clock(lambda: again.append(Ledger(path)))[1], 1)
        found["first_charge_ms"] = round(clock(again[0].charge, "d", 0.01, "bench")[1], 1)
        found["verify_s"] = round(clock(again[0].verify)[1] / 1e3, 2)
    found["epsilon"] = spent
    cheap = Counter(_cheaper(different(k, pure)) for k in range(MOST))
    floor = composition.pure_sum(cheap) if pure else Running.of(cheap).epsilon(DELTA)
    found["above_a_lower_bound"] = round(spent / floor - 1, 5)
    print(found)
    return found


def _cheaper(loss):
    """A loss that costs up to 1/512 less, for a lower bound on the composition."""
    if isinstance(loss, Pure):
        return Pure(float(composition._floor(Fraction(loss.epsilon), 10)))
    name = "scale" if isinstance(loss, LaplaceNoise) else "variance"
    return replace(loss, **{name: -composition._floor(-getattr(loss, name), 10)})


def main():
    rows = [row(name) for name in CASES]
    found = {"delta": DELTA, "rows": rows, "next_charge_seconds": next_charge()}
    write("accounting", {**found, "growing": [growing(pure) for pure in (True, False)]})


if __name__ == "__main__":
    main()
