"""PageRank of graphs larger than memory, with the bytes really read beside the I/O model."""

import os
import tempfile
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from sfumato.core.tables import Page
from sfumato.core.validation import integer, optional
from sfumato.errors import FormatError, ParameterError
from sfumato.kernels.mine.graphs import edge_stripes as kernels
from sfumato.mine.rank.graph.graph import Graph
from sfumato.mine.rank.page_rank.disk_graph import (
    BLOCKS,
    BUFFERS,
    HEADER,
    METHODS,
    SOURCES,
    WORDS,
    DiskGraph,
)
from sfumato.mine.rank.page_rank.page_rank import BETA, MAX_ITER, TOLERANCE, Progress
from sfumato.mine.rank.page_rank.ranks import Ranks

__all__ = ["DiskCost", "DiskRanks", "pagerank_on_disk"]

OWNER = "pagerank_on_disk"
LIMIT = optional(integer(1))


@dataclass(frozen=True)
class DiskCost(Page):
    """Bytes of an iteration of PageRank on disk: what the model says, and what was counted.

    Parameters
    ----------
    nodes : int
        Number of nodes.
    edges : int
        Number of edges.
    blocks : int, default=1
        Number k of blocks of the rank vector.
    method : {"basic", "blocks", "stripes"}, default="basic"
        The update.
    repeated : int, default=0
        How often an out-degree is stored in more stripes than one.
    iterations : int, default=0
        Number of iterations that were counted.
    bytes_read : int, default=0
        Bytes that they read.
    bytes_written : int, default=0
        Bytes that they wrote.

    Notes
    -----
    **Guarantee.** Counted are all bytes of the edges, the ranks and the bits of dead ends that were
    requested from the operating system, by files without buffers of their own.

    In the model |r| is 8 bytes per node and |M| 4 bytes per edge and node: 2 |r| + |M| for
    "basic", k |M| + (k + 1) |r| for "blocks", |M| (1 + e) + (k + 1) |r| for "stripes", where e |M|
    is 4 bytes for each repeated out-degree. Beyond the model, one more |r| is read for the
    residual, and a bit per node and chunk names the sources.

    Examples
    --------
    >>> DiskCost(10**9, 10**10).matrix_bytes  # the course: 10 edges for each of 10**9 nodes
    44000000000
    """

    nodes: int
    edges: int
    blocks: int = 1
    method: str = "basic"
    repeated: int = 0
    iterations: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def matrix_bytes(self) -> int:
        """|M|: an integer of 4 bytes for each edge and each node."""
        return 4 * (self.edges + self.nodes)

    @property
    def rank_bytes(self) -> int:
        """|r|: a float of 8 bytes for each node."""
        return 8 * self.nodes

    @property
    def model_bytes(self) -> int:
        """Bytes of an iteration by the model of the course."""
        k, matrix = self.blocks, self.matrix_bytes
        scans = matrix + 4 * self.repeated if self.method == "stripes" else k * matrix
        return scans + (k + 1) * self.rank_bytes

    @property
    def iteration_bytes(self) -> float:
        """Bytes that an iteration really read and wrote, on average."""
        return (self.bytes_read + self.bytes_written) / max(self.iterations, 1)

    @property
    def formula(self) -> str:
        """The model as a formula."""
        k = self.blocks
        e = 4 * self.repeated / self.matrix_bytes if self.matrix_bytes else 0.0
        return {
            "basic": "2|r| + |M|",
            "blocks": f"k|M| + (k+1)|r|, k = {k}",
            "stripes": f"|M|(1+e) + (k+1)|r|, k = {k}, e = {e:.3f}",
        }[self.method]

    def _facts(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "|r|": f"{self.rank_bytes:,} bytes",
            "|M|": f"{self.matrix_bytes:,} bytes",
            "model": f"{self.formula} = {self.model_bytes:,} bytes per iteration",
            "counted": f"{self.iteration_bytes:,.0f} bytes per iteration",
            "counted / model": round(self.iteration_bytes / max(self.model_bytes, 1), 4),
            "iterations": self.iterations,
        }

    def __str__(self) -> str:
        return "\n".join(f"{name:16}{value}" for name, value in self._facts().items())


class DiskRanks(Ranks):
    """Ranks whose scores stay in a file, with the cost of computing them.

    Parameters
    ----------
    graph : DiskGraph
        The graph, whose ids are read when they are first used.
    scores : ndarray of shape (n_nodes,)
        The scores, mapped into memory.
    cost : DiskCost
        Model and bytes.
    nodes : ndarray or None, default=None
        Ids, if they are known.
    **about : object
        `iterations`, `residual` and `converged` as in `Ranks`.

    Attributes
    ----------
    cost : DiskCost
        As given.

    Examples
    --------
    >>> ranks = pagerank_on_disk(Graph(range(20), [0] * 19 + [1]), blocks=2)
    >>> ranks.top(2)[0].tolist(), ranks.cost.formula
    ([0, 1], '|M|(1+e) + (k+1)|r|, k = 2, e = 0.000')
    """

    def __init__(
        self,
        graph: DiskGraph,
        scores: np.ndarray,
        cost: DiskCost,
        *,
        nodes: np.ndarray | None = None,
        **about: Any,
    ) -> None:
        self._graph = graph
        if nodes is not None:
            self.__dict__["nodes"] = nodes
        self.cost: DiskCost
        self.scores, self.cost, self.method = scores, cost, f"pagerank on disk, {cost.method}"
        self.iterations, self.residual = about["iterations"], about["residual"]
        self.converged: bool = about["converged"]

    @cached_property
    def nodes(self) -> np.ndarray:  # type: ignore[override]
        """Ids by position, read when first used."""
        return self._graph.nodes()


def pagerank_on_disk(
    source: DiskGraph | Graph | str | os.PathLike[str],
    beta: float = 0.85,
    *,
    tolerance: float = 1e-8,
    blocks: int | None = None,
    memory_limit: int | None = None,
    method: str = "stripes",
    self_loops: str = "keep",
    multi_edges: str = "sum",
    folder: str | os.PathLike[str] | None = None,
    max_iter: int = 1000,
    progress: Progress | None = None,
    **reading: Any,
) -> DiskRanks:
    """Rank the nodes of a graph that does not fit in memory, one block of ranks at a time.

    Parameters
    ----------
    source : DiskGraph, Graph or path_like
        A graph on disk, or what `DiskGraph.write` accepts: a graph without weights, or a file of
        edges.
    beta : float, default=0.85
        As in `pagerank`.
    tolerance : float, default=1e-08
        As in `pagerank`.
    blocks : int or None, default=None
        Number of blocks of the rank vector, 1 to 4096; None for as many as `memory_limit` needs,
        or 8. A graph on disk has its own number.
    memory_limit : int or None, default=None
        Bytes for a block and the buffers, which take 2.1 MB; a file of edges is sorted in as
        many, but at least 64 MiB.
    method : {"basic", "blocks", "stripes"}, default="stripes"
        "basic" has all new ranks in memory; "blocks" scans all edges for each block of them;
        "stripes" only those that end in it. A graph on disk has its own.
    self_loops : {"keep", "drop"}, default="keep"
        As in `Graph`, for a file.
    multi_edges : {"sum", "drop", "keep"}, default="sum"
        As in `Graph`, for a file.
    folder : path_like or None, default=None
        Where to write the graph, to be used again; None for a temporary folder.
    max_iter : int, default=1000
        As in `pagerank`.
    progress : callable or None, default=None
        As in `pagerank`.
    **reading : object
        Options of `read_graph` for a file: `format`, `source`, `target`, `text`.

    Returns
    -------
    DiskRanks
        The ranks, and their `cost`.

    Warns
    -----
    RuntimeWarning
        The tolerance was not reached in `max_iter` iterations.

    Notes
    -----
    **Guarantee.** The ranks are those of `pagerank`: the same map, the same plain L1 residual, in
    float64. Memory during the iterations: one block of new ranks and 2.1 MB, whatever the graph.

    References
    ----------
    Haveliwala (1999), Efficient computation of PageRank.

    Examples
    --------
    >>> graph = Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "m"])
    >>> ranks = pagerank_on_disk(graph, 0.8, blocks=3, tolerance=1e-12)
    >>> (33 * ranks.score(["y", "a", "m"])).round(9).tolist()
    [7.0, 5.0, 21.0]
    """
    checked = (
        BETA.check(OWNER, "beta", beta),
        TOLERANCE.check(OWNER, "tolerance", tolerance),
        MAX_ITER.check(OWNER, "max_iter", max_iter),
    )
    METHODS.check(OWNER, "method", method)
    limit = LIMIT.check(OWNER, "memory_limit", memory_limit)
    wanted = optional(BLOCKS).check(OWNER, "blocks", blocks)
    with ExitStack() as stack:
        if not isinstance(source, DiskGraph):
            place = folder
            if place is None:
                place = stack.enter_context(tempfile.TemporaryDirectory())
            options = {"method": method, "self_loops": self_loops, "multi_edges": multi_edges}
            source = DiskGraph.write(
                source, place, blocks=wanted, memory_limit=limit, **options, **reading
            )
        if not source.n_nodes:
            raise ParameterError.of(
                OWNER, "source", "must have a node: no rank is defined without."
            )
        _check_limit(source, limit)
        scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=source.folder))
        found = _Run(source, Path(scratch), *checked, progress).run()
        if folder is None:
            _ = found.nodes  # read before the folder goes
        return found


def _check_limit(graph: DiskGraph, limit: int | None) -> None:
    needed = 8 * min(graph.block_size, graph.n_nodes) + BUFFERS
    if limit is not None and needed > limit:
        raise ParameterError.of(
            OWNER, "memory_limit", f"must be at least {needed} for {graph.blocks} blocks: "
            f"{limit} is too little; take more blocks.",
        )  # fmt: skip


class _Run:
    """An iteration over the files of a graph, which counts the bytes."""

    def __init__(
        self,
        graph: DiskGraph,
        scratch: Path,
        beta: float,
        tolerance: float,
        max_iter: int,
        progress: Progress | None,
    ) -> None:
        self.graph, self.scratch, self.beta = graph, scratch, beta
        self.tolerance, self.max_iter, self.progress = tolerance, max_iter, progress
        self.read = self.written = 0
        self.words, self.bits = np.empty(WORDS, HEADER), np.empty(SOURCES // 8, np.uint8)
        self.ranks, self.pieces = np.empty(SOURCES), np.empty(SOURCES)
        size = min(graph.block_size, graph.n_nodes)
        self.block = np.empty(graph.n_nodes if graph.method == "basic" else size)

    def run(self) -> DiskRanks:
        old, new = self.scratch / "ranks-0.bin", self.scratch / "ranks-1.bin"
        alive = self._start(old)
        self.read = self.written = 0
        iterations, residual = 0, np.inf
        while residual >= self.tolerance and iterations < self.max_iter:
            residual, alive = self._iterate(old, new, 1 - self.beta * alive)
            old, new = new, old
            iterations += 1
            if self.progress is not None:
                self.progress(iterations, None)
        converged = residual < self.tolerance
        if not converged:
            warnings.warn(
                f"{OWNER}: the change is {residual:.3g} after {iterations} iterations, which is "
                "not below the tolerance; raise max_iter or the tolerance.",
                RuntimeWarning,
                stacklevel=3,
            )
        g = self.graph
        sizes = g.n_nodes, g.n_edges, g.blocks, g.method, g.repeated
        cost = DiskCost(*sizes, iterations, self.read, self.written)
        # The file has no name any more when its folder goes; what is mapped stays.
        scores = np.memmap(old, np.float64, "r", shape=(g.n_nodes,))
        about: dict[str, Any] = {"iterations": iterations, "residual": residual}
        return DiskRanks(g, scores, cost, converged=converged, **about)

    def _start(self, path: Path) -> float:
        """Write ranks of 1 / N; the sum of those of nodes with out-edges."""
        n, live = self.graph.n_nodes, 0
        self.ranks[:] = 1 / n
        with path.open("wb", buffering=0) as out, self._opened("live.bin") as bits:
            for first in range(0, n, SOURCES):
                size = min(SOURCES, n - first)
                out.write(self.ranks[:size].tobytes())
                flags = self._filled(bits, self.bits[: (size + 7) // 8])
                live += int(np.unpackbits(flags, bitorder="little")[:size].sum())
        return live / n

    def _iterate(self, old: Path, new: Path, leaked: float) -> tuple[float, float]:
        """One step of the power iteration: the residual, and the live part of the new ranks."""
        n, size = self.graph.n_nodes, self.block.size
        residual = alive = 0.0
        files = new.open("wb", buffering=0), self._opened(old), self._opened("live.bin")
        with files[0] as out, files[1] as ranks, files[2] as live:
            for number, low in enumerate(range(0, n, size)):
                block = self.block[: min(size, n - low)]
                block[:] = 0
                self._pull(number, ranks, block, low)
                change, part = self._finish(ranks, live, block, low, leaked / n)
                residual, alive = residual + change, alive + part
                self.written += out.write(block.data)
        return residual, alive

    def _pull(self, number: int, ranks: IO[bytes], block: np.ndarray, low: int) -> None:
        """Add what all sources contribute to a block."""
        header = np.empty(3, HEADER)
        with self._opened(self.graph.stripe(number)) as stripe:
            while self._more(stripe, header):
                first, sources, size = (int(each) for each in header)
                fits = 0 < sources <= SOURCES and 0 < size <= WORDS and first >= 0
                if not fits or first + sources > self.graph.n_nodes:
                    raise FormatError(f"{OWNER}: {stripe.name} is damaged.")
                bits = self._filled(stripe, self.bits[: (sources + 7) // 8])
                words = self._filled(stripe, self.words[:size])
                ranks.seek(8 * first)
                known = self._filled(ranks, self.ranks[:sources])
                if not kernels.scatter(bits, words, known, self.beta, low, block):
                    raise FormatError(f"{OWNER}: {stripe.name} is damaged.")

    def _finish(
        self, ranks: IO[bytes], live: IO[bytes], block: np.ndarray, low: int, constant: float
    ) -> tuple[float, float]:
        """Insert what leaked into a block, and compare it with its old ranks."""
        change = alive = 0.0
        ranks.seek(8 * low)
        live.seek(low // 8)
        for at in range(0, block.size, SOURCES):
            part = block[at : at + SOURCES]
            known = self._filled(ranks, self.pieces[: part.size])
            bits = self._filled(live, self.bits[: (part.size + 7) // 8])
            moved, lived = kernels.finish(part, known, bits, constant)
            change, alive = change + moved, alive + lived
        return change, alive

    def _opened(self, path: str | Path) -> Any:
        return (self.graph.folder / path).open("rb", buffering=0)

    def _more(self, file: IO[bytes], out: np.ndarray) -> bool:
        """Fill an array, or find that the file is at its end."""
        got = file.readinto(out.data.cast("B"))  # type: ignore[attr-defined]
        self.read += got
        if got == 0:
            return False
        if got < out.nbytes:
            raise FormatError(f"{OWNER}: {file.name} is cut off.")
        return True

    def _filled(self, file: IO[bytes], out: np.ndarray) -> np.ndarray:
        if out.size and not self._more(file, out):
            raise FormatError(f"{OWNER}: {file.name} is cut off.")
        return out
