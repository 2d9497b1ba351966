"""Baskets of files equal those in memory, chunk by chunk, and files written are read again."""

import gzip
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import ParameterError
from sfumato.mine.itemsets import Baskets, frequent_itemsets, read_baskets

NUMBERS = [[20, 52, 38], [], [40, 22], [20, 22, 20], [-7, 20]]
TEXTS = [["tea", "whole milk"], [], ["rum"], ["tea", "rum", "tea"], ["crème"]]


def content(baskets, chunk_bytes=None):
    return [
        sorted(baskets.items[chunk.items[start:end]].tolist())
        for chunk in baskets.read(chunk_bytes)
        for start, end in zip(chunk.offsets[:-1], chunk.offsets[1:], strict=True)
    ]


def plain(lists):
    return [sorted(set(basket)) for basket in lists]


def saved(path, data):
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("chunk_bytes", [None, 1, 40])
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("a.dat", "20 52 38\n\n40 22 \n20  22 20\r\n-7 20"),
        ("a.csv", "20,52,38\n\n40, 22,,\n20,22,20\r\n-7,20\n"),
        ("a.tsv", "20\t52\t38\n\n40\t22\n20\t22\t20\n-7\t20\n"),
        ("a.flat", "20,52,38,-1,-1,40,22,-1,20,22,20,-1,\n-7,20,-1"),
        ("a.flat", "20 52 38 -1 -1 40 22 -1 20 22 20 -1 -7 20"),
    ],
)
def test_integers_of_text_files(tmp_path, name, lines, ending, chunk_bytes):
    baskets = read_baskets(saved(tmp_path / (name + ending), lines))
    assert content(baskets, chunk_bytes) == plain(NUMBERS)
    assert baskets.size == 5
    assert baskets.items.tolist() == [20, 22, -7, 38, 40, 52]


@pytest.mark.parametrize("chunk_bytes", [None, 1, 40])
@pytest.mark.parametrize("quote", ["", '"'])
def test_texts_of_lines(tmp_path, quote, chunk_bytes):
    rows = [",".join(f"{quote}{item}{quote}" for item in basket) for basket in TEXTS]
    baskets = read_baskets(saved(tmp_path / "a.csv", "\n".join(rows)))
    assert content(baskets, chunk_bytes) == plain(TEXTS)


def test_quotes_protect_separators(tmp_path):
    path = saved(tmp_path / "a.csv", 'tea,"milk, whole"\n"say ""so"""\n')
    assert content(read_baskets(path)) == [["milk, whole", "tea"], ['say "so"']]


def test_encoding_and_text_are_as_given(tmp_path):
    latin = saved(tmp_path / "a.csv", "crème;tea\ntea\n".encode("latin-1"))
    assert content(read_baskets(latin, separator=";", encoding="latin-1"))[0] == ["crème", "tea"]
    with pytest.raises(ValueError, match=r"line 1: not utf-8 text; name another encoding="):
        read_baskets(latin, separator=";").size  # noqa: B018
    numbers = saved(tmp_path / "b.csv", "007,7\n")
    assert content(read_baskets(numbers, text=True)) == [["007", "7"]]
    assert content(read_baskets(numbers)) == [[7]]


@pytest.mark.parametrize("lists", [NUMBERS, TEXTS], ids=["integers", "texts"])
def test_parquet_columns_of_lists(tmp_path, lists):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": range(5), "bought": lists}), path, row_group_size=2)
    for item in (None, "bought"):
        baskets = read_baskets(path, item=item)
        assert content(baskets) == content(baskets, 1) == plain(lists)


@pytest.mark.parametrize("chunk_bytes", [None, 1])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("lists", [NUMBERS, TEXTS], ids=["integers", "texts"])
def test_long_tables_in_order_and_in_disorder(tmp_path, lists, kind, chunk_bytes):
    rows = [(b, item) for b, basket in enumerate(lists) for item in basket]
    filled = [basket for basket in plain(lists) if basket]
    order = np.random.default_rng(0).permutation(len(rows))
    for name, some in (("ordered", rows), ("mixed", [rows[k] for k in order])):
        table = pa.table({"b": [b for b, _ in some], "i": [item for _, item in some]})
        path = tmp_path / f"{name}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=3)
        else:
            lines = [f"{b},{item}" for b, item in some]
            saved(path, "b,i\n" + "\n".join(lines) + "\n")
        baskets = read_baskets(path, basket="b", item="i")
        if name == "mixed":
            with pytest.warns(UserWarning, match="not sorted by 'b'"):
                assert baskets.size == len(filled)
        assert content(baskets, chunk_bytes) == filled


def test_a_basket_across_many_batches_stays_one(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"basket": [0] * 70_000 + [1] * 70_000, "item": [*range(70_000)] * 2}), path
    )
    baskets = read_baskets(path, basket="basket")
    assert [np.diff(chunk.offsets).tolist() for chunk in baskets.read(1)] == [[70_000], [70_000]]


@pytest.mark.parametrize("name", ["a.dat", "a.dat.gz", "a.csv", "a.flat", "a.flat.gz", "a.parquet"])
def test_baskets_written_are_read_again(tmp_path, name):
    path = tmp_path / name
    for lists in (NUMBERS, [[], []], NUMBERS[:1]):
        Baskets(lists).write(path)
        assert content(read_baskets(path)) == plain(lists)
    assert [each.name for each in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_texts_written_are_read_again(tmp_path, name):
    path = tmp_path / name
    Baskets(TEXTS).write(path)
    assert content(read_baskets(path)) == plain(TEXTS)


def test_what_a_format_cannot_hold_is_refused_and_leaves_the_file(tmp_path):
    path = saved(tmp_path / "a.dat", "1 2\n")
    for lists, format in (([["whole milk"]], "fimi"), ([["tea"]], "flat"), ([[-1]], "flat")):
        with pytest.raises(ParameterError, match="format"):
            Baskets(lists).write(path, format)
    with pytest.raises(ParameterError, match="lists"):
        Baskets([["a,b"]]).write(path, "lines")
    assert path.read_text() == "1 2\n"


def test_the_course_file_round_trips(tmp_path):
    text = "20,52,38,-1,40,22,-1,20,22,-1,"
    path = saved(tmp_path / "a.flat", text)
    copy = tmp_path / "b.flat"
    read_baskets(path).write(copy)
    assert content(read_baskets(copy)) == [[20, 38, 52], [22, 40], [20, 22]]
    Baskets(content(read_baskets(copy))).write(path)
    assert path.read_bytes() == copy.read_bytes()


@pytest.mark.parametrize("chunk_bytes", [None, 1, 40])
@pytest.mark.parametrize(
    "text", ["20,tea-1,38,-1,-1,40,tea,-1,-12,-1,", "20 tea-1 38 -1 -1 40 tea -1\n-12"]
)
def test_texts_of_a_file_with_end_marks(tmp_path, text, chunk_bytes):
    baskets = read_baskets(saved(tmp_path / "a.flat", text), text=True)
    expected = [["20", "38", "tea-1"], [], ["40", "tea"], ["-12"]]
    assert content(baskets, chunk_bytes) == expected
    assert read_baskets(saved(tmp_path / "b.flat", " ,"), text=True).size == 0


def test_progress_is_reported_in_every_pass_also_the_first(tmp_path):
    baskets = read_baskets(saved(tmp_path / "a.dat", "1 2\n2 3\n" * 1000))
    reports = []
    baskets.progress = lambda *report: reports.append(report)
    list(baskets.read(chunk_bytes=4096))
    assert reports[0] == (1, 2000, None)
    assert reports[-1] == (2, 2000, 2000)
    assert len(reports) > 2
    assert [done for _, done, _ in reports[1:]] == sorted(done for _, done, _ in reports[1:])


def test_each_pass_reads_the_file_again_and_holds_nothing(tmp_path):
    path = saved(tmp_path / "a.dat", "1 2\n2 3\n" * 1000)
    baskets = read_baskets(path)
    assert baskets.passes == 0
    assert "passes=0" in repr(baskets)
    assert baskets.size == 2000
    assert baskets.passes == 1
    found = frequent_itemsets(baskets, 0.5)
    assert dict(found.to_list()) == {
        (2,): 2000,
        (1,): 1000,
        (3,): 1000,
        (2, 1): 1000,
        (2, 3): 1000,
    }
    assert baskets.passes == 2
    assert baskets.nbytes < 50_000
    saved(path, "1 9\n")
    with pytest.raises(ValueError, match="has changed"):
        list(baskets.read())


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.flat", "1,2,-1,tea", "line 1: an item is not an integer"),
        ("a.dat", b"1 2\n" + b"\xff\xfe\n", "line 2: not utf-8 text"),
        ("a.dat", "1 " + "9" * 19 + "\n", None),
        ("a.dat.gz", b"no gzip", "damaged"),
        ("a.parquet", b"no parquet", "cannot be read as Parquet"),
    ],
)
def test_faults_name_file_and_line(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    if words is None:  # too long for an integer, so all are texts
        assert read_baskets(path).items.dtype == object
        return
    with pytest.raises(ValueError, match=words):
        read_baskets(path).size  # noqa: B018


def test_a_late_text_among_integers_is_refused(tmp_path):
    path = saved(tmp_path / "a.dat", "1 2\n" * 100 + "1 tea\n")
    baskets = read_baskets(path)
    with pytest.raises(ValueError, match=r"line 101: .*text=True"):
        list(baskets._source.chunks(64))
    assert "tea" in read_baskets(path, text=True).items


def test_parameters_are_checked(tmp_path):
    path = saved(tmp_path / "a.txt", "1 2\n")
    for options, words in (
        ({}, "format must be given"),
        ({"format": "arff"}, "format"),
        ({"format": "long"}, "basket"),
        ({"format": "lines", "separator": "ab"}, "separator"),
        ({"format": "lines", "encoding": "utf-16"}, "encoding"),
        ({"format": "lines", "encoding": "no such"}, "encoding"),
        ({"format": "fimi", "text": 1}, "text"),
    ):
        with pytest.raises(ParameterError, match=words):
            read_baskets(path, **options)
    with pytest.raises(FileNotFoundError, match="no file"):
        read_baskets(tmp_path / "none.dat")
    with pytest.raises(IsADirectoryError):
        read_baskets(tmp_path)
    assert read_baskets(path, format="fimi").size == 1


def test_an_empty_file_has_no_baskets(tmp_path):
    for name in ("a.dat", "a.csv", "a.flat"):
        assert read_baskets(saved(tmp_path / name, b"")).size == 0
        assert len(frequent_itemsets(read_baskets(tmp_path / name), 0.5)) == 0


def test_memory_of_reading_is_bounded_by_the_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.mine.itemsets.sources.baskets.CHUNK_BYTES", 1 << 18)
    path = saved(tmp_path / "a.dat", "11 12 13 14 15 16 17 18\n" * 100_000)  # 2.4 MB, 6.4 as ids
    read_baskets(saved(tmp_path / "b.dat", "1\n")).size  # noqa: B018  (loads the kernels)
    baskets = read_baskets(path)
    tracemalloc.start()
    try:
        assert baskets.size == 100_000
        assert sum(chunk.items.size for chunk in baskets.read()) == 800_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20
