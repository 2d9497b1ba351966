"""`sfumato density`: one summary of a table, private if requested, and the queries it answers."""

from pathlib import Path

import typer

from sfumato.cli.density import build as density_build
from sfumato.cli.density import query as density_ask
from sfumato.cli.density import query as density_draw
from sfumato.cli.density.files import described, load

__all__ = ["app", "show", "show_share"]

app: typer.Typer = typer.Typer(
    help="Summarise a table, private with --epsilon, and query it.",
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


def show(file: Path, json: bool) -> None:
    """Describe the model of `density build` in a file."""
    from sfumato.cli import printing

    model = load(file)
    printing.document(described(model, file, json), json)
    if hasattr(model, "statement_"):
        printing.promise(model.statement_, json)


def show_share(file: Path, json: bool) -> None:
    """Describe one party's secret share of a secure sum, without its numbers."""
    import sfumato
    from sfumato.cli import printing

    share = sfumato.load(file)
    content = {
        "file": str(file),
        "kind": "NoisyShare",
        "of": share.kind,
        "terms": share.terms,
        "parties": ", ".join(map(str, share.members)),
        "masked": share.masked,
        "file_bytes": file.stat().st_size,
    }
    printing.document(content, json)
    printing.promise("A share is not private: it is for a secure sum only.", True)
