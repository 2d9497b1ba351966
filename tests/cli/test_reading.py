"""Every command reads every format, with the same options, and says which columns it took."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from typer.main import get_command

from sfumato.cli import app
from support import cli_workspace
from support.cli_workspace import result_of

ROWS = 120
NAMES = ["user", "item", "rating", "time"]


def _table():
    generator = np.random.default_rng(3)
    pairs = generator.permutation(20 * 15)[:ROWS]
    columns = pairs // 15, pairs % 15, generator.integers(1, 10, ROWS) / 2, np.arange(ROWS)
    return pd.DataFrame(dict(zip(NAMES, columns, strict=True)))


STDIN = _table().to_csv(index=False).encode()


def run(folder, *words, **options):
    return cli_workspace.run(folder, *words, stdin=STDIN, **options)


def run_json(folder, *words):
    return cli_workspace.run_json(folder, *words, stdin=STDIN)


def _written(folder, form, table=None):
    """Write the table in this format: the name of the file, its options, whether it has names."""
    table = _table() if table is None else table
    if form == "plain":
        table.to_csv(folder / "t.csv", index=False)
    elif form == "pandas":
        table.assign(note="caf\xe9").to_csv(folder / "t.csv.gz")
        return "t.csv.gz", [], True
    elif form == "colons":
        rows = table.assign(note="caf\xe9").to_csv(sep="\t", header=False, index=False)
        (folder / "t.dat").write_bytes(rows.replace("\t", "::").encode("latin-1"))
        options = ["--no-header", "--delimiter", "::", "--encoding", "latin-1"]
        return "t.dat", options, False
    elif form == "text":
        table.to_csv(folder / "t.txt", sep=";", index=False)
        return "t.txt", [], True
    elif form == "tabs":
        table.to_csv(folder / "t.tsv", sep="\t", header=False, index=False)
        return "t.tsv", [], False
    elif form == "parquet":
        table.to_parquet(folder / "t.parquet")
        return "t.parquet", [], True
    elif form == "arrow":
        pa.feather.write_feather(pa.Table.from_pandas(table), str(folder / "t.arrow"))
        return "t.arrow", [], True
    elif form == "json":
        table.to_json(folder / "t.jsonl", orient="records", lines=True)
        return "t.jsonl", [], True
    elif form == "matrix":
        np.save(folder / "t.npy", table.to_numpy())
        return "t.npy", [], False
    elif form == "arrays":
        np.savez(folder / "t.npz", **{name: table[name].to_numpy() for name in table})
        return "t.npz", [], True
    elif form == "stdin":
        return "-", [], True
    return "t.csv", [], True


FORMS = (
    *("pandas", "colons", "text", "tabs", "stdin"),
    *("parquet", "arrow", "json", "matrix", "arrays"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    here = tmp_path_factory.mktemp("reading")
    _written(here, "plain")
    (here / "users.txt").write_text("\n".join(map(str, range(20))))
    run(here, "fit", "t.csv", "--model", "item-neighbours", "-o", "model.sfm", "-q")
    run(here, "telemetry", "params", "--epsilon", "4", "-o", "p.json", "--metric", "m")
    return here


def _rows(found):
    return sorted(map(json.dumps, found["rows"]))


def fit(here, file, names, *options):
    words = ("--user-column", names[0], "--item-column", names[1], "--rating-column", names[2])
    found = run_json(
        here, "fit", file, "--model", "popular", *words, "-o", "f", "--force", *options
    )
    return found["ratings"], found["catalogue"]


def evaluate(here, file, names, *options):
    words = ("--user-column", names[0], "--item-column", names[1])
    return run_json(here, "evaluate", "model.sfm", file, "--no-ratings", *words, *options)


def profiles(here, file, names, *options):
    words = ("--mechanism", "blip", "--epsilon", "1", "--bits", "64", "--users", "users.txt")
    columns = ("--user-column", names[0], "--item-column", names[1], "--no-ratings")
    run(
        here,
        "profiles",
        "release",
        file,
        *words,
        *columns,
        "-o",
        "b",
        "--force",
        *options,
        "--report",
        "report.json",
    )
    return json.loads((here / "report.json").read_text())["used"]["kept"]


def split(here, file, names, *options):
    run(here, "split", file, "-o", "tr.csv", "te.parquet", "--force", *options)
    parts = [pd.read_csv(here / "tr.csv"), pd.read_parquet(here / "te.parquet")]
    return [part.to_numpy().tolist() for part in parts]


def sketch(here, file, names, *options):
    run(here, "sketch", "build", "count-min", file, "-c", names[1], "-o", "s", "--force", *options)
    return (here / "s").read_bytes()


def density(here, file, names, *options):
    words = ("--columns", f"{names[0]},{names[2]}")
    run(here, "density", "build", file, *words, "-o", "d", "--force", "--bounds", "0,200", *options)
    (found,) = run_json(here, "density", "query", "d", "--at", "3,4.5")["rows"]
    return list(found.values())


def cluster(here, file, names, *options):
    words = ("--columns", ",".join(names))
    return run_json(here, "mine", "cluster", file, "-k", "3", *words, *options)["centres"]


def svd(here, file, names, *options):
    words = ("--user-column", names[0], "--item-column", names[1], "--rating-column", names[2])
    if file == "t.npy":  # which is the matrix itself
        return None
    return run_json(here, "mine", "svd", file, *words, "--rank", "2", *options)["energy"]


def itemsets(here, file, names, *options):
    words = ("--basket-column", names[0], "--item-column", names[1], "--min-support", "4")
    return _rows(run_json(here, "mine", "itemsets", file, *words, *options))


def rank(here, file, names, *options):
    words = ("--source-column", names[0], "--target-column", names[1])
    return _rows(run_json(here, "mine", "rank", file, *words, *options))


def similar(here, file, names, *options):
    words = ("--column", names[1], "--id-column", names[3], "-k", "1")
    return _rows(run_json(here, "mine", "similar", file, *words, *options))


def encode(here, file, names, *options):
    words = ("--params", "p.json", "-c", names[1], "--seed", "1", "-o", "r.ndjson", "--force")
    run(here, "telemetry", "encode", file, *words, *options)
    return (here / "r.ndjson").read_bytes()


COMMANDS = [
    *(fit, evaluate, profiles, split, sketch, density),
    *(cluster, svd, itemsets, rank, similar, encode),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.__name__)
def test_every_command_reads_every_format(folder, command):
    expected = command(folder, "t.csv", NAMES)
    for form in FORMS:
        file, options, named = _written(folder, form)
        found = command(folder, file, NAMES if named else list("0123"), *options)
        if found is not None:
            assert found == expected or found == pytest.approx(expected, rel=1e-6), form


@pytest.mark.parametrize("command", [fit, sketch, itemsets, similar, encode])
def test_columns_of_json_have_numbers_too(folder, command):
    file, _, _ = _written(folder, "json")
    assert command(folder, file, list("0123")) == command(folder, file, NAMES)


def test_columns_of_a_matrix_are_given_by_number_and_said(folder):
    generator = np.random.default_rng(5)
    points = generator.normal(size=(60, 2))
    labels = (points[:, 0] > 0).astype(float)
    np.save(folder / "labelled.npy", np.column_stack([points, labels]))
    for option, role in (("--label", "classes"), ("--target", "targets")):
        words = ("density", "build", "labelled.npy", option, "2", "-o", "d", "--force")
        said = f"sfumato: labelled.npy: columns 0, 1, {role} from column 2.\n"
        assert result_of(folder, *words).stderr == said
        verb = "classify" if option == "--label" else "regress"
        found = run_json(folder, "density", verb, "d", "labelled.npy", option, "2")
        assert found["accuracy" if option == "--label" else "r2"] > 0.6
    private = ("--label", "2", "--classes", "0,1", "--bounds", "0,1", "--epsilon", "9")
    run(folder, "density", "build", "labelled.npy", *private, "-o", "d", "--force")
    np.save(folder / "ids.npy", np.column_stack([np.arange(60) + 100, points]))
    words = ("index", "build", "ids.npy", "--id-column", "0", "-o", "i", "--force", "--bits", "64")
    assert result_of(folder, *words).stderr == (
        "sfumato: ids.npy: vectors from columns 1, 2, ids from column 0.\n"
    )
    queries = run_json(folder, "index", "search", "i", "ids.npy", "-k", "1", "--id-column", "0")
    assert [row["query"] for row in queries["rows"]] == list(range(100, 160))
    assert min(row["item"] for row in queries["rows"]) >= 100
    for words in (
        ("mine", "cluster", "ids.npy", "-k", "2"),
        ("mine", "svd", "ids.npy", "--rank=1"),
    ):
        assert "ids.npy: all columns" in result_of(folder, *words).stderr


def test_commands_that_read_files_have_the_same_options():
    wanted = {"header", "delimiter", "encoding", "quiet"}
    lacking = {}
    for words in READERS:
        command = get_command(app)
        for word in words.split():
            command = command.commands[word]
        names = {each.name for each in command.params}
        if not wanted <= names:
            lacking[words] = wanted - names
    assert not lacking


READERS = [
    *("fit", "evaluate", "recommend", "tune", "compare", "split"),
    *("audit profiles", "audit model", "profiles release", "sketch build"),
    *("density build", "density query", "density classify"),
    *("density regress", "density anomalies"),
    *("index build", "index add", "index search"),
    *("mine cluster", "mine svd", "mine cur", "mine similar"),
    *("mine itemsets", "mine rules", "mine rank"),
    *("telemetry encode", "telemetry decode", "telemetry associate"),
]


def test_a_command_says_which_columns_it_took_unless_it_is_quiet(folder):
    words = ("sketch", "build", "count-min", "t.csv", "-c", "item", "-o", "s", "--force")
    assert result_of(folder, *words).stderr == "sfumato: t.csv: keys from 'item'.\n"
    assert result_of(folder, *words, "-q").stderr == ""
    assert result_of(folder, *words, "--json").stderr == ""
    fitted = result_of(folder, "fit", "t.csv", "--model", "popular", "-o", "f", "--force")
    roles = "users from 'user', items from 'item', ratings from 'rating', times from 'time'"
    assert fitted.stderr == f"sfumato: t.csv: {roles}.\n"
    failed = result_of(folder, "mine", "cluster", "t.csv", "-k", "500", code=2)
    assert failed.stderr.count("\n") == 1


def test_row_numbers_of_pandas_are_no_column_of_points(folder):
    table = pd.DataFrame({"x": [1.0, 2.0, 8.0, 9.0], "y": [1.0, 2.0, 8.0, 9.0]})
    table.to_csv(folder / "p.csv")
    table.rename(columns={"x": 0, "y": 1}).to_csv(folder / "numbered.csv")
    table.to_csv(folder / "bare.csv", header=False, index=False)
    wanted = [[1.5, 1.5], [8.5, 8.5]]
    for name in ("p.csv", "numbered.csv", "bare.csv"):
        found = run_json(folder, "mine", "cluster", name, "-k", "2")
        assert sorted(found["centres"]) == wanted, name


def test_other_encodings_are_found_where_nothing_is_private_and_named_where_it_is(folder):
    (folder / "l.csv").write_bytes("user,item\n1,caf\xe9\n2,tea\n".encode("latin-1"))
    found = run_json(folder, "fit", "l.csv", "--model", "popular", "-o", "f", "--force")
    assert found["catalogue"] == 2
    assert run_json(folder, "mine", "similar", "l.csv", "--column", "item")["rows"] == []
    words = ("sketch", "build", "count-min", "l.csv", "-c", "item", "-o", "s", "--force")
    assert "not UTF-8 text; give its --encoding" in run(folder, *words, code=2)
    lines = ("mine", "itemsets", "l.csv", "--min-support", "1", "--format", "lines")
    assert "name another --encoding" in run(folder, *lines, code=2)
    run(folder, *words, "--encoding", "latin-1")
    estimates = run_json(folder, "sketch", "estimate", "s", "caf\xe9")["rows"]
    assert [row["estimate"] for row in estimates] == [1]


def test_titles_stand_beside_the_items_that_are_recommended(folder):
    (folder / "films.dat").write_bytes(
        "".join(f"{item}::Film {item} caf\xe9::a|b\n" for item in range(15)).encode("latin-1")
    )
    films = {"movieId": range(15), "genre": "a", "title": [f"Film {i}" for i in range(15)]}
    pd.DataFrame(films).to_csv(folder / "films.csv")
    words = ("recommend", "model.sfm", "3", "-n", "2")
    plain = run_json(folder, *words)["rows"]
    found = run_json(folder, *words, "--titles", "films.csv")["rows"]
    assert found == [
        {"item": row["item"], "title": f"Film {row['item']}", "score": row["score"]}
        for row in plain
    ]
    found = run_json(folder, *words, "--titles", "films.dat")["rows"]
    assert [row["title"] for row in found] == [f"Film {row['item']} caf\xe9" for row in plain]
    by = ("--titles", "films.csv", "--title-column", "genre", "--title-id-column", "movieId")
    assert [row["title"] for row in run_json(folder, *words, *by)["rows"]] == ["a", "a"]
    assert "--titles FILE" in run(folder, *words, "--title-column", "genre", code=2)


def test_a_split_has_every_row_once_in_parts_of_the_sizes_that_were_given(folder):
    words = ("split", "t.csv", "--force", "--valid-output", "v.csv", "-o", "tr.csv", "te.csv")
    whole = {tuple(row) for row in _table().to_numpy().tolist()}

    def parts(*more):
        run(folder, *words, *more)
        return [pd.read_csv(folder / name) for name in ("tr.csv", "te.csv", "v.csv")]

    for way, sizes in (("row", (0.25, 0.25)), ("time", (0.25, 0.25)), ("last", (1, 2))):
        made = parts("--by", way, "--test", str(sizes[0]), "--valid", str(sizes[1]))
        rows = [tuple(row) for part in made for row in part.to_numpy().tolist()]
        assert len(rows) == ROWS
        assert set(rows) == whole
        if way != "last":
            assert [len(part) for part in made] == [60, 30, 30]
        if way == "time":
            assert (
                made[0].time.max() < made[2].time.min() <= made[2].time.max() < made[1].time.min()
            )
        if way == "last":
            counts = _table().user.value_counts()
            assert set(made[1].user) == set(counts[counts > 1].index)
            assert (made[1].groupby("user").size() == 1).all()
    made = parts("--by", "user", "--test", "0.5", "--valid", "0.25")
    assert set(made[0].user) == set(range(20))
    again = parts("--by", "user", "--test", "0.5", "--valid", "0.25", "--seed", "1")
    assert not again[1].equals(made[1])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--by", "day"], "--by must be one of row, user, time, last"),
        (["--test", "1"], "--test must be a fraction"),
        (["--by", "last", "--test", "0.5"], "--test must be a number of rows"),
        (["--test", "0.5", "--valid", "0.5", "--valid-output", "v2.csv"], "leave rows"),
        (["--valid", "0.5"], "--valid and --valid-output go together"),
        (["-o", "a.csv", "a.csv"], "two of the outputs are one file"),
        (["-o", "a.csv", "a.txt"], "must end in .csv, .parquet"),
        (["-o", "t.csv", "a.csv", "--force"], "is read as well"),
    ],
)
def test_a_split_that_cannot_be_is_one_line_and_no_file(folder, words, sentence):
    output = [] if "-o" in words else ["-o", "x.csv", "y.csv"]
    assert sentence in run(folder, "split", "t.csv", *words, *output, code=2)
    assert not (folder / "x.csv").exists()


def test_an_index_is_built_of_vectors_in_every_format(folder):
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["x", "y", "z"])
    for form in FORMS:
        if form in ("pandas", "colons", "stdin"):
            continue  # which have words beside the numbers, or are another table
        file, options, _ = _written(folder, form, table)
        words = ("-o", "i", "--force", "--bits", "64", *options)
        found = run_json(folder, "index", "build", file, *words)
        assert (found["vectors"], found["dimension"]) == (40, 3), form
    table.assign(id=range(100, 140)).to_csv(folder / "ids.csv")
    words = ("index", "build", "ids.csv", "-o", "i", "--force", "--bits", "64")
    assert "besides an --id-column" in run(folder, *words, code=2)
    assert run_json(folder, *words, "--id-column", "id")["dimension"] == 3
    queries = run_json(folder, "index", "search", "i", "ids.csv", "-k", "1", "--id-column", "id")
    assert [row["item"] for row in queries["rows"]] == list(range(100, 140))
