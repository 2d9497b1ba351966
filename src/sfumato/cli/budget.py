"""`sfumato budget`: give data sets a privacy budget, and see what it was spent on."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.options import Force, Json, check_output

__all__ = ["app"]

# Written out, so that --help need not load the ledger; a test compares them.
UNITS = "event, item of a profile, user, basket, adjacency list, edge"
app: typer.Typer = typer.Typer(
    help="Create and inspect the privacy budgets of data sets.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
File = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file of the ledger.")]
BAR = 24  # letters


@app.command()
def create(
    ledger: File,
    dataset: Annotated[str, typer.Argument(help="A name for the data set.")],
    epsilon: Annotated[float, typer.Option(help="The whole budget; it never grows back.")],
    delta: Annotated[
        float, typer.Option(help="The budget of delta; 0 allows only pure epsilon.")
    ] = 0.0,
    unit: Annotated[
        str | None, typer.Option(help=f"What is protected: {UNITS}.", show_default="event")
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option(
            help="How neighbours differ: add/remove or replace.", show_default="add/remove"
        ),
    ] = None,
    parent: Annotated[
        str | None, typer.Option(help="The data set that this one is part of; it is charged too.")
    ] = None,
    new_file: Annotated[
        bool,
        typer.Option(
            "--new-file",
            help="Begin anew although an earlier ledger is missing; its spending is forgotten.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Give a data set its budget, in a new or an existing ledger."""
    from sfumato.cli import printing
    from sfumato.privacy import Ledger
    from sfumato.privacy.statement import weakness

    with Ledger(ledger) as held:
        held.create(dataset, epsilon, delta, unit, relation, parent, new_file=new_file)
        printing.document(_described(held, dataset), json)
    if warning := weakness(epsilon, delta):
        print(f"sfumato: warning: {warning}", file=sys.stderr)


@app.command()
def show(
    ledger: File,
    dataset: Annotated[str | None, typer.Argument(help="Name of a data set; default: all.")] = None,
    json: Json = False,
) -> None:
    """Show what is spent and what is left of the budgets.

    It also prints the chain value to note elsewhere.
    """
    from sfumato.cli import printing

    with _open(ledger) as held:
        if dataset is not None:
            found = {**_described(held, dataset), "chain": held.chain}
            printing.document(_with_bar(found, json), json)
            return
        every = [_with_bar(_described(held, each.name), json) for each in held.datasets()]
        chain = held.chain
    if json:
        printing.document({"rows": every, "chain": chain}, json)
    else:
        printing.rows([_short(each) for each in every], json)
        print(f"chain {chain}")


@app.command()
def history(
    ledger: File,
    dataset: Annotated[str, typer.Argument(help="The data set; its splits are listed with it.")],
    json: Json = False,
) -> None:
    """List the charges of a data set, the oldest first.

    Charges that still wait for their output are marked.
    """
    from sfumato.cli import printing

    with _open(ledger) as held:
        delta = held.dataset(dataset).delta
        found = [_charge(each, delta) for each in held.history(dataset)]
    printing.rows(found if json else [_brief(each) for each in found], json)
    waiting = [each["release_id"] for each in found if each["unfinished"]]
    if waiting and not json:
        print(f"Charged without output: {', '.join(waiting)}. See budget resume {ledger} ID.")


@app.command()
def verify(
    ledger: File,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="CHAIN",
            help="A chain value noted earlier; an older copy of the ledger lacks it.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check a ledger from end to end.

    It prints the last chain value. All charges are composed anew.
    """
    from sfumato.cli import printing

    with _open(ledger) as held:
        found = held.verify(expect)
    answer = {"entries": found.entries, "chain": found.chain}
    if found.since is not None:
        answer["since_expected"] = found.since
    printing.document({"whole": True, **answer}, json)


@app.command()
def resume(
    ledger: File,
    release_id: Annotated[str, typer.Argument(metavar="ID", help="As budget history shows it.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the release.")],
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a release that was charged but not written.

    If no bytes were stored, the command that completes the release is printed.
    """
    from sfumato.cli import printing, release_options
    from sfumato.core.file_format import write_atomic

    check_output(output, force, ledger)
    with _open(ledger) as held:
        charge = held.find(release_id)
        if charge is None:
            raise ValueError(f"{ledger}: there is no release {release_id!r}; see budget history.")
        if charge.unfinished:
            raise ValueError(release_options.completing(ledger, charge))
        data = held.fetch(release_id)
    write_atomic(output, data)
    printing.document(
        {"release_id": charge.release_id, "dataset": charge.dataset, "nbytes": len(data)}, json
    )


def _open(file: Path) -> Any:
    """A ledger that is there."""
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is no such ledger; `budget create` makes one.")
    from sfumato.privacy import Ledger

    return Ledger(file)


def _described(held: Any, dataset: str) -> dict[str, Any]:
    budget, spent = held.dataset(dataset), held.spent(dataset)
    releases, unfinished = held.counts(dataset)
    return {
        "dataset": budget.name,
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "unit": budget.unit,
        "relation": budget.relation,
        "parent": budget.parent,
        "spent": spent.epsilon,
        "spent_delta": spent.delta,
        "remaining": held.remaining(dataset).epsilon,
        "releases": releases,
        "unfinished": unfinished,
    }


def _with_bar(found: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """With a bar, where people look at it."""
    if as_json:
        return found
    # Anything spent shows, and only all of it fills the bar.
    fraction = found["spent"] / found["epsilon"]
    full = min(BAR if fraction >= 1 else BAR - 1, max(round(fraction * BAR), int(fraction > 0)))
    return {**found, "budget": "█" * full + "░" * (BAR - full) + f" {fraction:.0%}"}


def _short(found: dict[str, Any]) -> dict[str, Any]:
    """What fits a line; `show` of one data set and --json give the rest."""
    return {name: found[name] for name in ("dataset", "epsilon", "spent", "remaining", "budget")}


def _charge(entry: Any, delta: float) -> dict[str, Any]:
    from sfumato.privacy.accounting.calibration import epsilon_of

    pure = entry.loss.epsilon < float("inf")
    epsilon = entry.loss.epsilon if pure else epsilon_of(entry.loss, delta)
    return {
        "charged": entry.charged,
        "release_id": entry.release_id,
        "dataset": entry.dataset,
        "epsilon": epsilon if epsilon < float("inf") else None,
        "delta": 0.0 if pure else delta,
        "what": entry.what,
        "loss": entry.loss.to_dict(),
        "released": entry.released,
        "nbytes": entry.nbytes,
        "unfinished": entry.unfinished,
    }


def _brief(charge: dict[str, Any]) -> dict[str, Any]:
    """When, which, and what it cost by itself; charges compose to less than their sum."""
    made = f"{charge['nbytes']:,}" if charge["released"] else "elsewhere"
    if charge["unfinished"]:
        made = "none yet"
    return {
        "charged": charge["charged"][:16].replace("T", " "),
        "release": charge["release_id"],
        "epsilon": charge["epsilon"],
        "delta": charge["delta"],
        "stored bytes": made,
    }
