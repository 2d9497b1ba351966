"""Base of the encoders: vectors to binary codes, and back to estimates of inner products."""

import math
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Matrix
from sfumato.core.validation import Limit, flag, integer, one_of, optional
from sfumato.kernels.retrieve import sign_codes as sides
from sfumato.retrieve.encoders.linear import (
    Basis,
    Batch,
    batches,
    check_finite,
    frame,
    matrix,
    packed,
)
from sfumato.sketch.base import SEED
from sfumato.sketch.projection.directions import MOST_ENTRIES

__all__ = ["CodeEncoder", "Codes", "pack", "ratio"]

LEADING = 0.98  # of the atoms' squared lengths: what the other bits add changes few ranks
ALONG = 100.0  # weight of an error along the vector itself, which confuses near neighbours


def ratio(above: np.ndarray | float, below: np.ndarray) -> np.ndarray:
    """Quotients, 0 where the divisor is not above 0."""
    return np.asarray(np.divide(above, below, out=np.zeros(len(below)), where=below > 0))


DIMENSION = integer(1, 2**24)  # of a file


class Codes(NamedTuple):
    """Binary codes of n vectors, as made by `CodeEncoder.encode`.

    Parameters
    ----------
    words : ndarray of shape (n, ceil(bits / 64))
        Bits of the codes, uint64: bit j is in word ``j >> 6``, lowest first; spare bits are 0.
    factors : ndarray of shape (n, 1)
        Factor of each code, float32; of shape (n, 0) if the encoder stores none.
    short : ndarray of shape (n, ceil(bits / 64)) or None
        Plain signs for a Hamming short-list, uint64, or None.

    Examples
    --------
    >>> from sfumato.retrieve import tight_frame
    >>> codes = tight_frame(64).fit([[1.0, 0.0]]).encode([[1.0, 0.0], [0.0, 1.0]])
    >>> codes.words.shape, codes.factors.shape, codes.short
    ((2, 1), (2, 0), None)
    """

    words: np.ndarray
    factors: np.ndarray
    short: np.ndarray | None

    def __repr__(self) -> str:
        return described(self, **self._asdict())


class CodeEncoder:
    """Base of encoders of vectors as binary codes.

    A code b in {-1, 1}^bits represents centre + factor * (sum of b_j atom_j). Build encoders with
    `project_and_sign`, `tight_frame`, `anti_sparse`, `optimal`, `qolsh` or `learned`.

    Parameters
    ----------
    **parameters : object
        Of every encoder: `bits`, the bits of a code; `seed`, that of the directions; `center`,
        whether the mean of the rows passed to `fit` is subtracted first; `factor`, None, "unbiased"
        or "nearest" (see Notes); `short`, whether `Codes.short` stores the signs. And the encoder's
        own.

    Attributes
    ----------
    atoms_ : ndarray of shape (bits, dimension)
        Vectors whose signed sum reconstructs a vector, float32.
    centre_ : ndarray of shape (dimension,)
        Centre that is subtracted, 0 without `center`.
    dimension_ : int
        Number of columns of a vector.
    directions_ : ndarray of shape (bits, dimension)
        Directions whose signs a code starts from, float32.
    reach_ : float
        Length of a reconstruction (relative to the centre) without a factor.

    Notes
    -----
    **Guarantee.** A code depends on its vector, the parameters and the fit, not on other rows. The
    code of a zero vector (or one equal to the centre) has all bits 0 and the factor 0; without a
    factor it represents the same direction as any other code of all 0.

    Without a factor a code represents a direction, with the length of a unit vector (with a centre:
    the mean distance from it). A factor takes 4 bytes per vector. "unbiased" is <r, r> / <r, W b>
    for r = vector - centre, which makes the estimate of <r, r> exact and that of <q, r> unbiased
    over random rotations [2]_. "nearest" minimises the error of the reconstruction, with the error
    along the vector itself weighted 100 times, which separates near neighbours; without a centre it
    equals "unbiased" within 1 %, and with a centre it is much better.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, equations (5.4) (reconstruction from a code) and (5.14) (estimate of the
       inner product). https://theses.hal.science/tel-01430156
    .. [2] Gao, Long. "RaBitQ: Quantizing High-Dimensional Vectors with a Theoretical Error Bound
       for Approximate Nearest Neighbor Search". SIGMOD 2024, Theorem 3.2 (estimate and its error).
       https://arxiv.org/abs/2405.12497

    Examples
    --------
    >>> from sfumato.retrieve import CodeEncoder, tight_frame
    >>> encoder = tight_frame(64, factor="unbiased").fit([[3.0, 4.0]])
    >>> isinstance(encoder, CodeEncoder), encoder.dimension_, encoder.nbytes_per_vector
    (True, 2, 12)
    """

    kind: ClassVar[str] = ""
    precision: ClassVar[int] = 4  # bits of a query's weights in the asymmetric scan
    scaled: ClassVar[bool] = True  # whether codes have factors, stored or else those of `scales`
    LIMITS: ClassVar[dict[str, Limit]] = {
        "bits": integer(1, 2**16),
        "seed": SEED,
        "center": flag,
        "factor": optional(one_of(("unbiased", "nearest"))),
        "short": flag,
    }
    _kinds: ClassVar[dict[str, type["CodeEncoder"]]] = {}

    bits: int
    seed: int
    center: bool
    factor: str | None
    short: bool
    dimension_: int
    centre_: np.ndarray
    reach_: float
    directions_: np.ndarray
    atoms_: np.ndarray
    _stored: dict[str, np.ndarray]  # of a state whose directions were not needed so far

    def __init_subclass__(cls) -> None:
        CodeEncoder._kinds[cls.kind] = cls

    def __init__(self, **parameters: Any) -> None:
        for name in sorted(parameters.keys() ^ self.LIMITS.keys()):
            raise ValueError(
                f"{self.kind}: its parameters are {', '.join(self.LIMITS)}; {name!r} is missing or "
                f"none of them."
            )
        for name, limit in self.LIMITS.items():
            setattr(self, name, limit.check(self.kind, name, parameters[name]))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{self.kind}({inside})"

    def get_params(self) -> dict[str, Any]:
        """Return the parameters by name.

        Returns
        -------
        dict
            Names and values.
        """
        return {name: getattr(self, name) for name in self.LIMITS}

    def fit(self, X: Matrix) -> Self:
        """Fit the encoder: the dimension, the centre, and what else is learned.

        Parameters
        ----------
        X : array_like of shape (n, dimension)
            Vectors like those to come.

        Returns
        -------
        Self
            The object itself.
        """
        rows = matrix(self.kind, X)
        if rows.shape[0] == 0 or rows.shape[1] == 0:
            raise ValueError(f"{self.kind}: fit needs at least one row of at least one number.")
        self._check_dimension(rows.shape[1])
        centre, reach = self._centre(rows)
        directions, atoms = self._learn(rows, centre)
        self._adopt(centre, reach, directions, atoms)
        return self

    def encode(self, X: Matrix) -> Codes:
        """Encode vectors.

        Parameters
        ----------
        X : array_like of shape (n, dimension)
            Vectors, all finite.

        Returns
        -------
        Codes
            One code per row.
        """
        rows = matrix(self.kind, X, self._fitted())
        words = np.empty((len(rows), self._words), np.uint64)
        short = np.empty_like(words) if self.short else None
        factors = np.empty((len(rows), int(self.factor is not None)), np.float32)
        for batch in batches(self.kind, rows, self.centre_, self._basis.height):
            starts, projections = self._basis.start(batch.unit)
            if short is not None:
                pack(starts, batch, self.bits, short)
            chosen = self._choose(batch.unit, projections, starts)
            pack(chosen, batch, self.bits, words)
            if self.factor is not None:
                factors[batch.part, 0] = self._factors(chosen, projections, batch)
        return Codes(words, factors, short)

    def reconstruct(self, codes: Codes) -> np.ndarray:
        """Reconstruct approximate vectors from their codes.

        Parameters
        ----------
        codes : Codes
            Codes made by `encode`.

        Returns
        -------
        ndarray of shape (n, dimension)
            Approximations, float32; unit vectors if there is neither a centre nor a factor.
        """
        out = np.empty((len(codes.words), self._fitted()), np.float32)
        own = self.factor is not None
        if codes.factors.shape != (len(out), int(own)):
            raise ValueError(
                f"{self.kind}: factors must be of shape {(len(out), int(own))}, as encode makes "
                f"them, not {codes.factors.shape}."
            )
        for part, sums, lengths in self._basis.sums(codes.words):
            factors = codes.factors[part, 0] if own else ratio(self.reach_, lengths)
            out[part] = self.centre_ + factors[:, None] * sums
        return out

    def scales(self, words: np.ndarray) -> np.ndarray:
        """Compute the factors of codes that store none, from their bits.

        Parameters
        ----------
        words : ndarray of shape (n, ceil(bits / 64))
            Bits of the codes, as `Codes.words`.

        Returns
        -------
        ndarray of shape (n,)
            ``reach_ / norm(W b)``, float32 (thesis, equation (5.14), the estimate of inner
            products); 1 for learned codes, whose atoms carry the lengths.
        """
        self._fitted()
        out = np.empty(len(words), np.float32)
        for part, _, lengths in self._basis.sums(words):
            out[part] = ratio(self.reach_, lengths)
        return out

    def query_words(self, Q: Any) -> np.ndarray:
        """Compute the signs of queries, to be compared with codes by Hamming distance.

        Parameters
        ----------
        Q : array_like of shape (n_queries, dimension)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries, ceil(bits / 64))
            Signs as bits, uint64.
        """
        rows = matrix(self.kind, Q, self._fitted())
        out = np.empty((len(rows), self._words), np.uint64)
        for batch in batches(self.kind, rows, self.centre_, self._basis.height):
            words = out[batch.part]
            words[...] = self._basis.sign_words(batch.unit[: batch.size])
            if batch.size > 1 or batch.lengths[0] == 0:
                words[batch.lengths[: batch.size] == 0] = 0
        return out

    def query_weights(self, Q: Any) -> tuple[np.ndarray, np.ndarray]:
        """Compute the weights that estimate inner products of queries with codes.

        Parameters
        ----------
        Q : array_like of shape (n_queries, dimension)
            Queries.

        Returns
        -------
        weights : ndarray of shape (n_queries, bits)
            Weight of each bit, float32.
        offsets : ndarray of shape (n_queries,)
            Products with the centre, float32.

        Notes
        -----
        The estimate of <q, x> is offset + factor * sum of weight_j b_j, with the code's factor or
        else `scales`: the inner product of q with the reconstruction.
        """
        rows = matrix(self.kind, Q, self._fitted())
        with np.errstate(over="ignore"):  # what float32 cannot represent is found below
            queries = np.ascontiguousarray(rows, np.float32)
        weights, lengths, offsets = self.padded_weights(queries)
        check_finite(self.kind, queries, lengths)
        return np.ascontiguousarray(weights[:, : self.bits]), offsets

    def padded_weights(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute the weights of the bits of whole words, 0 past the code.

        Parameters
        ----------
        queries : ndarray of shape (n_queries, dimension)
            Queries, float32, C-contiguous.

        Returns
        -------
        weights : ndarray of shape (n_queries, 64 * ceil(bits / 64))
            Weight of each bit, float32.
        lengths : ndarray of shape (n_queries,)
            Lengths of the queries, float64; not finite where a number of a query is not.
        offsets : ndarray of shape (n_queries,)
            Products with the centre, float32.
        """
        unit, lengths = sides.units(queries)  # products of which do not overflow
        along = self._basis.weigh(unit)[:, : self.bits]
        weights = np.zeros((len(queries), 64 * self._words), np.float32)
        np.multiply(along, lengths[:, None], out=weights[:, : self.bits], casting="same_kind")
        offsets = (unit.astype(np.float64) * self.centre_).sum(axis=1) * lengths
        return weights, lengths, offsets.astype(np.float32)

    @property
    def tells_lengths(self) -> bool:
        """Whether codes represent vectors with their lengths, not directions only."""
        return self.factor is not None or not self.scaled

    @property
    def nbytes_per_vector(self) -> int:
        """Bytes of a code: words, factor and short."""
        return 8 * self._words * (1 + self.short) + 4 * (self.factor is not None)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the fitted state as plain values and arrays, for `from_state`.

        Returns
        -------
        parameters : dict
            Kind, parameters, dimension and reach.
        arrays : dict
            Learned arrays by name; random directions are not stored but made from the seed.
        """
        learned = {"dimension": self._fitted(), "reach": self.reach_}
        arrays = {"centre": self.centre_} if self.center else {}
        return {"kind": self.kind, **self.get_params(), **learned}, arrays | self._learned()

    @staticmethod
    def from_state(parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> "CodeEncoder":
        """Rebuild a fitted encoder from its `state`.

        Parameters
        ----------
        parameters : dict
            Plain values, as of `state`.
        arrays : dict
            Learned arrays by name, as of `state`.

        Returns
        -------
        CodeEncoder
            An encoder with equal codes.

        Raises
        ------
        ValueError
            If the state is invalid.
        """
        given = dict(parameters)
        kind, dimension = given.pop("kind", None), given.pop("dimension", None)
        reach = given.pop("reach", None)
        if kind not in CodeEncoder._kinds:
            raise ValueError(f"CodeEncoder: kind must be one of {', '.join(CodeEncoder._kinds)}.")
        encoder = CodeEncoder._kinds[kind](**given)
        dimension = DIMENSION.check(kind, "dimension", dimension)
        encoder._check_dimension(dimension)
        centre = np.zeros(dimension, np.float32)
        if encoder.center:
            centre = np.ascontiguousarray(arrays["centre"], np.float32)
        fits = centre.shape == (dimension,) and np.isfinite(centre).all()
        if not fits or not isinstance(reach, float) or not 0 <= reach < math.inf:
            raise ValueError(f"{kind}: the state's centre and reach do not fit its dimension.")
        encoder._check_learned(dimension, arrays)
        encoder.dimension_, encoder.centre_ = dimension, centre
        encoder.reach_, encoder._stored = reach, dict(arrays)
        return encoder

    def __getattr__(self, name: str) -> Any:
        # Directions and tables of a state are made when they are first used, not when it is read:
        # a few bytes can imply large ones. Threads may make them twice, with equal contents.
        stored = self.__dict__.get("_stored")
        if stored is not None and not name.startswith("__"):
            made = self._restore(self.dimension_, stored)
            self._adopt(self.centre_, self.reach_, *made)
        return object.__getattribute__(self, name)

    @property
    def leading_words(self) -> int:
        """Number of first words whose atoms have 98 % of the squared lengths of all.

        A scan for a short-list may read these alone; learned atoms stand longest first.
        """
        return self._leading

    def _factors(self, chosen: np.ndarray, projections: np.ndarray, batch: Batch) -> np.ndarray:
        sums, squares = self._basis.sum(chosen), np.empty(batch.size)
        sides.products(sums, sums, squares)
        return self._nearest_factors(chosen, projections, squares, batch)

    def _nearest_factors(
        self, chosen: np.ndarray, projections: np.ndarray, squares: np.ndarray, batch: Batch
    ) -> np.ndarray:
        """Factors of the codes of a batch, whose sums W b have these squared lengths."""
        out = np.empty(batch.size, np.float32)
        sides.nearest_factors(
            chosen, projections, self._slope, squares, batch.unit, batch.lengths, self.centre_,
            self._along, out,
        )  # fmt: skip
        return out

    def _learn(self, rows: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Learn directions and atoms from rows."""
        return self._restore(rows.shape[1], {})

    def _restore(
        self, dimension: int, arrays: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rebuild directions and atoms from the seed, or from what `_learned` stored."""
        directions = frame(self._frame, self.bits, dimension, self.seed)
        return directions, directions

    def _check_learned(self, dimension: int, arrays: dict[str, np.ndarray]) -> None:
        """Raise ValueError where stored arrays do not fit `_restore`."""

    def _learned(self) -> dict[str, np.ndarray]:
        """Learned arrays that a seed does not reproduce."""
        return {}

    def _prepare(self) -> None:
        """Build the tables that choosing bits needs, from the atoms."""

    def _choose(self, unit: np.ndarray, projections: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Choose the codes (+1, -1) of unit vectors from products with atoms and first signs.

        All float32, with rows for a batch and its padding, and columns up to a multiple of 32.
        """
        return starts

    @property
    def _along(self) -> float:
        """Weight of an error along the vector in its factor; 0 for an unbiased one."""
        return ALONG if self.factor == "nearest" else 0.0

    @property
    def _frame(self) -> str:
        return "tight"

    @property
    def _words(self) -> int:
        return -(-self.bits // 64)

    def _fitted(self) -> int:
        if not hasattr(self, "dimension_"):
            raise ValueError(f"{self.kind}: it does not know the dimension yet; call fit first.")
        return self.dimension_

    def _check_dimension(self, dimension: int) -> None:
        if self.bits * dimension > MOST_ENTRIES:
            raise ValueError(
                f"{self.kind}: bits times dimension must be at most {MOST_ENTRIES}, not "
                f"{self.bits} * {dimension}; use fewer bits."
            )

    def _centre(self, rows: np.ndarray) -> tuple[np.ndarray, float]:
        origin = np.zeros(rows.shape[1], np.float32)
        total = np.zeros(rows.shape[1])
        for batch in batches(self.kind, rows, origin):
            total += batch.lengths @ batch.unit.astype(np.float64)
        if not self.center:
            return origin, 1.0
        centre = (total / len(rows)).astype(np.float32)
        lengths = sum(float(each.lengths.sum()) for each in batches(self.kind, rows, centre))
        return centre, lengths / len(rows)

    def _adopt(
        self, centre: np.ndarray, reach: float, directions: np.ndarray, atoms: np.ndarray
    ) -> None:
        self.dimension_, self.centre_, self.reach_ = len(centre), centre, reach
        self.directions_, self.atoms_ = directions, atoms
        self._basis = Basis(directions, atoms)
        share = np.cumsum(np.square(atoms, dtype=np.float64).sum(axis=1))
        self._leading = int(np.searchsorted(share, LEADING * share[-1])) // 64 + 1
        self._slope = self._basis.weigh(np.tile(centre, (4, 1)))[:1]  # products with the centre
        self._prepare()
        self.__dict__.pop("_stored", None)


def pack(chosen: np.ndarray, batch: Batch, bits: int, out: np.ndarray) -> None:
    """Write the words of a batch to their rows; 0 for a zero vector."""
    words = out[batch.part]
    words[...] = packed(chosen[: batch.size], bits)
    if batch.size > 1 or batch.lengths[0] == 0:
        words[batch.lengths[: batch.size] == 0] = 0
