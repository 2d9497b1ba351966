"""Baskets are the same from every container: numbered by frequency, repeats once, empty ones in."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from sfumato.errors import NullValueError, ParameterError
from sfumato.mine.itemsets import Baskets

NUMBERS = [[3, 1, 3], [], [1], [7, 1, 3]]
TEXTS = [["rum", "tea", "rum"], [], ["tea"], ["milk", "tea", "rum"]]


def content(baskets):
    """The ids of each basket, by code."""
    chunks = list(baskets.read())
    return [
        baskets.items[chunk.items[start:end]].tolist()
        for chunk in chunks
        for start, end in zip(chunk.offsets[:-1], chunk.offsets[1:], strict=True)
    ]


def containers(lists):
    flat = [item for basket in lists for item in basket]
    offsets = np.cumsum([0, *map(len, lists)])
    rows = np.repeat(np.arange(len(lists)), np.diff(offsets))
    kind = pa.string() if isinstance(flat[0], str) else pa.int32()
    arrow = pa.array(lists, pa.list_(kind))
    return {
        "lists": lists,
        "tuples": [tuple(basket) for basket in lists],
        "generator": (iter(basket) for basket in lists),
        "arrays": [np.array(basket, np.array(flat).dtype) for basket in lists],
        "Arrow": arrow,
        "large Arrow": pa.array(lists, pa.large_list(kind)),
        "sliced Arrow": pa.array([[flat[0]], *lists], pa.list_(kind))[1:],
        "chunked Arrow": pa.chunked_array([arrow[:1], arrow[1:3], arrow[3:]]),
        "dictionary Arrow": pa.ListArray.from_arrays(
            offsets, pa.array(flat, kind).dictionary_encode()
        ),
        "polars": pl.Series(lists),
        "pandas": pd.Series(lists),
        "CSR": (offsets, np.array(flat)),
        "long": rows,
    }


@pytest.mark.parametrize("name", list(containers(NUMBERS)))
@pytest.mark.parametrize("lists", [NUMBERS, TEXTS], ids=["integers", "texts"])
def test_every_container_gives_the_same_baskets(lists, name):
    given = containers(lists)[name]
    want = content(Baskets(lists))
    if name == "long":
        flat = [item for basket in lists for item in basket]
        table = pa.table({"basket": given, "item": flat}).take([4, 0, 1, 3, 2, 5, 6])
        made, want = Baskets.from_table(table), [want[2], want[0], want[3]]
        want = sorted(want)
        assert sorted(content(made)) == want
        return
    made = Baskets(given)
    assert content(made) == want
    assert made.items.tolist() == ([1, 3, 7] if lists is NUMBERS else ["tea", "rum", "milk"])
    assert made.item_counts.tolist() == [3, 2, 1]
    assert made.size == len(made) == 4


def test_a_sparse_matrix_has_columns_as_items_and_no_stored_zeros():
    matrix = sparse.csr_array(np.array([[0, 2, 0, 1], [0, 0, 0, 0], [0, 1, 0, 0]]))
    matrix.data[1] = 0
    for each in (matrix, matrix.tocsc(), sparse.csr_matrix(matrix)):
        made = Baskets(each)
        assert made.items.tolist() == [1]
        assert content(made) == [[1], [], [1]]


def test_codes_fall_in_count_and_rise_in_id_and_wide_integers_are_coded_too():
    wide = [2**62, -(2**62), 5]
    made = Baskets([[wide[0], wide[1]], [wide[2]], [wide[2], wide[1]], [wide[0]]])
    assert made.items.tolist() == [wide[1], wide[2], wide[0]]
    assert made.item_counts.tolist() == [2, 2, 2]
    assert made.frequent(2) == 3
    assert made.frequent(3) == 0


@pytest.mark.parametrize("size", [1, 60, 100, 10**6])
def test_chunks_are_bounded_and_complete(size):
    rng = np.random.default_rng(1)
    lists = [rng.integers(0, 30, rng.integers(0, 9)).tolist() for _ in range(50)]
    made = Baskets(lists)
    joined = np.concatenate([np.diff(chunk.offsets) for chunk in made.read(chunk_bytes=size)])
    np.testing.assert_array_equal(joined, [len(set(basket)) for basket in lists])
    for chunk in made.read(chunk_bytes=size):
        assert chunk.offsets.size == 2 or chunk.offsets.nbytes - 8 + chunk.items.nbytes <= size


def test_max_code_leaves_rare_items_out_and_baskets_in():
    made = Baskets(NUMBERS)
    (chunk,) = made.read(max_code=2)
    assert chunk.items.tolist() == [0, 1, 0, 0, 1]
    assert chunk.offsets.tolist() == [0, 2, 2, 3, 5]


def test_passes_and_bytes_are_counted():
    made = Baskets(NUMBERS)
    assert made.passes == 1
    list(made.read())
    list(made.read(max_code=1))
    assert made.passes == 3
    (chunk,) = made.read()
    assert made.nbytes >= chunk.offsets.nbytes + chunk.items.nbytes
    assert "items=3" in repr(made)


@pytest.mark.parametrize("nothing", [[], [[]], [[], []], pa.array([], pa.list_(pa.string()))])
def test_no_items_are_no_fault(nothing):
    made = Baskets(nothing)
    assert made.size == len(nothing)
    assert made.items.size == 0
    assert content(made) == [[] for _ in nothing]


@pytest.mark.parametrize(
    ("baskets", "kind", "words"),
    [
        ([[1], [2, True]], TypeError, "basket 1 has an item of type bool"),
        ([[1, "tea"]], TypeError, "items"),
        ([[1.5]], TypeError, "items"),
        ([[1], None], TypeError, "basket 1 is null"),
        ([[1], "tea"], TypeError, "basket 1 is str"),
        (["tea", "rum"], TypeError, "basket 0 is str"),
        ([[1], 2], TypeError, "basket 1 is int"),
        ([["tea", None]], (TypeError, ValueError), "items"),
        ("tea", TypeError, "read_baskets"),
        ({"basket": [1]}, TypeError, "from_table"),
        (pa.table({"basket": [1]}), TypeError, "from_table"),
        (7, TypeError, "cannot be read from int"),
        (pa.array([1, 2]), TypeError, "column of lists"),
        (pa.array([[1], None]), NullValueError, "basket 1 is null"),
        (pa.array([[1], [2, None]]), NullValueError, "basket 1 has a null item"),
        ((np.array([0, 3]), np.array([1, 2])), ValueError, "offsets"),
        ((np.array([0, 2, 1, 2]), np.array([1, 2])), ValueError, "offsets"),
        ([[2**63]], ValueError, "2\\*\\*63"),
    ],
)
def test_what_is_no_basket_is_refused_with_its_position(baskets, kind, words):
    with pytest.raises(kind, match=words):
        Baskets(baskets)


def test_limits_of_reading_are_checked():
    made = Baskets(NUMBERS)
    for name, value in (("chunk_bytes", 0), ("max_code", -1), ("chunk_bytes", True)):
        with pytest.raises(ParameterError, match=name):
            next(made.read(**{name: value}))
    assert made.passes == 1
