"""A private SketchClassifier holds one release, whose steps cost its epsilon, and nothing else."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.density import SketchClassifier, load
from sfumato.density.base import noise_from
from sfumato.density.classify.encoding import Bins
from sfumato.density.classify.log_odds import WeightsOfEvidence
from sfumato.density.classify.naive_bayes import (
    BUDGET,
    UNIT,
    LabelledRows,
    Limits,
    _steps,
    limited,
    scorer_of,
)
from sfumato.density.sequential_release import _gaussian, _laplace, cheapest
from sfumato.privacy import Ledger
from sfumato.privacy.accounting.calibration import epsilon_of
from sfumato.privacy.noise.distribution import LAWS
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.release import ReleaseRequest
from sfumato.sketch import CountMin, SketchFormatError
from sfumato.sketch import load as sketch_load
from support.observable import repacked

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 2, 3000)
POINTS = RNG.normal(size=(3000, 4)) + LABELS[:, None]
PRIVATE = dict(epsilon=1.0, bounds=(-4, 5), classes=[0, 1])


def request_for(epsilon=0.7, delta=0.0, **options):
    return ReleaseRequest.of("test", epsilon, delta, options)


def changed(cut, table, scorer, row, position, distribution):
    """What a row changes in the three tables, whatever noisy tables came before."""
    one = LabelledRows(cut.codes(np.array([row], float)), np.array([position]), None)
    limits = Limits(cut.columns, distribution)
    steps = limited((table.cells[one.codes] - table.centre) / table.unit, limits)[0]
    pairs = np.outer(steps, steps)[np.triu_indices(cut.columns, 1)]
    assert (one.products(table, limits, cut) == pairs).all()
    return one.counts(2, cut.total), pairs, one.scores(1, scorer)


@pytest.mark.parametrize("distribution", LAWS)
def test_every_row_of_a_small_world_costs_at_most_epsilon(distribution):
    # All 54 rows there are, against tables of noise alone, some of them extreme: exact fractions.
    cut = Bins(((0.0,) * 3, (2.0,) * 3), 3, (3, 3, 3))
    request = request_for(delta=0.0 if distribution == "Laplace" else 1e-6)
    noise_of = _laplace if distribution == "Laplace" else _gaussian
    made, loss = noise_of(request, _steps(distribution, cut, 2))
    for seed in range(20):
        counts = np.random.default_rng(seed).integers(-(10 ** (seed % 6)), 10 ** (seed % 5), (2, 9))
        table = WeightsOfEvidence(cut, counts, made.variance(0)).table(1)
        scorer = scorer_of(table, counts[0, :3] * 1000, made.variance(1))
        for row in itertools.product(range(3), repeat=3):
            for position in (0, 1):
                tables = changed(cut, table, scorer, row, position, distribution)
                norms = [int(np.abs(cells).sum()) for cells in tables]
                squares = [int((cells.astype(object) ** 2).sum()) for cells in tables]
                cost = sum(Fraction(n) / s for n, s in zip(norms, made.scales, strict=True))
                rho = sum(n / (2 * s**2) for n, s in zip(squares, made.scales, strict=True))
                assert (norms[0], norms[2]) == (3, 1)
                if distribution == "Laplace":
                    assert cost <= Fraction(0.7)
                else:
                    assert rho <= Fraction(loss.rho)


@pytest.mark.parametrize("distribution", LAWS)
@pytest.mark.parametrize("columns", [2, 5, 40])
def test_no_row_passes_the_limit_of_products(distribution, columns):
    limits = Limits(columns, distribution)
    rows = (
        np.random.default_rng(1).normal(size=(500, columns)) * np.geomspace(0.01, 1e6, 500)[:, None]
    )
    steps = limited(np.vstack([rows, np.eye(columns) * 1e9, np.ones((1, columns))]), limits)
    assert (steps == np.trunc(steps)).all()
    upper = np.triu_indices(columns, 1)
    for row in steps.astype(np.int64).astype(object):
        products = np.outer(row, row)[upper]
        if distribution == "Laplace":
            assert sum(abs(products)) <= limits.l1
        assert sum(products**2) <= limits.l2_squared or distribution == "Laplace"


@pytest.mark.parametrize("distribution", LAWS)
@pytest.mark.parametrize("columns", [2, 7, 40])
def test_products_are_of_rows_limited_each_on_its_own(distribution, columns):
    random = np.random.default_rng(columns)
    cut = Bins(((0.0,) * columns, (1.0,) * columns), 8, (0,) * columns)
    counts = np.where(random.random((2, cut.total)) < 1 / columns, 5, 1000)
    table, limits = WeightsOfEvidence(cut, counts, 1.0).table(1), Limits(columns, distribution)
    codes = cut.codes(random.random((5000, columns)))
    rows = LabelledRows(codes, np.zeros(5000, int), None)
    evidence = (table.cells[rows.codes] - table.centre) / table.unit
    steps = limited(evidence, limits)
    expected = (steps.T @ steps)[np.triu_indices(columns, 1)]
    assert (rows.products(table, limits, cut) == expected).all()
    over = (steps != np.trunc(evidence * UNIT / (1 + 1e-9))).any(axis=1)
    assert 0.01 < over.mean() < 0.99  # rows within and over the limit occur


def test_noise_grows_with_what_neighbours_may_change():
    cut = Bins(((0.0,) * 4, (1.0,) * 4), 8, (0,) * 4)
    alone, twice, thrice = (
        cheapest(request_for(**options), *(_steps(name, cut, 2) for name in LAWS))[0].scales
        for options in ({}, {"relation": "replace"}, {"unit": "user", "contributions": 3})
    )
    assert [b / a for a, b in zip(alone, twice, strict=True)] == [2, 2, 2]
    assert [b / a for a, b in zip(alone, thrice, strict=True)] == [3, 3, 3]
    assert sum(BUDGET) == 1


@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_gaussian_steps_together_keep_epsilon_and_delta(relation):
    cut = Bins(((0.0,) * 20, (1.0,) * 20), 8, (0,) * 20)
    request = request_for(delta=1e-6, relation=relation)
    made, loss = cheapest(request, *(_steps(name, cut, 3) for name in LAWS))
    assert made.distribution == "Gaussian"
    assert 0.6 < epsilon_of(loss, 1e-6) <= 0.7
    steps = _steps("Gaussian", cut, 3)
    times = [2, 4, 2] if relation == "replace" else [1, 1, 1]
    rho = sum(
        step.l2_squared * t / (2 * sigma**2)
        for step, t, sigma in zip(steps, times, made.scales, strict=True)
    )
    assert math.isclose(rho, loss.rho)


def test_every_released_cell_has_noise_of_the_stated_scale():
    # Absolute noise has the mean scale up to 1 / sqrt(cells): 6 deviations are 0.37; seeds fixed.
    with noise_from(InsecureSeededSource(4)):
        released = SketchClassifier(**PRIVATE).fit(POINTS, LABELS).release_
    bare = SketchClassifier(bounds=(-4, 5), method="columns").fit(POINTS, LABELS).tables_
    size = np.abs(released._counts - bare._counts).mean()
    assert abs(size / released.count_scale - 1) < 0.37
    assert (released._counts != bare._counts).mean() > 0.8
    assert released.count_scale == 4 / (1.0 * 0.75)
    rows = LabelledRows(released.cut.codes(POINTS), LABELS, None)
    pairs = released._pairs[0] - rows.products(
        released._tables[0], Limits(4, "Laplace"), released.cut
    )
    scores = released._scores[:, 0] - rows.scores(1, released._scorers[0])
    assert 0.2 < np.abs(pairs).mean() / released.pair_scale < 3  # six numbers only
    assert abs(np.abs(scores).mean() / released.score_scale - 1) < 6 / 8
    assert released.score_scale == pytest.approx(10)


@pytest.mark.parametrize("method", ["columns", "kernel"])
def test_a_ledger_is_charged_once_for_all_classes(tmp_path, method):
    ledger = Ledger(tmp_path / "budget")
    ledger.create("people", epsilon=1.0)
    paid = dict(ledger=ledger, dataset="people", release_id="first", bandwidth=3.0)
    model = SketchClassifier(**PRIVATE, **paid, method=method).fit(POINTS, LABELS)
    assert ledger.spent("people").epsilon == pytest.approx(1.0)
    assert len(ledger.history("people")) == 1
    again = SketchClassifier(**PRIVATE, **paid, method=method).fit(POINTS, LABELS)
    assert again.release_ == model.release_  # a retry is not drawn afresh
    assert model.statement_.dataset == "people"


@pytest.mark.filterwarnings("ignore:SketchClassifier. epsilon .* is too small here:UserWarning")
@pytest.mark.parametrize("method", ["columns", "kernel"])
@pytest.mark.parametrize("rows", [1, 3000])
def test_a_class_without_rows_is_no_error(method, rows):
    with noise_from(InsecureSeededSource(5)):
        model = SketchClassifier(**{**PRIVATE, "classes": [0, 1, 7]}, method=method, bandwidth=3.0)
        model.fit(POINTS[:rows], LABELS[:rows])
    probability = model.predict_proba(POINTS[:500])
    assert np.isfinite(probability).all()
    assert probability.shape == (500, 3)
    if rows == 3000:
        assert probability[:, 2].mean() < 0.2


@pytest.mark.parametrize("method", ["columns", "kernel"])
def test_nothing_but_the_release_is_stored(method):
    model = SketchClassifier(**PRIVATE, method=method, bandwidth=3.0).fit(POINTS, LABELS)
    learned = {name for name in vars(model) if name.endswith("_")}
    assert learned == {
        *("release_", "statement_", "classes_", "method_", "bounds_", "backend_"),
        *("n_features_in_", "categories_"),
    }
    request = POINTS[:200]
    released = SketchClassifier.from_release(model.release_)
    for twin in (released, load(model.to_bytes())):
        assert (twin.predict_proba(request) == model.predict_proba(request)).all()


def test_kernels_of_all_classes_have_the_noise_of_one():
    with noise_from(InsecureSeededSource(6)):
        model = SketchClassifier(**PRIVATE, method="kernel", bandwidth=3.0).fit(POINTS, LABELS)
    alone = model._empty(model._setting(model._public(model._check(), POINTS, None), POINTS))
    one = alone.update(POINTS).release(1.0, source=InsecureSeededSource(7))
    assert {part.noise_error() for part in model.release_.parts} == {one.noise_error()}
    assert model.statement_.loss == one.statement.loss
    assert model.statement_.epsilon == 1.0


def test_what_must_be_public_is_required():
    for left_out, word in (
        ("classes", "classes must be given"),
        ("bounds", "bounds must be given"),
    ):
        given = {name: value for name, value in PRIVATE.items() if name != left_out}
        with pytest.raises(ValueError, match=word):
            SketchClassifier(**given).fit(POINTS, LABELS)
    with pytest.raises(ValueError, match="priors must be one number per class, 2, not 3"):
        SketchClassifier(**PRIVATE, priors=(1, 1, 1)).fit(POINTS, LABELS)


def test_labels_are_matched_by_value_whatever_their_type_and_unlisted_ones_are_dropped():
    def counts(classes, y):
        with noise_from(InsecureSeededSource(0)):
            model = SketchClassifier(
                **{**PRIVATE, "classes": classes, "epsilon": 1e5, "method": "columns"}
            ).fit(POINTS[: len(y)], y)
        return model.release_._counts

    full = counts([0, 1], [0, 1, 1, 0])
    for classes in ([0, 1], ["0", "1"], [False, True], [0.0, 1.0]):
        for y in (
            [0, 1, 1, 0],
            ["0", "1", 1.0, 0],
            [False, True, "True", "0.0"],
            [[0], [1], [1], 0],
        ):
            assert np.array_equal(counts(classes, y), full)
    assert counts(["a", "b"], ["a", "other", None, "b"]).sum() == full.sum() // 2
    padded = counts(["01", "1"], ["01", "1", 1, "1.0"])  # distinguished by the list: as written
    assert padded[0].sum() * 3 == padded[1].sum() > 0
    assert (
        SketchClassifier(**PRIVATE).input_report(POINTS[:4], [0, 1, "other", None])["dropped"] == 2
    )
    with pytest.raises(ValueError, match="y must have one label for each row of X"):
        SketchClassifier(**PRIVATE).fit(POINTS, LABELS[1:])
    with pytest.raises(ValueError, match="classes must be numbers that differ as floats"):
        SketchClassifier(**{**PRIVATE, "classes": [2**53, 2**53 + 1]}).fit(POINTS, LABELS)


def test_every_limit_refuses_what_it_says():
    for name, limit in SketchClassifier.LIMITS.items():
        for value in limit.bad():
            with pytest.raises((ValueError, TypeError)):
                SketchClassifier(**{**PRIVATE, name: value}).fit(POINTS[:50], LABELS[:50])


@pytest.mark.filterwarnings("ignore:SketchClassifier. epsilon .* is too small here:UserWarning")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("backend", ["grid", "slices", "race", "fourier"])
def test_a_row_that_changes_its_class_is_within_the_noise_of_its_kernels(backend, delta):
    # The same bits of noise on both sides: what differs is what the row changed.
    given = {**PRIVATE, "bounds": (-4, 5), "delta": delta, "relation": "replace"}
    given |= dict(method="kernel", kernel="p-stable", backend=backend, bandwidth=6.0, rows=1)
    result = []
    for labels in ([0, 0, 1], [0, 1, 1]):
        with noise_from(InsecureSeededSource(3)):
            result.append(SketchClassifier(**given).fit(POINTS[:3, :2], labels).release_)
    norm = square = 0
    for one, other in zip(result[0].parts, result[1].parts, strict=True):
        for name, cells in one._arrays().items():
            gap = cells.astype(object) - other._arrays()[name].astype(object)
            norm, square = norm + int(np.abs(gap).sum()), square + int((gap**2).sum())
    part = result[0].parts[0]
    assert result[0].statement.relation == "replace"
    assert result[0].statement.loss["relation"] == "replace"
    if part.noise == "Laplace":
        assert norm / part.scale <= result[0].statement.epsilon * (1 + 1e-12)
    else:
        assert square / (2 * part.scale**2) <= result[0].statement.loss["rho"] * (1 + 1e-12)


def test_scores_do_not_depend_on_the_rows_beside():
    # A product of matrices would round some of these rows otherwise than alone.
    cut = Bins(((-4.0,) * 13, (4.0,) * 13), 32, (0,) * 13)
    codes = cut.codes(RNG.normal(size=(999, 13)))
    counts = RNG.integers(1, 1000, (2, cut.total))
    table = WeightsOfEvidence(cut, counts, 3.0).table(1)
    scorer = scorer_of(table, RNG.integers(-(10**7), 10**7, 78), 9.0)
    limits = Limits(13, "Laplace")
    evidence = (table.cells[codes] - table.centre) / table.unit
    together = scorer.scores(codes), limited(evidence, limits)
    for row in range(0, 999, 7):
        one = codes[row : row + 1]
        assert scorer.scores(one)[0] == together[0][row]
        assert (limited(evidence[row : row + 1], limits)[0] == together[1][row]).all()


def test_tables_without_noise_are_not_saved_as_private():
    model = SketchClassifier(bounds=(-4, 5), method="columns").fit(POINTS, LABELS)
    assert load(model.to_bytes()).clipped_ == model.clipped_
    with pytest.raises(ValueError, match="not private"):
        model.set_params(epsilon=1.0).to_bytes()


def test_a_release_of_other_parameters_or_classes_is_refused():
    model = SketchClassifier(**PRIVATE).fit(POINTS, LABELS)
    with pytest.raises(ValueError, match="epsilon is that of the release"):
        SketchClassifier.from_release(model.release_, epsilon=0.1)
    model.classes_ = np.array([0, 1, 2])
    with pytest.raises(ValueError, match="other classes"):
        load(model.to_bytes())


def test_forged_parts_are_refused():
    released = (
        SketchClassifier(**PRIVATE, method="kernel", bandwidth=3.0).fit(POINTS, LABELS).release_
    )
    unrelated = np.frombuffer(CountMin(8).update([1]).release(1.0).to_bytes(), np.uint8)
    for name in ("_class_0", "_class_1"):
        with pytest.raises(SketchFormatError, match="the parts are n"):
            sketch_load(repacked(released, {name: unrelated}))
