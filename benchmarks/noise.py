"""Speed of exact noise beside peers and the machine's ceiling, and noise on a very large sketch.

    python benchmarks/noise.py    writes benchmarks/results/noise.json

A figure is the median of all runs of three rounds, one thread. The ceiling is the rate of random
words by AES in counter mode, measured right before, over the words that a number takes. OpenDP runs
where it is installed; numpy's floats, rounded, are fast and not private.
"""

import resource
import time
from fractions import Fraction

import numpy as np
from _measure import peer, rate, show, together, write

from sfumato.privacy.noise.discrete import (
    add_gaussian,
    add_laplace,
    discrete_gaussian,
    discrete_laplace,
)
from sfumato.privacy.noise.tables import gaussian_sampler
from sfumato.privacy.random_source import SystemSource

SCALES = ["1", "10", "21/2", "1000", "2000", "20000"]
DRAWS, PEER_DRAWS = 1 << 22, 20_000
SHAPE = 2000, 100_000
LAWS = {"laplace": discrete_laplace, "gaussian": discrete_gaussian}


def words_a_number(law, scale):
    if law == "laplace":
        return 1 if scale <= 1024 else 2
    return 2 if gaussian_sampler(scale**2)._shift else 1


def aes_words():
    words, source = np.empty(1 << 14, np.uint64), SystemSource()
    return rate(lambda: [source.fill(words) for _ in range(64)], 64 * words.size)["median"]


def opendp(law, scale):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    if law == "gaussian":
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    noise = (dp.m.make_laplace if law == "laplace" else dp.m.make_gaussian)(*space, float(scale))
    zeros = [0] * PEER_DRAWS
    return lambda: noise(zeros)


def numpy_unsafe(law, scale):
    random = np.random.default_rng(0)
    draw = random.laplace if law == "laplace" else random.normal
    return lambda: np.rint(draw(0, float(scale), DRAWS)).astype(np.int64)


def figure(law, scale):
    ceiling = aes_words() / words_a_number(law, scale)
    peers = {
        "OpenDP": peer(lambda: opendp(law, scale), PEER_DRAWS),
        "numpy, not private": peer(lambda: numpy_unsafe(law, scale), DRAWS),
    }
    ours = rate(lambda: LAWS[law](scale, DRAWS), DRAWS)
    name = f"discrete {law.capitalize()}, scale {float(scale):g}"
    return show(dict(name=name, target=30, ours=ours, ceiling=ceiling, peers=peers))


def large():
    """Seconds for 2e8 cells, and the memory that was taken besides the cells."""
    rows = []
    cells = np.ones(SHAPE, np.int64)  # every page is there before the clock starts
    for name, add, scale in (
        ("Laplace, scale 8", add_laplace, 8),
        ("Gaussian, sigma 12", add_gaussian, 12),
        ("Gaussian, sigma 20,000", add_gaussian, 20_000),
    ):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds = []
        for _ in range(3):
            start = time.perf_counter()
            add(cells, scale)
            seconds.append(round(time.perf_counter() - start, 2))
        more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        rows.append(dict(name=name, seconds=seconds, target=10, extra_mib=round(more, 1)))
        print(f"{name:<28} 2e8 cells in {seconds} s, {more:.1f} MiB more", flush=True)
    return rows


def main():
    rounds = [[figure(law, Fraction(s)) for law in LAWS for s in SCALES] for _ in range(3)]
    rows = [show(row) for row in together(rounds)]
    write("noise", {"draws": DRAWS, "rows": rows, "shape": SHAPE, "large": large()})


if __name__ == "__main__":
    main()
