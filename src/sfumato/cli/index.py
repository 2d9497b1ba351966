"""`sfumato index`: binary codes of a file of vectors, and the nearest of them to others."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import input_files
from sfumato.cli.options import Force, Json, Quiet, check_output, takes

__all__ = ["app", "show"]

# Written out, so that --help need not load the encoders; a test compares them.
ENCODERS = "anti_sparse, learned, optimal, project_and_sign, qolsh, tight_frame"
STEP = 1 << 14  # vectors encoded between two moves of the bar
QUERIES = 1 << 12  # searched at once
SAMPLE = 100_000  # vectors, or somewhat more, that the encoder learns from
app: typer.Typer = typer.Typer(
    help="Search the nearest of many vectors by short binary codes.",
    no_args_is_help=False,
    rich_markup_mode=None,
)
File = Annotated[Path, typer.Argument(help="A file that index build wrote.")]
Vectors = Annotated[
    Path, typer.Argument(help="Vectors: NumPy, or a table of numbers or lists; - is stdin.")
]
Ids = Annotated[Path | None, typer.Option(help="Integer ids, one per line; default: consecutive.")]
IdColumn = Annotated[str | None, typer.Option(help="The column of ids: its name or number.")]
Out = Annotated[Path, typer.Option("--output", "-o", help="Where to write the index.")]


@app.command()
@takes(input_files.TEXT, before="force")
def build(
    context: typer.Context,
    vectors: Vectors,
    output: Out,
    encoder: Annotated[
        str | None,
        typer.Option(help=f"One of {ENCODERS}; default: qolsh with centre and factor."),
    ] = None,
    bits: Annotated[int, typer.Option(help="Bits of a code.")] = 256,
    metric: Annotated[
        str, typer.Option(help="cosine; euclidean; or inner, the inner product.")
    ] = "cosine",
    keep_vectors: Annotated[
        bool, typer.Option("--keep-vectors", help="Store the vectors too, for --rerank exact.")
    ] = False,
    ids: Ids = None,
    id_column: IdColumn = None,
    seed: Annotated[int, typer.Option(help="Seed of the directions.")] = 0,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Encode a file of vectors and write an index."""
    from sfumato.cli import printing
    from sfumato.retrieve import BinaryIndex

    check_output(output, force, vectors, ids)
    if encoder is not None and encoder not in ENCODERS.split(", "):
        raise ValueError(f"--encoder must be one of {ENCODERS}, not {encoder!r}.")
    named, rows = _vectors(vectors, ids, 0, context.params)
    begin = time.perf_counter()
    with input_files.naming_options(context.params):
        made = BinaryIndex(
            bits=bits, encoder=encoder, metric=metric, keep_vectors=keep_vectors, seed=seed
        )
    made.fit(rows[:: max(1, len(rows) // SAMPLE)])
    _fill(made, named, rows, hidden=quiet or json)
    made.save(output)
    seconds = round(time.perf_counter() - begin, 3)
    printing.document({**_described(made, output), "seconds": seconds}, json)


@app.command()
@takes(input_files.TEXT, before="force")
def add(
    context: typer.Context,
    file: File,
    vectors: Vectors,
    output: Out,
    ids: Ids = None,
    id_column: IdColumn = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write an index with more vectors in it.

    Its encoder stays the same.
    """
    from sfumato.cli import printing

    check_output(output, force, vectors, ids)
    index = _load(file)
    first = int(index.ids.max()) + 1 if len(index) else 0
    named, rows = _vectors(vectors, ids, first, context.params)
    _fill(index, named, rows, hidden=quiet or json)
    index.save(output)
    printing.document(_described(index, output), json)


@app.command()
def remove(
    file: File,
    ids: Annotated[list[int], typer.Argument(metavar="ID...", help="Ids to remove.")],
    output: Out,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write an index without some ids.

    Their codes and vectors are not in the new file.
    """
    from sfumato.cli import printing

    check_output(output, force)
    index = _load(file)
    known = set(index.ids.tolist())
    missing = [each for each in ids if each not in known]
    if missing:
        raise ValueError(f"{file}: id {missing[0]} is not in the index.")
    index.remove(ids)
    index.compact()
    index.save(output)
    printing.document(_described(index, output), json)


@app.command()
@takes(input_files.TEXT, before="quiet")
def search(
    context: typer.Context,
    file: File,
    queries: Vectors,
    k: Annotated[int, typer.Option("-k", help="Number of results for each query.", min=1)] = 10,
    shortlist: Annotated[
        int, typer.Option(help="How many of the scan's results are ranked again.")
    ] = 1000,
    rerank: Annotated[
        str | None, typer.Option(help="asymmetric, exact (with stored vectors) or none.")
    ] = "asymmetric",
    scan: Annotated[
        str | None, typer.Option(help="hamming or asymmetric; default: what suits the codes.")
    ] = None,
    id_column: IdColumn = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find the nearest vectors to each query, the best first."""
    from sfumato.cli import printing

    index = _load(file)
    if rerank == "exact" and not index.parameters["keep_vectors"]:
        raise ValueError(f"{file}: --rerank exact needs vectors: index build --keep-vectors.")
    named, rows = _vectors(queries, None, 0, context.params)
    order = None if rerank == "none" else rerank
    found: list[Any] = []
    with printing.progress("searching", "queries", hidden=quiet or json) as advance:
        advance(0, len(rows))
        for start in range(0, len(rows), QUERIES):
            part = rows[start : start + QUERIES]
            answers = index.search(part, k, shortlist=shortlist, rerank=order, scan=scan)
            found += zip(*answers, strict=True)
            advance(len(found), len(rows))
    printing.rows(
        [
            {"query": int(query), "item": int(each), "score": float(score)}
            for query, (row_scores, ids) in zip(named, found, strict=True)
            for each, score in zip(ids, row_scores, strict=True)
            if each >= 0
        ],
        json,
    )


def show(file: Path, json: bool) -> None:
    """Describe the index in a file."""
    from sfumato.cli import printing

    printing.document(_described(_any(file), file), json)


def _vectors(file: Path, ids: Path | None, first: int, options: dict[str, Any]) -> tuple[Any, Any]:
    """Ids and vectors of a file, and which columns they are."""
    from sfumato.data import tables
    from sfumato.data.readers import formats

    table, given = input_files.located(file), input_files.text_format(options)
    column = options["id_column"]
    found = tables.read(table, ids, column, first, given)
    if tables.is_matrix(table):
        width = found[1].shape[1] + (column is not None)
        names = [each for each in map(str, range(width)) if each != column]
    else:
        known = tables.names_of(table, given)
        column = column and known[formats.position_of(table, known, column)]
        names = tables.point_names(table, column, given)
    shown = input_files.shown_columns(names[:8]) + (", ..." if len(names) > 8 else "")
    ids_from = "" if column is None else f", ids from {input_files.shown_column(column)}"
    input_files.note(file, f"vectors from {shown}{ids_from}", options)
    return found


def _fill(index: Any, ids: Any, rows: Any, *, hidden: bool) -> None:
    from sfumato.cli import printing

    with printing.progress("encoding", "vectors", hidden=hidden) as advance:
        advance(0, len(rows))
        for start in range(0, len(rows), STEP):
            part = slice(start, start + STEP)
            index.add(ids[part], rows[part])
            advance(min(start + STEP, len(rows)), len(rows))


def _described(index: Any, file: Path) -> dict[str, Any]:
    codes = hasattr(index, "nbytes_per_vector")
    return {
        "file": str(file),
        "kind": type(index).__name__,
        "parameters": index.parameters,
        **({"encoder": repr(index.encoder_)} if codes else {}),
        "vectors": len(index),
        "dimension": index.dimension,
        **({"bytes_per_vector": index.nbytes_per_vector} if codes else {}),
        "nbytes": index.nbytes,
        "file_bytes": file.stat().st_size,
    }


def _load(file: Path) -> Any:
    """An index of codes, which commands can change and search."""
    from sfumato.retrieve import BinaryIndex

    index = _any(file)
    if not isinstance(index, BinaryIndex):
        raise ValueError(
            f"{file}: holds a {type(index).__name__}; use sfumato.retrieve.load in Python."
        )
    return index


def _any(file: Path) -> Any:
    from sfumato.cli.printing import check_kind

    check_kind(file, "index")
    from sfumato.retrieve import load
    from sfumato.sketch import SketchFormatError

    try:
        return load(file)
    except SketchFormatError as error:
        raise SketchFormatError(f"{file}: {error}") from None
