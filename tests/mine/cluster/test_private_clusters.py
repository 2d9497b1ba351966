"""Private k-means and BFR: no row moves more than is charged; what is released follows from it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from sfumato.attack.mechanism_audit.audit import audit
from sfumato.core.bounds import Box
from sfumato.core.storage import load_any
from sfumato.errors import FormatError
from sfumato.mine.cluster import KMeans, PrivateBFR, PrivateKMeans
from sfumato.mine.cluster.private.noisy_sums import STEPS, RowSource, StagePlan
from sfumato.mine.cluster.private.private_kmeans import LIMITS
from sfumato.mine.cluster.private.private_starts import Partition, spread_centres
from sfumato.privacy import BudgetExceeded, Ledger, Privacy
from sfumato.privacy.accounting.losses import Loss
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.privacy.random_source import SystemSource
from support.replayed_noise import run

BOUNDS = ([-4.0, -4.0], [4.0, 4.0])
KINDS = [PrivateKMeans, PrivateBFR]


def rows(seed=0, n=3000):
    rng = np.random.default_rng(seed)
    centres = np.array([[-2.0, -2.0], [2.0, 2.0], [-2.0, 2.0]])
    return centres[rng.integers(3, size=n)] + rng.normal(0, 0.3, (n, 2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("cells", [None, 0])
@pytest.mark.parametrize("row", [[4.0, 4.0], [-4.0, 4.0], [0.0, 0.0], [1e9, -1e9], [math.nan, 1]])
def test_no_row_moves_the_noisy_sums_by_more_than_the_statement(kind, delta, cells, row):
    data = rows(1, 200).tolist()

    def path(data):
        return lambda: kind(3, 2.0, delta, bounds=BOUNDS, cells=cells).fit(data).release_

    good = run(path(data))
    more = run(path([*data, row]), good.noise)
    assert good.error == more.error == ""
    assert more.result.to_bytes() == good.result.to_bytes()
    epsilon, rho = good.noise.cost(more.noise)
    loss = Loss.from_dict(good.result.statement.loss)
    # Laplace noise costs epsilon alone, Gaussian noise rho alone.
    spent, most = (rho, loss.rho) if delta else (epsilon, loss.epsilon)
    assert spent <= most * (1 + 1e-9)
    if row == [4.0, 4.0]:  # all of it is spent: the bound is tight
        assert spent == pytest.approx(most, rel=0.01)


def test_contributions_and_replacement_scale_the_noise():
    data = rows(1, 100)
    plain = dict(source=InsecureSeededSource(1))

    def scale(**terms):
        release = PrivateKMeans(2, 1.0, bounds=BOUNDS).fit(data, **plain, **terms).release_
        return release.deviation, release.statement

    one, _ = scale()
    many, statement = scale(unit="user", contributions=5)
    assert many == pytest.approx(5 * one)
    assert (statement.unit, statement.contributions) == ("user", 5)
    twice, statement = scale(relation="replace")
    assert twice == pytest.approx(2 * one)
    assert statement.relation == "replace"
    other = PrivateBFR(2, 1.0, 1e-6, bounds=BOUNDS).fit(data, relation="replace", **plain).release_
    assert other.statement.relation == "replace"


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_unit_of_a_count_makes_the_error_of_a_mean_smallest(delta):
    for d in (1, 2, 16):
        plan = StagePlan(1.0, delta, 1, d, (d,), (Fraction(1),))

        def error(u, d=d):
            noise = u**2 + d if delta else (u + d) ** 2
            return noise * (d + d / 4 / u**2)

        best = plan.unit / STEPS
        assert all(error(best) <= error(best * f) * (1 + 1e-6) for f in (0.9, 0.99, 1.01, 1.1))


def test_rows_are_integers_in_the_box_and_their_sums_are_exact():
    box = Box.of("test", BOUNDS, 2)
    odd = [[9.0, -9.0], [0.0, 1.0], ["x", 1], [math.nan, 2], [1.0], None, [math.inf, 0.5]]
    (steps,) = RowSource("test", odd, box).parts()
    assert steps.dtype == np.int64
    assert steps.tolist()[0] == [STEPS, -STEPS]
    assert len(steps) == 3
    assert (np.abs(steps) <= STEPS).all()
    data = rows(3, 500)
    source = RowSource("test", data, box)
    (steps,) = source.parts()
    assert np.abs(steps / STEPS * 4 - data).max() <= 4 / STEPS
    labels = np.random.default_rng(0).integers(5, size=500)
    cells = source.cells(5, lambda _: labels, True)
    for k in range(5):
        mine = steps[labels == k]
        squares = (mine * mine // STEPS).sum(axis=0)
        assert cells[k].tolist() == [len(mine), *mine.sum(axis=0), *squares]
    halves = RowSource("test", lambda: iter([data[:100], data[100:]]), box)
    at = iter([labels[:100], labels[100:]])
    assert (halves.cells(5, lambda _: next(at), True) == cells).all()


@pytest.mark.parametrize(("cells", "d"), [(48, 1), (48, 2), (48, 5), (48, 12), (1, 3), (7, 40)])
def test_partition_sees_no_data_and_its_cells_are_few(cells, d):
    part = Partition(cells, d, seed=3)
    assert 1 <= part.size <= cells
    inside = np.random.default_rng(0).uniform(-1, 1, (4000, d))
    labels = part.labels(inside)
    assert labels.min() >= 0
    assert labels.max() < part.size
    assert (part.labels(inside[:7]) == labels[:7]).all()
    if part.size > 1:
        assert len(np.unique(labels)) > part.size / 2
    corners = part.labels(np.array([[-1.0] * d, [1.0] * d]))
    assert corners.min() >= 0
    assert corners.max() < part.size
    spread = spread_centres(6, d, 0, np.zeros((0, d)))
    assert (spread == spread_centres(6, d, 0, np.zeros((0, d)))).all()
    assert (np.abs(spread) <= 0.75).all()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_without_noise_that_matters_it_is_k_means(delta):
    data = rows(5)
    best = KMeans(3, random_state=0).fit(data)
    model = PrivateKMeans(3, 1e4, delta, bounds=BOUNDS, rounds=5).fit(data)
    found = model.release_
    assert cdist(best.cluster_centers_, found.cluster_centers).min(axis=1).max() < 0.01
    assert sorted(np.rint(found.counts)) == sorted(best.counts_)
    bfr = PrivateBFR(3, 1e4, delta, bounds=BOUNDS).fit(data).release_
    for centre, variance in zip(bfr.cluster_centers, bfr.variances, strict=True):
        near = data[cdist(data, bfr.cluster_centers).argmin(axis=1) == _at(bfr, centre)]
        np.testing.assert_allclose(variance, near.var(axis=0), rtol=0.05)
    labels = found.predict(data)
    assert (labels == cdist(data, found.cluster_centers).argmin(axis=1)).all()
    assert (bfr.predict(data) == cdist(data, bfr.cluster_centers).argmin(axis=1)).mean() > 0.99


def _at(release, centre):
    return int(cdist([centre], release.cluster_centers).argmin())


def test_partition_finds_clusters_where_a_start_without_data_does_not():
    # Six separated clusters, epsilon 1: the medians of 9 seeds; the first is near what is possible.
    rng = np.random.default_rng(2)
    centres = np.array([[x, y] for x in (-3, 0, 3) for y in (-3, 3)], float)
    data = centres[rng.integers(6, size=6000)] + rng.normal(0, 0.3, (6000, 2))

    def loss(**options):
        found = []
        for seed in range(9):
            source = InsecureSeededSource(seed)
            model = PrivateKMeans(6, 1.0, bounds=BOUNDS, seed=seed, **options)
            centres = model.fit(data, source=source).release_.cluster_centers
            found.append((cdist(data, centres).min(axis=1) ** 2).mean())
        return np.median(found)

    assert loss() < 0.18 * 1.3
    assert loss() < loss(cells=0, rounds=5) / 2


def outcomes(value, trials, source):
    """Noisy numbers of many releases of the same rows."""
    model = PrivateKMeans(2, 2.0, bounds=BOUNDS, cells=4, rounds=1)
    plan = StagePlan(2.0, 0.0, 1, 2, (2, 2), (Fraction(2, 5), Fraction(3, 5)))
    made = model._calibrated(plan, RowSource("test", value, Box(*model.bounds)))
    return np.array([made.noisy(source)["_counts"] for _ in range(trials)])


def test_an_audit_of_worst_case_neighbours_measures_less_than_is_claimed():
    # One more row, or six, in the corner where nothing else is. An audit of a true claim fails with
    # a probability of 0.01 for other seeds.
    few = [[-4.0, -4.0]] * 20

    def measured(more):
        how = dict(confidence=0.99, source=InsecureSeededSource(5), claimed=2.0)
        return audit(outcomes, (few, few + more), 400, score=lambda x: x.sum(axis=1), **how)

    assert measured([[4.0, 4.0]]).passed
    assert not measured([[4.0, 4.0]] * 60).passed


@pytest.mark.parametrize("kind", KINDS)
def test_the_ledger_is_charged_before_noise_and_a_retry_returns_the_same(
    tmp_path, monkeypatch, kind
):
    ledger = Ledger(tmp_path / "l")
    ledger.create("shop", 1.5, unit="event")
    paid = dict(ledger=ledger, dataset="shop")
    model, data = kind(2, 1.0, bounds=BOUNDS), rows(0, 100)
    first = model.fit(data, release_id="monday", **paid).release_
    assert ledger.spent("shop").epsilon == pytest.approx(1.0)
    assert model.fit(data, release_id="monday", **paid).release_ == first

    def drawn(*_):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(SystemSource, "fill", drawn)
    with pytest.raises(BudgetExceeded):
        model.fit(data, **paid)
    monkeypatch.undo()
    bundled = kind(2, bounds=BOUNDS, privacy=Privacy(0.25, **paid))
    assert bundled.fit(data).release_.statement.epsilon == 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_is_stored_with_nothing_else_and_damage_is_noticed(tmp_path, kind):
    release = kind(3, 2.0, 1e-6, bounds=BOUNDS).fit(rows(2, 300)).release_
    arrays = {"_centres", "_counts", "_deviation"}
    arrays |= {"_variances"} if kind is PrivateBFR else set()
    assert set(vars(release)) == arrays | {"n_clusters", "bounds", "statement"}
    release.save(tmp_path / "r")
    assert load_any(tmp_path / "r") == release
    broken = type(release)._make(
        release.parameters,
        {name: np.array(getattr(release, name)) + 1e3 for name in arrays}
        | {"_variances": np.full((3, 2), -1.0)},
        release.statement,
    )
    with pytest.raises(FormatError):
        type(release).from_bytes(broken.to_bytes())


def test_few_rows_or_none_give_a_release_of_noise_inside_the_bounds():
    for data in (np.empty((0, 2)), [[1.0, 1.0]], [["x", None]] * 5):
        for kind in KINDS:
            release = kind(5, 0.1, bounds=BOUNDS).fit(data).release_
            assert (np.abs(release.cluster_centers) <= 4).all()
            assert release.predict([[0.0, math.inf]]).shape == (1,)


def test_bad_parameters_are_refused_before_anything_is_charged(tmp_path):
    ledger = Ledger(tmp_path / "l")
    ledger.create("shop", 9.0)
    paid = dict(ledger=ledger, dataset="shop")
    with pytest.raises(ValueError, match="PrivateKMeans: X has 3 columns, but bounds are for 2"):
        PrivateKMeans(2, 1.0, bounds=BOUNDS).fit(np.zeros((4, 3)), **paid)
    with pytest.raises(ValueError, match="epsilon must be larger"):
        PrivateKMeans(2, 1e-12, bounds=BOUNDS).fit(rows(0, 10), **paid)
    with pytest.raises(ValueError, match="PrivateBFR: epsilon"):
        PrivateBFR(2, bounds=BOUNDS).fit(rows(0, 10), **paid)
    assert ledger.spent("shop").epsilon == 0
    for name, limit in LIMITS.items():
        for bad in limit.bad():
            given = {"n_clusters": 2, "epsilon": 1.0, "bounds": BOUNDS, name: bad}
            with pytest.raises((ValueError, TypeError), match=f"PrivateKMeans: {name}"):
                PrivateKMeans(**given)
