"""`sfumato profiles`: publish who had what with noise, and find similar users in the result."""

import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import _encoding, _ratings
from sfumato.cli._options import Force, Json, check_output

__all__ = ["app"]

app = typer.Typer(
    help="Publish the profiles of users with noise, and find similar users among them.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@app.command()
def release(
    context: typer.Context,
    interactions: Annotated[Path, typer.Argument(help="A file of who had what: user, item, ...")],
    mechanism: _encoding.Kind,
    epsilon: Annotated[float, typer.Option(help="What one item of a profile may cost.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the profiles.")],
    bits: _encoding.Bits = None,
    hashes: _encoding.Hashes = None,
    dimensions: _encoding.Dimensions = None,
    bins: _encoding.Bins = None,
    code_bits: _encoding.CodeBits = None,
    delta: _encoding.Delta = None,
    typical_size: Annotated[
        int | None, typer.Option(help="Items of a profile that the statement speaks of; public.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the public codebook; 0 unless told.")] = None,
    users: Annotated[
        Path | None, typer.Option(help="Ids of all who get a profile, one a line; public.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="What is hidden: 'item of a profile' unless told, or user.")
    ] = None,
    relation: Annotated[str | None, typer.Option(help="add/remove or replace.")] = None,
    contributions: Annotated[
        int | None, typer.Option(help="Items of a user that are used; with --unit user.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="Who pays; without it: unaccounted.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Whose budget of the ledger.")] = None,
    release_id: Annotated[
        str | None, typer.Option(help="A name; the same again returns the stored release.")
    ] = None,
    user_column: _ratings.User = None,
    item_column: _ratings.Item = None,
    rating_column: _ratings.Rating = None,
    delimiter: _ratings.Delimiter = None,
    encoding: _ratings.Encoding = "utf-8",
    skip_bad: _ratings.Skip = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a private profile of every user with a privacy statement, charged before it is made."""
    from sfumato.cli import _releasing, _show

    check_output(output, force, interactions, users)
    encoder = _encoding.make("profiles", context.params, epsilon)
    named = None if users is None else _ratings.listed(users, "users", interactions, encoding)
    given = {name: context.params[name] for name in PAID if context.params[name] is not None}
    if ledger is not None and (not ledger.exists() or not ledger.stat().st_size):
        raise FileNotFoundError(f"{ledger}: there is no ledger; make one with budget create.")
    rows = _ratings.read(interactions, _ratings.private(context.params))
    stored = _releasing.is_stored(ledger, release_id)
    made = encoder.release(rows, users=named, **given)
    made.save(output)
    _show.document({**_show.info(made, output), "stored_before": stored}, json)
    if not json:
        print(made.statement)
    if stored:
        print(f"sfumato: {release_id!r} was stored before; nothing was drawn.", file=sys.stderr)


PAID = ("ledger", "dataset", "release_id", "unit", "relation", "contributions")


@app.command()
def similar(
    file: Annotated[Path, typer.Argument(help="A file that profiles release wrote.")],
    user: Annotated[str, typer.Argument(help="A user's id, after -- if it begins with -.")],
    n: Annotated[int, typer.Option("-n", help="How many.", min=1)] = 10,
    measure: Annotated[str, typer.Option(help="cosine, jaccard or inner.")] = "cosine",
    json: Json = False,
) -> None:
    """The users whose released profiles are most like one's own, as far as the noise lets see."""
    from sfumato.cli import _show

    found = _load(file)
    one = _ratings.id_of(user, found.kind)
    if one not in found.users_:
        raise ValueError(f"{file}: has no profile of the user that was named.")
    ids, near = found.nearest([one], min(n, max(len(found) - 1, 1)), measure=measure)
    told = near[0] > -math.inf  # the other places are filled with an id that means nobody
    if not told.any():
        print("sfumato: the release tells of nobody who is alike.", file=sys.stderr)
    pairs = zip(ids[0][told].tolist(), near[0][told].tolist(), strict=True)
    _show.rows([{"user": each, "similarity": value} for each, value in pairs], json)


def _load(file: Path) -> Any:
    from sfumato.cli._show import check_kind

    check_kind(file, "sketch")
    from sfumato.profile import ReleasedProfiles, load
    from sfumato.sketch import SketchFormatError

    try:
        found = load(file)
    except SketchFormatError as error:
        raise SketchFormatError(f"{file}: {error}") from None
    if not isinstance(found, ReleasedProfiles):
        kind = type(found).__name__
        raise ValueError(f"{file}: holds a {kind}, not profiles; profiles release writes those.")
    return found
