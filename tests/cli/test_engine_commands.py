"""Every long command on Spark writes what it writes on one machine, from Parquet to Parquet."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import app
from sfumato.cli.engines import AFTERWARDS, ON_SPARK
from sfumato.data import generate_world
from sfumato.density import SketchDensity, SketchRegressor
from sfumato.privacy import Ledger
from sfumato.recommend import load
from sfumato.telemetry import Counts, Rappor, ReportEncoder

RNG = np.random.default_rng(0)
SPARK = "--engine spark --master local[2] "


def run(line):
    with pytest.raises(SystemExit) as stopped:
        app(line.split(), prog_name="sfumato")
    return stopped.value.code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of each kind."""
    folder = tmp_path_factory.mktemp("shop")
    world = generate_world(users=80, items=40, ratings=1500, random_state=1).interactions
    ratings = {"user": world.users, "item": world.items, "rating": world.ratings}
    write(folder / "ratings.parquet", ratings)
    (folder / "items.txt").write_text("\n".join(map(str, range(40))))
    (folder / "users.txt").write_text("\n".join(map(str, range(80))))
    bought = RNG.random((300, 10)) < np.linspace(0.1, 0.6, 10)
    baskets = [[f"i{item}" for item in np.flatnonzero(row)] for row in bought]
    write(folder / "baskets.parquet", {"items": baskets})
    (folder / "words.txt").write_text("\n".join(f"i{item}" for item in range(12)))
    at, item = np.nonzero(bought)
    write(folder / "long.parquet", {"order": at, "sku": [f"i{each}" for each in item]})
    edges = RNG.integers(0, 60, (400, 2))
    write(folder / "edges.parquet", {"source": edges[:, 0], "target": edges[:, 1]})
    centres = RNG.uniform(-9, 9, (3, 2))
    points = np.concatenate([RNG.normal(centre, 0.3, (150, 2)) for centre in centres])
    write(folder / "points.parquet", {"x": points[:, 0], "y": points[:, 1]})
    kinds = np.where(points[:, 0] > 0, "right", "left")
    labelled = {"x": points[:, 0], "y": points[:, 1], "kind": kinds, "sum": points.sum(axis=1)}
    write(folder / "labelled.parquet", labelled)
    texts = [f"the {word} fox jumps over the lazy dog again" for word in ("red", "red", "old")]
    write(folder / "texts.parquet", {"id": ["a", "b", "c"], "text": texts})
    scheme = Rappor(16, 2, 4, f=0.5)
    (folder / "params.json").write_text(scheme.to_json())
    (folder / "candidates.txt").write_text("tea\nmilk\nrum\n")
    reports = ReportEncoder(scheme, seed=1).encode_many(["tea"] * 700 + ["milk"] * 300)
    payload, ids = ([bytes(row) for row in table] for table in (reports.payload, reports.ids))
    rows = {"cohort": reports.cohorts, "payload": payload, "id": ids}
    write(folder / "reports.parquet", rows)
    Counts(scheme).update(reports).save(folder / "here.counts")
    return folder


def write(path, columns):
    table = pa.table(columns)
    path.mkdir()
    for at in range(2):
        part = table.slice(at * len(table) // 2, len(table) // 2 if at == 0 else len(table))
        pq.write_table(part, path / f"{at}.parquet")
    pq.write_table(table, path.with_name(f"one-{path.name}"))


@pytest.fixture
def shop(folder, spark, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    return tmp_path


def both(line, shop, capfd, ending=".parquet"):
    """What a command writes on one machine and on Spark; {} stands for the beginning of a name."""
    here, there = shop / f"here{ending}", shop / f"there{ending}"
    assert run(f"{line.format('one-')} -o {here} --json") == 0, capfd.readouterr().err
    capfd.readouterr()
    assert run(f"{SPARK}{line.format('')} -o {there} --json") == 0, capfd.readouterr().err
    return here, there, json.loads(capfd.readouterr().out)


def rows_of(path):
    return [
        tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row.values())
        for row in pq.read_table(path).to_pylist()
    ]


TABLES = {
    "itemsets": "mine itemsets {}baskets.parquet --min-support 0.1",
    "itemsets of a long table": "mine itemsets {}long.parquet --min-support 0.1 "
    "--basket-column order --item-column sku",
    "rules": "mine rules {}baskets.parquet --min-support 0.1 --min 0.3",
    "similar": "mine similar {}texts.parquet --column text --id-column id --threshold 0.7",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_one_machine(shop, capfd, name):
    here, there, _ = both(TABLES[name], shop, capfd)
    assert rows_of(here)
    assert sorted(rows_of(here)) == sorted(rows_of(there))


def test_ranks_are_those_of_one_machine(shop, capfd):
    here, there, facts = both("mine rank {}edges.parquet", shop, capfd)
    ranks = [dict(row[:2] for row in rows_of(path)) for path in (here, there)]
    assert ranks[0].keys() == ranks[1].keys()
    assert sum(abs(ranks[0][node] - ranks[1][node]) for node in ranks[0]) < 1e-7
    assert facts["engine"] == "SparkEngine(master='local[2]')"


@pytest.mark.parametrize("method", ["kmeans", "bfr"])
def test_clusters_are_those_of_one_machine(shop, capfd, method):
    here, there, facts = both(
        f"mine cluster {{}}points.parquet -k 3 --method {method}", shop, capfd
    )
    points = np.array(rows_of("one-points.parquet"))
    local = np.array(rows_of(here))[:, 1]
    found = {row[:2]: row[2] for row in rows_of(there)}
    labels = np.array([found[tuple(point)] for point in points])
    assert len({*zip(local.tolist(), labels.tolist(), strict=True)}) == 3  # up to their numbers
    assert sorted(facts["counts"]) == [150, 150, 150]


def test_models_of_rows_are_fitted_and_recommend_to_all_users(shop, capfd):
    made = "fit {}ratings.parquet --model sketch --objective ratings --factors 16 --epochs 1"
    here, there, _ = both(made, shop, capfd, ".model")
    world = pq.read_table("ratings.parquet")
    users, items = world["user"].to_numpy(), world["item"].to_numpy()
    errors = [
        np.sqrt(np.mean((load(path).predict(users, items) - world["rating"].to_numpy()) ** 2))
        for path in (here, there)
    ]
    assert abs(errors[0] - errors[1]) < 0.02
    lists = "ratings.parquet --item-column item -n 3"
    assert run(f"recommend {there} --users one-{lists} -o {shop / 'lists'}") == 0
    assert run(f"{SPARK}recommend {there} --users {lists} -o {shop / 'more'}") == 0
    assert sorted(rows_of(shop / "lists")) == sorted(rows_of(shop / "more"))
    assert len(rows_of(shop / "lists")) == 3 * len(set(users.tolist()))


def test_als_learns_on_spark_what_it_learns_here(shop, capfd):
    made = "fit {}ratings.parquet --model als --factors 4 --epochs 1 --seed 1 --regularization 0.4"
    here, there, _ = both(made, shop, capfd, ".model")
    path = shop / "epochs"
    assert run(f"{SPARK}{made.format('')} --checkpoint {path} -o {shop / 'again.model'}") == 0
    assert path.exists()
    assert run(f"{made.format('one-')} --checkpoint {path} -o {shop / 'm'}") == 2
    assert "--checkpoint goes with --engine spark" in capfd.readouterr().err
    one, two = load(here), load(there)
    assert set(one.catalogue_.ids.tolist()) == set(two.catalogue_.ids.tolist())
    assert two.recommend(1, 3)[0].size == 3


PRIVATE = {
    "ratings": "fit {}ratings.parquet --epsilon 4 --delta 1e-6 --bounds 1,5 --catalogue items.txt "
    "--accounts users.txt",
    "lists": "fit {}ratings.parquet --epsilon 4 --delta 1e-6 --catalogue items.txt",
    "density": "density build {}points.parquet --bounds -9,9 --epsilon 2 --bandwidth 2",
    "classifier": "density build {}labelled.parquet --bounds -9,9 --epsilon 2 --columns x,y "
    "--label kind --classes left,right",
    "regressor": "density build {}labelled.parquet --bounds -9,9 --epsilon 2 --columns x,y "
    "--target sum --target-bounds -18,18",
    "anomalies": "density build {}points.parquet --bounds -9,9 --epsilon 9 --kind anomalies",
    "clusters": "mine cluster {}points.parquet -k 3 --bounds -9,9 --epsilon 5",
    "itemsets": "mine itemsets {}baskets.parquet --epsilon 5 --max-items 6 --vocabulary words.txt",
}


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_release_on_spark_states_and_costs_what_it_does_here(shop, capfd, name):
    ledger = Ledger(shop / "shop.ledger")
    unit = {"itemsets": "basket", "lists": "user"}.get(name, "event")
    ledger.create("shop", epsilon=20, delta=1e-5, unit=unit)
    paid = f"--ledger {shop / 'shop.ledger'} --dataset shop"
    here, there, _ = both(f"{PRIVATE[name]} {paid}", shop, capfd, ".release")
    one, two = ledger.history("shop")
    assert (one.loss, one.what) == (two.loss, two.what)
    assert ledger.fetch(two.release_id)
    assert here.stat().st_size == pytest.approx(there.stat().st_size, rel=0.2)


def test_density_without_noise_is_that_of_one_machine(shop, capfd):
    made = "density build {}points.parquet --bounds -9,9 --bandwidth 2"
    here, there, _ = both(made, shop, capfd, ".model")
    one, two = SketchDensity.load(here), SketchDensity.load(there)
    assert one.sketch_ == two.sketch_


def test_a_regression_without_noise_is_that_of_one_machine(shop, capfd):
    made = "density build {}labelled.parquet --bounds -9,9 --target sum --target-bounds -18,18 "
    here, there, _ = both(f"{made} --columns x,y --skip-nulls", shop, capfd, ".model")
    one, two = SketchRegressor.load(here), SketchRegressor.load(there)
    assert one.sketch_ == two.sketch_


def test_reports_in_parquet_are_counted_and_decoded(shop, capfd):
    counts = shop / "there.counts"
    line = "reports.parquet --params params.json"
    assert run(f"{SPARK}telemetry aggregate {line} -o {counts}") == 0
    assert Counts.load(counts) == Counts.load("here.counts").without_ids()
    capfd.readouterr()
    assert run(f"{SPARK}telemetry decode {line} --candidates candidates.txt --json") == 0
    there = json.loads(capfd.readouterr().out)
    assert run("telemetry decode here.counts --candidates candidates.txt --json") == 0
    here = json.loads(capfd.readouterr().out)
    assert {**there, "seconds": 0} == {**here, "seconds": 0}


WRONG = {
    "mine rank edges.parquet --method hits": "mine rank: --method hits runs on this machine only; "
    "leave --engine out.",
    "mine cluster points.parquet -k 3 --method cure": "mine cluster: --method cure runs on this",
    "mine cluster points.parquet --elbow 2:5": "mine cluster: --elbow does not go with --engine "
    "spark.",
    "mine itemsets baskets.parquet --min-support 0.1 --format lists": "--format does not go with",
    "mine itemsets baskets.parquet --min-support 0.1 --method eclat": "'auto' or 'son' with an",
    "fit ratings.parquet -o m --model linear-items": "fit: LinearItems learns on this machine only",
    "fit ratings.parquet -o m --model als --threads 2": "--threads does not go with --engine spark",
    "density build points.parquet -o m --label y": "bounds must be given to learn from parts",
    "density build labelled.parquet -o m --label kind --columns x,kind --bounds -9,9": "--columns "
    "names 'kind', which is the column to predict",
    "recommend m 7": "recommend: the list of one user is made here; leave --engine out.",
    "telemetry aggregate reports.parquet -o m": "telemetry aggregate: give --params",
    "sketch release a -o b --epsilon 1": "sketch release: runs on this machine only, as the sketch",
    "tune ratings.parquet": "tune: runs on this machine only; leave --engine out.",
    "mine decompose points.parquet": "mine decompose: runs on this machine only",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_spark_does_not_do_is_one_sentence(shop, capfd, line, folder):
    assert run(SPARK + line) == 2
    error = [each for each in capfd.readouterr().err.splitlines() if each.startswith("sfumato:")]
    assert len(error) == 1
    assert WRONG[line] in error[0]
    assert not (folder / "m").exists()


def test_an_address_is_read_as_it_was_written():
    from types import SimpleNamespace

    from sfumato.cli.engines import address

    written = ["mine", "rank", "hdfs://names/edges", "a//b"]
    root = SimpleNamespace(obj={"arguments": written})
    context = SimpleNamespace(find_root=lambda: root)
    assert address(context, "hdfs:/names/edges") == "hdfs://names/edges"
    assert address(context, "a/b") == "a/b"


def test_commands_that_are_named_exist():
    import typer

    group = typer.main.get_command(app)
    for words in (*ON_SPARK, *AFTERWARDS):
        command = group
        for word in words.split():
            command = command.commands[word]
