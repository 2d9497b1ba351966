"""What every encoder promises: vectors to codes of bits, and back to estimates of products.

The factor of a code: the one number by which its sum of atoms stands for a vector's rest.
"""

import math
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Matrix
from sfumato.core.validation import Limit, flag, integer, one_of, optional
from sfumato.kernels.retrieve import sign_codes as sides
from sfumato.retrieve.encoders.linear import Basis, Batch, batches, frame, matrix
from sfumato.sketch.base import SEED
from sfumato.sketch.projection.directions import MOST_ENTRIES

__all__ = ["CodeEncoder", "Codes", "nearest", "ratio", "unbiased"]

ALONG = 100.0  # an error along the vector itself weighs so much more: it confuses near neighbours


def unbiased(chosen: np.ndarray, projections: np.ndarray, batch: Batch) -> np.ndarray:
    """|r|^2 / <r, W b>: 0 for no vector, and where the code points away from its vector."""
    along = _products(chosen, projections, batch.size)
    along[batch.lengths[: batch.size] == 0] = 0
    return ratio(batch.lengths[: batch.size], along)


def nearest(
    chosen: np.ndarray, projections: np.ndarray, batch: Batch, basis: Basis, centre: np.ndarray
) -> np.ndarray:
    """The f of least |e|^2 + ALONG <e, x / |x|>^2, for the error e = centre + f W b - x.

    0 for a vector that is the centre.
    """
    far = batch.lengths[: batch.size]
    middle = basis.weigh(np.tile(centre, (4, 1)))[:1]
    rest = far * _products(chosen, projections, batch.size)  # <r, W b> of the rest r = x - centre
    integer = rest + _products(chosen, np.repeat(middle, len(chosen), axis=0), batch.size)
    beside = far * np.multiply(batch.unit[: batch.size], centre, dtype=np.float64).sum(axis=1)
    square = float(np.square(centre, dtype=np.float64).sum()) + 2 * beside + far * far
    weight = ratio(ALONG, np.where(square > 1e-12 * far * far, square, 0))
    above = rest + weight * (beside + far * far) * integer
    below = basis.squares(chosen)[: batch.size] + weight * integer * integer
    return np.where(far > 0, ratio(above, below), 0)


def ratio(above: np.ndarray | float, below: np.ndarray) -> np.ndarray:
    """The quotients, and 0 where the divisor is not above 0."""
    return np.asarray(np.divide(above, below, out=np.zeros(len(below)), where=below > 0))


def _products(left: np.ndarray, right: np.ndarray, size: int) -> np.ndarray:
    out = np.empty(size)
    sides.products(left, right, out)
    return out


DIMENSION = integer(1, 2**24)  # of a file


class Codes(NamedTuple):
    """Codes of n vectors: W = ceil(bits / 64) words each, and what goes with them.

    Fields: words, uint64 (n, W), bit j of a code in word j >> 6, lowest first, spare bits 0;
    factors, float32 (n, 1), or (n, 0) where the encoder keeps none; short, uint64 (n, W), the plain
    signs for a Hamming short-list, or None.

    Parameters
    ----------
    words : ndarray
        TODO.
    factors : ndarray
        TODO.
    short : ndarray or None
        TODO.
    """

    words: np.ndarray
    factors: np.ndarray
    short: np.ndarray | None

    def __repr__(self) -> str:
        return described(self, **self._asdict())


class CodeEncoder:
    """Vectors as codes b in {-1, 1}^bits that stand for centre + factor * (sum of b_j atom_j).

    bits of a code; seed, of the directions; center, whether the mean of the rows given to `fit` is
    subtracted first; factor, None: a code stands for a direction, and its length is that of a unit
    vector (with a centre: the mean distance from it); or one float32 a vector: "unbiased", |r|^2 /
    <r, W b> for r = vector - centre, which makes the estimate of <r, r> exact and that of <q, r>
    unbiased over random rotations, or "nearest", the one of least error where an error along the
    vector x itself weighs 100 times more, so that near neighbours are told apart: the same as
    "unbiased" within a hundredth where there is no centre, and much better where there is one;
    short, whether `Codes.short` keeps the signs. Learned: dimension_, centre_, reach_ (the length
    without a factor), directions_ (whose signs a code starts from) and atoms_ (which it is rebuilt
    from), both float32 (bits, dimension).

    Parameters
    ----------
    **parameters : object
        TODO.

    Attributes
    ----------
    atoms_ : ndarray
        TODO.
    centre_ : ndarray
        TODO.
    dimension_ : int
        TODO.
    directions_ : ndarray
        TODO.
    reach_ : float
        TODO.

    Notes
    -----
    **Guarantee.** A code depends on its vector, the parameters and what `fit` learned, not on the
    rows encoded with it. Of a zero vector (or one equal to the centre) all bits are 0 and the
    factor is 0; without a factor that code stands for the same direction as any other code of only
    0.

    References
    ----------
    .. [1] Thesis (5.4) and (5.14); the factor: Gao and Long 2024 (RaBitQ), theorem 3.2.
    """

    kind: ClassVar[str] = ""
    precision: ClassVar[int] = 4  # bits of a query's weights in the asymmetric scan
    scaled: ClassVar[bool] = True  # whether codes have factors, kept or else those of `scales`
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
        """The parameters by name.

        Returns
        -------
        dict
            The parameters by name.
        """
        return {name: getattr(self, name) for name in self.LIMITS}

    def fit(self, X: Matrix) -> Self:
        """Take the dimension, and learn what there is to learn, from rows like those to come.

        Parameters
        ----------
        X : array_like
            TODO.

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
        """The codes of rows.

        Parameters
        ----------
        X : array_like
            TODO.

        Returns
        -------
        Codes
            The codes of rows.
        """
        rows = matrix(self.kind, X, self._fitted())
        words = np.empty((len(rows), self._words), np.uint64)
        short = np.empty_like(words) if self.short else None
        factors = np.empty((len(rows), int(self.factor is not None)), np.float32)
        for batch in batches(self.kind, rows, self.centre_, self._basis.height):
            starts, projections = self._basis.start(batch.unit)
            if short is not None:
                _pack(starts, batch, short)
            chosen = self._choose(batch.unit, projections, starts)
            _pack(chosen, batch, words)
            if self.factor is not None:
                factors[batch.part, 0] = self._factors(chosen, projections, batch)
        return Codes(words, factors, short)

    def reconstruct(self, codes: Codes) -> np.ndarray:
        """What the codes stand for, float32 (n, dimension).

        Unit vectors, if there is neither a centre nor a factor.

        Parameters
        ----------
        codes : Codes
            TODO.

        Returns
        -------
        ndarray
            What the codes stand for, float32 (n, dimension).
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
        """The factors of codes that keep none, from their bits: reach_ / |W b| of (5.14).

        Parameters
        ----------
        words : ndarray
            TODO.

        Returns
        -------
        ndarray
            The factors of codes that keep none, from their bits: reach_ / |W b| of (5.14).
        """
        self._fitted()
        out = np.empty(len(words), np.float32)
        for part, _, lengths in self._basis.sums(words):
            out[part] = ratio(self.reach_, lengths)
        return out

    def query_words(self, Q: Any) -> np.ndarray:
        """The signs of queries, uint64 (q, W), to be compared with codes by Hamming distance.

        Parameters
        ----------
        Q : object
            TODO.

        Returns
        -------
        ndarray
            The signs of queries, uint64 (q, W), to be compared with codes by Hamming distance.
        """
        rows = matrix(self.kind, Q, self._fitted())
        out = np.empty((len(rows), self._words), np.uint64)
        for batch in batches(self.kind, rows, self.centre_, self._basis.height):
            _pack(self._basis.start(batch.unit)[0], batch, out)
        return out

    def query_weights(self, Q: Any) -> tuple[np.ndarray, np.ndarray]:
        """Weights (q, bits) and offsets (q,), float32, that estimate products from codes.

        The estimate of <q, x> is offset + factor * sum of weight_j b_j, with the code's factor or
        else `scales`: the product of q with the reconstruction.

        Parameters
        ----------
        Q : object
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        rows = matrix(self.kind, Q, self._fitted())
        weights = np.empty((len(rows), self.bits), np.float32)
        offsets = np.empty(len(rows), np.float32)
        for batch in batches(self.kind, rows, np.zeros_like(self.centre_), self._basis.height):
            part, size = batch.part, batch.size
            lengths = batch.lengths[:size]
            weights[part] = self._basis.weigh(batch.unit)[:size, : self.bits] * lengths[:, None]
            along = np.multiply(batch.unit[:size], self.centre_, dtype=np.float64).sum(axis=1)
            offsets[part] = along * lengths
        return weights, offsets

    @property
    def tells_lengths(self) -> bool:
        """Whether codes stand for vectors as they are, not for directions only."""
        return self.factor is not None or not self.scaled

    @property
    def nbytes_per_vector(self) -> int:
        """Bytes that a code takes: words, factor and short."""
        return 8 * self._words * (1 + self.short) + 4 * (self.factor is not None)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Parameters as plain values and learned arrays, for `from_state`; no random directions.

        Returns
        -------
        tuple
            TODO.
        """
        learned = {"dimension": self._fitted(), "reach": self.reach_}
        arrays = {"centre": self.centre_} if self.center else {}
        return {"kind": self.kind, **self.get_params(), **learned}, arrays | self._learned()

    @staticmethod
    def from_state(parameters: dict[str, Any], arrays: dict[str, np.ndarray]) -> "CodeEncoder":
        """The fitted encoder whose `state` this is.

        Parameters
        ----------
        parameters : dict
            TODO.
        arrays : dict
            TODO.

        Returns
        -------
        CodeEncoder
            The fitted encoder whose `state` this is.
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
        # a few bytes can ask for large ones. Threads may make them twice, and alike.
        stored = self.__dict__.get("_stored")
        if stored is not None and not name.startswith("__"):
            made = self._restore(self.dimension_, stored)
            self._adopt(self.centre_, self.reach_, *made)
        return object.__getattribute__(self, name)

    def _factors(self, chosen: np.ndarray, projections: np.ndarray, batch: Batch) -> np.ndarray:
        if self.factor == "unbiased":
            return unbiased(chosen, projections, batch)
        return nearest(chosen, projections, batch, self._basis, self.centre_)

    def _learn(self, rows: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Directions and atoms for rows like these."""
        return self._restore(rows.shape[1], {})

    def _restore(
        self, dimension: int, arrays: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Directions and atoms again, from the seed or from what `_learned` stored."""
        directions = frame(self._frame, self.bits, dimension, self.seed)
        return directions, directions

    def _check_learned(self, dimension: int, arrays: dict[str, np.ndarray]) -> None:
        """Raise ValueError where stored arrays are not what `_restore` needs."""

    def _learned(self) -> dict[str, np.ndarray]:
        """The learned arrays that no seed gives back."""
        return {}

    def _prepare(self) -> None:
        """Tables that choosing bits needs, from the atoms."""

    def _choose(self, unit: np.ndarray, projections: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """The sides of unit vectors' codes, given their products with the atoms and first signs.

        All float32 with rows for a batch and its filling, and columns up to a multiple of 32.
        """
        return starts

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
        self._prepare()
        self.__dict__.pop("_stored", None)


def _pack(chosen: np.ndarray, batch: Batch, out: np.ndarray) -> None:
    """Write the words of a batch to their place; of no vector, 0."""
    words = out[batch.part]
    sides.pack(chosen, words)
    words[batch.lengths[: batch.size] == 0] = 0
