"""An error on the command line names options, not the parameters of the library."""

import pytest
import typer

from sfumato.cli import app
from sfumato.cli.option_names import command_of, in_options
from sfumato.errors import ParameterError

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
