"""`sfumato mine rank`: the nodes of a graph by their links."""

import sys
import time
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli import engines, input_files
from sfumato.cli.mine import files
from sfumato.cli.options import Force, Json, Quiet, option_name, takes

__all__ = ["rank"]

METHODS = ("pagerank", "hits", "trustrank", "simrank")
READING = {
    "format": Annotated[
        str | None, typer.Option(help="Format of the file: edges or table; default: detected.")
    ],
    "source_column": Annotated[
        str | None, typer.Option(help="Name or number, from 0; default: source, or column 0.")
    ],
    "target_column": Annotated[
        str | None, typer.Option(help="Name or number; default: target, or column 1.")
    ],
    "weight_column": Annotated[str | None, typer.Option(help="Column of weights: name or number.")],
    "weighted": Annotated[
        bool, typer.Option("--weighted", help="The third field of a line is a weight.")
    ],
    "self_loops": Annotated[str | None, typer.Option(help="keep (default) or drop.")],
    "multi_edges": Annotated[
        str | None, typer.Option(help="Several equal edges: sum (default), drop or keep.")
    ],
}
NAMES = {"source_column": "source", "target_column": "target", "weight_column": "weight"}
LOCAL = ("format", "weighted", "self_loops", "multi_edges", "on_disk", *input_files.TEXT)
DISK = ("blocks", "memory_limit", "update")


@takes(READING | input_files.TEXT, before="method")
def rank(
    context: typer.Context,
    graph: Annotated[
        Path,
        typer.Argument(help="Edges: SNAP text, also .gz, or a table of any format; - is stdin."),
    ],
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "pagerank",
    teleport: Annotated[
        str | None,
        typer.Option(
            metavar="IDS",
            help="Nodes, with commas between: the topic of pagerank, the trusted nodes of "
            "trustrank, the node of simrank.",
        ),
    ] = None,
    beta: Annotated[float, typer.Option(help="Probability of following a link.")] = 0.85,
    tolerance: Annotated[
        float, typer.Option(help="Stop when an iteration changes the ranks by less than this (L1).")
    ] = 1e-8,
    on_disk: Annotated[
        bool, typer.Option("--on-disk", help="One block of ranks in memory at a time.")
    ] = False,
    blocks: Annotated[
        int | None, typer.Option(help="Blocks of ranks, with --on-disk; default: by memory, or 8.")
    ] = None,
    update: Annotated[
        str | None,
        typer.Option(help="With --on-disk: basic, blocks or stripes; default: stripes."),
    ] = None,
    memory_limit: files.MemoryLimit = None,
    top: files.Top = None,
    figure: Annotated[
        Path | None,
        typer.Option(help="Draw the distribution of scores: .png, .svg or .pdf."),
    ] = None,
    output: files.Output = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Rank the nodes of a graph by its links, the best first.

    With --on-disk the edges are sorted on disk. The bytes that were read are printed beside those
    of the cost model.
    """
    from sfumato.cli import printing
    from sfumato.core.validation import one_of

    given = context.params
    files.check_outputs(output, figure, force, graph)
    given["graph"] = engines.located(context, graph)
    one_of(METHODS).check("mine rank", "--method", method)
    _check(given)
    if not engines.on_spark(context):
        _announce(graph, given)
    begin = time.perf_counter()
    named = input_files.naming_options((*given, *NAMES.values()))
    shown = printing.progress("ranking", "iterations", hidden=quiet or json)
    with named, shown as advance, engines.chosen(context, LOCAL) as engine:
        if engine is not None:
            found, facts = _on_spark(engine, context)
        else:
            found, facts = _on_disk(given, advance) if on_disk else _in_memory(given, advance)
    facts["seconds"] = round(time.perf_counter() - begin, 3)
    table = found.to_arrow()
    if figure is not None:
        _draw(figure, found)
    table = table if top is None else table.slice(0, top)
    if output is None:
        files.print_rows(table, json, top, tuple(table.column_names))
        if on_disk and not json:
            print(str(found.cost), file=sys.stderr)
        return
    files.write(output, table)
    printing.document({"file": str(output), "rows": table.num_rows, **facts}, json)


def _check(given: dict[str, Any]) -> None:
    """Refuse options that have no effect together."""
    if not given["on_disk"]:
        for name in DISK:
            if given[name] is not None:
                raise ValueError(f"{option_name(name)} goes with --on-disk.")
    elif given["method"] != "pagerank" or given["teleport"] is not None:
        raise ValueError("--on-disk ranks by pagerank alone, without --teleport.")
    if given["method"] in ("trustrank", "simrank") and given["teleport"] is None:
        raise ValueError(f"--method {given['method']} needs --teleport IDS.")
    if given["method"] == "hits" and given["teleport"] is not None:
        raise ValueError("--method hits takes no --teleport.")


def _reading(given: dict[str, Any]) -> dict[str, Any]:
    options = {
        NAMES.get(name, name): given[name] for name in READING if given[name] not in (None, False)
    }
    written = vars(input_files.text_format(given))
    return {**options, **{name: written[name] for name in input_files.TEXT}}


def _announce(file: Path, given: dict[str, Any]) -> None:
    """Say which columns are the edges."""
    from sfumato.mine.rank.graph.edge_files import EdgeFile

    options = {n: v for n, v in _reading(given).items() if n not in ("self_loops", "multi_edges")}
    edges = EdgeFile(given["graph"], **options)
    roles = zip(("sources", "targets", "weights"), edges.names, strict=False)
    input_files.announce(file, dict(roles), given)


def _in_memory(given: dict[str, Any], advance: Any) -> tuple[Any, dict[str, Any]]:
    """The table of a method, and what was done."""
    from sfumato.mine import rank

    graph = rank.read_graph(given["graph"], **_reading(given))
    facts = {
        "method": given["method"],
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "self_loops": f"{graph.self_loops} ({graph.policy['self_loops']})",
        "dead_ends": int((graph.out_degrees == 0).sum()),
    }
    found = _ranked(rank, graph, given, advance)
    for name in ("iterations", "residual"):
        if hasattr(found, name):
            facts[name] = getattr(found, name)
    return found, facts


def _on_spark(engine: Any, context: typer.Context) -> tuple[Any, dict[str, Any]]:
    """Ranks of edges in Parquet files."""
    from sfumato.mine.rank import pagerank

    given = context.params
    if given["method"] != "pagerank":
        raise ValueError(
            f"mine rank: --method {given['method']} runs on this machine only; leave --engine out."
        )
    names = {f"{role}_column": given[f"{role}_column"] for role in ("source", "target", "weight")}
    options = {name: value for name, value in names.items() if value is not None}
    options |= {"tolerance": given["tolerance"], "teleport": _ids(given["teleport"])}
    source = engines.address(context, given["graph"])
    found = pagerank(source, given["beta"], engine=engine, **options)
    facts = {"method": "pagerank", "nodes": len(found.nodes), "engine": repr(engine)}
    return found, {**facts, "iterations": found.iterations, "residual": found.residual}


def _ranked(rank: Any, graph: Any, given: dict[str, Any], advance: Any) -> Any:
    ids, method = _ids(given["teleport"], graph), given["method"]
    if method == "pagerank":
        return rank.pagerank(
            graph,
            given["beta"],
            tolerance=given["tolerance"],
            teleport=ids,
            progress=advance,
        )
    if method == "trustrank":
        return rank.trustrank(graph, ids, beta=given["beta"])
    if method == "simrank":
        if ids is None or len(ids) != 1:
            raise ValueError("--teleport must be one node for --method simrank.")
        near = rank.simrank(graph, ids[0], n=given["top"] or 20)
        return rank.Ranks(near.second, near.scores, method="simrank")
    return _Hits(graph, *rank.hits(graph))


class _Hits:
    """Hubs and authorities as a table, the best authorities first."""

    def __init__(self, graph: Any, hubs: Any, authorities: Any) -> None:
        self.nodes, self.hubs, self.scores = graph.nodes, hubs.scores, authorities.scores
        self.method = "authorities"

    def to_arrow(self) -> Any:
        import pyarrow as pa

        columns = {"node": pa.array(self.nodes), "authority": self.scores, "hub": self.hubs}
        return pa.table(columns).sort_by([("authority", "descending")])


def _ids(written: str | None, graph: Any = None) -> Any:
    """The ids of an option, of the kind of the graph's; without it integers if all are."""
    if written is None:
        return None
    words = [word.strip() for word in written.split(",") if word.strip()]
    if graph is None:
        return input_files.typed(words)
    if graph.nodes.dtype == object:
        return words
    try:
        return [int(word) for word in words]
    except ValueError:
        raise ValueError("--teleport must be integers, as the nodes of this graph.") from None


def _on_disk(given: dict[str, Any], advance: Any) -> tuple[Any, dict[str, Any]]:
    from sfumato.mine.rank import pagerank_on_disk

    options = {
        "tolerance": given["tolerance"],
        "blocks": given["blocks"],
        "memory_limit": files.parsed_bytes(given["memory_limit"]),
        "method": given["update"] or "stripes",
        **_reading(given),
    }
    with input_files.naming_options((), method="update"):
        found = pagerank_on_disk(given["graph"], given["beta"], progress=advance, **options)
    cost = found.cost
    return found, {
        "method": found.method,
        "nodes": cost.nodes,
        "edges": cost.edges,
        "iterations": found.iterations,
        "residual": found.residual,
        "blocks": cost.blocks,
        "model": cost.formula,
        "model_bytes": cost.model_bytes,
        "iteration_bytes": round(cost.iteration_bytes),
        "bytes_read": cost.bytes_read,
        "bytes_written": cost.bytes_written,
    }


def _draw(path: Path, found: Any) -> None:
    """Write the distribution of the scores."""
    from sfumato.core.file_format import write_atomic
    from sfumato.mine.rank import plot_ranks

    drawn = plot_ranks(found)
    out = BytesIO()
    drawn.savefig(out, format=path.suffix[1:].lower(), dpi=120)
    write_atomic(path, out.getvalue())
