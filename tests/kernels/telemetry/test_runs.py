"""Runs: what is found in a sorted run is what is in it."""

import numpy as np
import pytest

from sfumato.kernels.telemetry import marks as runs


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 100, 5000])
@pytest.mark.parametrize("queries", [0, 1, 2, 9, 300])
def test_numbers_are_found_where_they_are(size, queries):
    draw = np.random.default_rng(size)
    for top in (3, 50, 20_000, 2**64 - 1):
        run, wanted = (
            np.sort(draw.integers(0, top, rows, np.uint64, endpoint=True))
            for rows in (size, queries)
        )
        if size and queries:
            wanted = np.sort(np.append(wanted, [run[0], run[-1], run[size // 2]]))
        out = np.ones(wanted.size, bool)
        runs.among(run, wanted, out)
        assert out.tolist() == np.isin(wanted, run).tolist()
