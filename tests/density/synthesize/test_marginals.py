"""What one row changes in the released tables of a sampler is what its noise is made for."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.density import PrivateTableSampler
from sfumato.density.synthesize import distribution, marginals
from sfumato.density.synthesize.columns import COLUMNS
from sfumato.density.synthesize.marginals import (
    ALONE,
    CLASS_STEP,
    CLASSES,
    COLUMNS_STEP,
    PAIRED,
    PAIRS,
    TREE,
    Layout,
    dependence_scores,
    filled,
    noisy_tree,
    planned_marginals,
)
from sfumato.privacy.accounting.calibration import epsilon_of
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.privacy.release import ReleaseRequest

PUBLIC = {"a": [0, 1, 2], "b": range(3), "c": (0.0, 3.0), "kind": ["x", "y"]}
SPECS = COLUMNS.check("test", "columns", PUBLIC)
LAYOUT = Layout(SPECS, 3, 3, 3)
WORLD = np.array([*itertools.product(range(3), range(3), range(3), range(2))])


def counter(codes):
    return lambda counted: counted(codes)


def plans_of(epsilon=0.7, delta=0.0, layout=LAYOUT, **options):
    """The plans of a request, and its loss, from the release that would be published."""
    request = ReleaseRequest.of("test", epsilon, delta, options)
    found = {}
    parameters = dict(columns=SPECS, target=3, bins=3, groups=3)

    def spied(layout, first, count, plans, source):
        found["plans"] = plans
        return filled(layout, first, count, plans, source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marginals, "filled", spied)
        release = planned_marginals(parameters, layout, counter(WORLD), request)
        release.publish(replace(request, source=InsecureSeededSource(1)))
    return found["plans"], release.loss


def norms(one, two):
    change = np.abs(one - two).astype(object)
    return int(change.sum()), int((change**2).sum())


@pytest.mark.parametrize("delta", [0.0, 0.1])  # Laplace and Gaussian noise
@pytest.mark.parametrize("way", ["add/remove", "replace"])
def test_every_row_of_a_small_world_costs_at_most_epsilon(delta, way):
    # All rows there are, added or replaced, beside noisy tables of which some are extreme.
    plans, loss = plans_of(delta=delta, relation=way)
    rng = np.random.default_rng(0)
    for seed in range(12):
        base = WORLD[rng.integers(0, len(WORLD), seed * 3)]
        noisy = rng.integers(-(10 ** (seed % 6)), 10 ** (seed % 5), (2, 9))
        of = LAYOUT.marginals(noisy.sum(axis=1), noisy, (1.0, 1.0))
        pairs = [(0, 2), (2, 1)]
        for row in WORLD[::5]:
            other = np.vstack([base, row])
            start = base if way == "add/remove" else np.vstack([base, WORLD[7]])
            tables = [
                [
                    LAYOUT.column_counts(rows),
                    dependence_scores(LAYOUT, of, counter(rows)),
                    LAYOUT.pair_counts(rows, of, pairs),
                    LAYOUT.class_counts(rows),
                ]
                for rows in (start, other)
            ]
            moved = np.abs(tables[0][1] - tables[1][1]).max()
            l1 = {at: norms(tables[0][at], tables[1][at]) for at in range(4)}
            for noise, steps in (
                (plans.paired, (COLUMNS_STEP, PAIRS, CLASS_STEP)),
                (plans.alone, (COLUMNS_STEP, CLASS_STEP)),
            ):
                scales = noise.scales
                of_steps = dict(zip((0, TREE, PAIRS, CLASS_STEP), scales, strict=False))
                if len(scales) == 2:
                    of_steps = {COLUMNS_STEP: scales[0], CLASS_STEP: scales[1]}
                rounds = LAYOUT.edges if len(scales) == 4 else 0
                each = Fraction(2 * int(moved)) / of_steps[TREE] if rounds else 0
                if noise.distribution == "Laplace":
                    cost = sum(l1[at][0] / of_steps[at] for at in steps) + rounds * each
                    assert cost <= Fraction(0.7)
                else:
                    rho = sum(l1[at][1] / (2 * of_steps[at] ** 2) for at in steps)
                    assert rho + rounds * each**2 / 2 <= Fraction(loss.rho)


def test_budgets_are_spent_whole_by_either_plan():
    assert sum(PAIRED) + CLASSES == 1 == ALONE + CLASSES
    for delta, law in ((0.0, "Laplace"), (0.1, "Gaussian")):
        plans, loss = plans_of(delta=delta)
        assert {plans.paired.distribution, plans.alone.distribution} == {law}
        assert plans.paired.scales[CLASS_STEP] == plans.alone.scales[1]
        assert plans.alone.variance(0) < plans.paired.variance(0)
    assert 0.6 < epsilon_of(loss, 0.1) <= 0.7
    for options in ({"relation": "replace"}, {"unit": "user", "contributions": 2}):
        once, twice = plans_of()[0].paired.scales, plans_of(**options)[0].paired.scales
        assert [b / a for a, b in zip(once, twice, strict=True)] == [2] * 4


def test_each_edge_has_the_probabilities_of_report_noisy_max():
    # Three columns: two rounds, of which the first must have the exact distribution. 4,000 draws:
    # 6 deviations are 0.047; seeds fixed.
    scores, scale, trials = np.array([3, 0, 1]), Fraction(4), 4000
    source = InsecureSeededSource(2)
    masses = np.exp(-np.arange(200) / 4) * (1 - np.exp(-1 / 4))
    chosen = np.zeros(3)
    for noise in itertools.product(range(60), repeat=2):
        p = masses[noise[0]] * masses[noise[1]]
        threshold = max(scores[1] + noise[0], scores[2] + noise[1]) - scores[0]
        chosen[0] += p * np.exp(-max(threshold, 0) / 4)  # ties go to the first
    with pytest.MonkeyPatch.context() as patch:
        first = []
        patch.setattr(marginals, "directed", lambda columns, pairs: first.append(pairs[0]))
        for _ in range(trials):
            noisy_tree(3, scores, scale, source)
    assert abs(np.mean([pair == (0, 1) for pair in first]) - chosen[0]) < 0.047


def test_a_tree_is_of_the_largest_scores_where_noise_is_small():
    scores = np.array([1, 90_000, 50_000])  # of the pairs 01, 02, 12
    assert noisy_tree(3, scores, Fraction(1), InsecureSeededSource(0)) == [(0, 2), (2, 1)]


def test_pairs_are_left_out_where_classes_are_small():
    plans = plans_of(epsilon=1.0)[0]
    needed = marginals.CLEAR * plans.paired.variance(PAIRS) ** 0.5
    assert plans.helps(np.array([needed * 9, needed * 1.01]))
    assert not plans.helps(np.array([needed * 9, needed * 0.99]))
    assert plans.helps(np.array([needed * 9, 5, needed * 1.01]))
    assert plans.helps(np.array([needed * 1.01]))


def test_counts_are_those_of_the_rows():
    rows = WORLD[np.random.default_rng(5).integers(0, len(WORLD), 400)]
    counts = LAYOUT.column_counts(rows)
    assert counts.shape == (2, 9)
    assert counts[1, 4] == ((rows[:, 3] == 1) & (rows[:, 1] == 1)).sum()
    of = LAYOUT.marginals(counts.sum(axis=1) // 3, counts, (1e-9, 1e-9))
    pair = LAYOUT.pair_counts(rows, of, [(0, 1)])[0]
    maps = of.group_of_cell
    for cell in itertools.product(range(3), repeat=2):
        found = (rows[:, 0] == cell[0]) & (rows[:, 1] == cell[1]) & (rows[:, 3] == 0)
        assert pair[0, maps[0][cell[0]], maps[1][cell[1]]] == found.sum()


def test_scores_are_distances_to_what_noisy_columns_expect():
    rows = WORLD[np.random.default_rng(5).integers(0, len(WORLD), 400)]
    noisy = np.random.default_rng(6).integers(50, 90, (2, 9))
    of = LAYOUT.marginals(np.array([200, 200]), noisy, (1.0, 1.0))
    pair = LAYOUT.pair_counts(rows, of, [(0, 2)])[0]
    expected = np.rint(of.independent(0, 2)).astype(int)
    assert dependence_scores(LAYOUT, of, counter(rows))[1] == np.abs(pair - expected).sum()


@pytest.mark.parametrize("epsilon", [0.2, 8.0])
@pytest.mark.parametrize("delta", [0.0, 0.1])
def test_every_table_has_the_noise_that_is_stated(epsilon, delta):
    # Mean absolute noise over 9 to 32 cells and 40 seeds: 6 deviations are below .35.
    rows = WORLD[np.random.default_rng(5).integers(0, len(WORLD), 400)]
    layout, plans = LAYOUT, plans_of(epsilon, delta)[0]
    found = {"_classes": [], "_counts": []}
    for seed in range(40):
        made = filled(
            layout, layout.column_counts(rows), counter(rows), plans, InsecureSeededSource(seed)
        )
        assert (len(made["_edges"]) > 0) == (epsilon > 1)
        found["_classes"].append(made["_classes"] - layout.class_counts(rows))
        found["_counts"].append(made["_counts"] - layout.column_counts(rows))
    noise = plans.paired if epsilon > 1 else plans.alone
    steps = {"_classes": plans.paired.variance(CLASS_STEP), "_counts": noise.variance(0)}
    for name, variance in steps.items():
        assert np.var(found[name]) == pytest.approx(variance, rel=0.35)


def test_small_classes_have_noisy_counts_of_groups_of_which_a_row_is_in_one_a_column(monkeypatch):
    # Noise of 8 groups and 60 seeds: the variance has a relative deviation of 10 %, seeds fixed.
    monkeypatch.setattr(distribution, "DETAIL", 1e9)  # only the part of the largest class counts
    specs = COLUMNS.check("test", "columns", {"a": (0, 1), "b": (0, 1), "kind": ["x", "y"]})
    layout = Layout(specs, 2, 40, 4)
    rng = np.random.default_rng(0)
    kinds = np.arange(9000) % 30 == 0
    rows = np.column_stack([rng.integers(0, 40, (9000, 2)), kinds]).astype(int)
    first, plans = layout.column_counts(rows), plans_of(0.7, layout=LAYOUT)[0]
    noisy = []
    for seed in range(60):
        made = filled(layout, first, counter(rows), plans, InsecureSeededSource(seed))
        variances = plans.alone.variance(1), plans.alone.variance(0)
        of = layout.marginals(made["_classes"], made["_counts"], variances)
        assert of.fine.tolist() == [True, False]
        merged, used = of.by_groups(first)
        assert used.reshape(2, 40)[:, :4].all()
        assert used.sum() == 8
        assert (made["_counts"][1, ~used] == 0).all()
        noisy += (made["_counts"][1] - merged[1])[used].tolist()
        for row in rows[:40]:
            other = of.by_groups(first + layout.column_counts(row[None]))[0]
            assert norms(merged, other) == (2, 2)
    assert np.var(noisy) == pytest.approx(plans.alone.variance(0), rel=0.4)


def test_files_with_impossible_trees_are_refused():
    made = PrivateTableSampler({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, epsilon=1e4, groups=2)
    rows = np.random.default_rng(0).integers(0, 2, (5000, 3))
    release = made.fit(rows, source=InsecureSeededSource(3)).release_
    assert len(release._edges) == 2
    for edges in ([[0, 1], [0, 3]], [[0, 1], [0, 1]], [[1, 2], [2, 1]], [[0, -1], [0, 2]]):
        broken = object.__new__(type(release))
        vars(broken).update({**vars(release), "_edges": np.array(edges)})
        with pytest.raises(ValueError, match="tree"):
            broken._check_state()


def test_tables_beyond_memory_are_refused():
    wide = COLUMNS.check("test", "columns", {f"x{at}": (0, 1) for at in range(12_000)})
    with pytest.raises(ValueError, match="lower bins or groups"):
        Layout(wide, None, 4096, 64).check_cells("test")
    only = COLUMNS.check("test", "columns", {"kind": ["x", "y"]})
    with pytest.raises(ValueError, match="at least one besides the target"):
        Layout(only, 0, 4, 4).check_cells("test")
