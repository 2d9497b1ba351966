"""Options that several commands have, and what an output file must be."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Force", "Json", "Quiet", "check_output"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it is there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]


def check_output(output: Path, force: bool) -> None:
    """Refuse before the work begins what could not be written after it."""
    if not output.parent.is_dir():
        raise FileNotFoundError(f"{output}: there is no folder {output.parent}.")
    if output.is_dir():
        raise IsADirectoryError(f"{output}: is a folder; name a file in it.")
    if output.exists() and not force:
        raise FileExistsError(f"{output}: is there already; use --force to replace it.")
