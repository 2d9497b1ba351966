"""BFR: sums that are those of all rows, clusters found in bounded memory, merges, files."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import chi2
from sklearn.utils.estimator_checks import estimator_checks_generator

from sfumato.data import read_batches
from sfumato.engine import map_merge
from sfumato.errors import NotFittedError, ParameterError, SketchFormatError
from sfumato.mine.cluster import BFR, BFRSummary
from sfumato.mine.cluster.bfr.bfr import LIMITS
from sfumato.mine.cluster.bfr.bfr_summaries import Summaries, scales_of
from sfumato.sketch import load

RNG = np.random.default_rng(0)
K, D = 6, 4
CENTRES = RNG.normal(size=(K, D)) * 10
LABELS = RNG.integers(K, size=12_000)
ROWS = CENTRES[LABELS] + RNG.normal(size=(12_000, D)) + 1000.0
CENTRES = CENTRES + 1000.0


def purity(labels, found):
    return sum(np.bincount(labels[found == k]).max() for k in np.unique(found)) / len(labels)


def assert_totals(summary, rows):
    n, sums, squares = summary.totals()
    assert n == summary.total == len(rows)
    np.testing.assert_allclose(sums, rows.sum(axis=0), rtol=1e-9)
    np.testing.assert_allclose(squares, np.square(rows).sum(axis=0), rtol=1e-9)


@pytest.mark.parametrize("outliers", ["assign", "label"])
def test_scikit_learns_checks_pass(outliers):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for estimator, check in estimator_checks_generator(BFR(outliers=outliers)):
            if check.func.__name__ != "check_array_api_input":
                check(estimator)


def test_summaries_have_the_mean_and_variance_of_their_rows_and_merge_to_those_of_all():
    origin = ROWS.mean(axis=0)
    both = Summaries.of_rows(ROWS, LABELS.astype(np.int32), K, origin)
    for k in range(K):
        rows = ROWS[k == LABELS]
        assert both.counts[k] == len(rows)
        np.testing.assert_allclose(both.means[k] + origin, rows.mean(axis=0))
        np.testing.assert_allclose(both.variances[k], rows.var(axis=0), rtol=1e-9)
    whole = both.total()
    np.testing.assert_allclose(whole.variances[0], ROWS.var(axis=0), rtol=1e-9)
    np.testing.assert_allclose(whole.moved(origin).sums[0], ROWS.sum(axis=0))
    np.testing.assert_allclose(whole.moved(origin).squares[0], np.square(ROWS).sum(axis=0))
    # 2 d + 1 numbers for a cluster.
    assert sum(part[0].size for part in both.parts()) == 2 * D + 1


def test_mini_clusters_merge_while_their_combined_variance_is_small_or_they_are_many():
    rows = np.array([[0.0], [1.0], [10.0], [11.0], [30.0]])
    each = Summaries.of_rows(rows, np.arange(5, dtype=np.int32), 5, np.zeros(1))
    close = each.merged_close(np.array([1.0]), 9)
    assert sorted(close.means[:, 0].tolist()) == [0.5, 10.5, 30.0]
    assert sorted(each.merged_close(np.array([1e-9]), 9).means[:, 0]) == sorted(rows[:, 0])
    few = each.merged_close(np.array([1e-9]), 2)
    assert sorted(few.counts.tolist()) == [1, 4]


def test_ward_groups_are_those_of_scipy():
    from scipy.cluster.hierarchy import fcluster, linkage

    points = np.random.default_rng(3).normal(size=(40, 3))
    made = Summaries.of_rows(points, np.arange(40, dtype=np.int32), 40, np.zeros(3))
    for size in (1, 3, 10, 40):
        mine = made.ward(size, np.ones(3))
        peer = fcluster(linkage(points, "ward"), size, "maxclust")
        pairs = {(a, b) for a, b in zip(mine.tolist(), peer.tolist(), strict=True)}
        assert len(pairs) == len(set(mine.tolist())) == size


@pytest.mark.parametrize("d", [1, 2, 16])
def test_threshold_is_a_quantile_of_chi_square_for_any_number_of_columns(d):
    summary = BFRSummary(2, d, confidence=0.997)
    assert summary.threshold == pytest.approx(chi2.ppf(0.997, d))
    # The course's 3 sqrt(d) is that for one column alone: 99.7 %, then 99.99 % and more.
    covered = chi2.cdf(9 * d, d)
    assert covered == pytest.approx(0.9973, abs=1e-4) if d == 1 else covered > 0.9998


@pytest.mark.parametrize("chunk", [37, 1000, 12_000])
def test_totals_are_those_of_all_rows_and_clusters_are_found_whatever_the_chunks(chunk):
    summary = BFRSummary(K, D, max_retained=50, max_compressed=8)
    for at in range(0, len(ROWS), chunk):
        summary.update(ROWS[at : at + chunk])
        assert len(summary.compressed) <= 8
        assert len(summary.retained) <= 50 or not len(summary.main)
    assert_totals(summary, ROWS)
    centres, variances, counts = summary.clusters()
    assert counts.sum() == len(ROWS)
    nearest = cdist(CENTRES, centres)
    assert nearest.min(axis=1).max() < 0.25
    assert (np.abs(variances - 1) < 0.3).all()
    # Rows join a cluster with the stated confidence: about 0.1 % are left over.
    alone = BFRSummary(K, D).update(ROWS[:2000]).update(ROWS[2000:])
    assert len(alone.retained) < 60
    assert int(alone.main.counts.sum()) >= 11_900


def test_a_file_sorted_by_cluster_is_clustered_all_the_same():
    order = np.argsort(LABELS, kind="stable")
    model = BFR(K)
    for at in range(0, len(ROWS), 1500):
        model.partial_fit(ROWS[order[at : at + 1500]])
    assert model.counts_.sum() == len(ROWS)
    assert purity(LABELS, model.predict(ROWS)) > 0.95
    assert_totals(model.summary_, ROWS)


def test_merges_add_all_rows_and_find_the_same_clusters():
    parts = [BFRSummary(K, D).update(ROWS[at::3]) for at in range(3)]
    small = BFRSummary(K, D).update(ROWS[:20] + 0.5)  # too few rows for clusters of its own
    for order in ((0, 1, 2), (2, 0, 1)):
        whole = parts[order[0]].copy()
        for at in order[1:]:
            whole.merge(parts[at])
        assert_totals(whole, ROWS)
        assert cdist(CENTRES, whole.clusters()[0]).min(axis=1).max() < 0.25
        other = small.copy().merge(whole)
        whole.merge(small)
        for each in (whole, other):
            assert_totals(each, np.concatenate([ROWS, ROWS[:20] + 0.5]))
    assert whole.merging.kind == "rounding"
    with pytest.raises(ValueError, match="cannot merge, n_clusters is 6 here and 2 there"):
        whole.merge(BFRSummary(2, D))
    one, two = BFR(K).fit(ROWS[::2]), BFR(K).fit(ROWS[1::2])
    assert one.merge(two).counts_.sum() == len(ROWS)
    assert not hasattr(one, "labels_")
    with pytest.raises(TypeError, match="BFR: cannot merge with int"):
        one.merge(3)


def test_files_are_read_batch_by_batch_and_by_threads(tmp_path):
    names = list("abcd")
    table = pa.table(dict(zip(names, ROWS.T, strict=True)))
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=3000)
    calls = []
    model = BFR(K).fit(
        tmp_path / "rows.parquet", columns=names, progress=lambda *at: calls.append(at)
    )
    assert calls[-1] == (len(ROWS), len(ROWS))
    assert model.feature_names_in_.tolist() == names
    assert purity(LABELS, model.predict(table.to_pandas())) > 0.99
    batches = read_batches(tmp_path / "rows.parquet", names, batch_rows=1000)
    assert BFR(K).fit(batches).counts_.sum() == len(ROWS)
    filled = map_merge(
        batches, lambda: BFRSummary(K, D), threads=2, update=lambda each, batch: each.update(batch)
    )
    assert_totals(filled, ROWS)
    made = BFR.from_summary(filled)
    assert purity(LABELS, made.predict(ROWS)) > 0.99
    with pytest.raises(ValueError, match="BFR: columns must be given"):
        BFR(K).fit(tmp_path / "rows.parquet")
    with pytest.raises(ParameterError, match="n_samples=12000"):
        BFR(12_001).fit(tmp_path / "rows.parquet", columns=names)


def test_summaries_are_stored_and_damage_is_noticed(tmp_path):
    for rows in (ROWS, ROWS[:100]):
        summary = BFRSummary(K, D).update(rows)
        summary.save(tmp_path / "s")
        assert load(tmp_path / "s") == summary
        assert BFRSummary.from_bytes(summary.to_bytes()) == summary
    summary = BFRSummary(K, D).update(ROWS)
    for name, change in (("_counts", -(10**6)), ("_sums", np.nan), ("_counts", 1)):
        broken = summary.copy()
        getattr(broken, name).flat[0] += change
        with pytest.raises(SketchFormatError):
            BFRSummary.from_bytes(broken.to_bytes())


def test_outliers_are_labelled_where_that_is_wanted():
    far = np.full((3, D), 5000.0) * [[1], [2], [3]]
    model = BFR(K, outliers="label").fit(ROWS).partial_fit(far)
    assert model.labels_.tolist() == [-1] * 3
    assert model.counts_.sum() == len(ROWS)
    assert (model.predict(ROWS) == -1).mean() < 0.01
    assert (BFR(K).fit(ROWS).partial_fit(far).predict(far) >= 0).all()


def test_constant_columns_and_bad_input():
    flat = ROWS.copy()
    flat[:, 2] = 7.0
    model = BFR(K).fit(flat)
    assert purity(LABELS, model.labels_) > 0.95
    assert np.isfinite(model.cluster_centers_).all()
    assert BFR(2).fit(np.ones((500, 2))).counts_.sum() == 500
    assert scales_of(np.array([4.0, 0.0]), np.array([9.0, 0.0])).tolist() == [0.5, 0.0]
    with pytest.raises(ValueError, match=r"BFR: X must be finite .*row 1, column 0"):
        BFR(1).fit([[1.0], [np.nan]])
    with pytest.raises(ParameterError, match="BFR: n_clusters must be at most"):
        BFR(3).fit([[1.0], [2.0]])
    with pytest.raises(ValueError, match="BFRSummary: n_clusters must be at most"):
        BFRSummary(3, 1).update([[1.0]]).clusters()
    with pytest.raises(NotFittedError, match="call fit first"):
        BFR(2).predict([[1.0]])
    with pytest.raises(ValueError, match="at most 1e\\+140"):
        BFRSummary(1, 1).update([[1e145]])
    with pytest.raises(ValueError, match="PrivateBFR releases clusters"):
        BFRSummary(1, 1).release(1.0)
    for name, limit in LIMITS.items():
        for bad in limit.bad():
            with pytest.raises(ValueError, match=f"BFR: {name} must be"):
                BFR(**{name: bad}).fit(ROWS[:100])
    # A call that raises leaves the summary as it was.
    summary = BFRSummary(1, 1).update([[1.0], [2.0]])
    before = summary.to_bytes()
    with pytest.raises(ValueError, match="finite"):
        summary.update([[3.0], [np.nan]])
    assert summary.to_bytes() == before
