"""Clusters of rows in partitions: as good as those of one machine, and the same on any engine."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engine import LocalEngine
from sfumato.errors import ParameterError
from sfumato.mine.cluster import BFR, BFRSummary, KMeans

RNG = np.random.default_rng(2)
CENTRES = RNG.uniform(-20, 20, (6, 3))
POINTS = np.concatenate([RNG.normal(centre, 1.5, (900, 3)) for centre in CENTRES])
POINTS[::9] = CENTRES[0].round()  # many copies of one row
POINTS = RNG.permutation(POINTS)
COLUMNS = ["x", "y", "z"]


@pytest.fixture(params=["one thread", "threads", "spark"])
def engine(request):
    if request.param == "spark":
        return request.getfixturevalue("spark")
    return LocalEngine(threads=1 if request.param == "one thread" else 3)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("points")
    table = pa.table(dict(zip(COLUMNS, POINTS.T, strict=True)))
    found = [str(folder / f"{at}.parquet") for at in range(4)]
    for at, path in enumerate(found):
        pq.write_table(table.slice(at * 1500, 1500), path)
    return found


@pytest.fixture(scope="module")
def reference(paths):
    options = {"engine": LocalEngine(threads=1), "columns": COLUMNS}
    return KMeans(6, random_state=0, sample=800).fit(paths, **options)


def test_centres_are_as_good_as_in_memory_and_equal_on_every_engine(engine, paths, reference):
    found = KMeans(6, random_state=0, sample=800).fit(paths, engine=engine, columns=COLUMNS)
    in_memory = KMeans(6, random_state=0).fit(POINTS)
    assert found.inertia_ <= 1.01 * in_memory.inertia_
    assert found.inertia_ == pytest.approx(reference.inertia_, rel=1e-9)
    assert np.allclose(found.cluster_centers_, reference.cluster_centers_, atol=1e-9)
    assert found.counts_.tolist() == reference.counts_.tolist()
    assert found.n_iter_ == reference.n_iter_
    assert -found.score(pd.DataFrame(POINTS, columns=COLUMNS)) == pytest.approx(found.inertia_)
    assert found.loss_ == pytest.approx(found.inertia_ / (2 * len(POINTS)))
    assert found.feature_names_in_.tolist() == COLUMNS


def test_iterations_are_those_of_rows_in_memory(engine, paths):
    # No row is as near to two centres that rounding could decide.
    options = {"init": POINTS[:6], "max_iter": 7, "tol": 0.0}
    in_memory = KMeans(6, **options).fit(POINTS)
    found = KMeans(6, **options).fit(paths, engine=engine, columns=COLUMNS)
    assert np.allclose(found.cluster_centers_, in_memory.cluster_centers_)
    assert found.inertia_ == pytest.approx(in_memory.inertia_)
    assert found.counts_.tolist() == in_memory.counts_.tolist()


def test_a_cluster_without_rows_gets_the_furthest_row():
    points = np.array([[0.0], [1.0], [2.0], [50.0]])
    options = {"init": [[1.0], [1e6]], "max_iter": 1}
    in_memory = KMeans(2, **options).fit(points)
    rows = {"x": points[:, 0]}
    found = KMeans(2, **options).fit(rows, engine=LocalEngine(threads=3), columns=["x"])
    assert found.cluster_centers_.tolist() == in_memory.cluster_centers_.tolist()
    assert found.cluster_centers_[1, 0] == 50


def test_fewer_distinct_rows_than_clusters_are_warned_of():
    rows = {"x": [1.0, 2.0, 1.0, 2.0]}
    with pytest.warns(UserWarning, match="1 of 3 clusters are empty"):
        found = KMeans(3).fit(rows, engine=LocalEngine(), columns=["x"])
    assert found.inertia_ == 0


def test_iterations_without_a_tolerance_end(engine, paths):
    found = KMeans(6, random_state=0, tol=0.0).fit(paths, engine=engine, columns=COLUMNS)
    assert found.n_iter_ < 60


def test_what_an_engine_cannot_do_is_refused():
    rows, engine = {"x": [1.0, np.nan], "t": ["a", "b"]}, LocalEngine()
    with pytest.raises(ValueError, match="column 'x' must be finite"):
        KMeans(1).fit(rows, engine=engine, columns=["x"])
    with pytest.raises(TypeError, match="column 't' must be of numbers"):
        KMeans(1).fit(rows, engine=engine, columns=["t"])
    with pytest.raises(ParameterError, match="columns must be a list of names"):
        KMeans(1).fit(rows, engine=engine)
    with pytest.raises(ParameterError, match="batch_size must be None"):
        KMeans(1, batch_size=5).fit(rows, engine=engine, columns=["x"])
    with pytest.raises(ParameterError, match="sample_weight must be None"):
        KMeans(1).fit(rows, None, [1, 1], engine=engine, columns=["x"])
    with pytest.raises(ParameterError, match="n_clusters must be at most"):
        KMeans(3).fit({"x": [1.0]}, engine=engine, columns=["x"])


def test_bfr_summaries_of_partitions_merge(engine, paths):
    make = lambda: BFRSummary(6, 3)  # noqa: E731 - pickled by value
    summary = engine.map_merge(paths, make, column=COLUMNS)
    n, sums, squares = summary.totals()
    assert n == len(POINTS)
    assert np.allclose(sums, POINTS.sum(axis=0))
    assert np.allclose(squares, np.square(POINTS).sum(axis=0))
    model = BFR.from_summary(summary)
    assert model.counts_.sum() == len(POINTS)
    nearest = np.abs(model.cluster_centers_[:, None] - CENTRES).max(axis=2).min(axis=1)
    assert np.count_nonzero(nearest < 1) >= 5
