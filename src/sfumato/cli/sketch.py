"""`sfumato sketch`: build, inspect, query, merge and release the sketches of a column.

What a sketch answers on the command line: about keys, about all of them, the heaviest ones.
"""

import inspect
import secrets
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.options import (
    Dataset,
    Force,
    Json,
    Ledger,
    Quiet,
    Relation,
    ReleaseId,
    check_output,
    takes,
)

__all__ = ["about", "app", "compared", "heaviest", "overall"]

# Written out, so that --help need not load the sketches; a test compares them.
KINDS = (
    "ams, bloom-filter, count-min, count-sketch, counting-bloom-filter, feature-hasher, "
    "hyper-log-log, johnson-lindenstrauss, lp-sketch, min-hash, scalable-bloom-filter"
)
app: typer.Typer = typer.Typer(
    help="Build, query, merge and release sketches of a column of keys.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
File = Annotated[Path, typer.Argument(help="A sketch, or a release of one.")]
NO_EFFECT = "Has no effect: a key is its value, of whatever type."
Integers = Annotated[bool, typer.Option("--integers", hidden=True, help=NO_EFFECT)]
Out = Annotated[Path, typer.Option("--output", "-o", help="Where to write the sketch.")]


LIKELY = 0.95  # of the interval of a key
LOCAL = ("threads", "memory_limit", "skip_bad", *input_files.TEXT)  # options of one machine


@app.command()
@takes(input_files.TEXT, before="threads")
def build(
    context: typer.Context,
    kind: Annotated[str, typer.Argument(help=f"One of {KINDS}.")],
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Text, Parquet, Arrow, JSON lines or NumPy; - is stdin."
        ),
    ],
    column: Annotated[
        str, typer.Option("--column", "-c", help="The column of keys, or its number.")
    ],
    output: Out,
    weights: Annotated[str | None, typer.Option(help="A column of weights.")] = None,
    clip: Annotated[
        int | None,
        typer.Option(
            help="A public bound that weights are clipped to: then none is refused, and what is no "
            "number counts as 0, as a private release needs."
        ),
    ] = None,
    error: Annotated[
        float | None,
        typer.Option(
            help="The error wanted in place of sizes: relative for hyper-log-log and ams, of the "
            "total for count-min, the rate of false positives for Bloom filters; at 99%."
        ),
    ] = None,
    capacity: Annotated[
        int | None,
        typer.Option(help="Number of keys for a Bloom filter, at the rate --error or 0.01."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the sketch, as NAME=VALUE; repeatable.",
        ),
    ] = None,
    text: Annotated[bool, typer.Option("--text", hidden=True, help=NO_EFFECT)] = False,
    skip_nulls: Annotated[bool, typer.Option(help="Leave out rows with empty values.")] = False,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Read line by line and leave out lines that are no row, whatever they hold, as a "
            "private release needs; slower.",
        ),
    ] = False,
    threads: Annotated[
        int | None, typer.Option(help="Number of threads; default: all cores.")
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Maximum memory, such as 1GiB.")
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Sketch a column of files larger than memory.

    A key is its value, whatever type the file gives it: 7 and "7" are one key, and so are all empty
    values, so that no row changes how another one is read.
    """
    from sfumato.cli import printing, sketch_kinds

    given = context.params
    make = sketch_kinds.maker(kind, settings or [], error, capacity)
    check_output(output, force)
    step = None if clip is None else sketch_kinds.clipping(make(), column, weights, clip)
    begin = time.perf_counter()
    with engines.chosen(context, LOCAL) as engine:
        built = _on_threads if engine is None else _on_spark
        sketch, facts = built(engine, make, step, given)
    sketch.save(output)
    seconds = round(time.perf_counter() - begin, 3)
    printing.document({**printing.info(sketch, output), **facts, "seconds": seconds}, json)


def _on_threads(_: None, make: Any, step: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The sketch by threads of this machine, and how many rows were read."""
    from sfumato.cli import printing, sketch_kinds
    from sfumato.data import read_batches
    from sfumato.engine import LocalEngine

    limit = given["memory_limit"]
    engine = LocalEngine(
        given["threads"], memory_limit=None if limit is None else sketch_kinds.size(limit)
    )
    columns, text = _columns(given), input_files.text_format(given, private=True)
    found = [input_files.located(each) for each in given["files"]]
    rows = sketch_kinds.rows_of(found, columns, text) if given["skip_bad"] else found
    keys = columns[:1] if step is None else columns
    skip = given["skip_nulls"]
    source = read_batches(rows, columns, keys=keys, skip_nulls=skip, **vars(text))
    _announce(given)
    title, hidden = f"sketching {given['column']}", given["quiet"] or given["json"]
    with printing.progress(title, hidden=hidden) as advance:
        sketch = engine.map_merge(source, make, **_roles(given), progress=advance, update=step)
    return sketch, {"rows_read": advance.done}


def _on_spark(
    engine: Any, make: Any, step: Any, given: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The sketch by Spark, of Parquet files that its executors can read."""
    columns = _columns(given)
    frame = engine.read(given["files"], columns)
    _announce(given)
    frame = frame.dropna(subset=columns) if given["skip_nulls"] else frame
    return engine.map_merge(frame, make, **_roles(given), update=step), {"engine": repr(engine)}


def _columns(given: dict[str, Any]) -> list[str]:
    return [name for name in _roles(given).values() if name is not None]


def _roles(given: dict[str, Any]) -> dict[str, Any]:
    return {"column": given["column"], "weights": given["weights"]}


def _announce(given: dict[str, Any]) -> None:
    roles = {"keys": given["column"], "weights": given["weights"]}
    taken = {role: name for role, name in roles.items() if name is not None}
    input_files.announce(", ".join(given["files"]), taken, given)


@app.command()
def info(file: File, json: Json = False) -> None:
    """Describe a sketch, or a release with its statement.

    It prints the kind, parameters, size and error bound.
    """
    from sfumato.cli import printing

    found = _load(file)
    printing.document(printing.info(found, file), json)
    if hasattr(found, "statement"):
        printing.promise(found.statement, json)


@app.command()
def estimate(
    file: File,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="After -- if one begins with -.")
    ] = None,
    integers: Integers = False,
    json: Json = False,
) -> None:
    """Query a sketch: the counts of keys, or its one estimate."""

    from sfumato.cli import printing

    sketch = _load(file)
    if keys:
        _answer(sketch, keys, json)
    else:
        found = {"kind": type(sketch).__name__, "estimate": overall(sketch)}
        printing.document({**found, **certainty(sketch)}, json)


@app.command()
def contains(
    file: File,
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY...", help="After -- if one begins with -.")
    ],
    json: Json = False,
) -> None:
    """Check whether a Bloom filter contains keys.

    The answer states the rate of false positives.
    """
    sketch = _load(file)
    if not hasattr(sketch, "contains"):
        raise ValueError(
            f"{_name(sketch)}: is no Bloom filter; sketch estimate asks it about keys."
        )
    _answer(sketch, keys, json)


def _answer(sketch: Any, keys: list[str], json: bool) -> None:
    """Print what a sketch says about keys, with an interval or the rate of false positives."""
    from sfumato.cli import printing

    answers = about(sketch, keys, LIKELY)
    known = certainty(sketch) if hasattr(sketch, "contains") else {}
    if "low" in answers[0]:
        known = {"confidence": LIKELY}
    if json:
        printing.document({"rows": answers, **known}, json)
        return
    printing.rows(answers, json)
    if "confidence" in known:
        print(
            f"For each key, the true value is between low and high in about {LIKELY:.0%} of cases."
        )
    elif known:
        rate = known["false_positive_rate"]
        print(f"Of keys that were never added, {rate:.3g} are said to be contained.")


@app.command()
def top(
    file: File,
    k: Annotated[int, typer.Option("-k", help="Number of results.", min=1)] = 10,
    among: Annotated[
        Path | None, typer.Option(help="Text file of candidate keys, one per line.")
    ] = None,
    integers: Integers = False,
    json: Json = False,
) -> None:
    """List the keys with the largest counts.

    They are those that the sketch tracked, or come from a public list of keys (--among).
    """

    from sfumato.cli import printing

    listed = None if among is None else input_files.lines(among, "--among")
    printing.rows(heaviest(_load(file), k, listed), json)


@app.command()
def compare(left: File, right: File, json: Json = False) -> None:
    """Estimate the similarity of two sketched columns."""

    from sfumato.cli import printing

    printing.document(compared(_load(left), _load(right)), json)


@app.command()
def merge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE FILE...", help="Sketches.")],
    output: Out,
    force: Force = False,
    json: Json = False,
) -> None:
    """Merge sketches into the sketch of all their streams."""
    from sfumato.cli import printing

    check_output(output, force)
    if len(files) < 2:
        raise ValueError("merge: give two sketches or more.")
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError("merge: a file is named twice, and every event in it would count twice.")
    merged = _load(files[0])
    with printing.progress("merging", "files") as advance:
        for at, file in enumerate(files[1:], 2):
            try:
                merged.merge(_load(file))
            except (ValueError, TypeError) as error:
                error.add_note(f"({files[0]} and {file})")
                raise
            advance(at, len(files))
    merged.save(output)
    printing.document(printing.info(merged, output), json)


@app.command()
def release(
    file: Annotated[Path, typer.Argument(help="A sketch.")],
    output: Out,
    epsilon: Annotated[float, typer.Option(help="Epsilon of the release.")],
    delta: Annotated[
        float, typer.Option(help="Delta of (epsilon, delta)-differential privacy.")
    ] = 0.0,
    ledger: Ledger = None,
    dataset: Dataset = None,
    release_id: ReleaseId = None,
    unit: Annotated[str | None, typer.Option(help="Privacy unit; default: event.")] = None,
    relation: Relation = None,
    contributions: Annotated[
        int | None, typer.Option(help="Maximum number of events of one unit in the sketch.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the release, such as weight=5; repeatable.",
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a private copy of a sketch.

    It has noise and a privacy statement. The budget is charged before noise is drawn.
    """
    from sfumato.cli import printing, release_options

    check_output(output, force)
    if ledger is not None:
        release_id = release_id or secrets.token_hex(16)
    stored = release_options.is_stored(ledger, release_id)
    with release_options.way_back(ledger, release_id):
        made = release_options.released(
            _load(file),
            (epsilon, delta),
            ledger,
            settings or [],
            dataset=dataset,
            release_id=release_id,
            unit=unit,
            relation=relation,
            contributions=contributions,
        )
        made.save(output)
    printing.document({**printing.info(made, output), "stored_before": stored}, json)
    printing.promise(made.statement, json)
    if stored:
        print(f"sfumato: {release_id!r} was stored before; nothing was drawn.", file=sys.stderr)


def _load(file: Path) -> Any:
    from sfumato.cli.printing import check_kind

    check_kind(file, "sketch")
    from sfumato.core.file_format import SketchFormatError, kind_of_file
    from sfumato.core.storage import Stored, class_of, load

    kind = kind_of_file(file)
    if kind and (class_of(kind) is None or kind not in Stored.KINDS):
        raise SketchFormatError(
            f"{file}: holds a {kind}, no sketch of keys; sfumato inspect tells about it."
        )
    try:
        return load(file)
    except SketchFormatError as error:
        raise SketchFormatError(f"{file}: {error}") from None


def about(sketch: Any, keys: list[str], confidence: float | None = None) -> list[dict[str, Any]]:
    """One row for each key: its estimate, or whether the sketch contains it.

    With a confidence also the limits of an interval, of what has intervals of keys.
    """
    _refuse_points(sketch)
    ask = getattr(sketch, "contains", None) or getattr(sketch, "estimate", None)
    if ask is None or not inspect.signature(ask).parameters:
        raise ValueError(f"{_name(sketch)}: takes no key; give none.")
    answers = ask(keys)
    label = "contains" if answers.dtype == bool else "estimate"
    columns = {"key": keys, label: answers.tolist()}
    if confidence and label == "estimate" and hasattr(sketch, "interval"):
        low, high = sketch.interval(keys, confidence)
        columns |= {"low": low.tolist(), "high": high.tolist()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def overall(sketch: Any) -> float:
    """The one number a sketch gives for all its keys: a count, or the norm of their weights."""
    _refuse_points(sketch)
    for verb in ("estimate", "estimate_size", "norm"):
        query = getattr(sketch, verb, None)
        if query is not None and not inspect.signature(query).parameters:
            return float(query())
    raise ValueError(f"{_name(sketch)}: answers about keys; give one or more after the file.")


def certainty(sketch: Any, confidence: float = 0.99) -> dict[str, Any]:
    """What is known about an answer: an interval of distinct keys, a rate of false positives."""
    if hasattr(sketch, "contains") and hasattr(sketch, "error_bound"):
        return {"false_positive_rate": float(sketch.error_bound())}
    if hasattr(sketch, "interval"):
        low, high = sketch.interval(confidence)
    elif type(sketch).__name__ == "HyperLogLog":
        # |estimate - true| <= 1 + bound * true
        answer, bound = float(sketch.estimate()), sketch.error_bound(confidence)
        low = max(0.0, (answer - 1) / (1 + bound))
        high = (answer + 1) / (1 - bound) if bound < 1 else float("inf")
    else:
        return {}
    return {"low": float(low), "high": float(high), "confidence": confidence}


def compared(left: Any, right: Any) -> dict[str, Any]:
    """Compare two sketches of one kind: similarity, inner product, distance."""
    _refuse_points(left)
    found = {
        verb: float(getattr(left, verb)(right))
        for verb in ("similarity", "inner", "distance")
        if hasattr(left, verb)
    }
    if not found:
        raise ValueError(f"{_name(left)}: two of them cannot be compared.")
    return found


def heaviest(sketch: Any, k: int, among: list[str] | None = None) -> list[dict[str, Any]]:
    """The k heaviest keys that the sketch tracked, or among those listed, heaviest first."""
    _refuse_points(sketch)
    if among is not None and not hasattr(sketch, "heavy_hitters"):
        found = about(sketch, among)
        return sorted(found, key=lambda row: -row.get("estimate", 0))[:k]
    if not hasattr(sketch, "heavy_hitters"):
        raise ValueError(
            f"{_name(sketch)}: does not know its heaviest keys; name candidates with --among FILE, "
            "or build a count-sketch with --set track=100."
        )
    keys, estimates = sketch.heavy_hitters(k, among)
    return [
        {"key": _readable(key), "estimate": float(estimate)}
        for key, estimate in zip(keys, estimates, strict=True)
    ]


def _refuse_points(sketch: Any) -> None:
    """What was learned from points knows no keys."""
    if hasattr(sketch, "mean") or hasattr(sketch, "matrix"):
        subject = "the release of it" if not hasattr(sketch, "statement") else "it"
        raise ValueError(
            f"{_name(sketch)}: answers about points, not keys; query {subject} with sfumato "
            "density query, or from Python."
        )


def _readable(key: Any) -> int | str | None:
    if isinstance(key, bytes):
        return key.decode("utf-8", "backslashreplace")
    return key if key is None or isinstance(key, str) else int(key)


def _name(sketch: Any) -> str:
    return type(sketch).__name__
