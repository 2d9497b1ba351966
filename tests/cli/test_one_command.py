"""A process of one command loads that one alone, the same as in the whole command line."""

import subprocess
import sys

import pytest
import typer

from sfumato import cli
from sfumato.cli import app

ROOT = typer.main.get_command(app)


def described(command):
    """Help, arguments and options of a command, and of those below it."""
    below = {name: described(each) for name, each in getattr(command, "commands", {}).items()}
    return command.help, [(each.name, each.opts, each.required) for each in command.params], below


@pytest.mark.parametrize("name", sorted(ROOT.commands))
def test_a_command_made_alone_is_the_one_of_the_whole(name):
    alone = typer.main.get_command(cli._made(name))
    assert described(alone.commands[name]) == described(ROOT.commands[name])
    assert set(alone.commands) <= {name, "inspect", "demo"}


def test_a_command_loads_no_module_of_others_and_an_unknown_one_is_refused():
    code = (
        "import sys; from sfumato.cli import main; sys.argv[1:] = {words!r}\n"
        "try: main()\n"
        "except SystemExit as stop:\n"
        "    print(stop.code, *sorted(m for m in sys.modules if m.startswith('sfumato.cli.')))\n"
    )

    def words_run(*words):
        line = [sys.executable, "-c", code.format(words=list(words))]
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[-1].split(), done.stderr

    (status, *modules), _ = words_run("budget", "--help")
    assert status == "0"
    assert "sfumato.cli.budget" in modules
    assert not {"sfumato.cli.audit", "sfumato.cli.mine", "sfumato.cli.density"} & {*modules}
    for words in (["--engine", "local", "mine", "--help"], ["--version"]):
        assert words_run(*words)[0][0] == "0"
    (status, *_), error = words_run("bugdet", "--help")
    assert status == "2"
    assert "No such command 'bugdet'" in error
    assert "budget" in error
