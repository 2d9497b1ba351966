"""Inputs and outputs of `sfumato mine`: baskets, tables of results, pictures."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.options import check_output

__all__ = [
    "LOCAL",
    "PICTURES",
    "READING",
    "TABLES",
    "Baskets",
    "MaxSize",
    "MemoryLimit",
    "Method",
    "MinSupport",
    "Output",
    "Top",
    "basket_rows",
    "check_outputs",
    "mined",
    "opened",
    "parsed_bytes",
    "print_rows",
    "watched",
    "write",
]

TABLES = (".parquet", ".csv", ".json")
PICTURES = (".png", ".svg", ".pdf")
SHOWN = 20  # rows on the screen
FORMATS = "fimi, lines, flat, lists, long"
READING = {
    "format": Annotated[
        str | None, typer.Option(help=f"Format of the file: {FORMATS}; default: by its ending.")
    ],
    "basket_column": Annotated[
        str | None, typer.Option(help="Column of the baskets, in a long table.")
    ],
    "item_column": Annotated[
        str | None,
        typer.Option(help="Column of the items in a long table; in Parquet, column of the lists."),
    ],
    "separator": Annotated[str | None, typer.Option(help="Between the items of a line.")],
    **input_files.TEXT,
}
# Names of columns of long tables, without case and signs, the likeliest first.
USUAL = {
    "basket": "basket basketid transaction transactionid tid order orderid invoice invoiceno "
    "invoiceid receipt receiptid session sessionid visit visitid user userid customer customerid",
    "item": "item itemid itemname product productid productname article articleid sku stockcode",
}
LOCAL = ("format", "separator", "memory_limit", *input_files.TEXT)  # options of one machine
SON_PASSES = 3
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}

Baskets = Annotated[
    Path, typer.Argument(help="Baskets: one per line, or a table of any format; - is stdin.")
]
MinSupport = Annotated[
    float | None,
    typer.Option(help="Below 1 a fraction of all baskets, from 1 up a number of baskets."),
]
Method = Annotated[str, typer.Option(help="Algorithm; auto: by size, density and memory.")]
MaxSize = Annotated[int | None, typer.Option(help="Maximum number of items of an itemset.", min=1)]
MemoryLimit = Annotated[
    str | None, typer.Option(metavar="BYTES", help="Maximum memory, such as 512M or 2G.")
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help=f"Where to write all rows: {', '.join(TABLES)}."),
]
Top = Annotated[int | None, typer.Option(help="Number of rows to print, the best first.", min=1)]


def check_outputs(
    output: Path | None, figure: Path | None, force: bool, *inputs: Path | None
) -> None:
    """Refuse before the work what could not be written after it."""
    for option, path, endings in (("-o", output, TABLES), ("--figure", figure, PICTURES)):
        if path is None:
            continue
        if path.suffix.lower() not in endings:
            raise ValueError(f"{option} {path}: must end in {', '.join(endings)}.")
        check_output(path, force, *inputs)


def opened(file: Path, given: dict[str, Any]) -> Any:
    """The baskets of a file, as the options say."""
    from sfumato.mine.itemsets import Baskets, read_baskets

    named, file = file, input_files.located(file)
    names = {"basket_column": "basket", "item_column": "item"}
    options = {names.get(name, name): given[name] for name in READING if given[name] is not None}
    if "delimiter" in options:
        options["delimiter"] = options["delimiter"].replace("\\t", "\t")
    private = given.get("epsilon") is not None
    if options.get("format") in (None, "long") and not private:
        options |= _roles(file, options)
    _check_columns(file, options)
    if "basket" in options:
        roles = {"baskets": options["basket"], "items": options.get("item", "item")}
        input_files.announce(named, roles, given)
    elif file.suffix.lower() == ".npz":
        from sfumato.data.readers.arrays import sparse_of

        return Baskets(sparse_of(file))
    elif "format" not in options:
        options |= {} if private else _lines_of(file, options)
        if _has_lines(file):
            input_files.note(named, "one basket per line", given)
    with input_files.naming_options(READING):
        return read_baskets(file, **options)


def _roles(file: Path, options: dict[str, Any]) -> dict[str, str]:
    """Columns of baskets and items by their usual names, as far as they are not given."""
    from sfumato.data.readers.formats import TextFormat, is_parquet
    from sfumato.data.tables import names_of

    if is_parquet(file) and "basket" not in options and options.get("format") != "long":
        return {}
    form = TextFormat(options.get("delimiter"), options.get("header"), options.get("encoding"))
    names: list[str] = []
    with suppress(ValueError):  # a first basket need not be a header
        names = names_of(file, form)
    usual = {role: _usual(names, role) for role in ("basket", "item")}
    found = {role: options.get(role) or usual[role] for role in usual}
    complete = None not in found.values()
    return {role: str(name) for role, name in found.items()} if complete else {}


def _usual(names: list[str], role: str) -> str | None:
    """The column that is called as those of this role usually are."""
    plain = {re.sub("[^a-z]", "", name.lower()): name for name in names}
    return next((plain[each] for each in USUAL[role].split() if each in plain), None)


def _check_columns(file: Path, options: dict[str, Any]) -> None:
    """Refuse a column of items where lines are the baskets."""
    from sfumato.data.readers.formats import is_parquet

    if "item" in options and "basket" not in options and not is_parquet(file):
        raise ValueError("--item-column goes with --basket-column: name the column of baskets too.")


def _has_lines(file: Path) -> bool:
    """Whether baskets are lines of text, where no column is named."""
    from sfumato.data.readers import formats

    form = formats.form_of(file)
    json = form is not None and form.layout
    return not json and not formats.is_typed(file) and ".flat" not in file.suffixes


def _lines_of(file: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Format of baskets in lines, where neither the ending nor an option tells it."""
    from sfumato.data.readers import formats

    ending = Path(file.name.lower().removesuffix(".gz")).suffix
    if formats.is_typed(file) or ending in (".dat", ".csv", ".tsv", ".flat"):
        return {}
    form = formats.form_of(file)
    if form is not None and form.layout:
        return {}
    start = formats.start_of(file, formats.as_gzip(file)).decode("utf-8", "replace")
    between = options.get("separator") or next((each for each in ",;\t|" if each in start), None)
    return {"format": "fimi"} if between is None else {"format": "lines", "separator": between}


def mined(file: Path, context: Any, *, hidden: bool) -> Any:
    """The frequent itemsets of a file, by the options of a command, and the number of passes."""
    from sfumato.mine.itemsets import frequent_itemsets

    given = context.params
    support = given["min_support"]
    if support is None:
        raise ValueError("--min-support must be given: a fraction, or a number of baskets.")
    options: dict[str, Any] = {name: given[name] for name in ("method", "max_size")}
    limit = parsed_bytes(given["memory_limit"])
    explain = bool(given.get("explain"))
    named = input_files.naming_options(("min_support", *options))
    with named, engines.chosen(context, LOCAL) as engine:
        if engine is not None:
            source, options["column"] = basket_rows(engine, context, file)
            found = frequent_itemsets(source, support, explain=explain, engine=engine, **options)
            return found, SON_PASSES
        with watched(opened(file, given), hidden=hidden) as baskets:
            options |= {"memory_limit": limit, "explain": explain}
            return frequent_itemsets(baskets, support, **options), baskets.passes


def basket_rows(engine: Any, context: Any, file: Path) -> tuple[Any, str]:
    """The baskets of Parquet files on Spark, and their column: lists, or a long table grouped."""
    given, source = context.params, engines.address(context, file)
    basket, item = given["basket_column"], given["item_column"]
    if basket is None:
        input_files.announce(file, {"baskets": item or "items"}, given)
        return source, item or "items"
    from pyspark.sql import functions

    input_files.announce(file, {"baskets": basket, "items": item or "item"}, given)
    rows = engine.read(source, [basket, item or "item"])
    gathered = functions.collect_set(f"`{item or 'item'}`").alias("items")
    return rows.groupBy(f"`{basket}`").agg(gathered), "items"


@contextmanager
def watched(baskets: Any, *, hidden: bool) -> Iterator[Any]:
    """Baskets whose passes move a bar."""
    from sfumato.cli import printing

    with printing.progress("pass", "baskets", hidden=hidden) as advance:

        def moved(this: int, done: int, total: int | None) -> None:
            advance.title = f"pass {this}, counting items" if total is None else f"pass {this}"
            advance(done, total)

        baskets.progress = moved
        try:
            yield baskets
        finally:
            baskets.progress = None


def parsed_bytes(written: str | None) -> int | None:
    """A number of bytes, as 1000, 512M or 2G."""
    if written is None:
        return None
    found = re.fullmatch(r"([0-9]{1,15})([KMG]?)(i?B)?", written)
    if not found:
        raise ValueError(f"--memory-limit must be bytes, as 512M or 2G, not {written!r:.100}.")
    return int(found[1]) * UNITS[found[2]]


def write(path: Path, table: Any) -> None:
    """Write a table in the format of the file extension; lists are JSON in a CSV."""
    import json

    import pyarrow as pa

    from sfumato.cli.printing import plain
    from sfumato.core.file_format import write_atomic
    from sfumato.data.files import write_table

    ending = path.suffix.lower()
    if ending == ".json":
        rows = plain(table.to_pylist())
        text = json.dumps({"rows": rows}, allow_nan=False, ensure_ascii=False)
        write_atomic(path, text.encode() + b"\n")
        return
    if ending == ".csv":
        for at, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
            if pa.types.is_large_list(column.type):
                texts = [json.dumps(cell, ensure_ascii=False) for cell in column.to_pylist()]
                table = table.set_column(at, name, pa.array(texts, pa.large_string()))
    write_table(path, table)


def print_rows(
    table: Any, as_json: bool, top: int | None, columns: tuple[str, ...], nothing: str = "no rows."
) -> None:
    """Print the first rows of a table, or that there is none; in JSON all of them."""
    import sys

    from sfumato.cli import printing

    if not table.num_rows and not as_json:
        print(f"sfumato: {nothing}", file=sys.stderr)
        return
    shown = table if top is None and as_json else table.slice(0, top or SHOWN)
    rows = shown.to_pylist()
    if not as_json:
        rows = [{name: _word(row[name]) for name in columns} for row in rows]
    printing.rows(rows, as_json)
    if not as_json and shown.num_rows < table.num_rows:
        print(
            f"sfumato: {shown.num_rows} of {table.num_rows} rows; -o FILE writes all.",
            file=sys.stderr,
        )


def _word(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
