"""How commands read ratings, lists of ids, and one id from the command line."""

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["Columns", "columns", "id_of", "listed", "read", "typed"]

User = Annotated[str | None, typer.Option("--user-column", help="Name or number, from 0.")]
Item = Annotated[str | None, typer.Option("--item-column", help="Name or number, from 0.")]
Rating = Annotated[str | None, typer.Option("--rating-column", help="Name or number, from 0.")]
Time = Annotated[str | None, typer.Option("--time-column", help="Name or number, from 0.")]
Delimiter = Annotated[str | None, typer.Option(help="Between fields; guessed unless told.")]
Skip = Annotated[bool, typer.Option("--skip-bad", help="Leave out and count bad rows.")]

Columns = dict[str, Any]


def columns(
    user: str | None,
    item: str | None,
    rating: str | None,
    time: str | None,
    delimiter: str | None,
    skip: bool,
) -> Columns:
    """The options of `read_interactions` that were given."""
    named = {"users": user, "items": item, "ratings": rating, "times": time}
    given: Columns = {name: _place(value) for name, value in named.items() if value is not None}
    if delimiter is not None:
        given["delimiter"] = delimiter.replace("\\t", "\t")
    if skip:
        given["on_error"] = "skip"
    return given


def read(path: Path, given: Columns) -> Any:
    """The ratings of a file; a missing file is told by its name."""
    from sfumato.data import read_interactions

    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file.")
    return read_interactions(path, **given)


def listed(path: Path, name: str) -> Any:
    """The ids of a text file, one a line: integers if all of them are."""
    lines = [line for line in path.read_text().splitlines() if line]
    if not lines:
        raise ValueError(f"{name}: {path} lists no ids; write one a line.")
    return typed(lines)


def typed(texts: list[str]) -> Any:
    """Ids as a file of ratings would have them: integers if all are, written plainly."""
    import numpy as np

    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return np.array(texts, object)
    plain = all(str(number) == text for number, text in zip(numbers, texts, strict=True))
    return np.array(numbers, np.int64) if plain else np.array(texts, object)


def id_of(text: str, kind: str) -> int | str:
    """One id of the kind the model knows."""
    if kind != "integers":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the model's ids are integers; {text!r} is none.") from None


def _place(text: str) -> str | int:
    return int(text) if text.isdigit() else text
