"""The `sfumato` command: every expected error is one line and exit code 2, Ctrl-C is 130."""

import importlib
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from sfumato import errors
from sfumato.cli import engines, input_files, waiting
from sfumato.cli.bounds import joined
from sfumato.cli.option_names import command_of, in_options
from sfumato.cli.options import Json

__all__ = ["app", "main"]

app: typer.Typer  # made when it is first used: a process of one command loads that one alone

GROUPS = (
    "audit",
    "sketch",
    "budget",
    "profiles",
    "index",
    "telemetry",
    "density",
    "mine",
    "store",
)
# Commands beside groups, and the modules that hold them.
COMMANDS = {
    "fit": "models",
    "models": "models",
    "evaluate": "models",
    "recommend": "models",
    "tune": "models",
    "compare": "compare",
    "split": "split",
    "generate": "generate",
    "serve": "serve",
    "bench": "bench",
    "doctor": "doctor",
    "warmup": "warmup",
}

# What the library requires is an option here, by the owner of a parameter ("": any) and its name.
HINTS = {
    ("", "dataset"): "They are --ledger and --dataset.",
    ("", "ledger"): "They are --ledger and --dataset.",
    ("", "other"): "That is telemetry params --other.",
    ("", "ratings"): "That is --rating-column, or --model linear-items.",
    ("", "times"): "That is --time-column.",
    ("", "weight"): "That is --set weight=W.",
    ("", "weights"): "A count-sketch takes others with --set cells=real.",
    ("BinaryIndex", "encoder"): "That is --encoder.",
    ("BinaryIndex", "keep_vectors"): "That is --keep-vectors, when it is built.",
    ("BinaryIndex", "rerank"): "Without: --rerank none.",
    ("CountSketch", "candidates"): "That is --among FILE.",
    ("ReleasedCountSketch", "candidates"): "That is --among FILE.",
    ("read_baskets", "basket"): "That is --basket-column.",
    ("read_interactions", "delimiter"): "That is --delimiter.",
    ("read_interactions", "header"): "They are --header and --no-header.",
    ("read_interactions", "items"): "That is --item-column.",
    ("read_interactions", "on_error"): "That is --skip-bad.",
    ("read_interactions", "ratings"): "That is --rating-column.",
    ("read_interactions", "users"): "That is --user-column.",
    ("read_params_csv", "own"): "Make a .json of it: sfumato telemetry params FILE --own -o "
    "params.json",
    ("values", "categories"): "Or telemetry params --scheme subset-selection --other makes it.",
}
CLASS_HINTS: dict[type[errors.SfumatoError], str] = {
    errors.NullValueError: "--skip-nulls leaves such rows out.",
    errors.DuplicateReportsError: "Give each file once, or files of reports in place of such "
    "counts.",
}
# What a warning names that only callers from Python have.
OF_PYTHON = re.compile(r" \(release_\.size\(\)\)|; input_report shows [^.;]*")
EXPECTED = (ValueError, TypeError, OSError, MemoryError)


class _OneLineErrors(TyperGroup):
    """A group whose expected errors, its own and those of all commands below, are one line."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        waiting.add_quiet(self)

    def main(self, *args: Any, **options: Any) -> NoReturn:
        options["standalone_mode"] = False
        input_files.NOTES.clear()
        _files().clear()
        words = options.pop("args", args[0] if args else None)
        given = joined(sys.argv[1:] if words is None else words)
        title = " ".join(["sfumato", *engines.command_words(given)])
        try:
            engines.check(given)
            with warnings.catch_warnings(), waiting.waiting(title):
                warnings.showwarning = _one_line(warnings.showwarning)
                code = super().main(given, *args[1:], obj={"arguments": given}, **options)
            input_files.print_notes()
        except KeyboardInterrupt:
            code = 130
        except Exception as error:
            if not isinstance(error, EXPECTED) and not hasattr(error, "format_message"):
                raise
            command = command_of(self, given)
            sentence = input_files.readable(_sentence(error, command, given))
            print(f"sfumato: {sentence}", file=sys.stderr)
            code = 2
        if code == 130:
            print(f"sfumato: stopped; {_written()}.", file=sys.stderr)
        sys.exit(code if isinstance(code, int) else 0)


def _written() -> str:
    """What a command that is stopped leaves: files are there complete or not at all."""
    names = ", ".join(dict.fromkeys(path.name for path in _files()))
    return f"complete is {names}" if names else "nothing was written"


def _files() -> Any:
    """The files that this process wrote, by a module that takes long to import."""
    return getattr(sys.modules.get("sfumato.core.file_format"), "WRITTEN", [])


def _one_line(usual: Any) -> Any:
    """How a warning to the user is shown: as errors are. Those to programmers stay as usual."""

    def show(message: Any, category: Any, *where: Any) -> None:
        if category is UserWarning:
            sentence = OF_PYTHON.sub("", str(message))
            print(f"sfumato: {sentence}", file=sys.stderr)
        else:
            usual(message, category, *where)

    return show


def _sentence(error: Any, command: Any = None, arguments: Sequence[str] = ()) -> str:
    if hasattr(error, "format_message"):  # the command line itself was not understood
        context = getattr(error, "ctx", None)
        hint = f" See {context.command_path} --help." if context else ""
        message = error.format_message().replace("Value error, ", "").rstrip(".") + "." + hint
    elif isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    elif isinstance(error, MemoryError):
        message = "there is not enough memory; make the sketch smaller with --set."
    else:
        message = str(error) or type(error).__name__
    hint = _hint(error)
    if command is not None and isinstance(error, EXPECTED) and not isinstance(error, OSError):
        message = in_options(message, error, command, arguments)
        named = re.findall(r"--[a-z-]+", hint)
        repeated = hint.startswith(("That is", "They are")) and any(n in message for n in named)
        hint = "" if repeated else hint
    return " ".join(" ".join([message, hint, *getattr(error, "__notes__", [])]).split())


def _hint(error: Any) -> str:
    """What mends an error of the library on the command line; "" for most."""
    if isinstance(error, errors.ParameterError | errors.ParameterTypeError):
        own = HINTS.get((error.owner, error.parameter))
        return own or HINTS.get(("", error.parameter), "")
    return next((hint for kind, hint in CLASS_HINTS.items() if isinstance(error, kind)), "")


def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    engine: Annotated[
        str, typer.Option(help="Where long work runs: local (threads of this machine) or spark.")
    ] = "local",
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark's master, such as spark://host:7077 or local[2]."),
    ] = None,
) -> None:
    context.obj = {**(context.obj or {}), "engine": engine, "master": master}
    if version:
        import sfumato

        print(sfumato.__version__)
    elif context.invoked_subcommand is None:
        print(context.get_help())


def inspect(
    file: Annotated[Path, typer.Argument(help="Any file that a command wrote, except tables.")],
    json: Json = False,
) -> None:
    """Describe any file that a command wrote.

    Sketches, models, releases, indexes, ledgers, stores, telemetry and shares of secure sums.
    """
    from sfumato.cli import budget, index, printing, store, telemetry
    from sfumato.data.files import beginning

    if not beginning(file).lstrip().startswith((b"SQLite", b"{")):
        printing.check_kind(file, "sketch, model, release, index, answer or ledger")
    from sfumato.core.storage import content_of

    content = content_of(file)
    if content == "ledger":
        budget.show(file, None, json)
    elif content == "store":
        store.info(str(file), json)
    elif content in ("parameters", "reports"):
        telemetry.show(content, file, json)
    elif content == "json":
        printing.answer(file, json)
    elif content == "index":
        index.show(file, json)
    else:
        _inspect_packed(file, json)


def _inspect_packed(file: Path, json: bool) -> None:
    """Describe a file with our magic; a damaged one is refused as a sketch is."""
    from sfumato.cli import density, models, sketch, telemetry
    from sfumato.core.file_format import kind_of_file
    from sfumato.core.storage import class_of

    bases = {base.__name__ for base in getattr(class_of(kind_of_file(file)), "__mro__", ())}
    if "Counts" in bases:
        telemetry.show("counts", file, json)
    elif "KernelEstimator" in bases:
        density.show(file, json)
    elif "NoisyShare" in bases:
        density.show_share(file, json)
    elif "Estimator" in bases:
        models.show(file, json)
    else:
        sketch.info(file, json)


def demo(
    room: Annotated[
        str | None,
        typer.Argument(help="Tour of one room; without it, a summary of all, then the service."),
    ] = None,
    json: Json = False,
    once: Annotated[
        bool,
        typer.Option("--once", envvar="ONCE", help="End after the summary, without the service."),
    ] = False,
) -> None:
    """Show a tour on generated data, then the service and its page."""
    import io

    from rich.console import Console

    from sfumato.cli import printing
    from sfumato.cli.demo import ROOMS, WIDTH, summary, visit

    quiet = Console(file=io.StringIO(), width=WIDTH) if json else None
    if room is not None:
        if room not in ROOMS:
            raise ValueError(f"ROOM must be one of {', '.join(ROOMS)}, not {room!r:.100}.")
        rows = visit(room, quiet)
        if json:
            printing.rows(rows, json)
        return
    found = summary(quiet)
    if json:
        printing.rows([{"room": name, **row} for name in found for row in found[name]], json)
    elif not once:
        _demo_service(Console())


def _demo_service(console: Any) -> None:
    try:
        from sfumato.cli.demo import service
    except ModuleNotFoundError as error:
        console.print(f"The service needs {error.name}: pip install 'sfumato[serve]'.")
        return
    waiting.stop()
    service.run(console)


OWN = (inspect, demo)  # here, since the folder `demo` takes the name once it is imported


def _made(only: str | None = None) -> typer.Typer:
    """The command line: all of it, or what one group or command needs."""
    made = typer.Typer(
        cls=_OneLineErrors,
        help="Learn from personal data, release it privately, and attack the release.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help, so that --help need not load rich
    )
    for name in GROUPS:
        if only in (None, name):
            made.add_typer(_module(name).app, name=name)
    for name, module in COMMANDS.items():
        if only in (None, name):
            made.command()(getattr(_module(module), name))
    made.callback(invoke_without_command=True)(start)
    for command in OWN:
        made.command()(command)
    return made


def _module(name: str) -> Any:
    return importlib.import_module(f"sfumato.cli.{name}")


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault("app", _made())


def main() -> None:
    """Run the command line."""
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    known = first in (*GROUPS, *COMMANDS, *(each.__name__ for each in OWN))
    (_made(first) if known else __getattr__("app"))(prog_name="sfumato")
