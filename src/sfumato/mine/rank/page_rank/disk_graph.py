"""Link matrices on disk in the course's sparse encoding, whole or in stripes of destinations."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.tables import described
from sfumato.core.validation import integer, one_of, optional
from sfumato.errors import FormatError, ParameterError
from sfumato.kernels.mine.graphs import edge_stripes as kernels
from sfumato.mine.rank.graph.edge_files import EdgeFile
from sfumato.mine.rank.graph.edge_tables import sorted_edges
from sfumato.mine.rank.graph.graph import MULTI_EDGES, SELF_LOOPS, Graph

__all__ = ["BLOCKS", "BUFFERS", "HEADER", "METHODS", "SOURCES", "WORDS", "DiskGraph"]

OWNER = "DiskGraph"
BLOCKS = integer(1, 4096)
METHODS = one_of(("basic", "blocks", "stripes"))
SOURCES, WORDS = 1 << 16, 1 << 18  # of a chunk: 512 KiB of ranks, 1 MiB of words
BUFFERS = 4 * WORDS + 16 * SOURCES + SOURCES // 8  # words, two pieces of ranks, bits
SORTING = 1 << 30  # bytes, unless limited
HEADER = np.dtype("<i4")
META = "graph.json"
VERSION = 1


@dataclass(frozen=True)
class _Facts:
    """What the file graph.json has."""

    version: int
    n_nodes: int
    n_edges: int
    method: str
    blocks: int
    block_size: int
    records: int
    sources: int


class DiskGraph:
    """A graph in a folder, for ranks that are computed block by block.

    Parameters
    ----------
    folder : path_like
        A folder that `DiskGraph.write` has written.

    Attributes
    ----------
    folder : Path
        The folder.
    n_nodes, n_edges : int
        Sizes; of parallel edges each one counts.
    method : str
        "basic", "blocks" or "stripes".
    blocks : int
        Number of blocks of the rank vector.

    Notes
    -----
    **Guarantee.** Edges are encoded as in the course: for each source its out-degree and its
    destinations, 4 bytes each, and sources as one bit per node of a chunk. With "stripes" every
    block of destinations has a file; an out-degree is repeated in each that needs it. The order of
    nodes is that of `Graph`: sorted ids.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> graph = DiskGraph.write(Graph([1, 1, 2], [2, 3, 3]), folder.name, blocks=2)
    >>> graph.n_edges, graph.nodes().tolist()
    (3, [1, 2, 3])
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder: Path = Path(folder)
        path = self.folder / META
        if not path.is_file():
            raise FileNotFoundError(f"{OWNER}: {self.folder} has no {META}; write a graph first.")
        try:
            self._facts = _Facts(**json.loads(path.read_text()))
            fits = self._facts.version == VERSION
        except (ValueError, TypeError):
            fits = False
        if not fits:
            raise FormatError(f"{OWNER}: {path} is damaged or of another version.")

    def __repr__(self) -> str:
        sizes = {"n_nodes": self.n_nodes, "n_edges": self.n_edges}
        return described(self, **sizes, method=self.method, blocks=self.blocks)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self._facts.n_nodes

    @property
    def n_edges(self) -> int:
        """Number of edges, each of parallel ones."""
        return self._facts.n_edges

    @property
    def method(self) -> str:
        """The update that the files are for."""
        return self._facts.method

    @property
    def blocks(self) -> int:
        """Number of blocks of the rank vector."""
        return self._facts.blocks

    @property
    def block_size(self) -> int:
        """Number of nodes of a block, a multiple of 8; the last block may have fewer."""
        return self._facts.block_size

    @property
    def repeated(self) -> int:
        """How often an out-degree is stored beyond the first time."""
        return self._facts.records - self._facts.sources

    def nodes(self) -> np.ndarray:
        """Read the ids of all nodes, by position.

        Returns
        -------
        ndarray
            The ids: int64, or objects for texts.
        """
        column = pq.read_table(self.folder / "nodes.parquet").column("id").combine_chunks()
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def stripe(self, block: int) -> Path:
        """Return the file that has the edges to the destinations of a block.

        Parameters
        ----------
        block : int
            Number of the block, from 0.

        Returns
        -------
        Path
            The file; one for all blocks unless the method is "stripes".
        """
        return self.folder / f"stripe-{block if self.method == 'stripes' else 0}.bin"

    @classmethod
    def write(
        cls,
        source: "Graph | str | os.PathLike[str]",
        folder: str | os.PathLike[str],
        *,
        blocks: int | None = None,
        method: str = "stripes",
        self_loops: str = "keep",
        multi_edges: str = "sum",
        memory_limit: int | None = None,
        **reading: Any,
    ) -> "DiskGraph":
        """Write a graph in the encoding of a method.

        Parameters
        ----------
        source : Graph or path_like
            A graph without weights, or a file of edges as of `read_graph`, of any size: it is
            sorted on disk.
        folder : path_like
            Where to write; made if it does not exist, and must not contain a graph yet.
        blocks : int or None, default=None
            Number of blocks of the rank vector, 1 to 4096; None for as many as `memory_limit`
            needs, or 8. There may be fewer, as blocks have a multiple of 8 nodes.
        method : {"basic", "blocks", "stripes"}, default="stripes"
            "basic" has one block; "blocks" scans all edges for each block; "stripes" only those
            that end there.
        self_loops : {"keep", "drop"}, default="keep"
            As in `Graph`; a graph in memory has applied its own policy.
        multi_edges : {"sum", "drop", "keep"}, default="sum"
            As in `Graph`; "sum" and "keep" are the same here.
        memory_limit : int or None, default=None
            Bytes for ranking later: a block and buffers of 2.1 MB. A file of edges is sorted in
            as many, but at least 64 MiB; None for 1 GiB.
        **reading : object
            Options of `read_graph` for a file: `format`, `source`, `target`, `text`.

        Returns
        -------
        DiskGraph
            The graph on disk.
        """
        kind = METHODS.check(OWNER, "method", method)
        count = optional(BLOCKS).check(OWNER, "blocks", 1 if kind == "basic" else blocks)
        limit = optional(integer(1)).check(OWNER, "memory_limit", memory_limit)
        division = _Division(kind, count, limit)
        policy = (
            SELF_LOOPS.check(OWNER, "self_loops", self_loops),
            MULTI_EDGES.check(OWNER, "multi_edges", multi_edges),
        )
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        if (place / META).exists():
            raise FileExistsError(f"{OWNER}: {place} contains a graph already.")
        if isinstance(source, Graph):
            if source.is_weighted:
                raise ParameterError.of(
                    OWNER, "source", 'must have no weights; take multi_edges="keep" or "drop".'
                )
            _write_graph(source, place, division)
        else:
            file = EdgeFile(source, **reading)
            _write_file(file, place, division, policy)
        return cls(place)


@dataclass(frozen=True)
class _Division:
    """How ranks are divided: the method, and the number of blocks or the memory for one."""

    method: str
    blocks: int | None
    memory_limit: int | None

    def block_size(self, n: int) -> int:
        """Number of nodes of a block of n nodes, a multiple of 8: whole bytes of bits."""
        count = 8 if self.blocks is None else self.blocks
        if self.blocks is None and self.memory_limit is not None:
            room = self.memory_limit - BUFFERS
            if room < 64:
                least = BUFFERS + 64
                raise ParameterError.of(
                    OWNER, "memory_limit", f"must be from {least} up, not {self.memory_limit}."
                )
            return min(room // 64 * 8, max(8, n + 7 & ~7))
        return max(8, -(-n // count) + 7 & ~7)


class _Writer:
    """Chunks of edges, stripe by stripe, each sorted by source."""

    def __init__(self, folder: Path, division: _Division, n_nodes: int) -> None:
        self.folder, self.method, self.n_nodes = folder, division.method, n_nodes
        self.block_size = division.block_size(n_nodes)
        self.blocks = max(1, -(-n_nodes // self.block_size))
        self.files = self.blocks if self.method == "stripes" else 1
        self.stripe_size = self.block_size if self.method == "stripes" else max(n_nodes, 1)
        self.records = self.edges = 0
        self.live = np.zeros(n_nodes // 8 + 1, np.uint8)
        for stripe in range(self.files):
            (folder / f"stripe-{stripe}.bin").write_bytes(b"")

    def add(self, stripe: int, begins: np.ndarray, ends: np.ndarray, degrees: np.ndarray) -> None:
        """Append edges to a stripe."""
        bits, words = np.empty(SOURCES // 8, np.uint8), np.empty(WORDS, np.int32)
        at = 0
        with (self.folder / f"stripe-{stripe}.bin").open("ab") as out:
            while at < begins.size:
                sources, records, size, after = kernels.encode(
                    begins, ends, degrees, at, SOURCES, bits, words
                )
                out.write(np.array([begins[at], sources, size], HEADER).tobytes())
                out.write(bits[: (sources + 7) // 8].tobytes())
                out.write(words[:size].astype(HEADER, copy=False).tobytes())
                self.records += records
                at = after
        self.edges += begins.size
        live = begins[np.flatnonzero(np.diff(begins, prepend=-1))]
        np.bitwise_or.at(self.live, live >> 3, (1 << (live & 7)).astype(np.uint8))

    def close(self) -> None:
        """Write what is known at the end; the graph exists from then on."""
        (self.folder / "live.bin").write_bytes(self.live.tobytes())
        sources = int(np.unpackbits(self.live).sum())
        facts = _Facts(
            VERSION,
            self.n_nodes,
            self.edges,
            self.method,
            self.blocks,
            self.block_size,
            self.records,
            sources,
        )
        part = self.folder / f"{META}.part"
        part.write_text(json.dumps(asdict(facts)))
        part.replace(self.folder / META)


def _write_graph(graph: Graph, folder: Path, division: _Division) -> None:
    ids = pa.array(graph.nodes, pa.large_string() if graph.nodes.dtype == object else pa.int64())
    pq.write_table(pa.table({"id": ids}), folder / "nodes.parquet")
    writer = _Writer(folder, division, graph.n_nodes)
    begins = np.repeat(np.arange(graph.n_nodes, dtype=np.int32), graph.out_degrees)
    degrees = graph.out_degrees.astype(np.int32)
    for stripe in range(writer.files):
        low = stripe * writer.stripe_size
        chosen = (graph.targets >= low) & (graph.targets < low + writer.stripe_size)
        sources = begins[chosen]
        writer.add(stripe, sources, graph.targets[chosen], degrees[sources])
    writer.close()


def _write_file(file: EdgeFile, folder: Path, division: _Division, policy: tuple[str, str]) -> None:
    if file.has_weights:
        raise ParameterError.of(OWNER, "weight", "must be None: there are no weights on disk.")
    scratch = folder / "sorting"
    scratch.mkdir(exist_ok=True)
    try:
        with sorted_edges(file, scratch, *policy, division.memory_limit or SORTING) as edges:
            edges.write_nodes(folder / "nodes.parquet")
            writer = _Writer(folder, division, edges.n_nodes)
            for batch in edges.read(writer.stripe_size, WORDS // 2):
                for stripe, part in _by_stripe(batch):
                    writer.add(stripe, *part)
            writer.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _by_stripe(batch: pa.RecordBatch) -> Iterator[tuple[int, list[np.ndarray]]]:
    """The rows of each stripe: sources, destinations, out-degrees."""
    stripes, *columns = (np.asarray(column) for column in batch.columns)
    cuts = np.concatenate([[0], np.flatnonzero(np.diff(stripes)) + 1, [stripes.size]])
    for begin, end in pairwise(cuts):
        if end > begin:
            yield int(stripes[begin]), [each[begin:end].astype(np.int32) for each in columns]
