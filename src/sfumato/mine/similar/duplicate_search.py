"""Near-duplicate documents: pairs by exact Jaccard similarity, and clusters without the pairs."""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.core.validation import flag, fraction
from sfumato.errors import ParameterError
from sfumato.kernels.mine.similar import band_join, shingles
from sfumato.kernels.sketch.layout import EMPTY
from sfumato.mine.similar.banding import THRESHOLD, SCurve, choose_bands
from sfumato.mine.similar.candidates import BandJoin, fewest_matches, keys_of
from sfumato.mine.similar.document_signatures import PERMUTATIONS, minima
from sfumato.mine.similar.engine_duplicates import DuplicateSearch, EnginePairs
from sfumato.mine.similar.pair_output import PAIRS, PairOutput
from sfumato.mine.similar.set_source import SetSource, source_of
from sfumato.mine.similar.shingling import NORMALISED, Shingling

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["clusters", "connected_components", "near_duplicates", "set_pairs"]

REMEDY = (
    "give output= a Parquet path, raise max_pairs or the threshold, or use clusters, which lists "
    "no pairs."
)
MEMBERS = 1 << 24  # shingles held at a time for exact similarities
Progress = Callable[[int, int | None], None]
EXPANDED = 1 << 20  # pairs of repeats written out at a time


def near_duplicates(
    texts: Any,
    threshold: float = 0.8,
    *,
    k: int = 5,
    unit: str = "characters",
    normalise: Sequence[str] = NORMALISED,
    stop_words: Sequence[str] = (),
    permutations: int = 128,
    recall: float = 0.99,
    exact: bool = True,
    max_pairs: int = 10_000_000,
    output: str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    engine: "Engine | None" = None,
    id_column: str = "id",
    text_column: str = "text",
) -> Any:
    """Find the pairs of documents whose sets of shingles are similar.

    Parameters
    ----------
    texts : array_like of str, ShingleSets or source
        Documents, as in `shingles`; or their sets of hashes, for which the parameters of shingles
        are not used; with `engine` what the engine reads, one document per row.
    threshold : float, default=0.8
        Jaccard similarity from which a pair is reported, above 0 and at most 1.
    k : int, default=5
        Characters or words of a shingle.
    unit : {"characters", "words"}, default="characters"
        What a shingle is made of.
    normalise : sequence of str, default=('case', 'punctuation', 'space', 'unicode')
        Differences to remove first, as in `shingles`.
    stop_words : sequence of str, default=()
        Words that a shingle starts with, as in `shingles`.
    permutations : int, default=128
        Length of the signatures, 1 to 2**16.
    recall : float, default=0.99
        Probability with which a pair at the threshold is found, between 0 and 1. It chooses the
        bands, by `choose_bands`.
    exact : bool, default=True
        Whether the similarity is computed from the sets; False estimates it from the signatures.
    max_pairs : int, default=10000000
        Most pairs in memory, 24 bytes each. More go to a temporary Parquet file, with a warning;
        ValueError if the disk is too small for them.
    output : path_like or None, default=None
        Parquet file to write the pairs to as they are found, in no order. The file is in place only
        when it is complete.
    seed : int, default=0
        Seed of the hashes.
    progress : callable or None, default=None
        Called with the work done and its total, twice the number of documents: once for their
        signatures, once for the pairs. Not with `engine`.
    engine : Engine or None, default=None
        Where the documents are; None for this process.
    id_column : str, default="id"
        Name of the column of distinct ids, integers or texts; only with `engine`, as is the next.
    text_column : str, default="text"
        Name of the column of texts.

    Returns
    -------
    pyarrow.Table or pyarrow.dataset.Dataset
        Columns first, second (row numbers, first < second; with `engine` ids) and similarity,
        sorted; its metadata
        states bands, rows and recall. With `output`, or with more than `max_pairs`, the data set of
        the file, not sorted; a temporary file is removed with the data set.

    Notes
    -----
    **Guarantee.** If `exact`, every pair has a similarity of at least the threshold (of 64-bit
    hashes of the shingles), and each pair above it is reported with probability at least `recall`
    - 1e-4; the more similar, the higher. Documents that are equal when normalised are always found.
    A document without shingles is in no pair.

    Memory is that of the texts, 4 bytes per document and permutation, 8 per document and band, and
    about 300 MB, besides at most `max_pairs` pairs.

    On any engine the pairs are the same. It reads the documents twice, or once unless `exact`; each
    signature is in the memory of the engine once per band, the candidate pairs in that of the
    caller.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 3.4 (banding).
       http://www.mmds.org

    Examples
    --------
    >>> near_duplicates(["A rose is a rose.", "a daisy", "a rose is a rose!"]).to_pylist()
    [{'first': 0, 'second': 2, 'similarity': 1.0}]
    >>> from sfumato.engine import LocalEngine
    >>> rows = {"id": ["r", "d", "s"], "text": ["A rose is a rose.", "a daisy", "a rose is a rose"]}
    >>> near_duplicates(rows, engine=LocalEngine(threads=2)).to_pylist()
    [{'first': 'r', 'second': 's', 'similarity': 1.0}]
    """
    owner = "near_duplicates"
    shingling = Shingling.of(owner, k, unit, normalise, stop_words, seed)
    sizes = _check(owner, threshold, permutations, recall)
    exact = flag.check(owner, "exact", exact)
    PAIRS.check(owner, "max_pairs", max_pairs)
    if engine is not None:
        if progress is not None:
            raise ParameterError.of(owner, "progress", "must be None with an engine.")
        plan = DuplicateSearch.of(owner, (id_column, text_column), shingling, sizes, exact)
        return _engine_pairs(EnginePairs(engine, texts, plan), sizes[2], exact, max_pairs, output)
    sets = source_of(owner, texts, shingling)
    return set_pairs(owner, sets, sizes, exact, max_pairs, output, progress)


def _engine_pairs(
    search: EnginePairs,
    recall: float,
    exact: bool,
    most: int,
    output: str | os.PathLike[str] | None,
) -> Any:
    """The result of a search on an engine."""
    plan = search.plan
    with PairOutput(plan.owner, "similarity", most, output, REMEDY, search.kind) as found:
        for pairs in search.exact() if exact else search.estimated():
            found.add(*pairs)
    return found.result({**plan.facts, "recall": recall})


def clusters(
    texts: Any,
    threshold: float = 0.8,
    *,
    k: int = 5,
    unit: str = "characters",
    normalise: Sequence[str] = NORMALISED,
    stop_words: Sequence[str] = (),
    permutations: int = 128,
    recall: float = 0.99,
    seed: int = 0,
) -> np.ndarray:
    """Group documents that are linked by near-duplicates, without listing the pairs.

    Parameters
    ----------
    texts : array_like of str or ShingleSets
        Documents, as in `near_duplicates`.
    threshold : float, default=0.8
        Jaccard similarity from which two documents are linked, above 0 and at most 1.
    k : int, default=5
        Characters or words of a shingle.
    unit : {"characters", "words"}, default="characters"
        What a shingle is made of.
    normalise : sequence of str, default=('case', 'punctuation', 'space', 'unicode')
        Differences to remove first, as in `shingles`.
    stop_words : sequence of str, default=()
        Words that a shingle starts with, as in `shingles`.
    permutations : int, default=128
        Length of the signatures, 1 to 2**16.
    recall : float, default=0.99
        Probability with which a pair at the threshold is found, between 0 and 1.
    seed : int, default=0
        Seed of the hashes.

    Returns
    -------
    ndarray of shape (n,)
        The first row of the cluster of each document, int64; its own row for one that is like no
        other. Documents to retain are those whose label is their own row.

    Notes
    -----
    **Guarantee.** The clusters are the connected components of the pairs of `near_duplicates` with
    the same parameters. Where n documents are all similar, about n pairs are compared, not n**2.

    Examples
    --------
    >>> clusters(["A rose is a rose.", "a daisy", "a rose is a rose!"])
    array([0, 1, 0])
    """
    owner = "clusters"
    shingling = Shingling.of(owner, k, unit, normalise, stop_words, seed)
    sizes = _check(owner, threshold, permutations, recall)
    sets = source_of(owner, texts, shingling)
    search = _PairSearch(sets, *sizes, exact=True)
    labels = search.first_of.copy()
    for star in (True, False):  # after the stars, most pairs have one label and are passed over
        for first, second in search.join.chunks(labels, star=star):
            first, second, _ = search.verified(first, second)
            band_join.union(first, second, labels)
    return labels


def connected_components(first: Any, second: Any, rows: int) -> np.ndarray:
    """Group rows that are linked by pairs.

    Parameters
    ----------
    first : array_like of shape (n_pairs,)
        One row of each pair, as of `near_duplicates`.
    second : array_like of shape (n_pairs,)
        The other row.
    rows : int
        Number of rows.

    Returns
    -------
    ndarray of shape (rows,)
        The first row of the component of each row, int64.

    Examples
    --------
    >>> connected_components([0, 2], [2, 3], rows=5)
    array([0, 1, 0, 0, 4])
    """
    labels = np.arange(PAIRS.check("connected_components", "rows", rows))
    left, right = (np.ascontiguousarray(each, np.int64) for each in (first, second))
    if left.shape != right.shape or left.ndim != 1:
        raise ValueError("connected_components: first and second must be columns of one length.")
    if left.size and not 0 <= min(left.min(), right.min()) <= max(left.max(), right.max()) < rows:
        raise ValueError(f"connected_components: pairs must be of rows from 0 to {rows - 1}.")
    band_join.union(left, right, labels)
    return labels


def set_pairs(
    owner: str,
    sets: SetSource,
    sizes: tuple[float, int, float],
    exact: bool,
    most: int,
    output: str | os.PathLike[str] | None,
    progress: Progress | None = None,
) -> Any:
    """Pairs of similar sets; `sizes` are threshold, permutations and recall."""
    report = (lambda done, total: None) if progress is None else progress
    search = _PairSearch(sets, *sizes, exact=exact, report=lambda row: report(row, 2 * len(sets)))
    with PairOutput(owner, "similarity", most, output, REMEDY) as found:
        for pairs in search.repeats(found):
            found.add(*pairs)
        for first, second in search.join.chunks(report=search.report):
            for pairs in search.expanded(*search.verified(first, second), found):
                found.add(*pairs)
    curve = search.curve
    threshold, _, recall = sizes
    facts = {"threshold": threshold, "recall": recall, "bands": curve.bands, "rows": curve.rows}
    return found.result(facts)


def _check(owner: str, threshold: Any, permutations: Any, recall: Any) -> tuple[float, int, float]:
    return (
        THRESHOLD.check(owner, "threshold", threshold),
        PERMUTATIONS.check(owner, "permutations", permutations),
        fraction.check(owner, "recall", recall),
    )


class _PairSearch:
    """The candidates of sets, one of each group of equal sets, and their verification.

    `first_of` is the first document of each group: documents of a group are equal, whatever their
    signatures, so that a corpus of copies has few rows to join.
    """

    def __init__(
        self,
        sets: SetSource,
        threshold: float,
        permutations: int,
        recall: float,
        *,
        exact: bool,
        report: Callable[[int], None] = lambda row: None,
    ) -> None:
        self.sets, self.threshold, self.exact, self._report = sets, threshold, exact, report
        self.curve: SCurve = choose_bands(threshold, permutations, recall=recall)
        self.signatures = minima(sets, permutations, report)
        alone = (self.signatures == EMPTY).all(axis=1)
        self._group(sets.fingerprints(), alone)
        rows = np.flatnonzero((self.first_of == np.arange(len(sets))) & ~alone)
        keys = keys_of(self.signatures, self.curve.bands, self.curve.rows)
        least = fewest_matches(threshold, permutations) if exact else threshold * permutations
        self.join = BandJoin(keys, rows, self.signatures, int(np.ceil(least)))

    def report(self, bands: int) -> None:
        """Report that so many bands are joined, after all signatures."""
        n = len(self.sets)
        self._report(n + n * bands // self.curve.bands)

    def _group(self, fingerprints: np.ndarray, alone: np.ndarray) -> None:
        """Group equal documents; those without shingles are equal to none."""
        _, first, group = np.unique(fingerprints, return_index=True, return_inverse=True)
        rows = np.arange(group.size)
        self.first_of = np.where(alone, rows, first[group])
        self.by_group = np.argsort(self.first_of, kind="stable")
        sizes = np.bincount(self.first_of, minlength=rows.size)
        self.starts, self.sizes = np.cumsum(sizes) - sizes, sizes

    def verified(
        self, first: np.ndarray, second: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pairs from the threshold up, with their similarities."""
        if self.exact:
            similar = self._jaccard(first, second)
        else:
            left, right = self.signatures[first], self.signatures[second]
            similar = (left == right).mean(axis=1)
        passed = similar >= self.threshold
        return first[passed], second[passed], similar[passed]

    def _jaccard(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Exact similarities, by halves where the sets of all would not fit."""
        rows = np.unique(np.concatenate((first, second)))
        if int(self._lengths[rows].sum()) > MEMBERS and first.size > 1:
            order = np.argsort(first, kind="stable")  # so that a half has fewer documents
            out, half = np.empty(first.size), first.size // 2
            for part in (order[:half], order[half:]):
                out[part] = self._jaccard(first[part], second[part])
            return out
        members, bounds = self.sets.members(rows)
        a, b = np.searchsorted(rows, first), np.searchsorted(rows, second)
        shared = np.empty(first.size, np.int64)
        shingles.overlaps(members, bounds, a, b, shared)
        sizes = np.diff(bounds)
        return np.asarray(shared / (sizes[a] + sizes[b] - shared))

    @property
    def _lengths(self) -> np.ndarray:
        if not hasattr(self, "_all_lengths"):
            self._all_lengths = self.sets.lengths()
        return self._all_lengths

    def repeats(self, found: PairOutput) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """All pairs of equal documents."""
        groups = np.flatnonzero(self.sizes > 1)
        found.check(int((self.sizes[groups] * (self.sizes[groups] - 1) // 2).sum()))
        yield from self._products(groups, groups, np.ones(groups.size))

    def expanded(
        self, first: np.ndarray, second: np.ndarray, similar: np.ndarray, found: PairOutput
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The pairs of all documents of two groups, for each pair of groups."""
        if (self.sizes[first] == 1).all() and (self.sizes[second] == 1).all():
            yield first, second, similar
            return
        found.check(int((self.sizes[first] * self.sizes[second]).sum()))
        yield from self._products(first, second, similar)

    def _products(
        self, first: np.ndarray, second: np.ndarray, similar: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Every document of one group with every one of the other, some pairs at a time."""
        ends = np.cumsum(self.sizes[first] * self.sizes[second])
        total = int(ends[-1]) if ends.size else 0
        for start in range(0, total, EXPANDED):
            at = np.arange(start, min(start + EXPANDED, total))
            pair = np.searchsorted(ends, at, "right")
            g, h = first[pair], second[pair]
            a, b = np.divmod(at - (ends[pair] - self.sizes[g] * self.sizes[h]), self.sizes[h])
            left, right = self.by_group[self.starts[g] + a], self.by_group[self.starts[h] + b]
            once = (g != h) | (a < b)
            low, high = np.minimum(left, right)[once], np.maximum(left, right)[once]
            yield low, high, similar[pair][once]
