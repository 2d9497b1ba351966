"""Search by terms, then by rank: which nodes have the words of a query, and the best of them."""

from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.ids import distinct, ids_of, positions
from sfumato.core.tables import described
from sfumato.core.typing import Column
from sfumato.core.validation import integer, one_of
from sfumato.errors import NullValueError, ParameterError, ParameterTypeError
from sfumato.mine.rank.page_rank.ranks import Ranks

__all__ = ["TextIndex"]

OWNER = "TextIndex"
MODE = one_of(("all", "any"))
BETWEEN = r"[^\p{L}\p{N}]+"  # what separates words


class TextIndex:
    """The nodes whose texts have a word, for queries that are then ranked by links.

    Parameters
    ----------
    ids : array_like of shape (n_texts,)
        Node of each text; a node may have several, as the anchor texts of the links to it.
    texts : array_like of shape (n_texts,)
        The texts. Words are runs of letters and digits; case does not count.

    Notes
    -----
    **Guarantee.** A word counts once for a node, however often it is repeated: term spam gains
    nothing. Index the anchor texts of links under their targets, and a page is found by what
    others write about it, not by what it says itself.

    References
    ----------
    Brin and Page (1998), section 2.2 on anchor text.

    Examples
    --------
    >>> from sfumato.mine.rank import Graph, pagerank
    >>> index = TextIndex(["imdb", "shirts"], ["Movie reviews", "movie movie movie shirts"])
    >>> ranks = pagerank(Graph(["a", "b", "a"], ["imdb", "imdb", "shirts"]))
    >>> index.search("movie", ranks)[0].tolist()
    ['imdb', 'shirts']
    """

    def __init__(self, ids: Column, texts: Column) -> None:
        nodes = ids_of(ids, "ids")
        column = _texts(texts)
        if len(column) != nodes.size:
            raise ParameterError.of(
                OWNER, "texts", f"must be as many as ids, {nodes.size}, not {len(column)}."
            )
        self.ids: np.ndarray
        self.ids, owner = distinct(nodes)
        words = _words(column)
        rows = np.repeat(owner, np.asarray(pc.list_value_length(words), np.int64))
        terms = words.flatten().dictionary_encode()
        self._terms = {word: code for code, word in enumerate(terms.dictionary.to_pylist())}
        codes = np.asarray(terms.indices, np.int64)
        pairs = np.unique(codes * max(self.ids.size, 1) + rows)  # a word counts once for a node
        self._nodes = pairs % max(self.ids.size, 1)
        counts = np.bincount(pairs // max(self.ids.size, 1), minlength=len(self._terms))
        self._offsets = np.concatenate([[0], np.cumsum(counts)])

    def __repr__(self) -> str:
        return described(self, nodes=int(self.ids.size), words=len(self._terms))

    def _counts(self, query: str) -> tuple[np.ndarray, int]:
        """How many words of a query each node has, and how many there are."""
        if not isinstance(query, str):
            kind = type(query).__name__
            raise ParameterTypeError.of(OWNER, "query", f"must be a text, not {kind}.")
        wanted = set(_words(pa.array([query], pa.large_string())).flatten().to_pylist())
        found = np.zeros(self.ids.size, np.int64)
        for word in wanted:
            code = self._terms.get(word)
            if code is not None:
                found[self._nodes[self._offsets[code] : self._offsets[code + 1]]] += 1
        return found, len(wanted)

    def match(self, query: str, mode: str = "all") -> np.ndarray:
        """Find the nodes that have the words of a query.

        Parameters
        ----------
        query : str
            Words.
        mode : {"all", "any"}, default="all"
            Whether a node must have all of them, or one.

        Returns
        -------
        ndarray
            Their ids, in the order in which they were given; none for a query without words.

        Examples
        --------
        >>> TextIndex([7, 8], ["green tea", "black tea"]).match("Tea, green").tolist()
        [7]
        """
        every = MODE.check(OWNER, "mode", mode) == "all"
        counts, words = self._counts(query)
        least = words if every else 1
        return np.asarray(self.ids[(counts >= least) & (words > 0)])

    def topic(self, query: str) -> dict[Any, float]:
        """Weigh nodes by the words of a query that they have, for topic-specific ranks.

        Parameters
        ----------
        query : str
            Words.

        Returns
        -------
        dict
            For each node with one of the words, the fraction of them that it has: a `teleport` of
            `pagerank`.

        Examples
        --------
        >>> TextIndex([7, 8], ["green tea", "black tea"]).topic("green tea")
        {7: 1.0, 8: 0.5}
        """
        counts, words = self._counts(query)
        at = np.flatnonzero(counts)
        return dict(zip(self.ids[at].tolist(), (counts[at] / max(words, 1)).tolist(), strict=True))

    def search(
        self, query: str, ranks: Ranks, n: int = 10, *, mode: str = "all"
    ) -> tuple[np.ndarray, np.ndarray]:
        """Find the nodes that have the words of a query, the best ranked first.

        Parameters
        ----------
        query : str
            Words.
        ranks : Ranks
            Ranks of the nodes; one without a rank has 0.
        n : int, default=10
            How many, from 1 up.
        mode : {"all", "any"}, default="all"
            As in `match`.

        Returns
        -------
        ids : ndarray
            The ids of at most n nodes.
        scores : ndarray
            Their ranks.
        """
        most = integer(1).check(OWNER, "n", n)
        found = self.match(query, mode)
        at = positions(found, np.asarray(ranks.nodes))
        scores = np.where(at >= 0, ranks.scores[at], 0.0)
        order = np.argsort(-scores, kind="stable")[:most]
        return found[order], scores[order]


def _texts(texts: Any) -> pa.Array:
    try:
        column = pa.chunked_array(texts) if hasattr(texts, "__arrow_c_stream__") else texts
        column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
        column = column.cast(pa.large_string()).combine_chunks()
    except (pa.ArrowException, TypeError, ValueError):
        raise ParameterTypeError.of(OWNER, "texts", "must be one column of texts.") from None
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise NullValueError(f"{OWNER}: texts: row {row} is null; drop or fill nulls first.")
    return column


def _words(column: pa.Array) -> pa.Array:
    """Lists of the words of each text, in lower case."""
    spaced = pc.replace_substring_regex(pc.utf8_lower(column), BETWEEN, " ")
    trimmed = pc.utf8_trim(spaced, " ")
    words = pc.split_pattern(trimmed, " ")
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar([], words.type), words)
