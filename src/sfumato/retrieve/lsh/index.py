"""LSH index: a search scores only vectors that share a bucket with the query in some table."""

import os
import threading
from typing import Any, Self

import numpy as np

from sfumato.core.deprecation import renamed_arguments
from sfumato.core.tables import described
from sfumato.core.typing import Ids, Matrix
from sfumato.core.validation import flag, fraction, integer, number, one_of, optional, positive
from sfumato.retrieve.binary import store as known
from sfumato.retrieve.binary.search import check_answers, padding
from sfumato.retrieve.file_format import Source
from sfumato.retrieve.lsh.amplification import bands_and_rows, candidate_probability
from sfumato.retrieve.lsh.hash_families import Hyperplanes, RandomLines, SetMinima
from sfumato.retrieve.lsh.set_signatures import is_set, signatures
from sfumato.retrieve.lsh.store import BandHashes, BandQueries, Tabled, Without, best, candidates
from sfumato.retrieve.metric import Lift, check_vectors, is_vector, matrix
from sfumato.retrieve.row_ids import RowIds
from sfumato.retrieve.serialization import restored_lsh as restored
from sfumato.retrieve.serialization import save_lsh as save
from sfumato.sketch.base import SEED

__all__ = ["LshIndex"]

OWNER = "LshIndex"
LIMITS: dict[str, Any] = {
    "bands": integer(1, 2**12),
    "rows": integer(1, 64),
    "metric": one_of(("cosine", "inner", "euclidean", "jaccard")),
    "probes": integer(1, 2**12),
    "directions": one_of(("random", "super-bit")),
    "width": optional(positive),
    "keep_vectors": flag,
    "seed": SEED,
}
COUNT = integer(1)
MOST_MINIMA = 2**16  # permutations of `MinHash`


class LshIndex:
    """Nearest-neighbour index of locality-sensitive hash tables with banding.

    A search looks up one bucket per table (band) and computes true scores of the vectors found.
    Suited to near neighbours among very many vectors, of which it reads few; `BinaryIndex` scans
    the codes of all vectors instead.

    Parameters
    ----------
    bands : int, default=32
        Number of tables, 1 to 4096.
    rows : int, default=12
        Hashes per key of a table, 1 to 64. Bands times rows times the dimension is at most 2**26;
        for "jaccard" bands times rows is at most 2**16.
    metric : {"cosine", "inner", "euclidean", "jaccard"}, default="cosine"
        The score. "cosine" hashes by the sides of random hyperplanes; zero vectors are refused.
        "inner" does the same for vectors that are centred and lifted to a sphere, where angles
        rank approximately as inner products do; `fit`, or else the first `add`, determines centre
        and radius. "euclidean" hashes by cells of size `width` on random lines; scores are negated
        distances. "jaccard" is for sets, hashed by their minima under bands times rows permutations
        (MinHash); scores are estimated Jaccard similarities.
    probes : int, default=1
        Buckets to look up per table, 1 to 4096: the query's own and those that it missed by the
        least, so that fewer bands reach the same recall. It is 1 for "jaccard".
    directions : {"random", "super-bit"}, default="random"
        Normals of the hyperplanes. "super-bit" makes them orthogonal within each band: fewer far
        vectors are candidates, and a few near ones are so less often than `probability` says.
    width : float or None, default=None
        Cell size in the unit of the distances to be found; required for "euclidean", and None
        otherwise. `suggest_width` computes it from the distances to be found.
    keep_vectors : bool, default=True
        Whether vectors, or the signatures of sets, are stored for scoring; False if only
        `candidates` is used.
    seed : int, default=0
        Seed of all hashes, which are computed when first needed and never stored.

    Notes
    -----
    **Guarantee.** A vector is a candidate of a query if all `rows` hashes agree (AND) in at least
    one of `bands` bands (OR), which has the `probability` of their similarity. Candidates get
    their true scores; a search returns the n best of them, ties in the order of rows. An answer
    does not depend on other queries of its batch. A call that raises changes nothing. Any number
    of threads may search while one changes the index.

    Scores are computed in float32: products and distances of numbers below about 1e-15 may
    underflow. A removed row stays in memory until `compact`.

    **Sets.** With metric "jaccard" every matrix of vectors is a column of sets: a list of sets or
    lists of keys, an Arrow, pandas or polars column of lists, a tuple (keys, offsets) as for
    `MinHash.signatures`, or the signatures themselves: a matrix of uint32 with bands times rows
    columns, made by ``MinHash(bands * rows, seed=seed)``. Keys are of any types, and a repeated key
    counts once. One set alone is passed as a Python set. The score of a pair is the fraction of
    equal minima, which estimates its Jaccard similarity without bias, with a standard deviation of
    at most ``0.5 / sqrt(bands * rows)``; sets themselves are not stored. Two empty sets score 1.

    References
    ----------
    .. [1] Indyk, Motwani. "Approximate Nearest Neighbors: Towards Removing the Curse of
       Dimensionality". STOC 1998. https://doi.org/10.1145/276698.276876
    .. [2] Charikar. "Similarity Estimation Techniques from Rounding Algorithms". STOC 2002.
       https://doi.org/10.1145/509907.509965
    .. [3] Datar, Immorlica, Indyk, Mirrokni. "Locality-Sensitive Hashing Scheme Based on p-Stable
       Distributions". SoCG 2004. https://doi.org/10.1145/997817.997857
    .. [4] Lv, Josephson, Wang, Charikar, Li. "Multi-Probe LSH: Efficient Indexing for
       High-Dimensional Similarity Search". VLDB 2007.
    .. [5] Broder. "On the resemblance and containment of documents". SEQUENCES 1997 (sets).
       https://doi.org/10.1109/SEQUEN.1997.666900
    .. [6] Neyshabur, Srebro. "On Symmetric and Asymmetric LSHs for Inner Product Search". ICML
       2015, section 4 (lifting). https://arxiv.org/abs/1410.5518

    Examples
    --------
    >>> index = LshIndex(bands=8, rows=2).add([7, 3, 5], [[1, 0], [0, 1], [1, 0.1]])
    >>> ids, scores = index.search([[2, 0]], n=2)
    >>> ids, scores.round(3)
    (array([[7, 5]]), array([[1.   , 0.995]], dtype=float32))

    >>> sets = LshIndex(bands=32, rows=2, metric="jaccard")
    >>> sets = sets.add(["ann", "bob"], [["tea", "milk", "rum"], ["beer", "wine"]])
    >>> sets.search({"tea", "milk", "rum"}, n=2)
    (array(['ann', None], dtype=object), array([  1., -inf], dtype=float32))
    """

    bands: int
    rows: int
    metric: str
    probes: int
    directions: str
    width: float | None
    keep_vectors: bool
    seed: int

    def __init__(
        self,
        bands: int = 32,
        rows: int = 12,
        *,
        metric: str = "cosine",
        probes: int = 1,
        directions: str = "random",
        width: float | None = None,
        keep_vectors: bool = True,
        seed: int = 0,
    ) -> None:
        given = bands, rows, metric, probes, directions, width, keep_vectors, seed
        for (name, limit), value in zip(LIMITS.items(), given, strict=True):
            setattr(self, name, limit.check(OWNER, name, value))
        if (self.width is None) == (self.metric == "euclidean"):
            raise ValueError(f"{OWNER}: width must be given for 'euclidean', and for no other.")
        if self.metric == "jaccard":
            self._check_sets()
        self._writing = threading.Lock()
        self._now: Tabled | None = None

    @classmethod
    def from_threshold(
        cls, similar: float, recall: float = 0.95, *, most_bands: int = 64, **options: Any
    ) -> Self:
        """Build the index with the longest keys that reach a recall at a similarity.

        Parameters
        ----------
        similar : float
            Similarity of the least similar vectors to be found, as in `probability`. The
            probability that a hash agrees there must be above 0 and below 1.
        recall : float, default=0.95
            Probability that such a vector is a candidate, between 0 and 1.
        most_bands : int, default=64
            Maximum number of bands, from 1 to 4096.
        **options : object
            Other parameters of the index. Probes increase the recall further.

        Returns
        -------
        Self
            An empty index with as many rows as `most_bands` bands permit.

        Examples
        --------
        >>> index = LshIndex.from_threshold(0.9, recall=0.95)
        >>> index.bands, index.rows, bool(index.probability(0.9) >= 0.95)
        (56, 19, True)
        """
        agree = cls(1, 1, **options).probability(similar)
        recall = fraction.check(OWNER, "recall", recall)
        most_bands = LIMITS["bands"].check(OWNER, "most_bands", most_bands)
        if not 0 < agree < 1:
            raise ValueError(
                f"{OWNER}: similar must let some hashes agree and some not, which {similar!r} does "
                "not; name the least similar vectors that shall be found."
            )
        return cls(*bands_and_rows(agree, recall, most_bands), **options)

    def probability(self, similarity: float) -> float:
        """Compute the probability that a vector is a candidate, without probes.

        Parameters
        ----------
        similarity : float
            A cosine; for "inner" the cosine after lifting; for "euclidean" a distance; a Jaccard
            similarity for "jaccard".

        Returns
        -------
        float
            ``1 - (1 - p**rows)**bands``, where p is the probability that one hash agrees.
        """
        similarity = float(number.check(OWNER, "similarity", similarity))
        if self.metric == "euclidean":
            agree = RandomLines.agree(similarity, float(self.width or 0))
        elif self.metric == "jaccard":
            agree = SetMinima.agree(similarity)
        else:
            agree = Hyperplanes.agree(similarity)
        return candidate_probability(agree, self.bands, self.rows)

    def __len__(self) -> int:
        return 0 if self._now is None else self._now.living

    def __repr__(self) -> str:
        return described(self, **self.parameters, size=len(self))

    @property
    def parameters(self) -> dict[str, Any]:
        """Constructor parameters by name."""
        return {name: getattr(self, name) for name in LIMITS}

    @property
    def ids(self) -> np.ndarray:
        """Ids that can be found, in the order of rows."""
        now = self._now
        return np.empty(0, np.int64) if now is None else now.names.texts(now.ids[now.rows()])

    @property
    def dimension(self) -> int:
        """Number of columns of a vector, or of a signature; 0 before the first."""
        return 0 if self._now is None else self._now.learned.dimension

    @property
    def nbytes(self) -> int:
        """Bytes of tables, ids and vectors, including removed rows."""
        return 0 if self._now is None else self._now.nbytes

    def fit(self, X: Matrix) -> Self:
        """Determine the dimension and, for "inner", centre and radius; add no rows.

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
                raise ValueError(f"{OWNER}: fit would move what is in it; build another index.")
            vectors = self._matrix(X, None)
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
            One vector per id, or one set. The first rows determine the dimension, unless `fit` did.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            now = self._now
            names = RowIds() if now is None else now.names
            column, new = names.numbered(OWNER, ids)
            vectors = self._matrix(X, now)
            if len(vectors) != column.size:
                raise ValueError(f"{OWNER}: {column.size} ids do not go with {len(vectors)} rows.")
            known.check_distinct(OWNER, column)
            if now is not None:
                known.check_new(OWNER, now.positions(column))
            if column.size:
                grown = (now or self._learned(vectors)).appended(column, vectors)
                grown.names.add(new, text=bool(new) or names.kind == "text")
                self._now = grown
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
            now, column = self._now, self._numbers(ids)
            known.check_distinct(OWNER, column)
            rows = np.full(column.size, -1) if now is None else now.positions(column)
            known.check_known(OWNER, rows)
            if now is not None and column.size:
                self._now = now.removed(rows)
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
                self._now = self._now.compacted()
        return self

    def candidates(self, Q: Any, *, filter: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Find the ids that share a bucket with each query, without scores.

        Parameters
        ----------
        Q : array_like of shape (n_queries, dimension)
            Queries.
        filter : array_like of bool or None, default=None
            Mask over `ids` of those that may be found, as made by `mask`.

        Returns
        -------
        starts : ndarray of shape (n_queries + 1,)
            Offsets: the candidates of query q are ``ids[starts[q] : starts[q + 1]]``.
        ids : ndarray of shape (starts[-1],)
            Candidate ids, each once per query.
        """
        now = self._now
        queries = self._matrix(Q, now)
        if now is None:
            return np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64)
        starts, rows = candidates(now.buckets, self._band_queries(now, queries, filter))
        return starts, now.names.texts(now.ids[rows])

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
        wanted, rows = np.zeros(now.count, bool), now.positions(column)
        wanted[rows[rows >= 0]] = True
        return np.asarray(wanted[now.rows()])

    @renamed_arguments(k="n")
    def search(
        self,
        Q: Any,
        n: int = 10,
        *,
        filter: Any = None,
        without: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the n best candidates of each query.

        Parameters
        ----------
        Q : array_like of shape (n_queries, dimension) or (dimension,)
            Queries, or one query.
        n : int, default=10
            Number of results per query, at least 1; n times the number of queries is at most 2**28.
        filter : array_like of bool or None, default=None
            Mask over `ids` of those that may be found, as made by `mask`.
        without : tuple of (ndarray, ndarray) or None, default=None
            Ids to exclude for each query, as (starts, ids) in the form of `candidates`; unknown ids
            are ignored.

        Returns
        -------
        ids : ndarray of shape (n_queries, n) or (n,)
            Ids, best first: int64, -1 where there are fewer candidates; or texts, None where there
            are fewer.
        scores : ndarray of shape (n_queries, n) or (n,)
            Exact cosines, inner products or negated distances, or estimated Jaccard similarities,
            float32; -inf where there are fewer candidates.

        Notes
        -----
        `BinaryIndex.search` returns (scores, ids) instead, as faiss does.
        """
        n, now, one = COUNT.check(OWNER, "n", n), self._now, self._is_one(Q)
        queries = self._matrix(Q if not one else [Q] if is_set(Q) else np.asarray(Q)[None], now)
        check_answers(OWNER, len(queries), "n", n)
        if not self.keep_vectors:
            raise ValueError(f"{OWNER}: no vectors are stored to be scored; use candidates.")
        if now is None:
            scores, found = padding(len(queries), n)
        else:
            scores, found = self._search(now, queries, n, filter, without)
        return (found[0], scores[0]) if one else (found, scores)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index, without removed rows, to a file.

        Parameters
        ----------
        path : path_like
            Path of the file, which appears only once it is complete.
        """
        now = self._now
        if now is None:
            raise ValueError(f"{OWNER}: there is nothing to save yet; fit it or add vectors first.")
        save(path, self.parameters, now.compacted())

    @classmethod
    def load(cls, path: Source, *, check: bool = True) -> Self:
        """Load an index from its file, memory-mapped.

        Parameters
        ----------
        path : Source
            Path of the file, or its bytes, which are copied.
        check : bool, default=True
            Whether the entire file is read once to find damage. Always check a file from an
            untrusted source: invalid contents might otherwise crash the process.

        Returns
        -------
        Self
            The index; only what a search needs is read into memory.
        """
        index, now = restored(path, cls, check=flag.check(OWNER, "check", check))
        index._now = now
        return index

    def _search(
        self, now: Tabled, queries: np.ndarray, n: int, filter: Any, without: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        assert now.vectors is not None
        lookup = self._band_queries(now, queries, filter)
        if without is not None:
            lookup = lookup._replace(without=Without.of(OWNER, now, len(queries), without))
        scores, rows = best(now.buckets, lookup, now.vectors, n)
        numbers = np.where(rows >= 0, now.ids[rows], -1) if now.count else rows
        return scores, now.names.texts(numbers)

    def _band_queries(self, now: Tabled, queries: np.ndarray, filter: Any) -> BandQueries:
        alive = known.allowed_bits(OWNER, filter, now)
        return BandQueries(now.learned, now.learned.targets(queries), self.probes, alive)

    def _numbers(self, ids: Any) -> np.ndarray:
        """Numbers of ids to be looked up."""
        return (RowIds() if self._now is None else self._now.names).numbers(OWNER, ids)

    def _is_one(self, Q: Any) -> bool:
        return is_set(Q) if self.metric == "jaccard" else is_vector(Q)

    def _check_sets(self) -> None:
        """Raise ValueError for parameters that sets have no use for."""
        for name, wanted in (("probes", 1), ("directions", "random")):
            if getattr(self, name) != wanted:
                raise ValueError(f"{OWNER}: {name} must be {wanted!r} for metric 'jaccard'.")
        if self.bands * self.rows > MOST_MINIMA:
            raise ValueError(
                f"{OWNER}: bands times rows must be at most 2**16 for metric 'jaccard', not "
                f"{self.bands} * {self.rows}; take fewer bands or rows."
            )

    def _matrix(self, X: Any, now: Tabled | None) -> np.ndarray:
        if self.metric == "jaccard":
            return signatures(OWNER, X, self.bands * self.rows, self.seed)
        vectors = matrix(OWNER, X, None if now is None else now.learned.dimension)
        check_vectors(OWNER, self.metric, vectors)
        return vectors

    def _learned(self, vectors: np.ndarray) -> Tabled:
        lift = Lift.of(vectors) if self.metric == "inner" else None
        learned = BandHashes.of(self.parameters, lift, vectors.shape[1])
        return Tabled.empty(learned, keep=self.keep_vectors)
