"""The blocks of a page, run as a reader would run them: in order, in one folder, in one session."""

import io
import os
import re
import shlex
import tomllib
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import typer
from typer.testing import CliRunner

from sfumato.cli import app
from sfumato.cli.bounds import joined

__all__ = ["ROOT", "Block", "blocks", "follow", "lines_of", "parse", "shell_lines"]

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
SHELL = ("sh", "console", "bash")


class Block(NamedTuple):
    """A block of code: its language, its text, and the line of the page where it begins."""

    language: str
    text: str
    line: int

    @property
    def is_shell(self):
        return self.language in SHELL


def blocks(path):
    """All blocks of a page, in order."""
    page = path.read_text()
    found = FENCE.finditer(page)
    return [Block(each[1], each[2], page[: each.start()].count("\n") + 2) for each in found]


def shell_lines(text):
    """The words of each command of a shell block, without comments and prompts."""
    whole = re.sub(r"\\\n\s*", " ", text)
    lines = [line.removeprefix("$ ") for line in whole.splitlines()]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def parse(words):
    """Whether the shell's parser takes a command: its name, arguments, options; raises if not."""
    command, rest, context = typer.main.get_command(app), joined(words), None
    while True:
        name = context.info_name if context else "sfumato"
        context = command.make_context(name, list(rest), parent=context)
        if not hasattr(command, "commands"):
            return
        rest = [*context._protected_args, *context.args]
        assert rest
        name, command, rest = command.resolve_command(context, rest)


@contextmanager
def inside(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def follow(path, folder, chosen=None):
    """Run these blocks of a page, or all, and return what they print."""
    session, printed = {"__name__": "page"}, io.StringIO()
    with inside(folder), redirect_stdout(printed):
        for block in blocks(path) if chosen is None else chosen:
            if block.is_shell:
                for words in shell_lines(block.text):
                    printed.write(_run(words))
            elif block.language == "python":
                padded = "\n" * (block.line - 1) + block.text  # errors then name the page's line
                exec(compile(padded, str(path), "exec"), session)
    return printed.getvalue()


def lines_of(text):
    """Its lines with every number as #, and one blank for several."""
    numbered = (re.sub(r"-?\d[\d.,]*(e[+-]?\d+)?", "#", line) for line in text.splitlines())
    return [" ".join(line.split()) for line in numbered if line.split()]


def _run(words):
    """What a command prints; one of pip is not run, but what it installs is there."""
    if words[:2] == ["pip", "install"]:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for package in words[2:]:
            name, _, extra = package.rstrip("]").partition("[")
            assert name == extras["name"]
            assert set(filter(None, extra.split(","))) <= set(extras["optional-dependencies"])
        return ""
    assert words[0] == "sfumato", words
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, (words, result.output)
    return result.stdout
