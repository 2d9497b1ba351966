"""Noise for sums that one row moves all at once: in a cube, or Gaussian, part by part."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from sfumato._require import one_of
from sfumato.kernels.lanes import aligned
from sfumato.privacy import noise as exact
from sfumato.privacy._cube import add_cube, cube_deviation
from sfumato.privacy._source import Source
from sfumato.privacy._upward import round_up
from sfumato.privacy.calibrate import gaussian_sigma_l2
from sfumato.privacy.loss import Concentrated, Loss, Pure
from sfumato.sketch._release import Plan, Release, Terms

__all__ = ["NOISES", "MomentPlan", "deviation"]

LAWS = {
    "Cube": "discrete noise in a cube, exp(-max |n| / scale) for all cells of a part together "
    "(K-norm mechanism: Hardt and Talwar 2010; Awan and Slavkovic 2021)",
    "Gaussian": "discrete Gaussian noise",
}
NOISES = tuple(LAWS)
SHARES = {"_inputs": Fraction(3, 5), "_targets": Fraction(2, 5)}  # of epsilon, or of rho
CLIP = exact.ROOM - 1  # the largest size of a cell that noise cannot wrap
FAR = 2**20  # scales that a cube passes its usual size by, with chance exp(-2**19) at most
R = TypeVar("R", bound=Release)


def deviation(law: str, scale: float, size: int) -> float:
    """The standard deviation of the noise of one of so many cells."""
    return cube_deviation(scale, size) if law == "Cube" else scale


@dataclass(frozen=True)
class MomentPlan:
    """The law of the noise, its scale in each part, and what all of it costs."""

    law: str
    scales: dict[str, Fraction]
    loss: Loss

    @classmethod
    def of(
        cls, terms: Terms, sizes: dict[str, int], change: Fraction, wanted: str | None
    ) -> "MomentPlan":
        """The smaller noise, or the wanted one, for cells that one event all moves by `change`."""
        if wanted is not None:
            wanted = one_of(("cube", "gaussian")).check(terms.owner, "noise", wanted)
        if wanted == "gaussian" and not terms.delta:
            raise ValueError(f"{terms.owner}: noise 'gaussian' needs a delta above 0.")
        change = change * terms.events
        plans = [_cube(terms, change)] if wanted != "gaussian" else []
        if terms.delta and wanted != "cube":
            plans.append(_gaussian(terms, sizes, change))
        plans = [plan for plan in plans if plan._fits(sizes)]
        if not plans:
            raise ValueError(
                f"{terms.owner}: epsilon is {terms.epsilon!r}, for which the noise is too "
                "coarse in steps of so few bits, or too large for cells of 64 bits; change "
                "epsilon or bits, or lower weight or contributions."
            )
        return min(plans, key=lambda plan: plan._spread(sizes))

    def planned(
        self,
        kind: type[R],
        parameters: dict[str, Any],
        arrays: dict[str, np.ndarray],
        terms: Terms,
        weight: int,
    ) -> Plan[R]:
        """The release of these parts under these terms."""
        terms.check_room(8 * sum(array.size for array in arrays.values()))

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return {name: self._with_noise(name, array, source) for name, array in arrays.items()}

        inputs, targets = (float(self.scales[name]) for name in ("_inputs", "_targets"))
        mechanism = (
            f"{LAWS[self.law]}, scale {inputs:.6g} on each of {arrays['_inputs'].size} "
            f"sums of inputs and {targets:.6g} on each of {arrays['_targets'].size} sums with the "
            f"target; an event weighs at most {weight}"
        )
        told = {"noise": self.law, "scale": inputs, "target_scale": targets}
        return Plan(kind, {**parameters, **told}, self.loss, mechanism, noisy)

    def _with_noise(self, name: str, array: np.ndarray, source: Source) -> np.ndarray:
        cells = aligned(array.shape, np.int64)
        cells[...] = array
        np.clip(cells, -CLIP, CLIP, out=cells)  # moves no two arrays apart
        add = add_cube if self.law == "Cube" else exact.add_gaussian
        add(cells, self.scales[name], source=source)
        return cells

    def _fits(self, sizes: dict[str, int]) -> bool:
        """Whether cells have room for the noise, and steps are fine enough to draw a cube soon."""
        each = [(self.scales[name], size) for name, size in sizes.items()]
        room = max(scale * (2 * size + FAR) for scale, size in each) < exact.ROOM // 2
        fine = all(8 * scale >= size for scale, size in each)
        small = max(self.scales.values()) <= exact.LARGEST
        return small and (self.law != "Cube" or (room and fine))

    def _spread(self, sizes: dict[str, int]) -> float:
        """The variance of the noise with the target, which predictions depend on most."""
        name = "_targets"
        return deviation(self.law, float(self.scales[name]), sizes[name])


def _cube(terms: Terms, change: Fraction) -> MomentPlan:
    epsilon = Fraction(terms.epsilon)
    scales = {name: change / (share * epsilon) for name, share in SHARES.items()}
    return MomentPlan("Cube", scales, Pure(terms.epsilon, relation=terms.relation))


def _gaussian(terms: Terms, sizes: dict[str, int], change: Fraction) -> MomentPlan:
    scales, rho = {}, Fraction(0)
    for name, share in SHARES.items():
        # Were it the only part, sigma would do at the norm that this share of rho leaves.
        square = sizes[name] * change**2 / share
        sigma = gaussian_sigma_l2(terms.epsilon, terms.delta, norm_squared=square)
        scales[name] = sigma
        rho += sizes[name] * change**2 / (2 * sigma**2)
    return MomentPlan("Gaussian", scales, Concentrated(round_up(rho), relation=terms.relation))
