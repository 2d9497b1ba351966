"""`sfumato mine similar`: pairs of documents that are nearly the same."""

import itertools
import sys
import time
from collections.abc import Iterable
from io import BytesIO
from json import dumps
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.mine import files
from sfumato.cli.options import Force, Json, Quiet, takes

__all__ = ["similar"]

NOTHING = "no documents are so similar; lower --threshold."
OPTIONS = ("threshold", "k", "unit", "permutations", "recall", "seed")


@takes(input_files.TEXT, before="top")
def similar(
    context: typer.Context,
    documents: Annotated[
        Path,
        typer.Argument(
            help="Texts: one per line, or with --column a table of any format; - is stdin."
        ),
    ],
    threshold: Annotated[float, typer.Option(help="Smallest Jaccard similarity of a pair.")] = 0.8,
    column: Annotated[str | None, typer.Option(help="The column of texts in a table.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="The column of names in a table; default: row numbers.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Characters or words of a shingle.")] = 5,
    unit: Annotated[str, typer.Option(help="characters or words.")] = "characters",
    permutations: Annotated[int, typer.Option(help="Length of the signatures.")] = 128,
    recall: Annotated[float, typer.Option(help="Recall of pairs at the threshold.")] = 0.99,
    seed: Annotated[int, typer.Option(help="Seed of the hashes.")] = 0,
    top: files.Top = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the S-curve and the pairs: .png, .svg or .pdf.")
    ] = None,
    output: files.Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """List pairs of similar documents, the most similar first."""
    from sfumato.cli import printing
    from sfumato.mine.similar import near_duplicates

    files.check_outputs(output, figure, force, documents)
    options = {name: context.params[name] for name in OPTIONS}
    texts, names = None, None
    if not engines.on_spark(context):
        texts, names = _read(documents, column, id_column, context.params)
    begin, named = time.perf_counter(), input_files.naming_options(OPTIONS)
    with named, engines.chosen(context, input_files.TEXT) as engine:
        if engine is not None:
            options |= {"id_column": id_column or "id", "text_column": column or "text"}
            found = near_duplicates(engines.address(context, documents), engine=engine, **options)
        else:
            with printing.progress("searching", "steps", hidden=quiet or json) as advance:
                found = near_duplicates(texts, **options, progress=advance)
    seconds = round(time.perf_counter() - begin, 3)
    if figure is not None:
        _draw(figure, found, threshold, permutations, recall)
    large = not hasattr(found, "num_rows")  # a data set, whose pairs need not fit into memory
    pairs = found.count_rows() if large else found.num_rows
    if large and top is None and output is not None:
        _write_parts(output, found, names)
    else:
        table = _named(_best(found, files.SHOWN if large and top is None else top), names)
        pairs = table.num_rows if output is not None else pairs
        if output is None:
            columns = ("first", "second", "similarity")
            files.print_rows(table, json, top, columns, NOTHING)
            _note(table.num_rows, pairs if large else table.num_rows)
            return
        files.write(output, table)
    about = {"file": str(output), "documents": None if texts is None else len(texts)}
    about |= {"pairs": pairs}
    printing.document({**about, "threshold": threshold, "seconds": seconds}, json)


def _note(shown: int, pairs: int) -> None:
    if shown < pairs:
        print(f"sfumato: {shown} of {pairs} rows; -o FILE writes all.", file=sys.stderr)


def _best(found: Any, top: int | None) -> Any:
    """The most similar pairs of a table or data set, at most so many."""
    order = [("similarity", "descending"), ("first", "ascending"), ("second", "ascending")]
    if hasattr(found, "num_rows"):
        table = found.sort_by(order)
        return table if top is None else table.slice(0, top)
    import pyarrow as pa

    best = found.schema.empty_table()
    for batch in found.to_batches():
        both = pa.concat_tables([best, pa.Table.from_batches([batch])])
        best = both.sort_by(order).slice(0, top)
    return best


def _write_parts(path: Path, found: Any, names: Any) -> None:
    """Write all pairs of a data set in the order in which they were found, in bounded memory."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from sfumato.core.file_format import atomic_writer
    from sfumato.data.files import without_formulas

    parts = (_named(pa.Table.from_batches([batch]), names) for batch in found.to_batches())
    first = next(parts)
    with atomic_writer(path) as file:
        if path.suffix.lower() == ".json":
            _write_json(file, itertools.chain([first], parts))
            return
        is_csv = path.suffix.lower() == ".csv"
        clean = without_formulas if is_csv else lambda table: table
        kind = csv.CSVWriter if is_csv else parquet.ParquetWriter
        with kind(file, clean(first).schema) as writer:
            for table in itertools.chain([first], parts):
                writer.write_table(clean(table))


def _write_json(file: BinaryIO, tables: Iterable[Any]) -> None:
    file.write(b'{"rows": [')
    for at, table in enumerate(tables):
        rows = (dumps(row, ensure_ascii=False) for row in table.to_pylist())
        file.write(((", " if at else "") + ", ".join(rows)).encode())
    file.write(b"]}\n")


def _read(
    file: Path, column: str | None, id_column: str | None, options: dict[str, Any]
) -> tuple[Any, Any]:
    """The texts of a file, and their names if there are any."""
    named, file = file, input_files.located(file)
    if column is None:
        if input_files.is_table(file):
            raise ValueError(f"{named}: --column must be given: the name of the column of texts.")
        if id_column is not None:
            raise ValueError(f"{named}: has one text per line, and no --id-column.")
        return _lines(file, options), None
    import pyarrow as pa

    from sfumato.data import read_batches

    wanted = [column, *([id_column] if id_column is not None else [])]
    given = vars(input_files.text_format(options))
    batches = list(read_batches(file, wanted, text=[column], **given))
    roles = {"texts": column, **({} if id_column is None else {"names": id_column})}
    input_files.announce(named, roles, options)
    if not batches:
        return [], None
    rows = pa.Table.from_batches(batches)
    return rows.column(column), rows.column(id_column) if id_column is not None else None


def _lines(file: Path, options: dict[str, Any]) -> list[bytes]:
    """Lines as they are, or in the encoding that was given, as UTF-8."""
    if options["encoding"] is None and not file.name.endswith(".gz"):
        return file.read_bytes().splitlines()
    found = input_files.lines(file, "mine similar", options["encoding"])
    return [line.encode() for line in found]


def _named(table: Any, names: Any) -> Any:
    """Pairs of names in place of row numbers."""
    if names is None:
        return table
    for at, side in enumerate(("first", "second")):
        table = table.set_column(at, side, names.take(table.column(side)))
    return table


def _draw(path: Path, found: Any, threshold: float, permutations: int, recall: float) -> None:
    """Write the S-curve with the pairs that were found on it."""
    from sfumato.core.file_format import write_atomic
    from sfumato.mine.similar import choose_bands, plot_s_curve

    curve = choose_bands(threshold, permutations, recall=recall)
    pairs = found.column("similarity").to_numpy() if hasattr(found, "num_rows") else found
    drawn = plot_s_curve(curve, pairs, threshold=threshold)
    out = BytesIO()
    drawn.savefig(out, format=path.suffix[1:].lower(), dpi=120)
    write_atomic(path, out.getvalue())
