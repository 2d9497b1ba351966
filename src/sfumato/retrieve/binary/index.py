"""An index of binary codes: vectors found by cosine or inner product, a few dozen bytes each."""

import os
import threading
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Ids, Matrix
from sfumato.core.validation import flag, integer, one_of, optional
from sfumato.errors import ParameterError
from sfumato.retrieve.binary.search import SearchPlan, check_answers, padding, search
from sfumato.retrieve.binary.store import (
    NOTHING,
    Held,
    RowWriter,
    allowed_bits,
    check_distinct,
    check_known,
    check_new,
    integer_ids,
)
from sfumato.retrieve.binary.training import Fitted, encoder_for
from sfumato.retrieve.encoders.base import CodeEncoder
from sfumato.retrieve.file_format import Source
from sfumato.retrieve.metric import METRIC, check_vectors, is_vector, matrix
from sfumato.retrieve.serialization import restored, save
from sfumato.sketch.base import SEED

__all__ = ["BinaryIndex"]

OWNER = "BinaryIndex"
BITS = integer(1, 2**16)
COUNT = integer(1)
PARAMETERS = ("bits", "encoder", "metric", "keep_vectors", "seed")
RERANK = optional(one_of(("asymmetric", "exact")))
SCAN = optional(one_of(("hamming", "asymmetric")))


class _Now(NamedTuple):
    """What there is once the encoder is fitted; readers take `rows.held` once and keep it."""

    fitted: Fitted
    rows: RowWriter


class BinaryIndex:
    """Vectors kept as codes of bits and one factor each, and the k best of them for any query.

    With metric "inner", codes with a factor and learned ones carry a length. Others are made of
    vectors lifted to a sphere (see `Lift`): y = x - centre becomes (y / m, sqrt(1 - |y|^2 / m^2))
    with the centre and radius m, that of 99 in 100, of what `fit`, or else the first `add`, met. A
    Hamming scan takes a longer y for one of length m; all other scores know its length.

    bits of a code, up to 2**16 (qoLSH and learned codes 2**12);

    Parameters
    ----------
    bits : int, default=256
        TODO.
    encoder : str, CodeEncoder or None, default=None
        None (qoLSH with 50 flips, centre and factor), a name (that encoder with its own defaults;
        "learned" finds most once it is fitted to thousands of rows), or a `CodeEncoder`, which then
        decides the bits and stays as it is if it is fitted.
    metric : str, default="cosine"
        "cosine" (vectors and queries are made unit vectors; zeros are refused) or "inner" (numbers
        up to 1e15).
    keep_vectors : bool, default=False
        Whether the vectors are kept in float32 for exact scores (unit vectors for "cosine").
    seed : int, default=0
        Of the directions and of the sample to learn from.

    Notes
    -----
    **Guarantee.** `search` finds the best of the codes by the score it names, rows of equal codes
    in their order; an answer depends on no other query of its batch. A call that raises changes
    nothing. Any number of threads may search together and beside one that changes the index: a
    search sees it before a change or after it. A removed row stays in memory until `compact`.

    References
    ----------
    .. [1] Thesis chapter 5; lifting: Neyshabur and Srebro 2015.

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
        seed: int = 0,
    ) -> None:
        self.bits = BITS.check(OWNER, "bits", bits)
        self.metric = METRIC.check(OWNER, "metric", metric)
        self.keep_vectors = flag.check(OWNER, "keep_vectors", keep_vectors)
        self.seed = SEED.check(OWNER, "seed", seed)
        self.encoder = encoder
        self._made = encoder_for(encoder, self.bits, self.seed)
        if isinstance(encoder, CodeEncoder) and self.bits not in (256, encoder.bits):
            raise ValueError(
                f"{OWNER}: bits must be those of the encoder, {encoder.bits}, or left out, not "
                f"{self.bits}."
            )
        self.bits = self._made.bits
        self._writing = threading.Lock()
        self._now: _Now | None = None

    def fit(self, X: Matrix) -> Self:
        """Learn what the encoder learns, from up to 100,000 of these rows; none of them is added.

        Without it, the first `add` learns from its own rows.

        Parameters
        ----------
        X : array_like
            A matrix of vectors, one a row. The index must be empty.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            if len(self):
                raise ValueError(f"{OWNER}: fit would void the codes in it; build another index.")
            vectors = matrix(OWNER, X, None)
            if not len(vectors):
                raise ValueError(f"{OWNER}: fit needs at least one row.")
            check_vectors(OWNER, self.metric, vectors)
            self._now = self._learned(vectors)
        return self

    def add(self, ids: Ids, X: Matrix) -> Self:
        """Take in vectors under ids that are not in the index.

        Parameters
        ----------
        ids : array_like or scalar
            A column of integers from 0 up, each once.
        X : array_like
            A matrix with a row for each id. The first rows decide the dimension, and the encoder
            learns from them, unless it was fitted before.

        Returns
        -------
        Self
            The object itself.
        """
        with self._writing:
            now = self._now
            column = integer_ids(OWNER, ids)
            vectors = matrix(OWNER, X, now and now.fitted.dimension)
            if len(vectors) != column.size:
                raise ValueError(f"{OWNER}: {column.size} ids do not go with {len(vectors)} rows.")
            check_distinct(OWNER, column)
            check_vectors(OWNER, self.metric, vectors)
            if now is not None:
                check_new(OWNER, now.rows.find(column)[1])
            if column.size:
                now = now or self._learned(vectors)
                now.rows.append(column, *now.fitted.rows(vectors, keep=self.keep_vectors))
                self._now = now
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
            column = integer_ids(OWNER, ids)
            check_distinct(OWNER, column)
            now, rows = self._now, self._rows_of(column)[1]
            if now is not None and column.size:
                now.rows.remove(rows)
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
                self._now = self._now._replace(rows=self._now.rows.compacted())
        return self

    def search(
        self,
        Q: Any,
        k: int = 10,
        *,
        shortlist: int = 1000,
        rerank: str | None = "asymmetric",
        scan: str | None = None,
        filter: Any = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best vectors of each query: scores, float32, and ids, int64, best first.

        The order of the answers and the name `k` are those of faiss, whose indexes this one stands
        in for; everything else in Sfumato takes `n` and answers (ids, scores). A matrix of queries
        gets arrays of shape (queries, k), one vector of shape (dimension,) gets two of shape (k,).
        Where fewer than k are left, the score is -inf and the id -1; so is all of an index that is
        empty. Every score estimates (or is) the cosine or inner product.

        Parameters
        ----------
        Q : object
            Queries.
        k : int, default=10
            From 1 up, times queries at most 2**28.
        shortlist : int, default=1000
            How many the scan finds for `rerank`, at least k are.
        rerank : str or None, default="asymmetric"
            "asymmetric" (the query as it is against codes), "exact" (needs keep_vectors) or None,
            the scores of the scan.
        scan : str or None, default=None
            "hamming" (distance d of codes, scored cos(pi d / bits), for lifted vectors m |q| of it
            + <q, centre>; an encoder's own centre is subtracted first), "asymmetric" (weights of
            the query rounded to a few bits: slower, better) or None, which is Hamming where most
            bits are plain signs and a re-rank follows, or all are.
        filter : object, default=None
            A boolean mask over `ids`, as `mask` makes.

        Returns
        -------
        tuple
            The k best vectors of each query: scores, float32, and ids, int64, best first.
        """
        k = COUNT.check(OWNER, "k", k)
        shortlist = COUNT.check(OWNER, "shortlist", shortlist)
        rerank, scan = RERANK.check(OWNER, "rerank", rerank), SCAN.check(OWNER, "scan", scan)
        self._check_exact(rerank)
        now = self._now
        held = NOTHING if now is None else now.rows.held
        one = is_vector(Q)
        queries = matrix(OWNER, np.asarray(Q)[None] if one else Q, now and now.fitted.dimension)
        check_vectors(OWNER, self.metric, queries)
        check_answers(OWNER, len(queries), "k", k)
        alive = allowed_bits(OWNER, filter, held)
        if now is None:
            scores, ids = padding(len(queries), k)
        else:
            plan = SearchPlan(k, shortlist, now.fitted.scan_for(scan, rerank), rerank)
            scores, ids = search(held, now.fitted, queries, plan, alive)
        return (scores[0], ids[0]) if one else (scores, ids)

    def vectors(self, ids: Ids) -> np.ndarray:
        """The kept vectors of these ids, float32, of length 1 for metric "cosine".

        Parameters
        ----------
        ids : array_like or scalar
            TODO.

        Returns
        -------
        ndarray
            The kept vectors of these ids, float32, of length 1 for metric "cosine".
        """
        self._check_exact("exact")
        held, rows = self._rows_of(integer_ids(OWNER, ids))
        return np.empty((0, 0), np.float32) if held.vectors is None else held.vectors[rows]

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
        column = integer_ids(OWNER, ids)
        if self._now is None:
            return np.zeros(0, bool)
        held, rows = self._now.rows.find(column)
        wanted = np.zeros(held.count, bool)
        wanted[rows[rows >= 0]] = True
        return np.asarray(wanted[held.rows()])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index, without removed rows, to a file that is complete or not there.

        Parameters
        ----------
        path : path_like
            TODO.
        """
        with self._writing:  # rows that are added would change the last block while it is written
            now = self._now
            if now is None:
                raise ValueError(f"{OWNER}: there is nothing to save yet; call fit or add first.")
            save(path, self.parameters, now.fitted, now.rows.compacted().held)

    @classmethod
    def load(cls, path: Source, *, check: bool = True) -> Self:
        """The index in a file, which is mapped, not read, and never written.

        It answers as the one that was saved, bit for bit. IndexFormatError where the file is not a
        whole, intact index. The file must not be changed in place while the index is in use.

        Parameters
        ----------
        path : Source
            TODO.
        check : bool, default=True
            Whether the checksums of all arrays are verified, which reads the file once; that of the
            header always is.

        Returns
        -------
        Self
            The index in a file, which is mapped, not read, and never written.
        """
        index, fitted, held = restored(path, cls, check=flag.check(OWNER, "check", check))
        index._now = _Now(fitted, RowWriter(held))
        return index

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters as plain values; of an encoder that was given, its kind and its own."""
        given = {name: getattr(self, name) for name in PARAMETERS}
        if isinstance(self.encoder, CodeEncoder):
            given["encoder"] = {"kind": self.encoder.kind, **self.encoder.get_params()}
        return given

    @property
    def dimension(self) -> int:
        """Numbers in a vector, 0 before the first."""
        return 0 if self._now is None else self._now.fitted.dimension

    @property
    def encoder_(self) -> CodeEncoder | None:
        """The fitted encoder, None before there is one."""
        return None if self._now is None else self._now.fitted.encoder

    @property
    def ids(self) -> np.ndarray:
        """The ids that can be found, in the order of rows."""
        held = self._held
        return np.asarray(held.ids[held.rows()])

    def __len__(self) -> int:
        return self._held.living

    def __contains__(self, id: object) -> bool:
        if not isinstance(id, int | np.integer) or isinstance(id, bool) or not 0 <= id < 2**63:
            return False
        now = self._now
        return now is not None and bool(now.rows.find(np.array([id], np.int64))[1][0] >= 0)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows, removed ones included: codes, factors, ids and kept vectors."""
        return sum(int(array.nbytes) for array in self._held.arrays().values())

    @property
    def nbytes_per_vector(self) -> int:
        """Bytes of a code, its factor and a kept vector; the id takes 8 more."""
        made = self._made if self._now is None else self._now.fitted.encoder
        kept = 0 if self._now is None or not self.keep_vectors else 4 * self._now.fitted.dimension
        computed = 4 * (made.scaled and made.factor is None)  # of `scales`
        return made.nbytes_per_vector + computed + kept

    def __repr__(self) -> str:
        return described(self, **{name: getattr(self, name) for name in PARAMETERS}, size=len(self))

    @property
    def _held(self) -> Held:
        return NOTHING if self._now is None else self._now.rows.held

    def _learned(self, vectors: np.ndarray) -> _Now:
        fitted = Fitted.learn(self._made, self.metric, vectors, self.seed)
        return _Now(fitted, fitted.no_rows(keep=self.keep_vectors))

    def _rows_of(self, ids: np.ndarray) -> tuple[Held, np.ndarray]:
        """What is held and the rows of ids in it; ValueError where one is not there."""
        now = self._now
        held, rows = (NOTHING, np.full(ids.size, -1)) if now is None else now.rows.find(ids)
        check_known(OWNER, rows)
        return held, rows

    def _check_exact(self, rerank: str | None) -> None:
        if rerank == "exact" and not self.keep_vectors:
            sentence = f"{OWNER}: no vectors are kept; build it with keep_vectors=True."
            raise ParameterError(sentence, owner=OWNER, parameter="keep_vectors")
