"""The physical shuffle moves every row as a whole, all over the table, each time elsewhere."""

import numpy as np
import pytest

from sfumato.kernels.recommend import sgd_dense as shuffle
from sfumato.recommend.factorization.passes import FEW, ShuffledRatings


def numbered(size):
    """Rows whose three columns tell the same number."""
    number = np.arange(size)
    return ShuffledRatings(
        number.astype(np.uint64), number.astype(np.int32), number.astype(np.float32)
    )


def test_dealing_gives_each_pile_one_row_of_each_group():
    size, piles = 16 * 50, shuffle.PILES
    columns = numbered(size).columns
    out = tuple(np.full_like(column, 7) for column in columns)
    words = np.random.default_rng(1).integers(2**64, size=50, dtype=np.uint64)
    shuffle.deal(*columns, words, *out)
    group_of = out[1].reshape(piles, 50) // piles
    assert (group_of == np.arange(50)).all()
    assert sorted(out[1]) == list(range(size))


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, FEW - 1, FEW, FEW + 1, 50_003])
def test_a_shuffle_is_a_permutation_of_whole_rows(size):
    rows, random = numbered(size), np.random.default_rng(size)
    for _ in range(3):
        rows.shuffle(random)
        users, items, ratings = rows.columns
        assert (np.sort(items) == np.arange(size)).all()
        assert (users == items).all()
        assert (ratings == items).all()


def test_rows_move_all_over_the_table_and_differently_every_time():
    # Fixed points of a random order are Poisson(1): above 15 with p < 1e-12. Places have a
    # correlation of deviation 0.0045, so 0.03 is passed with p < 1e-10; one deal alone leaves 1/16.
    rows, random = numbered(50_000), np.random.default_rng(3)
    orders = [np.arange(50_000)]
    for _ in range(4):
        rows.shuffle(random)
        orders.append(rows.columns[1].copy())
    for one in range(5):
        for other in range(one):
            assert (orders[one] == orders[other]).sum() <= 15
            places = np.argsort(orders[one]), np.argsort(orders[other])
            allowed = 0.03 if one - other > 1 or other == 0 else 1 / 16 + 0.03
            assert abs(np.corrcoef(*places)[0, 1]) < allowed


def test_parts_are_all_rows_once():
    rows = numbered(1001)
    parts = rows.parts(3)
    assert [part[0].size for part in parts] == [333, 334, 334]
    assert (np.concatenate([part[1] for part in parts]) == np.arange(1001)).all()
