"""`sfumato budget`: give data sets a privacy budget, and see what it was spent on."""

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["app"]

# Written out, so that --help need not load the ledger; a test compares them.
UNITS = "event, item of a profile, user, basket, adjacency list"
app = typer.Typer(
    help="Give data sets a privacy budget, and see what it was spent on.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
File = Annotated[Path, typer.Argument(metavar="LEDGER", help="The file of the ledger.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
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
    from sfumato.cli import _show
    from sfumato.privacy import Ledger

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
        _show.rows(every, json)


@app.command()
def history(
    ledger: File,
    dataset: Annotated[str, typer.Argument(help="The data set; its splits are listed with it.")],
    json: Json = False,
) -> None:
    """The charges of a data set, oldest first."""
    from sfumato.cli import _show

    found = [_charge(each, json) for each in _open(ledger).history(dataset)]
    _show.rows(found, json)


def _open(file: Path) -> Any:
    """A ledger that is there: looking must not make one."""
    if not file.exists():
        raise FileNotFoundError(f"{file}: there is no such ledger; `budget create` makes one.")
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


def _charge(entry: Any, as_json: bool) -> dict[str, Any]:
    loss = entry.loss.to_dict()
    return {
        "charged": entry.charged,
        "dataset": entry.dataset,
        "what": entry.what,
        "loss": loss if as_json else _words(loss),
        "release_id": entry.release_id,
        "released": entry.released,
        "nbytes": entry.nbytes,
    }


def _words(loss: dict[str, Any]) -> str:
    inside = {name: part for name, part in loss.items() if name not in ("kind", "relation")}
    told = (f"{n}={_words(part) if isinstance(part, dict) else part}" for n, part in inside.items())
    return f"{loss['kind']}({', '.join(told)})"
