"""`sfumato mine similar`: pairs of documents that are nearly the same."""

import time
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.mine import files
from sfumato.cli.options import Force, Json

__all__ = ["similar"]

OPTIONS = ("threshold", "k", "unit", "permutations", "recall", "seed")


def similar(
    context: typer.Context,
    documents: Annotated[
        Path,
        typer.Argument(
            help="Texts: one per line (.txt), or a table: .csv, .tsv, .parquet, .jsonl."
        ),
    ],
    threshold: Annotated[float, typer.Option(help="Jaccard similarity from which on.")] = 0.8,
    column: Annotated[str | None, typer.Option(help="The column of texts in a table.")] = None,
    id_column: Annotated[
        str | None, typer.Option(help="The column of names in a table; default: row numbers.")
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Characters or words of a shingle.")] = 5,
    unit: Annotated[str, typer.Option(help="characters or words.")] = "characters",
    permutations: Annotated[int, typer.Option(help="Length of the signatures.")] = 128,
    recall: Annotated[float, typer.Option(help="Of pairs at the threshold.")] = 0.99,
    seed: Annotated[int, typer.Option(help="Of the hashes.")] = 0,
    top: files.Top = None,
    figure: Annotated[
        Path | None, typer.Option(help="Draw the S-curve and the pairs: .png, .svg or .pdf.")
    ] = None,
    output: files.Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """List the pairs of documents whose shingles are similar, the most similar first."""
    from sfumato.cli import printing
    from sfumato.mine.similar import near_duplicates

    files.check_outputs(output, figure, force, documents)
    texts, names = _read(documents, column, id_column)
    begin = time.perf_counter()
    found = near_duplicates(texts, **{name: context.params[name] for name in OPTIONS})
    seconds = round(time.perf_counter() - begin, 3)
    if figure is not None:
        _draw(figure, found, threshold, permutations, recall)
    table = found.sort_by([("similarity", "descending"), ("first", "ascending")])
    table = _named(table if top is None else table.slice(0, top), names)
    if output is None:
        files.print_rows(table, json, top, ("first", "second", "similarity"))
        return
    files.write(output, table)
    about = {"file": str(output), "documents": len(texts), "pairs": table.num_rows}
    printing.document({**about, "threshold": threshold, "seconds": seconds}, json)


def _read(file: Path, column: str | None, id_column: str | None) -> tuple[Any, Any]:
    """The texts of a file, and their names if there are any."""
    if file.suffix.lower() == ".txt":
        if column is not None or id_column is not None:
            raise ValueError(f"{file}: has one text per line, and no --column or --id-column.")
        return file.read_bytes().splitlines(), None
    if column is None:
        raise ValueError(f"{file}: --column must be given: the name of the column of texts.")
    import pyarrow as pa

    from sfumato.data import read_batches

    wanted = [column, *([id_column] if id_column is not None else [])]
    batches = list(read_batches(file, wanted, text=[column]))
    if not batches:
        return [], None
    rows = pa.Table.from_batches(batches)
    return rows.column(column), rows.column(id_column) if id_column is not None else None


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
    drawn = plot_s_curve(curve, found.column("similarity").to_numpy(), threshold=threshold)
    out = BytesIO()
    drawn.savefig(out, format=path.suffix[1:].lower(), dpi=120)
    write_atomic(path, out.getvalue())
