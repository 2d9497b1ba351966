"""The factor of a code: the one number by which its sum of atoms stands for a vector's rest."""

import numpy as np

from sfumato.kernels import sides
from sfumato.retrieve._basis import Basis
from sfumato.retrieve._batches import Batch

__all__ = ["nearest", "ratio", "unbiased"]

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
    whole = rest + _products(chosen, np.repeat(middle, len(chosen), axis=0), batch.size)
    beside = far * np.multiply(batch.unit[: batch.size], centre, dtype=np.float64).sum(axis=1)
    square = float(np.square(centre, dtype=np.float64).sum()) + 2 * beside + far * far
    weight = ratio(ALONG, np.where(square > 1e-12 * far * far, square, 0))
    above = rest + weight * (beside + far * far) * whole
    below = basis.squares(chosen)[: batch.size] + weight * whole * whole
    return np.where(far > 0, ratio(above, below), 0)


def ratio(above: np.ndarray | float, below: np.ndarray) -> np.ndarray:
    """The quotients, and 0 where the divisor is not above 0."""
    return np.asarray(np.divide(above, below, out=np.zeros(len(below)), where=below > 0))


def _products(left: np.ndarray, right: np.ndarray, size: int) -> np.ndarray:
    out = np.empty(size)
    sides.products(left, right, out)
    return out
