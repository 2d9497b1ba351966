"""Membership inference: what is learned by heart is caught, means are not, bad input refused."""

import json
import math

import numpy as np
import pytest

from sfumato.attack import membership_inference
from sfumato.attack.mechanism_audit.lower_bounds import pairs_lower_bound
from sfumato.attack.membership import inference as membership
from sfumato.data import Interactions
from sfumato.recommend import DenseFactorization, SketchFactorization
from support.fake_models import LeastSquares, Means, Recited, ratings_world

SURE = 1 - 1e-6


@pytest.fixture(scope="module")
def split():
    return ratings_world().split(0.5, 0.5)


@pytest.fixture(scope="module")
def learned_by_heart(split):
    return LeastSquares(12, 1e-3).fit(split[0])


def test_a_model_that_learned_by_heart_is_caught(split, learned_by_heart):
    found = membership_inference(learned_by_heart, *split)
    assert set(found.attacks) == {"loss", "likelihood ratio", "factors", "factors and rating"}
    for name in ("loss", "likelihood ratio", "factors and rating"):
        assert found.attacks[name].auc > 0.65
        assert found.attacks[name].advantage.low > 0.1
    assert found.attacks["likelihood ratio"].tpr[0.001] > 0.003
    assert found.epsilon.epsilon > 0.5
    assert found.auc == max(attack.auc for attack in found.attacks.values())


@pytest.mark.parametrize("kind", [DenseFactorization, SketchFactorization])
def test_our_own_models_are_caught_when_nothing_holds_them_back(split, kind):
    loose = kind(factors=32, epochs=80, regularization=1e-5, learning_rate=0.05).fit(split[0])
    found = membership_inference(loose, *split)
    assert found.attacks["loss"].auc > 0.6
    assert found.attacks["factors and rating"].auc > 0.6
    assert found.epsilon.epsilon > 0.5


def test_means_of_many_ratings_give_nobody_away(split):
    # Four intervals and bounds, each fails with p <= 1e-6; what the means leak is far smaller.
    found = membership_inference(Means().fit(split[0]), *split, confidence=SURE)
    for attack in found.attacks.values():
        assert attack.auc.low <= 0.5 <= attack.auc.high
    assert found.epsilon.epsilon == 0


def test_shadow_models_catch_what_they_were_made_like(split, learned_by_heart):
    def make():
        return LeastSquares(12, 1e-3, sweeps=4)

    found = membership_inference(learned_by_heart, *split, make=make, shadows=4)
    assert found.attacks["shadow models"].auc > 0.65
    means = Means().fit(split[0])
    idle = membership_inference(means, *split, make=Means, shadows=4, confidence=SURE)
    assert idle.attacks["shadow models"].auc.low <= 0.5
    assert idle.epsilon.epsilon == 0


def test_every_row_is_left_out_by_one_shadow_model_and_order_reveals_nothing(split):
    fitted = []

    class Recording(Means):
        def fit(self, rows):
            fitted.append(rows)
            return super().fit(rows)

    model = Means().fit(split[0])
    first = membership_inference(model, *split, make=Recording, shadows=5)
    pairs = [rows.users * 1000 + rows.items for rows in fitted]
    assert len(pairs) == 5
    every, times = np.unique(np.concatenate(pairs), return_counts=True)
    assert every.size == sum(map(len, split))
    assert (times == 4).all()
    order = np.argsort(pairs[0])
    observed = {tuple(pairs[0][order])}
    fitted.clear()
    membership_inference(model, *split[::-1], make=Recording, shadows=5)
    again = fitted[0].users * 1000 + fitted[0].items
    assert {tuple(np.sort(again))} == observed
    assert np.array_equal(again, pairs[0])
    assert "shadow models" in first.attacks


def test_the_likelihood_ratio_knows_which_rows_are_hard():
    # Rows rated 1 have errors of 3 or 2, those rated 5 of 0.3 or 0.2: all small errors are of the
    # latter, so the loss is nearly uninformative between the two, the ratio does within each.
    draws = np.random.default_rng(0)
    users, items = np.divmod(draws.permutation(90_000)[:40_000], 300)
    rows = Interactions(users, items, draws.choice([1.0, 5.0], 40_000))
    train, test = rows.split(0.5, 0.5)
    result = []
    for side, large in ((train, 2), (test, 3)):
        deviation = np.where(side.ratings == 1, large, large / 10)
        result.append(side.ratings + deviation * draws.normal(size=len(side)))
    both = Interactions(*(np.concatenate([getattr(s, c) for s in (train, test)]) for c in COLUMNS))
    found = membership_inference(Recited(both, np.concatenate(result)), train, test)
    truth = 2 / math.pi * math.atan(1.5)  # of |N(0, 2)| below |N(0, 3)|
    assert found.attacks["likelihood ratio"].auc == pytest.approx(truth, abs=0.015)
    assert found.attacks["loss"].auc < truth - 0.04
    assert "factors" not in found.attacks


COLUMNS = ("users", "items", "ratings")


def test_quiet_users_are_looked_at_apart(split):
    # Only ratings of the quietest quarter were learned by heart.
    train, test = split
    counts = np.bincount(np.concatenate([train.users, test.users]))
    quiet = counts < np.quantile(counts, 0.25, method="higher")
    draws = np.random.default_rng(0)

    class Partly:
        heart = set(zip(train.users, train.items, strict=True))

        def predict(self, users, items):
            known = [pair in self.heart for pair in zip(users, items, strict=True)]
            return np.where(quiet[users] & known, 3.0, draws.normal(3, 5, len(users)))

    areas = membership_inference(Partly(), train, test).attacks["loss"].auc_by_activity
    assert len(areas) == 4
    assert areas[0].low > 0.55
    assert all(area.low < 0.5 < area.high for area in areas[1:])


def test_the_same_random_state_gives_the_same_answer(split, learned_by_heart):
    first, second, other = (
        membership_inference(learned_by_heart, *split, sample=2000, random_state=seed).to_dict()
        for seed in (1, 1, 2)
    )
    assert json.dumps(first, allow_nan=False) == json.dumps(second, allow_nan=False)
    assert first != other
    assert first["attacks"]["loss"]["members"] == 1000


def test_names_of_users_and_items_do_not_matter(split):
    def named(side):
        return Interactions([f"u{u}" for u in side.users], side.items, side.ratings)

    class Named(Means):
        def predict(self, users, items):
            return super().predict(None, items)

    model = Named().fit(split[0])
    plain, texts = (membership_inference(model, *map(of, split)) for of in (lambda s: s, named))
    assert plain.attacks["loss"] == texts.attacks["loss"]


def test_pairs_on_both_sides_are_left_out(split, learned_by_heart):
    train, test = split
    wider = Interactions(
        *(np.concatenate([getattr(test, c), getattr(train, c)[:3000]]) for c in COLUMNS)
    )
    plain = membership_inference(learned_by_heart, train, test)
    with_copies = membership_inference(learned_by_heart, train, wider)
    assert with_copies.attacks["loss"].others == plain.attacks["loss"].others
    with pytest.raises(ValueError, match="ratings that the other side has not, not 0"):
        membership_inference(learned_by_heart, train, train)


@pytest.mark.parametrize("empty", [0, 1])
def test_too_few_ratings_are_refused(split, learned_by_heart, empty):
    sides = list(split)
    sides[empty] = sides[empty].filter(np.arange(0))
    with pytest.raises(ValueError, match=r"(train|test) must have at least 40 ratings, not 0"):
        membership_inference(learned_by_heart, *sides)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_predictions_that_are_no_numbers_are_refused(split, value):
    class Broken(Means):
        def predict(self, users, items):
            return np.where(np.arange(len(users)) == 7, value, 3.0)

    with pytest.raises(ValueError, match="errors of model on train must be finite, but row 7"):
        membership_inference(Broken(), *split)


@pytest.mark.parametrize(
    ("name", "value"),
    [("sample", 39), ("confidence", 1), ("shadows", 2), ("delta", -0.1), ("random_state", -1)],
)
def test_bad_settings_are_refused(split, learned_by_heart, name, value):
    with pytest.raises(ValueError, match=f"membership_inference: {name} must be"):
        membership_inference(learned_by_heart, *split, **{name: value})


def test_bounds_of_several_attacks_hold_together(split, learned_by_heart, monkeypatch):
    # The best of k bounds is reported: each may fail with a k-th of the probability (Bonferroni).
    used = []

    def noted(before, after, delta, confidence):
        used.append((before, after, delta, confidence))
        return pairs_lower_bound(before, after, delta, confidence)

    monkeypatch.setattr(membership, "pairs_lower_bound", noted)
    found = membership_inference(learned_by_heart, *split, confidence=0.9, delta=1e-5)
    assert len(used) == len(found.attacks) == 4
    for (before, after, delta, confidence), attack in zip(
        used, found.attacks.values(), strict=True
    ):
        assert 4 * (1 - confidence) == pytest.approx(1 - 0.9)
        assert delta == 1e-5
        alone = pairs_lower_bound(before, after, 1e-5, 0.9)
        assert attack.epsilon.epsilon <= alone.epsilon
    assert found.epsilon.epsilon < max(
        pairs_lower_bound(before, after, 1e-5, 0.9).epsilon for before, after, *_ in used
    )
