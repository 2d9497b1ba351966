"""The sketch commands end to end: what they print, what they refuse, and that they stay light."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sfumato.sketch
from sfumato.cli import app, sketch_kinds
from sfumato.sketch import BloomFilter, CountMin, HyperLogLog, load
from sfumato.sketch.base import KeyedSketch

KEYS = np.random.default_rng(8).zipf(1.3, 20_000) % 5000
WORDS = [f"item {key}" for key in KEYS]
TABLE = pa.table({"user": KEYS, "item": WORDS, "hours": KEYS % 7, "share": KEYS / 2})


@pytest.fixture
def views(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(TABLE, "views.parquet")
    pa.csv.write_csv(TABLE, "views.csv")
    return "views.csv"


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def answer(*arguments):
    """The one JSON document that a command prints."""
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def refused(*arguments):
    """The one line of an expected error."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("sfumato: ")
    return result.stderr


def build(kind, file, out, *more, column="user"):
    return answer("sketch", "build", kind, file, "--column", column, "-o", out, *more)


@pytest.mark.parametrize("file", ["views.csv", "views.parquet"])
def test_build_writes_the_sketch_of_the_column(views, file):
    result = build("count-min", file, "out.sk", "--set", "width=512", "--set", "seed=3")
    want = CountMin(512, seed=3).update(KEYS)
    assert load("out.sk") == want
    assert result["kind"] == "CountMin"
    assert result["parameters"] == want.parameters
    assert (result["rows_read"], result["total"]) == (KEYS.size, KEYS.size)
    assert result["file_bytes"] == os.path.getsize("out.sk")


def test_build_takes_weights_threads_limits_and_many_files(views):
    build("count-min", views, "w.sk", "--weights", "hours", "--threads", 2)
    assert load("w.sk") == CountMin(65536).update(KEYS, KEYS % 7)
    answer(
        *("sketch", "build", "count-min", "views.csv", "views.parquet", "--column", "user"),
        *("-o", "two.sk", "--memory-limit", "200MiB"),
    )
    assert load("two.sk") == CountMin(65536).update(KEYS).update(KEYS)


ODD = ["guest", "", "7.5", "1e3", "007", "-", "18446744073709551616", '"a,b"']


@pytest.mark.parametrize("odd", ODD)
def test_a_row_of_another_type_moves_one_cell_a_row_whatever_the_file(views, odd):
    ids = [str(key) for key in range(500)]
    for name, rows in (("few.csv", ids), ("more.csv", [*ids, odd])):
        with open(name, "w") as file:
            file.write("user,item\n" + "".join(f"{row},x\n" for row in rows))
        build("count-min", name, f"{name}.sk", "--set", "width=4096")
    few, more = load("few.csv.sk"), load("more.csv.sk")
    assert np.abs(few._table - more._table).sum() == 4
    assert few == CountMin(4096).update(np.arange(500))


@pytest.mark.parametrize("odd", ["guest", "", "-5", "1e300", "2.9", "99999999999999999999"])
def test_a_clipped_weight_is_never_refused_and_moves_no_other(views, odd):
    rows = [(str(key), str(key % 5)) for key in range(50)]
    for name, lines in (("few.csv", rows), ("more.csv", [*rows, ("7", odd)])):
        with open(name, "w") as file:
            file.write("user,hours\n" + "".join(f"{key},{hours}\n" for key, hours in lines))
        how = "--weights", "hours", "--clip", 5, "--set", "width=4096"
        build("count-min", name, f"{name}.sk", *how)
    few, more = load("few.csv.sk"), load("more.csv.sk")
    assert np.abs(few._table - more._table).sum() <= 4 * 5
    assert more.heaviest <= 5
    assert few == CountMin(4096).update(np.arange(50), np.arange(50) % 5)


BAD_LINES = [
    b"\xff\xfe,x",
    b'"open,x',
    b"1,2,3,4",
    b"lone",
    b"",
    b'{"user": "\\ud800"}',
    b"guest,x",
]


@pytest.mark.parametrize("bad", BAD_LINES)
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_no_line_is_refused_where_bad_ones_are_skipped(views, bad, form):
    good = [b"%d,x" % key if form == "csv" else b'{"user": %d}' % key for key in range(300)]
    head = [b"user,item"] if form == "csv" else []
    for name, lines in (("few", good), ("more", [*good[:150], bad, *good[150:]])):
        with open(f"{name}.{form}", "wb") as file:
            file.write(b"\n".join([*head, *lines]) + b"\n")
        build(
            "count-min",
            f"{name}.{form}",
            f"{name}.sk",
            "--set",
            "width=4096",
            "--skip-bad",
            "--force",
        )
    few, more = load("few.sk"), load("more.sk")
    assert few == CountMin(4096).update(np.arange(300))
    assert np.abs(few._table - more._table).sum() <= 4


def test_build_counts_empty_values_as_one_key_or_skips_them(views):
    with open("gaps.csv", "w") as file:
        file.write("user,item\n1,a\n,b\n3,c\n")
    build("count-min", "gaps.csv", "all.sk")
    assert load("all.sk") == CountMin(65536).update([1, None, 3])
    build("count-min", "gaps.csv", "g.sk", "--skip-nulls")
    assert load("g.sk") == CountMin(65536).update([1, 3])


@pytest.mark.parametrize("kind", sketch_kinds.kinds())
def test_every_keyed_kind_builds_with_its_defaults(views, kind):
    result = build(kind, "views.parquet", "out.sk")
    assert sketch_kinds.kinds()[kind].__name__ == result["kind"]
    shown = answer("sketch", "info", "out.sk")
    assert shown == {name: result[name] for name in shown}
    assert answer("inspect", "out.sk") == shown
    assert shown["merging"]["kind"] in ("exact", "rounding", "refused")


def test_every_public_keyed_sketch_has_a_kind():
    public = {getattr(sfumato.sketch, name) for name in sfumato.sketch.__all__}
    keyed = {kind for kind in public if isinstance(kind, type) and issubclass(kind, KeyedSketch)}
    assert set(sketch_kinds.kinds().values()) == keyed


def test_estimate_takes_a_key_for_its_value(views):
    build("count-min", views, "n.sk")
    build("count-min", views, "t.sk", column="item")
    numbers, words = CountMin(65536).update(KEYS), CountMin(65536).update(WORDS)
    got = answer("sketch", "estimate", "n.sk", "1", "2")["rows"]
    assert [(row["key"], row["estimate"]) for row in got] == [
        (key, int(numbers.estimate([int(key)])[0])) for key in ("1", "2")
    ]
    got = answer("sketch", "estimate", "t.sk", "item 1")["rows"]
    assert [(row["key"], row["estimate"]) for row in got] == [
        ("item 1", int(words.estimate(["item 1"])[0]))
    ]
    assert run("sketch", "estimate", "n.sk", "--json", "--", "-5").exit_code == 0
    assert run("sketch", "estimate", "n.sk", "--json", "tea").exit_code == 0
    assert "give one or more" in refused("sketch", "estimate", "n.sk")


def test_estimates_of_keys_come_with_their_interval_in_sketches_and_releases(views):
    build("count-min", views, "n.sk", "--set", "width=512")
    answer("sketch", "release", "n.sk", "-o", "r.sk", "--epsilon", "1")
    for file in ("n.sk", "r.sk"):
        stored = load(file)
        got = answer("sketch", "estimate", file, "1", "2")
        limits = np.array([(row["low"], row["high"]) for row in got["rows"]])
        assert np.array_equal(limits.T, stored.interval(["1", "2"], 0.95))
        assert got["confidence"] == 0.95
        assert "about 95% of cases" in run("sketch", "estimate", file, "1").stdout
        assert answer("sketch", "info", file)["standard_error"] == stored.standard_error()
    build("hyper-log-log", views, "h.sk")
    assert "standard_error" not in answer("sketch", "info", "h.sk")


def test_estimate_of_a_set_tells_membership_and_of_a_count_one_number(views):
    build("bloom-filter", views, "b.sk")
    got = answer("sketch", "estimate", "b.sk", "1", "77777777")["rows"]
    assert got == [{"key": "1", "contains": True}, {"key": "77777777", "contains": False}]
    assert "Of keys that were never added" in run("sketch", "estimate", "b.sk", "1").stdout
    build("hyper-log-log", views, "h.sk")
    want = HyperLogLog().update(KEYS).estimate()
    got = answer("sketch", "estimate", "h.sk")
    assert (got["kind"], got["estimate"], got["confidence"]) == ("HyperLogLog", want, 0.99)
    assert got["low"] < len(set(KEYS.tolist())) < got["high"] < 1.1 * want
    assert "takes no key; give none" in refused("sketch", "estimate", "h.sk", "1")


def test_sizes_come_from_the_error_or_the_number_of_keys(views):
    made = build("hyper-log-log", views, "h.sk", "--error", 0.05)
    assert made["parameters"]["precision"] == HyperLogLog.from_error(0.05).precision
    made = build("count-min", views, "c.sk", "--error", 0.01, "--set", "seed=4")
    assert made["parameters"] == CountMin.from_error(0.01, seed=4).parameters
    made = build("bloom-filter", views, "b.sk", "--capacity", 5000, "--error", 0.002)
    assert made["parameters"] == BloomFilter.from_capacity(5000, 0.002).parameters
    assert 0 < made["false_positive_rate"] < 0.002
    words = ("sketch", "build", "count-min", views, "-c", "user", "-o", "x.sk")
    assert "--error chooses what --set width=9 sets" in refused(
        *words, "--error", 0.1, "--set", "width=9"
    )
    assert "takes no --capacity" in refused(*words, "--capacity", 9)
    assert "CountMin: --error must be" in refused(*words, "--error", 2)
    bloom = ("sketch", "build", "bloom-filter", views, "-c", "user", "-o", "x.sk")
    assert "needs --capacity" in refused(*bloom, "--error", 0.1)
    assert "BloomFilter: --capacity must be" in refused(*bloom, "--capacity", 0)


def test_every_kind_is_sized_by_what_it_takes(views):
    for name, kind in sketch_kinds.kinds().items():
        how = {"capacity": 100} if hasattr(kind, "contains") else {"error": 0.2}
        assert isinstance(sketch_kinds.maker(name, ["seed=3"], **how)(), kind)
    assert sketch_kinds.SIZES.keys() == {kind.__name__ for kind in sketch_kinds.kinds().values()}


def test_contains_asks_a_filter_and_says_how_often_it_errs(views):
    build("bloom-filter", views, "b.sk", "--capacity", 5000)
    got = answer("sketch", "contains", "b.sk", "1", "77777777")
    assert got["rows"][0] == {"key": "1", "contains": True}
    assert got["false_positive_rate"] == load("b.sk").error_bound()
    assert "Of keys that were never added" in run("sketch", "contains", "b.sk", "1").stdout
    build("hyper-log-log", views, "h.sk")
    assert "is no Bloom filter" in refused("sketch", "contains", "h.sk", "1")


def test_top_lists_the_heaviest_keys_of_a_sketch_that_tracked_them(views):
    build("count-sketch", "views.parquet", "c.sk", "--set", "track=50", column="item")
    values, counts = np.unique(WORDS, return_counts=True)
    best = values[np.argsort(-counts)][:3].tolist()
    rows = answer("sketch", "top", "c.sk", "-k", 3)["rows"]
    assert [row["key"] for row in rows] == best
    build("count-min", views, "m.sk")
    assert "build a count-sketch with --set track" in refused("sketch", "top", "m.sk")


def test_merge_is_the_sketch_of_both(views):
    build("count-min", views, "a.sk")
    build("count-min", views, "b.sk", "--weights", "hours")
    result = answer("sketch", "merge", "a.sk", "b.sk", "-o", "c.sk")
    assert load("c.sk") == load("a.sk").merge(load("b.sk"))
    assert result["total"] == load("c.sk").total
    build("count-min", views, "d.sk", "--set", "seed=9")
    line = refused("sketch", "merge", "a.sk", "d.sk", "-o", "e.sk")
    assert "seed is 0 here and 9 there" in line
    assert "(a.sk and d.sk)" in line
    build("hyper-log-log", views, "h.sk")
    assert "cannot merge with" in refused("sketch", "merge", "a.sk", "h.sk", "-o", "e.sk")
    assert "two sketches or more" in refused("sketch", "merge", "a.sk", "-o", "e.sk")
    assert not os.path.exists("e.sk")


MISTAKES = {
    "no such file": ("count-min", "none.csv", "user"),
    "no column 'film' (--column); the columns are: user, item": ("count-min", "views.csv", "film"),
    "must be one of ams, bloom": ("counts", "views.csv", "user"),
    "width must be an integer from 2": ("count-min", "views.csv", "user", "--set", "width=1"),
    "width must be an integer": ("count-min", "views.csv", "user", "--set", "width=wide"),
    "cells must be one of 'plain'": ("count-min", "views.csv", "user", "--set", "cells=9"),
    "has no parameter 'wide'": ("count-min", "views.csv", "user", "--set", "wide=1"),
    "--set must be NAME=VALUE": ("count-min", "views.csv", "user", "--set", "width"),
    "takes no weights": ("hyper-log-log", "views.csv", "user", "--weights", "hours"),
    "threads must be": ("count-min", "views.csv", "user", "--threads", "0"),
    "a size such as 500MB": ("count-min", "views.csv", "user", "--memory-limit", "lots"),
    "--memory-limit must be at least": ("count-min", "views.csv", "user", "--memory-limit", "1kB"),
    "must end in .parquet": ("count-min", "out.xlsx", "user"),
}


@pytest.mark.parametrize("sentence", MISTAKES)
def test_a_mistake_is_one_line_and_writes_nothing(views, sentence):
    with open("out.xlsx", "w") as file:
        file.write("x")
    kind, file, column, *more = MISTAKES[sentence]
    there = set(os.listdir())
    line = refused("sketch", "build", kind, file, "--column", column, "-o", "out.sk", *more)
    assert sentence in line
    assert set(os.listdir()) == there


def test_outputs_are_not_overwritten_unless_forced(views):
    build("count-min", views, "out.sk")
    before = load("out.sk")
    line = refused("sketch", "build", "count-min", views, "-c", "item", "-o", "out.sk")
    assert "use --force" in line
    assert "use --force" in refused("sketch", "merge", "out.sk", "out.sk", "-o", "out.sk")
    assert load("out.sk") == before
    build("count-min", views, "out.sk", "--force", column="item")
    assert load("out.sk") != before
    assert "no folder" in refused("sketch", "merge", "out.sk", "out.sk", "-o", "no/out.sk")


def test_files_that_are_no_sketch_are_one_line(views):
    build("count-min", views, "out.sk")
    with open("out.sk", "rb") as file:
        content = file.read()
    with open("cut.sk", "wb") as file:
        file.write(content[:-100])
    assert "cut.sk: the sketch is cut off or damaged" in refused("sketch", "info", "cut.sk")
    assert "views.csv: not a sketch" in refused("inspect", "views.csv")
    assert "none.sk: No such file" in refused("sketch", "estimate", "none.sk", "1")
    assert "is a folder" in refused("inspect", ".")


def test_a_command_line_not_understood_is_one_line(views):
    line = refused("sketch", "build", "count-min", views, "-o", "x.sk")
    assert "--column" in line
    assert "See " in line
    assert "--jsn" in refused("sketch", "info", "x.sk", "--jsn")
    refused("no-such-command")


def test_people_get_tables(views):
    result = run("sketch", "build", "count-min", views, "--column", "user", "-o", "out.sk")
    assert result.exit_code == 0
    assert "CountMin" in result.stdout
    # Which column it was, and no bar where there is no terminal.
    assert result.stderr == f"sfumato: {views}: keys from 'user'.\n"
    result = run("sketch", "estimate", "out.sk", "1")
    assert "estimate" in result.stdout
    count = CountMin(65536).update(KEYS).estimate([1])[0]
    assert f"{count:,}" in result.stdout


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [("1GiB", 2**30), ("500MB", 5 * 10**8), ("1.5 kib", 1536), ("77", 77), ("2T", 2 * 10**12)],
)
def test_sizes_are_read(written, bytes_):
    assert sketch_kinds.size(written) == bytes_


def shell(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, **options
    )


LOADED = "print([m for m in 'numpy numba pyarrow duckdb rich.table'.split() if m in sys.modules])"


def test_help_and_version_load_nothing_heavy():
    code = f"""import sys
from sfumato.cli import main
for line in (["--help"], ["sketch", "--help"], ["sketch", "build", "--help"], ["--version"]):
    sys.argv = ["sfumato", *line]
    try:
        main()
    except SystemExit as left:
        assert left.code == 0
{LOADED}"""
    lines = shell(code).stdout.splitlines()
    assert lines[0] == "Usage: sfumato [OPTIONS] COMMAND [ARGS]..."
    assert lines[-2:] == [shell("import sfumato; print(sfumato.__version__)").stdout.strip(), "[]"]


def test_rooms_are_there_without_importing_them():
    assert shell("import sfumato; print(sfumato.sketch.CountMin.__name__)").stdout == "CountMin\n"
    assert "sketch" in shell("import sfumato; print(dir(sfumato))").stdout
    with pytest.raises(AttributeError, match="no attribute 'cellar'"):
        _ = sfumato.cellar


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal and SIGINT")
def test_ctrl_c_on_a_terminal_stops_with_130_and_nothing_written(tmp_path):
    keys = np.arange(20_000_000)
    pq.write_table(pa.table({"user": keys}), tmp_path / "big.parquet", row_group_size=1 << 20)
    lead, end = pty.openpty()  # stderr is a terminal: there is a bar
    command = ["sketch", "build", "count-min", "big.parquet", "--column=user", "-o", "out.sk"]
    slow = ["--set=depth=32", "--threads=1"]
    running = subprocess.Popen(
        [sys.executable, "-c", "from sfumato.cli import main; main()", *command, *slow],
        cwd=tmp_path,
        stderr=end,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(end)
    shown = b""
    while b"rows" not in shown:
        shown += os.read(lead, 4096)
    running.send_signal(signal.SIGINT)
    try:
        while piece := os.read(lead, 4096):
            shown += piece
    except OSError:
        pass  # the other end is closed
    assert running.wait(20) == 130
    assert b"stopped; nothing was written" in shown
    assert os.listdir(tmp_path) == ["big.parquet"]


def test_help_names_every_kind():
    from sfumato.cli import sketch

    assert sketch.KINDS.split(", ") == sorted(sketch_kinds.kinds())


def test_every_kind_that_can_be_built_answers_something(views):
    for kind in sketch_kinds.kinds():
        build(kind, views, f"{kind}.sk", "--force")
        overall = run("sketch", "estimate", f"{kind}.sk", "--json")
        about = run("sketch", "estimate", f"{kind}.sk", "1", "--json")
        assert 0 in (overall.exit_code, about.exit_code), kind


def test_a_link_is_followed_and_a_device_left_alone(views):
    build("count-min", views, "real.sk")
    os.symlink("real.sk", "link.sk")
    build("hyper-log-log", views, "link.sk", "--force")
    assert os.path.islink("link.sk")
    assert isinstance(load("real.sk"), HyperLogLog)
    os.mkfifo("pipe.sk")
    result = refused(
        "sketch", "build", "count-min", views, "-c", "user", "-o", "pipe.sk", "--force"
    )
    assert "is not a regular file" in result


def test_keys_are_shown_as_they_are_and_counts_in_full(views):
    pa.csv.write_csv(pa.table({"key": [1234567] * 3, "n": [1_000_001, 5, 6]}), "big.csv")
    more = "--weights", "n", "-o", "big.sk"
    assert run("sketch", "build", "count-sketch", "big.csv", "-c", "key", *more).exit_code == 0
    shown = run("sketch", "top", "big.sk").stdout
    assert "1234567 " in shown
    assert "1,000,012" in shown


def test_hints_name_the_option(views):
    pa.csv.write_csv(pa.table({"key": [1, 2, 3], "w": [1, None, 3]}), "holes.csv")
    build = "sketch", "build", "count-min", "holes.csv", "-c", "key"
    assert "--skip-nulls" in refused(*build, "--weights", "w", "-o", "holes.sk")
    share = "-c", "user", "--weights", "share", "-o", "share.sk"
    assert "cells=real" in refused("sketch", "build", "count-sketch", views, *share)


def test_a_file_is_not_merged_with_itself(views):
    build("count-min", views, "a.sk")
    os.symlink("a.sk", "b.sk")
    for again in ("a.sk", "./a.sk", "b.sk"):
        assert "named twice" in refused("sketch", "merge", "a.sk", again, "-o", "c.sk")


def test_no_weight_is_refused_where_a_public_bound_clips_them(views):
    plain = "".join(f"{key},1\n" for key in range(50))
    build = "sketch", "build", "count-min", "w.csv", "-c", "key", "--weights", "n", "--clip", 5
    Path("w.csv").write_text("key,n\n" + plain)
    assert run(*build, "-o", "w.sk").exit_code == 0
    before = load("w.sk")
    odd_ones = {"x": 0, "": 0, "-1": 0, "nan": 0, "2.7": 2, "1e3": 5, "9" * 400: 5}
    for odd, counted in odd_ones.items():
        Path("w.csv").write_text(f"key,n\n{plain}7,{odd}\n")
        result = run(*build, "-o", "w.sk", "--force", "--quiet")
        assert result.exit_code == 0, result.stderr
        assert load("w.sk").total == before.total + counted
    release = "sketch", "release", "w.sk", "-o", "r", "--epsilon", 1, "--set", "weight=5"
    assert run(*release).exit_code == 0
    assert "--weights" in refused(*build[:6], "--clip", 5, "-o", "x.sk")
    assert "clip must be" in refused(*build[:-1], 0, "-o", "x.sk")
    kind = "sketch", "build", "feature-hasher", *build[3:]
    assert "takes no --clip" in refused(*kind, "-o", "x.sk")


def test_compare_tells_what_two_sketches_say_of_each_other(views):
    half = TABLE.slice(0, 10_000)
    pa.csv.write_csv(half, "half.csv")
    for kind, verbs in (("min-hash", {"similarity"}), ("ams", {"inner"}), ("count-min", None)):
        build(kind, views, "all.sk", "--force")
        build(kind, "half.csv", "half.sk", "--force")
        if verbs is None:
            assert "cannot be compared" in refused("sketch", "compare", "all.sk", "half.sk")
            continue
        result = answer("sketch", "compare", "all.sk", "half.sk")
        assert set(result) == verbs
    exact = float(np.bincount(KEYS) @ np.bincount(KEYS[:10_000], minlength=KEYS.max() + 1))
    assert result["inner"] == pytest.approx(exact, rel=0.3)
