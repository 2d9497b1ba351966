"""Kernel sums of classes, released together: each class alone, all for the price of one."""

from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from sfumato.density._class_labels import LABELS
from sfumato.privacy._source import Source
from sfumato.privacy.loss import Loss
from sfumato.sketch._release import Plan, Release, Terms
from sfumato.sketch._stored import Cells, Stored
from sfumato.sketch.released_kernel_fourier import ReleasedKernelFourier
from sfumato.sketch.released_kernel_grid import ReleasedKernelGrid
from sfumato.sketch.released_kernel_slices import ReleasedKernelSlices
from sfumato.sketch.released_race import ReleasedRace

__all__ = ["ReleasedClassKernels", "planned_kernels"]


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
    labels: tuple[Any, ...], sketches: list[Any], empty: Any, terms: Terms
) -> Plan[ReleasedClassKernels]:
    """The release of all classes' sketches under these terms; `empty` is one of their setting.

    What it costs is read from a release of the empty sketch, which holds nobody's data.
    """
    unpaid = _each(terms)
    trial = _released(empty, unpaid, None).statement
    terms.check_room(8 * len(labels) * empty.nbytes)

    def noisy(source: Source) -> dict[str, np.ndarray]:
        return {
            f"_class_{k}": np.frombuffer(_released(one, unpaid, source).to_bytes(), np.uint8).copy()
            for k, one in enumerate(sketches)
        }

    mechanism = f"for each of {len(labels)} classes: {trial.mechanism}"
    return Plan(
        ReleasedClassKernels,
        {"labels": labels},
        replace(Loss.from_dict(trial.loss), relation=terms.relation),
        mechanism,
        noisy,
    )


def _each(terms: Terms) -> Terms:
    """The terms of one class's sketch: nobody pays for it alone, and an exchange is two events."""
    unpaid = replace(terms, ledger=None, dataset="", release_id=None)
    return replace(unpaid, relation="add/remove", contributions=terms.events)


def _released(sketch: Stored, terms: Terms, source: Source | None) -> Any:
    return sketch.release(  # type: ignore[attr-defined]
        terms.epsilon,
        terms.delta,
        unit=terms.unit,
        relation=terms.relation,
        contributions=terms.contributions,
        source=source,
    )
