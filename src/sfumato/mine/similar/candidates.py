"""Candidate pairs: rows that share a band key, found in bounded memory, screened by signatures."""

from collections.abc import Callable, Iterator

import numpy as np

from sfumato.kernels.mine.similar import band_join
from sfumato.kernels.retrieve import bucket_tables
from sfumato.retrieve.lsh.buckets import coefficients

__all__ = ["BandJoin", "fewest_matches", "keys_of"]

CHUNK = 1 << 17  # pairs at a time: exact similarities of as many take a second or two
MISS = 1e-4  # probability that a pair at the threshold does not pass the signatures


def keys_of(signatures: np.ndarray, bands: int, rows: int) -> np.ndarray:
    """One key per band of a signature, uint64 (n, bands); columns after the last are not used."""
    out = np.empty((len(signatures), bands), np.uint64)
    bucket_tables.combine(signatures, coefficients(bands, rows, 0), out)
    return out


def fewest_matches(threshold: float, permutations: int) -> int:
    """Equal positions that a pair at the threshold reaches with probability 1 - MISS or more."""
    return int(np.count_nonzero(_at_most(permutations, threshold) <= MISS))


def _at_most(trials: int, probability: float) -> np.ndarray:
    """Probabilities of at most 0, 1, ..., trials - 1 successes."""
    counts = np.arange(trials)
    ways = np.cumsum(np.log(np.append(1.0, (trials - counts[:-1]) / counts[1:])))
    with np.errstate(divide="ignore"):  # of a probability of 1: no failure at all
        failures = (trials - counts) * np.log1p(-probability)
    return np.cumsum(np.exp(ways + counts * np.log(probability) + failures))


class BandJoin:
    """The pairs of rows that share a key in at least one band, band after band.

    keys: uint64 (n, bands). rows: ascending numbers of the rows to join. Pairs whose signatures
    (uint32, without columns for none) have fewer than `least` equal positions are left out. Memory
    is that of the keys, one sorted band, and CHUNK pairs.
    """

    def __init__(
        self, keys: np.ndarray, rows: np.ndarray, signatures: np.ndarray, least: int
    ) -> None:
        self.keys: np.ndarray
        self.rows: np.ndarray
        self.signatures: np.ndarray
        self.least: int
        self.keys, self.rows, self.signatures, self.least = keys, rows, signatures, least

    def chunks(
        self,
        labels: np.ndarray | None = None,
        *,
        star: bool = False,
        report: Callable[[int], None] = lambda bands: None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the pairs, each once, as first and second row (first < second).

        Rows of equal labels make no pair; labels may change between two chunks. star pairs only the
        first row of each bucket with the others, and may repeat a pair. report is called with the
        number of bands that are done.
        """
        labels = np.arange(len(self.keys)) if labels is None else labels
        for band in range(self.keys.shape[1]):
            yield from self.band(band, self.rows, labels, star=star)
            report(band + 1)

    def band(
        self, band: int, rows: np.ndarray, labels: np.ndarray | None = None, *, star: bool = False
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the pairs of ascending rows that share the key of a band, but of none before."""
        labels = np.arange(len(self.keys)) if labels is None else labels
        order = rows.astype(np.int32)
        sorted_keys = self.keys[rows, band]
        bucket_tables.sort(sorted_keys, order, np.empty_like(sorted_keys), np.empty_like(order))
        state = np.zeros(2, np.int64)
        while state[0] < order.size:
            first, second = np.empty((2, CHUNK), np.int64)
            count = band_join.pairs(
                order,
                sorted_keys,
                self.keys,
                band,
                labels,
                self.signatures,
                self.least,
                star,
                state,
                first,
                second,
            )
            if count:
                yield first[:count], second[:count]
