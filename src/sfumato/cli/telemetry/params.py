"""`sfumato telemetry params`: make a file of parameters, state its guarantee, or convert one.

`sfumato telemetry plan`: which scheme sees most at this epsilon, and what will be visible.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import input_files
from sfumato.cli.options import Force, Json, check_output, option_name, takes
from sfumato.cli.telemetry import report_files, values

__all__ = ["SCHEMES", "described", "params", "plan", "promise"]

COMMAND = "telemetry params"
# Written out, so that --help need not load the schemes: what each takes besides the metric.
NOISE = ("f", "p", "q")
SCHEMES: dict[str, tuple[str, ...]] = {
    "rappor": (
        *("bits", "hashes", "cohorts", *NOISE),
        *("epsilon", "epsilon_one", "categories", "edges"),
    ),
    "local-hashing": ("epsilon", "cohorts", "cells"),
    "subset-selection": ("epsilon", "cohorts", "cells", "categories", "other"),
    "hadamard-response": ("epsilon", "categories", "other"),
    "published": ("bits", "hashes", "cohorts", *NOISE),
    "prefix-discovery": ("epsilon", "length", "alphabet", "whole_share"),
}
SHORT = {"hadamard": "hadamard-response"}
OPTIONS = tuple(dict.fromkeys(name for taken in SCHEMES.values() for name in taken))


@takes(input_files.TEXT, before="own")
def params(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="File of parameters to show or convert: ours, or google/rappor's .csv."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write parameters; .csv: as google/rappor does."
        ),
    ] = None,
    scheme: Annotated[
        str | None,
        typer.Option(
            help=f"Scheme: {', '.join(SCHEMES)}; published is google/rappor's.",
            show_default="rappor",
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="Name of the variable that clients report.")
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(
            help="Bits of a report.", show_default="128; with --epsilon those it needs, 128 to 4096"
        ),
    ] = None,
    hashes: Annotated[
        int | None,
        typer.Option(
            help="Bits that a value sets in a report.", show_default="2; with --epsilon 1"
        ),
    ] = None,
    cohorts: Annotated[
        int | None, typer.Option(help="Groups of clients, each with its own hashes.")
    ] = None,
    cells: Annotated[
        int | None, typer.Option(help="Cells per cohort; default: those of the smallest error.")
    ] = None,
    f: Annotated[
        float | None,
        typer.Option(
            "--f",
            "-f",
            help="Probability that a bit of a value is replaced by a permanent random one.",
        ),
    ] = None,
    p: Annotated[
        float | None,
        typer.Option("--p", "-p", help="Probability that a 0 is reported as 1.", show_default="0"),
    ] = None,
    q: Annotated[
        float | None,
        typer.Option("--q", help="Probability that a 1 is reported as 1.", show_default="1"),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Epsilon of all reports of one value together, instead of --f."),
    ] = None,
    epsilon_one: Annotated[
        float | None, typer.Option(help="Epsilon of one report, instead of --p and --q.")
    ] = None,
    categories: Annotated[
        Path | None,
        typer.Option(help="File of all possible values, one per line; they are public."),
    ] = None,
    other: Annotated[
        bool | None,
        typer.Option("--other", help="Add one category for all other values."),
    ] = None,
    edges: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Edges of the bins, if values are numbers."),
    ] = None,
    length: Annotated[
        int | None,
        typer.Option(help="Length of the strings to discover; longer ones are cut; default: 6."),
    ] = None,
    alphabet: Annotated[
        str | None,
        typer.Option(
            help="Letters to discover; all others count as one more letter; default: a to z."
        ),
    ] = None,
    whole_share: Annotated[
        float | None,
        typer.Option(help="Fraction of clients that report whole strings; default: 0.33."),
    ] = None,
    column: values.Column = None,
    own: Annotated[
        bool | None,
        typer.Option("--own", help="Read a .csv as our own scheme, of any number of bits."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make parameters for clients and server, or show them.

    The same file goes to every client and to the server: reports name it by its fingerprint.
    """
    from sfumato.cli import printing

    if output is not None:
        check_output(output, force, file, categories)
    options = context.params
    found = _made(options) if file is None else _converted(file, options)
    document = described(found, output or file, json)
    if output is not None:
        report_files.write_scheme(output, found)
        document |= _missing(output, found)
    printing.document(document, json)
    promise(found, json)


def described(scheme: Any, file: Path | None, as_json: bool) -> dict[str, Any]:
    """What a scheme is and costs."""
    import json

    parameters = json.loads(scheme.to_json())
    for name in ("format", "version", "scheme", "metric", "fingerprint"):
        parameters.pop(name, None)
    for name in ("categories", "edges"):
        if name in parameters and not as_json:
            parameters[name] = f"{len(parameters[name])} of them"
    statement = scheme.statement()
    return {
        **({} if file is None else {"file": str(file)}),
        "kind": "telemetry parameters",
        "scheme": scheme.name,
        "metric": scheme.metric,
        "parameters": parameters,
        "fingerprint": scheme.fingerprint,
        **_costs(scheme, as_json),
        "statement": statement if isinstance(statement, str) else statement.to_dict(),
    }


def _costs(scheme: Any, as_json: bool) -> dict[str, Any]:
    """Epsilons and bytes of a report; of a discovery those of its last group, the largest."""
    one = getattr(scheme, "schemes", [scheme])[-1]
    return {
        "epsilon_permanent": _cost(one.epsilon_permanent, as_json),
        "epsilon_one": _cost(one.epsilon_one, as_json),
        "payload_bytes": one.payload_bytes,
    }


def promise(scheme: Any, as_json: bool) -> None:
    """Print the privacy statement, and a warning on stderr if it guarantees too little."""
    from sfumato.cli import printing

    printing.promise(scheme.statement(), as_json)


def _missing(output: Path, scheme: Any) -> dict[str, str]:
    """What people should know of parameters that were written as google/rappor does."""
    if not report_files.is_csv(output):
        return {}
    own = " Read it back with --own." if scheme.name == "rappor" else ""
    lost = "the metric, categories and edges are not in it"
    return {"note": f"{output} holds only k, h, m, p, q and f: {lost}.{own}"}


def _cost(epsilon: float, as_json: bool) -> float | str:
    return epsilon if as_json or math.isfinite(epsilon) else "infinite: nothing is promised"


def _converted(file: Path, options: dict[str, Any]) -> Any:
    """The scheme of a file; a CSV holds neither its name nor the metric."""
    if not file.exists() and _is_number(file.name):
        raise ValueError(f"{COMMAND}: there is no file {file}; the probability q is --q {file}.")
    csv = file.suffix.lower() == ".csv"
    others = ["scheme", "column", *input_files.TEXT, *OPTIONS]
    _refuse(options, others, "with a file of parameters")
    if not csv:
        _refuse(options, ["metric", "own"], "with a file that states it")
    given = {"own": options["own"], "metric": options["metric"]}
    return report_files.parameters(file, **{k: v for k, v in given.items() if v is not None})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _made(options: dict[str, Any]) -> Any:
    """The scheme that the options describe; what they leave out keeps its default."""
    from sfumato.telemetry import PrefixDiscovery  # and so every scheme is known
    from sfumato.telemetry.schemes.base import known_schemes

    _refuse(options, ["own"], "without a .csv of parameters")
    kind = SHORT.get(options["scheme"], options["scheme"] or "rappor")
    if kind not in SCHEMES:
        named = ", ".join(map(repr, SCHEMES))
        raise ValueError(f"{COMMAND}: --scheme must be one of {named}, not {kind!r}.")
    others = [name for name in OPTIONS if name not in SCHEMES[kind]]
    _refuse(options, others, f"with --scheme {kind}")
    given = {name: options[name] for name in OPTIONS if options[name] is not None}
    given |= _domain(options)
    if options["metric"] is not None:
        given["metric"] = options["metric"]
    if kind == "rappor":
        return _rappor(given)
    wanted = "f" if "f" in SCHEMES[kind] else "epsilon"
    if wanted not in given:
        raise ValueError(f"{COMMAND}: give {option_name(wanted)}, which sets the noise.")
    kinds = {**known_schemes(), PrefixDiscovery.name: PrefixDiscovery}
    return kinds[kind](**given)


def _rappor(given: dict[str, Any]) -> Any:
    from sfumato.errors import ParameterError
    from sfumato.telemetry import Rappor

    permanent, one = given.pop("epsilon", None), given.pop("epsilon_one", None)
    if permanent is None and one is not None:
        raise ValueError(f"{COMMAND}: --epsilon-one goes with --epsilon, that of all reports.")
    if (permanent is None) == ("f" not in given):
        raise ValueError(f"{COMMAND}: give either --epsilon, or --f (and --p and --q).")
    if permanent is None:
        return Rappor(**given)
    _refuse(given, ["p", "q"], "with --epsilon, which chooses them")
    try:
        return Rappor.for_epsilon(permanent, one, **given)
    except ParameterError as error:
        option = {"permanent": "--epsilon", "one": "--epsilon-one"}.get(error.parameter)
        if option is None:
            raise
        raise error.renamed(COMMAND, option) from None


def _domain(options: dict[str, Any]) -> dict[str, Any]:
    """Categories of a file, edges of the command line."""
    found: dict[str, Any] = {}
    if options["categories"] is None:
        _refuse(options, _OF_CATEGORIES, "without --categories")
    else:
        found["categories"] = _categories(options)
    if options["edges"] is not None:
        try:
            found["edges"] = [float(part) for part in options["edges"].split(",")]
        except ValueError:
            raise ValueError(f"{COMMAND}: --edges must be numbers with commas between.") from None
    return found


_OF_CATEGORIES = ("column", *input_files.TEXT)  # options of the file of categories


def _categories(options: dict[str, Any]) -> list[Any]:
    """All values of the file of categories, which are public."""
    file, column = options["categories"], options["column"]
    found = values.listed(file, column, given=input_files.text_format(options))
    if column is not None:
        input_files.announce(file, {"categories": column}, options)
    return found


def _refuse(
    options: dict[str, Any], names: Iterable[str], why: str, command: str = COMMAND
) -> None:
    for name in names:
        if options.get(name) is not None:
            raise ValueError(f"{command}: {option_name(name)} does not go {why}.")


PLAN_COMMAND = "telemetry plan"


@takes(input_files.TEXT, before="longitudinal")
def plan(
    context: typer.Context,
    reports: Annotated[int, typer.Option(help="How many reports are expected.")],
    epsilon: Annotated[float, typer.Option(help="Epsilon of all reports of one value together.")],
    dictionary: Annotated[
        int | None, typer.Option(help="How many values will be looked for.")
    ] = None,
    known: Annotated[
        bool, typer.Option("--known", help="State that no other values can occur.")
    ] = False,
    categories: Annotated[
        Path | None,
        typer.Option(help="File of all values, one per line, instead of --dictionary --known."),
    ] = None,
    column: values.Column = None,
    longitudinal: Annotated[
        bool,
        typer.Option(
            "--longitudinal",
            help="Clients report repeatedly, and their reports must not be identical.",
        ),
    ] = False,
    level: Annotated[
        float, typer.Option(help="Allowed probability of finding any value that nobody has.")
    ] = 0.05,
    metric: Annotated[str, typer.Option(help="Name of the variable that clients report.")] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the recommended parameters."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare schemes at one epsilon.

    It prints the smallest detectable count and the bytes per report.
    """
    from sfumato.cli import printing
    from sfumato.telemetry import plan as planning

    if output is not None:
        check_output(output, force, categories)
    named = _named(context.params)
    found = planning(
        reports,
        epsilon,
        dictionary or len(named or []),
        known=known or named is not None,
        longitudinal=longitudinal,
        level=level,
    )
    if output is not None:
        scheme = _settled(found.recommended, named, metric)
        report_files.write_scheme(output, scheme)
    if json:
        printing.document({**loads(found.to_json()), **_file(output)}, json)
        if output is not None:
            promise(scheme, json)
        return
    printing.rows([_row(row, reports) for row in found.rows], json)
    print(f"Recommended: {found.recommended.name}. {found.why}")
    if output is not None:
        printing.document(described(scheme, output, json), json)
        promise(scheme, json)


def _named(options: dict[str, Any]) -> list[str] | None:
    """The values of a file, where one was given in place of their number."""
    if (options["dictionary"] is None) == (options["categories"] is None):
        raise ValueError(
            f"{PLAN_COMMAND}: give either --dictionary, a number, or --categories, a file."
        )
    if options["categories"] is None:
        _refuse(options, _OF_CATEGORIES, "without --categories", PLAN_COMMAND)
        return None
    return _categories(options)


def _settled(row: Any, named: list[str] | None, metric: str) -> Any:
    """The recommended scheme for these values, which the plan knows by their number only."""
    if row.scheme.domain is None:
        return replace(row.scheme, metric=metric)
    if named is None:
        raise ValueError(
            f"{PLAN_COMMAND}: {row.name} has a cell for every value; give --categories, their "
            "names, in place of --dictionary."
        )
    return replace(row.scheme, categories=tuple(named), metric=metric)


def _file(output: Path | None) -> dict[str, str]:
    return {} if output is None else {"file": str(output)}


def _row(row: Any, reports: int) -> dict[str, Any]:
    """One scheme: the counts that are detected with probability 1/2 and 9/10."""
    blind = math.isinf(row.std_error)
    thresholds = {
        name: "nothing" if fraction >= 1 else f"{fraction * reports:,.0f} ({fraction:.3%})"
        for name, fraction in (("seen half", row.visible), ("seen surely", row.surely_visible))
    }
    return {
        "scheme": row.name,
        "std_error": "too few counts" if blind else f"{row.std_error:,.0f}",
        **thresholds,
        "bytes": row.bytes_per_report,
        "cohorts": row.scheme.cohorts,
        "cells": row.scheme.cells,
    }
