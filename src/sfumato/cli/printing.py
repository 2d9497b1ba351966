"""What the commands print: one JSON document, or tables for people; progress goes to stderr."""

import inspect
import json
import math
import sys
from pathlib import Path
from typing import Any

from sfumato.cli.waiting import progress
from sfumato.data.files import beginning

__all__ = ["answer", "check_kind", "document", "info", "plain", "progress", "promise", "rows"]

NAMES = ("key", "item", "user")
MAGICS = (b"SFUM", b"SFIX")  # of all files of ours that are neither text nor a ledger
ANSWER = 1 << 26  # bytes of an answer's file, at most


def info(stored: Any, file: Path) -> dict[str, Any]:
    """What a sketch or release in a file is, without its cells."""
    found: dict[str, Any] = {
        "file": str(file),
        "kind": type(stored).__name__,
        "parameters": stored.parameters,
        "nbytes": stored.nbytes,
        "file_bytes": file.stat().st_size,
    }
    if hasattr(stored, "statement"):
        found["statement"] = stored.statement.to_dict()
    elif hasattr(stored, "merging"):
        found["merging"] = {"kind": stored.merging.kind, "reason": stored.merging.reason or None}
    if hasattr(stored, "total"):
        found["total"] = stored.total
    if hasattr(stored, "users_"):
        found["profiles"] = len(stored)
    return {**found, **_standard_error(stored), **_error_bound(stored)}


def check_kind(file: Path, what: str, *magics: bytes) -> None:
    """Refuse what cannot be such a file by its first bytes, before any large room is imported."""
    begin = beginning(file, what)
    if begin.startswith(b"SQLite"):
        raise ValueError(f"{file}: is a ledger? Look into it with budget show.")
    if not begin.startswith(magics or MAGICS):
        raise ValueError(f"{file}: not a {what}: the magic bytes are missing or cut off.")


def answer(file: Path, as_json: bool) -> None:
    """The answer of a mechanism, with its statement."""
    import numpy as np

    from sfumato.privacy.mechanisms.base import Answer

    if file.stat().st_size > ANSWER:
        raise ValueError(f"{file}: is no answer: it has more than {ANSWER} bytes.")
    released = Answer.from_bytes(file.read_bytes())
    if as_json:
        content = {
            "value": np.asarray(released.value).tolist(),
            "statement": released.statement.to_dict(),
        }
        document({"file": str(file), "kind": "Answer", **content}, as_json)
    else:
        print(released)
    promise(released.statement, True)


def promise(statement: Any, as_json: bool, more: str = "") -> None:
    """Print the statement, and a warning on stderr if it guarantees next to nothing.

    A promise of nothing at all is itself a warning, a text. more: another warning, or "".
    """
    if not as_json:
        print(statement)
    warning = statement if isinstance(statement, str) else statement.warning
    warnings = " ".join(part for part in (warning, more) if part)
    if warnings:
        print(f"sfumato: warning: {warnings}", file=sys.stderr)


def _standard_error(sketch: Any) -> dict[str, Any]:
    """The standard error of a key at random, of what has one for each key."""
    ask = getattr(sketch, "standard_error", None)
    if ask is None or "keys" not in inspect.signature(ask).parameters:
        return {}
    return {"standard_error": ask()}


def _error_bound(sketch: Any) -> dict[str, Any]:
    ask = getattr(sketch, "error_bound", None)
    if ask is None:
        return {}
    needs = inspect.signature(ask).parameters
    try:
        bound = float(ask(0.99) if "confidence" in needs else ask())
    except ValueError:  # this setting of the sketch has none
        return {}
    if hasattr(sketch, "contains"):
        return {"false_positive_rate": bound}
    return {"error_bound": bound, **({"confidence": 0.99} if "confidence" in needs else {})}


def document(content: dict[str, Any], as_json: bool) -> None:
    """One thing: its fields."""
    if as_json:
        print(json.dumps(plain(content), allow_nan=False, ensure_ascii=False))
        return
    table = _table("", "")
    table.show_header = False
    for name, value in content.items():
        if name == "statement":  # people get it as sentences
            continue
        table.add_row(name.replace("_", " "), _words(value))
    _print(table)


def rows(content: list[dict[str, Any]], as_json: bool) -> None:
    """Print a table, one line per row."""
    if as_json:
        print(json.dumps({"rows": plain(content)}, allow_nan=False, ensure_ascii=False))
        return
    table = _table(*(content[0] if content else []))
    for name, column in list(zip(content[0] if content else [], table.columns, strict=True))[1:]:
        texts = all(isinstance(row[name], str) for row in content)
        column.justify = "left" if texts else "right"
    for row in content:
        # A name is to be copied as it is, even if it is a number.
        table.add_row(*(str(v) if name in NAMES else _words(v) for name, v in row.items()))
    _print(table)


def _table(*names: str) -> Any:
    from rich.box import SIMPLE
    from rich.table import Table

    return Table(*names, box=SIMPLE)


def _print(table: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 10_000  # a pipe has no edge to wrap at
    console.print(table)


def _words(value: Any) -> Any:
    from rich.text import Text

    if isinstance(value, dict):
        inside = ", ".join(f"{name}={part}" for name, part in value.items() if part is not None)
        return Text(inside)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Text("-" if value is None else str(value))
    if isinstance(value, int) or abs(value) >= 1e6:
        return Text(f"{value:,.0f}" if math.isfinite(value) else str(value))
    return Text(f"{value:,.6g}")


def plain(value: Any) -> Any:
    """The value in JSON's types; what JSON has no number for is null."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
