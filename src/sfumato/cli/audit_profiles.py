"""`sfumato audit profiles`: attack what would be released, and tell the curator what was found."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import _encoding, _ratings
from sfumato.cli._options import Force, Json, Quiet, check_output

__all__ = ["profiles"]

COMMAND = "audit profiles"


def profiles(
    context: typer.Context,
    interactions: Annotated[Path, typer.Argument(help="A file of who had what: user, item, ...")],
    mechanism: _encoding.Kind = "blip",
    epsilon: Annotated[
        float | None, typer.Option(help="Of one item of a profile; or --choose-epsilon.")
    ] = None,
    choose_epsilon: Annotated[
        bool,
        typer.Option(
            "--choose-epsilon", help="The largest that --max-recovery allows; from raw data."
        ),
    ] = False,
    max_recovery: Annotated[
        float | None, typer.Option(help="Share of a profile, 0.3 unless told.")
    ] = None,
    bits: _encoding.Bits = None,
    hashes: _encoding.Hashes = None,
    dimensions: _encoding.Dimensions = None,
    bins: _encoding.Bins = None,
    code_bits: _encoding.CodeBits = None,
    delta: _encoding.Delta = None,
    attacked: Annotated[
        int | None,
        typer.Option(help="The most users; 200 unless told, fewer of over 20,000 items."),
    ] = None,
    known: Annotated[
        float, typer.Option(help="Share of users whose profiles the attacker knows.")
    ] = 0.6,
    seed: Annotated[int, typer.Option(help="Of users, noise, codebook and attacks.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Start of the names; INTERACTIONS-audit unless told."),
    ] = None,
    user_column: _ratings.User = None,
    item_column: _ratings.Item = None,
    rating_column: _ratings.Rating = None,
    time_column: _ratings.Time = None,
    delimiter: _ratings.Delimiter = None,
    skip_bad: _ratings.Skip = False,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Attack released profiles to see what they tell: writes JSON, PNG and a page for the curator.

    It is computed from raw data and no release. So is an epsilon that --choose-epsilon finds: one
    row can move it, and the guarantee of a release does not cover that; choose on public or earlier
    data. It is one of a fixed grid, about 10 % apart, so that it tells little. Ctrl-C writes
    nothing; exit code 1 means that no epsilon is small enough for --max-recovery.
    """
    from sfumato.attack import audit_profiles
    from sfumato.cli import _fitting, _show
    from sfumato.sketch._format import write_whole

    allowed = _allowed(epsilon, choose_epsilon, max_recovery)
    encoder = _encoding.make(COMMAND, context.params, START if epsilon is None else epsilon)
    places = _places(output or interactions.with_name(f"{_stem(interactions)}-audit"))
    for place in places.values():
        check_output(place, force, interactions)
    # A profile is a set, in which a row that comes again counts once.
    rows = _ratings.read(interactions, {**_ratings.columns(context.params), "duplicates": "keep"})
    with _fitting.bar("attacking", hidden=quiet or json) as tell:
        found = audit_profiles(
            rows,
            encoder,
            max_recovery=allowed,
            known=known,
            sample=attacked,
            random_state=seed,
            progress=tell,
        )
    for kind, data in found.files().items():
        write_whole(places[kind], data)
    files = {kind: str(place) for kind, place in places.items()}
    told = {**found.to_dict(), **_ratings.reported(rows), "files": files}
    _show.document(told if json else _summary(told), json)
    if not json:
        print(*_sentences(told), sep="\n")
    if choose_epsilon and told["choice"]["epsilon"] is None:
        raise typer.Exit(1)


START = 8.0  # where --choose-epsilon looks around if it finds none


def _allowed(epsilon: float | None, choose: bool, max_recovery: float | None) -> float | None:
    """The recovery that is allowed, None where epsilon was given."""
    if choose and epsilon is not None:
        raise ValueError(f"{COMMAND}: --epsilon does not go with --choose-epsilon; give one.")
    if not choose and epsilon is None:
        raise ValueError(f"{COMMAND}: give --epsilon, or --choose-epsilon to find one.")
    if not choose and max_recovery is not None:
        raise ValueError(f"{COMMAND}: --max-recovery goes with --choose-epsilon.")
    if not choose:
        return None
    return 0.3 if max_recovery is None else max_recovery


def _stem(path: Path) -> str:
    """The name without its ends, so that u.data.gz is audited in u-audit."""
    return path.name.split(".")[0] or path.stem


def _places(begin: Path) -> dict[str, Path]:
    return {kind: begin.with_name(f"{begin.name}.{kind}") for kind in ("json", "png", "html")}


def _summary(told: dict[str, Any]) -> dict[str, Any]:
    """What people read first; the files hold the rest."""
    here = next(point for point in told["points"] if point["epsilon"] == told["epsilon"])
    choice = told["choice"] and {"chosen_epsilon": told["choice"]["epsilon"]}
    return {
        "audience": told["audience"],
        "mechanism": told["mechanism"]["kind"],
        **(choice or {}),
        "epsilon": told["epsilon"],
        "epsilon_of_a_whole_profile": here["profile_epsilon"],
        "strongest_attack": here["strongest"],
        "recovered": here["recovery"],
        "by_popularity_alone": told["popularity"]["recovery"],
        "privacy": here["privacy"],
        "utility": here["utility"],
        "users_attacked": told["users"]["attacked"],
        **{f"{kind}_file": place for kind, place in told["files"].items()},
    }


def _sentences(told: dict[str, Any]) -> list[str]:
    choice = [] if told["choice"] is None else [told["choice"]["sentence"]]
    return [*choice, told["sentence"], told["promise"]]
