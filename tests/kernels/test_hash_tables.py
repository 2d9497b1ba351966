"""The table of places finds the last row that an id was given, and nothing else."""

import numpy as np
import pytest

from sfumato.kernels import hash_tables as places


@pytest.mark.parametrize("fill", [0, 1, 40, 63])
def test_a_table_is_what_a_dict_is(fill):
    # 63 ids in 64 cells: nearly every search walks, and ends at the only free cell.
    rng = np.random.default_rng(fill)
    keys, values = np.full(64, -1, np.int64), np.empty(64, np.int64)
    ids = rng.permutation(2**62 - np.arange(200))[:fill]
    model = {}
    for part in np.array_split(ids, 3):
        rows = rng.integers(0, 1000, part.size)
        assert places.put(part, rows, keys, values) == part.size
        model |= dict(zip(part.tolist(), rows.tolist(), strict=True))
    again = ids[::2]
    assert places.put(again, np.arange(again.size), keys, values) == 0
    model |= dict(zip(again.tolist(), range(again.size), strict=True))
    queries = np.concatenate([ids, 2**62 - np.arange(200), [0, 1, 2**63 - 1]])
    out = np.empty(queries.size, np.int64)
    places.find(keys, values, queries, out)
    assert out.tolist() == [model.get(each, -1) for each in queries.tolist()]
