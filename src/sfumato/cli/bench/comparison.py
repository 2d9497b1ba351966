"""The last run in a folder: what it measured, and which ratios have changed since."""

import json
from pathlib import Path
from typing import Any

__all__ = ["FORMAT", "changes", "compare", "marked", "merged", "read", "references"]

FORMAT = 1
LARGEST = 1 << 24  # bytes of a report, at most
Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """Return the rows of an earlier report, none if there is no file.

    Raises
    ------
    ValueError
        If the file is not a report of `sfumato bench`.
    """
    if not path.exists():
        return []
    if path.stat().st_size > LARGEST:
        raise ValueError(
            f"{path}: is no report of sfumato bench: it has more than {LARGEST} bytes."
        )
    try:
        found = json.loads(path.read_bytes())
        rows: list[Row] = found["rows"]
        if found["format"] != FORMAT or not all(_is_row(row) for row in rows):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise ValueError(
            f"{path}: is no report of sfumato bench; name another folder with -o."
        ) from None
    return rows


def _is_row(row: Row) -> bool:
    return all(isinstance(row[name], str) for name in ("case", "unit")) and all(
        set(each["ratio"]) == {"median", "low", "high"} for each in references(row)
    )


def references(row: Row) -> list[Row]:
    """What our call was measured beside: peers that ran, then the machine's ceiling."""
    peers = [each for each in row["peers"] if "missing" not in each]
    return peers if row["ceiling"] is None else [*peers, row["ceiling"]]


def compare(row: Row, before: list[Row]) -> Row:
    """Return a row with the change of each ratio since the last run of the same case and size.

    A change is "slower" or "faster" where the ratios of the two runs do not overlap, else
    "within the spread". Where the machine, Python or our version differ it is stated all the same:
    ratios travel better than times.
    """
    last = next((each for each in before if _same(each, row)), None)
    if last is None:
        return row
    old = {each["name"]: each for each in references(last)}
    compared = {**row, "before": last["measured"]}
    compared["peers"] = [_changed(each, old) for each in row["peers"]]
    if row["ceiling"] is not None:
        compared["ceiling"] = _changed(row["ceiling"], old)
    return compared


def _same(one: Row, other: Row) -> bool:
    return (one["case"], one["items"]) == (other["case"], other["items"])


def _changed(new: Row, old: dict[str, Row]) -> Row:
    last = old.get(new["name"])
    if last is None or "missing" in new:
        return new
    ratio, before = new["ratio"], last["ratio"]
    verdict = "within the spread"
    if ratio["high"] < before["low"]:
        verdict = "slower"
    elif ratio["low"] > before["high"]:
        verdict = "faster"
    change = {"before": before["median"], "times": ratio["median"] / before["median"]}
    versions = {each.get("version") for each in (new, last)}
    return {**new, "change": {**change, "verdict": verdict, "other_version": len(versions) > 1}}


def changes(rows: list[Row]) -> list[tuple[Row, Row]]:
    """All pairs of a row and what it was measured beside that have a change."""
    return [(row, each) for row in rows for each in references(row) if "change" in each]


def marked(rows: list[Row]) -> list[tuple[Row, Row]]:
    """Those whose ratio left the spread."""
    return [pair for pair in changes(rows) if pair[1]["change"]["verdict"] in ("slower", "faster")]


def merged(rows: list[Row], before: list[Row]) -> list[Row]:
    """These rows, and those of earlier runs that were not measured again, in the order of names."""
    rest = [each for each in before if not any(_same(each, row) for row in rows)]
    return sorted([*rows, *rest], key=lambda row: (row["case"], row["items"]))
