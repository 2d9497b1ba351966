"""`sfumato density`: one summary of a table, private when told so, and all that it answers."""

from pathlib import Path

import typer

from sfumato.cli.density import build as density_build
from sfumato.cli.density import query as density_ask
from sfumato.cli.density import query as density_draw
from sfumato.cli.density.files import load, told

__all__ = ["app", "shown"]

app = typer.Typer(
    help="One summary of a table, private with --epsilon: density, class, number, anomaly, rows.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
app.command()(density_build.build)
app.command()(density_ask.query)
app.command()(density_ask.classify)
app.command()(density_ask.regress)
app.command()(density_ask.anomalies)
app.command()(density_draw.modes)
app.command()(density_draw.sample)


def shown(file: Path, json: bool) -> bool:
    """Say what a model of `density build` in a file is; False where it holds something else."""
    from sfumato.cli import printing
    from sfumato.density.serialization import holds_model

    if not holds_model(file):
        return False
    model = load(file)
    printing.document(told(model, file, json), json)
    if hasattr(model, "statement_"):
        printing.promise(model.statement_, json)
    return True
