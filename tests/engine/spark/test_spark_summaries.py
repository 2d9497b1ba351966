"""Summaries that are not sketches of keys: reports, moments and directions fold on any engine."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine
from sfumato.mine.decompose import FrequentDirections
from sfumato.sketch import Moments
from sfumato.telemetry import Counts, LocalHashing, Rappor, ReportEncoder, Reports

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
