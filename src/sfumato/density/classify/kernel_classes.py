"""Likelihood times prior, from tables of columns or from kernel sums; and rows with classes.

Kernel sums of classes, released together: each class alone, all for the price of one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato.core.storage import Cells, Stored
from sfumato.density.classify.encoding import LABELS, prior_shares
from sfumato.density.classify.log_odds import contrasts
from sfumato.density.classify.naive_bayes import Columns
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
    "planned_kernels",
    "refuse_told",
]

LAST_DIGIT = 2.0**-52  # a mean of kernels that are at most 1 has no smaller part


@dataclass(frozen=True)
class Labelled:
    """Points, the places of their classes, and whole weights or None for ones."""

    points: np.ndarray
    positions: np.ndarray
    weights: np.ndarray | None

    def of(self, k: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The points and weights of one class."""
        mine = self.positions == k
        return self.points[mine], None if self.weights is None else self.weights[mine]


@dataclass(frozen=True)
class Planned:
    """Something that is released as sketches are: by a plan that is made for the terms."""

    owner: str
    plan: Callable[[ReleaseRequest], CalibratedRelease[Any]]

    def release(
        self, epsilon: float | Privacy | None = None, delta: float = 0.0, **options: Any
    ) -> Release:
        """The release under these terms: charged before any noise is drawn."""
        request = ReleaseRequest.of(self.owner, epsilon, delta, options)  # type: ignore[arg-type]
        made: Release = self.plan(request).publish(request)
        return made


def refuse_told(owner: str, asked: dict[str, Any], told: dict[str, Any]) -> None:
    """Raise where parameters are asked for that the release itself tells."""
    strange = sorted(asked.keys() & told.keys() - {"random_state"})
    if strange:
        raise ValueError(f"{owner}: {strange[0]} is that of the release; leave it out.")


def column_joint(owner: str, held: Columns, priors: Any, points: np.ndarray) -> np.ndarray:
    """Log probabilities of classes, up to their sum: of each against the others, for itself."""
    classes = contrasts(len(held.labels))
    shares = prior_shares(owner, priors, held.sizes)
    counted = prior_shares(owner, "estimated", held.sizes)
    if not classes:
        return np.zeros((len(points), 1))
    odds = held.log_odds(points) + (_logit(shares) - _logit(counted))[classes]
    if len(held.labels) == 2:
        odds = np.hstack([-odds, odds])
    return np.asarray(-np.logaddexp(0, -odds))


def kernel_joint(owner: str, sums: list[Any], priors: Any, points: np.ndarray) -> np.ndarray:
    """The log of each class's mean kernel value, no lower than its noise, and of its prior."""
    sizes = np.array([max(float(one.size()), 1.0) for one in sums])
    noise = [one.noise_error() if hasattr(one, "statement") else 0.0 for one in sums]
    floor = np.maximum(np.array(noise) / sizes, LAST_DIGIT)
    means = np.column_stack([np.asarray(one.estimate(points)) for one in sums]) / sizes
    return np.asarray(np.log(np.maximum(means, floor)) + np.log(prior_shares(owner, priors, sizes)))


def _logit(shares: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares) - np.log1p(-shares))


class ReleasedClassKernels(Release):
    """One released kernel-sum sketch for each class; made by `SketchClassifier`.

    Guarantee: as its statement says. A row is in the sketch of its own class only, so that each has
    noise for the whole of epsilon. A row that is exchanged may leave one class for another, whose
    counts both change then: so under "replace" every sketch has noise for two rows, one taken away
    and one added, wherever these are, and the statements of `parts` say so.
    Parameters: labels, the public list of classes, in the order of the sketches.
    """

    labels: Annotated[tuple[Any, ...], LABELS]
    _of = "SketchClassifier"

    def _layout(self) -> dict[str, Cells]:
        return {f"_class_{k}": Cells(np.uint8, (-1,)) for k in range(len(self.labels))}

    @cached_property
    def parts(self) -> list[Any]:
        """The releases, one for each class."""
        return [Release.from_bytes(cells.tobytes()) for cells in self._arrays().values()]

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
    """The release of all classes' sketches under these terms; `empty` is one of their setting.

    What it costs is read from a release of the empty sketch, which holds nobody's data.
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
    """The terms of one class's sketch: nobody pays for it alone, and an exchange is two events."""
    unpaid = replace(request, ledger=None, dataset="", release_id=None)
    return replace(unpaid, relation="add/remove", contributions=request.events)


def _released(sketch: Stored, request: ReleaseRequest, source: Source | None) -> Any:
    return sketch.release(  # type: ignore[attr-defined]
        request.epsilon,
        request.delta,
        unit=request.unit,
        relation=request.relation,
        contributions=request.contributions,
        source=source,
    )
