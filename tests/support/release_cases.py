"""Every kind of release that the contract in releases.py holds for.

A new kind joins by one line in RELEASES: how to make its sketch, with default sizes and with the
smallest ones, and what its `release` needs besides epsilon. Keyed sketches are fed integers, text
or nothing, the others rows of numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.density.classify.encoding import Bins
from sfumato.density.classify.kernel_classes import Planned, planned_kernels
from sfumato.density.classify.naive_bayes import LabelledRows, planned
from sfumato.density.projection_histograms import SliceTable, planned_slices
from sfumato.density.regress.chosen_degree import moments_of_chosen_degree
from sfumato.density.synthesize.columns import COLUMNS, codes_of
from sfumato.density.synthesize.marginals import Layout, planned_marginals
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import (
    AMS,
    BloomFilter,
    CosineSketch,
    CountMin,
    CountSketch,
    HyperLogLog,
    KernelFourier,
    KernelGrid,
    KernelSlices,
    MinHash,
    Moments,
    Race,
    Release,
    Sketch,
)
from sfumato.sketch.base import KeyedSketch
from sfumato.sketch.lsh import Angular, Euclidean
from support.sketch_contract import KEYS, ROWS

WORDS = [f"key {key}" for key in KEYS[:500]]


@dataclass
class Case:
    """A sketch to release; arguments of its `release`; streams that differ in all that is private.

    Rows of numbers differ in their values only: how many there are is for a kind to say.
    """

    make: Callable[[], Sketch]
    arguments: dict[str, Any] = field(default_factory=dict)
    streams: list[Any] | None = None

    def sketch(self, which: int = 1) -> Sketch:
        sketch = self.make()
        keyed = isinstance(sketch, KeyedSketch)
        streams = self.streams or ([[], KEYS, WORDS] if keyed else [ROWS[::-1] * 3, ROWS, -ROWS])
        return sketch.update(streams[which])

    def release(self, which: int = 1, **terms: Any) -> Release:
        return self.release_of(self.sketch(which), **terms)

    def release_of(self, sketch: Any, **terms: Any) -> Release:
        """The release of a sketch that may have been filled elsewhere."""
        return self._released(sketch, **self._terms(terms))

    def _terms(self, terms: dict[str, Any]) -> dict[str, Any]:
        return {"epsilon": 1.0, "source": InsecureSeededSource(7), **self.arguments, **terms}

    def _released(self, sketch: Any, **terms: Any) -> Release:
        return sketch.release(**terms)


class RowsCase(Case):
    """Rows that are released without being kept: `make` gives what takes and releases them."""

    def release(self, which: int = 1, **terms: Any) -> Release:
        return self.make()([ROWS[::-1] * 3, ROWS, -ROWS][which], **self._terms(terms))


class AdaptiveCase(Case):
    """A grid that is released at a resolution that it chooses."""

    def _released(self, sketch: Any, **terms: Any) -> Release:
        return sketch.release_adaptive(**terms)


RELEASES: dict[str, list[Case]] = {}
RELEASES["ReleasedCountMin"] = [
    Case(lambda: CountMin(256)),
    Case(lambda: CountMin(2, 1)),
    Case(lambda: CountMin(64, 32), {"delta": 1e-6, "weight": 7, "relation": "replace"}),
    Case(lambda: CountMin(64), {"unit": "user", "contributions": 9}),
]
RELEASES["ReleasedCountSketch"] = [
    Case(lambda: CountSketch(256)),
    Case(lambda: CountSketch(2, 1, combine="median")),
    Case(lambda: CountSketch(64, 32, track=9), {"delta": 1e-6, "relation": "replace"}),
]
RELEASES["ReleasedAMS"] = [
    Case(lambda: AMS(256)),
    Case(lambda: AMS(2, 1)),
    Case(lambda: AMS(70, 3, kind="tug-of-war"), {"delta": 1e-6, "weight": 2}),
]
RELEASES["ReleasedBloomFilter"] = [
    Case(lambda: BloomFilter(2048)),
    Case(lambda: BloomFilter(9, 1), {"relation": "replace"}),
    Case(lambda: BloomFilter(512, 2, layout="blocked"), {"unit": "user", "contributions": 3}),
]
RELEASES["ReleasedHyperLogLog"] = [
    Case(lambda: HyperLogLog(10), {"largest": 10**6}),
    Case(lambda: HyperLogLog(4), {"largest": 1, "relation": "replace"}),
]
RELEASES["ReleasedMinHash"] = [
    Case(lambda: MinHash(256, kind="one-permutation")),
    Case(lambda: MinHash(3, kind="one-permutation", bits=5), {"bits": 3, "relation": "replace"}),
]
RELEASES["ReleasedKernelFourier"] = [
    Case(lambda: KernelFourier(2.0, ([-3] * 12, [3] * 12), rows=70)),
    Case(lambda: KernelFourier(9, ([-1] * 12, [9] * 12), rows=1, strata="independent")),
    Case(
        lambda: KernelFourier(2.0, ([-3] * 12, [3] * 12), rows=16, kernel="gaussian"),
        {"delta": 1e-6, "weight": 7, "relation": "replace"},
    ),
]
PLACES = [ROWS[::-1, :2] * 3, ROWS[:, :2], -ROWS[:, :2]]
RELEASES["ReleasedKernelGrid"] = [
    Case(lambda: KernelGrid(2.0, ([-3, -3], [3, 3])), streams=PLACES),
    Case(
        lambda: KernelGrid(9.0, ([-3, -1], [3, 9]), kernel="gaussian", resolution=0.5),
        {"unit": "user", "contributions": 9},
        PLACES,
    ),
    Case(
        lambda: KernelGrid(1.0, ([-3, -3], [3, 3]), kernel="exponential"),
        {"delta": 1e-6, "weight": 7, "relation": "replace"},
        PLACES,
    ),
]
RELEASES["ReleasedAdaptiveGrid"] = [
    AdaptiveCase(lambda: KernelGrid(2.0, ([-3, -3], [3, 3])), streams=PLACES),
    AdaptiveCase(
        lambda: KernelGrid(9.0, ([-3, -1], [3, 9]), kernel="gaussian", resolution=0.5),
        {"unit": "user", "contributions": 9, "relation": "replace", "weight": 7},
        PLACES,
    ),
]
RELEASES["ReleasedKernelSlices"] = [
    Case(lambda: KernelSlices(2.0, ([-3] * 12, [3] * 12), rows=32)),
    Case(lambda: KernelSlices(9, ([-1] * 12, [9] * 12), rows=1, strata="independent")),
    Case(
        lambda: KernelSlices(2.0, ([-3] * 12, [3] * 12), rows=8, kernel="gaussian"),
        {"unit": "user", "contributions": 9, "weight": 3, "delta": 1e-6, "noise": "gaussian"},
    ),
]
RELEASES["ReleasedRace"] = [
    Case(lambda: Race(16, 256, Euclidean(1.0, (-3, 3), dimension=12))),
    Case(lambda: Race(1, 2, Euclidean(0.5, (-1, 9), 1, dimension=12), strata="independent")),
    Case(
        lambda: Race(16, 512, Euclidean(1.0, (-3, 3), dimension=12), strata="independent"),
        {"delta": 1e-6, "weight": 7, "relation": "replace"},
    ),
    Case(lambda: Race(9, 8, Angular(3, 12)), {"unit": "user", "contributions": 9}),
]
RELEASES["ReleasedMoments"] = [
    Case(lambda: Moments(([-3] * 12, [3] * 12))),
    Case(lambda: Moments(([-1] * 12, [9] * 12), bits=8), {"unit": "user", "contributions": 9}),
    Case(
        lambda: Moments(([-3] * 12, [3] * 12), bits=9),
        {"delta": 1e-6, "weight": 7, "relation": "replace", "noise": "gaussian"},
    ),
]
RELEASES["ReleasedCosineSketch"] = [
    RowsCase(
        lambda: CosineSketch(70, dimension=12).release_rows,
        {"delta": 1e-6, "bound": 2.0, "unit": "user"},
    ),
    RowsCase(
        lambda: CosineSketch(1, dimension=12).release_rows,
        {"delta": 0.1, "bound": 1.0, "step": 0.5, "unit": "item of a profile"},
    ),
]


def class_columns(rows: np.ndarray, **terms: Any) -> Release:
    """Three tables of rows whose classes are the signs of their first column."""
    result = dict(labels=(0, 1), bounds=((-3.0,) * 12, (3.0,) * 12), bins=8, levels=(0,) * 12)
    cut = Bins(result["bounds"], 8, result["levels"])
    labelled = LabelledRows(cut.codes(rows), (rows[:, 0] > 0).astype(int), None)
    return Planned("classes", lambda queries: planned(result, labelled, queries)).release(**terms)


def class_kernels(rows: np.ndarray, **terms: Any) -> Release:
    """A sketch for each of two classes, the signs of the first column."""
    empty, *made = (KernelSlices(2.0, ([-3] * 12, [3] * 12), rows=8) for _ in range(3))
    for k, one in enumerate(made):
        one.update(rows[(rows[:, 0] > 0) == k])
    return Planned(
        "classes", lambda queries: planned_kernels((0, 1), made, empty, queries)
    ).release(**terms)


def slice_table(rows: np.ndarray, **terms: Any) -> Release:
    """Histograms of slices, and of the scores of these rows."""
    table = SliceTable(([-3] * 12, [3] * 12), projections=4, bins=8).update(rows)
    inside = table.box.clip(rows)[0]
    return Planned("slices", lambda queries: planned_slices(table, inside, queries)).release(
        **terms
    )


def table_marginals(rows: np.ndarray, times: int = 1, **terms: Any) -> Release:
    """Marginals of three columns by class, the signs of the first column, of repeated rows."""
    rows = np.tile(rows, (times, 1))
    public = {"a": (-3.0, 3.0), "b": range(-3, 4), "c": (-1.0, 1.0), "kind": [0, 1]}
    columns = COLUMNS.check("tables", "columns", public)
    layout = Layout(columns, 3, 8, 3)
    coded = codes_of("tables", np.column_stack([rows[:, :3], rows[:, 0] > 0]), columns, 8)
    result = dict(columns=columns, target=3, bins=8, groups=3)
    return Planned(
        "tables",
        lambda queries: planned_marginals(result, layout, lambda each: each(coded), queries),
    ).release(**terms)


def adaptive_moments(rows: np.ndarray, degree: int = 2, times: int = 1, **terms: Any) -> Release:
    """Moments of two columns and a target, the third, of repeated rows."""
    moments = Moments(([-3] * 3, [3] * 3), degree=degree).update(np.tile(rows[:, :3], (times, 1)))
    return Planned("moments", lambda queries: moments_of_chosen_degree(moments, queries)).release(
        **terms
    )


STEPS = [{}, {"delta": 1e-6, "relation": "replace"}, {"unit": "user", "contributions": 9}]
RELEASES["ReleasedClassColumns"] = [RowsCase(lambda: class_columns, more) for more in STEPS]
RELEASES["ReleasedClassKernels"] = [RowsCase(lambda: class_kernels, more) for more in STEPS[:2]]
RELEASES["ReleasedMarginals"] = [
    *(RowsCase(lambda: table_marginals, more) for more in STEPS),
    RowsCase(lambda: table_marginals, {"times": 40}),  # enough for pairs
]
RELEASES["ReleasedAdaptiveMoments"] = [
    RowsCase(lambda: adaptive_moments, more)
    for more in (
        {},
        {"times": 9},
        {"times": 9, "degree": 1},
        {"unit": "user", "contributions": 9, "relation": "replace"},
    )
]
RELEASES["ReleasedSliceTable"] = [RowsCase(lambda: slice_table, more) for more in STEPS]
