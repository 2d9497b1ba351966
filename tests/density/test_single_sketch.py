"""Learning from batches is learning from all rows at once, and is paid for once."""

import warnings

import numpy as np
import pyarrow as pa
import pytest

from sfumato.density import SketchDensity, SketchSampler
from sfumato.density.base import noise_from
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.random_source import InsecureSeededSource

ROWS = np.random.default_rng(0).normal(5, 3, (3000, 2))  # some are outside the bounds
SETTINGS = [
    (SketchDensity, {}),
    (SketchDensity, {"backend": "race", "rows": 32}),
    (SketchDensity, {"backend": "slices", "rows": 16, "kernel": "exponential"}),
    (SketchDensity, {"backend": "fourier", "rows": 16, "kernel": "gaussian"}),
    (SketchSampler, {}),
]


def parts(rows=ROWS):
    return iter([rows[:1], rows[1:1], rows[1:1500], rows[1500:]])


@pytest.mark.parametrize(("kind", "options"), SETTINGS)
def test_batches_make_the_same_bytes_as_all_rows(kind, options):
    model = kind(bandwidth=2.0, bounds=(0, 10), **options)
    full = model.fit(ROWS).to_bytes()
    assert model.clipped_ > 0
    assert model.fit_batches(parts()).to_bytes() == full
    private = kind(bandwidth=2.0, bounds=(0, 10), epsilon=1.0, **options)
    with noise_from(InsecureSeededSource(3)):
        full = private.fit(ROWS).to_bytes()
    with noise_from(InsecureSeededSource(3)):
        assert private.fit_batches(parts()).to_bytes() == full
    assert not hasattr(private, "sketch_")


def test_names_of_columns_are_stored_and_must_stay():
    tables = [pa.table({"a": part[:, 0], "b": part[:, 1]}) for part in (ROWS[:9], ROWS[9:99])]
    model = SketchDensity(bounds=(0, 10)).fit_batches(tables)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names"):
        model.fit_batches([tables[0], tables[1].rename_columns(["a", "c"])])
    with pytest.raises(ValueError, match="features"):
        model.fit_batches([ROWS, ROWS[:, :1]])


def test_the_budget_is_charged_once_and_not_for_what_failed(tmp_path):
    ledger = Ledger(tmp_path / "rows.ledger")
    ledger.create("rows", epsilon=1.0)
    paid = {"epsilon": 0.7, "bounds": (0, 10), "ledger": ledger, "dataset": "rows"}
    model = SketchDensity(**paid, release_id="june")

    def broken():
        yield ROWS
        raise KeyboardInterrupt

    for batches, error in ((broken(), KeyboardInterrupt), ([ROWS, [[1, np.nan]]], ValueError)):
        with pytest.raises(error):
            model.fit_batches(batches)
        assert ledger.spent("rows").epsilon == 0
    result = model.fit_batches(parts()).to_bytes()
    assert ledger.spent("rows").epsilon == 0.7
    assert model.fit_batches(parts()).to_bytes() == result
    with pytest.raises(BudgetExceeded):
        SketchDensity(**paid).fit_batches(parts())
    assert ledger.spent("rows").epsilon == 0.7


def test_errors_name_bounds_rows_and_batch():
    with pytest.raises(ValueError, match="bounds must be given"):
        SketchDensity().fit_batches(parts())
    for nothing in ([], [ROWS[:0]]):
        with pytest.raises(ValueError, match="at least one row"):
            SketchDensity(bounds=(0, 10)).fit_batches(nothing)
    with pytest.raises(ValueError, match="row 1, column 0 holds NaN") as caught:
        SketchDensity(bounds=(0, 10)).fit_batches([ROWS, [[1, 2], [np.nan, 2]]])
    assert caught.value.__notes__ == ["(rows of batch 1, the first being 0)"]


@pytest.mark.parametrize("kind", [SketchDensity, SketchSampler])
@pytest.mark.parametrize(("epsilon", "warned"), [(1.0, 0), (0.001, 1)])
def test_noise_that_dominates_the_estimates_warns_once(kind, epsilon, warned):
    model = kind(bandwidth=2.0, bounds=(0, 10), epsilon=epsilon)
    fits = (
        lambda: model.fit(ROWS),
        lambda: model.fit_batches(parts()),
        lambda: kind.from_release(model.release_),
    )
    for fit in fits:
        with noise_from(InsecureSeededSource(3)), warnings.catch_warnings(record=True) as result:
            warnings.simplefilter("always")
            fit()
        assert len(result) == warned
        for each in result:
            assert each.category is UserWarning
            assert each.filename == __file__
            assert f"{kind.__name__}: epsilon 0.001 is too small here" in str(each.message)
            assert "A larger epsilon, more data" in str(each.message)


def test_a_warning_of_noise_contains_released_numbers_only():
    for rows in (ROWS, ROWS[:1]):
        with (
            noise_from(InsecureSeededSource(3)),
            pytest.warns(UserWarning, match="too small") as result,
        ):
            model = SketchDensity(bandwidth=2.0, bounds=(0, 10), epsilon=0.001).fit(rows)
        with pytest.warns(UserWarning, match="too small") as again:
            SketchDensity.from_release(model.release_)
        assert str(result[0].message) == str(again[0].message)
        assert f"noisy count of all, {model.release_.size():.3g} (" in str(result[0].message)


@pytest.mark.parametrize("kind", [SketchDensity, SketchSampler])
@pytest.mark.filterwarnings("ignore:Sketch.* is too small here:UserWarning")
def test_no_row_of_a_batch_is_refused_by_a_private_fit_and_no_batch_is_one_of_noise(kind):
    queries = dict(backend="race", rows=16, width=64, epsilon=1e5, bounds=([0, 0], [1, 1]))

    def cells(batches):
        with noise_from(InsecureSeededSource(3)):
            return kind(**queries).fit_batches(batches).release_._table

    usual = np.random.default_rng(6).uniform(0, 1, (30, 2)).tolist()
    want = cells([usual])
    malformed = [["visitor", 0.5], [0.5], None, [0.5, np.nan]]
    assert np.array_equal(cells([usual[:9], [], malformed, usual[9:] + malformed]), want)
    assert np.abs(cells([usual, [["1e300", -np.inf]]]) - want).sum() == 16
    for nothing in ([], [[]], [malformed], iter(())):
        assert not cells(nothing).any()
    with pytest.raises(ValueError, match="bounds must have one number per column"):
        kind(epsilon=1.0, bounds=(0, 1)).fit_batches([])
