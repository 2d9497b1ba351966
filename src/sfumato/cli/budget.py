"""`sfumato budget`: give data sets a privacy budget, and see what it was spent on."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli._options import Json

__all__ = ["app"]

# Written out, so that --help need not load the ledger; a test compares them.
UNITS = "event, item of a profile, user, basket, adjacency list, edge"
app = typer.Typer(
    help="Give data sets a privacy budget, and see what it was spent on.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
File = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file of the ledger.")]
BAR = 24  # letters


@app.command()
def create(
    ledger: File,
    dataset: Annotated[str, typer.Argument(help="A name for the data set.")],
    epsilon: Annotated[float, typer.Option(help="All that may be spent, for good.")],
    delta: Annotated[float, typer.Option(help="0 takes pure losses only.")] = 0.0,
    unit: Annotated[
        str | None, typer.Option(help=f"Whose presence is hidden: {UNITS}.", show_default="event")
    ] = None,
    relation: Annotated[
        str | None, typer.Option(help="add/remove or replace.", show_default="add/remove")
    ] = None,
    parent: Annotated[
        str | None, typer.Option(help="The data set that this is a split of; it pays too.")
    ] = None,
    json: Json = False,
) -> None:
    """Give a data set its budget, in a new ledger or one that is there."""
    from sfumato._require import between, positive
    from sfumato.cli import _show
    from sfumato.privacy import Ledger

    # Before a file is made for what cannot be in it.
    positive.check("Ledger", "epsilon", epsilon)
    between(0, 1).check("Ledger", "delta", delta)
    held = Ledger(ledger)
    held.create(dataset, epsilon, delta, unit, relation, parent)
    _show.document(_told(held, dataset), json)


@app.command()
def show(
    ledger: File,
    dataset: Annotated[str | None, typer.Argument(help="All of them unless told.")] = None,
    json: Json = False,
) -> None:
    """What is spent and what is left of the budgets."""
    from sfumato.cli import _show

    held = _open(ledger)
    if dataset is not None:
        _show.document(_seen(_told(held, dataset), json), json)
    else:
        every = [_seen(_told(held, each.name), json) for each in held.datasets()]
        _show.rows(every if json else [_short(each) for each in every], json)


@app.command()
def history(
    ledger: File,
    dataset: Annotated[str, typer.Argument(help="The data set; its splits are listed with it.")],
    json: Json = False,
) -> None:
    """The charges of a data set, oldest first."""
    from sfumato.cli import _show

    held = _open(ledger)
    delta = held.dataset(dataset).delta
    found = [_charge(each, delta) for each in held.history(dataset)]
    _show.rows(found if json else [_brief(each) for each in found], json)


def _open(file: Path) -> Any:
    """A ledger that is there: looking must not make one."""
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is no such ledger; `budget create` makes one.")
    if not file.stat().st_size:
        raise ValueError(f"{file}: is empty, and no ledger.")
    from sfumato.privacy import Ledger

    return Ledger(file)


def _told(held: Any, dataset: str) -> dict[str, Any]:
    budget, spent = held.dataset(dataset), held.spent(dataset)
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
        "releases": len(held.history(dataset)),
    }


def _seen(told: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """With a bar, where people look at it."""
    if as_json:
        return told
    # Anything spent shows, and only all of it fills the bar.
    share = told["spent"] / told["epsilon"]
    full = min(BAR if share >= 1 else BAR - 1, max(round(share * BAR), int(share > 0)))
    return {**told, "budget": "█" * full + "░" * (BAR - full) + f" {share:.0%}"}


def _short(told: dict[str, Any]) -> dict[str, Any]:
    """What fits a line; `show` of one data set and --json tell the rest."""
    return {name: told[name] for name in ("dataset", "epsilon", "spent", "remaining", "budget")}


def _charge(entry: Any, delta: float) -> dict[str, Any]:
    from sfumato.privacy.calibrate import epsilon_of

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
    }


def _brief(charge: dict[str, Any]) -> dict[str, Any]:
    """When, which, and what it cost by itself; charges compose to less than their sum."""
    made = f"{charge['nbytes']:,}" if charge["released"] else "none"
    return {
        "charged": charge["charged"][:16].replace("T", " "),
        "release": charge["release_id"],
        "epsilon": charge["epsilon"],
        "delta": charge["delta"],
        "stored bytes": made,
    }
