"""One form of bounds on the command line: LOW,HIGH, of all columns or as NAME=LOW,HIGH of one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["ColumnBounds", "column_bounds", "joined", "rating_bounds"]

ColumnBounds = Annotated[
    list[str] | None,
    typer.Option(
        "--bounds",
        metavar="[NAME=]LOW,HIGH",
        help="Public limits: of all columns, of one as NAME=LOW,HIGH, or once for each column in "
        "turn; required with --epsilon.",
    ),
]


def column_bounds(
    written: Sequence[str], names: list[str] | None, option: str = "--bounds"
) -> list[tuple[float, float]]:
    """One pair of limits, for all columns, or one for each of them in order."""
    named = {each.partition("=")[0].strip(): each.partition("=")[2] for each in written}
    if not any("=" in each for each in written):
        pairs = [_pair(option, each) for each in written]
        if names is not None and len(pairs) not in (1, len(names)):
            all_or_each = f"once for all columns, or {len(names)} times, once for each of"
            often = f"{all_or_each} {', '.join(names)}" if len(names) > 1 else "once"
            raise ValueError(f"{option} must be given {often}; it is given {len(pairs)} times.")
        return pairs
    if names is None or not all("=" in each for each in written):
        raise ValueError(
            f"{option} must be NAME=LOW,HIGH for every column that has a name, or for none."
        )
    for name in named:
        if name not in names:
            known = f"columns are {', '.join(names)}" if len(names) > 1 else f"column is {names[0]}"
            raise ValueError(f"{option} names {name!r}, which is no column; the {known}.")
    for name in names:
        if name not in named:
            raise ValueError(f"{option} of column {name!r} are missing: {option} {name}=LOW,HIGH.")
    if len(named) < len(written):
        raise ValueError(f"{option} names a column twice.")
    return [_pair(option, named[name]) for name in names]


def rating_bounds(
    written: Sequence[str] | None, file: Path, given: Mapping[str, Any]
) -> tuple[float, float] | None:
    """The limits of the ratings of a file; given: how its columns are chosen."""
    if not written:
        return None
    column = str(given.get("ratings") or "rating")
    if any("=" in each for each in written) and "ratings" not in given and file.is_file():
        from sfumato.data.readers.batches import matches
        from sfumato.data.readers.ratings import chosen_columns

        column = chosen_columns(matches(file)[0], dict(given)).get("ratings", column)
    return column_bounds(written, [column])[0]


def _pair(option: str, written: str) -> tuple[float, float]:
    """The two numbers of LOW,HIGH."""
    from sfumato.cli.density.files import numbers

    found = numbers(option, written)
    if len(found) != 2 or not found[0] < found[1]:
        raise ValueError(f"{option} must be LOW,HIGH, the first below the second, not {written!r}.")
    return found[0], found[1]


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
