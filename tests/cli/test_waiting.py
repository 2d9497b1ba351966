"""A command that works for long says so on a terminal, unless it is to be quiet."""

import io
import sys
import time

import pytest
import typer

from sfumato.cli import app, waiting
from sfumato.cli.option_names import command_of

ROOT = typer.main.get_command(app)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def open_terminal(monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    monkeypatch.setattr(waiting, "STEP", 0.01)

    def open(stream=Terminal):
        """Called in the test, since pytest sets the streams anew after its fixtures."""
        monkeypatch.setattr(sys, "stderr", stream())
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        return sys.stderr

    return open


def until(condition):
    end = time.monotonic() + 30
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_a_line_is_shown_and_taken_away_by_the_first_output(open_terminal):
    terminal = open_terminal()
    out = sys.stdout
    with waiting.waiting("sfumato mine cur", []):
        until(lambda: "sfumato mine cur: 0 s" in terminal.getvalue())
        print("the answer")
        shown = terminal.getvalue()
        assert shown.endswith("\r\x1b[2K")
        time.sleep(0.05)
        assert terminal.getvalue() == shown
    assert out.getvalue() == "the answer\n"
    assert sys.stdout is out


def test_a_bar_takes_its_place(open_terminal):
    terminal = open_terminal()
    with waiting.waiting("sfumato fit", []):
        until(lambda: "sfumato fit" in terminal.getvalue())
        sys.stderr.write("the bar")
        time.sleep(0.05)
        assert terminal.getvalue().endswith("\r\x1b[2Kthe bar")


@pytest.mark.parametrize("word", ["-q", "--quiet", "--json"])
def test_quiet_shows_nothing(open_terminal, word):
    terminal = open_terminal()
    with waiting.waiting("sfumato fit", ["fit", word]):
        time.sleep(0.05)
    assert terminal.getvalue() == ""


def test_a_pipe_gets_nothing(open_terminal):
    open_terminal(io.StringIO)
    with waiting.waiting("sfumato fit", []):
        time.sleep(0.05)
    assert sys.stderr.getvalue() == ""


def leaves(group):
    for each in group.commands.values():
        yield from leaves(each) if hasattr(each, "commands") else [each]


def test_every_command_takes_quiet():
    for command in leaves(ROOT):
        given = [option for each in command.params for option in each.opts]
        assert given.count("--quiet") == 1
        assert given.count("-q") == 1
    assert command_of(ROOT, ["telemetry", "params"]).params[-1].opts == ["--quiet"]


def test_a_quiet_command_answers_as_ever(tmp_path, capsys):
    with pytest.raises(SystemExit):
        app(["budget", "create", str(tmp_path / "l.db"), "shop", "--epsilon", "1", "-q"])
    assert "shop" in capsys.readouterr().out
