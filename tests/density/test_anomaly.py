"""SketchAnomalyDetector finds anomalies, merges exactly, and stores only what it released."""

import pathlib
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato.density import SketchAnomalyDetector, load
from sfumato.density.base import noise_from
from sfumato.density.projection_histograms import BITS, SliceTable, Surprise, planned_slices
from sfumato.privacy import Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.release import ReleaseRequest

SMTP = pathlib.Path(__file__).parents[3] / "shared/data/adbench/34_smtp.npz"
RNG = np.random.default_rng(0)
USUAL = RNG.normal(size=(20_000, 4)) @ RNG.normal(size=(4, 4))
ANOMALIES = RNG.normal(size=(200, 4)) * 6
PRIVATE = dict(epsilon=1.0, bounds=(-30, 30), contamination=0.01)


def seeded(seed, **options):
    with noise_from(InsecureSeededSource(seed)):
        return SketchAnomalyDetector(**{**PRIVATE, **options}).fit(USUAL)


def test_scikit_learns_checks_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for contamination in (0.1, "auto"):
            model = SketchAnomalyDetector(contamination=contamination)
            for estimator, check in estimator_checks_generator(model):
                if check.func.__name__ != "check_array_api_input":  # needs a setting of SciPy
                    check(estimator)


def test_anomalies_are_found_with_privacy_as_without():
    points = np.vstack([USUAL, ANOMALIES])
    truth = np.repeat([0, 1], [len(USUAL), len(ANOMALIES)])
    found = {}
    for epsilon in (None, 1.0):
        model = SketchAnomalyDetector(epsilon=epsilon, bounds=(-30, 30))
        with noise_from(InsecureSeededSource(1)):
            model.fit(points)
        found[epsilon] = roc_auc_score(truth, -model.score_samples(points))
    forest = IsolationForest(random_state=0).fit(points)
    peer = roc_auc_score(truth, -forest.score_samples(points))
    assert found[None] > peer - 0.03
    assert found[1.0] > peer - 0.03


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3])
def test_the_fraction_of_contamination_is_past_the_threshold(fraction):
    # Noise of 1 % of the points at most, by scale 10 in 32 cells; seeds are fixed.
    bare = SketchAnomalyDetector(contamination=fraction).fit(USUAL)
    assert abs((bare.predict(USUAL) == -1).mean() - fraction) < 0.002
    result = seeded(2, contamination=fraction)
    assert abs((result.predict(USUAL) == -1).mean() - fraction) < 0.3 * fraction + 0.01


def test_the_automatic_threshold_is_the_mean_of_the_largest_squares_and_flags_at_most_a_tenth():
    # One column: a score is of one slice, so the largest tenth of squares is that of the points.
    model = SketchAnomalyDetector(contamination="auto").fit(USUAL[:, :1])
    squares = np.sort(model.score_samples(USUAL[:, :1]) ** 2)
    assert model.offset_**2 == pytest.approx(squares[-len(USUAL) // 10 :].mean())
    for world in (USUAL, np.exp(USUAL), np.repeat(ANOMALIES, 9, axis=0)):
        model = SketchAnomalyDetector(contamination="auto").fit(world)
        assert (model.predict(world) == -1).mean() <= 0.1


def test_scores_are_surprise_past_entropy():
    # Brute force over one column: no sums of columns.
    points = USUAL[:, :1]
    model = SketchAnomalyDetector(bounds=(-8, 8), bins=16).fit(points)
    position = np.floor((np.clip(points[:, 0], -8, 8) + 8) / 16 * 16).clip(0, 15).astype(int)
    fraction = np.maximum(np.bincount(position, minlength=16), 0.5) / len(points)
    usual = -(fraction / fraction.sum() * np.log(fraction)).sum()
    expected = -np.log1p(np.exp(-np.log(fraction[position]) - usual))
    assert (np.abs(model.score_samples(points) - expected) < 1e-9).mean() > 0.9999


def test_cells_are_those_of_exact_fractions():
    table = SliceTable(((-1.0, 0.0, 2.0), (1.0, 0.5, 9.0)), projections=8, bins=10, seed=3)
    points = np.random.default_rng(4).uniform((-1, 0, 2), (1, 0.5, 9), (200, 3))
    steps = table.box.steps(points, BITS).astype(int).tolist()
    top = 2**BITS - 1
    for row, codes in zip(steps, table.codes(points).tolist(), strict=True):
        for factors, code in zip(table.factors.tolist(), codes, strict=True):
            least = sum(min(f, 0) for f in factors) * top
            span = sum(map(abs, factors)) * top + 1
            assert code == Fraction(sum(map(int.__mul__, factors, row)) - least, span) * 10 // 1


def test_where_noise_dominates_scores_fall_with_the_distance_from_the_centre_of_the_box():
    # 2000 points in 20 columns at epsilon 0.1: noise is five times the mean cell. Of 20 draws the
    # rank correlation of score and distance was above 0.7 in each, 0.98 in the median; where each
    # slice was smoothed by itself, 0.56 in the mean.
    grid = np.random.default_rng(3).uniform(-1, 1, (500, 20))
    rows = np.random.default_rng(4).normal(0, 0.3, (2000, 20))
    found = []
    with noise_from(InsecureSeededSource(6)):
        for _ in range(4):
            with pytest.warns(UserWarning, match="too small"):
                model = SketchAnomalyDetector(epsilon=0.1, bounds=(-1, 1)).fit(rows)
            far = (grid**2).sum(axis=1)
            found.append(spearmanr(-model.score_samples(grid), far).statistic)
    assert np.mean(found) > 0.8


def test_usual_points_have_an_order_too():
    # Noise dominates, so scores are of distances from the centre of the box: with excesses cut at 0
    # more than half of these points would have the score 0.
    rows = np.random.default_rng(4).normal(0, 0.3, (500, 8))
    with noise_from(InsecureSeededSource(3)), pytest.warns(UserWarning, match="too small"):
        model = SketchAnomalyDetector(epsilon=0.01, bounds=(-1, 1)).fit(rows)
    _, counts = np.unique(model.score_samples(rows).round(9), return_counts=True)
    assert counts.max() < 25
    assert spearmanr(-model.score_samples(rows), (rows**2).sum(axis=1)).statistic > 0.9


def test_parts_of_the_data_merge_bit_for_bit():
    make = lambda: SketchAnomalyDetector(contamination="auto", bounds=(-30, 30))  # noqa: E731
    full = make().fit(USUAL)
    halves = [make().fit(USUAL[i::2]) for i in (0, 1)]
    merged = halves[0].merge(halves[1])
    assert merged.sketch_ == full.sketch_
    assert merged.offset_ == full.offset_
    bits = make().partial_fit(USUAL[:7]).partial_fit(USUAL[7:])
    assert (bits.score_samples(ANOMALIES) == full.score_samples(ANOMALIES)).all()
    with pytest.raises(ValueError, match="merge needs contamination 'auto'"):
        SketchAnomalyDetector().fit(USUAL).merge(SketchAnomalyDetector().fit(USUAL))


def test_one_point_changes_one_cell_in_each_slice_and_one_of_the_scores():
    table = SliceTable(((-30.0,) * 4, (30.0,) * 4)).update(USUAL)
    noisy = table._table + np.random.default_rng(5).integers(-90, 90, table._table.shape)
    observed = Surprise(table, noisy, 2 * 40.0**2)
    for point in (*ANOMALIES[:50], np.full(4, 1e300), np.zeros(4)):
        inside = table.box.clip(point[None])[0]
        change = table.counted(inside, None)
        assert (change.sum(axis=1) == 1).all()
        assert set(change.ravel().tolist()) == {0, 1}
        assert observed.counted(observed.scores(inside)).sum() == 1
    request = ReleaseRequest.of("test", 0.7, 0.0, {})
    calibrated = planned_slices(table, USUAL, request)
    scales = calibrated.parameters["scale"], calibrated.parameters["score_scale"]
    assert table.slices / scales[0] + 1 / scales[1] == pytest.approx(0.7, rel=1e-12)
    twice = planned_slices(
        table, USUAL, ReleaseRequest.of("test", 0.7, 0.0, {"relation": "replace"})
    )
    assert twice.parameters["scale"] == pytest.approx(2 * scales[0])


def test_every_released_cell_has_noise_of_the_stated_scale():
    # 36 x 64 cells: absolute noise has the mean scale up to 1 / 48; 6 deviations; seeds fixed.
    released = seeded(6, bins=64).release_
    bare = SketchAnomalyDetector(bounds=(-30, 30)).fit(USUAL).sketch_
    assert released.scale == pytest.approx(36 / 0.9)
    assert np.abs(released._table - bare._table).mean() == pytest.approx(released.scale, rel=6 / 48)
    assert released.score_scale == pytest.approx(10)
    scores = released.surprise.counted(released.surprise.scores(released.box.clip(USUAL)[0]))
    assert np.abs(released._scores - scores).mean() == pytest.approx(10, abs=6 * 10 / np.sqrt(32))
    assert (released._scores != scores).any()


def test_nothing_but_the_release_is_stored(tmp_path):
    ledger = Ledger(tmp_path / "budget")
    ledger.create("people", epsilon=1.0)
    model = SketchAnomalyDetector(**PRIVATE, ledger=ledger, dataset="people").fit(USUAL)
    assert ledger.spent("people").epsilon == pytest.approx(1.0)
    assert {name for name in vars(model) if name.endswith("_")} == {
        *("release_", "statement_", "offset_", "bounds_", "backend_", "n_features_in_")
    }
    twins = SketchAnomalyDetector.from_release(model.release_, contamination=0.01)
    for twin in (twins, load(model.to_bytes())):
        assert (twin.decision_function(ANOMALIES) == model.decision_function(ANOMALIES)).all()
    with pytest.raises(AttributeError):
        _ = model.partial_fit


def test_invalid_parameters_are_refused():
    with pytest.raises(ValueError, match="contamination must be a number with epsilon"):
        seeded(7, contamination="auto")
    with pytest.raises(ValueError, match="bounds must be given"):
        seeded(7, bounds=None)
    for name, limit in SketchAnomalyDetector.LIMITS.items():
        for value in limit.bad():
            with pytest.raises((ValueError, TypeError)):
                SketchAnomalyDetector(**{**PRIVATE, name: value}).fit(USUAL[:50])


@pytest.mark.skipif(not SMTP.exists(), reason="the data set is not here")
def test_mail_connections_are_found_within_wide_bounds():
    # Logarithms of counts of 32 bits; measured 0.90, as an isolation forest without privacy.
    data = np.load(SMTP)
    with noise_from(InsecureSeededSource(8)):
        model = SketchAnomalyDetector(epsilon=1, bounds=(np.log(0.1), 31 * np.log(2)))
        model.fit(data["X"])
    assert roc_auc_score(data["y"], -model.score_samples(data["X"])) > 0.87


def test_scores_do_not_depend_on_the_rows_beside():
    model = seeded(3)
    together = model.score_samples(USUAL[:999])
    assert all(model.score_samples(USUAL[row : row + 1])[0] == together[row] for row in range(99))


def test_more_cells_than_memory_are_refused():
    with pytest.raises(ValueError, match="more than 2\\*\\*27 cells"):
        SketchAnomalyDetector(bins=4096, projections=2**16).fit(USUAL)


@pytest.mark.parametrize(
    ("options", "warned"),
    [({}, 0), ({"epsilon": 0.05}, 1), ({"contamination": 0.001}, 1), ({"bins": 1024}, 1)],
)
def test_a_threshold_or_slices_within_the_noise_warn_once(options, warned):
    with warnings.catch_warnings(record=True) as result:
        warnings.simplefilter("always")
        model = seeded(4, **options)
    assert len(result) == warned
    if warned:
        words = f"SketchAnomalyDetector: epsilon {model.statement_.epsilon:g} is too small here"
        assert str(result[0].message).startswith(words)
        given = {"contamination": options.get("contamination", 0.01)}
        with pytest.warns(UserWarning, match="too small") as again:
            SketchAnomalyDetector.from_release(model.release_, **given)
        assert str(again[0].message) == str(result[0].message)
