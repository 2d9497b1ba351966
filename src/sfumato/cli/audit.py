"""`sfumato audit`: measure what releases give away, and hold it against what they promise."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import _ratings
from sfumato.cli._options import Force, Json, check_output
from sfumato.cli.audit_profiles import profiles

__all__ = ["app"]

# Written out, so that --help need not load the mechanisms; a test compares them.
NAMES = (
    "binary-response, binary-tree-counter, exponential, gaussian, kary-response, laplace, "
    "pan-private-counter, pan-private-distinct, permute-and-flip, posterior-sample, "
    "report-noisy-max, sample-and-aggregate, smooth-median"
)
app = typer.Typer(
    help="Measure what releases give away, and hold it against what they promise.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


app.command()(profiles)


@app.command()
def mechanism(
    name: Annotated[str, typer.Argument(help=f"One of {NAMES}.")],
    epsilon: Annotated[float, typer.Option(help="What the mechanism is built to promise.")] = 1.0,
    delta: Annotated[
        float | None, typer.Option(help="Where epsilon is measured: 0, or 1e-6 if it needs one.")
    ] = None,
    trials: Annotated[int, typer.Option(help="Runs on each of two neighbours.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Of the measured bound.")] = 0.999,
    seed: Annotated[
        int | None, typer.Option(help="The same runs again; the system's bits unless told.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a mechanism on neighbours; exit code 1 if the measured epsilon exceeds the claim."""
    from sfumato.attack import audit
    from sfumato.attack._cases import named
    from sfumato.cli import _show
    from sfumato.privacy.noise import InsecureSeededSource

    built, neighbours = named(name, epsilon, delta)
    source = None if seed is None else InsecureSeededSource(seed)
    result = audit(built, neighbours, trials, confidence=confidence, delta=delta, source=source)
    told = {"mechanism": name, **result.to_dict()}
    _show.document(told if json else _table(told), json)
    if not result.passed:
        raise typer.Exit(1)


@app.command()
def model(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that fit wrote.")],
    train: Annotated[Path, typer.Option(help="The ratings it learned from.")],
    test: Annotated[Path, typer.Option(help="Ratings of the same kind it has not seen.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Start of the names; MODEL-audit unless told."),
    ] = None,
    user_column: _ratings.User = None,
    item_column: _ratings.Item = None,
    rating_column: _ratings.Rating = None,
    time_column: _ratings.Time = None,
    delimiter: _ratings.Delimiter = None,
    skip_bad: _ratings.Skip = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Attack a model to see who was in its data: writes JSON, PNG and a page for the curator."""
    from sfumato.attack import audit_model
    from sfumato.cli import _show
    from sfumato.recommend import load

    _show.check_kind(file, "model")
    begin = output or file.with_name(f"{file.stem}-audit")
    places = {kind: begin.with_name(f"{begin.name}.{kind}") for kind in ("json", "png", "html")}
    for place in places.values():
        check_output(place, force, file, train, test)
    given = _ratings.columns(context.params)
    learned = load(file)
    found = audit_model(learned, _ratings.read(train, given), _ratings.read(test, given))
    found.save_json(places["json"])
    found.save_png(places["png"])
    found.save_html(places["html"])
    told = {**found.to_dict(), "files": {kind: str(place) for kind, place in places.items()}}
    _show.document(told if json else _leak(told), json)


def _leak(told: dict[str, Any]) -> dict[str, Any]:
    """What people read first of a model's audit; the files hold the rest."""
    strongest = told["membership"]["strongest"]
    attack = told["membership"]["attacks"][strongest]
    refuted = {None: "no statement to test", False: "not refuted", True: "REFUTED"}
    return {
        "model": told["model"],
        "rmse_of_train": told["rmse"]["train"],
        "rmse_of_test": told["rmse"]["test"],
        "kl_divergence": told["divergence"]["gaussian"],
        "strongest_attack": strongest,
        "auc": attack["auc"]["value"],
        "found_at_0.1_%_false_alarms": attack["tpr"]["0.001"]["value"],
        "epsilon_of_replacing_at_least": attack["epsilon"]["epsilon"],
        "claim": refuted[told["refuted"]],
        **{f"{kind}_file": place for kind, place in told["files"].items()},
    }


def _table(told: dict[str, Any]) -> dict[str, Any]:
    """What people read, in the order in which they ask."""
    verdict = "passed" if told["passed"] else "FAILED: the measured bound exceeds the claim"
    return {
        "mechanism": told["mechanism"],
        "claimed_epsilon": told["claimed"],
        "at_delta": told["delta"],
        "measured_lower_bound": told["epsilon"],
        "certifiable_ceiling": told["ceiling"],
        "confidence": told["confidence"],
        "trials": told["trials"],
        "told_by": told["score"],
        "verdict": verdict,
    }
