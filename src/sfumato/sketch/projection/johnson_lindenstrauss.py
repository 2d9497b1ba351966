"""Johnson-Lindenstrauss projections: norms and distances in far fewer dimensions.

`FastMap` is the fast transform: random signs, Walsh-Hadamard transform, sampled entries.
"""

from bisect import bisect_left
from typing import Annotated, Any, Self

import numpy as np

from sfumato.core.arrays import real_weights
from sfumato.core.arrays import rows as checked
from sfumato.core.hashing import KeyColumn, hash_column
from sfumato.core.storage import Cells
from sfumato.core.typing import Column
from sfumato.core.validation import fraction, integer, one_of
from sfumato.kernels.sketch import codes as codebooks
from sfumato.kernels.sketch import projections as hadamard
from sfumato.kernels.sketch.layout import PANEL
from sfumato.sketch import concentration
from sfumato.sketch.base import FLOAT_SUMS, SEED, KeyedSketch, LinearSketch
from sfumato.sketch.projection.directions import fill_entries, panel_count, product

__all__ = ["FastMap", "JohnsonLindenstrauss", "padded_length", "positions"]

NUMBERS = 2**20  # transformed at a time: 8 MiB
SHORTEST = 8  # the kernel's first step takes eight numbers


def padded_length(dimension: int) -> int:
    """The length of the transform: the next power of two, at least 8."""
    return max(SHORTEST, 1 << (dimension - 1).bit_length())


class FastMap:
    """Seeded map of vectors of one dimension to `count` numbers, unscaled.

    If all entries are sampled, norms are preserved exactly up to the factor sqrt(count).
    """

    def __init__(self, dimension: int, count: int, seed: int) -> None:
        length = padded_length(dimension)
        hashes = hash_column(range(length), seed)
        self.length, self.count = length, count
        self.flips: np.ndarray = (
            1.0 - 2.0 * (hashes >> np.uint64(63)).astype(np.float64)[:dimension]
        )
        # The order by the other bits of the hash is random, independent of the signs.
        order = np.argsort(hashes << np.uint64(1), kind="stable")
        self.sample = np.sort(order[:count])

    def transform(self, rows: np.ndarray) -> np.ndarray:
        """Compute the sampled entries of the transform of every row."""
        out = np.empty((len(rows), self.count))
        step = max(1, NUMBERS // self.length)
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            padded = np.zeros((len(part), self.length))
            np.multiply(part, self.flips, out=padded[:, : self.flips.size])
            hadamard.transform(padded)
            out[start : start + step] = padded[:, self.sample]
        return out

    def entries(self, coordinates: np.ndarray, out: np.ndarray) -> None:
        """Write the contribution of each coordinate to the sampled entries, in panels."""
        sample = np.zeros(PANEL * panel_count(self.count), np.uint64)
        sample[: self.count] = self.sample
        flips = self.flips[coordinates.astype(np.int64)]
        codebooks.walsh(coordinates, flips, sample, out)


def positions(owner: str, column: KeyColumn, dimension: int) -> np.ndarray:
    """Check that keys are coordinates from 0 to dimension - 1, and return them."""
    if column.kind == "text" or any(piece.missing is not None for piece in column.pieces):
        raise TypeError(f"{owner}: keys must be coordinates for kind 'hadamard', integers.")
    pieces = [_plain(piece.values) for piece in column.pieces]
    keys = np.concatenate(pieces) if pieces else np.empty(0, np.int64)
    outside = (keys < 0) | (keys >= dimension)
    if outside.any():
        raise ValueError(
            f"{owner}: keys must be coordinates from 0 to {dimension - 1} for kind 'hadamard'; row "
            f"{int(outside.argmax())} is not."
        )
    return keys.astype(np.uint64)


def _plain(values: np.ndarray) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values
    return np.asarray(values.dictionary_decode())


KINDS = ("gaussian", "sign", "achlioptas", "sparse", "hadamard")
MOST = 2**16
LONGEST = 2**20  # columns of a matrix to transform
ROUNDING = 1e-12  # relative error of even an isometry in float64


class JohnsonLindenstrauss(LinearSketch, KeyedSketch):
    """Random projection that preserves norms, distances and inner products.

    `update` sketches one vector over any keys, with additions and removals; `transform` projects
    the rows of a matrix. Merges up to rounding.

    Parameters
    ----------
    dimensions : int
        Number of dimensions after the projection, from 1 to 2**16.
    kind : {"gaussian", "sign", "achlioptas", "sparse", "hadamard"}, default="gaussian"
        Entries of the projection for one key.

        - "gaussian": normal entries, with an exact bound.
        - "sign": +1 or -1.
        - "achlioptas": +1, -1, or with probability two thirds 0.
        - "sparse": `nonzeros` entries +1 or -1, one in each block. Fast updates, weaker bound.
        - "hadamard": fast transform of matrices; keys must be coordinates below `input_dimension`.
    nonzeros : int, default=8
        Non-zero entries per key for "sparse", from 1 to 64. It must divide `dimensions`.
    input_dimension : int, default=0
        Dimension of the vectors for "hadamard", up to 2**24; 0 for other kinds.
    seed : int, default=0
        Seed of the entries, which are derived from the hashes of the keys and never stored.
        Sketches merge only if their seeds are equal.

    Attributes
    ----------
    mass : float
        Sum of the absolute weights, at most 1e140.

    Notes
    -----
    **Guarantee.** The squared norm is unbiased, and its relative error is at most
    ``error_bound(c)`` with probability at least c; the same is true of squared distances. The error
    of an inner product is at most ``error_bound(c) * (|u|**2 + |v|**2) / 2`` with probability at
    least 1 - 2 (1 - c).

    `transform` gives a row the cells, scaled, that an update with the keys 0, 1, 2, ... and the
    row's numbers as weights would give.

    References
    ----------
    .. [1] Johnson, Lindenstrauss. "Extensions of Lipschitz mappings into a Hilbert space".
       Contemporary Mathematics 26, 1984.
    .. [2] Achlioptas. "Database-friendly random projections: Johnson-Lindenstrauss with binary
       coins". J. Comput. Syst. Sci. 2003, Theorem 1.1 (kinds "sign" and "achlioptas").
    .. [3] Ailon, Chazelle. "Approximate nearest neighbors and the fast Johnson-Lindenstrauss
       transform". STOC 2006 (kind "hadamard").
    .. [4] Tropp. "Improved analysis of the subsampled randomized Hadamard transform". Advances in
       Adaptive Data Analysis 3, 2011. https://arxiv.org/abs/1011.1595
    .. [5] Kane, Nelson. "Sparser Johnson-Lindenstrauss Transforms". J. ACM 2014 (kind "sparse").
       https://arxiv.org/abs/1012.1577
    .. [6] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, Lemma 2.3.1 (Johnson-Lindenstrauss lemma).
       https://theses.hal.science/tel-01430156

    Examples
    --------
    >>> tea = JohnsonLindenstrauss(1024).update(["black", "green"], [3.0, 4.0])
    >>> round(tea.norm())
    5
    >>> JohnsonLindenstrauss(64, kind="sparse").transform(np.ones((2, 9))).shape
    (2, 64)
    """

    dimensions: Annotated[int, integer(1, MOST)]
    kind: Annotated[str, one_of(KINDS)]
    nonzeros: Annotated[int, integer(1, 64)]
    input_dimension: Annotated[int, integer(0, 2**24)]
    seed: Annotated[int, SEED]
    keys: str
    version = 2  # a key has one hash, whatever its type
    _scalars = {"mass": 0.0, "keys": ""}
    _no_release = FLOAT_SUMS
    _map: FastMap | None = None

    def __init__(
        self,
        dimensions: int,
        *,
        kind: str = "gaussian",
        nonzeros: int = 8,
        input_dimension: int = 0,
        seed: int = 0,
    ) -> None:
        self._set_parameters(
            dimensions=dimensions,
            kind=kind,
            nonzeros=nonzeros,
            input_dimension=input_dimension,
            seed=seed,
        )
        self._allocate()

    @classmethod
    def from_error(
        cls, error: float, points: int = 2, confidence: float = 0.99, **parameters: Any
    ) -> Self:
        """Build the projection of fewest dimensions that preserves all distances among points.

        Parameters
        ----------
        error : float
            Bound on the relative error of squared distances, between 0 and 1.
        points : int, default=2
            Number of points, at least 2.
        confidence : float, default=0.99
            Probability with which the bound holds for all pairs at once, between 0 and 1.
        **parameters : object
            Other parameters of `JohnsonLindenstrauss`: kind, nonzeros, input_dimension, seed.

        Returns
        -------
        Self
            An empty sketch; ValueError if the kind needs more dimensions than it can have.

        Notes
        -----
        The failure probability is divided equally among the pairs. Distances change by less than
        their squares, so this is the Johnson-Lindenstrauss lemma (thesis, Lemma 2.3.1) with an
        explicit constant.
        """
        error = fraction.check("JohnsonLindenstrauss", "error", error)
        points = integer(2).check("JohnsonLindenstrauss", "points", points)
        miss = 1 - fraction.check("JohnsonLindenstrauss", "confidence", confidence)
        miss *= 2 / (points * (points - 1))
        # One of the largest size checks the parameters; dimensions come in steps of its blocks.
        largest = cls(_most(**parameters), **parameters)
        step = largest.nonzeros if largest.kind == "sparse" else 1
        sizes = range(step, largest.dimensions + 1, step)
        at = bisect_left(sizes, True, key=lambda k: cls(k, **parameters)._miss(error) <= miss)
        if at == len(sizes):
            raise ValueError(
                f"JohnsonLindenstrauss: error {error!r} among {points} points needs more than "
                f"{sizes[-1]} dimensions of kind {largest.kind!r}; allow more or take another kind."
            )
        return cls(sizes[at], **parameters)

    def update(self, keys: Column, weights: Column | None = None) -> Self:
        """Add weights to the coordinates of keys; a negative weight removes.

        Parameters
        ----------
        keys : array_like of shape (n,)
            Keys of any types; for kind "hadamard", integers from 0 to ``input_dimension - 1``.
        weights : array_like of shape (n,) or None, default=None
            Real number to add for each key, up to 1e200 in absolute value; None adds 1 for each.

        Returns
        -------
        Self
            The sketch itself.
        """
        column = self._key_column(keys)
        weighted = real_weights("JohnsonLindenstrauss", weights, column.size)
        if weighted is None:
            weighted = np.ones(column.size)
        mass = self._heavier(np.abs(weighted).sum())
        added = np.zeros(self.dimensions)
        if self.kind == "hadamard":
            at = positions("JohnsonLindenstrauss", column, self.input_dimension)
            added += self._sums(weighted[None], at)[0]
        else:
            for rows, hashes in self._hashes(column):
                added += self._sums(weighted[None, rows], hashes)[0]
        self._cells += added
        self.mass = mass
        self._note_keys(column)
        return self

    def transform(self, rows: Any) -> np.ndarray:
        """Project the rows of a matrix; the sketch is not changed.

        Parameters
        ----------
        rows : array_like of shape (n, columns)
            Finite numbers: NumPy array, Arrow table, data frame or list of lists; up to 2**20
            columns, or `input_dimension` of them for kind "hadamard".

        Returns
        -------
        ndarray of shape (n, dimensions)
            Projected rows, scaled to preserve norms.
        """
        if self.kind == "hadamard":
            matrix = checked("JohnsonLindenstrauss", rows, self.input_dimension)
            return self._fast_map().transform(matrix) * self._scale
        matrix = checked("JohnsonLindenstrauss", rows)
        integer(0, LONGEST).check("JohnsonLindenstrauss", "columns of rows", matrix.shape[1])
        return self._sums(matrix, hash_column(range(matrix.shape[1]), self.seed)) * self._scale

    def error_bound(self, confidence: float = 0.99) -> float:
        """Bound the relative error of a squared norm or distance.

        Parameters
        ----------
        confidence : float, default=0.99
            Probability with which the bound holds for each vector, between 0 and 1.

        Returns
        -------
        float
            Bound on the relative error; it does not depend on the data.

        Notes
        -----
        The bound is exact for "gaussian"; by Achlioptas' theorem for "sign" and "achlioptas"; by
        Chebyshev's inequality for "sparse", with variance 2 / dimensions, as blocks are
        independent; and the better of Chebyshev's and Bernstein's inequalities for "hadamard".
        """
        miss = 1 - fraction.check("JohnsonLindenstrauss", "confidence", confidence)
        return max(concentration.smallest_error(self._miss, miss), ROUNDING)

    def _miss(self, error: float) -> float:
        if self.kind == "gaussian":
            return concentration.gaussian(self.dimensions, error)
        if self.kind == "sparse":
            return concentration.chebyshev(2 / self.dimensions, error)
        if self.kind == "hadamard":
            return concentration.hadamard(
                self.dimensions, padded_length(self.input_dimension), error
            )
        return concentration.moments(self.dimensions, error)

    def _sums(self, rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
        """Multiply rows by the entries of the keys (their hashes, or coordinates), unscaled."""
        if self.kind == "sparse":
            blocks = self.nonzeros, self.dimensions // self.nonzeros
            out = np.zeros((len(rows), *blocks))
            hadamard.scatter(rows, keys, out)
            return out.reshape(len(rows), self.dimensions)

        def fill(part: slice, out: np.ndarray) -> None:
            if self.kind == "hadamard":
                self._fast_map().entries(keys[part], out)
            else:
                fill_entries(self.kind, keys[part], out)

        return product(rows, self.dimensions, fill)

    def _fast_map(self) -> FastMap:
        if self._map is None:
            self._map = FastMap(self.input_dimension, self.dimensions, self.seed)
        return self._map

    @property
    def _scale(self) -> float:
        square = {"achlioptas": 3 / self.dimensions, "sparse": 1 / self.nonzeros}
        return float(np.sqrt(square.get(self.kind, 1 / self.dimensions)))

    def _layout(self) -> dict[str, Cells]:
        return {"_cells": Cells(np.float64, (self.dimensions,))}

    def _check_parameters(self) -> None:
        if self.kind == "sparse" and self.dimensions % self.nonzeros:
            raise ValueError(
                f"JohnsonLindenstrauss: dimensions must be a multiple of nonzeros for kind "
                f"'sparse', not {self.dimensions} of {self.nonzeros}."
            )
        if self.kind == "hadamard":
            self._check_length()

    def _check_length(self) -> None:
        if self.input_dimension == 0:
            raise ValueError("JohnsonLindenstrauss: kind 'hadamard' needs input_dimension.")
        length = padded_length(self.input_dimension)
        if self.dimensions > length:
            raise ValueError(
                f"JohnsonLindenstrauss: dimensions must be at most {length} (input_dimension as a "
                f"power of 2) for kind 'hadamard', not {self.dimensions}."
            )


def _most(kind: str = "gaussian", nonzeros: Any = 8, input_dimension: Any = 0, **_: Any) -> int:
    """The maximum number of dimensions for these parameters."""
    if kind == "hadamard" and isinstance(input_dimension, int):
        return min(MOST, padded_length(input_dimension))
    if kind == "sparse" and isinstance(nonzeros, int) and nonzeros > 0:
        return MOST // nonzeros * nonzeros
    return MOST
