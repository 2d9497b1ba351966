"""The `sfumato` command: every expected error is one line and exit code 2, Ctrl-C is 130."""

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from sfumato.cli import audit, budget, density, index, models, profiles, sketch, telemetry
from sfumato.cli import models as tuning
from sfumato.cli.options import Json

__all__ = ["app", "main"]

# What a sentence of the library asks for is an option here.
HINTS = {
    "is null": "--skip-nulls leaves such rows out.",
    "weights must be whole numbers, not": "A count-sketch takes others with --set cells=real.",
    "holds a heavier event": "That is --set weight=W.",
    "give candidates": "That is --among FILE.",
    "ledger and dataset go together": "They are --ledger and --dataset.",
    "on_error='skip'": "That is --skip-bad.",
    "give users=": "That is --user-column.",
    "give items=": "That is --item-column.",
    "give ratings=": "That is --rating-column.",
    "give delimiter=": "That is --delimiter.",
    "keep_vectors=True": "That is --keep-vectors, when it is built.",
    "rerank must be": "Without: --rerank none.",
    "encoder must be None": "That is --encoder.",
    "reports are in both": "Give each file once, or files of reports in place of such counts.",
    "let one category stand": "Or telemetry params --scheme subset-selection --other makes it.",
    "other=True makes one": "That is telemetry params --other.",
    "With own=True": "Make a .json of it: sfumato telemetry params FILE --own -o params.json",
}
EXPECTED = (ValueError, TypeError, OSError, MemoryError)


class _OneLineErrors(TyperGroup):
    """A group whose expected errors, its own and those of all commands below, are one line."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        options["standalone_mode"] = False
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _one_line(warnings.showwarning)
                code = super().main(*args, **options)
        except KeyboardInterrupt:
            code = 130
        except Exception as error:
            if not isinstance(error, EXPECTED) and not hasattr(error, "format_message"):
                raise
            print(f"sfumato: {_sentence(error)}", file=sys.stderr)
            code = 2
        if code == 130:
            print("sfumato: stopped; nothing was written.", file=sys.stderr)
        sys.exit(code if isinstance(code, int) else 0)


def _one_line(usual: Any) -> Any:
    """How a warning to the user is shown: as errors are. Those to programmers stay as usual."""

    def show(message: Any, category: Any, *where: Any) -> None:
        if category is UserWarning:
            print(f"sfumato: {message}", file=sys.stderr)
        else:
            usual(message, category, *where)

    return show


def _sentence(error: Any) -> str:
    if hasattr(error, "format_message"):  # the command line itself was not understood
        context = getattr(error, "ctx", None)
        hint = f" See {context.command_path} --help." if context else ""
        told = error.format_message().rstrip(".") + "." + hint
    elif isinstance(error, OSError) and error.strerror:
        told = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    elif isinstance(error, MemoryError):
        told = "there is not enough memory; make the sketch smaller with --set."
    else:
        told = str(error) or type(error).__name__
    hints = [hint for words, hint in HINTS.items() if words in told]
    return " ".join(" ".join([told, *hints, *getattr(error, "__notes__", [])]).split())


app = typer.Typer(
    cls=_OneLineErrors,
    help="Learn from personal behaviour without keeping it.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, so that --help need not load rich
)
app.add_typer(audit.app, name="audit")
app.add_typer(sketch.app, name="sketch")
app.add_typer(budget.app, name="budget")
app.add_typer(profiles.app, name="profiles")
app.add_typer(index.app, name="index")
app.add_typer(telemetry.app, name="telemetry")
app.add_typer(density.app, name="density")
app.command()(models.fit)
app.command()(models.evaluate)
app.command()(models.recommend)
app.command()(tuning.tune)


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        import sfumato

        print(sfumato.__version__)
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def inspect(file: Annotated[Path, typer.Argument()], json: Json = False) -> None:
    """Say what a file of ours holds: a sketch, model, release, index, answer, ledger, telemetry."""
    from sfumato.cli import printing
    from sfumato.data.files import beginning

    begin = beginning(file).lstrip()
    if begin.startswith(b"SQLite"):
        budget.show(file, None, json)
        return
    if begin.startswith(b"{"):
        if not telemetry.shown(file, json):
            printing.answer(file, json)
        return
    printing.check_kind(file, "sketch, model, release, index, answer or ledger")
    if not any(room.shown(file, json) for room in (telemetry, index, density, models)):
        sketch.info(file, json)


@app.command()
def demo(json: Json = False) -> None:
    """A tour on a generated shop: sketches, a private release, an audit, beside the truth."""
    import io

    from rich.console import Console

    from sfumato.cli import printing
    from sfumato.cli.demo import tour

    rows = tour(console=Console(file=io.StringIO()) if json else None)
    if json:
        printing.rows(rows, json)


def main() -> None:
    """Run the command line."""
    app(prog_name="sfumato")
