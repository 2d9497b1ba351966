"""An error on the command line names options, not the parameters of the library."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from sfumato.cli import app
from sfumato.cli.option_names import command_of, in_options
from sfumato.density.base import noise_from
from sfumato.errors import ParameterError
from sfumato.privacy.random_source import InsecureSeededSource
from support.cli_workspace import result_of, run

ROOT = typer.main.get_command(app)


def commands(group, path=()):
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", list(commands(ROOT)), ids=" ".join)
def test_every_option_is_named_where_its_parameter_is_wrong(path):
    command = command_of(ROOT, [*path, "a-file"])
    for each in command.params:
        option = max(each.opts, key=len)
        if option.startswith("--"):
            parameter = option.strip("-").replace("-", "_")
            error = ParameterError.of("Thing", parameter, f"must be given, not as {parameter!r}.")
            shown = in_options(str(error), error, command, path)
            assert shown == f"Thing: {option} must be given, not as {parameter!r}."


WRONG = {
    "fit r.csv -o m --user-column nosuch": "no column 'nosuch' (--user-column); there are 3 "
    "columns; if line 1 holds no names, give --no-header.",
    "fit r.csv -o m --user-column 9": "--user-column must be a position from 0 to 2, not 9.",
    "fit r.csv -o m --delimiter ab": "'ab' delimits no fields there; give another --delimiter.",
    "fit r.csv -o m --no-header": "correct it, or give --skip-bad.",
    "fit r.csv -o m --model als --seed -1": "must be an integer from 0 to 2**64 - 1, not -1.",
    "fit r.csv -o m --epsilon 1 --bounds 5,1": "sfumato: --bounds must be LOW,HIGH",
    "fit r.csv -o m --relevant-from 99": "nothing is left to learn from; lower --relevant-from.",
    "profiles release r.jsonl --mechanism blip --epsilon 1 --users k.txt -o p": "give "
    "--user-column, --item-column, --rating-column: any row",
    "profiles release r.csv --mechanism blip --epsilon 0 --users k.txt -o p": "--epsilon must be "
    "above 0",
    "mine itemsets t.parquet --min-support 1": "name one by --item-column, or the columns of "
    "baskets and items by --basket-column and --item-column.",
    "mine itemsets b.dat --format long --min-support 1": "--basket-column must name a column",
    "mine rank b.dat --on-disk --update foo": "sfumato: --update must be one of",
    "mine rank r.csv --source-column user --target-column item --weighted": "--weight-column",
    "mine svd m.npy": "--rank or --energy must be given",
    "mine svd m.npy --energy 2": "--energy must be a number above 0, up to 1, not 2",
    "mine cluster m.npy -k 99": "at most the number of rows, 4, not 99.",
    "telemetry plan --reports 0 --epsilon 1 --dictionary 5": "--reports must be",
    "telemetry plan --reports 9 --epsilon 1 --dictionary 0": "--dictionary must be",
    "telemetry params -f 0.5 -p 0.9 --q 0.1": "--p must be below --q by 2**-16",
    "audit profiles r.csv --mechanism blip --epsilon 1 --attacked 0": "--attacked must be",
    "index build m.npy -o i --encoder foo": "--encoder must be one of anti_sparse",
    "index build k.csv -o i": "vectors have numbers alone, besides an --id-column.",
    "index build m.npy --id-column 9 -o i": "there is no column '9' (--id-column)",
    "density build k.csv -o d --columns k,foo": "there is no column 'foo' (--columns)",
    "sketch build count-min k.csv -c foo -o s": "there is no column 'foo' (-c)",
    "split r.csv -o a.txt b.csv": "-o a.txt: must end in",
    "mine itemsets b.dat --min-support -1": "sfumato: --min-support must be",
    "sketch build count-min k.csv -c k -o x --set width=0": "CountMin: --set width must be",
    "mine rank b.dat --beta 4": "sfumato: --beta must be",
    "telemetry params -o p.json -f 0.5 --cohorts 0": "Rappor: --cohorts must be",
    "budget create l.db new --epsilon nan": "Ledger: --epsilon must be",
    "audit mechanism laplace --epsilon -1": "audit: --epsilon must be",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_command_names_its_options(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.dat").write_text("1 2\n2 3\n")
    (tmp_path / "k.csv").write_text("k\na\n")
    (tmp_path / "k.txt").write_text("1\n2\n")
    (tmp_path / "r.csv").write_text("user,item,rating\n1,2,3\n2,3,4\n")
    (tmp_path / "r.jsonl").write_text('{"user": 1, "item": 2}\n')
    np.save(tmp_path / "m.npy", np.eye(4) + 1)
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "t.parquet")
    with pytest.raises(SystemExit) as stopped:
        app(line.split(), prog_name="sfumato")
    assert stopped.value.code == 2
    assert WRONG[line] in capsys.readouterr().err


def test_plain_words_and_values_stay():
    command = command_of(ROOT, ["mine", "itemsets"])
    sentence = "read_baskets: the method of max_size, 'min_support' and min_support=3 is a method."
    assert in_options(sentence, ValueError(sentence), command, []) == sentence.replace(
        "max_size,", "--max-size,"
    )


def test_none_is_left_out():
    command = command_of(ROOT, ["evaluate"])
    error = ParameterError.of(
        "evaluate", "relevant_from", "must be None, since there is no rating."
    )
    assert "--relevant-from must be left out" in in_options(str(error), error, command, [])


def test_files_that_lack_something_name_the_command_that_makes_it(tmp_path):
    np.save(tmp_path / "m.npy", np.eye(4))
    (tmp_path / "k.csv").write_text("k\na\nb\n")
    run(tmp_path, "index", "build", "m.npy", "-o", "i", "--bits", "64")
    exact = ("index", "search", "i", "m.npy", "--rerank", "exact")
    assert "index build --keep-vectors" in run(tmp_path, *exact, code=2)
    assert "i: id 99 is not in the index" in run(
        tmp_path, "index", "remove", "i", "99", "-o", "j", code=2
    )
    run(tmp_path, "density", "build", "m.npy", "-o", "d")
    lacking = run(tmp_path, "density", "anomalies", "d", "m.npy", code=2)
    assert "density build --kind anomalies makes one" in lacking
    assert "-o x.txt: must end in" in run(tmp_path, "density", "query", "d", "-o", "x.txt", code=2)
    assert "--plot x.txt" in run(tmp_path, "density", "query", "d", "--plot", "x.txt", code=2)
    run(tmp_path, "sketch", "build", "count-min", "k.csv", "-c", "k", "-o", "s")
    assert "--among FILE" in run(tmp_path, "sketch", "top", "s", code=2)
    paid = ("sketch", "release", "s", "--epsilon", "1", "--dataset", "x", "-o", "r")
    assert "--ledger and --dataset go together" in run(tmp_path, *paid, "--set", "weight=1", code=2)


def test_warnings_name_nothing_that_only_python_has(tmp_path):
    np.save(tmp_path / "m.npy", np.eye(4))
    words = ("density", "build", "m.npy", "-o", "d", "--epsilon", "1", "--bounds", "0,1")
    with noise_from(InsecureSeededSource(3)):  # rare noise makes the count look large
        shown = result_of(tmp_path, *words).stderr
    assert "is too small here" in shown
    assert "release_" not in shown
    assert "input_report" not in shown
