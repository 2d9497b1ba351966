"""Summaries that are not sketches of keys: reports, moments and directions fold on any engine."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine
from sfumato.mine.decompose import FrequentDirections
from sfumato.sketch import Moments
from sfumato.telemetry import (
    Counts,
    LocalHashing,
    Rappor,
    ReportEncoder,
    Reports,
    count_reports,
    decode,
)

POINTS = np.random.default_rng(1).normal(0, [5, 2, 1, 0.1], (3000, 4))
COLUMNS = ["a", "b", "c", "d"]
SCHEMES = {
    "bits": Rappor(13, 2, 5, f=0.5),
    "symbol": LocalHashing(1.0, cohorts=6, cells=4),
}


@pytest.fixture(params=["one thread", "threads", "spark"])
def engine(request):
    if request.param == "spark":
        return request.getfixturevalue("spark")
    return LocalEngine(threads=1 if request.param == "one thread" else 3)


def write(table, folder, files=4):
    """The paths of files that hold the rows of a table."""
    size = -(-table.num_rows // files)
    paths = [str(folder / f"{at}.parquet") for at in range(files)]
    for at, path in enumerate(paths):
        pq.write_table(table.slice(at * size, size), path)
    return paths


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    table = pa.table(dict(zip(COLUMNS, POINTS.T, strict=True)))
    return write(table, tmp_path_factory.mktemp("points"))


def octets(table):
    return pa.array([bytes(row) for row in table], pa.binary())


def as_octets(column):
    return np.array([list(row) for row in column.to_pylist()], np.uint8)


def report_rows(reports):
    columns = reports.cohorts, octets(reports.payload), octets(reports.ids)
    return pa.table(dict(zip(("cohort", "payload", "id"), columns, strict=True)))


@pytest.mark.parametrize("name", SCHEMES)
def test_reports_that_are_sent_again_or_are_none_are_left_out(engine, tmp_path, name):
    scheme = SCHEMES[name]
    reports = ReportEncoder(scheme, seed=1).encode_many([f"word {at % 11}" for at in range(900)])
    table = report_rows(reports)
    odd = [
        {"cohort": 1, "payload": b"far too long a payload", "id": b"i" * 16},
        {"cohort": 1, "payload": None, "id": b"j" * 16},
        {"cohort": None, "payload": table["payload"][0].as_py(), "id": b"k" * 16},
        {"cohort": 1, "payload": table["payload"][0].as_py(), "id": b"short"},
        {"cohort": 10**6, "payload": table["payload"][0].as_py(), "id": b"l" * 16},
    ]
    again = table.slice(100, 50)
    rows = pa.concat_tables([table, again, pa.Table.from_pylist(odd, schema=table.schema)])
    found = count_reports(write(rows, tmp_path), scheme, engine=engine)
    expected = Counts(scheme).update(reports).without_ids()
    assert np.array_equal(found.cells, expected.cells)
    assert np.array_equal(found.reports, expected.reports)
    assert found.refused == {"duplicate": 50, "unreadable": 3, "length": 1, "cohort": 1}


def test_two_million_reports_are_counted_and_decoded(spark, tmp_path):
    # 2e6 rows of 65,536 distinct reports, whose ids alone differ: encoding them all takes longer.
    scheme, rows, folder = SCHEMES["bits"], 1 << 21, tmp_path / "reports"
    words = [f"word {at % 4}" for at in range(1 << 16)]
    reports = ReportEncoder(scheme, seed=1).encode_many(words)
    folder.mkdir()
    for at in range(rows >> 16):
        ids = np.random.default_rng(at).integers(0, 256, reports.ids.shape, np.uint8)
        more = Reports(scheme, reports.cohorts, reports.payload, ids)
        pq.write_table(report_rows(more), folder / f"{at}.parquet")
    found = count_reports(str(folder), scheme, engine=spark)
    one = Counts(scheme).update(reports)
    assert found.reports.sum() == rows
    assert np.array_equal(found.cells, one.cells * (rows >> 16))
    decoded = decode(found, [f"word {at}" for at in range(6)], other=False)
    estimates = dict(zip(decoded.value, decoded.estimate / rows, strict=True))
    assert all(abs(estimates[f"word {at}"] - 0.25) < 0.05 for at in range(4))
    assert all(estimates[f"word {at}"] < 0.05 for at in (4, 5))


@pytest.mark.parametrize("keep_ids", [True, False])
@pytest.mark.parametrize("name", SCHEMES)
def test_counts_of_reports_are_those_of_one_machine(engine, tmp_path, name, keep_ids):
    scheme = SCHEMES[name]
    values = [f"word {at % 11}" for at in range(2000)]
    reports = ReportEncoder(scheme, seed=1).encode_many(values)
    rows = {
        "cohort": reports.cohorts,
        "payload": octets(reports.payload),
        "id": octets(reports.ids),
    }

    def count(batches):
        counts = Counts(scheme, keep_ids=keep_ids)
        for batch in batches:
            cohorts, payload, ids = (batch.column(each) for each in ("cohort", "payload", "id"))
            counts.update(Reports(scheme, cohorts.to_numpy(), as_octets(payload), as_octets(ids)))
        return counts

    paths = write(pa.table(rows), tmp_path)
    columns = ["cohort", "payload", "id"]
    found = engine.fold(paths, count, lambda left, right: left.merge(right), columns=columns)
    assert found == Counts(scheme, keep_ids=keep_ids).update(reports)
    assert found.reports.sum() == 2000


def test_moments_are_those_of_one_machine(engine, points):
    bounds = [-20.0] * 4, [20.0] * 4
    found = engine.map_merge(points, lambda: Moments(bounds), column=COLUMNS)
    assert found == Moments(bounds).update(POINTS)


def test_directions_of_partitions_merge_within_their_bound(engine, points):
    def directions(batches):
        sketch = FrequentDirections(3, 4)
        for batch in batches:
            sketch.update(np.column_stack([batch.column(name) for name in COLUMNS]))
        return sketch

    found = engine.fold(points, directions, lambda a, b: a.merge(b), columns=COLUMNS)
    assert found.total == len(POINTS)
    assert found.squares == pytest.approx(np.square(POINTS).sum())
    rows = found.matrix()
    apart = np.linalg.eigvalsh(POINTS.T @ POINTS - rows.T @ rows)
    assert -1e-6 * found.squares <= apart.min()
    assert apart.max() <= found.error_bound() * (1 + 1e-9)
    first, best = found.singular(1)[1][0], np.linalg.svd(POINTS)[2][0]
    assert abs(first @ best) > 0.99
