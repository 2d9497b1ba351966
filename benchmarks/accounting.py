"""Epsilon and time of composed losses beside dp-accounting, and of one more charge to a ledger.

    python benchmarks/accounting.py    writes benchmarks/results/accounting.json

Each composition is at delta 1e-6, timed from nothing in one process after one warm run of each
library. The baseline is the plain sum of epsilons (basic composition).
"""

import statistics
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from _measure import write

from sfumato.privacy import Accountant, Ledger, _product, calibrate
from sfumato.privacy.loss import Flips, GaussianNoise, LaplaceNoise, Pure, Sampled

DELTA, RUNS = 1e-6, 5
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
        _product._sides,
        _product.on_grid,
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
    print(f"one more charge after 1000: {seconds} s")
    return seconds


def main():
    rows = [row(name) for name in CASES]
    write("accounting", {"delta": DELTA, "rows": rows, "next_charge_seconds": next_charge()})


if __name__ == "__main__":
    main()
