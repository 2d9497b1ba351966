"""Sums of products of Chebyshev polynomials in integers, as polynomial regression needs them.

A product is named by the columns it multiplies, in order: (0, 0, 3) is T_2(x_0) T_1(x_3). Each is
between -1 and 1 on the box, where 2**(power - 1) is the largest possible leading coefficient: no
other basis estimates powers with less noise for the same sensitivity. Also the noise of these sums,
all of which one row may change: in a cube, or Gaussian, part by part.
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from typing import Any, TypeVar

import numpy as np

from sfumato.core.validation import one_of
from sfumato.kernels.alignment import aligned
from sfumato.privacy.accounting.calibration import gaussian_sigma_l2
from sfumato.privacy.accounting.losses import Concentrated, Loss, Pure
from sfumato.privacy.noise import discrete as exact
from sfumato.privacy.noise.cube import add_cube, cube_deviation
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.privacy.rounding import round_up

__all__ = ["CELLS", "CLIP", "NOISES", "MomentNoise", "Polynomials", "deviation"]

CELLS = 2**16  # sums of one sketch, at most

Product = tuple[int, ...]


class Polynomials:
    """The sums that least squares needs: of inputs up to twice the degree, and with the target.

    Parameters: columns of the input, 1 or more; degree of the regression, 0 to 2.
    inputs: products of the input whose sums are stored; features: those that predict.

    >>> Polynomials(2, 1).inputs
    [(), (0,), (1,), (0, 0), (0, 1), (1, 1)]
    """

    def __init__(self, columns: int, degree: int) -> None:
        self.columns, self.degree = columns, degree
        self.features = _products(columns, degree)

    @cached_property
    def inputs(self) -> list[Product]:
        return _products(self.columns, 2 * self.degree)

    @cached_property
    def _position(self) -> dict[Product, int]:
        return {name: i for i, name in enumerate(self.inputs)}

    @cached_property
    def _split(self) -> list[tuple[Product, Product]]:
        return [_halves(name) for name in self.inputs]

    @cached_property
    def _columns(self) -> list[Product]:
        needed = {half for pair in self._split for half in pair} | set(self.features)
        return sorted(needed, key=lambda name: (len(name), name))

    @cached_property
    def _at(self) -> dict[Product, int]:
        return {name: i for i, name in enumerate(self._columns)}

    @staticmethod
    @lru_cache(32)
    def of(columns: int, degree: int) -> "Polynomials":
        """A cached instance for these numbers."""
        return Polynomials(columns, degree)

    @property
    def targets(self) -> int:
        """Number of sums with the target: one per feature, and its own T_2."""
        return len(self.features) + 1

    @staticmethod
    def count(columns: int, degree: int) -> int:
        """Number of all sums, without listing them."""
        inputs = targets = 1
        for i in range(1, 2 * degree + 1):
            inputs = inputs * (columns + i) // i
        for i in range(1, degree + 1):
            targets = targets * (columns + i) // i
        return inputs + targets + 1

    def sums(
        self, steps: np.ndarray, weights: np.ndarray | None, most: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sums over rows of inputs and targets, each product of two integers up to `most`.

        steps: integers from -most to most, the target in the last column; exact in float64.
        """
        made = self._evaluated(steps[:, :-1], most)
        target = steps[:, -1:]
        double = _rounded(2 * target * target - most * most, most)
        right = np.hstack([made, target, double])
        left = right if weights is None else right * weights[:, None]
        gram = np.rint(left.T @ right).astype(np.int64)
        pairs = np.array([(self._at[a], self._at[b]) for a, b in self._split])
        columns = [self._at[name] for name in self.features]
        end = len(self._columns)
        return gram[pairs[:, 0], pairs[:, 1]], np.append(gram[columns, end], gram[0, end + 1])

    def values(self, points: np.ndarray) -> np.ndarray:
        """Every feature at points scaled to -1 .. 1."""
        powers = _chebyshev(points, self.degree)
        out = np.ones((len(points), len(self.features)))
        for j, name in enumerate(self.features):
            for column, power in Counter(name).items():
                out[:, j] *= powers[power][:, column]
        return out

    def matrix(self, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Sums of products of all pairs of features, the target being the last of them.

        T_p T_q = (T_(p + q) + T_|p - q|) / 2 in each column.
        """
        rows, columns, positions, weights = self._expanded
        size = len(self.features)
        out = np.zeros((size + 1, size + 1))
        np.add.at(out, (rows, columns), inputs[positions] * weights)
        out[:size, size] = targets[:-1]
        out[size, size] = (inputs[0] + targets[-1]) / 2
        return np.asarray(np.triu(out) + np.triu(out, 1).T)

    @property
    def _expanded(self) -> tuple[np.ndarray, ...]:
        return _expanded(self.columns, self.degree)

    def _evaluated(self, steps: np.ndarray, most: int) -> np.ndarray:
        powers = _integer_chebyshev(steps, max(len(name) for name in self._columns), most)
        out = np.empty((len(steps), len(self._columns)))
        for j, name in enumerate(self._columns):
            column = np.full(len(steps), float(most))
            for index, power in Counter(name).items():
                column = _rounded(column * powers[power][:, index], most)
            out[:, j] = column
        return out


def _products(columns: int, degree: int) -> list[Product]:
    """All products of up to `degree` columns, shorter ones first."""
    return [
        name
        for length in range(degree + 1)
        for name in combinations_with_replacement(range(columns), length)
    ]


def _halves(name: Product) -> tuple[Product, Product]:
    """Two products without a common column whose product is this one."""
    parts = sorted(Counter(name).items(), key=lambda part: -part[1])
    left: list[int] = []
    while parts and 2 * len(left) < len(name):
        column, power = parts.pop(0)
        left += [column] * power
    right = [column for column, power in parts for _ in range(power)]
    return tuple(sorted(left)), tuple(sorted(right))


def _rounded(products: np.ndarray, most: int) -> np.ndarray:
    """Products of two integers up to `most`, divided by it and rounded; the same everywhere."""
    return np.asarray(np.clip(np.rint(products / most), -most, most))


def _integer_chebyshev(steps: np.ndarray, degree: int, most: int) -> list[np.ndarray]:
    series = [np.full_like(steps, float(most)), steps]
    for power in range(2, degree + 1):
        half = power // 2  # by halves, since errors of rounding then stay small
        product = 2 * series[half] * series[power - half] - most * series[power % 2]
        series.append(_rounded(product, most))
    return series


def _chebyshev(points: np.ndarray, degree: int) -> list[np.ndarray]:
    series = [np.ones_like(points), points]
    for _ in range(degree - 1):
        series.append(2 * points * series[-1] - series[-2])
    return series


@lru_cache(32)
def _expanded(columns: int, degree: int) -> tuple[np.ndarray, ...]:
    made = Polynomials.of(columns, degree)
    entries = [
        (i, j, made._position[name], weight)
        for i, one in enumerate(made.features)
        for j, other in enumerate(made.features[i:], i)
        for name, weight in _multiplied(one, other).items()
    ]
    rows, across, positions, weights = zip(*entries, strict=True)
    indices = [np.array(each) for each in (rows, across, positions)]
    return *indices, np.array(weights)


def _multiplied(one: Product, other: Product) -> dict[Product, float]:
    """The product of two products, as weights of products."""
    mine, yours = Counter(one), Counter(other)
    terms: dict[Product, float] = {(): 1.0}
    for column in sorted({*mine, *yours}):
        p, q = mine[column], yours[column]
        powers = [p + q, abs(p - q)] if p and q else [p + q]
        terms = {
            (*name, *[column] * power): weight / len(powers)
            for name, weight in terms.items()
            for power in powers
        }
    return terms


MECHANISMS = {
    "Cube": "discrete noise in a cube, exp(-max |n| / scale) for all cells of a part together "
    "(K-norm mechanism: Hardt and Talwar 2010; Awan and Slavkovic 2021)",
    "Gaussian": "discrete Gaussian noise",
}
NOISES = tuple(MECHANISMS)
BUDGET = {"_inputs": Fraction(3, 5), "_targets": Fraction(2, 5)}  # of epsilon, or of rho
CLIP = exact.ROOM - 1  # the largest size of a cell that noise cannot wrap
FAR = 2**20  # scales beyond a cube's usual size, with probability at most exp(-2**19)
R = TypeVar("R", bound=Release)


def deviation(kind: str, scale: float, size: int) -> float:
    """Standard deviation of the noise of one of `size` cells."""
    return cube_deviation(scale, size) if kind == "Cube" else scale


@dataclass(frozen=True)
class MomentNoise:
    """The distribution of the noise, its scale in each part, and its privacy loss."""

    kind: str
    scales: dict[str, Fraction]
    loss: Loss

    @classmethod
    def of(
        cls, request: ReleaseRequest, sizes: dict[str, int], change: Fraction, wanted: str | None
    ) -> "MomentNoise":
        """The smaller noise, or the wanted one, if an event changes cells by up to `change`."""
        if wanted is not None:
            wanted = one_of(("cube", "gaussian")).check(request.owner, "noise", wanted)
        if wanted == "gaussian" and not request.delta:
            raise ValueError(f"{request.owner}: noise 'gaussian' needs a delta above 0.")
        change = change * request.events
        candidates = [_cube(request, change)] if wanted != "gaussian" else []
        if request.delta and wanted != "cube":
            candidates.append(_gaussian(request, sizes, change))
        candidates = [candidate for candidate in candidates if candidate._fits(sizes)]
        if not candidates:
            raise ValueError(
                f"{request.owner}: epsilon is {request.epsilon!r}, for which the noise is too "
                "coarse in steps of so few bits, or too large for cells of 64 bits; change "
                "epsilon or bits, or lower weight or contributions."
            )
        return min(candidates, key=lambda candidate: candidate._target_deviation(sizes))

    def calibrated(
        self,
        kind: type[R],
        parameters: dict[str, Any],
        arrays: dict[str, np.ndarray],
        request: ReleaseRequest,
        weight: int,
    ) -> CalibratedRelease[R]:
        """The release of these parts with this noise."""
        request.check_room(8 * sum(array.size for array in arrays.values()))

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {name: self._with_noise(name, array, source) for name, array in arrays.items()}

        inputs, targets = (float(self.scales[name]) for name in ("_inputs", "_targets"))
        mechanism = (
            f"{MECHANISMS[self.kind]}, scale {inputs:.6g} on each of {arrays['_inputs'].size} "
            f"sums of inputs and {targets:.6g} on each of {arrays['_targets'].size} sums with the "
            f"target; an event weighs at most {weight}"
        )
        noise = {"noise": self.kind, "scale": inputs, "target_scale": targets}
        return CalibratedRelease(kind, {**parameters, **noise}, self.loss, mechanism, noisy)

    def _with_noise(self, name: str, array: np.ndarray, source: Source) -> np.ndarray:
        cells = aligned(array.shape, np.int64)
        cells[...] = array
        np.clip(cells, -CLIP, CLIP, out=cells)  # increases no distance of two arrays
        add = add_cube if self.kind == "Cube" else exact.add_gaussian
        add(cells, self.scales[name], source=source)
        return cells

    def _fits(self, sizes: dict[str, int]) -> bool:
        """Whether cells have room for the noise, and steps are fine enough to sample a cube."""
        each = [(self.scales[name], size) for name, size in sizes.items()]
        room = max(scale * (2 * size + FAR) for scale, size in each) < exact.ROOM // 2
        fine = all(8 * scale >= size for scale, size in each)
        small = max(self.scales.values()) <= exact.LARGEST
        return small and (self.kind != "Cube" or (room and fine))

    def _target_deviation(self, sizes: dict[str, int]) -> float:
        """Noise of sums with the target, on which predictions depend most."""
        name = "_targets"
        return deviation(self.kind, float(self.scales[name]), sizes[name])


def _cube(request: ReleaseRequest, change: Fraction) -> MomentNoise:
    epsilon = Fraction(request.epsilon)
    scales = {name: change / (fraction * epsilon) for name, fraction in BUDGET.items()}
    return MomentNoise("Cube", scales, Pure(request.epsilon, relation=request.relation))


def _gaussian(request: ReleaseRequest, sizes: dict[str, int], change: Fraction) -> MomentNoise:
    scales, rho = {}, Fraction(0)
    for name, fraction in BUDGET.items():
        # If it were the only part, sigma would suffice at the norm that this part of rho allows.
        square = sizes[name] * change**2 / fraction
        sigma = gaussian_sigma_l2(request.epsilon, request.delta, norm_squared=square)
        scales[name] = sigma
        rho += sizes[name] * change**2 / (2 * sigma**2)
    return MomentNoise("Gaussian", scales, Concentrated(round_up(rho), relation=request.relation))
