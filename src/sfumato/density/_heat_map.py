"""A density on an even grid of one or two dimensions, as a picture needs it."""

import math
from typing import Any

import numpy as np

from sfumato._require import whole
from sfumato.density._field import field_of
from sfumato.sketch._points import Box

__all__ = ["grid_values"]

CELLS = 2**24  # of a picture


def grid_values(
    source: Any, low: Any = None, high: Any = None, shape: Any = 64
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """The values of a density at the centres of even cells, and the centres along each axis.

    Parameters: source, an estimator with a `density`, a kernel-sum sketch or its release, over one
    or two columns; low and high, of the picture, each a number or one per column (None: those of
    the public box); shape, how many cells along each axis, one number or one per column. The first
    axis of the values is the first column.

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
    counts = [whole(1, 2**14).check(owner, "shape", count) for count in each]
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
