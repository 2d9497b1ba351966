"""TF-IDF: profiles of documents and of categorical features, as rows of a sparse matrix."""

from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from sfumato.core import arrow_compute as pc
from sfumato.core.ids import positions
from sfumato.core.validation import Limit, integer, optional
from sfumato.data.features import CategoryColumn, Features
from sfumato.errors import NotFittedError, ParameterError
from sfumato.recommend.base import Parameters

__all__ = ["TFIDF_LIMITS", "TfIdf", "tokens"]

NOT_IN_WORDS = r"[^\p{L}\p{N}]+"
LARGEST = 1e12  # of numbers in size, whose squares are summed up as float32
BATCH = 1 << 14  # texts that are split into words at a time


class _Words:
    """Limit of words in one text, separated by spaces."""

    def check(self, owner: str, name: str, value: Any) -> str:
        if not isinstance(value, str):
            raise ParameterError.of(
                owner, name, f"must be words in one text, separated by spaces, not {value!r:.200}."
            )
        return value

    def bad(self) -> list[Any]:
        return [None, 1, ["the"]]


TFIDF_LIMITS: dict[str, Limit] = {
    "terms": optional(integer(1, 2**31 - 1)),
    "min_documents": integer(1, 2**31 - 1),
    "stop_words": _Words(),
}


class TfIdf(Parameters):
    """Profiles of items: TF-IDF weights of words and categories, and numbers as they are.

    A word is a run of at least two letters or digits, in lower case. A categorical value is a
    feature that an item has once or not at all.

    Parameters
    ----------
    terms : int or None, default=None
        Number of words that the profile of a document retains, those of the largest weights, at
        least 1; None for all of them.
    min_documents : int, default=1
        Smallest number of documents that a word must occur in to be a feature.
    stop_words : str, default=""
        Words that are no features, separated by spaces.

    Attributes
    ----------
    names_ : ndarray of shape (n_features,)
        Names of the features: a word, "column: value" of a category, or "column:" of a number.
    idf_ : ndarray of shape (n_features,)
        Inverse document frequency of each feature; 1 for numbers.

    Notes
    -----
    **Guarantee.** The weight of feature i in row j is ``f / max f * log(N / n_i)``: f counts i in
    row j, the maximum is over the words of row j (1 for categories), and n_i of the N rows that
    were fitted have i. A number is its own weight. A feature that every row has weighs 0.

    Memory and time grow with the number of words: 100,000 documents of 150 words take 10 to
    15 seconds and 300 MiB.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 9.2.
       http://www.mmds.org

    Examples
    --------
    >>> from sfumato.data import Features
    >>> films = Features([1, 2], texts=["storm at sea, storm on land", "land of plenty"])
    >>> model = TfIdf().fit(films)
    >>> model.names_[:3], model.transform(films).toarray()[0, :3].round(3)
    (array(['storm', 'at', 'sea'], dtype=object), array([0.693, 0.347, 0.347]))
    """

    LIMITS: ClassVar[dict[str, Limit]] = TFIDF_LIMITS
    names_: np.ndarray
    idf_: np.ndarray

    def __init__(
        self, *, terms: int | None = None, min_documents: int = 1, stop_words: str = ""
    ) -> None:
        self.terms: int | None
        self.min_documents: int
        self.stop_words: str
        self.terms, self.min_documents, self.stop_words = terms, min_documents, stop_words

    def fit(self, features: Features) -> Self:
        """Learn which features there are, and how many rows have each.

        Parameters
        ----------
        features : Features
            Texts, categories and numbers of items, at least one row.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._limited()
        check_features(type(self).__name__, "features", features)
        names: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        if features.texts is not None:
            table, words = _counted(features.texts)
            in_documents = np.bincount(table.indices, minlength=words.size)
            stopped = np.array(plain["stop_words"].lower().split(), object)
            chosen = (in_documents >= plain["min_documents"]) & (positions(words, stopped) < 0)
            names.append(words[chosen])
            counts.append(in_documents[chosen])
        for name, column in features.categories.items():
            names.append(_value_names(name, column))
            counts.append(np.bincount(column.codes, minlength=column.values.size))
            there = counts[-1] > 0  # a selection of rows may lack some values
            names[-1], counts[-1] = names[-1][there], counts[-1][there]
        names.append(np.array([f"{name}:" for name in features.numbers], object))
        found = np.concatenate(names)
        if not found.size:
            raise ParameterError.of(
                type(self).__name__, "features", "must have a word, a category or a number."
            )
        idf = np.log(len(features) / np.concatenate([np.empty(0), *counts]))
        self.names_, self.idf_ = found, np.concatenate([idf, np.ones(len(features.numbers))])
        return self

    def transform(self, features: Features) -> sp.csr_matrix:
        """Compute profiles; what was not there when fitting is ignored.

        Parameters
        ----------
        features : Features
            Texts, categories and numbers of the same columns.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n, n_features)
            Weights, float64, sorted by column; zeros are not stored.
        """
        if "names_" not in self.__dict__:
            raise NotFittedError(f"{type(self).__name__}: not fitted yet; call fit first.")
        check_features(type(self).__name__, "features", features)
        plain, shape = self._limited(), (len(features), self.names_.size)
        made = sp.csr_matrix(shape)
        if features.texts is not None:
            table, words = _counted(features.texts)
            table.data /= np.repeat(_largest(table), np.diff(table.indptr))
            made = _best(self._weighted(table, words), plain["terms"])
        for name, column in features.categories.items():
            data = np.ones(column.codes.size)
            size = len(features), column.values.size
            table = sp.csr_matrix((data, column.codes, column.starts), size)
            made = made + self._weighted(table, _value_names(name, column))
        for name, numbers in features.numbers.items():
            table = sp.csr_matrix(numbers[:, None])
            made = made + self._weighted(table, np.array([f"{name}:"], object))
        made.eliminate_zeros()
        made.sort_indices()
        return made

    def fit_transform(self, features: Features) -> sp.csr_matrix:
        """Fit and return the profiles of the same rows.

        Parameters
        ----------
        features : Features
            As in `fit`.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n, n_features)
            As in `transform`.
        """
        return self.fit(features).transform(features)

    def _weighted(self, table: sp.csr_matrix, names: np.ndarray) -> sp.csr_matrix:
        """Move the columns of a table to those of the fitted features, times their IDF."""
        at = positions(names, self.names_)
        known = at >= 0
        moved = sp.csr_matrix(
            (self.idf_[at[known]], (np.flatnonzero(known), at[known])),
            (names.size, self.names_.size),
        )
        return table @ moved


def check_features(owner: str, name: str, features: Any) -> Features:
    """Return the features; raise unless they are `Features` with rows and numbers of usual size."""
    if not isinstance(features, Features):
        kind = type(features).__name__
        hint = "build them by Features(ids, texts, categories) or read_features"
        raise TypeError(f"{owner}: {name} must be Features, not {kind}; {hint}.")
    if not len(features):
        raise ValueError(f"{owner}: {name} is empty; at least one row is needed.")
    for column, numbers in features.numbers.items():
        if np.abs(numbers).max() > LARGEST:
            wanted = f"must have numbers of at most {LARGEST:g} in size, also in {column!r}"
            raise ParameterError.of(owner, name, f"{wanted}; scale them.")
    return features


def tokens(texts: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Split texts into words: offsets, codes of the words, and the words that codes stand for.

    >>> tokens(pa.array(["Tea, no tea!", ""]))[:2]
    (array([0, 3, 3]), array([0, 1, 0], dtype=int32))
    """
    lengths, pieces = [np.zeros(1, np.int64)], []
    chunked = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
    for start in range(0, len(chunked), BATCH):
        part = pc.utf8_lower(chunked.slice(start, BATCH).combine_chunks())
        cells = pc.split_pattern_regex(part, pattern=NOT_IN_WORDS)
        words = pc.list_flatten(cells)
        long = pc.greater(pc.utf8_length(words), 1)
        at = np.asarray(pc.list_parent_indices(cells))[np.asarray(long)]
        lengths.append(np.bincount(at, minlength=len(part)))
        pieces.append(words.filter(long).dictionary_encode())
    coded = pa.chunked_array(pieces, pa.dictionary(pa.int32(), pa.string())).unify_dictionaries()
    codes = [np.asarray(chunk.indices) for chunk in coded.chunks]
    words = np.array([], object)
    if coded.num_chunks:
        words = coded.chunk(0).dictionary.to_numpy(zero_copy_only=False).astype(object)
    starts = np.cumsum(np.concatenate(lengths))
    return starts, np.concatenate([np.empty(0, np.int32), *codes]), words


def _counted(texts: Any) -> tuple[sp.csr_matrix, np.ndarray]:
    """Count the words of each text: a matrix of counts, and the words of its columns."""
    starts, codes, words = tokens(texts)
    shape = starts.size - 1, words.size
    table = sp.csr_matrix((np.ones(codes.size), codes, starts), shape)
    table.sum_duplicates()
    return table, words


def _value_names(name: str, column: CategoryColumn) -> np.ndarray:
    return np.array([f"{name}: {value}" for value in column.values], object)


def _largest(table: sp.csr_matrix) -> np.ndarray:
    """Return the largest entry of each row; 1 for an empty one."""
    filled = np.diff(table.indptr) > 0
    largest = np.ones(table.shape[0])
    if filled.any():
        largest[filled] = np.maximum.reduceat(table.data, table.indptr[:-1][filled])
    return largest


def _best(table: sp.csr_matrix, terms: int | None) -> sp.csr_matrix:
    """Retain the largest `terms` weights of each row; of equal ones those of earlier columns."""
    table.sort_indices()
    table.eliminate_zeros()
    if terms is None:
        return table
    keep = np.ones(table.data.size, bool)
    for row in np.flatnonzero(np.diff(table.indptr) > terms):
        mine = slice(table.indptr[row], table.indptr[row + 1])
        keep[mine][np.argsort(-table.data[mine], kind="stable")[terms:]] = False
    starts = np.concatenate([[0], np.cumsum(keep)])[table.indptr]
    return sp.csr_matrix((table.data[keep], table.indices[keep], starts), table.shape)
