"""`sfumato audit`: measure what releases give away, and hold it against what they promise."""

from typing import Annotated, Any

import typer

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


@app.callback()
def start() -> None:
    """A group also while it has one command."""


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
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
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
