"""Probes are the cheapest sets of steps, in order, and no set moves a hash twice."""

from itertools import combinations

import numpy as np
import pytest

from sfumato.kernels.retrieve.bucket_tables import probe

rng = np.random.default_rng(4)


def brute(costs, steps, hashes, count):
    """The sums of the cheapest sets that move no hash twice, the empty one first."""
    sets = [
        one
        for size in range(costs.size + 1)
        for one in combinations(range(costs.size), size)
        if len({i % hashes for i in one}) == size
    ]
    sets.sort(key=lambda one: sum(costs[i] for i in one))
    return [sum(int(steps[i]) for i in one) % 2**64 for one in sets[:count]]


@pytest.mark.parametrize(("hashes", "sides"), [(1, 1), (6, 1), (10, 1), (4, 2), (5, 2)])
@pytest.mark.parametrize("count", [2, 9, 40])
def test_probes_are_the_cheapest_sets(hashes, sides, count):
    costs = rng.random((3, 2, hashes * sides))
    steps = rng.integers(0, 2**63, costs.shape, dtype=np.uint64)
    keys = rng.integers(0, 2**63, (3, 2), dtype=np.uint64)
    out = np.empty((3, 2, count), np.uint64)
    probe(keys, costs, steps, hashes, out)
    for q in range(3):
        for t in range(2):
            sums = brute(costs[q, t], steps[q, t], hashes, count)
            expected = [(int(keys[q, t]) + change) % 2**64 for change in sums]
            expected += [int(keys[q, t])] * (count - len(expected))
            assert out[q, t].tolist() == expected
