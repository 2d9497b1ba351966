"""`sfumato audit`: measure what releases leak, and compare it with their guarantee.

`sfumato audit profiles`: attack what would be released, and report the result to the curator.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import input_files
from sfumato.cli import profiles as _encoding
from sfumato.cli.options import Force, Json, Quiet, check_output, takes

__all__ = ["app", "profiles"]

COMMAND = "audit profiles"


@takes(_encoding.CODES, before="attacked")
@takes(input_files.COLUMNS, before="force")
def profiles(
    context: typer.Context,
    interactions: Annotated[Path, typer.Argument(help="File of interactions: user, item, ...")],
    mechanism: _encoding.Kind = "blip",
    epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of one item of a profile; or use --choose-epsilon."),
    ] = None,
    choose_epsilon: Annotated[
        bool,
        typer.Option(
            "--choose-epsilon",
            help="Find the largest epsilon that --max-recovery allows; from raw data.",
        ),
    ] = False,
    max_recovery: Annotated[
        float | None,
        typer.Option(help="Largest fraction of a profile that may be recovered; default: 0.3."),
    ] = None,
    attacked: Annotated[
        int | None,
        typer.Option(help="Maximum number of users; default: 200, fewer for over 20,000 items."),
    ] = None,
    known: Annotated[
        float, typer.Option(help="Fraction of users whose profiles the attacker knows.")
    ] = 0.6,
    seed: Annotated[int, typer.Option(help="Seed of users, noise, codebook and attacks.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Prefix of the files; default: INTERACTIONS-audit."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Attack released profiles, and measure what they leak.

    Writes JSON, PNG and an HTML page for the curator. They are computed from raw data and are no
    release. So is the epsilon that --choose-epsilon finds: one row can move it, and no guarantee
    covers it. Choose on public or earlier data. It comes from a fixed grid in steps of about 10 %,
    so that it discloses little.

    Ctrl-C writes nothing. Exit code 1 means that no epsilon is small enough for --max-recovery.
    """
    from sfumato.attack import audit_profiles
    from sfumato.cli import printing
    from sfumato.core.file_format import write_together

    allowed = _allowed(epsilon, choose_epsilon, max_recovery)
    encoder = _encoding.make(COMMAND, context.params, START if epsilon is None else epsilon)
    positions = _positions(output or interactions.with_name(f"{_stem(interactions)}-audit"))
    for path in positions.values():
        check_output(path, force, interactions)
    # A profile is a set, in which a repeated row counts once.
    given = {**input_files.columns(context.params), "duplicates": "keep"}
    rows = input_files.read(interactions, given, context.params)
    with printing.progress("attacking", "attacks", hidden=quiet or json) as advance:
        found = audit_profiles(
            rows,
            encoder,
            max_recovery=allowed,
            known=known,
            sample=attacked,
            random_state=seed,
            progress=advance,
        )
    write_together({positions[kind]: data for kind, data in found.files().items()})
    files = {kind: str(path) for kind, path in positions.items()}
    report = {**found.to_dict(), **input_files.reported(rows), "files": files}
    printing.document(report if json else _summary(report), json)
    if not json:
        print(*_sentences(report), sep="\n")
    if choose_epsilon and report["choice"]["epsilon"] is None:
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


def _positions(begin: Path) -> dict[str, Path]:
    return {kind: begin.with_name(f"{begin.name}.{kind}") for kind in ("json", "png", "html")}


def _summary(report: dict[str, Any]) -> dict[str, Any]:
    """What people read first; the files hold the rest."""
    here = next(point for point in report["points"] if point["epsilon"] == report["epsilon"])
    choice = report["choice"] and {"chosen_epsilon": report["choice"]["epsilon"]}
    return {
        "audience": report["audience"],
        "mechanism": report["mechanism"]["kind"],
        **(choice or {}),
        "epsilon": report["epsilon"],
        "epsilon_of_a_whole_profile": here["profile_epsilon"],
        "strongest_attack": here["strongest"],
        "recovered": here["recovery"],
        "by_popularity_alone": report["popularity"]["recovery"],
        "privacy": here["privacy"],
        "utility": here["utility"],
        "users_attacked": report["users"]["attacked"],
        **{f"{kind}_file": path for kind, path in report["files"].items()},
    }


def _sentences(report: dict[str, Any]) -> list[str]:
    choice = [] if report["choice"] is None else [report["choice"]["sentence"]]
    return [*choice, report["sentence"], report["promise"]]


# Written out, so that --help need not load the mechanisms; a test compares them.
NAMES = (
    "binary-response, binary-tree-counter, exponential, gaussian, kary-response, laplace, "
    "pan-private-counter, pan-private-distinct, permute-and-flip, posterior-sample, "
    "report-noisy-max, sample-and-aggregate, smooth-median"
)
app: typer.Typer = typer.Typer(
    help="Attack releases and models, and measure what they leak.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


app.command()(profiles)


@app.command()
def mechanism(
    name: Annotated[str, typer.Argument(help=f"One of {NAMES}.")],
    epsilon: Annotated[float, typer.Option(help="Epsilon that the mechanism is built for.")] = 1.0,
    delta: Annotated[
        float | None,
        typer.Option(help="Delta at which epsilon is measured; default: 0, or 1e-6 if needed."),
    ] = None,
    trials: Annotated[int, typer.Option(help="Runs on each of two neighbours.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="Confidence of the measured bound.")] = 0.999,
    seed: Annotated[
        int | None, typer.Option(help="Seed that repeats a run; default: the system's random bits.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure a lower bound on a mechanism's epsilon.

    It runs the mechanism on two neighbouring data sets. The exit code is 1 if the bound exceeds the
    claim.
    """
    from sfumato.attack import audit
    from sfumato.attack.mechanism_audit.cases import named
    from sfumato.cli import printing
    from sfumato.privacy.random_source import InsecureSeededSource

    built, neighbours = named(name, epsilon, delta)
    source = None if seed is None else InsecureSeededSource(seed)
    with printing.progress("auditing", "steps", hidden=json) as advance:
        result = audit(
            built, neighbours, trials, confidence=confidence, delta=delta, source=source,
            progress=advance,
        )  # fmt: skip
    report = {"mechanism": name, **result.to_dict()}
    printing.document(report if json else _table(report), json)
    if not result.passed:
        raise typer.Exit(1)


@app.command()
@takes(input_files.COLUMNS, before="force")
def model(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="MODEL", help="A file that fit wrote.")],
    train: Annotated[Path, typer.Option(help="The ratings it learned from.")],
    test: Annotated[Path, typer.Option(help="Held-out ratings of the same kind.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Prefix of the files; default: MODEL-audit."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Attack a model to find who was in its data.

    Writes JSON, PNG and an HTML page for the curator.
    """
    from sfumato.attack import audit_model
    from sfumato.cli import printing
    from sfumato.recommend import load

    printing.check_kind(file, "model")
    begin = output or file.with_name(f"{file.stem}-audit")
    positions = {kind: begin.with_name(f"{begin.name}.{kind}") for kind in ("json", "png", "html")}
    for path in positions.values():
        check_output(path, force, file, train, test)
    given = input_files.columns(context.params)
    learned = load(file)
    rows = (input_files.read(each, given, context.params) for each in (train, test))
    found = audit_model(learned, *rows)
    found.save_json(positions["json"])
    found.save_png(positions["png"])
    found.save_html(positions["html"])
    report = {**found.to_dict(), "files": {kind: str(path) for kind, path in positions.items()}}
    printing.document(report if json else _leak(report), json)


def _leak(report: dict[str, Any]) -> dict[str, Any]:
    """What people read first of a model's audit; the files hold the rest."""
    strongest = report["membership"]["strongest"]
    attack = report["membership"]["attacks"][strongest]
    refuted = {None: "no statement to test", False: "not refuted", True: "REFUTED"}
    return {
        "model": report["model"],
        "rmse_of_train": report["rmse"]["train"],
        "rmse_of_test": report["rmse"]["test"],
        "kl_divergence": report["divergence"]["gaussian"],
        "strongest_attack": strongest,
        "auc": attack["auc"]["value"],
        "found_at_0.1_%_false_alarms": attack["tpr"]["0.001"]["value"],
        "epsilon_of_replacing_at_least": attack["epsilon"]["epsilon"],
        "claim": refuted[report["refuted"]],
        **{f"{kind}_file": path for kind, path in report["files"].items()},
    }


def _table(report: dict[str, Any]) -> dict[str, Any]:
    """The results of an audit for the screen."""
    verdict = "passed" if report["passed"] else "FAILED: the measured bound exceeds the claim"
    return {
        "mechanism": report["mechanism"],
        "claimed_epsilon": report["claimed"],
        "at_delta": report["delta"],
        "measured_lower_bound": report["epsilon"],
        "certifiable_ceiling": report["ceiling"],
        "confidence": report["confidence"],
        "trials": report["trials"],
        "told_by": report["score"],
        "verdict": verdict,
    }
