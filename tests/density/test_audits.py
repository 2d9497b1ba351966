"""Audits of every release of densities: measured epsilon within the claim, and not where broken.

Each case is two data sets that differ by one unit, on the smallest sketch there is, where a unit is
easiest to see. What is measured is the noise of the plan that the release publishes, drawn anew in
every trial; the score is the likelihood ratio of the two. Where the claim is true an audit fails
with a chance of at most 0.01 for other seeds; seeds are fixed.
"""

import warnings

import numpy as np
import pandas as pd
import pytest

from noisy_plans import NEXT_TO_NONE, drawn, plan_of, without_noise
from sfumato.attack.audit import audit
from sfumato.density import (
    NodeDensity,
    SketchAnomalyDetector,
    SketchClassifier,
    SketchDensity,
    SketchRegressor,
    SketchSampler,
)
from sfumato.density._estimator import noise_from
from sfumato.density._limits import BACKENDS
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.sketch import KernelFourier, KernelGrid, KernelSlices, Moments, Race
from sfumato.sketch.lsh import Angular, Euclidean

pytestmark = pytest.mark.filterwarnings("ignore:Sketch.* is too small here:UserWarning")
TRIALS = 600
FEW = np.array([[0.2]])
MORE = np.array([[0.2], [0.9]])
OTHER = np.array([[0.9]])
UNIT = ([0.0], [1.0])


def both_halves(value):
    return np.c_[value, value]


def edges(value):
    """One adjacency list for each number."""
    return [[int(10 * x), to] for x in value[:, 0] for to in (1, 3)]


RELATED = dict(relation="replace")
CASES = {
    "Race": lambda v, e: Race(1, 8, Euclidean(1.0, (0, 1))).update(v).release(e),
    "Race, replaced": lambda v, e: (
        Race(1, 64, Euclidean(0.1, (0, 1))).update(v).release(e, **RELATED)
    ),
    "KernelGrid": lambda v, e: KernelGrid(1.0, UNIT).update(v).release(e),
    "KernelSlices": lambda v, e: KernelSlices(1.0, UNIT, rows=1).update(v).release(e),
    "KernelFourier": lambda v, e: KernelFourier(1.0, UNIT, rows=1).update(v).release(e),
    "SketchDensity": lambda v, e: SketchDensity(
        epsilon=e, bounds=UNIT, backend="race", rows=1, width=8
    ).fit(v),
    "SketchClassifier": lambda v, e: SketchClassifier(
        epsilon=e, bounds=(0, 1), classes=[0, 1], bins=2, method="columns"
    ).fit(v, np.zeros(len(v), int)),
    "SketchAnomalyDetector": lambda v, e: SketchAnomalyDetector(
        epsilon=e, bounds=UNIT, projections=1, bins=4
    ).fit(v),
    "NodeDensity": lambda v, e: NodeDensity(rows=1, width=8, epsilon=e).fit(edges(v)),
}
# A unit that moves several cells at once is seldom far out in all of them: more trials find it.
SPREAD = dict.fromkeys(("KernelSlices", "KernelFourier"), 3000)
FIRST = {"SketchClassifier": 4, "SketchAnomalyDetector": 4}  # cells of their first, largest step


def pair_of(name):
    return (FEW, OTHER) if name == "Race, replaced" else (FEW, MORE)


def likelihood(run, values, cells):
    """Where Laplace noise of one scale is on cells: log P(answers | second) - log P(| first)."""
    here, there = (without_noise(run, value) for value in values)
    here, there = here[:cells], there[:cells]
    assert (here != there).any()
    scale = max(1.0, np.abs(here - there).max())  # sums that are large numbers, as small ones

    def score(answers):
        told = answers[:, :cells]
        return (np.abs(told - here) - np.abs(told - there)).sum(axis=1) / scale

    return score


def measured(name, epsilon, change=lambda cells, value: cells):
    """An audit of the case's release at this epsilon, held against a claim of 1."""
    run, values = CASES[name], pair_of(name)

    def mechanism(value, trials, source):
        return change(drawn(plan_of(run, value, epsilon), trials, source), value)

    return audit(
        mechanism,
        values,
        TRIALS // 2 if name in FIRST else SPREAD.get(name, TRIALS),
        confidence=0.99,
        source=InsecureSeededSource(11),
        score=likelihood(run, values, FIRST.get(name)),
        claimed=1.0,
    )


@pytest.mark.parametrize("name", CASES)
def test_release_is_as_private_as_it_says(name):
    assert measured(name, 1.0)


# Half the noise, and less where one point does not reach the worst that the sketch must allow for.
TOO_LITTLE = {"KernelGrid": 4.0, **dict.fromkeys(FIRST, 4.0)}


@pytest.mark.parametrize("name", CASES)
def test_too_little_noise_is_found(name):
    assert not measured(name, TOO_LITTLE.get(name, 2.0))


def test_noise_divided_by_the_number_of_points_is_found():
    run = CASES["Race"]

    def shrunk(answers, value):
        true = without_noise(run, value)
        return true + (answers - true) / (4 * len(value))

    assert not measured("Race", 1.0, shrunk)


def paired(rows, contributions):
    """The published insertion: every row z goes in as z and as -z."""

    def mechanism(value, trials, source):
        race = Race(1, 4, Angular(2, 2)).update(np.vstack([value, -value]))
        terms = dict(unit="user", contributions=contributions)
        plan = plan_of(lambda v, e: race.release(e, **terms), value, 1.0)
        return drawn(plan, trials, source)

    return audit(
        mechanism, rows, 1500, confidence=0.99, source=InsecureSeededSource(12), claimed=1.0
    )


def test_paired_insertion_needs_twice_the_sensitivity():
    rows = np.array([[1.0, 0.2]]), np.array([[1.0, 0.2], [1.0, 0.3]])
    assert paired(rows, 2)
    assert not paired(rows, 1)


SIX = 2 * 3  # sums of one input and one target, at degree 1
MOST = float(2**14 - 1) ** 2


def corner(answers):
    """The likelihood ratio of a row at the corner, where every sum moves by its unit."""
    told = answers / MOST
    parts = (told[:, :3], 0.6), (told[:, 3:], 0.4)
    return sum(s * (np.abs(p).max(axis=1) - np.abs(p - 1).max(axis=1)) for p, s in parts)


def moments(epsilon):
    def mechanism(value, trials, source):
        def run(rows, e):
            return Moments(([0, 0], [1, 1])).update(both_halves(rows)).release(e)

        answers = drawn(plan_of(run, value, epsilon), trials, source)
        assert answers.shape == (trials, SIX)
        return answers

    rows = np.empty((0, 1)), np.array([[1.0]])
    return audit(
        mechanism,
        rows,
        800,
        confidence=0.99,
        source=InsecureSeededSource(13),
        score=corner,
        claimed=1.0,
    )


def test_moments_and_the_regressor_are_as_private_as_they_say():
    assert moments(1.0)
    assert not moments(2.0)
    model = SketchRegressor(epsilon=1.0, bounds=(0, 1), target_bounds=(0, 1))
    plan = plan_of(lambda v, e: model.fit(v, v[:, 0]), MORE, 1.0)
    assert plan.loss.epsilon == 1.0
    assert plan.kind.__name__ == "ReleasedMoments"


@pytest.mark.parametrize(("spent", "passes"), [(1.0, True), (3.0, False)])
def test_gaussian_noise_is_held_against_its_exact_curve(spent, passes):
    def run(value, epsilon):
        race = Race(1, 8, Euclidean(1.0, (0, 1))).update(value)
        return race.release(epsilon, 1e-6, noise="gaussian")

    here, there = (Race(1, 8, Euclidean(1.0, (0, 1))).update(v)._table[0] for v in (FEW, MORE))
    found = audit(
        lambda value, trials, source: drawn(plan_of(run, value, spent), trials, source),
        (FEW, MORE),
        3000,
        confidence=0.99,
        source=InsecureSeededSource(14),
        score=lambda answers: answers[:, :8] @ (there - here),
        claimed=plan_of(run, FEW, 1.0).loss,
        delta=1e-6,
    )
    assert found.passed is passes


# What one row may be besides two numbers within the bounds.
CELLS = ["guest", "", None, np.nan, pd.NA, pd.NaT, np.inf, -1e300, 10**400, 1 + 2j, b"\xff", True]
ODD_ROWS = [
    *([cell, 0.5] for cell in CELLS),
    [0.5, "guest"],
    ["0.90", 0.5],
    [[0.1, 0.2], 0.5],
    [np.ma.masked, 0.5],
    [0.0, 0.0],
    [],
    [0.5],
    [0.5] * 3,
    None,
    "guest",
    7.0,
]
POINTS = np.random.default_rng(5).uniform(0, 1, (40, 2)).tolist()
CLASSES = list(range(30))  # so many for 40 rows that scikit-learn would warn of it
LABELS = [at % 30 for at in range(40)]
TARGETS = [float(sum(row)) for row in POINTS]
BOX = ([0, 0], [1, 1])
TOLD = dict(bounds=BOX, classes=CLASSES)
REACH = dict(bounds=BOX, target_bounds=(0, 2))


def laplace(share=1.0):
    """The L1 that noise of a release hides at epsilon 1, where it has this share of it."""
    return lambda release: release.scale * share


HARD = {
    **{
        f"SketchDensity, {name}": (
            lambda e, name=name: SketchDensity(
                epsilon=e, bounds=BOX, backend=name, rows=16, width=64, bandwidth=0.3
            ),
            laplace(),
        )
        for name in BACKENDS
    },
    "SketchSampler": (
        lambda e: SketchSampler(epsilon=e, bounds=BOX, backend="race", rows=16, width=64),
        laplace(),
    ),
    "SketchClassifier, columns": (
        lambda e: SketchClassifier(epsilon=e, method="columns", bins=8, **TOLD),
        lambda release: release.count_scale * 15 / 20,
    ),
    "SketchClassifier, kernel": (
        lambda e: SketchClassifier(epsilon=e, method="kernel", **TOLD),
        lambda release: release.parts[0].scale,
    ),
    "SketchRegressor, statistics": (
        lambda e: SketchRegressor(epsilon=e, method="statistics", degree=2, **REACH),
        lambda release: release.scale * 3 / 5 * (1 + 1e-3),  # of every sum; some noise is left
    ),
    "SketchRegressor, angles": (
        lambda e: SketchRegressor(epsilon=e, method="angles", rows=16, **REACH),
        laplace(),
    ),
    "SketchRegressor, surrogate": (
        lambda e: SketchRegressor(epsilon=e, method="surrogate", rows=16, **REACH),
        laplace(),
    ),
    "SketchAnomalyDetector": (
        lambda e: SketchAnomalyDetector(epsilon=e, bounds=BOX, bins=8, projections=4),
        laplace(9 / 10),
    ),
}


def beside(name):
    return TARGETS if "Regressor" in name else LABELS


def cells_of(release):
    """The cells of the first, largest step, class after class where each has its own."""
    if hasattr(release, "parts"):
        return np.concatenate([cells_of(part) for part in release.parts])
    arrays = release._arrays()
    first = ("_counts",) if "_scores" in arrays and "_pairs" in arrays else ("_table", "_inputs")
    used = [array for at, array in arrays.items() if at in first or "_scores" not in arrays]
    return np.concatenate([array.reshape(-1) for array in used]).astype(np.float64)


def outcome(model, data, y):
    """All that a private fit shows besides noise: warnings, shapes, types and texts; and cells."""
    with warnings.catch_warnings(record=True) as heard, noise_from(InsecureSeededSource(0)):
        warnings.simplefilter("always")
        model.fit(data, y)
    arrays = {at: (a.shape, a.dtype) for at, a in model.release_._arrays().items()}
    texts = [str(each.message) for each in heard if "is too small here" not in str(each.message)]
    known = {at: repr(value) for at, value in vars(model).items() if at in ("n_features_in_",)}
    shown = (sorted(vars(model)), known, repr(model.statement_), arrays, len(model.to_bytes()))
    return texts, shown, cells_of(model.release_)


def containers(rows):
    """The rows as a list, and where every row has two cells as an array and a frame as well."""
    yield rows
    if all(isinstance(row, list) and len(row) == 2 for row in rows):
        array = np.empty((len(rows), 2), object)
        for place, row in enumerate(rows):
            array[place, 0], array[place, 1] = row
        yield array
        yield pd.DataFrame(array)
        yield np.array([[str(cell) for cell in row] for row in rows])


def moved_by(name, one, other):
    change = np.abs(one - other)
    return change.max() if name == "SketchRegressor, statistics" else change.sum()


@pytest.mark.parametrize("name", HARD)
def test_no_row_makes_a_private_fit_speak_or_moves_more_than_is_claimed(name):
    make, claim = HARD[name]
    most = claim(make(1.0).fit(POINTS, beside(name)).release_) * (1 + 1e-9)
    texts, shown, cells = outcome(make(NEXT_TO_NONE), POINTS, beside(name))
    assert texts == []
    for row in ODD_ROWS:
        for data in containers([*POINTS, row]):
            found = outcome(make(NEXT_TO_NONE), data, [*beside(name), beside(name)[0]])
            assert found[:2] == ([], shown), (row, type(data))
            assert moved_by(name, found[2], cells) <= most, (row, type(data))
    # No row at all, and one that is replaced, which counts as two.
    for data in ([], [POINTS[0]], [["guest", 1]], np.empty((0, 2))):
        assert outcome(make(NEXT_TO_NONE), data, beside(name)[: len(data)])[:2] == ([], shown)


ODD_LABELS = [
    "guest",
    None,
    np.nan,
    pd.NA,
    0.5,
    99,
    -1,
    "7",
    7.0,
    b"7",
    [1],
    [1, 2],
    10**400,
    np.inf,
]


@pytest.mark.parametrize("name", [name for name in HARD if "Classifier" in name or "Regr" in name])
def test_no_label_or_target_makes_a_private_fit_speak(name):
    make, claim = HARD[name]
    most = claim(make(1.0).fit(POINTS, beside(name)).release_) * (1 + 1e-9)
    _, shown, cells = outcome(make(NEXT_TO_NONE), POINTS, beside(name))
    for label in ODD_LABELS:
        column = np.empty(41, object)
        column[:] = [*beside(name), None]
        column[40] = label
        texts = np.array([str(one) for one in column])
        for y in (list(column), column, pd.Series(column), texts):
            found = outcome(make(NEXT_TO_NONE), [*POINTS, [0.3, 0.4]], y)
            assert found[:2] == ([], shown), (label, type(y))
            assert moved_by(name, found[2], cells) <= most, (label, type(y))
