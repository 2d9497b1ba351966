"""A command that works for long says so on a terminal, unless it is to be quiet."""

import io
import math
import os
import re
import sys
import threading
import time
from importlib import import_module

import numpy as np
import pytest
import typer
from typer.core import TyperCommand

from sfumato.cli import app, waiting
from sfumato.store import open_store
from support.cli_workspace import run

ROOT = typer.main.get_command(app)
CLEAR = waiting.CLEAR


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def open_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    monkeypatch.setattr(waiting, "STEP", 0.01)

    def open(stream=Terminal):
        """Called in the test, since pytest sets the streams anew after its fixtures."""
        monkeypatch.setattr(sys, "stderr", stream())
        monkeypatch.setattr(sys, "stdout", Terminal())
        return sys.stderr

    return open


def until(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_a_line_is_shown_and_taken_away_by_output(open_terminal, monkeypatch):
    terminal = open_terminal()
    out = sys.stdout
    with waiting.waiting("sfumato mine cur"):
        until(lambda: "sfumato mine cur: 0 s" in terminal.getvalue())
        monkeypatch.setattr(waiting, "PATIENCE", math.inf)
        print("the answer")
        shown = terminal.getvalue()
        assert shown.endswith(CLEAR)
        time.sleep(0.05)
        assert terminal.getvalue() == shown
    assert out.getvalue() == "the answer\n"
    assert sys.stdout is out


def test_the_line_comes_back_after_output_but_never_in_the_middle_of_it(open_terminal):
    terminal = open_terminal()
    with waiting.waiting("sfumato demo"):
        sys.stderr.write("a warning without an end")
        time.sleep(0.05)
        assert terminal.getvalue().endswith("a warning without an end")
        sys.stderr.write("\n")
        until(lambda: terminal.getvalue().endswith(f"\n{CLEAR}sfumato demo: 0 s"))


def test_a_bar_takes_the_place_of_the_clock_and_the_clock_comes_back(open_terminal):
    terminal = open_terminal()
    with waiting.waiting("sfumato telemetry decode"):
        with waiting.progress("reading", "reports") as advance:
            advance(3, 12)
            until(lambda: "reading ━━━━━━──" in terminal.getvalue())
            assert "─ 3 of 12 reports" in terminal.getvalue()
            advance(7, None)
            until(lambda: "reading: 7 reports, 0 s" in terminal.getvalue())
        until(lambda: terminal.getvalue().endswith("sfumato telemetry decode: 0 s"))
    assert terminal.getvalue().endswith(CLEAR)


def test_hidden_counts_leave_the_clock(open_terminal):
    terminal = open_terminal()
    with waiting.waiting("sfumato density build"), waiting.progress("reading", hidden=True) as step:
        step(77, 99)
        until(lambda: "sfumato density build: 0 s" in terminal.getvalue())
    assert "77" not in terminal.getvalue()
    assert (step.done, step.total) == (77, 99)


def test_the_time_left_and_the_validation_metric_are_shown(monkeypatch):
    advance = waiting.Advance("fitting", "epochs")
    begin = time.monotonic()
    monkeypatch.setattr(waiting.time, "monotonic", lambda: begin + 200)
    advance._begin = begin
    advance(2, 4, 0.5)
    bar = "#" * 12 + "-" * 12
    assert advance.drawn("#", "-") == (
        f"fitting, validation 0.5000 {bar} 2 of 4 epochs, 3 min 20 s left"
    )


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_pipe_or_a_terminal_without_a_cursor_gets_nothing(open_terminal, monkeypatch, stream):
    open_terminal(stream)
    if stream is Terminal:
        monkeypatch.setenv("TERM", "dumb")
    with waiting.waiting("sfumato fit"), waiting.progress("fitting") as advance:
        time.sleep(0.05)
        advance(1, 2)
    assert sys.stderr.getvalue() == ""


def test_something_is_shown_within_the_first_second():
    assert waiting.PATIENCE + waiting.STEP <= 0.6  # the imports of a command come before


def leaves(group, path=()):
    """The commands and their names, without `serve`, which does not end."""
    for name, each in group.commands.items():
        if (*path, name) == ("serve",):
            continue
        if hasattr(each, "commands"):
            yield from leaves(each, (*path, name))
        else:
            yield " ".join((*path, name)), each


def test_every_command_takes_quiet_as_q():
    for _, command in leaves(ROOT):
        given = [option for each in command.params for option in each.opts]
        assert given.count("--quiet") == 1
        assert given.count("-q") == 1


# What shows of each command, in an order in which each has its inputs; "": the clock.
COMMANDS = [
    ("fit train.csv -o model.sfu --dense --epochs 2", "2 of 2 epochs"),
    ("models", ""),
    ("evaluate model.sfu test.csv --top 5", "of 1NN users"),
    ("recommend model.sfu 7", ""),
    ("tune train.csv --dense --epochs 1 --factors 4", "of NN trials"),
    ("compare train.csv --models popular,item-neighbours", "2 of 2 fits"),
    ("split train.csv -o a.csv b.csv", ""),
    ("generate -o made.csv", ""),
    ("inspect model.sfu", ""),
    ("demo --once", ""),
    ("doctor", ""),
    ("bench --quick --runs 1 --only sketch/bloom -o benches", "1 of 1 cases"),
    ("warmup privacy", "2 of 2 calls"),
    ("audit profiles train.csv --epsilon 2 --attacked 20 -o audit", "140 of 140 attacks"),
    ("audit mechanism laplace --trials 1000 --seed 1", "4 of 4 steps"),
    ("audit model model.sfu --train train.csv --test test.csv", ""),
    ("sketch build count-min train.csv -c item --set width=64 -o s.sfu", "5,400 rows"),
    ("sketch build count-min test.csv -c item --set width=64 -o s2.sfu", "600 rows"),
    ("sketch build bloom-filter test.csv -c item --capacity 500 -o bloom.sfu", "600 rows"),
    ("sketch info s.sfu", ""),
    ("sketch estimate s.sfu 7", ""),
    ("sketch contains bloom.sfu 7", ""),
    ("sketch top s.sfu --among items.txt", ""),
    ("sketch build min-hash train.csv -c item -o h.sfu", "5,400 rows"),
    ("sketch build min-hash test.csv -c item -o h2.sfu", "600 rows"),
    ("sketch compare h.sfu h2.sfu", ""),
    ("sketch merge s.sfu s2.sfu -o s3.sfu", "2 of 2 files"),
    ("budget create ledger.db shop --epsilon 9", ""),
    (
        "sketch release s.sfu -o r.sfu --epsilon 1 --ledger ledger.db --dataset shop "
        "--release-id one --unit event",
        "",
    ),
    ("budget show ledger.db", ""),
    ("budget history ledger.db shop", ""),
    ("budget verify ledger.db", ""),
    ("budget resume ledger.db one -o again.sfu", ""),
    ("profiles release train.csv --mechanism blip --epsilon 2 --users users.txt -o p.sfu", ""),
    ("profiles similar p.sfu 7", ""),
    ("index build points.npy -o index.sfi --bits 64", "60 of 60 vectors"),
    ("index add index.sfi points.npy -o more.sfi", "60 of 60 vectors"),
    ("index remove index.sfi 3 -o less.sfi", ""),
    ("index search index.sfi points.npy -k 2", "60 of 60 queries"),
    ("telemetry params --epsilon 4 --categories few.txt -o params.json", ""),
    ("telemetry encode values.txt --params params.json -o reports.jsonl", "200 values"),
    ("telemetry aggregate reports.jsonl --params params.json -o counts.sfu", "200 reports"),
    ("telemetry decode reports.jsonl --params params.json", "200 reports"),
    ("telemetry params --epsilon 4 --categories few.txt --metric b -o other.json", ""),
    ("telemetry encode values.txt --params other.json -o more.jsonl", "200 values"),
    (
        "telemetry associate reports.jsonl more.jsonl --params-first params.json "
        "--params-second other.json",
        "",
    ),
    ("telemetry params --scheme prefix-discovery --epsilon 4 --length 3 -o words.json", ""),
    ("telemetry encode values.txt --params words.json -o strings.jsonl", "200 values"),
    ("telemetry discover strings.jsonl --params words.json", "200 reports"),
    ("telemetry plan --reports 1000 --epsilon 4 --dictionary 100", ""),
    ("density build table.csv --columns a,b -o d.sfu --bounds 0,1 --bandwidth 0.2", "300 rows"),
    ("density build table.csv --columns a,b -o c.sfu --label label", "300 rows"),
    ("density build table.csv --columns a -o t.sfu --target b", "300 rows"),
    ("density build table.csv --columns a,b -o n.sfu --kind anomalies", "300 rows"),
    ("density query d.sfu table.csv", "300 of 300 points"),
    ("density classify c.sfu table.csv", "300 of 300 points"),
    ("density regress t.sfu table.csv", "300 of 300 points"),
    ("density anomalies n.sfu table.csv", "300 of 300 points"),
    ("density modes d.sfu", ""),
    ("density sample d.sfu -o rows.csv -n 10", ""),
    ("mine itemsets baskets.dat --min-support 20", "baskets"),
    ("mine rules baskets.dat --min-support 20 --min 0.1", "baskets"),
    ("mine similar texts.txt", "steps"),
    ("mine cluster table.csv --columns a,b -k 2", "iterations"),
    ("mine svd points.npy --rank 2 --method power", "vectors"),
    ("mine cur points.npy --columns 3 --rows 3", ""),
    ("mine rank edges.csv", "iterations"),
    ("store info service.db", ""),
    ("store backup service.db -o service.backup", ""),
    ("store restore service.backup other.db", ""),
    ("store migrate other.db", ""),
    ("store keys create service.db front --scope read", ""),
    ("store keys list service.db", ""),
    ("store keys revoke service.db KEY", ""),
]


def test_every_command_is_tried():
    tried = {name for name, _ in leaves(ROOT) for words, _ in COMMANDS if words.startswith(name)}
    assert tried == {name for name, _ in leaves(ROOT)}


@pytest.fixture(scope="module")
def folder(shop):
    random = np.random.default_rng(0)
    np.save(shop / "points.npy", random.normal(size=(60, 16)))
    rows = [f"{a:.4f},{b:.4f},{'xy'[int(a > 0.5)]}" for a, b in random.random((300, 2))]
    (shop / "table.csv").write_text("\n".join(["a,b,label", *rows]))
    (shop / "few.txt").write_text("0\n1\n2\n")
    (shop / "values.txt").write_text("".join(f"{i % 3}\n" for i in range(200)))
    baskets = [" ".join(map(str, random.choice(9, 3, False))) for _ in range(200)]
    (shop / "baskets.dat").write_text("\n".join(baskets) + "\n")
    (shop / "texts.txt").write_text(
        "".join(f"the same words in line {i % 20}\n" for i in range(40))
    )
    edges = [f"{i % 17},{i * i % 13}" for i in range(90)]
    (shop / "edges.csv").write_text("\n".join(["source,target", *edges]))
    with open_store(shop / "service.db") as store:
        store.append({"users": ["ann"], "items": ["tea"]})
        (shop / "key").write_text(store.create_key("back", ["read"])[0].key_id)
    return shop


class PseudoTerminal:
    """stderr at a pseudo-terminal, whose output is collected."""

    def __init__(self, monkeypatch):
        self._controller, device = os.openpty()
        self.text, self._patch = "", monkeypatch
        self._device = device
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self):
        data = b""
        while True:
            try:
                part = os.read(self._controller, 4096)
            except OSError:  # the device was closed
                break
            if not part:
                break
            data += part
        self.text = data.decode()

    def run(self, *words):
        """The exit code of a command and what the terminal got."""
        with open(self._device, "w", encoding="utf-8") as stream, self._patch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            patch.setattr(sys, "stdout", io.StringIO())
            with pytest.raises(SystemExit) as ended:
                app(list(words))
        self._reading.join(30)
        os.close(self._controller)
        return ended.value.code, self.text


@pytest.fixture
def impatient(monkeypatch):
    """Every line is shown at once, and no command ends before it was drawn."""
    drawn, draw, stop = threading.Event(), waiting._Line._draw, waiting._Line.stop

    def noted(line):
        draw(line)
        drawn.set()

    def late(line):
        if line._due < math.inf:
            drawn.wait(60)
        stop(line)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(waiting, "PATIENCE", 0)
    monkeypatch.setattr(waiting, "STEP", 0.005)
    monkeypatch.setattr(waiting, "REST", 0)
    monkeypatch.setattr(waiting._Line, "_draw", noted)
    monkeypatch.setattr(waiting._Line, "stop", late)
    monkeypatch.drawn = drawn
    return monkeypatch


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(import_module("sfumato.cli.demo"), "summary", lambda console: {})


def test_every_command_shows_its_work_on_a_terminal(here, impatient, folder):
    key = (folder / "key").read_text()
    for words, shown in COMMANDS:  # one test, since some need what others write
        impatient.drawn.clear()
        code, text = PseudoTerminal(impatient).run(*words.replace("KEY", key).split())
        assert code == 0, (words, text)
        name = next(name for name, _ in leaves(ROOT) if words.startswith(name))
        pattern = shown.replace("NN", r"\d+") or rf"sfumato {name}: \d+ s"
        assert re.search(pattern, text), (words, text)
        left = text.rpartition(CLEAR)[2]  # notes and warnings, which stay
        assert all(line.startswith("sfumato: ") for line in left.split("\r\n") if line), left


@pytest.mark.parametrize("hides", ["-q", "--quiet", ""])
def test_a_quiet_command_has_no_line_when_it_begins(folder, monkeypatch, hides):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(waiting, "PATIENCE", math.inf)
    monkeypatch.setattr(sys, "stderr", Terminal())
    began = []
    monkeypatch.setattr(TyperCommand, "invoke", lambda *_: began.append(len(waiting._running)))
    monkeypatch.chdir(folder)
    for words, _ in COMMANDS:
        with pytest.raises(SystemExit) as ended:
            app([*words.split(), *([hides] if hides else [])])
        assert ended.value.code == 0, (words, sys.stderr.getvalue())
        assert began.pop() == (0 if hides else 1), words
        assert not began


def test_json_hides_the_line_too(folder, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", math.inf)
    monkeypatch.setattr(sys, "stderr", Terminal())
    began = []
    monkeypatch.setattr(TyperCommand, "invoke", lambda *_: began.append(len(waiting._running)))
    for name, command in leaves(ROOT):
        options = [option for each in command.params for option in each.opts]
        assert "--json" in options
        needed = next(words for words, _ in COMMANDS if words.startswith(name)).split()
        with pytest.raises(SystemExit):
            app([*needed, "--json"])
    assert began == [0] * len(list(leaves(ROOT)))


def test_a_quiet_command_prints_nothing_on_the_terminal(here, impatient):
    words = "density build table.csv --columns a,b -o quiet.sfu --bounds 0,1 --bandwidth 0.2"
    assert PseudoTerminal(impatient).run(*words.split())[0] == 0
    impatient.setattr(waiting, "PATIENCE", math.inf)
    begin = TyperCommand.invoke

    def hurried(command, context):
        for line in waiting._running:  # those that the options did not take away
            line._due = 0
        return begin(command, context)

    impatient.setattr(TyperCommand, "invoke", hurried)
    words = ("density", "query", "quiet.sfu", "table.csv")
    assert PseudoTerminal(impatient).run(*words, "-q") == (0, "")
    assert "300 of 300 points" in PseudoTerminal(impatient).run(*words)[1]


def test_a_user_whose_id_is_q_is_not_an_option(tmp_path, impatient):
    rows = "".join(f"-q,{i}\nu{i},{i}\n" for i in range(9))
    (tmp_path / "r.csv").write_text("user,item\n" + rows)
    run(tmp_path, "fit", "r.csv", "-o", "m.sfu", "--model", "popular")
    words = ("recommend", str(tmp_path / "m.sfu"), "--", "-q")
    assert "sfumato recommend: 0 s" in PseudoTerminal(impatient).run(*words)[1]


def interrupted(monkeypatch, name, at):
    """Make the call of this number of a function of `os` behave as Ctrl-C."""
    calls, usual = [], getattr(os, name)

    def called(*given, **options):
        calls.append(given)
        if len(calls) == at:
            raise KeyboardInterrupt
        return usual(*given, **options)

    monkeypatch.setattr(os, name, called)


@pytest.mark.parametrize("at", [1, 2])
def test_a_split_that_is_stopped_leaves_no_file(shop, tmp_path, monkeypatch, at):
    interrupted(monkeypatch, "fsync", at)
    words = ("split", "train.csv", "-o", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    assert "stopped; nothing was written" in run(shop, *words, code=130)
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_is_stopped_names_the_files_that_are_complete(shop, tmp_path, monkeypatch):
    interrupted(monkeypatch, "fsync", 2)
    run(shop, "fit", "train.csv", "-o", "stopped.sfu", "--dense", "--epochs", "1")
    prefix = str(tmp_path / "found")
    words = ("audit", "model", "stopped.sfu", "--train", "train.csv", "--test", "test.csv")
    assert "stopped; nothing was written" in run(shop, *words, "-o", prefix, code=130)
    monkeypatch.undo()
    interrupted(monkeypatch, "fsync", 2)
    assert "stopped; complete is found.json" in run(shop, *words, "-o", prefix, code=130)
    assert [each.name for each in tmp_path.iterdir()] == ["found.json"]
