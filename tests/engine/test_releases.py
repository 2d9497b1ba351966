"""Private releases of sketches that an engine filled: the bytes of one machine, charged once."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sfumato.data import Interactions
from sfumato.density import (
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
    SketchSampler,
)
from sfumato.density.base import noise_from
from sfumato.engine import LocalEngine, bound_rows, map_merge
from sfumato.errors import BudgetExceeded
from sfumato.mine.cluster import PrivateBFR, PrivateKMeans
from sfumato.mine.decompose import PrivatePCA
from sfumato.mine.itemsets import PrivateItemsets
from sfumato.mine.rank import PrivateDegreeHistogram
from sfumato.privacy import Ledger
from sfumato.privacy.mechanisms import bound_contributions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import PrivateLinearItems, PrivateNeighbours, PrivatePopular
from sfumato.sketch import CountMin, HyperLogLog, Moments
from sfumato.sketch.base import KeyedSketch
from support.engines import as_source
from support.release_cases import RELEASES, RowsCase
from support.sketch_contract import KEYS, ROWS

CASES = {
    f"{name} {at}": case
    for name, cases in RELEASES.items()
    for at, case in enumerate(cases)
    if not isinstance(case, RowsCase)  # those keep no sketch that could merge
}
FIRST = {name: case for name, case in CASES.items() if name.endswith(" 0")}
ONE, SEVERAL = LocalEngine(threads=1), LocalEngine(threads=3)


def columns_of(case):
    """The stream of a case, and the columns that its sketch reads."""
    if isinstance(case.make(), KeyedSketch):
        return {"key": KEYS}, "key"
    points = ROWS if case.streams is None else case.streams[1]
    columns = {f"x{at}": column for at, column in enumerate(np.asarray(points).T)}
    return columns, list(columns)


def check_same_bytes(case, engine, source, column):
    found = map_merge(source, case.make, column=column, engine=engine)
    assert case.release_of(found).to_bytes() == case.release().to_bytes()


@pytest.mark.parametrize("name", CASES)
def test_a_release_of_merged_sketches_is_that_of_one(name):
    columns, column = columns_of(CASES[name])
    batches = pa.table(columns).to_batches(max_chunksize=37)
    check_same_bytes(CASES[name], SEVERAL, batches, column)


@pytest.mark.parametrize("name", FIRST)
def test_a_release_of_sketches_of_spark_is_that_of_one(spark, tmp_path, name):
    columns, column = columns_of(FIRST[name])
    source = as_source(spark, columns, tmp_path)
    check_same_bytes(FIRST[name], spark, source, column)


RANDOM = np.random.default_rng(3)
EVENTS = pa.table(
    {
        "user": RANDOM.integers(0, 80, 3000),
        "item": RANDOM.integers(0, 40, 3000),
        "time": RANDOM.permutation(3000),
        "x": RANDOM.uniform(0, 1, 3000),
        "y": RANDOM.uniform(0, 1, 3000),
    }
)
LIMITS = {"per_user": 5, "per_item": 1, "seed": 4}
BY_USER = {
    "counts": (lambda: CountMin(64), "item", {}),
    "distinct": (lambda: HyperLogLog(8), "item", {"largest": 1000}),
    "moments": (lambda: Moments(([0, 0], [1, 1])), ["x", "y"], {}),
}


@pytest.mark.parametrize("name", BY_USER)
def test_events_of_a_user_are_bounded_before_they_are_counted(engine, tmp_path, name):
    make, column, more = BY_USER[name]
    source = as_source(engine, EVENTS, tmp_path)
    rows = engine.rows(source, EVENTS.column_names)
    names = {"user_column": "user", "item_column": "item", "order_column": "time"}
    sketch = map_merge(
        bound_rows(rows, EVENTS.schema, **names, **LIMITS), make, column=column, engine=engine
    )
    ordered = EVENTS.sort_by("time")
    chosen = bound_contributions(ordered["user"], ordered["item"], **LIMITS)
    retained = ordered.filter(pa.array(chosen))
    assert 0 < len(retained) <= 80 * 5
    points = np.column_stack([retained["x"], retained["y"]])
    reference = make().update(retained["item"] if column == "item" else points)
    terms = {"unit": "user", "contributions": 5, "epsilon": 1.0, **more}
    one, two = (
        each.release(**terms, source=InsecureSeededSource(7)).to_bytes()
        for each in (sketch, reference)
    )
    assert one == two


def test_rows_of_an_engine_need_the_name_of_a_column(engine, tmp_path):
    rows = engine.rows(as_source(engine, EVENTS, tmp_path), ["item"])
    with pytest.raises(ValueError, match="map_merge: name the column"):
        map_merge(rows, lambda: CountMin(64), engine=engine)


def test_a_task_that_fails_and_is_repeated_charges_nothing_more(tmp_path):
    # A task of Spark is repeated by Spark (test_spark_failures); here the caller repeats it all.
    ledger = Ledger(tmp_path / "shop.ledger")
    ledger.create("shop", epsilon=1, delta=0, unit="event")
    left = [1]

    def breaking(sketch, batch):
        if left[0]:
            left[0] -= 1
            raise OSError("the task is lost")
        sketch.update(batch["item"])

    def release():
        sketch = map_merge(EVENTS, lambda: CountMin(64), column="item", update=breaking, engine=ONE)
        return sketch.release(1.0, ledger=ledger, dataset="shop", release_id="spring")

    with pytest.raises(OSError, match="the task is lost"):
        release()
    assert not ledger.history("shop")
    first = release()
    assert release().to_bytes() == first.to_bytes()
    assert len(ledger.history("shop")) == 1


def uniform_points(rows=600):
    rng = np.random.default_rng(5)
    table = {"x": rng.uniform(-3, 3, rows), "y": rng.normal(0, 1, rows)}
    table["x"][7], table["y"][8] = np.nan, 50.0  # left out, and clipped to the bounds
    return table


BASKETS = [
    [f"item {item}" for item in np.flatnonzero(row)]
    for row in np.random.default_rng(6).random((400, 12)) < np.linspace(0.1, 0.6, 12)
]
BOX = ([-3, -3], [3, 3])


def density(source, engine=None):
    model = SketchDensity(bandwidth=1.0, epsilon=1.0, bounds=BOX)
    with noise_from(InsecureSeededSource(7)):
        if engine is None:
            return model.fit(pd.DataFrame(source)).to_bytes()
        return model.fit_rows(source, engine=engine, columns=["x", "y"]).to_bytes()


def sampler(source, engine=None):
    model = SketchSampler(bandwidth=1.0, epsilon=1.0, bounds=BOX)
    with noise_from(InsecureSeededSource(7)):
        if engine is None:
            return model.fit_batches([pd.DataFrame(source)]).to_bytes()
        return model.fit_rows(source, engine=engine, columns=["x", "y"]).to_bytes()


def labelled_points(rows=600):
    table = uniform_points(rows)
    kinds = np.where(table["x"] + table["y"] > 0, "high", "low").astype(object)
    kinds[3], kinds[4] = None, "other"  # left out
    target = 2 * table["x"] - table["y"]
    target[5], target[6] = np.nan, 1e9  # left out, and clipped
    cities = np.random.default_rng(8).choice(["Oslo", "Rome", "Bern"], rows)
    return {**table, "city": cities, "kind": pa.array(kinds, pa.string()), "target": target}


LISTED = {"categorical": {"city": ["Oslo", "Rome"]}, "method": "columns"}
FITTED = {
    "SketchClassifier of columns": (SketchClassifier, "label", "kind", LISTED),
    "SketchClassifier of kernels": (SketchClassifier, "label", "kind", {"bandwidth": 1.0}),
    "SketchRegressor": (SketchRegressor, "target", "target", {}),
    "SketchRegressor of angles": (SketchRegressor, "target", "target", {"method": "angles"}),
    "SketchAnomalyDetector": (SketchAnomalyDetector, None, None, {"contamination": 0.05}),
}
PUBLIC = {
    SketchClassifier: {"classes": ["low", "high"]},
    SketchRegressor: {"target_bounds": (-9, 9)},
    SketchAnomalyDetector: {},
}


def fitted(name, **more):
    """Fit an estimator with bounds, here or on an engine, and return its bytes."""
    kind, role, beside, given = FITTED[name]
    columns = ["x", "y", "city"] if "categorical" in given else ["x", "y"]

    def path(source, engine=None):
        model = kind(bounds=BOX, **{**given, **PUBLIC[kind], **more})
        with noise_from(InsecureSeededSource(7)):
            if engine is not None:
                named = {} if beside is None else {role: beside}
                return model.fit_rows(source, engine=engine, columns=columns, **named).to_bytes()
            frame = pa.table(source).to_pandas()
            return model.fit(frame[columns], frame[beside] if beside else None).to_bytes()

    return path


def clusters(kind, **more):
    def path(source, engine=None):
        noise = InsecureSeededSource(7)
        model = kind(3, 2.0, bounds=BOX, **more)
        if engine is None:
            return model.fit(pd.DataFrame(source), source=noise).release_.to_bytes()
        with_engine = {"engine": engine, "columns": ["x", "y"]}
        return model.fit(source, source=noise, **with_engine).release_.to_bytes()

    return path


def components(source, engine=None):
    model = PrivatePCA(1, epsilon=2.0, bounds=BOX)
    noise = InsecureSeededSource(7)
    if engine is None:
        return model.fit(pd.DataFrame(source), source=noise).release_.to_bytes()
    with_engine = {"engine": engine, "columns": ["x", "y"]}
    return model.fit(source, source=noise, **with_engine).release_.to_bytes()


def edges_of(rows=800):
    ends = np.random.default_rng(9).zipf(1.6, (2, rows)) % 60  # with repetitions and loops
    texts = ends.astype(object).astype(str)
    return {"source": pa.array([None, *texts[0]], pa.string()), "target": [3, *ends[1].tolist()]}


def degrees(**more):
    def path(source, engine=None):
        model = PrivateDegreeHistogram(2.0, max_degree=20, **more)
        how, noise = {} if engine is None else {"engine": engine}, InsecureSeededSource(7)
        edges = pa.table(source) if engine is None else source
        return model.fit(edges, source=noise, **how).release_.to_bytes()

    return path


def views_of(rows=3000):
    random = np.random.default_rng(10)
    items = (random.zipf(1.5, rows) % 40).astype(object).astype(str)
    items[4] = None
    users = random.integers(0, 150, rows)
    return {"user": users, "item": pa.array(items, pa.string())}


def lists(kind, **more):
    def path(source, engine=None):
        model, public = kind(**more), {"catalogue": [str(item) for item in range(35)]}
        noise = InsecureSeededSource(7)
        if engine is not None:
            how = {"engine": engine, "random_source": noise}
            return model.fit_rows(source, **public, **how).release_.to_bytes()
        table = pa.table(source)
        events = Interactions(table["user"], table["item"], invalid="drop")
        return model.fit(events, **public, source=noise).release_.to_bytes()

    return path


def itemsets(**more):
    def path(source, engine=None):
        model = PrivateItemsets(4.0, max_items=5, max_size=3, min_support=0.1, **more)
        baskets = source["items"] if engine is None else source
        how = {} if engine is None else {"engine": engine}
        return model.fit(baskets, source=InsecureSeededSource(7), **how).release_.to_bytes()

    return path


STAGED = {
    **{name: (fitted(name, epsilon=8.0), labelled_points()) for name in FITTED},
    "SketchDensity": (density, uniform_points()),
    "SketchSampler": (sampler, uniform_points()),
    "PrivateKMeans": (clusters(PrivateKMeans), uniform_points()),
    "PrivateBFR": (clusters(PrivateBFR, delta=1e-6), uniform_points()),
    "PrivateItemsets": (
        itemsets(vocabulary=[f"item {at}" for at in range(15)]),
        {"items": BASKETS},
    ),
    "PrivatePCA": (components, uniform_points()),
    "PrivateDegreeHistogram": (degrees(degree="undirected"), edges_of()),
    "PrivateLinearItems": (lists(PrivateLinearItems, epsilon=40, delta=1e-4), views_of()),
    "PrivateNeighbours": (lists(PrivateNeighbours, epsilon=9, per_user=4, unit="user"), views_of()),
    "PrivateItemsets of open items": (itemsets(delta=1e-4), {"items": BASKETS}),
}


@pytest.mark.parametrize("name", STAGED)
def test_estimators_release_on_an_engine_what_they_release_here(engine, tmp_path, name):
    path, columns = STAGED[name]
    assert path(as_source(engine, columns, tmp_path), engine) == path(columns)


MORE = {
    "degrees of listed nodes": (
        degrees(degree="in", method="sequence", nodes=range(50)),
        edges_of(),
    ),
    "degrees out": (degrees(method="histogram"), edges_of()),
    "popular": (lists(PrivatePopular, epsilon=1, delta=1e-4), views_of()),
    "neighbours in a sketch": (
        lists(PrivateNeighbours, epsilon=1, per_user=4, width=64, unit="event"),
        views_of(),
    ),
    "a few items": (lists(PrivateLinearItems, epsilon=0.1, delta=1e-6), views_of(50)),
}


@pytest.mark.parametrize("name", MORE)
def test_other_settings_release_the_same_on_threads(name):
    path, columns = MORE[name]
    assert path(pa.table(columns).to_batches(max_chunksize=100), SEVERAL) == path(columns)


def test_a_head_is_chosen_and_measured_on_an_engine():
    model = PrivateLinearItems(epsilon=40, delta=1e-4)
    public, noise = [str(item) for item in range(35)], InsecureSeededSource(7)
    model.fit_rows(views_of(), engine=SEVERAL, catalogue=public, random_source=noise)
    assert model.release_.head.size > 2  # so that its Gram matrix was one of the sums compared


def clean_points():
    table = pa.table(labelled_points())
    usable = np.ones(table.num_rows, bool)
    usable[[3, 4, 5, 6, 7]] = False
    usable[np.asarray(table["city"]) == "Bern"] = False
    return table.filter(pa.array(usable)).to_pydict()


@pytest.mark.parametrize("name", FITTED)
def test_estimators_learn_from_parts_what_they_learn_at_once(name):
    more = {"contamination": "auto"} if "Anomaly" in name else {}
    path, source = fitted(name, **more), clean_points()
    assert path(source, SEVERAL) == path(source)


@pytest.mark.parametrize("name", FITTED)
def test_a_fit_on_an_engine_is_charged_once_and_a_source_that_fails_costs_nothing(tmp_path, name):
    ledger = Ledger(tmp_path / "shop.ledger")
    ledger.create("shop", epsilon=100, delta=0, unit="event")
    path = fitted(name, epsilon=8.0, ledger=ledger, dataset="shop")

    def failing():
        yield from pa.table(labelled_points()).to_batches(max_chunksize=100)[:2]
        raise OSError("the source is lost")

    with pytest.raises(OSError, match="the source is lost"):
        path(failing(), SEVERAL)
    assert not ledger.history("shop")
    path(labelled_points(), SEVERAL)
    assert [entry.loss.epsilon for entry in ledger.history("shop")] == [8.0]


def charged_components(source, **paid):
    model = PrivatePCA(1, epsilon=2.0, bounds=BOX, **paid)
    model.fit(source, engine=SEVERAL, columns=["x", "y"])


def charged_degrees(source, **paid):
    PrivateDegreeHistogram(2.0, max_degree=20).fit(source, engine=SEVERAL, **paid)


def charged_neighbours(source, **paid):
    model = PrivateNeighbours(epsilon=2, per_user=4, unit="event")
    public = {"catalogue": [str(item) for item in range(35)]}
    model.fit_rows(source, engine=SEVERAL, **public, **paid)


@pytest.mark.parametrize(
    ("fit", "source", "unit"),
    [
        (charged_components, uniform_points(), "event"),
        (charged_degrees, edges_of(), "edge"),
        (charged_neighbours, views_of(), "event"),
    ],
)
def test_components_degrees_and_neighbours_are_charged_once_on_an_engine(
    tmp_path, fit, source, unit
):
    ledger = Ledger(tmp_path / "shop.ledger")
    ledger.create("shop", epsilon=3, delta=0, unit=unit)
    paid = {"ledger": ledger, "dataset": "shop"}
    fit(source, **paid, release_id="spring")
    fit(source, **paid, release_id="spring")  # the stored release
    assert [entry.loss.epsilon for entry in ledger.history("shop")] == [2.0]
    with pytest.raises(BudgetExceeded):
        fit(source, **paid, release_id="summer")


@pytest.mark.parametrize(
    ("kind", "given", "sentence"),
    [
        (SketchClassifier, {"bounds": BOX}, "classes must be given to learn from parts"),
        (SketchClassifier, {"classes": ["low", "high"]}, "bounds must be given to learn from"),
        (SketchClassifier, {"bounds": BOX, "classes": ["low"]}, "a label that is not in classes"),
        (SketchRegressor, {"bounds": BOX}, "target_bounds must be given to learn from parts"),
        (
            SketchRegressor,
            {"bounds": BOX, "target_bounds": (0, 1)},
            "X must be finite; a row holds",
        ),
        (SketchAnomalyDetector, {"bounds": BOX}, "contamination must be 'auto' for fit_rows"),
        (SketchAnomalyDetector, {"contamination": "auto"}, "bounds must be given to learn from"),
    ],
)
def test_what_parts_cannot_learn_is_one_sentence(kind, given, sentence):
    roles = {SketchClassifier: {"label": "kind"}, SketchRegressor: {"target": "target"}}
    source = clean_points() if kind is SketchClassifier else labelled_points()
    with pytest.raises(ValueError, match=sentence):
        kind(**given).fit_rows(source, engine=ONE, columns=["x", "y"], **roles.get(kind, {}))


def test_a_source_without_rows_is_refused_unless_it_is_private():
    columns = {"x": pa.array([], pa.float64()), "kind": pa.array([], pa.string())}
    for method in ("columns", "kernel"):
        model = SketchClassifier(bounds=(0, 1), classes=["a", "b"], method=method)
        given = {"engine": ONE, "columns": ["x"], "label": "kind"}
        with pytest.raises(ValueError, match="the source must hold at least one row"):
            model.fit_rows(columns, **given)
        with pytest.warns(UserWarning, match="hardly more than its noise"):
            assert model.set_params(epsilon=1.0).fit_rows(columns, **given).statement_
