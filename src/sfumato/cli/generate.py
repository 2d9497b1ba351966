"""`sfumato generate`: a file of clicks or ratings of a generated world, to try commands on."""

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.options import Force, Json, Quiet, check_output

__all__ = ["generate"]

TABLES = (".csv", ".parquet")


def generate(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where to write the rows: .csv or .parquet.")
    ],
    users: Annotated[int, typer.Option(min=1, help="Number of users.")] = 300,
    items: Annotated[int, typer.Option(min=2, help="Number of items.")] = 200,
    rows: Annotated[
        int, typer.Option(help="Number of rows; at most half of the items per user.")
    ] = 12_000,
    stars: Annotated[bool, typer.Option("--stars", help="Write a rating from 1 to 5 too.")] = False,
    seed: Annotated[int, typer.Option(help="Seed: equal seeds, equal files.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write the clicks of a generated shop, to try commands on.

    Columns are user, item and time. Users have tastes and items differ in popularity, so that
    there is something to learn.
    """
    from sfumato.cli import printing
    from sfumato.core.file_format import write_together

    if output.suffix.lower() not in TABLES:
        raise ValueError(f"generate: -o {output}: must end in {', '.join(TABLES)}.")
    most = users * (items // 2)
    if not 1 <= rows <= most:
        raise ValueError(
            f"generate: --rows must be 1 to {most}, half of the items for each user, not {rows}."
        )
    check_output(output, force)
    write_together({output: _content(output, users, items, rows, stars, seed)})
    facts = {"file": str(output), "rows": rows, "users": users, "items": items}
    shown = f"{output}, {rows:,} rows of {users:,} users and {items:,} items"
    printing.document(facts if json else {"written": shown}, json)


def _content(path: Path, users: int, items: int, rows: int, stars: bool, seed: int) -> bytes:
    import pyarrow as pa

    from sfumato.data import generate_world
    from sfumato.data.files import table_bytes

    made = generate_world(users=users, items=items, ratings=rows, random_state=seed).interactions
    columns = {"user": made.users, "item": made.items, "rating": made.ratings, "time": made.times}
    written = {name: pa.array(each) for name, each in columns.items() if stars or name != "rating"}
    return table_bytes(path, pa.table(written))
