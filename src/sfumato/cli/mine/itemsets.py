"""`sfumato mine itemsets`: sets of items that are together in many baskets, or their release."""

import secrets
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines
from sfumato.cli.mine import files
from sfumato.cli.options import (
    Dataset,
    Force,
    Json,
    Ledger,
    Quiet,
    ReleaseId,
    check_output,
    takes,
)

__all__ = ["itemsets"]

NOTHING = "no itemset is in so many baskets; lower --min-support."
PAID = ("ledger", "dataset", "release_id")
PRIVATE = {"delta": "--delta", "max_items": "--max-items", "vocabulary": "--vocabulary"}


@takes(files.READING, before="min_support")
def itemsets(
    context: typer.Context,
    baskets: files.Baskets,
    min_support: files.MinSupport = None,
    method: files.Method = "auto",
    max_size: files.MaxSize = None,
    memory_limit: files.MemoryLimit = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each pass did.")] = False,
    closed: Annotated[
        bool, typer.Option("--closed", help="Only those without a superset of the same count.")
    ] = False,
    maximal: Annotated[
        bool, typer.Option("--maximal", help="Only those without a frequent superset.")
    ] = False,
    top: files.Top = None,
    epsilon: Annotated[
        float | None, typer.Option(help="Make a private release, with this epsilon for one basket.")
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Delta of the release; default: 0, which needs --vocabulary."),
    ] = None,
    max_items: Annotated[
        int | None,
        typer.Option(help="Maximum number of items of a basket, with --epsilon; public."),
    ] = None,
    vocabulary: Annotated[
        Path | None, typer.Option(help="Public ids of items, one per line; with --epsilon.")
    ] = None,
    ledger: Ledger = None,
    dataset: Dataset = None,
    release_id: ReleaseId = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help=f"Where to write all rows: {', '.join(files.TABLES)}; the release of --epsilon "
            "with any other ending.",
        ),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """List the frequent itemsets of a file of baskets.

    The file is read pass by pass. With --epsilon a private release is made, charged before noise is
    drawn. `mine rules` reads its file at no further cost.
    """
    if epsilon is not None:
        _release(context)
        return
    _refuse(context.params, (*PAID, *PRIVATE), "goes with --epsilon")
    files.check_outputs(output, None, force, baskets)
    if closed and maximal:
        raise ValueError("--closed and --maximal exclude each other; take one.")
    begin = time.perf_counter()
    found, passes = files.mined(baskets, context, hidden=quiet or json)
    found = found.closed() if closed else found.maximal() if maximal else found
    seconds = round(time.perf_counter() - begin, 3)
    _show(found, context.params, {"passes": passes, "seconds": seconds})


def _show(found: Any, given: dict[str, Any], measured: dict[str, Any]) -> None:
    """Write the table, or print it, with what was done."""
    from sfumato.cli import printing

    table, output, json = _sorted(found), given["output"], given["json"]
    table = table if given["top"] is None else table.slice(0, given["top"])
    if output is None:
        columns = ("items", "count", "support")
        files.print_rows(table, json, given["top"], columns, NOTHING)
    else:
        files.write(output, table)
        about = {
            "file": str(output),
            "itemsets": table.num_rows,
            "by_size": {str(codes.shape[1]): counts.size for codes, counts in found.levels},
            "baskets": found.n_baskets,
            "min_count": found.min_count,
            "method": found.method,
            "reason": found.reason,
            **measured,
        }
        printing.document({**about, **({"explain": found.explain} if json else {})}, json)
    if given["explain"] and not json:
        names = list(dict.fromkeys(name for each in found.explain for name in each))
        printing.rows([{name: each.get(name) for name in names} for each in found.explain], False)


def _sorted(found: Any) -> Any:
    """All rows, the most frequent first."""
    return found.to_arrow().sort_by([("count", "descending"), ("size", "ascending")])


def _refuse(given: dict[str, Any], names: tuple[str, ...], why: str) -> None:
    for name in names:
        if given[name] not in (None, False):
            raise ValueError(f"--{name.replace('_', '-')} {why}.")


def _release(context: typer.Context) -> None:
    """Make the private release that the options describe."""
    from sfumato.cli import printing, release_options

    given = context.params
    _refuse(given, ("explain", "closed", "maximal", "memory_limit"), "goes without --epsilon")
    output, ledger, json = given["output"], given["ledger"], given["json"]
    if output is not None:
        check_output(output, given["force"], given["baskets"], given["vocabulary"])
    model = _model(given)
    paid = {name: given[name] for name in PAID if given[name] is not None}
    if ledger is not None:
        if not ledger.exists() or not ledger.stat().st_size:
            raise FileNotFoundError(f"{ledger}: there is no ledger; make one with budget create.")
        paid["release_id"] = paid.get("release_id") or secrets.token_hex(16)
    named = paid.get("release_id")
    stored = release_options.is_stored(ledger, named)
    with release_options.way_back(ledger, named):
        release = _fitted(model, context, paid)
        if output is not None:
            _write(output, release)
    _show_release(release, given, stored)
    printing.promise(release.statement, json)
    if stored:
        print(f"sfumato: {named!r} was stored before; nothing was drawn.", file=sys.stderr)


def _model(given: dict[str, Any]) -> Any:
    from sfumato.mine.itemsets import PrivateItemsets

    if given["max_items"] is None:
        raise ValueError("--max-items must be given with --epsilon: to which each basket is cut.")
    words = given["vocabulary"]
    options = {
        "delta": given["delta"] or 0.0,
        "max_items": given["max_items"],
        "max_size": given["max_size"],
        "min_support": given["min_support"],
        "vocabulary": words and _listed(words),
    }
    return PrivateItemsets(
        given["epsilon"], **{name: each for name, each in options.items() if each is not None}
    )


def _listed(path: Path) -> Any:
    """Public ids, one per line: integers if all of them are."""
    from sfumato.cli.input_files import lines, typed

    ids = [line for line in lines(path, "--vocabulary") if line.strip()]
    if not ids:
        raise ValueError(f"--vocabulary {path}: lists no ids; write one per line.")
    return typed(ids)


def _fitted(model: Any, context: typer.Context, paid: dict[str, Any]) -> Any:
    given = context.params
    with engines.chosen(context, files.LOCAL) as engine:
        if engine is not None:
            source, column = files.basket_rows(engine, context, given["baskets"])
            return model.fit(source, engine=engine, column=column, **paid).release_
    # No bar: it would show the exact number of baskets.
    return model.fit(files.opened(given["baskets"], given), **paid).release_


def _write(output: Path, release: Any) -> None:
    if output.suffix.lower() in files.TABLES:
        files.write(output, _sorted(release.itemsets()))
    else:
        release.save(output)


def _show_release(release: Any, given: dict[str, Any], stored: bool) -> None:
    from sfumato.cli import printing

    found = release.itemsets()
    if given["output"] is None and not given["json"]:
        columns = ("items", "count", "support")
        files.print_rows(_sorted(found), False, given["top"], columns, NOTHING)
        return
    about: dict[str, Any] = {
        "file": given["output"] and str(given["output"]),
        "itemsets": len(found),
        "by_size": {str(codes.shape[1]): counts.size for codes, counts in found.levels},
        "baskets": release.baskets,
        "deviations": release.deviations.tolist(),
        "statement": release.statement.to_dict(),
        "stored_before": stored,
    }
    if given["output"] is None:
        about["rows"] = _sorted(found).slice(0, given["top"]).to_pylist()
    printing.document(about, given["json"])
