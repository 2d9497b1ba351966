"""A density as a function on a box, for mode finding and sampling, and its values on a grid."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sfumato.core.bounds import Box, Pair
from sfumato.core.validation import integer
from sfumato.density.backends import Setting, described, hash_error
from sfumato.density.kernel_shrinkage import shrinkage
from sfumato.sketch.kernel_sums.grid_adaptive import ReleasedAdaptiveGrid

__all__ = ["Field", "field_of", "grid_values", "log_integral", "means_of"]


@dataclass(frozen=True)
class Field:
    """Mean kernel values at points of a box, and their error.

    noise: standard deviation of the noise of a value, 0 if there is none. log_integral: log of the
    integral of the kernel; a value over that integral is a density.
    """

    values: Callable[[np.ndarray], np.ndarray]
    setting: Setting
    bounds: Pair
    noise: float
    log_integral: float

    @property
    def dimension(self) -> int:
        return len(self.bounds[0])

    def uniform(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw points uniformly from the box."""
        low, high = np.array(self.bounds[0]), np.array(self.bounds[1])
        return np.asarray(low + rng.random((count, low.size)) * (high - low))

    def rise(self, value: float, threshold: float) -> float:
        """`threshold` standard deviations of the noise, and half as many of the hashing error.

        Noise is independent in every cell, so the maximum over many points is far out. The hashing
        error is known only approximately, and varies slowly between points.
        """
        hashing = float(hash_error(self.setting, np.array([value]))[0])
        return math.hypot(threshold * self.noise, threshold / 2 * hashing)

    def density(self, values: np.ndarray) -> np.ndarray:
        """Values on the scale of `SketchDensity.density`; noise may make them negative."""
        return np.asarray(values * math.exp(-self.log_integral))


def field_of(owner: str, source: Any, bounds: Any = None) -> Field:
    """The field of a fitted estimator over one sketch, of a kernel-sum sketch, or of its release.

    bounds: the part of the box to use, (low, high), each a number or one per column; None for all.
    """
    summary = source._summary if hasattr(source, "_summary") else source
    if not (hasattr(summary, "estimate") and hasattr(summary, "size")):
        kind = type(source).__name__
        raise TypeError(f"{owner}: source must be an estimator, a sketch or a release, not {kind}.")
    setting = described(summary)
    box = setting.bounds if bounds is None else Box.of(owner, bounds, setting.dimension).bounds
    size = max(float(summary.size()), 1.0)
    return Field(
        values=source._mean if hasattr(source, "_mean") else means_of(summary),
        setting=setting,
        bounds=box,
        noise=float(summary.noise_error()) / size if hasattr(summary, "noise_error") else 0.0,
        log_integral=log_integral(setting.kernel, setting.bandwidth, setting.dimension),
    )


def means_of(summary: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The function of mean kernel values of a sketch or release, shrunk where noise is known.

    What is shrunk is biased anyway, and is 0 where it would be below. All else may be negative.
    """
    shrunk = shrinkage(summary)
    if shrunk is not None:
        return partial(_not_negative, shrunk.values)
    size = max(float(summary.size()), 1.0)
    values = partial(_mean_values, summary, size)  # a function that can be pickled
    return partial(_not_negative, values) if isinstance(summary, ReleasedAdaptiveGrid) else values


def _not_negative(values: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(values(points), 0.0))


def _mean_values(summary: Any, size: float, points: np.ndarray) -> np.ndarray:
    """Mean kernel values by estimates and the number of points."""
    return np.asarray(summary.estimate(points)) / size


def log_integral(kernel: str, bandwidth: float, dimension: int) -> float:
    """Logarithm of the integral of a kernel over R^d; 0 for p-stable, whose integral diverges.

    >>> round(math.exp(2 * log_integral("gaussian", 1.0, 1)), 6) == round(2 * math.pi, 6)
    True
    """
    scale = dimension * math.log(bandwidth)
    if kernel == "gaussian":
        return scale + dimension / 2 * math.log(2 * math.pi)
    if kernel == "exponential":  # the sphere's surface times Gamma(d)
        surface = math.log(2) + dimension / 2 * math.log(math.pi) - math.lgamma(dimension / 2)
        return scale + surface + math.lgamma(dimension)
    return 0.0


CELLS = 2**24  # of a grid, at most


def grid_values(
    source: Any, low: Any = None, high: Any = None, shape: Any = 64
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Evaluate a density on an even grid of one or two dimensions.

    Parameters
    ----------
    source : estimator, Sketch or Release
        A fitted `SketchDensity` or `SketchSampler`, a kernel-sum sketch or its release, over one or
        two columns.
    low : float, array_like or None, default=None
        Lower limits of the grid, a number or one per column; None takes those of the public bounds.
    high : float, array_like or None, default=None
        Upper limits of the grid, likewise.
    shape : int or sequence of int, default=64
        Number of cells along each axis, one number or one per column, each from 1 to 2**14 and at
        most 2**24 in all.

    Returns
    -------
    tuple of (ndarray, tuple of ndarray)
        The densities at the centres of the cells, an array of this shape whose first axis is the
        first column, and the centres along each axis. Densities from a release may be negative,
        but for those that its estimator shrinks by their noise.

    Examples
    --------
    >>> from sfumato.density import SketchDensity
    >>> model = SketchDensity(bandwidth=0.2, kernel="gaussian", bounds=(0, 1)).fit([[0.5, 0.5]] * 9)
    >>> values, (across, up) = grid_values(model, shape=(2, 5))
    >>> values.shape, across.tolist(), up[values[0].argmax()]
    ((2, 5), [0.25, 0.75], np.float64(0.5))
    """
    owner = "grid_values"
    field = field_of(owner, source)
    if field.dimension > 2:
        raise ValueError(f"{owner}: one or two columns can be drawn, not {field.dimension}.")
    sides = field.bounds[0] if low is None else low, field.bounds[1] if high is None else high
    box = Box.of(owner, sides, field.dimension)
    each = np.atleast_1d(np.asarray(shape, object)).tolist()
    each = each * field.dimension if len(each) == 1 else each
    counts = [integer(1, 2**14).check(owner, "shape", count) for count in each]
    if len(counts) != field.dimension or math.prod(counts) > CELLS:
        raise ValueError(
            f"{owner}: shape must be one number or {field.dimension}, of at most 2**24 cells, not "
            f"{shape!r:.80}."
        )
    axes = tuple(
        start + (np.arange(count) + 0.5) * (end - start) / count
        for start, end, count in zip(box.low, box.high, counts, strict=True)
    )
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, field.dimension)
    return field.density(field.values(points)).reshape(counts), axes
