"""The release of moments of the degree that a noisy number of rows makes worth its noise."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sfumato.density.regress.least_squares import COUNTED, QUADRATIC
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.noise import discrete
from sfumato.privacy.random_source import SystemSource
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest
from sfumato.sketch.base import bounded_weight
from sfumato.sketch.kernel_sums.moments import Moments, ReleasedMoments
from sfumato.sketch.kernel_sums.polynomial_features import Polynomials

__all__ = ["moments_of_chosen_degree"]


@dataclass(frozen=True)
class _ChosenDegree(CalibratedRelease[ReleasedMoments]):
    """A release of linear moments, or by a noisy count of the rows of the quadratic ones."""

    quadratic: CalibratedRelease[ReleasedMoments] | None = None
    is_worth: Callable[[int], bool] = bool
    rows: int = 0
    count_scale: Fraction = Fraction(1)

    def _made(
        self, request: ReleaseRequest, cost: tuple[float, float], release_id: str
    ) -> ReleasedMoments:
        source = request.source or SystemSource()
        count = np.array([self.rows], np.int64)
        discrete.add_laplace(count, self.count_scale, source=source)
        assert self.quadratic is not None
        chosen = self.quadratic if self.is_worth(int(count[0])) else self
        made = CalibratedRelease(
            ReleasedMoments, chosen.parameters, self.loss, self.mechanism, chosen.noisy
        )
        return made._made(replace(request, source=request.source), cost, release_id)


def moments_of_chosen_degree(
    moments: Moments, request: ReleaseRequest
) -> CalibratedRelease[ReleasedMoments]:
    """The calibrated release of moments of degree 2, or of those of degree 1 among them.

    Guarantee: epsilon-private. An event changes the number of rows by 1, so that its noise costs
    COUNTED epsilon; what is released then, by the noisy number alone, costs the rest for either
    degree, so that both sum to epsilon (sequential composition).
    """
    weight = bounded_weight("Moments", 1, moments.heaviest)
    rest = replace(request, epsilon=float(_below(Fraction(request.epsilon) * (1 - COUNTED))))
    linear = moments.linear()._calibrated_release(rest, weight, None)
    quadratic = moments._calibrated_release(rest, weight, None)
    sums = Polynomials.count(moments.dimension - 1, 2)
    scale = Fraction(request.events) / (Fraction(request.epsilon) * COUNTED)
    mechanism = (
        f"discrete Laplace noise, scale {float(scale):.6g}, on the number of rows, by which the "
        f"degree is chosen; at degree 1 {linear.mechanism}; at degree 2 {quadratic.mechanism}"
    )
    return _ChosenDegree(
        ReleasedMoments,
        linear.parameters,
        Pure(request.epsilon, relation=request.relation),
        mechanism,
        linear.noisy,
        quadratic=quadratic,
        is_worth=lambda rows: sums <= QUADRATIC * request.epsilon * max(rows, 1),
        rows=moments.total,
        count_scale=scale,
    )


def _below(part: Fraction) -> float:
    """The largest float that is not above this number."""
    near = float(part)
    return near if Fraction(near) <= part else float(np.nextafter(near, 0.0))
