"""Learned encoder: atoms along principal axes, refitted to the codes of a sample."""

from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from sfumato.core.linear_algebra import one_numpy_thread
from sfumato.core.validation import Limit, between, flag, integer, optional
from sfumato.kernels import top_k as top
from sfumato.kernels.alignment import aligned
from sfumato.kernels.retrieve import sign_codes as sides
from sfumato.kernels.retrieve import sign_search as successive
from sfumato.retrieve.encoders.base import CodeEncoder, Codes
from sfumato.retrieve.encoders.linear import Batch, Product, batches, frame, matrix
from sfumato.sketch.base import SEED

__all__ = ["LearnedEncoder", "Search", "learned", "levels", "refined"]

BATCH = 1024
# The uniform quantizer of 2**n levels for a Gaussian of variance 1, n from 0 to 8: squared error
# and distance of levels (Max 1960, table II). Beyond, a bit halves the distance.
ERRORS = (1.0, 0.3634, 0.1188, 0.03744, 0.01154, 0.003495, 0.001041, 0.0003035, 0.0000870)
STEPS = (0.0, 1.596, 0.9957, 0.5860, 0.3352, 0.1881, 0.1041, 0.05687, 0.03076)


class Search(NamedTuple):
    """Inner products of given atoms, laid out for the kernel that chooses codes."""

    atoms: np.ndarray
    gram: np.ndarray
    products: Product

    @classmethod
    def of(cls, atoms: np.ndarray) -> Self:
        """Search among atoms, float32 (bits, dimension), the longest first."""
        wide = np.pad(atoms.astype(np.float64), ((0, -len(atoms) % top.WIDE), (0, 0)))
        gram = aligned((len(wide), len(wide)), np.float32)
        gram[...] = wide @ wide.T
        return cls(atoms, gram, Product.of(atoms))

    def codes(
        self, products: np.ndarray, along: np.ndarray, missing: np.ndarray, flips: int
    ) -> np.ndarray:
        """Choose the codes (+1, -1) of vectors from their products with the atoms."""
        sides = aligned(products.shape, np.float32)
        successive.settle(self.gram, products, along, missing, len(self.atoms), flips, sides)
        return sides


@one_numpy_thread
def levels(rows: np.ndarray, bits: int) -> np.ndarray:
    """Atoms, float32 (bits, dimension), that quantise vectors axis by axis, the longest first.

    Each bit goes to the principal axis whose squared error it reduces most, as for a Gaussian; an
    axis of n bits has 2**n equidistant levels. The variances are regularised by as many isotropic
    pseudo-rows as there are dimensions, which matters for few rows.
    """
    squares, dimension = rows.T.astype(np.float64) @ rows, rows.shape[1]
    ridge = np.trace(squares) / len(rows) * np.eye(dimension)
    variances, axes = np.linalg.eigh((squares + ridge) / (len(rows) + dimension))
    counts = _allocated(variances, bits)
    axis = np.repeat(np.arange(dimension), counts)
    position = np.arange(bits) - np.repeat(np.cumsum(counts) - counts, counts)
    lengths = np.sqrt(variances[axis]) * _step(counts)[axis] * 2.0 ** (position - 1)
    return _longest_first(axes.T[axis] * lengths[:, None])


@one_numpy_thread
def refined(
    rows: np.ndarray, atoms: np.ndarray, flips: int, rounds: int
) -> tuple[np.ndarray, list[float]]:
    """Refit atoms by least squares to the codes that they give; return them and the errors.

    **Guarantee.** The errors, mean squares over every fifth row, decrease, although atoms are
    fitted to the other rows only; the first is that of the atoms given, the last that of the atoms
    returned. It ends after `rounds` refits, or before one that would not help.
    """
    chosen = np.arange(len(rows)) % 5 == 0
    validation, training = rows[chosen], rows[~chosen]
    errors, best = [np.inf], atoms
    for _ in range(rounds + 1):
        search = Search.of(atoms)
        error, _, _ = _coded(validation, search, flips)
        if error >= errors[-1]:
            break
        best = atoms
        errors.append(error)
        _, gram, sums = _coded(training, search, flips)
        # The old atoms weigh as much as one row per bit: atoms that few codes separate stay.
        pull = len(atoms) * np.eye(len(atoms))
        atoms = _longest_first(np.linalg.solve(gram + pull, sums + len(atoms) * atoms))
    return best, errors[1:]


def _coded(rows: np.ndarray, search: Search, flips: int) -> tuple[float, np.ndarray, np.ndarray]:
    """Mean squared error of rows, and the sums of b b^T and b r^T over their codes b."""
    bits, dimension = search.atoms.shape
    error, gram, sums = 0.0, np.zeros((bits, bits)), np.zeros((bits, dimension))
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        filled = np.pad(part, ((0, -len(part) % top.ABREAST), (0, 0)))
        products = search.products(filled)
        nowhere = np.zeros(len(filled), np.float32)
        sides = search.codes(products, np.zeros_like(products), nowhere, flips)
        chosen = sides[: len(part), :bits]
        error += float(np.square(part - chosen @ search.atoms, dtype=np.float64).sum())
        gram += chosen.T @ chosen
        sums += chosen.T @ part
    return error / len(rows), gram, sums


def _allocated(variances: np.ndarray, bits: int) -> np.ndarray:
    """Number of bits of each axis."""
    counts = np.zeros(len(variances), np.int64)
    gains = variances * (_error(counts) - _error(counts + 1))
    for _ in range(bits):
        k = int(np.argmax(gains))
        counts[k] += 1
        n = counts[k : k + 1]
        gains[k] = variances[k] * (_error(n) - _error(n + 1))[0]
    return counts


def _error(counts: np.ndarray) -> np.ndarray:
    last = len(ERRORS) - 1
    return np.asarray(
        np.array(ERRORS)[np.minimum(counts, last)] / 4.0 ** np.maximum(counts - last, 0)
    )


def _step(counts: np.ndarray) -> np.ndarray:
    last = len(STEPS) - 1
    return np.asarray(
        np.array(STEPS)[np.minimum(counts, last)] / 2.0 ** np.maximum(counts - last, 0)
    )


def _longest_first(atoms: np.ndarray) -> np.ndarray:
    order = np.argsort(-np.square(atoms).sum(axis=1), kind="stable")
    return np.ascontiguousarray(atoms[order], np.float32)


SAMPLE = 50_000  # rows that atoms are learned from
FEWEST = 8  # rows per bit; with fewer, atoms would be overfitted
ALONG = 10.0  # weight of an error along the vector where products are ranked
FARTHEST = 1e6  # a vector is clipped to this many mean distances from the centre


def learned(
    bits: int = 320,
    *,
    flips: int = 60,
    rounds: int = 10,
    along: float | None = None,
    short: bool = False,
    seed: int = 0,
) -> CodeEncoder:
    """Build an encoder whose atoms are learned from a sample of the vectors.

    A code represents centre + (sum of b_j atom_j), with no factor: ``bits / 8`` bytes per vector.
    It pays where some directions vary more than others. Where all vary equally and there are at
    most two bits per dimension, `qolsh` with at least 30 flips is as good.

    Parameters
    ----------
    bits : int, default=320
        Bits of a code, 1 to 4,096.
    flips : int, default=60
        Maximum number of bits flipped per code, 0 to 65,536.
    rounds : int, default=10
        Maximum number of rounds of learning, 0 to 1,000.
    along : float or None, default=None
        Additional weight of an error along the vector itself, from 0 to below 10,000. Such errors
        confuse the order of near neighbours by products most, but do not change cosines. None for
        0 in a `BinaryIndex` of metric "cosine", and 10 otherwise.
    short : bool, default=False
        Whether `Codes.short` stores signs along a tight frame, for a Hamming short-list. The
        Hamming distance of learned bits says little: search them by the asymmetric scan.
    seed : int, default=0
        Seed of the sample of 50,000 rows and of that frame.

    Returns
    -------
    CodeEncoder
        The encoder, not fitted. With fewer than 8 rows per bit, `fit` derives the atoms from the
        variances alone.

    Notes
    -----
    **Guarantee.** With each round of learning the mean squared error decreases on rows of the
    sample that the atoms are not fitted to. A code is found by the signs of the residual, atom
    after atom, and then improved bit by bit; each flip decreases
    ``norm(e)**2 + along * <e, x / norm(x)>**2`` of the error e.

    References
    ----------
    .. [1] Babenko, Lempitsky. "Additive Quantization for Extreme Vector Compression". CVPR 2014,
       here with codebooks of two.
    .. [2] Huang, Schultheiss. "Block Quantization of Correlated Gaussian Random Variables". IEEE
       Transactions on Communications Systems 1963 (bits by variance).
    .. [3] Guo et al. "Accelerating Large-Scale Inference with Anisotropic Vector Quantization".
       ICML 2020. https://arxiv.org/abs/1908.10396

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(2000, 8)) * 0.5 ** np.arange(8)
    >>> encoder = learned(32).fit(x)
    >>> reconstructed = encoder.reconstruct(encoder.encode(x))
    >>> bool(np.square(reconstructed - x).sum() < 0.01 * np.square(x).sum())
    True
    """
    return LearnedEncoder(
        bits=bits, flips=flips, rounds=rounds, along=along, short=short, seed=seed
    )


class LearnedEncoder(CodeEncoder):
    """Encoder of learned atoms, with a centre and no factor, for vectors with their lengths.

    A zero vector, or the centre, is encoded like any other vector.
    """

    kind = "learned"
    scaled = False
    precision = 6  # atoms differ in length, and with four bits the short ones would be lost
    LIMITS: ClassVar[dict[str, Limit]] = {
        "bits": integer(1, 2**12),
        "flips": integer(0, 2**16),
        "rounds": integer(0, 1000),
        "along": optional(between(0, 1e4)),
        "short": flag,
        "seed": SEED,
    }
    center = True
    factor = None
    flips: int
    rounds: int
    along: float | None

    def encode(self, X: Any) -> Codes:
        rows = matrix(self.kind, X, self._fitted())
        words = np.empty((len(rows), self._words), np.uint64)
        short = np.empty_like(words) if self.short else None
        for batch in batches(self.kind, rows, self.centre_, self._basis.height):
            sides.pack(self._codes(batch), words[batch.part])
            if short is not None:
                sides.pack(self._basis.start(batch.unit)[0], short[batch.part])
        return Codes(words, np.empty((len(rows), 0), np.float32), short)

    def reconstruct(self, codes: Codes) -> np.ndarray:
        out = np.empty((len(codes.words), self._fitted()), np.float32)
        for part, sums, _ in self._basis.sums(codes.words):
            out[part] = self.centre_ + sums
        return out

    def scales(self, words: np.ndarray) -> np.ndarray:
        self._fitted()
        return np.ones(len(words), np.float32)

    def _learn(self, rows: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if len(rows) > SAMPLE:
            rng = np.random.default_rng(self.seed)
            rows = rows[np.sort(rng.choice(len(rows), SAMPLE, replace=False))]
        parts = list(batches(self.kind, rows, centre))
        lengths = np.concatenate([part.lengths[: part.size] for part in parts])
        reach = float(lengths.mean())
        if reach == 0:
            raise ValueError(
                f"{self.kind}: fit needs rows that differ; all that were given are equal."
            )
        units = np.concatenate([part.unit[: part.size] for part in parts])
        residuals = units * _near(lengths / reach)[:, None]
        atoms = levels(residuals, self.bits)
        if len(residuals) >= FEWEST * self.bits:
            atoms, _ = refined(residuals, atoms, self.flips, self.rounds)
        return self._signs(rows.shape[1]), (atoms * reach).astype(np.float32)

    def _restore(
        self, dimension: int, arrays: dict[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        return self._signs(dimension), np.ascontiguousarray(arrays["atoms"], np.float32)

    def _check_learned(self, dimension: int, arrays: dict[str, np.ndarray]) -> None:
        atoms = np.ascontiguousarray(arrays["atoms"], np.float32)
        if atoms.shape != (self.bits, dimension) or not np.isfinite(atoms).all():
            raise ValueError(f"{self.kind}: the state's atoms do not fit its bits and dimension.")

    def _learned(self) -> dict[str, np.ndarray]:
        return {"atoms": self.atoms_}

    def _prepare(self) -> None:
        # In units of reach_, so that vectors of any size have products that float32 can represent.
        self._middle = self.centre_ / np.float32(self.reach_)
        self._search = Search.of(self.atoms_ / np.float32(self.reach_))
        self._slant = self._search.products(np.tile(self._middle, (4, 1)))[:1]

    def _codes(self, batch: Batch) -> np.ndarray:
        """Codes (+1, -1) of a batch."""
        far = _near(batch.lengths / self.reach_)
        products = self._search.products(batch.unit) * far[:, None]
        # The vector is centre + residual, and so are its products with atoms and the residual.
        beside = np.multiply(batch.unit, self._middle, dtype=np.float64).sum(axis=1) * far
        square = float(np.square(self._middle, dtype=np.float64).sum()) + 2 * beside + far * far
        extra = ALONG if self.along is None else self.along
        weight = np.sqrt(extra / np.maximum(square, 1e-12))
        along = (products + self._slant) * weight.astype(np.float32)[:, None]
        missing = ((beside + far * far) * weight).astype(np.float32)
        return self._search.codes(products, along, missing, self.flips)

    def _signs(self, dimension: int) -> np.ndarray:
        return frame("tight", self.bits, dimension, self.seed)


def _near(ratios: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum(ratios, FARTHEST), np.float32)
