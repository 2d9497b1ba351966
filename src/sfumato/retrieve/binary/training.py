"""What an index learns before it stores vectors: its encoder, and the space that is encoded."""

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.errors import ParameterError
from sfumato.retrieve.binary.partition import CellPartition
from sfumato.retrieve.binary.store import RowWriter
from sfumato.retrieve.encoders import factories as codes
from sfumato.retrieve.encoders.base import CodeEncoder
from sfumato.retrieve.encoders.learned import LearnedEncoder
from sfumato.retrieve.metric import Space, lengths

__all__ = ["BLOCK", "ENCODERS", "Fitted", "RowColumns", "encoder_for", "learn_cells"]

OWNER = "BinaryIndex"
NAMES = ("project_and_sign", "tight_frame", "anti_sparse", "optimal", "qolsh", "learned")
ENCODERS: dict[str, Callable[..., CodeEncoder]] = {name: getattr(codes, name) for name in NAMES}
SAMPLE = 100_000  # rows that an encoder learns from
PROBES = 64  # rows from which the fraction of plain signs is estimated
NEARLY = 0.85  # with this fraction of plain signs, a Hamming short-list misses next to nothing
BLOCK = 1 << 15  # rows encoded at a time
FAR = 0.5  # squared length of the mean of unit vectors; what is left of 1 is their variance
SHORTEST = 1e-3  # norm that the code of a unit vector is taken to have at least
PER_CELL, LEAST = 48, 1 << 15  # rows that a cell, and that all cells are learned from


class RowColumns(NamedTuple):
    """What is stored of vectors, a row each; None for a column that an index does not have."""

    words: Any
    short: Any
    factors: Any
    vectors: Any
    cells: Any
    shifts: Any


class Fitted(NamedTuple):
    """A fitted encoder, the space of the vectors, and the fraction of bits that are plain signs.

    distances: whether cosines are ranked by the distance of unit vectors from what codes represent.
    """

    encoder: CodeEncoder
    space: Space
    signs: float
    distances: bool = False

    @classmethod
    def learn(cls, encoder: CodeEncoder, metric: str, vectors: np.ndarray, seed: int) -> Self:
        """Fit a copy of the encoder to (a sample of) the vectors, unless it is fitted already.

        For inner products and distances vectors are lifted, unless the codes represent lengths
        (learned codes, and codes with a factor).
        """
        lifted = metric != "cosine" and not encoder.tells_lengths
        space = Space.of(metric, vectors, lifted=lifted)
        points = np.concatenate([space.points(part) for part in _blocks(_sample(vectors, seed))])
        if not hasattr(encoder, "dimension_"):
            encoder = _suited(copy.deepcopy(encoder), metric).fit(points)
        elif encoder.dimension_ != points.shape[1]:
            raise ValueError(
                f"{OWNER}: the encoder was fitted to {encoder.dimension_} columns, but vectors "
                f"come to it with {points.shape[1]}; give an encoder that is not fitted."
            )
        else:  # a copy, since whoever gave it may fit it anew
            encoder = CodeEncoder.from_state(*encoder.state())
        signs = _sign_fraction(encoder, points[:PROBES])
        return cls(encoder, space, signs, metric == "cosine" and _is_far(encoder))

    @property
    def dimension(self) -> int:
        """Number of columns of a vector."""
        return self.encoder.dimension_ - self.space.columns

    @property
    def normalised(self) -> bool:
        """Whether the factor of a code is 1 / norm of what it represents, centre and all.

        So for cosines of codes that represent lengths without a factor (learned codes): a product
        with the reconstruction would rank by its length as well.
        """
        return self.space.metric == "cosine" and not self.encoder.scaled

    @property
    def factored(self) -> bool:
        """Whether rows have a factor each."""
        return self.encoder.scaled or self.normalised

    @property
    def shifted(self) -> bool:
        """Whether a score has a term of the row alone: that of its length, for distances."""
        return self.distances or self.space.paraboloid is not None

    @property
    def words(self) -> int:
        """64-bit words of a code."""
        return -(-self.encoder.bits // 64)

    def scan_for(self, scan: str | None, rerank: str | None, *, cells: bool) -> str:
        """The requested scan, or by default the one that suits the codes.

        Cells have few codes, so the better scan costs less there than a longer short-list.
        """
        flat = self.space.paraboloid is not None
        angles = self.space.metric == "cosine" or (self.space.lift is not None and not flat)
        if scan is None:
            enough = self.signs >= (1 if rerank is None or cells else NEARLY)
            return "hamming" if angles and enough else "asymmetric"
        if scan == "hamming" and not self.encoder.scaled and not self.encoder.short:
            raise ValueError(
                f"{OWNER}: scan 'hamming' finds nothing by learned bits; use scan='asymmetric', or "
                "learned(..., short=True), which stores signs for it."
            )
        if scan == "hamming" and not angles:
            other = ", or build it with an encoder as tight_frame without a factor"
            raise ValueError(
                f"{OWNER}: scan 'hamming' ranks by angles, which are no "
                f"{'distances' if flat else 'inner products'} here; use scan='asymmetric'"
                f"{'' if flat else other}."
            )
        return scan

    def no_rows(self, *, keep: bool) -> RowWriter:
        """Empty rows for such codes, without cells, with columns for vectors to `keep` or not."""
        dimension = self.dimension if keep else None
        return RowWriter.empty(
            self.words,
            short=self.encoder.short,
            factored=self.factored,
            shifted=self.shifted,
            dimension=dimension,
        )

    def rows(
        self, vectors: np.ndarray, partition: CellPartition | None, *, keep: bool
    ) -> RowColumns:
        """Columns of vectors, in bounded memory: targets to `keep`, cells of a partition."""
        if len(vectors) <= BLOCK:
            return self._coded(vectors, partition, keep)
        blocks = [self._coded(block, partition, keep) for block in _blocks(vectors)]
        parts = zip(*blocks, strict=True)
        return RowColumns(*(None if part[0] is None else np.concatenate(part) for part in parts))

    def points_of(self, rows: RowWriter, at: np.ndarray) -> np.ndarray:
        """Points of stored rows for cells: of their vectors, or else of what codes represent."""
        stored = rows.stored
        if stored.vectors is not None:
            return self.space.cell_points(stored.vectors[at])
        if self.space.paraboloid is not None:
            own = None if stored.factors is None else stored.factors[at]
            return self.space.paraboloid.raised(self._represented(rows.codes(at), own))
        factors = np.empty((at.size, 0), np.float32)
        if self.encoder.factor is not None and stored.factors is not None:
            factors = stored.factors[at][:, None]
        points = self.encoder.reconstruct(codes.Codes(rows.codes(at), factors, None))
        if self.space.metric == "cosine" or self.space.lift is not None:
            points /= np.maximum(lengths(points), 1e-30)[:, None].astype(np.float32)
        return points

    def _coded(
        self, vectors: np.ndarray, partition: CellPartition | None, keep: bool
    ) -> RowColumns:
        points = self.space.points(vectors)
        made = self.encoder.encode(points)
        targets = None
        if keep:
            same = self.space.metric == "cosine"  # the points are the targets
            targets = points if same else self.space.targets(vectors)
        cells = None
        if partition is not None:
            flat = points if self.space.paraboloid is None else self.space.cell_points(vectors)
            cells = partition.assign(flat)
        factors, shifts = self._factors(made, vectors), None
        if self.shifted and self.encoder.factor is not None:
            factors = self._nearest_factors(made.words, points)
        if self.shifted:
            represented = self._represented(made.words, factors)
            if self.distances:
                represented -= self.encoder.centre_
            squares = np.square(lengths(represented))
            shifts = np.asarray(-squares / 2, np.float32)
        return RowColumns(made.words, made.short, factors, targets, cells, shifts)

    def _represented(self, words: np.ndarray, factors: np.ndarray | None) -> np.ndarray:
        """Vectors whose products are the estimates by codes and factors, from the centre."""
        encoder, lift = self.encoder, self.space.lift
        none = np.empty((len(words), 0), np.float32)
        if factors is None or encoder.factor is not None:
            stored = none if factors is None else factors[:, None]
            return encoder.reconstruct(codes.Codes(words, stored, None))
        assert lift is not None  # codes of directions are lifted
        sums = encoder.reconstruct(codes.Codes(words, none, None)) - encoder.centre_
        far = factors / np.maximum(encoder.scales(words), 1e-30)
        moved = lift.centre + lift.radius * encoder.centre_[:-1] + far[:, None] * sums[:, :-1]
        return np.asarray(moved, np.float32)

    def _factors(self, made: codes.Codes, vectors: np.ndarray) -> np.ndarray | None:
        if not self.encoder.scaled:
            return self.inverse_norms(made.words) if self.normalised else None
        if made.factors.shape[1]:
            return made.factors.reshape(-1)
        scales, lift = self.encoder.scales(made.words), self.space.lift
        if lift is None:
            return scales
        return np.asarray(scales * lift.scales(self.space.moved(vectors)), np.float32)

    def _nearest_factors(self, words: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Factors by which codes represent what is nearest to the points, whatever its length."""
        sums = self._represented(words, np.ones(len(words), np.float32)) - self.encoder.centre_
        along = np.multiply(points - self.encoder.centre_, sums, dtype=np.float64).sum(axis=1)
        squares = np.square(lengths(sums))
        np.divide(along, squares, out=along, where=squares > 0)
        return np.asarray(along, np.float32)

    def inverse_norms(self, words: np.ndarray) -> np.ndarray:
        """1 / norm of what codes without factors represent, float32."""
        out = np.empty(len(words), np.float32)
        for at in range(0, len(words), BLOCK):
            some = words[at : at + BLOCK]
            none = np.empty((len(some), 0), np.float32)
            points = self.encoder.reconstruct(codes.Codes(some, none, None))
            out[at : at + BLOCK] = 1 / np.maximum(lengths(points), SHORTEST)
        return out


def encoder_for(encoder: Any, bits: int, metric: str, seed: int) -> CodeEncoder:
    """The encoder given or named; by default qoLSH with a centre and a factor.

    Named ones have both as well, for signs tell little of vectors that share a large mean. Learned
    ones need no factor; for products, named ones represent directions of lifted vectors, which a
    Hamming scan can compare.
    """
    if isinstance(encoder, CodeEncoder):
        return encoder
    if encoder is None:
        # Recall grows up to about 50 flips of 256 bits; learned codes need thousands of rows.
        return codes.qolsh(bits, flips=50, seed=seed, center=True, factor="nearest")
    if not isinstance(encoder, str) or encoder not in ENCODERS:
        wanted = ", ".join(map(repr, ENCODERS))
        problem = f"must be None, a CodeEncoder, or one of {wanted}, not {encoder!r}."
        raise ParameterError.of(OWNER, "encoder", problem)
    plain = encoder == "learned" or metric == "inner"
    options = {} if plain else {"center": True, "factor": "nearest"}
    return ENCODERS[encoder](bits, seed=seed, **options)


def _suited(encoder: CodeEncoder, metric: str) -> CodeEncoder:
    """The encoder with what it leaves to the metric: cosines have no use for exact lengths."""
    if isinstance(encoder, LearnedEncoder) and encoder.along is None and metric == "cosine":
        encoder.along = 0.0
    return encoder


def _is_far(encoder: CodeEncoder) -> bool:
    """Whether unit vectors have more of their mean in common than is their own.

    A factor that makes the length along the vector right has little to do with what is its own.
    """
    return encoder.factor == "nearest" and float(lengths(encoder.centre_[None])[0]) ** 2 > FAR


def _sample(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Sample rows to learn from, in their order."""
    if len(vectors) <= SAMPLE:
        return vectors
    picks = np.random.default_rng(seed).choice(len(vectors), SAMPLE, replace=False)
    return np.asarray(vectors[np.sort(picks)])


def _blocks(vectors: np.ndarray) -> Iterator[np.ndarray]:
    return (vectors[at : at + BLOCK] for at in range(0, len(vectors), BLOCK))


def _sign_fraction(encoder: CodeEncoder, points: np.ndarray) -> float:
    """Fraction of bits, of codes that a Hamming scan reads, that equal those of a query there."""
    made = encoder.encode(points)
    scanned = made.words if made.short is None else made.short
    apart = np.bitwise_count(encoder.query_words(points) ^ scanned).sum()
    return 1 - float(apart) / (len(points) * encoder.bits)


def learn_cells(
    fitted: Fitted, rows: RowWriter, vectors: np.ndarray, cells: int, seed: int
) -> CellPartition:
    """Cells learned from a sample of the stored rows and of the vectors that are added to them."""
    living = rows.stored.rows()
    total = living.size + len(vectors)
    size = min(total, max(cells * PER_CELL, LEAST))
    picks = np.random.default_rng(seed).choice(total, size, replace=False)
    old, new = picks[picks < living.size], picks[picks >= living.size] - living.size
    points = [fitted.points_of(rows, living[np.sort(old)])] if old.size else []
    points += [fitted.space.cell_points(part) for part in _blocks(vectors[np.sort(new)])]
    unit = fitted.space.lift is not None or fitted.space.metric == "cosine"
    queries = fitted.space.queries_of
    return CellPartition.learn(
        np.concatenate(points), cells, total, unit=unit, queries=queries, seed=seed
    )
