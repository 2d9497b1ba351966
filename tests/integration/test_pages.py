"""Every block of code on the pages runs, and prints what the page shows."""

import re
from pathlib import Path

import pytest
import typer

from sfumato.cli import app
from support.pages import ROOT, blocks, follow, lines_of, parse, shell_lines

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "web/README.md")]
PAGES += sorted((ROOT / "docs").glob("**/*.md"))
PAGES = [page for page in PAGES if not {"_build", "reference", "examples"} & {*page.parts}]
START = ROOT / "docs" / "start.md"
# Pages of one session: later blocks use what earlier ones made, shell and Python in one folder.
GUIDES = sorted((ROOT / "docs" / "how_to").glob("*.md"))


def shown(path, printed):
    """That each line of the page's outputs was printed, whatever its numbers."""
    found = set(lines_of(printed))
    for block in blocks(path):
        if block.language == "text":
            assert [line for line in lines_of(block.text) if line not in found] == []


def test_getting_started_runs_from_a_shell(tmp_path):
    chosen = [block for block in blocks(START) if block.is_shell]
    assert len(chosen) == 5
    shown(START, follow(START, tmp_path, chosen))
    assert (tmp_path / "audit.html").stat().st_size > 1000


def test_getting_started_runs_in_python(tmp_path):
    shells = [block for block in blocks(START) if block.is_shell]
    python = [block for block in blocks(START) if block.language == "python"]
    assert len(python) == 3
    follow(START, tmp_path, shells[:2] + python)
    assert (tmp_path / "audit.html").stat().st_size > 1000


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_a_guide_runs_from_top_to_bottom(path, tmp_path):
    assert len({block.language for block in blocks(path)} & {"sh", "python"}) == 2
    shown(path, follow(path, tmp_path))


RUN = {START, *GUIDES}
OTHERS = [p for p in PAGES if p not in RUN and any(b.language == "python" for b in blocks(p))]


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_block_of_python_runs_by_itself(path, tmp_path):
    for block in blocks(path):
        if block.language == "python":
            follow(path, tmp_path, [block])


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_command_of_a_page_is_one_that_the_shell_understands(path):
    for block in blocks(path):
        if block.is_shell:
            for words in shell_lines(block.text):
                assert words[0] in ("sfumato", "pip"), words
                if words[0] == "sfumato":
                    parse(words[1:])


COMMAND = re.compile(r"`(sfumato [a-z][^`|]*)`")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_command_that_a_sentence_names_is_there(path):
    # Only its name and options: sentences leave arguments out.
    for found in COMMAND.findall(path.read_text()):
        command, words = typer.main.get_command(app), found.split()[1:]
        while words and words[0] in getattr(command, "commands", {}):
            command = command.commands[words.pop(0)]
        assert len(words) < len(found.split()) - 1, found
        options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
        named = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert named <= options | {"--help"}, found


def test_languages_of_blocks_are_known():
    known = {"python", "sh", "console", "text", "mermaid", "toml", "html", ""}
    for path in PAGES:
        assert {block.language for block in blocks(path)} <= known, path


def test_the_runner_notices_what_does_not_run(tmp_path):
    page = Path(tmp_path / "page.md")
    page.write_text("Words.\n\n```python\nassert 1 == 1\nassert 1 == 2\n```\n")
    with pytest.raises(AssertionError) as failed:
        follow(page, tmp_path)
    assert failed.traceback[-1].lineno == 4  # from 0: the line of the page
    for wrong in ("sfumato fit --no-such-option", "sfumato nothing", "ls"):
        page.write_text(f"```sh\n{wrong}\n```\n")
        with pytest.raises(AssertionError):
            follow(page, tmp_path)
    with pytest.raises(Exception, match="nothing"):  # of typer's own copy of click
        parse(["fit", "a.csv", "-o", "b", "--nothing"])
    page.write_text("```sh\nsfumato --version\n```\n\n```text\nversion four\n```\n")
    with pytest.raises(AssertionError):
        shown(page, follow(page, tmp_path))


def leaves(command, words=()):
    """Every command that does something, with its words."""
    if not hasattr(command, "commands"):
        yield " ".join(words), command
    for name, each in getattr(command, "commands", {}).items():
        yield from leaves(each, (*words, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))


def test_every_command_is_on_a_page_that_uses_it():
    # Pages that are generated from the commands do not count.
    written = [page for page in PAGES if page.name != "commands.md"]
    text = "\n".join(page.read_text() for page in written)
    assert [name for name in COMMANDS if not re.search(rf"\bsfumato {name}\b", text)] == []


def test_every_argument_and_option_is_explained():
    bare = [
        f"{name} {parameter.name}"
        for name, command in COMMANDS.items()
        for parameter in command.params
        if not (getattr(parameter, "help", None) or "").strip()
    ]
    assert bare == []
