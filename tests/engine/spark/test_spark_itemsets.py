"""Frequent itemsets of baskets in partitions: those of one machine, on any engine."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine
from sfumato.errors import NullValueError, ParameterError
from sfumato.mine.itemsets import frequent_itemsets
from sfumato.mine.itemsets.methods import engine_son

FILES = 5


def drawn_baskets():
    """Items of unequal frequency, some of them together, with repeats and empty baskets."""
    rng = np.random.default_rng(5)
    rates = np.geomspace(0.4, 0.002, 60)
    baskets = [np.flatnonzero(row).tolist() for row in rng.random((1200, 60)) < rates]
    for basket in baskets[::4]:
        basket += [7, 30, 59, 7]
    baskets[::100] = [[] for _ in baskets[::100]]
    return baskets


BASKETS = {
    "integers": drawn_baskets(),
    "texts": [[f"item {item}" for item in basket] for basket in drawn_baskets()],
}


@pytest.fixture(params=["one thread", "threads", "spark"])
def engine(request):
    if request.param == "spark":
        return request.getfixturevalue("spark")
    return LocalEngine(threads=1 if request.param == "one thread" else 3)


@pytest.fixture(scope="module", params=BASKETS)
def written(request, tmp_path_factory):
    """Baskets, and the paths of files of unequal size that hold them."""
    folder, baskets = tmp_path_factory.mktemp("baskets"), BASKETS[request.param]
    ends = [0, 2, 700, 705, 1190, len(baskets)]
    for at in range(FILES):
        part = pa.table(
            {"items": baskets[ends[at] : ends[at + 1]], "day": [0] * (ends[at + 1] - ends[at])}
        )
        pq.write_table(part, folder / f"{at}.parquet")
    return baskets, [str(folder / f"{at}.parquet") for at in range(FILES)]


def assert_equal(found, expected):
    assert found.to_list() == expected.to_list()
    assert found.items.tolist() == expected.items.tolist()
    assert (found.n_baskets, found.min_count) == (expected.n_baskets, expected.min_count)
    assert all(
        mine.dtype == theirs.dtype
        for level, other in zip(found.levels, expected.levels, strict=True)
        for mine, theirs in zip(level, other, strict=True)
    )


@pytest.mark.parametrize(
    ("min_support", "options"),
    [
        (0.05, {}),
        (30, {"max_size": 2}),
        (40, {"chunk_baskets": 90}),
        (3, {"max_size": 3}),  # below the least count of a chunk: all baskets are mined as one
    ],
)
def test_itemsets_are_those_of_one_machine(engine, written, min_support, options):
    baskets, paths = written
    size = options.get("max_size")
    expected = frequent_itemsets(baskets, min_support, method="son", max_size=size)
    found = frequent_itemsets(paths, min_support, engine=engine, **options)
    assert_equal(found, expected)
    assert len(found) > 50
    by_eclat = frequent_itemsets(baskets, min_support, max_size=size)
    assert sorted(found.to_list()) == sorted(by_eclat.to_list())


def test_chunks_of_a_partition_are_not_smaller_than_their_least(written, monkeypatch):
    _, paths = written
    sizes = []
    mine = engine_son.local_candidates
    monkeypatch.setattr(
        engine_son,
        "local_candidates",
        lambda chunk, *rest: sizes.append(chunk.offsets.size - 1) or mine(chunk, *rest),
    )
    frequent_itemsets(paths, 40, engine=LocalEngine(threads=3), chunk_baskets=90)
    assert sum(sizes) == 1200
    assert 90 <= min(sizes) <= max(sizes) < 180


def test_no_basket_or_no_frequent_item_is_no_itemset(engine, tmp_path):
    path = str(tmp_path / "empty.parquet")
    pq.write_table(pa.table({"items": pa.array([[], []], pa.list_(pa.string()))}), path)
    found = frequent_itemsets(path, 0.5, engine=engine)
    assert len(found) == 0
    assert found.n_baskets == 2


def test_passes_are_explained(written):
    _, paths = written
    found = frequent_itemsets(paths, 0.05, engine=LocalEngine(), explain=True)
    assert [each["pass"] for each in found.explain] == [1, 2, 3]
    assert found.explain[0]["candidates"] == 60
    assert found.explain[2]["frequent"] == len(found) - found.levels[0][1].size


def test_a_null_basket_is_refused(engine, tmp_path):
    path = str(tmp_path / "null.parquet")
    pq.write_table(pa.table({"items": [["tea"], None]}), path)
    with pytest.raises(NullValueError, match="null"):
        frequent_itemsets(path, 1, engine=engine)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"method": "eclat"}, "method must be 'auto' or 'son' with an engine, not 'eclat'"),
        ({"memory_limit": 1 << 30}, "memory_limit must be None with an engine"),
        ({"chunk_baskets": 0}, "chunk_baskets must be"),
    ],
)
def test_what_an_engine_cannot_do_is_refused(written, options, problem):
    with pytest.raises(ParameterError, match=problem):
        frequent_itemsets(written[1], 40, engine=LocalEngine(), **options)
    with pytest.raises(TypeError, match="there is no option 'buckets' with an engine"):
        frequent_itemsets(written[1], 40, engine=LocalEngine(), buckets=8)
