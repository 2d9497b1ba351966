"""Kernel sums on the nodes of a grid, computed once and read between nodes by cubic splines.

Also the nodes themselves: their coordinates, and the positions of points and queries among them.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sfumato.core.bounds import Box
from sfumato.core.hashing import hash_column
from sfumato.kernels.sketch import kernel_sums as grid
from sfumato.kernels.sketch.layout import PLACE_BITS
from sfumato.sketch.kernel_sums.radial_kernels import profile

__all__ = [
    "MARGIN",
    "MOST",
    "Nodes",
    "at",
    "field",
    "four_axes",
    "kernel_response",
    "node_weights",
    "usual_resolution",
]

MARGIN = 2  # nodes beyond the box, so that a cubic spline has all of its four
APART = 8  # nodes of padding against the wrap-around of the transform
USUAL = 0.38  # a position between two nodes, neither near one nor in the middle
SLOPES = {"p-stable": math.sqrt(2 / math.pi), "gaussian": 0.0, "exponential": 1.0}  # down, at 0
SPHERES = 2.0, 2 * math.pi  # transform of exp(-|x|) at 0, in 1 and 2 dimensions
NEAREST = 1e-30  # nodes, in bandwidths: every kernel is 1 there, and no power of it overflows
RATE = 2.5  # of the exponential, in bandwidths: neither steep between nodes nor long
FADED = 12.0  # the exponential has decayed to exp(-12) at the longest wave
TABLE = 2**18  # distances whose kernel is computed; between them it is a straight line
BATCH = 8  # frequencies of the last axis at a time


def field(nodes: np.ndarray, spacing: np.ndarray, kernel: str, bandwidth: float) -> np.ndarray:
    """Spline coefficients of the kernel sums, on the nodes and MARGIN more at every end.

    The kernel of node distances is divided, frequency by frequency, by the attenuation of assigning
    points to nodes (quadratic splines) and of reading between nodes (cubic ones), so that both
    together leave the kernel.
    """
    from scipy.fft import fftn, ifftn, irfft, next_fast_len, rfft

    lengths = [2 * (next_fast_len(n + MARGIN + APART, real=True)) for n in nodes.shape]
    waves = _kernel_waves(lengths, np.maximum(spacing / bandwidth, NEAREST), kernel)
    wide = tuple(n + 2 * MARGIN for n in nodes.shape)
    padded = np.zeros(wide)
    padded[(slice(MARGIN, -MARGIN),) * nodes.ndim] = nodes
    half = rfft(padded, lengths[-1], axis=-1)
    axes = tuple(range(nodes.ndim - 1))
    inside = tuple(slice(0, n) for n in wide[:-1])
    for start in range(0, half.shape[-1], BATCH):
        part = (*(slice(None),) * len(axes), slice(start, start + BATCH))
        block = half[part]
        if axes:
            block = fftn(block, lengths[:-1], axes=axes)
        block = block * _mirrored(waves[part], lengths[:-1])
        half[part] = ifftn(block, axes=axes)[inside] if axes else block
    return np.ascontiguousarray(irfft(half, lengths[-1], axis=-1)[..., : wide[-1]])


def kernel_response(
    shape: tuple[int, ...], spacing: np.ndarray, kernel: str, bandwidth: float
) -> np.ndarray:
    """The factor by which sums of this kernel multiply each cosine of so many nodes."""
    from scipy.fft import next_fast_len

    halves = [next_fast_len(n + MARGIN + APART, real=True) for n in shape]
    ratios = np.maximum(spacing / bandwidth, NEAREST)
    waves = _kernel_waves([2 * half for half in halves], ratios, kernel)
    steps = [
        np.rint(np.arange(n) * half / n).astype(np.int64)
        for n, half in zip(shape, halves, strict=True)
    ]
    return np.asarray(waves[np.ix_(*steps)])


def at(coefficients: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """The field at positions counted in nodes of the box, the first being 0."""
    out = np.empty(len(positions))
    shape = four_axes(coefficients.shape)
    spans = np.array([4 if n > 1 else 1 for n in shape])
    moved = np.zeros((len(positions), 4))
    moved[:, 4 - positions.shape[1] :] = positions + (MARGIN - 1)
    grid.read(coefficients.reshape(shape), moved, spans, out)
    return out


def node_weights(
    shape: tuple[int, ...], spacing: np.ndarray, kernel: str, bandwidth: float
) -> np.ndarray:
    """The factor of each node's mass in the answer at a typical query amid the grid."""
    query = np.ones(())
    for n in shape:
        along = np.zeros(n + 2 * MARGIN)
        along[n // 2 : n // 2 + 4] = [grid.cubic(node, USUAL, 4) for node in range(4)]
        query = np.multiply.outer(query, along[MARGIN:-MARGIN])
    weights = field(query, spacing, kernel, bandwidth)
    return weights[(slice(MARGIN, -MARGIN),) * len(shape)]


def four_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of up to four axes, with an axis of 1 in front for each missing one."""
    return (*(1,) * (4 - len(shape)), *shape)


def _kernel_waves(lengths: list[int], ratios: np.ndarray, kernel: str) -> np.ndarray:
    """Fourier coefficients of the kernel up to half of each length: real, since it is even.

    A kernel with a kink at 0 has wavelengths shorter than two nodes, which its values at nodes
    alone would alias. So an exponential with the same kink is subtracted before the transform, and
    added back by its own known transform (Stein and Weiss 1971, theorem 1.14). Not in three and
    more dimensions: there the aliasing is at most 0.04 % of a smooth sum (in three), and values at
    nodes preserve the kernel's peak twice as well, which matters if points repeat.
    """
    from scipy.fft import dctn

    halves = [length // 2 for length in lengths]
    squares = _squares([np.arange(n + 1) * r for n, r in zip(halves, ratios, strict=True)])
    far = np.sqrt(squares, out=squares)
    rate = max(RATE, FADED / float(min(n * r for n, r in zip(halves, ratios, strict=True))))
    axes = len(lengths)
    sharp = SLOPES[kernel] / rate if axes <= len(SPHERES) else 0.0
    values = _profile(kernel, far)
    if sharp:
        values = values - sharp * np.exp(-rate * far)
    waves = np.asarray(dctn(values, type=1))
    turns = [math.pi * np.arange(n + 1) / n for n in halves]
    if sharp:
        lost = _squares([turn / ratio for turn, ratio in zip(turns, ratios, strict=True)])
        volume = SPHERES[axes - 1] * rate / float(np.prod(ratios))
        waves += sharp * volume * (rate**2 + lost) ** (-(axes + 1) / 2)
    for axis, turn in enumerate(turns):
        assignment, spline = np.sinc(turn / (2 * math.pi)) ** 3, (2 + np.cos(turn)) / 3
        waves /= (assignment * spline).reshape([-1 if i == axis else 1 for i in range(axes)])
    return waves


def _squares(sides: list[np.ndarray]) -> np.ndarray:
    """Squared lengths of all vectors with these coordinates."""
    out = np.zeros(())
    for side in sides:
        out = np.add.outer(out, side**2)
    return out


def _profile(kernel: str, ratio: np.ndarray) -> np.ndarray:
    """The kernel at many distances, from a table if that is shorter; within about 1e-9."""
    if ratio.size <= TABLE:
        return profile(kernel, ratio)
    stops = np.linspace(0.0, 1.0, TABLE) ** 2 * float(ratio.max())  # close where it bends
    return np.asarray(np.interp(ratio, stops, profile(kernel, stops)))


def _mirrored(waves: np.ndarray, lengths: list[int]) -> np.ndarray:
    """All frequencies of the leading axes, from those up to half of their lengths."""
    for axis, length in enumerate(lengths):
        index = np.minimum(np.arange(length), length - np.arange(length))
        waves = np.take(waves, index, axis=axis)
    return waves


MOST = 2**24  # nodes, of 8 bytes each
STEP = 1 << PLACE_BITS  # steps from node to node
BITS = (15, 7, 5, 4)  # of a point's integer weights along each axis, in 1 to 4 dimensions
PER_BANDWIDTH = {"p-stable": 3.0, "gaussian": 2.0, "exponential": 3.0}
# In one column nodes are cheap, and values that repeat, as ages do, need them close.
ALONG_A_LINE = {"p-stable": 12.0, "gaussian": 4.0, "exponential": 12.0}
IN_FOUR = 2**20  # spaces between nodes in four columns, by default at most
LOWEST = 0.5  # nodes per bandwidth


def usual_resolution(sides: np.ndarray, kernel: str) -> float:
    """The default number of nodes per bandwidth, for sides of a box in bandwidths.

    In four columns it is as high as IN_FOUR spaces allow, but not below LOWEST.
    """
    usual = (ALONG_A_LINE if len(sides) == 1 else PER_BANDWIDTH)[kernel]
    if len(sides) < 4:
        return usual
    allowed = (IN_FOUR / np.prod(np.maximum(sides, 1.0 / usual))) ** 0.25
    return float(min(usual, max(allowed, LOWEST)))


@dataclass(frozen=True)
class Nodes:
    """Nodes at equal distances along every axis of a box, shifted by a public offset.

    Parameters: box, of 1 to 4 axes; spaces, their number along every axis; seed, of the offset.
    """

    box: Box
    spaces: tuple[int, ...]
    seed: int

    @classmethod
    def of(
        cls, box: Box, bandwidth: float, kernel: str, resolution: float | None, seed: int
    ) -> "Nodes":
        """A grid with `resolution` nodes per bandwidth, or the kernel's default."""
        with np.errstate(over="ignore"):  # infinitely many are too many
            sides = box.widths / bandwidth
            each = usual_resolution(sides, kernel) if resolution is None else resolution
            spaces = np.maximum(np.ceil(sides * each - 1e-9), 1)
        return cls(box, tuple(int(min(count, MOST)) for count in spaces), seed)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of nodes along every axis, with room for the outer neighbours of any point."""
        return tuple(count + 3 for count in self.spaces)

    @property
    def size(self) -> int:
        """Total number of nodes."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Bits of a point's integer weights along one axis."""
        return BITS[len(self.spaces) - 1]

    @property
    def unit(self) -> int:
        """Sum of the integer weights of one point."""
        return 1 << (self.bits * len(self.spaces))

    @property
    def longest(self) -> int:
        """Largest sum of squares of one point's integer weights, at any position."""
        return int(_longest(self.bits) ** len(self.spaces))

    @cached_property
    def spacing(self) -> np.ndarray:
        """Distance of neighbouring nodes along every axis."""
        return np.asarray(self.box.widths / np.array(self.spaces))

    @cached_property
    def _moved(self) -> np.ndarray:
        """Steps from the first node to the box: half a space to one and a half."""
        words = hash_column(range(len(self.spaces)), self.seed)
        steps = (words >> np.uint64(64 - PLACE_BITS)).astype(np.int64)
        return np.asarray(steps + STEP // 2)

    @property
    def offsets(self) -> np.ndarray:
        """Spaces from the first node to the box, along every axis."""
        return np.asarray(self._moved / STEP)

    @property
    def firsts(self) -> tuple[int, ...]:
        """The first node within the box, along every axis."""
        return tuple(int(-(-moved // STEP)) for moved in self._moved)

    def steps(self, inside: np.ndarray) -> np.ndarray:
        """Positions of clipped points in integer steps.

        One subtraction, one product and one rounding, the same on every machine.
        """
        rates = np.array(self.spaces) * float(STEP) / self.box.widths
        steps = np.rint((inside - np.array(self.box.low)) * rates).astype(np.int64)
        return np.asarray(steps + self._moved)

    def positions(self, inside: np.ndarray) -> np.ndarray:
        """Positions of clipped queries, in nodes."""
        rates = np.array(self.spaces) / self.box.widths
        return np.asarray((inside - np.array(self.box.low)) * rates + self.offsets)


@lru_cache(maxsize=4)
def _longest(bits: int) -> int:
    """Largest sum of squares along one axis, over all positions between nodes."""
    positions = range(-STEP // 2, STEP // 2)
    return int(
        max(sum(grid.part(node, far, bits, 3) ** 2 for node in range(3)) for far in positions)
    )
