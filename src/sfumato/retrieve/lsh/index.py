"""Tables of bands: near vectors share a bucket in one of them, so a search reads few others."""

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
from sfumato.retrieve.lsh.hash_families import Hyperplanes, RandomLines
from sfumato.retrieve.lsh.store import Asked, BandHashes, Tabled, Without, best, candidates
from sfumato.retrieve.metric import Lift, check_vectors, is_vector, matrix
from sfumato.retrieve.serialization import restored_lsh as restored
from sfumato.retrieve.serialization import save_lsh as save
from sfumato.sketch.base import SEED

__all__ = ["LshIndex"]

OWNER = "LshIndex"
LIMITS: dict[str, Any] = {
    "bands": integer(1, 2**12),
    "rows": integer(1, 64),
    "metric": one_of(("cosine", "inner", "euclidean")),
    "probes": integer(1, 2**12),
    "directions": one_of(("random", "super-bit")),
    "width": optional(positive),
    "keep_vectors": flag,
    "seed": SEED,
}
COUNT = integer(1)


class LshIndex:
    """Vectors in tables of buckets; a search looks into one a table, and scores what is there.

    Guarantee: a vector is a candidate of a query where all `rows` hashes agree (AND) in at least
    one of `bands` bands (OR), so with `probability` of their similarity; candidates get their true
    scores, and a search gives the k best of them, ties in the order of rows. Scores are computed in
    float32: of numbers below 1e-15 or so, products and distances may vanish. An answer depends on
    no other query of its batch. A call that raises changes nothing; any number of threads may
    search beside one that changes the index. A removed row stays, in files too, until `compact`.
    Parameters: bands, from 1 to 4096; rows, hashes in a key, from 1 to 64; metric:
    - "cosine", sides of random planes; zeros are refused;
    - "inner", the same for vectors moved by their mean and lifted to a sphere, where angles rank
      about as products do: see `Lift`; `fit`, or else the first `add`, gives centre and radius;
    - "euclidean", cells of a `width` on random lines; scores are minus the distances;
    probes, buckets to look into in each table, from 1 to 4096: the query's own and those it missed
    by the least, so that fewer bands find as much; directions, normals of the planes: "random", or
    "super-bit", orthogonal in each band: fewer far vectors are candidates, and a few near ones less
    than `probability` says; width, in the unit of the distances that shall be found, for
    "euclidean" alone; keep_vectors, False where only `candidates` are asked for; seed, of all
    hashes, which are made when first needed and never stored. Bands times rows times the dimension
    are at most 2**26.

    Parameters
    ----------
    bands : int, default=32
        TODO.
    rows : int, default=12
        TODO.
    metric : str, default="cosine"
        TODO.
    probes : int, default=1
        TODO.
    directions : str, default="random"
        TODO.
    width : float or None, default=None
        TODO.
    keep_vectors : bool, default=True
        TODO.
    seed : int, default=0
        TODO.

    References
    ----------
    .. [1] Indyk and Motwani 1998; Charikar 2002; Datar et al. 2004; probes: Lv et al. 2007;
       lifting: Neyshabur and Srebro 2015. For sets, give `band_keys` of MinHash signatures to
       `Buckets`.

    Examples
    --------
    >>> index = LshIndex(bands=8, rows=2).add([7, 3, 5], [[1, 0], [0, 1], [1, 0.1]])
    >>> ids, scores = index.search([[2, 0]], n=2)
    >>> ids, scores.round(3)
    (array([[7, 5]]), array([[1.   , 0.995]], dtype=float32))
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
        self._writing = threading.Lock()
        self._now: Tabled | None = None

    @classmethod
    def from_threshold(
        cls, similar: float, recall: float = 0.95, *, most_bands: int = 64, **options: Any
    ) -> Self:
        """The strictest keys that find vectors as similar as this with probability `recall`.

        Parameters
        ----------
        similar : float
            As in `probability`, and not so that all hashes agree.
        recall : float, default=0.95
            Between 0 and 1.
        most_bands : int, default=64
            Up to 4096.
        **options : object
            Of the index. Probes come on top of the recall.

        Returns
        -------
        Self
            The strictest keys that find vectors as similar as this with probability `recall`.

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
        """1 - (1 - p**rows)**bands, the probability that a vector is a candidate, without probes.

        Parameters
        ----------
        similarity : float
            Whose hashes agree with probability p: a cosine; for "inner" the cosine after lifting;
            for "euclidean" a distance.

        Returns
        -------
        float
            TODO.
        """
        similarity = float(number.check(OWNER, "similarity", similarity))
        if self.metric == "euclidean":
            agree = RandomLines.agree(similarity, float(self.width or 0))
        else:
            agree = Hyperplanes.agree(similarity)
        return candidate_probability(agree, self.bands, self.rows)

    def __len__(self) -> int:
        return 0 if self._now is None else self._now.living

    def __repr__(self) -> str:
        return described(self, **self.parameters, size=len(self))

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values."""
        return {name: getattr(self, name) for name in LIMITS}

    @property
    def ids(self) -> np.ndarray:
        """The ids that can be found, in the order of rows."""
        now = self._now
        return np.empty(0, np.int64) if now is None else now.ids[now.rows()]

    @property
    def dimension(self) -> int:
        """Numbers in a vector, 0 before the first."""
        return 0 if self._now is None else self._now.learned.dimension

    @property
    def nbytes(self) -> int:
        """Bytes of tables, ids and vectors, removed rows included."""
        return 0 if self._now is None else self._now.nbytes

    def fit(self, X: Matrix) -> Self:
        """Take the dimension and, for "inner", centre and radius from these rows; none is added.

        Parameters
        ----------
        X : array_like
            TODO.

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
        """Take in vectors under ids that are not in the index.

        Parameters
        ----------
        ids : array_like or scalar
            A column of integers from 0 up, each once.
        X : array_like
            A matrix with a row for each id. The first rows decide the dimension, unless `fit` did.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            now, column = self._now, known.integer_ids(OWNER, ids)
            vectors = self._matrix(X, now)
            if len(vectors) != column.size:
                raise ValueError(f"{OWNER}: {column.size} ids do not go with {len(vectors)} rows.")
            known.check_distinct(OWNER, column)
            if now is not None:
                known.check_new(OWNER, now.positions(column))
            if column.size:
                self._now = (now or self._learned(vectors)).appended(column, vectors)
        return self

    def remove(self, ids: Ids) -> Self:
        """Let vectors not be found any more; their ids may be added again.

        Parameters
        ----------
        ids : array_like or scalar
            A column of ids of the index, each once, or one.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            now, column = self._now, known.integer_ids(OWNER, ids)
            known.check_distinct(OWNER, column)
            rows = np.full(column.size, -1) if now is None else now.positions(column)
            known.check_known(OWNER, rows)
            if now is not None and column.size:
                self._now = now.removed(rows)
        return self

    def compact(self) -> Self:
        """Give back the room of removed rows; the order of the others stays.

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
        """The ids that share a bucket with query q, at ids[starts[q] : starts[q + 1]], unscored.

        Parameters
        ----------
        Q : object
            A matrix of queries.
        filter : object, default=None
            A boolean mask over `ids`, as `mask` makes.

        Returns
        -------
        tuple
            The ids that share a bucket with query q, at ids[starts[q] : starts[q + 1]], unscored.
        """
        now = self._now
        queries = self._matrix(Q, now)
        if now is None:
            return np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64)
        starts, rows = candidates(now.buckets, self._asked(now, queries, filter))
        return starts, now.ids[rows]

    def mask(self, ids: Ids) -> np.ndarray:
        """A filter for `search`: True for those of `ids` that stand in this column.

        What is not in the index changes nothing. The mask holds for the index as it is now.

        Parameters
        ----------
        ids : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            A filter for `search`: True for those of `ids` that stand in this column.
        """
        column, now = known.integer_ids(OWNER, ids), self._now
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
        """The n best candidates of each query: ids, int64, and scores, float32, best first.

        Scores are true cosines, inner products or minus distances. A matrix of queries gets arrays
        of shape (queries, n), one vector two of shape (n,); where fewer candidates are left, the id
        is -1 and the score -inf. `BinaryIndex.search` answers in the order of faiss instead.

        Parameters
        ----------
        Q : object
            Queries.
        n : int, default=10
            From 1 up, times queries at most 2**28.
        filter : object, default=None
            A boolean mask over `ids`, as `mask` makes.
        without : tuple or None, default=None
            Ids that query q does not get, as (starts, ids) in the form of `candidates`; unknown
            ones are passed over.

        Returns
        -------
        tuple
            The n best candidates of each query: ids, int64, and scores, float32, best first.
        """
        n, now, one = COUNT.check(OWNER, "n", n), self._now, is_vector(Q)
        queries = self._matrix(np.asarray(Q)[None] if one else Q, now)
        check_answers(OWNER, len(queries), "n", n)
        if not self.keep_vectors:
            raise ValueError(f"{OWNER}: no vectors are kept to be scored; use candidates.")
        if now is None:
            scores, found = padding(len(queries), n)
        else:
            scores, found = self._search(now, queries, n, filter, without)
        return (found[0], scores[0]) if one else (found, scores)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index, without removed rows, to a file that is complete or not there.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        now = self._now
        if now is None:
            raise ValueError(f"{OWNER}: there is nothing to save yet; fit it or add vectors first.")
        save(path, self.parameters, now.compacted())

    @classmethod
    def load(cls, path: Source, *, check: bool = True) -> Self:
        """The index in a file, mapped and not read: only what a search needs comes into memory.

        Parameters
        ----------
        path : Source
            TODO.
        check : bool, default=True
            Whether all of the file is read once to find damage. A file from somebody else should be
            checked: what is wrong in it might otherwise crash the process.

        Returns
        -------
        Self
            The index in a file, mapped and not read: only what a search needs comes into memory.
        """
        index, now = restored(path, cls, check=flag.check(OWNER, "check", check))
        index._now = now
        return index

    def _search(
        self, now: Tabled, queries: np.ndarray, n: int, filter: Any, without: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        assert now.vectors is not None
        asked, lines = self._asked(now, queries, filter), self.metric == "euclidean"
        if without is not None:
            asked = asked._replace(without=Without.of(OWNER, now, len(queries), without))
        scores, rows = best(now.buckets, asked, now.vectors, n, euclidean=lines)
        return scores, np.where(rows >= 0, now.ids[rows], -1) if now.count else rows

    def _asked(self, now: Tabled, queries: np.ndarray, filter: Any) -> Asked:
        alive = known.allowed_bits(OWNER, filter, now)
        return Asked(now.learned, now.learned.targets(queries), self.probes, alive)

    def _matrix(self, X: Any, now: Tabled | None) -> np.ndarray:
        vectors = matrix(OWNER, X, None if now is None else now.learned.dimension)
        check_vectors(OWNER, self.metric, vectors)
        return vectors

    def _learned(self, vectors: np.ndarray) -> Tabled:
        lift = Lift.of(vectors) if self.metric == "inner" else None
        learned = BandHashes.of(self.parameters, lift, vectors.shape[1])
        return Tabled.empty(learned, keep=self.keep_vectors)
