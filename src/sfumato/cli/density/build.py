"""`sfumato density build`: learn from a table, and keep a release of it or, without epsilon, it."""

import secrets
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.bounds import ColumnBounds, column_bounds
from sfumato.cli.density import files, tables
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

__all__ = ["build"]

KINDS = {
    "density": "SketchDensity",
    "sampler": "SketchSampler",
    "table": "PrivateTableSampler",
    "classifier": "SketchClassifier",
    "regressor": "SketchRegressor",
    "anomalies": "SketchAnomalyDetector",
}
SAMPLES = "samples"  # a table with epsilon, else a sampler
STREAMED = ("density", "sampler")
PAID = ("ledger", "dataset", "release_id", "unit", "relation", "contributions")
CHOICES = ("bandwidth", "kernel", "backend", "rows", "expected_size", "contamination", "method")
PUBLIC = {"--bounds": KINDS, "--classes": ("classifier",), "--target-bounds": ("regressor",)}
NEEDED = "--epsilon needs {}: public, never taken from private data."
MOST_CLASSES = 1000  # that a column may turn out to hold; more were hardly meant as classes


@takes(input_files.TEXT, before="force")
def build(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(help="A table: text, Parquet, Arrow, JSON lines, NumPy; - is stdin.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the model.")],
    columns: Annotated[
        str | None,
        typer.Option(help="Feature columns: a,b,...; default: all that are not used otherwise."),
    ] = None,
    bounds: ColumnBounds = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            help=f"One of {', '.join(KINDS)}, or {SAMPLES}: table with --epsilon, else sampler; "
            "default: by the options given.",
        ),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The column of classes: a classifier, or of a table.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="All possible classes: a,b,...; required with --epsilon.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column of numbers: a regressor.")] = None,
    target_bounds: Annotated[
        str | None,
        typer.Option(
            metavar="[NAME=]LOW,HIGH", help="Public limits of the target; required with --epsilon."
        ),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES|NAME=A,B,...",
            help="Columns that hold codes 0, 1, ... up to HIGH: a,b,...; or one column with the "
            "public list of its categories: city=Paris,Rome; repeatable.",
        ),
    ] = None,
    integers: Annotated[
        str | None, typer.Option(help="table: columns of integers from LOW to HIGH: a,b,...")
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Width of the kernel, in the unit of the columns.")
    ] = None,
    kernel: Annotated[str | None, typer.Option(help="p-stable, gaussian or exponential.")] = None,
    backend: Annotated[
        str | None, typer.Option(help="auto, grid, race, slices or fourier.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Rows of the sketch; default: by a public rule.")
    ] = (None),
    expected_size: Annotated[
        int | None, typer.Option(help="A public guess of the number of rows.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="classifier: columns, kernel, logistic; regressor: statistics, angles, surrogate; "
            "sampler: matched, rejection, mcmc."
        ),
    ] = None,
    degree: Annotated[
        str | None, typer.Option(help="regressor: 1, 2 or auto; default: auto.")
    ] = None,
    contamination: Annotated[
        float | None, typer.Option(help="Expected fraction of anomalies.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Epsilon of the release; without it nothing is private.")
    ] = None,
    delta: Annotated[
        float, typer.Option(help="Delta of (epsilon, delta)-differential privacy.")
    ] = 0.0,
    ledger: Ledger = None,
    dataset: Dataset = None,
    release_id: ReleaseId = None,
    unit: Annotated[str | None, typer.Option(help="Privacy unit; default: event.")] = None,
    relation: Relation = None,
    contributions: Annotated[
        int | None, typer.Option(help="Maximum number of rows of one unit.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of hashes and directions, never of noise.")] = 0,
    skip_nulls: Annotated[
        bool,
        typer.Option(
            "--skip-nulls", help="Leave out rows with empty or NaN cells; --epsilon always does."
        ),
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn from a table and write a model, private with --epsilon."""
    from sfumato.cli import printing, release_options

    given = context.params
    kind = _kind(tables.chosen_sampler(given) if kind == SAMPLES else kind, label, target)
    _together(kind, given)
    check_output(output, force, data, ledger)
    if ledger is not None:
        given["release_id"] = release_id = release_id or secrets.token_hex(16)
    stored = release_options.is_stored(ledger, release_id)
    begin = time.perf_counter()
    with release_options.way_back(ledger, release_id):
        learned = _learned_on_spark if engines.on_spark(context) else _learned_here
        model = learned(kind, context)
        model.save(output)
    seconds = round(time.perf_counter() - begin, 3)
    found = files.described(model, output, json)
    printing.document({**found, "stored_before": stored, "seconds": seconds}, json)
    if epsilon is not None:
        printing.promise(model.statement_, json)
    elif not json:
        print(OPEN)
    if stored:
        print(f"sfumato: {release_id!r} was stored before; nothing was drawn.", file=sys.stderr)


OPEN = "Nothing is hidden: this file is raw data in another form. --epsilon makes a release."
REMEDY = "--skip-nulls leaves such rows out."


def _learned_here(kind: str, context: typer.Context) -> Any:
    """The model of a table that this machine reads."""
    from sfumato.data.tables import PointFile

    given = context.params
    data, beside = given["data"], given["label"] or given["target"]
    private = given["epsilon"] is not None
    table, written = input_files.located(data), input_files.text_format(given, private=private)
    names = files.chosen(table, given["columns"], beside, written, private=private)
    files.announce(data, names, given, classes=given["label"], targets=given["target"])
    with input_files.naming_options(given):
        model = _made(kind, given, names)
    source = PointFile(
        table,
        names,
        beside,
        given["label"] is not None,
        given["skip_nulls"],
        REMEDY,
        private,
        written,
        categorical=tuple(_lists(model)),
    )
    # How many rows there are is not shown of those that are to be hidden.
    hidden = given["quiet"] or given["json"] or private
    streamed = kind in STREAMED and bool(given["bounds"])
    _learn(kind, model, source, streamed=streamed, hidden=hidden)
    return model


def _learned_on_spark(kind: str, context: typer.Context) -> Any:
    """The model of rows in Parquet files, whose partitions fill sketches or tables."""
    given = context.params
    label, target = given["label"], given["target"]
    beside = {name: given[name] for name in ("label", "target") if given[name] is not None}
    with engines.chosen(context, input_files.TEXT) as engine:
        source = engines.address(context, given["data"])
        names = engines.column_names(engine, source, given["columns"])
        if not given["columns"]:
            names = [name for name in names if name not in beside.values()]
        files.check_distinct(names, label or target)
        files.announce(given["data"], names, given, classes=label, targets=target)
        with input_files.naming_options(given):
            model = _made(kind, given, names)
            if kind == "table":
                table = engine.read(source, [*names, *beside.values()])
                return model.fit_rows(table, engine=engine)
            _number_classes(model)
            frame = engine.read(source, [*names, *beside.values()])
            rows = frame.dropna() if given["skip_nulls"] else frame
            return model.fit_rows(rows, engine=engine, columns=names, **beside)


def _kind(kind: str | None, label: str | None, target: str | None) -> str:
    """What is to be learned, and whether what was given fits it."""
    found = kind or ("classifier" if label else "regressor" if target else "density")
    if found not in KINDS:
        raise ValueError(f"--kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    for option, value, needs in (
        ("--label", label, "classifier"),
        ("--target", target, "regressor"),
    ):
        if option == "--label" and found == "table":
            continue
        if (value is not None) != (found == needs):
            verb = "needs" if found == needs else "takes no"
            raise ValueError(f"density build: a model of kind {found} {verb} {option}.")
    return found


def _together(kind: str, given: dict[str, Any]) -> None:
    """Refuse what would be ignored, and name all that a release lacks at once."""
    if kind != "table" and given["integers"] is not None:
        raise ValueError(f"density build: a model of kind {kind} takes no --integers.")
    if given["epsilon"] is None:
        for name in (*PAID, "delta"):
            if given[name]:
                raise ValueError(f"{_option(name)} does not go without --epsilon.")
        return
    listed = any("=" in each for each in given["categorical"] or [])
    labelled = kind == "table" and given["label"] is not None
    lacking = [
        option
        for option, kinds in PUBLIC.items()
        if kind in kinds or (option == "--classes" and labelled)
        if not given[option[2:].replace("-", "_")]
        if option != "--bounds" or not listed  # which may be the lists' own
    ]
    if lacking:
        raise ValueError(NEEDED.format(" and ".join(lacking)))
    ledger = given["ledger"]
    if ledger is not None and (not ledger.exists() or not ledger.stat().st_size):
        raise FileNotFoundError(f"{ledger}: there is no ledger; make one with budget create.")
    if (ledger is None) != (given["dataset"] is None):
        raise ValueError("--ledger and --dataset go together; give both or neither.")
    if ledger is None and given["release_id"] is not None:
        raise ValueError("--release-id needs a --ledger to look in.")


def _made(kind: str, given: dict[str, Any], names: list[str] | None) -> Any:
    """The model, with the options that were given; one that it does not have is refused."""
    from sfumato import density

    if kind == "table":
        paid = {name: given[name] for name in PAID if given[name] is not None}
        return tables.made_table(given, names, paid)
    values = {name: given[name] for name in (*CHOICES, *PAID) if given[name] is not None}
    values |= {"epsilon": given["epsilon"], "delta": given["delta"], "random_state": given["seed"]}
    categorical = _categorical(given["categorical"] or [], names)
    if categorical:
        values["categorical"] = categorical
    others = _without_list(categorical, names)
    if given["epsilon"] is not None and not given["bounds"] and others != []:
        raise ValueError(NEEDED.format("--bounds"))
    if given["bounds"]:
        pairs = column_bounds(given["bounds"], others)
        sides = tuple(list(side) for side in zip(*pairs, strict=True))
        values["bounds"] = pairs[0] if len(pairs) == 1 else sides
    if given["degree"] is not None:
        values["degree"] = int(given["degree"]) if given["degree"].isdigit() else given["degree"]
    if given["classes"] is not None:
        values["classes"] = given["classes"].split(",")
    if given["target_bounds"] is not None:
        written, target = [given["target_bounds"]], [given["target"]]
        values["target_bounds"] = column_bounds(written, target, "--target-bounds")[0]
    made = getattr(density, KINDS[kind])
    known = made().get_params(deep=False)
    for name in values:
        if name not in known:
            raise ValueError(f"density build: a model of kind {kind} takes no {_option(name)}.")
    model = made(**values)
    model._check()
    return model


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _categorical(written: list[str], names: list[str] | None) -> list[int] | dict[str, Any]:
    """Positions of columns of codes, or where one has a list of categories all by name."""
    found: list[tuple[str, list[str] | None]] = []
    for each in written:
        name, is_list, texts = each.partition("=")
        found += (
            [(name.strip(), files.parts(texts))]
            if is_list
            else [(one, None) for one in each.split(",")]
        )
    lists, known = dict(found), names or []
    if names is None and not any(lists.values()) and all(map(str.isdigit, lists)):
        return [int(name) for name in lists]  # of a matrix
    for name in lists:
        if name not in known:
            raise ValueError(f"--categorical names {name!r}, which is no column of the points.")
    if len(lists) < len(found):
        raise ValueError("--categorical names a column twice.")
    return lists if any(lists.values()) else [known.index(name) for name in lists]


def _without_list(categorical: Any, names: list[str] | None) -> list[str] | None:
    """The columns whose bounds do not follow from a list of categories."""
    if names is None or not isinstance(categorical, dict):
        return names
    return [name for name in names if categorical.get(name) is None]


def _lists(model: Any) -> dict[str, Any]:
    """The lists of categories of a model to be fitted, by name of their columns."""
    given = getattr(model, "categorical", None)
    if not isinstance(given, dict):
        columns = getattr(model, "columns", None) or {}
        return {
            name: each
            for name, each in columns.items()
            if isinstance(each, list) and name != model.target
        }
    return {name: each for name, each in given.items() if each is not None}


def _learn(kind: str, model: Any, source: Any, *, streamed: bool, hidden: bool) -> None:
    """In one pass where the model can; else from all rows at once."""
    from sfumato.cli import printing

    if streamed:
        with printing.progress("reading", hidden=hidden) as advance:
            model.fit_batches(_counted(source, advance))
        return
    with printing.progress("reading", hidden=hidden) as advance:
        points, beside = source.all(advance)
    if kind == "table":
        tables.learn_table(model, points, source.beside, beside)
        return
    if not source.private:
        points, beside = _listed(model, source, points, beside)
    if beside is None:
        model.fit(points)
    elif source.text:
        model.fit(points, _labels(model, source, beside))
    else:
        model.fit(points, beside)


def _listed(model: Any, source: Any, points: Any, beside: Any) -> tuple[Any, Any]:
    """Rows whose categories are all listed: others raise, or are left out as empty cells are."""
    import numpy as np

    lists = {source.names.index(name): each for name, each in _lists(model).items()}
    if not source.skip_nulls or not lists:
        files.refuse_unlisted(source.file, points, lists)
        return points, beside
    used = ~np.logical_or.reduce(list(files.unlisted(points, lists).values()))
    if not used.any():
        raise ValueError(f"{source.file}: has no rows to use.")
    return points.filter(used), None if beside is None else beside[used]


def _counted(source: Any, advance: Any) -> Any:
    done = 0
    for part, _ in source.parts():
        yield part
        done += len(part)
        advance(done, None)


def _labels(model: Any, source: Any, texts: Any) -> Any:
    """The classes of the rows: integers where all classes are such, else texts."""
    import numpy as np

    if source.private:
        _number_classes(model)
        return texts
    named = np.unique(texts) if model.classes is None else np.array(model.classes)
    if len(named) > MOST_CLASSES:
        raise ValueError(
            f"--label names {source.beside!r}, with more than {MOST_CLASSES} different values; a "
            "column of numbers is a --target."
        )
    unknown = ~np.isin(texts, named)
    if unknown.any():
        at = 1 + int(unknown.argmax())
        raise ValueError(
            f"{source.file}: row {at} of those used: column {source.beside!r} holds a class that "
            "--classes does not name; name all of them."
        )
    if not all(_is_integer(each) for each in named.tolist()):
        return texts
    if model.classes is not None:
        model.classes = [int(each) for each in model.classes]
    return texts.astype(np.int64)


def _number_classes(model: Any) -> None:
    """Make the classes of a classifier integers where all are written so."""
    classes = getattr(model, "classes", None)
    if classes is not None and all(_is_integer(each) for each in classes):
        model.classes = [int(each) for each in classes]


def _is_integer(written: str) -> bool:
    """Whether a text is an integer as Python writes it."""
    return written.removeprefix("-").isdecimal() and str(int(written)) == written
