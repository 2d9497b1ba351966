"""The ranking kernels: a step is the softmax gradient, negatives follow the items' counts."""

import numpy as np
import pytest

from sfumato.kernels.alignment import aligned
from sfumato.kernels.recommend import sgd_ranking
from sfumato.kernels.recommend.sgd_sketch_block import multipliers

RATES = np.array([0.1, -0.005, -0.004, -0.003], np.float32)  # step, and shrinkage of each side
SEED = np.uint64(7)


def alias(counts):
    counts = np.asarray(counts, np.int64)
    cut, other = np.empty(counts.size, np.uint64), np.empty(counts.size, np.int64)
    sgd_ranking.alias(counts, cut, other)
    return cut, other


def drawn(rows, cut, first, second, seed=SEED):
    out = np.empty((rows.size, sgd_ranking.NEGATIVES), first.dtype)
    sgd_ranking.draw(rows, seed, cut, first, second, out)
    return out


@pytest.mark.parametrize("counts", [[5, 0, 3, 1, 0, 11, 0], [4], [0, 2], [7] * 9, [1, 10**9, 1]])
def test_a_bucket_gives_every_item_exactly_its_share(counts):
    cut, other = alias(counts)
    mass = np.zeros(len(counts))
    np.add.at(mass, np.arange(len(counts)), cut / 2**32)
    np.add.at(mass, other, 1 - cut / 2**32)
    np.testing.assert_allclose(mass / len(counts), np.array(counts) / np.sum(counts), atol=1e-9)
    assert (mass[np.array(counts) == 0] == 0).all()


def test_negatives_follow_the_counts_and_depend_on_seed_and_row_alone():
    # 32 sigma^2 of 16,000 draws: a share differs by 0.016 with probability below 1e-4.
    counts = np.array([50, 0, 30, 10, 10])
    cut, other = alias(counts)
    codes = np.arange(5)
    rows = np.arange(1000, dtype=np.uint32)
    found = drawn(rows, cut, codes, codes[other])
    shares = np.bincount(found.ravel(), minlength=5) / found.size
    np.testing.assert_allclose(shares, counts / 100, atol=0.016)
    assert shares[1] == 0
    again = drawn(rows[::-1].copy(), cut, codes, codes[other])[::-1]
    np.testing.assert_array_equal(again, found)
    assert (drawn(rows, cut, codes, codes[other], np.uint64(8)) != found).any()


class Cells:
    """What kernels see of one entity, as dense vectors: reads and writes in plain numpy."""

    def __init__(self, depth, lanes, blocks, components):
        rng = np.random.default_rng(1)
        self.depth, self.lanes, self.blocks = depth, lanes, blocks
        self.width = 8 if depth else 16 * blocks
        size = depth * self.width * lanes + 16 if depth else 6 * self.width + 16
        self.table = aligned(size, np.float32)
        self.table[:] = rng.normal(0, 0.3, size)
        numbers = np.arange(components)
        self.at = numbers // lanes * 16 + numbers % lanes
        self.scale = np.zeros(16 * blocks, np.float32)
        self.scale[self.at] = 1 / max(depth, 1)
        self.keys = multipliers(max(depth, 1), blocks)

    def places(self, code):
        """Positions in the table and signs of an entity's numbers, one row for each of depth."""
        if not self.depth:
            return (int(code) * self.width + self.at)[None], np.ones((1, self.at.size))
        found, signs = [], []
        for r in range(self.depth):
            with np.errstate(over="ignore"):
                products = np.uint64(code) * self.keys[r]
            slots = (products >> np.uint64(32)) * np.uint64(self.width) >> np.uint64(32)
            start = (r * self.width + slots.astype(np.int64)) * self.lanes
            lane, block = self.at % 16, self.at // 16
            found.append(start[block] + lane)
            bits = products[block] >> (np.uint64(16) + lane.astype(np.uint64)) & np.uint64(1)
            signs.append(1 - 2.0 * bits.astype(int))
        return np.array(found), np.array(signs)

    def read(self, table, code):
        at, signs = self.places(code)
        return (table[at] * signs).mean(axis=0)

    def add(self, table, code, change):
        at, signs = self.places(code)
        for row, sign in zip(at, signs, strict=True):
            np.add.at(table, row, change * sign)  # blocks of one entity may collide


@pytest.mark.parametrize(
    ("depth", "lanes", "blocks", "components"),
    [(0, 16, 1, 15), (0, 16, 2, 31), (3, 16, 2, 31), (2, 8, 1, 7), (4, 8, 3, 20)],
)
def test_one_step_is_the_gradient_of_the_softmax(depth, lanes, blocks, components):
    cells = Cells(depth, lanes, blocks, components)
    user, item = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)) if depth else (0, 1)
    kind = np.uint64 if depth else np.int32
    codes = (
        np.array([item, 3, 4, 5], np.uint64).astype(kind) if depth else np.arange(1, 5, dtype=kind)
    )
    cut, other = alias([2, 1, 1, 3])
    rows = np.array([11], np.uint32)
    negatives = drawn(rows, cut, codes, codes[other])[0]
    before = cells.table.astype(np.float64)

    q = [cells.read(before, code) for code in (codes[0], *negatives)]
    x = cells.read(before, user)
    scores = np.array([x @ y for y in q])
    pulls = -np.exp(scores) / np.exp(scores).sum()
    pulls[0] += 1
    want = before.copy()
    for k, (code, y) in enumerate(zip((codes[0], *negatives), q, strict=True)):
        change = RATES[0] * pulls[k] * x + RATES[2 if k == 0 else 3] * y
        cells.add(want, code, change)
    cells.add(
        want, user, RATES[0] * sum(g * y for g, y in zip(pulls, q, strict=True)) + RATES[1] * x
    )

    kernel = sgd_ranking.ranker(blocks, depth, lanes)
    columns = np.array([user]).astype(kind), codes[:1].copy(), rows
    given = SEED, cut, codes, codes[other], cells.width, RATES, cells.scale
    kernel(*columns, *given, cells.table, cells.table)
    np.testing.assert_allclose(cells.table, want, atol=2e-6)
    changed = np.abs(want - before).max()
    assert changed > 0.01
    if depth:
        out = np.empty((1, 16 * blocks), np.float32)
        given = cells.table, cells.keys, cells.width, lanes, np.array([user]), cells.scale
        sgd_ranking.read(*given, out)
        np.testing.assert_allclose(out[0, cells.at], cells.read(want, user), atol=2e-6)


def test_counters_never_miss_a_row_and_stop_at_the_largest_byte():
    hashes = np.random.default_rng(2).integers(2**64, size=40, dtype=np.uint64)
    counters = np.zeros((2, 64), np.uint8)
    times = np.arange(1, 41)
    sgd_ranking.count(np.repeat(hashes, times), counters)
    out = np.empty(40, np.uint8)
    sgd_ranking.counts(hashes, counters, out)
    assert (out >= times).all()
    assert np.median(out - times) == 0
    sgd_ranking.count(np.repeat(hashes[:1], 400), counters)
    sgd_ranking.counts(hashes[:1], counters, out[:1])
    assert out[0] == sgd_ranking.MOST
