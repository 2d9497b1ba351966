"""Options that several commands have, and what an output file must be."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Force", "Json", "Quiet", "check_output"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


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
