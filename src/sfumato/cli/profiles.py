"""`sfumato profiles`: release noisy profiles of users, and find similar users in the release.

How commands name a mechanism for profiles and its parameters.
"""

import math
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import input_files
from sfumato.cli.options import (
    Dataset,
    Force,
    Json,
    Ledger,
    Quiet,
    Relation,
    ReleaseId,
    check_output,
    takes,
)

__all__ = ["CODES", "KINDS", "Kind", "app", "make"]

# Written out, so that --help need not load the mechanisms: what each takes besides epsilon.
KINDS = {
    "blip": ("bits", "hashes"),
    "jlt": ("dimensions", "delta"),
    "signs": ("bits", "delta"),
    "minima": ("bins", "code_bits"),
}
NAMES = ", ".join(KINDS)
Kind = Annotated[str, typer.Option(help=f"How profiles are encoded: {NAMES}.")]
CODES = {
    "bits": Annotated[int | None, typer.Option(help="Bits of a profile: blip, signs.")],
    "hashes": Annotated[int | None, typer.Option(help="Bits that an item sets: blip.")],
    "dimensions": Annotated[int | None, typer.Option(help="Numbers of a profile: jlt.")],
    "bins": Annotated[int | None, typer.Option(help="Minima of a profile: minima.")],
    "code_bits": Annotated[int | None, typer.Option(help="Bits of a minimum: minima.")],
    "delta": Annotated[
        float | None,
        typer.Option(help="Delta of (epsilon, delta)-differential privacy: jlt, signs."),
    ],
}
COLUMNS = {
    **{
        name: kind
        for name, kind in input_files.COLUMNS.items()
        if name not in ("skip_bad", "encoding")
    },
    "time_column": Annotated[str | None, typer.Option(help="Not read: profiles have no times.")],
}


def make(command: str, options: dict[str, Any], epsilon: float) -> Any:
    """The mechanism that the options of a command describe; others keep their defaults."""
    from sfumato import profile

    kind = options["mechanism"]
    if kind not in KINDS:
        named = ", ".join(map(repr, KINDS))
        raise ValueError(f"{command}: --mechanism must be one of {named}, not {kind!r}.")
    given = {name: options[name] for name in CODES if options.get(name) is not None}
    for name in given:
        if name not in KINDS[kind]:
            written = f"--{name.replace('_', '-')}"
            raise ValueError(f"{command}: {written} does not go with --mechanism {kind}.")
    for name in ("seed", "typical_size"):
        if options.get(name) is not None:
            given[name] = options[name]
    return getattr(profile, kind.capitalize())(epsilon=epsilon, **given)


app: typer.Typer = typer.Typer(
    help="Release private profiles, and find similar users.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@app.command()
@takes(CODES, before="typical_size")
@takes(COLUMNS, before="encoding")
def release(
    context: typer.Context,
    interactions: Annotated[Path, typer.Argument(help="File of interactions: user, item, ...")],
    mechanism: Kind,
    epsilon: Annotated[float, typer.Option(help="Epsilon of one item of a profile.")],
    users: Annotated[
        Path,
        typer.Option(help="Ids of all users with a profile, one per line; public, never inferred."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the profiles.")],
    typical_size: Annotated[
        int | None, typer.Option(help="Items of a profile that the statement speaks of; public.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the public codebook; default: 0.")
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="Privacy unit: 'item of a profile' (default) or user.")
    ] = None,
    relation: Relation = None,
    contributions: Annotated[
        int | None, typer.Option(help="Maximum number of items of a user, with --unit user.")
    ] = None,
    ledger: Ledger = None,
    dataset: Dataset = None,
    release_id: ReleaseId = None,
    encoding: input_files.Encoding = "utf-8",
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", hidden=True, help="Has no effect: bad rows are left out.")
    ] = False,
    report: input_files.Report = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write private profiles of listed users.

    Each profile has noise, and the file a privacy statement. The budget is charged before noise
    is drawn. No row stops the command or is reported. Rows that cannot be read, or are of
    unlisted users, are left out. Line 1 of the file is assumed to be public, unless --header or
    --no-header and --delimiter are given.
    """
    from sfumato.cli import printing, release_options

    check_output(output, force, interactions, users)
    encoder = make("profiles", context.params, epsilon)
    if epsilon == 0:
        raise ValueError("profiles release: --epsilon must be above 0: at 0 all is noise.")
    input_files.check_report(report, output, force, interactions, users)
    named = input_files.listed(users, "users", interactions, encoding)
    given = {name: context.params[name] for name in PAID if context.params[name] is not None}
    if ledger is not None and (not ledger.exists() or not ledger.stat().st_size):
        raise FileNotFoundError(f"{ledger}: there is no ledger; make one with budget create.")
    rows = input_files.read(interactions, input_files.private(context.params), context.params)
    input_files.curators_report(report, rows, {"users": named})
    if ledger is not None:
        given["release_id"] = release_id = release_id or secrets.token_hex(16)
    stored = release_options.is_stored(ledger, release_id)
    hidden = quiet or json
    with (
        release_options.way_back(ledger, release_id),
        printing.progress("drawing noise", "profiles", hidden=hidden) as advance,
    ):
        made = encoder.release(rows, users=named, progress=advance, **given)
        made.save(output)
    printing.document({**printing.info(made, output), "stored_before": stored}, json)
    profile_epsilon = made.profile_epsilon(encoder.typical_size)
    printing.promise(made.statement, json, _profile_warning(profile_epsilon, encoder.typical_size))
    if stored:
        print(f"sfumato: {release_id!r} was stored before; nothing was drawn.", file=sys.stderr)


def _profile_warning(epsilon: float, items: int) -> str:
    """A warning if epsilon of an entire profile is large, else ""."""
    from sfumato.privacy.statement import weakness

    sentence = weakness(epsilon)
    return sentence and f"Of a whole profile of {items} items: {sentence}"


PAID = ("ledger", "dataset", "release_id", "unit", "relation", "contributions")


@app.command()
def similar(
    file: Annotated[Path, typer.Argument(help="A file that profiles release wrote.")],
    user: Annotated[str, typer.Argument(help="A user's id, after -- if it begins with -.")],
    n: Annotated[int, typer.Option("-n", help="Number of results.", min=1)] = 10,
    measure: Annotated[str, typer.Option(help="cosine, jaccard or inner.")] = "cosine",
    json: Json = False,
) -> None:
    """List the users with the most similar released profiles.

    Similarities are estimates, and have standard errors.
    """
    from sfumato.cli import printing

    found = _load(file)
    from sfumato.profile.released import METRICS

    METRICS.check("similar", "measure", measure)
    one = input_files.id_of(user, found.kind)
    if one not in found.users_:
        raise ValueError(f"{file}: has no profile of the user that was named.")
    most = min(n, max(len(found) - 1, 1))
    answers = found.nearest_with_errors([one], most, metric=measure)
    mask = answers[1][0] > -math.inf  # other positions hold the padding id
    if not mask.any():
        print("sfumato: the release shows no similar user.", file=sys.stderr)
    names = ("user", "similarity", "std_error")
    rows = zip(*(column[0][mask].tolist() for column in answers), strict=True)
    printing.rows([dict(zip(names, row, strict=True)) for row in rows], json)


def _load(file: Path) -> Any:
    from sfumato.cli.printing import check_kind

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
