"""Joint log probabilities of classes from column tables or kernel sums.

Also the release of kernel sums: each class has its own sketch, and together they cost one epsilon,
since a row has one class.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato.core.bounds import Box
from sfumato.core.storage import Cells, Stored
from sfumato.density.classify.encoding import LABELS, Bins, prior_probabilities
from sfumato.density.classify.log_odds import contrasts
from sfumato.density.classify.logistic import ClassLogits
from sfumato.density.classify.naive_bayes import Columns, LabelledRows
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, Release, ReleaseRequest
from sfumato.sketch.kernel_sums.fourier import ReleasedKernelFourier
from sfumato.sketch.kernel_sums.grid import ReleasedKernelGrid
from sfumato.sketch.kernel_sums.race import ReleasedRace
from sfumato.sketch.kernel_sums.slices import ReleasedKernelSlices

__all__ = [
    "Labelled",
    "Planned",
    "ReleasedClassKernels",
    "column_joint",
    "kernel_joint",
    "logistic_joint",
    "planned_kernels",
    "refuse_conflicting",
]

SIZE_NOISE = {  # about the most that a size has of the noise of an answer
    ReleasedRace: 7,
    ReleasedKernelGrid: 6,
    ReleasedKernelSlices: 3,
    ReleasedKernelFourier: 1,
}
LAST_DIGIT = 2.0**-52  # rounding error of a mean of kernel values up to 1


@dataclass(frozen=True)
class Labelled:
    """Points, indices of their classes, and integer weights or None for ones."""

    points: np.ndarray
    positions: np.ndarray
    weights: np.ndarray | None

    def of(self, k: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The points and weights of one class."""
        mine = self.positions == k
        return self.points[mine], None if self.weights is None else self.weights[mine]

    def outside(self, box: Box) -> int:
        """The number of points outside the bounds."""
        return box.clip(self.points)[1]

    def filled(self, make: Callable[[], Any], classes: int) -> list[Any]:
        """A sketch of each class, with its points."""
        return [make().update(*self.of(k)) for k in range(classes)]

    def coded(self, cut: Bins, classes: int) -> LabelledRows:
        """The rows as cells of columns."""
        return LabelledRows(cut.codes(self.points), self.positions, self.weights)


@dataclass(frozen=True)
class Planned:
    """Something released as sketches are, by a calibrated release made for the request."""

    owner: str
    calibrate: Callable[[ReleaseRequest], CalibratedRelease[Any]]

    def release(
        self, epsilon: float | Privacy | None = None, delta: float = 0.0, **options: Any
    ) -> Release:
        """Release under this epsilon and delta, charged before any noise is drawn."""
        request = ReleaseRequest.of(self.owner, epsilon, delta, options)  # type: ignore[arg-type]
        made: Release = self.calibrate(request).publish(request)
        return made


def refuse_conflicting(owner: str, given: dict[str, Any], determined: dict[str, Any]) -> None:
    """Raise ValueError if a constructor argument is one that the release determines."""
    conflicting = sorted(given.keys() & determined.keys() - {"random_state"})
    if conflicting:
        raise ValueError(f"{owner}: {conflicting[0]} is that of the release; leave it out.")


def column_joint(owner: str, tables: Columns, priors: Any, points: np.ndarray) -> np.ndarray:
    """Log probabilities of classes up to a constant: each class against all others."""
    classes = contrasts(len(tables.labels))
    prior = prior_probabilities(owner, priors, tables.sizes)
    counted = prior_probabilities(owner, "estimated", tables.sizes)
    if not classes:
        return np.zeros((len(points), 1))
    odds = tables.log_odds(points) + (_logit(prior) - _logit(counted))[classes]
    if len(tables.labels) == 2:
        odds = np.hstack([-odds, odds])
    return np.asarray(-np.logaddexp(0, -odds))


def logistic_joint(owner: str, weights: ClassLogits, priors: Any, points: np.ndarray) -> np.ndarray:
    """Log probabilities of classes up to a constant of each point."""
    prior = prior_probabilities(owner, priors, weights.sizes)
    counted = prior_probabilities(owner, "estimated", weights.sizes)
    return np.asarray(weights.logits(points) + np.log(prior / counted))


def kernel_joint(owner: str, sums: list[Any], priors: Any, points: np.ndarray) -> np.ndarray:
    """Log of each class's mean kernel value, no lower than its noise, plus its log prior."""
    sizes = np.array([max(float(one.size()), 1.0) for one in sums])
    noise = [one.noise_error() if hasattr(one, "statement") else 0.0 for one in sums]
    floor = np.maximum(np.array(noise) / sizes, LAST_DIGIT)
    means = np.column_stack([np.asarray(one.estimate(points)) for one in sums]) / sizes
    return np.asarray(
        np.log(np.maximum(means, floor)) + np.log(prior_probabilities(owner, priors, sizes))
    )


def _logit(probabilities: np.ndarray) -> np.ndarray:
    """Log odds of probabilities."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(probabilities) - np.log1p(-probabilities))


class ReleasedClassKernels(Release):
    """One released kernel-sum sketch for each class; made by `SketchClassifier`.

    The guarantee is that of its statement. A row is in the sketch of its own class only, so that
    each sketch has noise for all of epsilon. Replacing a row may move it from one class to another,
    which changes the counts of both: so under "replace" every sketch has noise for two rows, one
    removed and one added, wherever these are, and the statements of `parts` say so. Parameters:
    labels, the public list of classes, in the order of the sketches.
    """

    labels: Annotated[tuple[Any, ...], LABELS]
    _of = "SketchClassifier"

    def _layout(self) -> dict[str, Cells]:
        return {f"_class_{k}": Cells(np.uint8, (-1,)) for k in range(len(self.labels))}

    @cached_property
    def parts(self) -> list[Any]:
        """The releases, one for each class."""
        return [Release.from_bytes(cells.tobytes()) for cells in self._arrays().values()]

    def noisy_total(self) -> tuple[float, float]:
        """The noisy number of rows of all classes, and about the deviation of its noise."""
        noise = math.hypot(*(part.noise_error() for part in self.parts))
        total = sum(part.size() for part in self.parts)
        return float(total), SIZE_NOISE[type(self.parts[0])] * noise

    def _check_state(self) -> None:
        first, *others = self.parts
        kinds = ReleasedRace, ReleasedKernelGrid, ReleasedKernelSlices, ReleasedKernelFourier
        if not isinstance(first, kinds):
            raise ValueError("the parts are no kernel sums.")
        if any(type(o) is not type(first) or o.parameters != first.parameters for o in others):
            raise ValueError("the parts are not all of one setting.")


def planned_kernels(
    labels: tuple[Any, ...], sketches: list[Any], empty: Any, request: ReleaseRequest
) -> CalibratedRelease[ReleasedClassKernels]:
    """The calibrated release of the sketches of all classes; `empty` is a sketch of their setting.

    The privacy loss is read from a release of the empty sketch, which holds nobody's data.
    """
    unpaid = _each(request)
    trial = _released(empty, unpaid, None).statement
    request.check_room(8 * len(labels) * empty.nbytes)

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return {
            f"_class_{k}": np.frombuffer(_released(one, unpaid, source).to_bytes(), np.uint8).copy()
            for k, one in enumerate(sketches)
        }

    mechanism = f"for each of {len(labels)} classes: {trial.mechanism}"
    return CalibratedRelease(
        ReleasedClassKernels,
        {"labels": labels},
        replace(Loss.from_dict(trial.loss), relation=request.relation),
        mechanism,
        noisy,
    )


def _each(request: ReleaseRequest) -> ReleaseRequest:
    """The request for one class's sketch: unpaid by itself, and a replacement is two events."""
    unpaid = replace(request, ledger=None, dataset="", release_id=None)
    return replace(unpaid, relation="add/remove", contributions=request.events)


def _released(sketch: Stored, request: ReleaseRequest, source: Source | None) -> Any:
    """Release a sketch under this request."""
    return sketch.release(  # type: ignore[attr-defined]
        request.epsilon,
        request.delta,
        unit=request.unit,
        relation=request.relation,
        contributions=request.contributions,
        source=source,
    )
