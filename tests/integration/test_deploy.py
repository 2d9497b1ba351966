"""What deploy/ tells an operator to type exists, and the unit is one that systemd reads."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer.main

from sfumato.cli import app

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = ("Dockerfile", "sfumato.service", "README.md")


def commands(text):
    """Calls of the program as lists of words, from lines of shell, Docker and systemd."""
    text = re.sub(r'["\[\]`, ]+', " ", text)
    found = re.findall(r"(?:^|[ /])sfumato ((?:serve|store)\b[^\n;&]*)", text, re.MULTILINE)
    return [call.split() for call in found]


def command_of(words):
    """The command that words lead to, and the words after its name."""
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("name", FILES)
def test_commands_and_options_exist(name):
    calls = commands((DEPLOY / name).read_text())
    assert calls
    for words in calls:
        command, others = command_of(words)
        assert not hasattr(command, "commands"), f"no such command: {' '.join(words)}"
        known = {text for each in command.params for text in (*each.opts, *each.secondary_opts)}
        options = {word for word in others if word.startswith("-")}
        assert options <= known, f"{' '.join(words)}: {options - known}"


def test_an_option_that_is_none_would_be_noticed():
    (words,) = commands("ExecStart=/opt/sfumato/bin/sfumato serve --databases x")
    command, others = command_of(words)
    assert command.name == "serve"
    assert others[0] not in {text for each in command.params for text in each.opts}


def test_the_unit_is_valid(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = (DEPLOY / "sfumato.service").read_text()
    # The program is looked for where the reader installs it: here, one that exists.
    program = shutil.which("true")
    copy = tmp_path / "sfumato.service"
    copy.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={program}", unit, flags=re.MULTILINE))
    made = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    about_us = [line for line in made.stderr.splitlines() if "sfumato.service" in line]
    assert not about_us, about_us
