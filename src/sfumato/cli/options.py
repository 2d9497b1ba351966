"""Options that several commands have, and what an output file must be."""

import inspect
import tempfile
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = [
    "Dataset",
    "Force",
    "Json",
    "Ledger",
    "Quiet",
    "Relation",
    "ReleaseId",
    "check_output",
    "given_options",
    "option_name",
    "refuse_options",
    "takes",
]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
SHORT = ("k", "n")  # that have no longer form

Ledger = Annotated[
    Path | None,
    typer.Option(help="File of the ledger that is charged; without it nothing is accounted."),
]
Dataset = Annotated[str | None, typer.Option(help="Data set of the ledger that is charged.")]
ReleaseId = Annotated[
    str | None,
    typer.Option(help="Name of the release; the same name again returns the stored bytes."),
]
Relation = Annotated[str | None, typer.Option(help="How neighbours differ: add/remove or replace.")]


def takes(options: dict[str, Any], before: str) -> Callable[[Any], Any]:
    """Give a command options that it reads from the context alone, ahead of one of its own.

    Parameters
    ----------
    options : dict
        The type of each option by its name. One of plain `bool` type is False unless given, every
        other one None.
    before : str
        The parameter of the command that comes after them in its help.
    """

    def decorated(command: Any) -> Any:
        own = inspect.signature(command)
        listed = list(own.parameters.values())
        at = list(own.parameters).index(before)
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=False if kind.__origin__ is bool else None,
                annotation=kind,
            )
            for name, kind in options.items()
        ]
        parameters = [*listed[:at], *added, *listed[at:]]

        @wraps(command)
        def run(**given: Any) -> Any:
            return command(**{name: given[name] for name in own.parameters})

        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorated


def check_output(output: Path, force: bool, *inputs: Path | None) -> None:
    """Refuse before the work begins what could not be written after it, or would lose an input."""
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output}: there is no folder {output.parent}.")
    if output.is_dir():
        raise IsADirectoryError(f"{output}: is a folder; name a file in it.")
    if output.exists() and not force:
        raise FileExistsError(f"{output}: is there already; use --force to replace it.")
    for each in inputs:
        if each is not None and each.exists() and output.exists() and output.samefile(each):
            raise FileExistsError(f"{output}: is read as well; name another output.")
    if not output.exists():
        # What cannot be written is found before anything is learned or charged. The file has no
        # name, where the system can, so that a command that is killed here leaves none behind.
        with tempfile.TemporaryFile(dir=output.parent, prefix=f".{output.name}."):
            pass


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: each for name, each in options.items() if each is not None and each is not False}


def option_name(name: str) -> str:
    """Return a parameter's name as it is written on the command line."""
    return f"-{name}" if name in SHORT else f"--{name.replace('_', '-')}"


def refuse_options(command: str, wanted: str, given: dict[str, Any], names: Iterable[str]) -> None:
    """Raise ValueError where one of these options was given."""
    for name in names:
        if name in given:
            raise ValueError(f"{command}: {option_name(name)} does not go with {wanted}.")
