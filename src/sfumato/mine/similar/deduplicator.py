"""Streaming removal of near-duplicates: each text is kept or dropped as it arrives."""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.storage import Cells, Stored
from sfumato.core.validation import fraction, integer, optional
from sfumato.kernels.mine.similar import band_join as kernels
from sfumato.kernels.sketch.layout import EMPTY
from sfumato.mine.similar.banding import THRESHOLD, SCurve, choose_bands
from sfumato.mine.similar.candidates import keys_of
from sfumato.mine.similar.document_signatures import PERMUTATIONS, minima
from sfumato.mine.similar.set_source import source_of
from sfumato.mine.similar.shingling import LENGTH, NORMALISED, NORMALS, UNIT, WORDS, Shingling
from sfumato.sketch.base import SEED, Merging, refused

__all__ = ["Deduplicator"]

HASHES = 6  # bits per key in the filter: the best number at 9 bits of memory per key
MEMORY = integer(64, 2**32 // 8)
OWNER = "Deduplicator"


class Deduplicator(Stored):
    """Keep the first of similar texts in a stream, and drop those that follow.

    Parameters
    ----------
    threshold : float, default=0.8
        Jaccard similarity from which a text is a near-duplicate, above 0 and at most 1.
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
        Probability with which two texts at the threshold are compared; without `memory`.
    memory : int or None, default=None
        Bytes of a Bloom filter of band keys, 64 to 2**29, in place of the signatures of all texts
        that were retained. Memory is then fixed, and nothing of the texts is stored.
    seed : int, default=0
        Seed of the hashes.

    Attributes
    ----------
    retained : int
        Number of texts that were kept.
    dropped : int
        Number of texts that were dropped.

    Notes
    -----
    **Guarantee.** A text equal to a retained one, when normalised, is always dropped. Without
    `memory`, a text is dropped if the estimated similarity to a retained one is at least the
    threshold and both share a band, which they do with probability `recall` or more from the
    threshold up. The estimate has a standard error of sqrt(s (1 - s) / permutations).

    With `memory`, a text is dropped if one of its bands was met before, without comparison: with
    the probability of `curve` for a retained text of similarity s, besides `false_drop_rate`.

    Texts without shingles are always kept. How texts are divided into calls changes nothing. It
    takes about 4 (permutations + 10 bands) bytes per retained text, or `memory`.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 3.4 (banding).
       http://www.mmds.org
    .. [2] Khan, Underwood, Siebenschuh, Babuji, Foster, Chard, et al. "LSHBloom: memory-efficient,
       extreme-scale document deduplication". 2024. https://arxiv.org/abs/2411.04257

    Examples
    --------
    >>> stream = Deduplicator(threshold=0.8)
    >>> stream.keep(["A rose is a rose.", "a daisy", "a rose is a rose!"])
    array([ True,  True, False])
    >>> stream.keep(["A daisy..."]), stream.retained
    (array([False]), 2)
    """

    threshold: Annotated[float, THRESHOLD]
    k: Annotated[int, LENGTH]
    unit: Annotated[str, UNIT]
    normalise: Annotated[tuple[str, ...], NORMALS]
    stop_words: Annotated[tuple[str, ...], WORDS]
    permutations: Annotated[int, PERMUTATIONS]
    recall: Annotated[float, fraction]
    memory: Annotated[int | None, optional(MEMORY)]
    seed: Annotated[int, SEED]
    retained: int
    dropped: int
    _signatures: np.ndarray
    _words: np.ndarray
    _count: int
    _slots: np.ndarray
    _heads: np.ndarray
    _links: np.ndarray
    _scalars = {"retained": 0, "dropped": 0}

    def __init__(
        self,
        threshold: float = 0.8,
        *,
        k: int = 5,
        unit: str = "characters",
        normalise: Sequence[str] = NORMALISED,
        stop_words: Sequence[str] = (),
        permutations: int = 128,
        recall: float = 0.99,
        memory: int | None = None,
        seed: int = 0,
    ) -> None:
        self._set_parameters(
            threshold=threshold,
            k=k,
            unit=unit,
            normalise=normalise,
            stop_words=stop_words,
            permutations=permutations,
            recall=recall,
            memory=memory,
            seed=seed,
        )
        self.retained = self.dropped = 0
        if self.memory is None:
            self._signatures = np.empty((0, self.permutations), np.uint32)
        else:
            self._words = np.zeros(self.memory // 8, np.uint64)
        self._start()

    @cached_property
    def curve(self) -> SCurve:
        """Probability of sharing a band, as a function of the similarity."""
        # A filter cannot compare, so its bands alone must separate similar texts from others.
        recall = self.recall if self.memory is None else None
        return choose_bands(self.threshold, self.permutations, recall=recall)

    @property
    def merging(self) -> Merging:
        """Why two streams cannot be merged."""
        return refused("the second stream would be kept without regard to the first; use one.")

    @property
    def false_drop_rate(self) -> float:
        """Probability that a text like no other would be dropped now, by chance."""
        if self.memory is None:
            return 0.0
        filled = int(np.bitwise_count(self._words).sum()) / (64 * self._words.size)
        return float(1 - (1 - filled**HASHES) ** self.curve.bands)

    @property
    def nbytes(self) -> int:
        """Memory of signatures and tables, or of the filter, in bytes."""
        if self.memory is not None:
            return int(self._words.nbytes)
        tables = (self._signatures, self._slots, self._heads, self._links)
        return sum(int(table.nbytes) for table in tables)

    def keep(self, texts: Any) -> np.ndarray:
        """Decide for each text whether to keep it, and remember those that are kept.

        Parameters
        ----------
        texts : array_like of str or ShingleSets
            Texts, as in `shingles`, in the order of the stream; or their sets of hashes.

        Returns
        -------
        ndarray of shape (n,)
            True for each text to keep, False for near-duplicates of an earlier one.
        """
        rows = minima(source_of(OWNER, texts, self._shingling), self.permutations)
        alone = (rows == EMPTY).all(axis=1)
        keys = keys_of(rows, self.curve.bands, self.curve.rows)
        out = np.empty(len(rows), np.bool_)
        if self.memory is not None:
            kernels.insert_unlike_bloom(keys, alone, HASHES, self._words, out)
        else:
            self._reserve(self._count + len(rows))
            self._count = kernels.insert_unlike(
                keys,
                rows,
                alone,
                self._least,
                self._slots,
                self._heads,
                self._links,
                self._signatures,
                self._count,
                out,
            )
        self.retained += int(np.count_nonzero(out))
        self.dropped += int(np.count_nonzero(~out))
        return out

    def partial_fit(self, texts: Any) -> Self:
        """Remember the texts that `keep` would keep.

        Parameters
        ----------
        texts : array_like of str or ShingleSets
            Texts, as in `keep`.

        Returns
        -------
        Self
            The object itself.
        """
        self.keep(texts)
        return self

    def _start(self) -> None:
        """Set what follows from the parameters and the stored arrays."""
        self._shingling = Shingling.of(
            OWNER, self.k, self.unit, self.normalise, self.stop_words, self.seed
        )
        self._least = int(np.ceil(self.threshold * self.permutations))
        if self.memory is None:
            self._count = len(self._signatures)
            self._slots = np.empty(0, np.uint64)
            self._reserve(self._count)

    def _reserve(self, rows: int) -> None:
        """Make room for so many stored rows; the table stays at most half full."""
        if len(self._signatures) < rows:
            grown = np.empty((max(rows, 2 * len(self._signatures)), self.permutations), np.uint32)
            grown[: self._count] = self._signatures[: self._count]
            self._signatures = grown
        bands = self.curve.bands
        if self._slots.size >= max(2 * rows * bands, 2):
            return
        size = 1 << (2 * max(rows, 1) * bands).bit_length()
        self._slots, self._heads = np.zeros(size, np.uint64), np.full(size, -1)
        self._links = np.empty(size // 2, np.int64)
        keys = keys_of(self._signatures[: self._count], bands, self.curve.rows)
        kernels.enter(keys, self._slots, self._heads, self._links)

    def _check_parameters(self) -> None:
        if self.stop_words and self.unit != "words":
            raise ValueError(f'{OWNER}: stop_words need unit="words", not {self.unit!r}.')

    def _layout(self) -> dict[str, Cells]:
        if self.memory is None:
            return {"_signatures": Cells(np.uint32, (-1, self.permutations), "")}
        return {"_words": Cells(np.uint64, (self.memory // 8,), "")}

    def _arrays(self) -> dict[str, np.ndarray]:
        if self.memory is None:
            return {"_signatures": self._signatures[: self._count]}
        return {"_words": self._words}

    def _check_state(self) -> None:
        if min(self.retained, self.dropped) < 0:
            raise ValueError("a count is negative.")
        self._start()
