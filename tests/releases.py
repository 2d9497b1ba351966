"""The contract every release passes, driven by what its class declares.

A new kind of release joins by one line in RELEASES: how to make its sketch, with default sizes and
with the smallest ones, and what its `release` needs besides epsilon. Keyed sketches are fed
integers, text or nothing, the others rows of numbers.
"""

import copy
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from checks import KEYS, ROWS
from seen import leaves, outside, public, use
from sfumato.density._bins import Bins
from sfumato.density._class_joint import Planned
from sfumato.density._class_kernels import planned_kernels
from sfumato.density._class_steps import Rows, planned
from sfumato.density._slice_release import planned_slices
from sfumato.density._slice_table import SliceTable
from sfumato.privacy import BudgetExceeded, Ledger, PrivacyStatement
from sfumato.privacy._source import SystemSource
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.privacy.statement import INSECURE, SYSTEM, UNACCOUNTED
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
    SketchFormatError,
    load,
)
from sfumato.sketch._keyed import KeyedSketch
from sfumato.sketch.lsh import Angular, Euclidean

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
        terms = {"epsilon": 1.0, "source": InsecureSeededSource(7), **self.arguments, **terms}
        return self.sketch(which).release(**terms)


class RowsCase(Case):
    """Rows that are released without being kept: `make` gives what takes and releases them."""

    def release(self, which: int = 1, **terms: Any) -> Release:
        terms = {"epsilon": 1.0, "source": InsecureSeededSource(7), **self.arguments, **terms}
        return self.make()([ROWS[::-1] * 3, ROWS, -ROWS][which], **terms)


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
    told = dict(labels=(0, 1), bounds=((-3.0,) * 12, (3.0,) * 12), bins=8, levels=(0,) * 12)
    cut = Bins(told["bounds"], 8, told["levels"])
    labelled = Rows(cut.codes(rows), (rows[:, 0] > 0).astype(int), None)
    return Planned("classes", lambda asked: planned(told, labelled, asked)).release(**terms)


def class_kernels(rows: np.ndarray, **terms: Any) -> Release:
    """A sketch for each of two classes, the signs of the first column."""
    empty, *made = (KernelSlices(2.0, ([-3] * 12, [3] * 12), rows=8) for _ in range(3))
    for k, one in enumerate(made):
        one.update(rows[(rows[:, 0] > 0) == k])
    return Planned("classes", lambda asked: planned_kernels((0, 1), made, empty, asked)).release(
        **terms
    )


def slice_table(rows: np.ndarray, **terms: Any) -> Release:
    """Histograms of slices, and of the scores of these rows."""
    table = SliceTable(([-3] * 12, [3] * 12), projections=4, bins=8).update(rows)
    inside = table.box.clip(rows)[0]
    return Planned("slices", lambda asked: planned_slices(table, inside, asked)).release(**terms)


STEPS = [{}, {"delta": 1e-6, "relation": "replace"}, {"unit": "user", "contributions": 9}]
RELEASES["ReleasedClassColumns"] = [RowsCase(lambda: class_columns, more) for more in STEPS]
RELEASES["ReleasedClassKernels"] = [RowsCase(lambda: class_kernels, more) for more in STEPS[:2]]
RELEASES["ReleasedSliceTable"] = [RowsCase(lambda: slice_table, more) for more in STEPS]


def accounted(folder: Any, case: Case, epsilon: float = 10.0) -> tuple[Ledger, dict[str, Any]]:
    """A ledger with a data set of the case's unit and relation, and the terms to charge it."""
    ledger = Ledger(folder / "budget.db")
    named = {name: case.arguments[name] for name in ("unit", "relation") if name in case.arguments}
    ledger.create("shop", epsilon, 1e-5, **named)
    return ledger, {"ledger": ledger, "dataset": "shop"}


def spent(ledger: Ledger) -> tuple[float, int]:
    return ledger.spent("shop").epsilon, len(list(ledger.history("shop")))


def check_says_what_it_promises(case: Case, folder: Any) -> None:
    release = case.release(source=None)
    told = release.statement
    assert isinstance(told, PrivacyStatement)
    assert (told.ledger, told.source, told.proof) == (UNACCOUNTED, SYSTEM, "proved")
    assert 0 < told.epsilon <= 1.0
    assert told.delta <= case.arguments.get("delta", 0)
    assert repr(told) in repr(release)


def check_insecure_noise_is_told(case: Case, folder: Any) -> None:
    class Disguised(SystemSource):
        known = InsecureSeededSource(1)

        def fill(self, out):
            self.known.fill(out)

    for source in (InsecureSeededSource(1), Disguised()):
        assert case.release(source=source).statement.source == INSECURE


def check_noise_is_fresh(case: Case, folder: Any) -> None:
    # 20 tables alike would need every noise alike: for the smallest, two cells, p < 1e-6.
    tables = {case.release(source=None).to_bytes() for _ in range(20)}
    assert len(tables) > 1


def check_bytes_pickle_and_load_keep_everything(case: Case, folder: Any) -> None:
    release = case.release()
    data = release.to_bytes()
    release.save(folder / "told.sketch")
    twins = [load(data), load(folder / "told.sketch"), pickle.loads(pickle.dumps(release))]
    twins += [type(release).from_bytes(data), copy.copy(release), copy.deepcopy(release)]
    for twin in twins:
        assert type(twin) is type(release)
        assert twin == release
        assert twin.to_bytes() == data
        assert twin.statement == release.statement
    assert release != case.release(source=InsecureSeededSource(8))


def check_cannot_be_changed(case: Case, folder: Any) -> None:
    for release in (case.release(), load(case.release().to_bytes())):
        before = release.to_bytes()
        for name in (*vars(release), "anything"):
            with pytest.raises(AttributeError, match="cannot be changed"):
                setattr(release, name, None)
        with pytest.raises(AttributeError, match="cannot be changed"):
            del release.statement
        for array in release._arrays().values():
            with pytest.raises(ValueError, match="read-only"):
                array.reshape(-1)[0] = 0
        for change in (release.update, release.merge):
            with pytest.raises(TypeError, match="cannot be changed"):
                change(KEYS)
        assert release.to_bytes() == before


def check_is_a_function_of_noisy_cells_and_public_parameters(case: Case, folder: Any) -> None:
    first = case.release(0)
    seen = outside(first)
    original = Release.__dict__["_make"].__func__

    def forced(cls, parameters, arrays, statement):
        if cls is not type(first):  # a part, whose bytes are cells of the whole
            return original(cls, parameters, arrays, statement)
        shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        same = first._arrays()
        assert shapes == {name: (array.dtype, array.shape) for name, array in same.items()}
        copies = {name: array.copy() for name, array in same.items()}
        return original(cls, parameters, copies, statement)

    with patch.object(Release, "_make", classmethod(forced)):
        for which in (1, 2):
            assert outside(case.release(which)) == seen


def check_answers_all_that_it_can_be_asked(case: Case, folder: Any) -> None:
    release = case.release()
    told = list(use(release))
    assert {name for name, _ in told} == set(public(type(release)))
    assert all(answer is not None for _, answer in told)


def check_holds_nothing_else(case: Case, folder: Any) -> None:
    release = case.release()
    twin = load(release.to_bytes())
    list(use(release)), list(use(twin))
    kind = type(release)
    derived = {name for name, kept in inspect.getmembers(kind) if isinstance(kept, cached_property)}
    assert set(vars(release)) <= {*kind._limits, *release._layout(), "statement", *derived}
    assert leaves(vars(release)) == leaves(vars(twin))  # what is derived comes from the bytes


def check_is_charged_before_noise_is_drawn(case: Case, folder: Any) -> None:
    ledger, terms = accounted(folder, case)
    seen = []

    class Watching(InsecureSeededSource):
        def fill(self, out):
            seen.append(spent(Ledger(folder / "budget.db")))
            super().fill(out)

    told = case.release(source=Watching(1), **terms).statement
    assert seen[0] == spent(ledger)
    assert seen[0][0] > 0
    assert seen[0][1] == 1
    assert (told.dataset, told.ledger) == ("shop", "budget.db")
    assert told.release


def check_retry_returns_the_same_bytes_for_nothing(case: Case, folder: Any) -> None:
    ledger, terms = accounted(folder, case)
    first = case.release(source=None, release_id="spring", **terms)
    paid = spent(ledger)
    again = case.release(2, source=None, release_id="spring", **terms)
    assert again.to_bytes() == first.to_bytes()
    assert spent(ledger) == paid
    assert case.release(source=None, release_id="autumn", **terms).statement != first.statement
    assert spent(ledger)[1] == 2


def check_over_budget_releases_nothing(case: Case, folder: Any) -> None:
    ledger, terms = accounted(folder, case, epsilon=0.5)

    class Untouched(InsecureSeededSource):
        def fill(self, out):
            raise AssertionError("noise was drawn")

    with pytest.raises(BudgetExceeded):
        case.release(source=Untouched(1), **terms)
    assert spent(ledger) == (0, 0)


BAD = [("epsilon", bad) for bad in (0, -1, np.nan, np.inf, "much", None, True)]
BAD += [("delta", bad) for bad in (-0.1, 1, np.nan, np.inf, "much", True)]
BAD += [("contributions", bad) for bad in (0, -1, 1.5, "many", 2**40)]
BAD += [("unit", "nobody"), ("relation", "similar"), ("release_id", 7), ("source", 3)]


def check_bad_terms_name_themselves_and_cost_nothing(case: Case, folder: Any) -> None:
    ledger, terms = accounted(folder, case)
    for name, bad in BAD:
        with pytest.raises(ValueError, match=name):
            case.release(**{**terms, name: bad})
    for missing in ({"ledger": ledger}, {"dataset": "shop"}):
        with pytest.raises(ValueError, match="ledger and dataset go together"):
            case.release(**missing)
    with pytest.raises(TypeError, match="'epsilom'"):
        case.release(epsilom=1, **terms)
    with pytest.raises(ValueError, match="release_id"):
        case.release(release_id="spring")
    assert spent(ledger) == (0, 0)


def check_cut_off_and_flipped_bytes_are_found(case: Case, folder: Any) -> None:
    data = case.release().to_bytes()
    for cut in (0, 15, 24, len(data) // 2, len(data) - 1):
        with pytest.raises(SketchFormatError):
            load(data[:cut])
    for at in np.linspace(0, len(data) - 1, 40).astype(int):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        with pytest.raises(SketchFormatError):
            load(bytes(damaged))


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]
