"""Commands on Spark write what they write on one machine; others say that they run here."""

import json
import socket

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.cli import app
from sfumato.cli.engines import command_words
from sfumato.sketch import load


def run(line):
    with pytest.raises(SystemExit) as stopped:
        app(line.split(), prog_name="sfumato")
    return stopped.value.code


@pytest.fixture
def keys(tmp_path, monkeypatch, spark):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    users = [None if user == 7 else f"user {user}" for user in rng.integers(0, 300, 3000)]
    pq.write_table(pa.table({"user": users, "n": rng.integers(1, 5, 3000)}), "keys.parquet")
    (tmp_path / "keys.csv").write_text("user\na\n")


@pytest.mark.parametrize(
    "options",
    [
        "count-min -c user --weights n --skip-nulls",
        "count-min -c user --weights n --clip 3",
        "hyper-log-log -c user",
    ],
)
def test_a_sketch_of_spark_is_that_of_one_machine(keys, capfd, options):
    assert (
        run(f"sketch build {options.split()[0]} keys.parquet -o a {options.split(' ', 1)[1]}") == 0
    )
    capfd.readouterr()
    line = f"sketch build {options.split()[0]} keys.parquet -o b {options.split(' ', 1)[1]} --json"
    assert run(f"--engine spark --master local[2] {line}") == 0
    assert json.loads(capfd.readouterr().out)["engine"] == "SparkEngine(master='local[2]')"
    assert load("a").to_bytes() == load("b").to_bytes()


WRONG = {
    "--engine dask sketch info a": "--engine must be one of local, spark, not 'dask'.",
    "--master local[2] sketch info a": "--master is of --engine spark; give both or neither.",
    "--engine spark sketch info a": "sketch info: runs on this machine only; leave --engine out. "
    "Spark runs: ",
    "--engine spark --master here sketch build hyper-log-log keys.parquet -c user -o x": "master "
    "must be an address of Spark",
    "--engine spark --master local[2] sketch build hyper-log-log k.csv -c k -o x --delimiter ;": ""
    "sketch build: --delimiter does not go with --engine spark.",
    "--engine spark --master local[2] sketch build hyper-log-log keys.csv -c user -o x": "a file "
    "is not Parquet",
    "--engine spark --master local[2] sketch build hyper-log-log keys.parquet -c film -o x": "there"
    " is no column 'film' (-c); the columns are: user, n.",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_cannot_be_done_is_one_line(keys, capfd, line, tmp_path):
    assert run(line) == 2
    error = [each for each in capfd.readouterr().err.splitlines() if each.startswith("sfumato:")]
    assert len(error) == 1
    assert WRONG[line] in error[0]
    assert not (tmp_path / "x").exists()


LINE = "sketch build hyper-log-log keys.parquet -c user -o x"


def test_a_master_that_does_not_answer_is_one_line(keys, capfd):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert run(f"--engine spark --master spark://127.0.0.1:{port} {LINE}") == 2
    error = capfd.readouterr().err.splitlines()
    assert error == [
        f"sfumato: SparkEngine: no master answers at spark://127.0.0.1:{port}; is it running, and "
        "may this machine reach it?"
    ]


def test_a_machine_without_java_is_one_line(keys, capfd, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert run(f"--engine spark --master local[2] {LINE}") == 2
    error = capfd.readouterr().err.splitlines()
    assert error == ["sfumato: SparkEngine: JAVA_HOME names no Java; unset it, or let it name one."]


def test_files_of_two_schemas_and_sketches_that_do_not_merge_are_one_line(keys, capfd, tmp_path):
    (tmp_path / "mixed").mkdir()
    for at, column in enumerate(([1, 2], ["a", "b"])):
        pq.write_table(pa.table({"user": column}), tmp_path / "mixed" / f"{at}.parquet")
    spark = "--engine spark --master local[2]"
    for line, words in (
        (f"sketch build hyper-log-log {tmp_path}/mixed -c user -o x", "do not have one schema"),
        (
            "sketch build count-min keys.parquet -c user --skip-nulls --set cells=conservative "
            "-o x",
            "CountMin: cannot merge, ",
        ),
    ):
        assert run(f"{spark} {line}") == 2
        error = [e for e in capfd.readouterr().err.splitlines() if e.startswith("sfumato:")]
        assert len(error) == 1
        assert words in error[0]


def test_words_of_the_command_are_found_behind_options():
    assert command_words(["--engine", "spark", "--master=x", "sketch", "build", "a", "b"]) == [
        "sketch",
        "build",
    ]
    assert command_words(["--help"]) == []
    assert command_words(["fit", "Ratings.csv"]) == ["fit"]
