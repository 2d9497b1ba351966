"""`sfumato warmup`: compile the kernels of all rooms once, and time the first call of each."""

from typing import Annotated

import typer

from sfumato.cli.options import Json, Quiet

__all__ = ["warmup"]


def warmup(
    rooms: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ROOM]...", help="Only these rooms, such as sketch or density."),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Compile all kernels once, so that first calls are fast."""
    from sfumato.cli import printing
    from sfumato.cli.first_calls import ROOMS, warm

    names = [name for name in ROOMS if not rooms or name in rooms or name.split()[0] in rooms]
    unknown = [each for each in rooms or () if not any(each in (n, n.split()[0]) for n in names)]
    if unknown:
        raise ValueError(
            f"no room is called {unknown[0]}. Rooms: {', '.join(dict.fromkeys(ROOMS))}."
        )
    with printing.progress("compiling", "calls", hidden=quiet or json) as advance:
        found = warm(names, advance)
    printing.rows(found, json)
    if not json:
        slow = [each["room"] for each in found if each["seconds_after"] > 1]
        print(f"Later first calls above one second: {', '.join(slow) or 'none'}.")
