"""Near-duplicate documents on an engine: band keys are shuffled, then the sets of candidates.

A document travels once per band as its signature, to where all documents with that key of the band
meet. Documents that are in a candidate pair travel once more, as sets of hashes, to where the
documents that are linked with them by candidates meet.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.core.ids import IdIndex, ids_of, kind_of
from sfumato.kernels.mine.similar import band_join, shingles
from sfumato.kernels.sketch.layout import EMPTY
from sfumato.mine.similar.banding import choose_bands
from sfumato.mine.similar.candidates import BandJoin, fewest_matches, keys_of
from sfumato.mine.similar.document_signatures import minima
from sfumato.mine.similar.set_source import TextSets
from sfumato.mine.similar.shingling import Shingling
from sfumato.mine.similar.texts import Texts, offsets

if TYPE_CHECKING:
    from sfumato.engine import Engine, Rows

__all__ = ["DuplicateSearch", "EnginePairs", "Pairs"]

BLOCK = 4 << 20  # bytes of texts, or of signatures, of one batch that travels
EQUAL = "{owner}: the ids of id_column must be distinct; two are equal."
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]  # ids, ids and similarities
Batches = Iterator[pa.RecordBatch]
SETS = pa.schema({"component": pa.int64(), "document": pa.int64(), "hashes": pa.binary()})
SIMILAR = pa.schema({"first": pa.int64(), "second": pa.int64(), "similarity": pa.float64()})


@dataclass(frozen=True)
class DuplicateSearch:
    """Columns and parameters of a search; `bands` of `rows` positions of a signature each."""

    owner: str
    id_column: str
    text_column: str
    shingling: Shingling
    threshold: float
    permutations: int
    bands: int
    rows: int
    least: int

    @classmethod
    def of(
        cls,
        owner: str,
        columns: tuple[str, str],
        shingling: Shingling,
        sizes: tuple[float, int, float],
        exact: bool,
    ) -> "DuplicateSearch":
        """Choose the bands; `sizes` are threshold, permutations and recall."""
        threshold, permutations, recall = sizes
        curve = choose_bands(threshold, permutations, recall=recall)
        least = fewest_matches(threshold, permutations) if exact else threshold * permutations
        bands = curve.bands, curve.rows, int(np.ceil(least))
        return cls(owner, *columns, shingling, threshold, permutations, *bands)

    @property
    def facts(self) -> dict[str, Any]:
        return {"threshold": self.threshold, "bands": self.bands, "rows": self.rows}


class EnginePairs:
    """Similar documents of an engine.

    kind: Arrow type of the ids, int64 or string.
    """

    def __init__(self, engine: "Engine", source: Any, plan: DuplicateSearch) -> None:
        self.plan = plan
        self._documents: Rows = engine.rows(source, [plan.id_column, plan.text_column])
        fold = partial(_kind, plan)
        found = engine.fold(source, fold, lambda a, b: a or b, columns=[plan.id_column])
        self.kind: Any = pa.int64() if found in (None, "integers") else pa.string()

    def estimated(self) -> Iterator[Pairs]:
        """Pairs that share a band, with similarities estimated from their signatures."""
        ids = {"first": self.kind, "second": self.kind}
        keyed = {"key": pa.int64(), "band": pa.int32(), "id": self.kind, "signature": pa.binary()}
        signed = self._documents.map(partial(_signed, self.plan, self.kind), pa.schema(keyed))
        met = signed.shuffle("key").map(
            partial(_candidates, self.plan, self.kind),
            pa.schema({**ids, "similarity": pa.float64()}),
        )
        for batch in met.batches():
            first, second = (ids_of(batch.column(name), name) for name in ("first", "second"))
            yield first, second, batch.column("similarity").to_numpy()

    def exact(self) -> Iterator[Pairs]:
        """Pairs from the threshold up, with the similarities of their sets."""
        found = list(self.estimated())
        if not found:
            return
        ends = [np.concatenate(each) for each in list(zip(*found, strict=True))[:2]]
        ids, at = np.unique(np.concatenate(ends), return_inverse=True)
        first, second = at[: ends[0].size], at[ends[0].size :]
        components = np.arange(ids.size)
        band_join.union(first, second, components)
        sets = self._documents.map(partial(_sets, self.plan, IdIndex(ids), components), SETS)
        verify = partial(_verified, self.plan, components, first, second)
        for batch in sets.shuffle("component").map(verify, SIMILAR).batches():
            left, right, similar = (each.to_numpy() for each in batch.columns)
            yield ids[left], ids[right], similar


def _kind(plan: DuplicateSearch, batches: Batches) -> str | None:
    """The kind of the ids of a partition, by its first rows; None without any."""
    for batch in batches:
        if batch.num_rows:
            return str(kind_of(ids_of(batch.column(plan.id_column), plan.id_column)))
    return None


def _signed(plan: DuplicateSearch, kind: pa.DataType, batches: Batches) -> Batches:
    """One row for each band of each document that has a shingle."""
    step = max(1, BLOCK // (4 * plan.permutations))
    for whole in batches:
        for start in range(0, whole.num_rows, step):
            batch = whole.slice(start, step)
            texts = Texts(plan.owner, batch.column(plan.text_column))
            signatures = minima(TextSets(texts, plan.shingling), plan.permutations)
            present = ~(signatures == EMPTY).all(axis=1)
            signatures = signatures[present]
            ids = pa.array(ids_of(batch.column(plan.id_column), plan.id_column)[present], kind)
            packed = _packed(signatures.ravel(), np.arange(len(ids) + 1) * plan.permutations)
            keys = keys_of(signatures, plan.bands, plan.rows).view(np.int64)
            for band in range(plan.bands if len(ids) else 0):
                number = pa.array(np.full(len(ids), band, np.int32))
                yield pa.RecordBatch.from_arrays(
                    [pa.array(keys[:, band]), number, ids, packed],
                    ["key", "band", "id", "signature"],
                )


def _packed(values: np.ndarray, ends: np.ndarray) -> pa.Array:
    """Runs of values as the bytes of one row each."""
    bounds = (ends * values.itemsize).astype(np.int32)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), ends.size - 1, buffers)


def _unpacked(columns: list[pa.Array], kind: type) -> tuple[np.ndarray, np.ndarray]:
    """The values of all rows, and where those of each row end."""
    parts: list[np.ndarray] = [np.empty(0, kind)]
    sizes = [np.zeros(1, np.int64)]
    for column in columns:
        wide = column.cast(pa.large_binary())
        ends = offsets(wide)
        data = wide.buffers()[2]
        if data is not None:
            parts.append(np.frombuffer(data.slice(ends[0], ends[-1] - ends[0]), kind))
        sizes.append(np.diff(ends) // np.dtype(kind).itemsize)
    return np.concatenate(parts), np.cumsum(np.concatenate(sizes))


def _candidates(plan: DuplicateSearch, kind: pa.DataType, batches: Batches) -> Batches:
    """Pairs of a partition that share a key of a band, each in the first band that it shares."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    ids = np.concatenate([ids_of(batch.column("id"), "id") for batch in held])
    bands = np.concatenate([batch.column("band").to_numpy() for batch in held])
    values, _ = _unpacked([batch.column("signature") for batch in held], np.uint32)
    signatures = values.reshape(-1, plan.permutations)
    keys = keys_of(signatures, plan.bands, plan.rows)
    join = BandJoin(keys, np.arange(ids.size), signatures, plan.least)
    for band in np.unique(bands).tolist():
        for left, right in join.band(band, np.flatnonzero(bands == band)):
            similar = (signatures[left] == signatures[right]).mean(axis=1)
            first, second = _ascending(plan, ids[left], ids[right])
            yield pa.RecordBatch.from_arrays(
                [pa.array(first, kind), pa.array(second, kind), pa.array(similar)],
                ["first", "second", "similarity"],
            )


def _ascending(
    plan: DuplicateSearch, left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The smaller and the larger id of each pair; refuse equal ones."""
    if (left == right).any():
        raise ValueError(EQUAL.format(owner=plan.owner))
    swapped = left > right
    return np.where(swapped, right, left), np.where(swapped, left, right)


def _sets(
    plan: DuplicateSearch, index: IdIndex, components: np.ndarray, batches: Batches
) -> Batches:
    """The sets of the documents of candidate pairs."""
    for batch in batches:
        at = index.positions(ids_of(batch.column(plan.id_column), plan.id_column))
        chosen = batch.column(plan.text_column).filter(pa.array(at >= 0))
        at = at[at >= 0]
        for row, chunk in Texts(plan.owner, chosen).blocks(BLOCK):
            sets = TextSets(Texts(plan.owner, chunk), plan.shingling)
            hashes, ends = sets.members(np.arange(len(chunk)))
            documents = at[row : row + len(chunk)]
            columns = [pa.array(components[documents]), pa.array(documents)]
            packed = _packed(hashes[: ends[-1]], ends)
            yield pa.RecordBatch.from_arrays([*columns, packed], schema=SETS)


def _verified(
    plan: DuplicateSearch,
    components: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    batches: Batches,
) -> Batches:
    """The similar ones of the candidate pairs whose documents are in a partition."""
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    documents = np.concatenate([batch.column("document").to_numpy() for batch in held])
    members, bounds = _unpacked([batch.column("hashes") for batch in held], np.uint64)
    if np.unique(documents).size < documents.size:
        raise ValueError(EQUAL.format(owner=plan.owner))
    here = np.zeros(components.size, bool)
    here[documents] = True
    left, right = first[here[first]], second[here[first]]
    place = np.empty(components.size, np.int64)
    place[documents] = np.arange(documents.size)
    a, b = place[left], place[right]
    shared = np.empty(left.size, np.int64)
    shingles.overlaps(members, bounds, a, b, shared)
    sizes = np.diff(bounds)
    similar = shared / (sizes[a] + sizes[b] - shared)
    passed = similar >= plan.threshold
    columns = [pa.array(each[passed]) for each in (left, right, similar)]
    yield pa.RecordBatch.from_arrays(columns, schema=SIMILAR)
