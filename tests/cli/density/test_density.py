"""`sfumato density` builds what the library builds and answers what the library answers."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from sfumato.density import (
    NodeDensity,
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
    find_modes,
    load,
)
from sfumato.sketch import KernelGrid
from support.cli_workspace import run, run_json

PRIVATE = ["--epsilon", "1", "--bounds", "0,100"]


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(5)
    side = draw.integers(0, 2, 2000)
    a, b = draw.normal(30 + 40 * side, 5), draw.normal(40 + 20 * side, 5)
    price = 3 * a - b + draw.normal(0, 5, 2000)
    return pa.table(
        {"a": a, "side": np.array(["left", "right"])[side], "b": b, "code": side, "price": price}
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory, rows):
    here = tmp_path_factory.mktemp("density")
    pa.csv.write_csv(rows, here / "t.csv")
    pq.write_table(rows, here / "t.parquet", row_group_size=1000)
    (here / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    np.save(here / "t.npy", points(rows))
    run(here, "density", "build", "t.csv", "--columns", "a,b", *PRIVATE, "-o", "d", *WIDE)
    return here


WIDE = ["--bandwidth", "5"]


def points(rows):
    return np.column_stack([rows["a"], rows["b"]])


def test_every_form_of_file_makes_the_same_model(folder, rows):
    expected = SketchDensity(bandwidth=5.0, bounds=([0.0, 10.0], [100.0, 90.0]), random_state=0)
    expected.fit(rows.select(["a", "b"]))
    bounds = ["--bounds", "0,100", "--bounds", "10,90", *WIDE]
    for name in ("t.csv", "t.parquet", "t.jsonl"):
        words = ["density", "build", name, "--columns", "a,b", *bounds, "-o", f"{name}.d"]
        document = run_json(folder, *words)
        assert load(folder / f"{name}.d").to_bytes() == expected.to_bytes()
        assert document["columns"] == ["a", "b"]
        assert (document["private"], document["clipped"]) == (False, expected.clipped_)
    run_json(folder, "density", "build", "t.npy", *bounds, "-o", "npy.d")
    assert load(folder / "npy.d").sketch_ == expected.sketch_
    names = ["density", "build", "t.parquet", "--columns", "a,b", *WIDE, "-o", "free.d"]
    run(folder, *names)  # without epsilon the bounds are those of the rows
    assert load(folder / "free.d").bounds_[0][0] == rows["a"].to_numpy().min()


def test_numbers_that_look_whole_at_first_are_numbers(tmp_path):
    (tmp_path / "n.csv").write_text("a\n" + "1\n" * 20_001 + " 1.5\n")
    run(tmp_path, "density", "build", "n.csv", "--bounds", "0,2", "-o", "n.d")
    assert load(tmp_path / "n.d").sketch_.total == 20_002


def test_answers_are_those_of_the_library_in_every_form(folder, rows):
    model = load(folder / "d")
    logs = model.score_samples(rows.select(["a", "b"]))
    found = run_json(folder, "density", "query", "d", "t.csv")["rows"]
    assert [row["log_kernel_mean"] for row in found] == pytest.approx(logs.tolist())
    assert list(found[0]) == ["a", "b", "kernel_mean", "log_kernel_mean"]
    for name in ("o.csv", "o.parquet"):
        shown = run(folder, "density", "query", "d", "t.npy", "-o", name, "--force", "-q")
        assert shown == f"{name}: 2,000 rows.\n"
        table = pa.csv.read_csv if name == "o.csv" else pq.read_table
        assert table(folder / name)["log_kernel_mean"].to_pylist() == pytest.approx(logs.tolist())
    one = run_json(folder, "density", "query", "d", "--at", "30,40", "--at", "-1,4")["rows"]
    queries = pa.table({"a": [30.0, -1.0], "b": [40.0, 4.0]})
    assert [row["kernel_mean"] for row in one] == pytest.approx(model.density(queries).tolist())
    renamed = ["density", "query", "npy.d", "t.csv", "--columns", "a,b"]
    assert list(run_json(folder, *renamed)["rows"][0])[:2] == ["x0", "x1"]
    assert "1,980 more; -o FILE" in run(folder, "density", "query", "d", "t.csv")


def test_a_release_of_a_kernel_sketch_is_asked_like_a_model(folder, rows):
    sketch = KernelGrid(5.0, ((0, 0), (100, 100))).update(points(rows))
    release = sketch.release(1)
    release.save(folder / "grid.rel")
    sketch.save(folder / "grid.sk")
    found = run_json(folder, "density", "query", "grid.rel", "--at", "30,40")["rows"][0]
    assert found["kernel_mean"] == pytest.approx(float(release.mean([[30, 40]])[0]))
    assert run_json(folder, "inspect", "grid.rel")["statement"]["epsilon"] == 1
    assert "holds a KernelGrid" in run(folder, "density", "query", "grid.sk", "--at", "1,1", code=2)
    for words in (["estimate", "grid.sk", "5"], ["estimate", "grid.rel"], ["top", "grid.sk"]):
        assert "answers about points, not keys" in run(folder, "sketch", *words, code=2)
    assert "no sketch of keys" in run(folder, "sketch", "info", "d", code=2)


def test_classes_are_texts_or_whole_numbers_as_the_column_is(folder, rows):
    words = ["density", "build", "t.csv", "--columns", "a,b", *PRIVATE]
    run(folder, *words, "--label", "side", "--classes", "left,right", "-o", "side.d")
    found = run(folder, *words, "--label", "code", "--classes", "0,1,2", "-o", "code.d", "--json")
    assert json.loads(found)["classes"] == [0, 1, 2]
    assert load(folder / "code.d").classes_.tolist() == [0, 1, 2]
    ask = ["density", "classify", "code.d", "t.csv"]
    checked = run_json(folder, *ask, "--label", "code")
    truth, given = rows["code"].to_numpy(), [row["class"] for row in checked["rows"]]
    assert checked["accuracy"] == np.mean(truth == given) > 0.95
    assert checked["most_frequent_class"] == pytest.approx(max(truth.mean(), 1 - truth.mean()))
    assert set(run_json(folder, *ask)) == {"rows"}
    side = run_json(folder, "density", "classify", "side.d", "--at", "30,40")["rows"][0]
    assert (side["class"], list(side)) == ("left", ["a", "b", "class", "probability"])
    assert "for the curator only" in run(folder, *ask, "--label", "code")
    plain = run_json(folder, *words[:5], "--label", "side", "-o", "plain.d")
    expected = SketchClassifier(random_state=0).fit(
        rows.select(["a", "b"]), rows["side"].to_numpy()
    )
    assert plain["classes"] == ["left", "right"]
    assert load(folder / "plain.d").to_bytes() == expected.to_bytes()


def test_regressions_tell_weights_and_r2(folder, rows):
    words = ["density", "build", "t.parquet", "--columns", "a,b", "--target", "price"]
    document = run_json(folder, *words, "--degree", "1", "-o", "r.d")
    assert document["degree"] == 1
    expected = SketchRegressor(degree=1, random_state=0)
    expected.fit(rows.select(["a", "b"]), rows["price"].to_numpy())
    assert document["coefficients"] == dict(zip("ab", expected.coef_.tolist(), strict=True))
    checked = run_json(folder, "density", "regress", "r.d", "t.csv", "--target", "price")
    score = expected.score(rows.select(["a", "b"]), rows["price"].to_numpy())
    assert checked["r2"] == pytest.approx(score)
    assert checked["rows"][0]["true_value"] == pytest.approx(rows["price"][0].as_py())
    run(folder, *words, *PRIVATE, "--target-bounds", "-200,400", "-o", "rp.d")
    assert (
        run_json(folder, "density", "regress", "rp.d", "--at", "30,40")["rows"][0]["predicted"]
        < 200
    )


def test_people_see_the_strangest_first_and_machines_the_order(folder, rows):
    words = ["density", "build", "t.csv", "--columns", "a,b", "--kind", "anomalies"]
    run(folder, *words, "--contamination", "0.02", "-o", "an.d")
    expected = SketchAnomalyDetector(contamination=0.02, random_state=0)
    scores = expected.fit(rows.select(["a", "b"])).score_samples(rows.select(["a", "b"]))
    found = run_json(folder, "density", "anomalies", "an.d", "t.csv")["rows"]
    assert [row["score"] for row in found] == pytest.approx(scores.tolist())
    assert sum(row["anomaly"] for row in found) == (scores < expected.offset_).sum()
    shown = run(folder, "density", "anomalies", "an.d", "t.csv", "-q").splitlines()
    first = [int(line.split()[0].replace(",", "")) for line in shown[3:23]]
    assert first == (np.argsort(scores, kind="stable")[:20] + 1).tolist()
    assert f"{(scores < expected.offset_).sum()} of 2,000 are anomalies" in shown[-1]


def test_modes_and_samples_come_from_the_file_alone(folder):
    model = load(folder / "d")
    places, values = find_modes(model, random_state=0)
    found = run_json(folder, "density", "modes", "d")["rows"]
    assert [[row["a"], row["b"]] for row in found] == places.tolist()
    assert [row["kernel_mean"] for row in found] == values.tolist()
    words = ["density", "sample", "d", "-n", "50", "--force", "-o", "s.parquet"]
    assert run_json(folder, *words, "--seed", "1") == {
        "file": "s.parquet",
        "rows": 50,
        "columns": ["a", "b"],
    }
    assert np.array_equal(
        points(pq.read_table(folder / "s.parquet")), model.sample(50, random_state=1)
    )
    drawn = [run(folder, *words) and pq.read_table(folder / "s.parquet") for _ in range(2)]
    assert drawn[0] != drawn[1]  # fresh ones each time


def test_a_mode_at_the_bounds_is_told_apart(tmp_path):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(30, 2, 3000), np.full(3000, 250.0)])  # beyond the bounds
    (tmp_path / "t.csv").write_text("a\n" + "".join(f"{value}\n" for value in values))
    words = ("--bounds", "0,100", "--bandwidth", "5", "--kernel", "gaussian")
    run(tmp_path, "density", "build", "t.csv", *words, "-o", "d")
    found = run_json(tmp_path, "density", "modes", "d")["rows"]
    assert {round(row["a"], -1): row["at_bounds"] for row in found} == {30: False, 100: True}
    assert all(row["density"] > 0 for row in found)  # of a kernel that has one


def test_the_target_is_no_coordinate_whether_it_is_named_or_not(folder):
    words = ["density", "build", "t.csv", "--target", "price", "--columns", "a,b", "-o", "free.r"]
    assert run_json(folder, *words, "--force")["columns"] == ["a", "b"]
    plain = run_json(folder, "density", "regress", "free.r", "t.csv")["rows"]
    named = run_json(folder, "density", "regress", "free.r", "t.csv", "--target", "price")["rows"]
    assert list(plain[0]) == ["a", "b", "predicted"]
    assert [row["predicted"] for row in plain] == [row["predicted"] for row in named]
    twice = ["density", "build", "t.csv", "--target", "price", "--columns", "a,price", "-o", "x"]
    assert "is the column to predict" in run(folder, *twice, code=2)


def test_inspect_says_what_was_built_and_a_private_file_tells_no_count(folder):
    built = run_json(folder, "density", "build", "t.csv", "--columns", "a,b", *PRIVATE, "-o", "i.d")
    shown = run_json(folder, "inspect", "i.d")
    assert {**shown, "stored_before": False, "seconds": built["seconds"]} == built
    assert built["statement"]["epsilon"] == 1
    assert not {"clipped", "rows", "total"} & set(built)
    assert "PrivacyStatement: proved, epsilon 1" in run(folder, "inspect", "i.d")
    NodeDensity(rows=9).fit([[1, 2], [1, 3]]).save(folder / "graph.d")
    for name in ("side.d", "r.d", "an.d", "npy.d", "graph.d"):
        assert run_json(folder, "inspect", name)["kind"] == type(load(folder / name)).__name__
