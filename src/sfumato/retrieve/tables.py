"""Tables of bands: near vectors share a bucket in one of them, so a search reads few others."""

import os
import threading
from typing import Any, Self, cast

import numpy as np

from sfumato._require import flag, one_of, optional, positive, whole
from sfumato.retrieve._families import Hyperplanes, Lines
from sfumato.retrieve._index_ids import allowed_bits, check_distinct, check_new, whole_ids
from sfumato.retrieve._lift import Lift
from sfumato.retrieve._lookup import Asked, Without, best, candidates
from sfumato.retrieve._space import check_vectors, matrix
from sfumato.retrieve._table_file import restored, save
from sfumato.retrieve._tabled import Learned, Tabled
from sfumato.retrieve.amplify import bands_and_rows, candidate_probability
from sfumato.sketch._base import SEED

__all__ = ["LshIndex"]

OWNER = "LshIndex"
LIMITS: dict[str, Any] = {
    "bands": whole(1, 2**12),
    "rows": whole(1, 64),
    "metric": one_of(("cosine", "inner", "euclidean")),
    "probes": whole(1, 2**12),
    "directions": one_of(("random", "super-bit")),
    "width": optional(positive),
    "keep_vectors": flag,
    "seed": SEED,
}
COUNT = whole(1)


class LshIndex:
    """Vectors in tables of buckets; a search looks into one a table, and scores what is there.

    Guarantee: a vector is a candidate of a query where all `rows` hashes agree (AND) in at least
    one of `bands` bands (OR), so with `probability` of their similarity; candidates get their true
    scores, and a search gives the k best of them, ties in the order of rows. An answer depends on
    no other query of its batch. A call that raises changes nothing; any number of threads may
    search beside one that changes the index. A removed row keeps its room until `compact`.
    Parameters: bands, from 1 to 4096; rows, hashes in a key, from 1 to 64; metric:
    - "cosine", sides of random planes; zeros are refused;
    - "inner", the same for vectors moved by their mean and lifted to a sphere, where angles rank
      about as products do: see `Lift`; `fit`, or else the first `add`, gives centre and radius;
    - "euclidean", cells of a `width` on random lines; scores are minus the distances;
    probes, buckets to look into in each table, from 1 to 4096: the query's own and those it missed
    by the least, so that fewer bands find as much; directions, normals of the planes: "random", or
    "super-bit", orthogonal in each band: fewer far vectors are candidates, and a few near ones less
    than `probability` says; width, in the unit of the distances that shall
    be found, for "euclidean" alone; keep_vectors, False where only `candidates` are asked for;
    seed, of all hashes, which are made when first needed and never stored.

    >>> index = LshIndex(bands=8, rows=2).add([7, 3, 5], [[1, 0], [0, 1], [1, 0.1]])
    >>> scores, ids = index.search([[2, 0]], k=2)
    >>> ids, scores.round(3)
    (array([[7, 5]]), array([[1.   , 0.995]], dtype=float32))

    Indyk and Motwani 1998; Charikar 2002; Datar et al. 2004; probes: Lv et al. 2007; lifting:
    Neyshabur and Srebro 2015. For sets, give `band_keys` of MinHash signatures to `Buckets`.
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

        Parameters: similar, as in `probability`; recall, between 0 and 1; most_bands, of the index;
        options, of the index. Probes come on top of the recall.

        >>> index = LshIndex.from_threshold(0.9, recall=0.95)
        >>> index.bands, index.rows, bool(index.probability(0.9) >= 0.95)
        (56, 19, True)
        """
        one = cls(1, 1, **options)
        bands, rows = bands_and_rows(one.probability(similar), recall, most_bands)
        return cls(bands, rows, **options)

    def probability(self, similarity: float) -> float:
        """1 - (1 - p**rows)**bands, the probability that a vector is a candidate, without probes.

        Parameters: similarity, whose hashes agree with probability p: a cosine; for "inner" the
        cosine after lifting; for "euclidean" a distance.
        """
        if self.metric == "euclidean":
            agree = Lines.agree(similarity, float(self.width or 0))
        else:
            agree = Hyperplanes.agree(similarity)
        return candidate_probability(agree, self.bands, self.rows)

    def __len__(self) -> int:
        return 0 if self._now is None else self._now.living

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
    def nbytes(self) -> int:
        """Bytes of tables, ids and vectors, removed rows included."""
        return 0 if self._now is None else self._now.nbytes

    def fit(self, X: Any) -> Self:
        """Take the dimension and, for "inner", centre and radius from these rows; none is added."""
        with self._writing:
            if self._now is not None and self._now.count:
                raise ValueError(f"{OWNER}: fit would move what is in it; build another index.")
            vectors = self._matrix(X, None)
            if not len(vectors):
                raise ValueError(f"{OWNER}: fit needs at least one row.")
            self._now = self._learned(vectors)
        return self

    def add(self, ids: Any, X: Any) -> Self:
        """Take in vectors under ids that are not in the index.

        Parameters: ids, a column of whole numbers from 0 up, each once; X, a matrix with a row for
        each id. The first rows decide the dimension, unless `fit` did.
        """
        with self._writing:
            now, column = self._now, whole_ids(OWNER, ids)
            vectors = self._matrix(X, now)
            if len(vectors) != column.size:
                raise ValueError(f"{OWNER}: {column.size} ids do not go with {len(vectors)} rows.")
            check_distinct(OWNER, column)
            if now is not None:
                check_new(OWNER, now.places(column))
            if column.size:
                self._now = (now or self._learned(vectors)).appended(column, vectors)
        return self

    def remove(self, ids: Any) -> Self:
        """Let vectors not be found any more; their ids may be added again.

        Parameters: ids, a column of ids of the index, each once, or one.
        """
        with self._writing:
            now, column = self._now, whole_ids(OWNER, ids)
            check_distinct(OWNER, column)
            rows = np.full(column.size, -1) if now is None else now.places(column)
            if (rows < 0).any():
                at = int((rows < 0).argmax())
                raise KeyError(f"{OWNER}: the id at row {at} is not in the index.")
            if now is not None and column.size:
                self._now = now.removed(rows)
        return self

    def compact(self) -> Self:
        """Give back the room of removed rows; the order of the others stays."""
        with self._writing:
            if self._now is not None and self._now.alive is not None:
                self._now = self._now.compacted()
        return self

    def candidates(self, Q: Any, *, filter: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The ids that share a bucket with query q, at ids[starts[q] : starts[q + 1]], unscored.

        Parameters: Q, a matrix of queries; filter, a boolean mask over `ids`.
        """
        now = self._now
        queries = self._matrix(Q, now)
        if now is None:
            return np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64)
        alive = self._alive(now, filter)
        starts, rows = candidates(now.buckets, Asked(self._keys(now, queries), alive, None))
        return starts, now.ids[rows]

    def search(
        self,
        Q: Any,
        k: int = 10,
        *,
        filter: Any = None,
        without: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best candidates of each query: scores, float32, and ids, int64, best first.

        Scores are true cosines, inner products or minus distances. A matrix of queries gets arrays
        of shape (queries, k), one vector two of shape (k,); where fewer candidates are left, the
        score is -inf and the id -1.
        Parameters: Q, queries; k, from 1 up; filter, a boolean mask over `ids`; without, ids that
        query q does not get, as (starts, ids) in the form of `candidates`; unknown ones are passed
        over.
        """
        k, now = COUNT.check(OWNER, "k", k), self._now
        one = np.ndim(Q) == 1 and len(Q) > 0
        queries = self._matrix([Q] if one else Q, now)
        if not self.keep_vectors:
            raise ValueError(
                f"{OWNER}: keep_vectors is False, so nothing can be scored; use candidates."
            )
        if now is None:
            scores, found = (
                np.full((len(queries), k), -np.inf, np.float32),
                np.full((len(queries), k), -1),
            )
        else:
            scores, found = self._search(now, queries, k, filter, without)
        return (scores[0], found[0]) if one else (scores, found)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a file that is either complete or not there."""
        now = self._now
        if now is None:
            raise ValueError(f"{OWNER}: there is nothing to save yet; fit it or add vectors first.")
        save(path, self.parameters, now)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, check: bool = True) -> Self:
        """The index in a file, mapped and not read: only what a search needs comes into memory.

        Parameters: check, whether all of the file is read once to find damage. A file from somebody
        else should be checked: what is wrong in it might otherwise crash the process.
        """
        index, index._now = restored(path, cls, check=flag.check(OWNER, "check", check))
        return index

    def _search(
        self, now: Tabled, queries: np.ndarray, k: int, filter: Any, without: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        assert now.vectors is not None
        alive = self._alive(now, filter)
        asked = Asked(self._keys(now, queries), alive, self._without(now, len(queries), without))
        targets = now.learned.targets(queries)
        euclidean = self.metric == "euclidean"
        scores, rows = best(now.buckets, asked, now.vectors, targets, k, euclidean=euclidean)
        return scores, np.where(rows >= 0, now.ids[rows], -1) if now.count else rows

    def _alive(self, now: Tabled, filter: Any) -> np.ndarray | None:
        return allowed_bits(OWNER, filter, cast(Any, now))  # which has all of Held that is asked

    def _keys(self, now: Tabled, queries: np.ndarray) -> np.ndarray:
        return now.learned.asked(queries, self.probes)

    def _without(self, now: Tabled, queries: int, without: Any) -> Without | None:
        if without is None:
            return None
        starts = np.ascontiguousarray(without[0], np.int64)
        column = whole_ids(OWNER, without[1])
        whole_ = starts.shape == (queries + 1,) and starts[0] == 0 and starts[-1] == column.size
        if not whole_ or (np.diff(starts) < 0).any():
            raise ValueError(
                f"{OWNER}: without must be (starts, ids): {queries + 1} starts that rise from 0 to "
                f"the number of ids."
            )
        rows = now.places(column)
        known = np.concatenate(([0], np.cumsum(rows >= 0)))
        return Without(known[starts], rows[rows >= 0])

    def _matrix(self, X: Any, now: Tabled | None) -> np.ndarray:
        vectors = matrix(OWNER, X, None if now is None else now.learned.dimension)
        check_vectors(OWNER, self.metric, vectors)
        return vectors

    def _learned(self, vectors: np.ndarray) -> Tabled:
        lift = Lift.of(vectors) if self.metric == "inner" else None
        learned = Learned.of(self.parameters, lift, vectors.shape[1])
        return Tabled.empty(learned, keep=self.keep_vectors)
