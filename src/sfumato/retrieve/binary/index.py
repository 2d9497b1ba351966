"""BinaryIndex: nearest neighbours by cosine, inner product or distance on binary codes."""

import os
import threading
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Ids, Matrix
from sfumato.core.validation import flag, fraction, integer, one_of, optional
from sfumato.errors import ParameterError
from sfumato.retrieve.binary.partition import GROWTH, CellPartition, cells_for
from sfumato.retrieve.binary.search import Probed, SearchPlan, check_answers, padding, search
from sfumato.retrieve.binary.store import (
    NOTHING,
    RowWriter,
    StoredRows,
    allowed_bits,
    check_distinct,
    check_known,
    check_new,
)
from sfumato.retrieve.binary.training import BLOCK, Fitted, encoder_for, learn_cells
from sfumato.retrieve.encoders.base import CodeEncoder
from sfumato.retrieve.file_format import Source
from sfumato.retrieve.metric import METRIC, checked_matrix, is_vector
from sfumato.retrieve.row_ids import RowIds
from sfumato.retrieve.serialization import restored, save
from sfumato.sketch.base import SEED

__all__ = ["BinaryIndex"]

OWNER = "BinaryIndex"
BITS = integer(1, 2**16)
COUNT = integer(1)
SOME = optional(COUNT)
CELLS = integer(1, 2**20)
PARAMETERS = ("bits", "encoder", "metric", "keep_vectors", "seed")
RERANK = optional(one_of(("asymmetric", "exact")))
SCAN = optional(one_of(("hamming", "asymmetric")))


class _Now(NamedTuple):
    """State once the encoder is fitted; readers take the snapshot `rows.stored` once."""

    fitted: Fitted
    rows: RowWriter
    partition: CellPartition | None
    ids: RowIds


class BinaryIndex:
    """Nearest-neighbour index of binary codes, scanned for every query or cell by cell.

    A vector takes ``bits / 8`` bytes, 4 for its factor and 8 for its id; `nbytes_per_vector` gives
    the exact number. A search scans all codes, or those of the cells nearest to the query, for a
    short-list and re-ranks it.

    Parameters
    ----------
    bits : int, default=256
        Bits of a code, 1 to 65,536 (4,096 for qoLSH, the default, and for learned codes).
    encoder : str, CodeEncoder or None, default=None
        The encoder: None for qoLSH with 50 flips, centre and factor; the name of an encoder
        ("project_and_sign", "tight_frame", "anti_sparse", "optimal", "qolsh" or "learned") with its
        own defaults, of which all but "learned" get a centre and the factor "nearest" for cosines
        and distances; or a `CodeEncoder`, which then determines the bits, and stays as it is if it
        is fitted. "learned" has the best recall once it is fitted to thousands of rows.
    metric : {"cosine", "inner", "euclidean"}, default="cosine"
        The score. For "cosine" vectors and queries are normalised, and zeros are refused; for
        "inner" and "euclidean" numbers are at most 1e15 in size. Scores of "euclidean" are negated
        distances.
    keep_vectors : bool, default=False
        Whether vectors are stored in float32 for exact scores (normalised for "cosine").
    partitions : str, int or None, default=None
        Cells of vectors near each other, of which a search reads only some. None scans all codes.
        "auto" makes none below 20,000 rows and from there on 2**k, nearest to 1.45 sqrt(rows) on
        the logarithmic scale: 256 for 60,000 rows, 2,048 for a million. A number makes that many
        once there are as many rows.
    recall : float, default=0.97
        Fraction of the ten nearest neighbours that shall lie in the cells a search reads, between
        0 and 1, both excluded. It determines the default of `probes`.
    seed : int, default=0
        Seed of the directions, of the cells and of the samples to learn from.

    Attributes
    ----------
    encoder_ : CodeEncoder or None
        The fitted encoder, None before there is one.

    Notes
    -----
    **Guarantee.** `search` returns the best of the codes (of those in the cells it reads) by the
    score it names, rows of equal codes in their order. An answer does not depend on other queries
    of its batch. A call that raises changes nothing. Any number of threads may search together and
    while one changes the index: a search sees the index before a change or after it. A removed row
    stays in memory until `compact`.

    Cells are learned by k-means from the rows of an `add`, and anew in the `add` after which there
    are four times as many rows; in between, a row goes to the cell of the nearest centre. Without
    stored vectors, those of earlier rows are what their codes represent. `recall` is measured then
    on rows of the index as queries, in a sample, where neighbours are farther away: queries like
    the rows find at least as many, queries unlike them fewer. Measured on SIFT-like descriptors and
    queries from other images, 0.976 of the neighbours were found for 0.97. Each cell takes blocks
    of 64 rows, so that cells of few rows cost memory; `nbytes` counts it. With cells `ids` are in
    no lasting order.

    With metric "cosine", learned codes are scored by the cosine with what they represent, for which
    each has a factor of 4 bytes, the inverse of its norm. With metric "euclidean" the centre of the
    first rows is subtracted, what remains is encoded as for "inner", and each code has 4 bytes more
    for its squared length, so that scores are the distances from what codes represent.

    With metric "inner", learned codes and codes with a factor represent lengths. Other encoders get
    vectors lifted to a sphere [2]_: y = x - centre becomes (y / m, sqrt(1 - abs(y)^2 / m^2)) with
    the centre and the radius m (of 99 % of the vectors) of the rows passed to `fit`, or else to the
    first `add`. A Hamming scan takes a longer y for one of length m; all other scores use its
    length.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, chapter 5 (binary codes for retrieval).
       https://theses.hal.science/tel-01430156
    .. [2] Neyshabur, Srebro. "On Symmetric and Asymmetric LSHs for Inner Product Search". ICML
       2015, section 4 (lifting). https://arxiv.org/abs/1410.5518

    Examples
    --------
    >>> index = BinaryIndex(bits=64, keep_vectors=True).add([7, 3, 5], [[1, 0], [0, 1], [1, 1]])
    >>> scores, ids = index.search([[2, 1]], k=2, rerank="exact")
    >>> ids, scores.round(3)
    (array([[5, 7]]), array([[0.949, 0.894]], dtype=float32))
    """

    def __init__(
        self,
        bits: int = 256,
        encoder: str | CodeEncoder | None = None,
        *,
        metric: str = "cosine",
        keep_vectors: bool = False,
        partitions: str | int | None = None,
        recall: float = 0.97,
        seed: int = 0,
    ) -> None:
        self.bits = BITS.check(OWNER, "bits", bits)
        self.metric: str = METRIC.check(OWNER, "metric", metric)
        self.keep_vectors: bool = flag.check(OWNER, "keep_vectors", keep_vectors)
        self.seed: int = SEED.check(OWNER, "seed", seed)
        self.partitions = None if partitions is None else _partitions(partitions)
        self.recall: float = fraction.check(OWNER, "recall", recall)
        self.encoder = encoder
        self._made = encoder_for(encoder, self.bits, self.metric, self.seed)
        if isinstance(encoder, CodeEncoder) and self.bits not in (256, encoder.bits):
            raise ValueError(
                f"{OWNER}: bits must be those of the encoder, {encoder.bits}, or left out, not "
                f"{self.bits}."
            )
        self.bits = self._made.bits
        self._writing = threading.Lock()
        self._now: _Now | None = None

    def fit(self, X: Matrix) -> Self:
        """Fit the encoder to up to 100,000 of these rows; add none of them.

        Without it, the first `add` fits the encoder to its own rows.

        Parameters
        ----------
        X : array_like of shape (n, dimension)
            Vectors like those to come. The index must be empty.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            if len(self):
                raise ValueError(f"{OWNER}: fit would void the codes in it; build another index.")
            vectors = checked_matrix(OWNER, self.metric, X, None)
            if not len(vectors):
                raise ValueError(f"{OWNER}: fit needs at least one row.")
            self._now = self._learned(vectors)
        return self

    def add(self, ids: Ids, X: Matrix) -> Self:
        """Add vectors under new ids.

        Parameters
        ----------
        ids : array_like or scalar
            Distinct integers from 0, or texts, that are not in the index. The first ids determine
            which of both.
        X : array_like of shape (n_ids, dimension)
            One vector per id. The first rows determine the dimension, and the encoder learns from
            them, unless it was fitted before.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            now = self._now
            names = RowIds() if now is None else now.ids
            column, new = names.numbered(OWNER, ids)
            vectors = checked_matrix(OWNER, self.metric, X, now and now.fitted.dimension)
            if len(vectors) != column.size:
                raise ValueError(f"{OWNER}: {column.size} ids do not go with {len(vectors)} rows.")
            check_distinct(OWNER, column)
            if now is not None:
                check_new(OWNER, now.rows.find(column)[1])
            if column.size:
                now = self._grown(now or self._learned(vectors), vectors)
                fitted, rows, partition, names = now
                columns = fitted.rows(vectors, partition, keep=self.keep_vectors)
                names.add(new, text=bool(new) or names.kind == "text")
                rows.append(column, *columns)
                self._now = now
        return self

    def remove(self, ids: Ids) -> Self:
        """Remove vectors from the results; their ids may be added again.

        Parameters
        ----------
        ids : array_like or scalar
            Distinct ids of the index.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            column = self._numbers(ids)
            check_distinct(OWNER, column)
            now, rows = self._now, self._rows_of(column)[1]
            if now is not None and column.size:
                now.rows.remove(rows)
        return self

    def compact(self) -> Self:
        """Free the memory of removed rows; the others stay in order.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            if self._now is not None:
                rows = self._now.rows.compacted()
                numbers = rows.stored.ids[rows.stored.rows()]
                self._now = self._now._replace(rows=rows, ids=self._now.ids.of_rows(numbers))
        return self

    def search(
        self,
        Q: Any,
        k: int = 10,
        *,
        shortlist: int | None = None,
        rerank: str | None = "asymmetric",
        scan: str | None = None,
        filter: Any = None,
        probes: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the k best vectors of each query.

        Parameters
        ----------
        Q : array_like of shape (n_queries, dimension) or (dimension,)
            Queries, or one query.
        k : int, default=10
            Number of results per query, at least 1; k times the number of queries is at most 2**28.
        shortlist : int or None, default=None
            Number of vectors that the scan finds for `rerank`; at least k are found. None for 1000
            of all codes; in cells for 100, or 10 for each result if that is more, and three times
            as many by Hamming distance or by the leading bits of learned codes.
        rerank : {"asymmetric", "exact"} or None, default="asymmetric"
            Scores of the short-list: "asymmetric" compares the unquantised query with the codes,
            "exact" with the vectors (needs `keep_vectors`); None returns the scores of the scan.
        scan : {"hamming", "asymmetric"} or None, default=None
            How the short-list is found. "hamming" ranks by the Hamming distance d of codes, with
            score cos(pi d / bits); for lifted vectors that times m norm(q), plus <q, centre>; an
            encoder's own centre is subtracted first. "asymmetric" weighs the bits by the query
            rounded to a few bits, which is slower and finds more. None chooses Hamming if most bits
            are plain signs and a re-rank follows, or if all are; in cells only if all are. For a
            re-rank in cells, "asymmetric" reads only the first words of codes whose atoms have 98 %
            of the squared lengths, which are fewer for learned codes.
        filter : array_like of bool or None, default=None
            Mask over `ids` of those that may be found, as made by `mask`.
        probes : int or None, default=None
            Number of cells to read, at least 1; those whose centres have the largest product with
            the query. None for ``probes_for(recall)``. As many as there are, or an index without
            cells, means a scan of all codes.

        Returns
        -------
        scores : ndarray of shape (n_queries, k) or (k,)
            Cosines, inner products or negated distances, estimated or exact, float32, best first;
            -inf where there are fewer than k vectors.
        ids : ndarray of shape (n_queries, k) or (k,)
            Their ids: int64, -1 where there are fewer; or texts, None where there are fewer.

        Notes
        -----
        The order of the results and the name `k` are those of faiss, whose indexes this one can
        replace; everything else in Sfumato takes `n` and returns (ids, scores).
        """
        k = COUNT.check(OWNER, "k", k)
        shortlist, probes = (
            SOME.check(OWNER, "shortlist", shortlist),
            SOME.check(OWNER, "probes", probes),
        )
        rerank, scan = RERANK.check(OWNER, "rerank", rerank), SCAN.check(OWNER, "scan", scan)
        self._check_exact(rerank)
        now = self._now
        stored = NOTHING if now is None else now.rows.stored
        one = is_vector(Q)
        given = np.asarray(Q)[None] if one else Q
        queries = checked_matrix(OWNER, self.metric, given, now and now.fitted.dimension)
        check_answers(OWNER, len(queries), "k", k)
        alive = allowed_bits(OWNER, filter, stored)
        if now is None:
            scores, ids = padding(len(queries), k)
        else:
            cells = self._probed(now, probes)
            plan = SearchPlan(
                k,
                shortlist,
                now.fitted.scan_for(scan, rerank, cells=cells is not None),
                rerank,
                cells,
            )
            scores, numbers = search(stored, now.fitted, queries, plan, alive)
            ids = now.ids.texts(numbers)
        return (scores[0], ids[0]) if one else (scores, ids)

    def probes_for(self, recall: float) -> int:
        """Return the number of cells that a search must probe for a recall.

        Parameters
        ----------
        recall : float
            Fraction of the ten nearest neighbours that shall lie in the cells, between 0 and 1,
            both excluded.

        Returns
        -------
        int
            Number of cells, for `probes` of `search`; 1 without cells.

        Notes
        -----
        Measured when the cells were learned, on rows of the index as queries. Queries unlike the
        rows need more.
        """
        recall = fraction.check(OWNER, "recall", recall)
        partition = None if self._now is None else self._now.partition
        return 1 if partition is None else partition.probes(recall)

    def vectors(self, ids: Ids) -> np.ndarray:
        """Return the stored vectors of these ids.

        Parameters
        ----------
        ids : array_like or scalar
            Ids of the index, which must have been built with ``keep_vectors=True``.

        Returns
        -------
        ndarray of shape (n_ids, dimension)
            Vectors, float32; normalised for metric "cosine".
        """
        self._check_exact("exact")
        stored, rows = self._rows_of(self._numbers(ids))
        return np.empty((0, 0), np.float32) if stored.vectors is None else stored.vectors[rows]

    def mask(self, ids: Ids) -> np.ndarray:
        """Build a filter for `search` from ids.

        Parameters
        ----------
        ids : array_like or scalar
            Ids that may be found; those not in the index are ignored.

        Returns
        -------
        ndarray of shape (len(index),)
            Mask, True for each of the index's `ids` that is listed. It is valid until the index
            changes.
        """
        column, now = self._numbers(ids), self._now
        if now is None:
            return np.zeros(0, bool)
        stored, rows = now.rows.find(column)
        wanted = np.zeros(stored.count, bool)
        wanted[rows[rows >= 0]] = True
        return np.asarray(wanted[stored.rows()])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index, without removed rows, to a file.

        Parameters
        ----------
        path : path_like
            Path of the file, which appears only once it is complete.
        """
        with self._writing:  # rows that are added would change the last block while it is written
            now = self._now
            if now is None:
                raise ValueError(f"{OWNER}: there is nothing to save yet; call fit or add first.")
            rows = now.rows.compacted()
            save(path, self.parameters, now.fitted, rows, now.partition, now.ids)

    @classmethod
    def load(cls, path: Source, *, check: bool = True) -> Self:
        """Load an index from its file, memory-mapped and never written.

        The file must not be changed in place while the index is in use.

        Parameters
        ----------
        path : Source
            Path of the file, or its bytes, which are copied.
        check : bool, default=True
            Whether the checksums of all arrays are verified, which reads the file once; that of the
            header always is. Always check a file from an untrusted source.

        Returns
        -------
        Self
            The index, which answers exactly as the one that was saved.

        Raises
        ------
        IndexFormatError
            If the file is not a complete, intact index.
        """
        check = flag.check(OWNER, "check", check)
        index, fitted, rows, partition, ids = restored(path, cls, check=check)
        index._now = _Now(fitted, rows, partition, ids)
        return index

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters as plain values; a given encoder is a dict with its kind."""
        given = {name: getattr(self, name) for name in PARAMETERS}
        if self.partitions is not None:
            given |= {name: getattr(self, name) for name in ("partitions", "recall")}
        if isinstance(self.encoder, CodeEncoder):
            given["encoder"] = {"kind": self.encoder.kind, **self.encoder.get_params()}
        return given

    @property
    def dimension(self) -> int:
        """Number of columns of a vector, 0 before the first."""
        return 0 if self._now is None else self._now.fitted.dimension

    @property
    def encoder_(self) -> CodeEncoder | None:
        """Fitted encoder, None before there is one."""
        return None if self._now is None else self._now.fitted.encoder

    @property
    def ids(self) -> np.ndarray:
        """Ids that can be found, in the order of rows; with cells in an order that may change."""
        now = self._now
        if now is None:
            return np.empty(0, np.int64)
        stored = now.rows.stored
        return now.ids.texts(np.asarray(stored.ids[stored.rows()]))

    def __len__(self) -> int:
        return self._stored_rows.living

    def __contains__(self, id: object) -> bool:
        now = self._now
        if now is None or isinstance(id, bool) or isinstance(id, str) != (now.ids.kind == "text"):
            return False
        if not isinstance(id, str) and not (isinstance(id, int | np.integer) and 0 <= id < 2**63):
            return False
        return bool(now.rows.find(now.ids.numbers(OWNER, [id]))[1][0] >= 0)

    @property
    def nbytes(self) -> int:
        """Bytes of codes, factors, ids and stored vectors, including removed rows."""
        return sum(int(array.nbytes) for array in self._stored_rows.arrays().values())

    @property
    def nbytes_per_vector(self) -> int:
        """Bytes of a code, its factor and a stored vector; the id takes 8 more."""
        fitted = None if self._now is None else self._now.fitted
        made = self._made if fitted is None else fitted.encoder
        shifted = self.metric == "euclidean" if fitted is None else fitted.shifted
        vector = 0 if fitted is None or not self.keep_vectors else 4 * fitted.dimension
        # Of `scales`, or of the norms of learned codes for cosines; then of lengths for distances.
        computed = 4 * (made.factor is None and (made.scaled or self.metric == "cosine"))
        computed += 4 * shifted
        return made.nbytes_per_vector + computed + vector

    def __repr__(self) -> str:
        return described(self, **{name: getattr(self, name) for name in PARAMETERS}, size=len(self))

    @property
    def _stored_rows(self) -> StoredRows:
        return NOTHING if self._now is None else self._now.rows.stored

    def _learned(self, vectors: np.ndarray) -> _Now:
        fitted = Fitted.learn(self._made, self.metric, vectors, self.seed)
        return _Now(fitted, fitted.no_rows(keep=self.keep_vectors), None, RowIds())

    def _grown(self, now: _Now, vectors: np.ndarray) -> _Now:
        """State with cells for as many rows more, learned anew where there are too few of them."""
        fitted, rows, partition, ids = now
        total = rows.stored.living + len(vectors)
        if partition is not None and total < GROWTH * partition.rows:
            return now
        cells = cells_for(self.partitions, total)
        if cells == 1:
            return now
        made = learn_cells(fitted, rows, vectors, cells, self.seed)
        living = rows.stored.rows()
        steps = range(0, living.size, BLOCK)
        old = [made.assign(fitted.points_of(rows, living[at : at + BLOCK])) for at in steps]
        cells_of = np.concatenate([np.empty(0, np.int64), *old])
        return _Now(fitted, rows.arranged(living, cells_of, cells), made, ids)

    def _numbers(self, ids: Any) -> np.ndarray:
        """Numbers of ids to be looked up."""
        return (RowIds() if self._now is None else self._now.ids).numbers(OWNER, ids)

    def _rows_of(self, ids: np.ndarray) -> tuple[StoredRows, np.ndarray]:
        """Snapshot and the rows of ids in it; ValueError for an unknown id."""
        now = self._now
        stored, rows = (NOTHING, np.full(ids.size, -1)) if now is None else now.rows.find(ids)
        check_known(OWNER, rows)
        return stored, rows

    def _probed(self, now: _Now, probes: int | None) -> Probed | None:
        """The cells to probe, None where all codes are scanned."""
        if now.partition is None:
            return None
        probes = now.partition.probes(self.recall) if probes is None else probes
        return None if probes >= len(now.partition) else Probed(now.partition, probes)

    def _check_exact(self, rerank: str | None) -> None:
        if rerank == "exact" and not self.keep_vectors:
            sentence = f"{OWNER}: no vectors are stored; build it with keep_vectors=True."
            raise ParameterError(sentence, owner=OWNER, parameter="keep_vectors")


def _partitions(value: Any) -> Any:
    """Check the parameter: "auto", or a number of cells."""
    return (
        value
        if isinstance(value, str) and value == "auto"
        else CELLS.check(OWNER, "partitions", value)
    )
