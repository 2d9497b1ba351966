"""How often the hashes of a family collide, held against the kernel that it states."""

import numpy as np
from scipy.stats import binom

from sfumato.sketch.lsh.base import Draw


def frequencies(family, some, others, *, rows=2048, seeds=range(4), strata="independent"):
    """The share of rows and seeds in which point i of `some` has the code of i of `others`."""
    here, there = family.read("test", some), family.read("test", others)
    equal = 0
    for seed in seeds:
        draw = Draw(rows, seed, strata)
        every = slice(0, rows)
        equal += (family.codes(here, draw, every) == family.codes(there, draw, every)).sum(axis=1)
    return equal / (rows * len(seeds))


def assert_collides_by_kernel(family, some, others, *, rows=2048, seeds=range(4), chance=1e-7):
    """Each count of collisions is binomial: beyond these quantiles with p <= 2 * chance a pair."""
    exact = np.diagonal(family.kernel(some, others))
    trials = rows * len(seeds)
    result = np.rint(frequencies(family, some, others, rows=rows, seeds=seeds) * trials)
    assert (result >= binom.ppf(chance, trials, exact)).all(), (result / trials, exact)
    assert (result <= binom.isf(chance, trials, exact)).all(), (result / trials, exact)
