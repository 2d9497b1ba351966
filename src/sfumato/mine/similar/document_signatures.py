"""MinHash signatures of many documents at once, from texts, from sets, or by explicit functions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sfumato.core.validation import integer
from sfumato.kernels.sketch import minhash
from sfumato.kernels.sketch.layout import EMPTY, HASHES
from sfumato.mine.similar.set_source import SetSource, source_of
from sfumato.mine.similar.shingling import NORMALISED, Shingling
from sfumato.sketch.similarity.packed_minima import coefficients
from sfumato.sketch.similarity.token_sets import checked_offsets

__all__ = ["explicit_signatures", "linear_hashes", "minima", "permutation_ranks", "signatures"]

PERMUTATIONS = integer(1, 2**16)
NO_KEY = np.uint64(0)


def signatures(
    texts: Any,
    permutations: int = 128,
    *,
    k: int = 5,
    unit: str = "characters",
    normalise: Sequence[str] = NORMALISED,
    stop_words: Sequence[str] = (),
    seed: int = 0,
) -> np.ndarray:
    """Compute the MinHash signatures of documents, a block of them at a time.

    Parameters
    ----------
    texts : array_like of str or ShingleSets
        Documents, as in `shingles`; or their sets of hashes, for which the parameters of shingles
        are not used.
    permutations : int, default=128
        Minima of a signature, 1 to 2**16.
    k : int, default=5
        Characters or words of a shingle.
    unit : {"characters", "words"}, default="characters"
        What a shingle is made of.
    normalise : sequence of str, default=('case', 'punctuation', 'space', 'unicode')
        Differences to remove first, as in `shingles`.
    stop_words : sequence of str, default=()
        Words that a shingle starts with, as in `shingles`.
    seed : int, default=0
        Seed of the hashes.

    Returns
    -------
    ndarray of shape (n, permutations)
        One signature per row, uint32; all bits are 1 for a document without shingles.

    Notes
    -----
    **Guarantee.** The signatures are those of `MinHash` of the same seed for the sets of shingle
    texts. Two agree in each position with probability equal to the Jaccard similarity of the sets;
    equal 32-bit hashes raise that of sets of n shingles by at most n / 2**33.

    References
    ----------
    .. [1] Broder. "On the resemblance and containment of documents". SEQUENCES 1997.
       https://doi.org/10.1109/SEQUEN.1997.666900

    Examples
    --------
    >>> rows = signatures(["a rose is a rose", "A rose is a rose!", "a daisy"], 64)
    >>> bool((rows[0] == rows[1]).all()), rows.shape
    (True, (3, 64))
    """
    owner = "signatures"
    sets = source_of(owner, texts, Shingling.of(owner, k, unit, normalise, stop_words, seed))
    return minima(sets, PERMUTATIONS.check(owner, "permutations", permutations))


def minima(
    sets: SetSource, permutations: int, report: Callable[[int], None] = lambda row: None
) -> np.ndarray:
    """The signature of each set; `report` is called with how many are done."""
    out = np.full((len(sets), permutations), EMPTY, np.uint32)
    a, b = coefficients(permutations)
    for row, hashes, ends in sets.blocks():
        minhash.permute(hashes, NO_KEY, HASHES, ends, a, b, out[row : row + ends.size - 1])
        report(row + ends.size - 1)
    return out


def explicit_signatures(sets: Any, values: Any) -> np.ndarray:
    """Compute signatures by explicit hash functions or permutations of few rows.

    For teaching and for checking by hand; `signatures` simulates permutations of all 2**32 hashes.

    Parameters
    ----------
    sets : list of lists of int or tuple (offsets, members)
        Members of each set, as row numbers from 0 of a matrix with one column per set.
    values : array_like of shape (functions, rows)
        Value of each function for each row: `permutation_ranks` or `linear_hashes`.

    Returns
    -------
    ndarray of shape (n, functions)
        The smallest value of each function over each set; the largest integer for an empty set.

    Examples
    --------
    >>> ranks = permutation_ranks([[3, 1, 4, 2]])  # row 3 comes first, then 1, 4 and 2
    >>> explicit_signatures([[1, 3], [2, 3]], ranks)  # rows 2 and 4, and 3 and 4, from 0
    array([[3],
           [1]])
    """
    table = np.asarray(values)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise TypeError("explicit_signatures: values must be a matrix of integers.")
    if isinstance(sets, tuple):
        ends, members = np.asarray(sets[0]), np.asarray(sets[1], np.int64)
    else:
        lists = [np.asarray(each, np.int64) for each in sets]
        ends = np.cumsum([0, *(each.size for each in lists)])
        members = np.concatenate([np.empty(0, np.int64), *lists])
    ends = checked_offsets("explicit_signatures", ends, members.size, "members")
    if members.size and not 0 <= members.min() <= members.max() < table.shape[1]:
        raise ValueError(
            f"explicit_signatures: members must be rows from 0 to {table.shape[1] - 1}."
        )
    out = np.full((ends.size - 1, len(table)), np.iinfo(table.dtype).max, table.dtype)
    full = np.flatnonzero(np.diff(ends))
    if full.size:  # empty sets in between do not divide what is reduced
        out[full] = np.minimum.reduceat(table[:, members], ends[full], axis=1).T
    return out


def permutation_ranks(orders: Any) -> np.ndarray:
    """Convert orders of rows to the rank of each row.

    Parameters
    ----------
    orders : array_like of shape (permutations, rows)
        Each a list of the row numbers from 1, in the order in which they are visited.

    Returns
    -------
    ndarray of shape (permutations, rows)
        Rank of each row, from 1, as values for `explicit_signatures`.

    Examples
    --------
    >>> permutation_ranks([[3, 1, 4, 2]])
    array([[2, 4, 1, 3]])
    """
    found = np.asarray(orders)
    numbers = np.arange(1, found.shape[-1] + 1)
    if found.ndim != 2 or not (np.sort(found, axis=1) == numbers).all():
        raise ValueError("permutation_ranks: each order must list every row from 1 up once.")
    return np.argsort(found, axis=1) + 1


def linear_hashes(multipliers: Any, shifts: Any, modulus: int, rows: Any) -> np.ndarray:
    """Compute the hash functions (a x + b) mod p of row numbers.

    Parameters
    ----------
    multipliers : array_like of shape (functions,)
        The a of each function.
    shifts : array_like of shape (functions,)
        The b of each function.
    modulus : int
        The prime p, from 2 to 2**31, not below the number of rows.
    rows : array_like of shape (rows,)
        The numbers x to hash, from 0 to 2**31.

    Returns
    -------
    ndarray of shape (functions, rows)
        Values from 0 to p - 1, for `explicit_signatures`.

    Examples
    --------
    >>> linear_hashes([2], [1], 5, [1, 2, 3, 4, 5])
    array([[3, 0, 2, 4, 1]])
    """
    size = integer(2, 2**31).check("linear_hashes", "modulus", modulus)
    a, b, x = (np.asarray(each, np.int64) for each in (multipliers, shifts, rows))
    if a.shape != b.shape or a.ndim != 1:
        raise ValueError("linear_hashes: multipliers and shifts must be as many.")
    return np.asarray(((a % size)[:, None] * (x % size) + (b % size)[:, None]) % size)
