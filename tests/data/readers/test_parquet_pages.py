"""Keys of Parquet files are read page by page as Arrow reads them, or left to Arrow."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.data import read_batches
from sfumato.data.readers import arrow
from sfumato.engine import map_merge
from sfumato.kernels import parquet
from sfumato.kernels.snappy import decompress
from sfumato.sketch import HyperLogLog

RNG = np.random.default_rng(0)
TEXTS = ["", "tea", "twelve bytes", "thirteen byte", "é" * 9, "z" * 300]
FEW = [TEXTS[at] for at in RNG.integers(0, len(TEXTS), 3000)]
MANY = [f"{'x' * (at % 40)}{at}" for at in RNG.permutation(3000)]
COLUMNS = {
    "few texts": pa.array(FEW),
    "many texts": pa.array(MANY),
    "one text": pa.array(["tea"] * 3000),
    "bytes": pa.array([text.encode() for text in MANY], pa.large_binary()),
    "few integers": pa.array(RNG.integers(-2, 2, 3000)),
    "many integers": pa.array(RNG.integers(-(2**63), 2**63 - 1, 3000)),
    "unsigned": pa.array(RNG.integers(0, 2**64 - 1, 3000, np.uint64)),
    "short": pa.array(RNG.integers(-(2**31), 2**31 - 1, 3000, np.int32)),
    "runs": pa.array(np.repeat(RNG.integers(0, 5, 30), 100)),
}
FORMS = {
    "snappy": {},
    "plain": {"use_dictionary": False, "compression": "none"},
    "both": {"dictionary_pagesize_limit": 500},  # begins with a dictionary, goes on plain
    "version 2": {"data_page_version": "2.0", "compression": "zstd", "row_group_size": 700},
    "version 2 plain": {"data_page_version": "2.0", "use_dictionary": False},
    "gzip": {"compression": "gzip", "dictionary_pagesize_limit": 500},
}


@pytest.fixture
def pages_only(monkeypatch):
    """Fail where a column is left to Arrow's reader."""

    def refuse(*_):
        raise AssertionError("left to Arrow")

    monkeypatch.setattr(arrow, "_piece", refuse)


def written(path, column, *, nullable=True, **form):
    schema = pa.schema([pa.field("k", column.type, nullable)])
    form = {"data_page_size": 1000, "write_batch_size": 64} | form
    pq.write_table(pa.table([column], schema), path, **form)
    return path


def values(path, rows=None):
    batches = list(read_batches(path, ["k"], keys=["k"], batch_rows=rows))
    assert all(0 < batch.num_rows <= (rows or 1 << 16) for batch in batches)
    return [value for batch in batches for value in batch.column(0).to_pylist()]


@pytest.mark.parametrize("form", FORMS)
def test_pages_hold_what_arrow_reads(form, tmp_path, pages_only):
    for name, column in COLUMNS.items():
        for nullable, rows in ((True, None), (False, 257)):
            path = written(tmp_path / "k.parquet", column, nullable=nullable, **FORMS[form])
            assert values(path, rows) == column.to_pylist(), name


def test_a_dictionary_much_shorter_than_a_batch_stays_one(tmp_path, pages_only):
    path = written(tmp_path / "k.parquet", COLUMNS["few texts"])
    [batch] = read_batches(path, ["k"], keys=["k"])
    assert len(batch.column(0).dictionary) == len(TEXTS)
    [*_, last] = read_batches(path, ["k"], keys=["k"], batch_rows=2 * len(TEXTS) - 1)
    assert last.column(0).type == pa.string_view()
    batch.validate(full=True)
    last.validate(full=True)


OTHERS = {
    "nulls": (pa.array([*FEW, None]), {}),
    "deltas": (pa.array(MANY), {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}),
    "no statistics": (pa.array(FEW), {"write_statistics": False}),
    "floats": (pa.array([0.5, 7.0]), {}),
    "dates": (pa.array([datetime.date(2026, 5, 17)]), {}),
    "other codec": (pa.array(FEW), {"compression": "lz4"}),
    "empty": (pa.array([], pa.string()), {}),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_columns_are_left_to_arrow(case, tmp_path):
    column, form = OTHERS[case]
    path = written(tmp_path / "k.parquet", column, **form)
    assert values(path) == column.to_pylist()


def test_a_field_of_a_struct_is_no_column_of_keys(tmp_path):
    column = pa.array([{"k": 1}, {"k": 2}])
    path = tmp_path / "k.parquet"
    pq.write_table(pa.table({"s": column, "k": [3, 4]}), path)
    assert values(path) == [3, 4]


@pytest.mark.parametrize("name", ["few texts", "many texts", "few integers"])
def test_sketches_from_pages_equal_those_of_the_column(name, tmp_path, pages_only):
    path = written(tmp_path / "k.parquet", COLUMNS[name], dictionary_pagesize_limit=500)
    assert map_merge(path, HyperLogLog, column="k") == HyperLogLog().update(COLUMNS[name])


@pytest.mark.parametrize("form", ["plain", "both", "version 2", "version 2 plain"])
def test_damaged_pages_raise_or_are_read_but_never_crash(form, tmp_path):
    path = written(tmp_path / "k.parquet", COLUMNS["many texts"], **FORMS[form])
    good, errors = path.read_bytes(), []
    footer = len(good) - int.from_bytes(good[-8:-4], "little") - 8
    for at in RNG.integers(4, footer, 150):
        data = bytearray(good)
        data[at] ^= 1 << int(RNG.integers(0, 8))
        path.write_bytes(data)
        try:
            for batch in read_batches(path, ["k"], keys=["k"]):
                HyperLogLog().update(batch.column(0))
        except ValueError as error:
            errors.append(str(error))
    assert errors
    assert all("k.parquet: cannot be read as Parquet" in error for error in errors)


@pytest.mark.parametrize("width", [1, 2, 7, 8, 13, 15, 16, 24, 31])
def test_indices_of_every_width_are_unpacked_up_to_the_last_byte_of_a_page(width):
    numbers = RNG.integers(0, 2**width, 8 * 40)
    bits = numbers[:, np.newaxis] >> np.arange(width) & 1
    run = np.packbits(bits.astype(np.uint8), bitorder="little")
    page = np.concatenate([np.array([40 << 1 | 1], np.uint8), run])
    out = np.empty(numbers.size, np.int32)
    assert _unpacked(page, width, int(numbers.max()) + 1, out) == 0
    np.testing.assert_array_equal(out, numbers)
    assert _unpacked(page, width, int(numbers.max()), out) == -1  # beyond the dictionary
    assert _unpacked(page[:-1], width, 2**31, out) == -1
    assert _unpacked(page, width, 2**31, np.empty(numbers.size + 1, np.int32)) == -1


def _unpacked(page, width, words, out):
    state = np.zeros(4, np.int64)
    return parquet.indices(np.uint64(page.ctypes.data), page.size, width, words, state, out)


def test_snappy_blocks_are_decompressed_and_damaged_ones_stay_in_their_buffers():
    codec = pa.Codec("snappy")
    for trial in range(300):
        size, letters = int(RNG.integers(1, 2000)), int(RNG.integers(1, 256))
        data = RNG.integers(0, letters, size, np.uint8)
        data = np.tile(data[:40], 99) if trial % 3 == 0 else data
        block = np.frombuffer(codec.compress(data.tobytes(), asbytes=True), np.uint8).copy()
        room = np.full(data.size + 200, 7, np.uint8)
        out = room[100:-100]
        assert _decompressed(block, out) == 0
        np.testing.assert_array_equal(out, data)
        for _ in range(5):
            block[RNG.integers(0, block.size)] ^= RNG.integers(1, 256, dtype=np.uint8)
            _decompressed(block[: RNG.integers(0, block.size + 1)], out)
            assert (room[:100] == 7).all()
            assert (room[-100:] == 7).all()
    assert _decompressed(block[:0], out) == -1


def _decompressed(block, out):
    addresses = np.uint64(block.ctypes.data), np.uint64(out.ctypes.data)
    return decompress(addresses[0], block.size, addresses[1], out.size)
