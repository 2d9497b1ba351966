"""One form of bounds on the command line: LOW,HIGH, of all columns or as NAME=LOW,HIGH of one."""

from collections.abc import Sequence
from typing import Annotated

import typer

__all__ = ["ColumnBounds", "column_bounds", "joined", "pair"]

ColumnBounds = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="[NAME=]LOW,HIGH",
        help="Public limits: of all columns, of one as NAME=LOW,HIGH, or once for each column in "
        "turn; required with --epsilon.",
    ),
]


def pair(option: str, written: str) -> tuple[float, float]:
    """The two numbers of LOW,HIGH."""
    from sfumato.cli.density.files import numbers

    found = numbers(option, written)
    if len(found) != 2 or not found[0] < found[1]:
        raise ValueError(f"{option} must be LOW,HIGH, the first below the second, not {written!r}.")
    return found[0], found[1]


def column_bounds(written: Sequence[str], names: list[str] | None) -> list[tuple[float, float]]:
    """One pair of limits, for all columns, or one for each of them in order."""
    named = {each.partition("=")[0].strip(): each.partition("=")[2] for each in written}
    if not any("=" in each for each in written):
        pairs = [pair("--bounds", each) for each in written]
        if names is not None and len(pairs) not in (1, len(names)):
            raise ValueError(
                f"--bounds must be given once for all columns, or {len(names)} times, once for "
                f"each of {', '.join(names)}; it is given {len(pairs)} times."
            )
        return pairs
    if names is None or not all("=" in each for each in written):
        raise ValueError(
            "--bounds must be NAME=LOW,HIGH for every column that has a name, or for none."
        )
    for name in named:
        if name not in names:
            raise ValueError(
                f"--bounds names {name!r}, which is no column; the columns are {', '.join(names)}."
            )
    for name in names:
        if name not in named:
            raise ValueError(f"--bounds of column {name!r} are missing: --bounds {name}=LOW,HIGH.")
    if len(named) < len(written):
        raise ValueError("--bounds names a column twice.")
    return [pair("--bounds", named[name]) for name in names]


def joined(arguments: Sequence[str]) -> list[str]:
    """Arguments with `--bounds LOW HIGH`, the form of earlier versions, as `--bounds LOW,HIGH`."""
    found: list[str] = []
    for each in arguments:
        if found[-2:-1] == ["--bounds"] and _is_number(found[-1]) and _is_number(each):
            found[-1] = f"{found[-1]},{each}"
        else:
            found.append(each)
    return found


def _is_number(written: str) -> bool:
    try:
        float(written)
    except ValueError:
        return False
    return True
