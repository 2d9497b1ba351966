"""`sfumato demo`: a tour of every room on generated data, each answer beside something to compare.

`summary` runs all tours and prints one table; `visit` prints the tour of one room.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from typing import Any

from rich.console import Console
from rich.table import Table

from sfumato.cli import waiting

__all__ = ["ROOMS", "WIDTH", "summary", "visit"]

WIDTH = 80  # columns, however wide the terminal is
Row = dict[str, Any]
Headline = tuple[str, str, str]  # a question, its answer, and what it is compared with


@dataclass(frozen=True)
class Room:
    """The tour of a room: the function that prints it, and the row of the summary."""

    module: str  # of this folder
    tour: str  # a function of it: Console -> rows
    headline: Callable[[list[Row]], Headline]
    see: str  # what a reader should see in the tour, in one line

    def visited(self, console: Console, **sizes: int) -> list[Row]:
        """Print the tour and return its rows."""
        tour = getattr(import_module(f"{__name__}.{self.module}"), self.tour)
        rows: list[Row] = tour(console, **sizes)
        return rows


def _sketch(rows: list[Row]) -> Headline:
    row = _named(rows, "question", "item 0")
    memory = row["memory"]
    return f"sales of one item, in {memory}", row["answer"], f"truth {row['truth']}"


def _privacy(rows: list[Row]) -> Headline:
    row = _named(rows, "question", "item 0, private")
    return "the same, private at epsilon 1", row["answer"], f"truth {row['truth']}"


def _recommend(rows: list[Row]) -> Headline:
    ndcg = {row["lists"]: row["ndcg"] for row in rows if "lists" in row}
    best = ndcg["linear items (the default of sfumato fit)"]
    return "NDCG@10 of recommendations", f"{best:.3f}", f"popularity {ndcg['most popular']:.3f}"


def _profile(rows: list[Row]) -> Headline:
    row = next(row for row in rows if row["release"] == "Blip" and row["epsilon"] > 4)
    return (
        f"profile rebuilt, epsilon {row['epsilon']:.0f} per item",
        f"{row['attack']:.0%}",
        f"popularity {row['popularity']:.0%}",
    )


def _retrieve(rows: list[Row]) -> Headline:
    row, signs = (_named(rows, "code", name) for name in ("learned", "random directions"))
    return (
        f"nearest found by {row['bytes']}-byte codes",
        f"{row['first']:.0%}",
        f"plain signs {signs['first']:.0%}",
    )


def _telemetry(rows: list[Row]) -> Headline:
    row = rows[0]
    return (
        "clients with one word, by noisy bits",
        f"{row['estimate']:,.0f}",
        f"truth {row['truth']:,}",
    )


def _density(rows: list[Row]) -> Headline:
    row = next(row for row in rows if row["question"].startswith("right classes"))
    return (
        "accuracy of classes, epsilon 1",
        f"{row['private']:.0%}",
        f"no privacy {row['not_private']:.0%}",
    )


def _mine(rows: list[Row]) -> Headline:
    row = _named(rows, "question", "copied articles that were found")
    return "edited copies of articles found", row["answer"], f"planted {row['truth']}"


def _named(rows: list[Row], column: str, value: str) -> Row:
    return next(row for row in rows if row.get(column) == value)


ROOMS = {
    "sketch": Room(
        "sketches",
        "sketches",
        _sketch,
        "See: answers near the truth, from kilobytes that never grow.",
    ),
    "privacy": Room(
        "sketches",
        "privacy",
        _privacy,
        "See: noise hides each sale; the budget refuses one release too many.",
    ),
    "recommend": Room(
        "recommend",
        "models",
        _recommend,
        "See: lists beat popularity; a quarter of the memory costs little accuracy.",
    ),
    "profile": Room(
        "recommend",
        "profiles",
        _profile,
        "See: an epsilon that finds neighbours lets an attacker rebuild the profile.",
    ),
    "retrieve": Room(
        "retrieve",
        "retrieval",
        _retrieve,
        "See: learned codes find more neighbours in the same number of bytes.",
    ),
    "telemetry": Room(
        "telemetry",
        "telemetry",
        _telemetry,
        "See: counts of words, although no client sent its word.",
    ),
    "density": Room(
        "density", "density", _density, "See: private answers close to those without privacy."
    ),
    "mine": Room(
        "mining", "mining", _mine, "See: every planted pattern is found, and nothing else."
    ),
}


def visit(room: str, console: Console | None = None) -> list[Row]:
    """Print the tour of one room, and return its rows."""
    console = console or Console(width=WIDTH)
    rows = ROOMS[room].visited(console)
    console.print(ROOMS[room].see)
    return rows


def summary(
    console: Console | None = None, sizes: Mapping[str, dict[str, int]] | None = None
) -> dict[str, list[Row]]:
    """Run the tours of all rooms, print one table of them, and return the rows by room.

    `sizes` has arguments of tours by room, such as {"sketch": {"events": 1000}}.
    """
    console = console or Console(width=WIDTH)
    console.print("Every room of Sfumato on generated data; nothing is downloaded.\n")
    found: dict[str, list[Row]] = {}
    with waiting.progress("sfumato demo", "rooms") as advance:
        for done, (name, room) in enumerate(ROOMS.items()):
            advance(done, len(ROOMS))
            found[name] = room.visited(
                Console(file=StringIO(), width=WIDTH), **(sizes or {}).get(name, {})
            )
    table = Table(box=None, pad_edge=False)
    for name in ("room", "question", "answer", "compare"):
        table.add_column(name, justify="right" if name == "answer" else "left")
    for name, rows in found.items():
        table.add_row(name, *ROOMS[name].headline(rows))
    console.print(table)
    console.print(
        "\nSee: each answer beside the truth, the trivial, or the same without privacy."
        "\nMore of a room: sfumato demo ROOM. Documentation: docs/start.md."
    )
    return found
