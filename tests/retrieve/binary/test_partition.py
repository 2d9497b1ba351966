"""Cells of an index: the answers of a full scan where they are probed, and the recall promised."""

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.retrieve import BinaryIndex, learned, load, tight_frame
from sfumato.retrieve.binary.partition import CellPartition, cells_for
from sfumato.retrieve.binary.search import Probed, SearchPlan, search
from sfumato.retrieve.binary.store import allowed_bits

RNG = np.random.default_rng(3)
CENTRES = RNG.normal(size=(40, 12))
KINDS = {
    "default": dict(),
    "kept": dict(keep_vectors=True),
    "inner": dict(metric="inner", keep_vectors=True),
    "lifted": dict(metric="inner", encoder="tight_frame"),
    "learned": dict(encoder=learned(192)),
}


def world(count, seed):
    """Vectors around forty centres."""
    rng = np.random.default_rng(seed)
    noise = 0.4 * rng.normal(size=(count, 12))
    return (CENTRES[rng.integers(40, size=count)] + noise).astype(np.float32)


def celled(count=2000, cells=16, **options):
    if not isinstance(options.get("encoder", ""), str):
        return BinaryIndex(partitions=cells, **options).add(np.arange(count), world(count, 1))
    return BinaryIndex(128, partitions=cells, **options).add(np.arange(count), world(count, 1))


def in_cells(index, queries, k, scan, rerank, probes, mask=None):
    """A search through the chains of cells even where all of them are probed."""
    now = index._now
    scan = now.fitted.scan_for(scan, rerank, cells=True)
    plan = SearchPlan(k, 300, scan, rerank, Probed(now.partition, probes))
    alive = allowed_bits("test", mask, now.rows.stored)
    return search(now.rows.stored, now.fitted, queries, plan, alive)


@pytest.mark.parametrize("name", KINDS)
def test_probing_every_cell_answers_as_a_scan_of_all_codes(name):
    index = celled(**KINDS[name])
    queries, options = world(20, 2), [("asymmetric", None), ("asymmetric", "asymmetric")]
    options += [("hamming", None)] if name in ("default", "kept", "lifted") else []
    options += [("asymmetric", "exact")] if index.keep_vectors else []
    for scan, rerank in options:
        theirs = index.search(queries, 10, shortlist=300, scan=scan, rerank=rerank, probes=16)
        ours = in_cells(index, queries, 10, scan, rerank, 16)
        # Leading bits of learned codes find another short-list, of which the best are the same.
        assert np.array_equal(ours[1], theirs[1])
        assert np.array_equal(ours[0], theirs[0])


def test_cells_hold_the_recall_that_was_chosen():
    # Seeds are fixed; with probes=1 instead the first assertion fails (0.7 are found).
    index, queries = celled(20_000, 64, keep_vectors=True, recall=0.95), world(400, 5)
    everything = index.search(queries, 10, rerank="exact", probes=64, shortlist=2000)[1]
    found = index.search(queries, 10, rerank="exact")[1]
    shared = [np.intersect1d(a, b).size for a, b in zip(everything, found, strict=True)]
    assert np.mean(shared) / 10 > 0.92
    counts = [index.probes_for(recall) for recall in (0.5, 0.9, 0.95, 0.999)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] < 20


def test_a_row_added_later_is_in_the_cell_of_its_vector():
    index, late = celled(keep_vectors=True), world(50, 9)
    index.add(np.arange(5000, 5050), late)
    assert (index.search(late, 1, rerank="exact", probes=1)[1][:, 0] == np.arange(5000, 5050)).all()
    for i, vector in enumerate(late):  # one by one, into blocks with room and into new ones
        index.add([6000 + i], [vector * 2])
    pairs = np.sort(index.search(late, 2, rerank="exact", probes=1)[1], axis=1)
    assert (pairs == np.arange(50)[:, None] + [5000, 6000]).all()


def test_removed_and_filtered_rows_are_in_no_cell():
    index, queries = celled(keep_vectors=True), world(30, 4)
    best = np.unique(index.search(queries, 3, rerank="exact", probes=4)[1])
    index.remove(best)
    found = index.search(queries, 10, rerank="exact", probes=4)[1]
    assert not np.isin(found, best).any()
    mask = index.mask(np.arange(0, 2000, 7))
    found = index.search(queries, 10, rerank="exact", probes=4, filter=mask)[1]
    assert (found[found >= 0] % 7 == 0).all()
    before = index.search(queries, 10, rerank="exact", probes=4)
    after = index.compact().search(queries, 10, rerank="exact", probes=4)
    assert np.array_equal(before[1], after[1])
    assert len(index) == 2000 - best.size


def test_cells_are_learned_anew_once_there_are_four_times_as_many_rows():
    index = BinaryIndex(64, partitions=8, keep_vectors=True)
    index.add(np.arange(7), world(7, 0))
    assert index._now.partition is None
    index.add(np.arange(7, 100), world(93, 1))
    first = index._now.partition
    index.add(np.arange(100, 390), world(290, 2))
    assert index._now.partition is first
    index.add(np.arange(390, 500), world(110, 3))
    assert index._now.partition is not first
    assert sorted(index.ids) == list(range(500))
    own = index.search(index.vectors(np.arange(500)), 1, rerank="exact", probes=1)[1][:, 0]
    assert (own == np.arange(500)).mean() > 0.99


def test_codes_alone_are_enough_to_learn_cells_anew():
    index = celled(200, 8)
    index.add(np.arange(200, 1000), world(800, 6))
    assert index._now.partition.rows == 1000
    found = index.search(world(200, 1), 1, probes=2)[1][:, 0]
    assert (found == np.arange(200)).mean() > 0.9


def test_a_reader_keeps_its_rows_while_cells_grow():
    index, queries = celled(keep_vectors=True), world(20, 2)
    now, stored = index._now, index._now.rows.stored
    plan = SearchPlan(10, 100, "asymmetric", "exact", Probed(now.partition, 5))
    before = search(stored, now.fitted, queries, plan, stored.alive)
    index.add(np.arange(2000, 6000), np.concatenate([queries] * 200))
    index.remove(before[1][:, 0])
    after = search(stored, now.fitted, queries, plan, stored.alive)
    assert all(map(np.array_equal, before, after))


@pytest.mark.parametrize("name", ["default", "learned"])
def test_a_file_keeps_cells_and_grows(name, tmp_path):
    index, queries = celled(**KINDS[name]).remove([5, 900]), world(20, 2)
    index.save(tmp_path / "a.index")
    again = load(tmp_path / "a.index")
    assert again.probes_for(0.9) == index.probes_for(0.9)
    assert again.partitions == 16
    for probes in (1, 5, 16):
        both = [each.search(queries, 10, probes=probes) for each in (index, again)]
        assert np.array_equal(both[0][0], both[1][0])
    for each in (index, again):
        each.add(np.arange(3000, 3100), world(100, 7))
    assert np.array_equal(sorted(index.ids), sorted(again.ids))
    both = [each.search(queries, 10, probes=3)[0] for each in (index, again)]
    assert np.array_equal(*both)


def test_the_number_of_cells_follows_the_rows():
    counts = [cells_for("auto", rows) for rows in (19_999, 20_000, 60_000, 10**6, 10**8)]
    assert counts == [1, 256, 256, 2048, 16384]
    assert [cells_for(None, 10**6), cells_for(50, 49), cells_for(50, 50)] == [1, 1, 50]


def test_the_leading_words_have_the_longest_atoms():
    rows = RNG.normal(size=(3000, 12)) * 0.5 ** np.arange(12)
    encoder = learned(256).fit(rows)
    squares = np.square(encoder.atoms_).sum(axis=1)
    leading = encoder.leading_words
    assert 1 <= leading < 4
    assert squares[: 64 * leading].sum() >= 0.98 * squares.sum()
    assert squares[: 64 * (leading - 1)].sum() < 0.98 * squares.sum()
    assert tight_frame(256).fit(rows).leading_words == 4


def test_points_between_equal_cells_go_to_the_first():
    cells = CellPartition(np.array([[1.0, 0], [1, 0], [0, 1]], np.float32), np.ones(3), 3)
    assert cells.assign(np.array([[1, 0], [0, 1], [1, 1]], np.float32)).tolist() == [0, 2, 0]
    assert cells.cells(np.array([[0.0, 1]], np.float32), 2).tolist() == [[2, 0]]


def test_wrong_parameters_are_named():
    for partitions in (0, "many", 2.5, True):
        with pytest.raises(ParameterError, match="partitions must be"):
            BinaryIndex(partitions=partitions)
    with pytest.raises(ParameterError, match="recall must be a number between 0 and 1"):
        BinaryIndex(partitions=4, recall=1.0)
    with pytest.raises(ParameterError, match="probes must be"):
        celled(100, 4).search(world(1, 0), probes=0)
