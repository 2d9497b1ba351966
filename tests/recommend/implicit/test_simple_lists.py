"""Lists for everybody alike: popularity of late, and lists made by hand."""

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import CuratedList, Popular, load

TRAIN = Interactions(
    [1, 2, 3, 1, 2, 4],
    ["tea", "tea", "tea", "rum", "rum", "milk"],
    times=[10, 20, 30, 95, 98, 100],
)


def test_a_window_counts_what_was_used_of_late():
    assert Popular().fit(TRAIN).recommend(9)[0].tolist() == ["tea", "rum", "milk"]
    model = Popular(window=5).fit(TRAIN)
    items, scores = model.recommend(9)
    assert items.tolist() == ["rum", "milk", "tea"]
    np.testing.assert_allclose(scores, [2 / 3, 1 / 3, 0])  # of the three users since 95
    twin = load(model.to_bytes())
    np.testing.assert_array_equal(twin.recommend(9)[1], scores)
    assert model.explain(9, "rum")["score"] == pytest.approx(2 / 3)


def test_a_window_without_times_is_refused():
    with pytest.raises(ValueError, match="Popular: window needs times"):
        Popular(window=5).fit(Interactions([1, 2], ["tea", "rum"]))


def test_a_damaged_window_is_refused():
    model = Popular(window=5).fit(TRAIN)
    model._popularity = model._popularity + 1
    with pytest.raises(ValueError, match="recent must be fractions"):
        load(model.to_bytes())


def test_a_curated_list_comes_first_and_popularity_after_it():
    model = CuratedList(items=["milk", "gin", "rum"]).fit(TRAIN)
    items, scores = model.recommend([1, 9], 3)
    assert items.tolist() == [["milk", "rum", "tea"]] * 2
    assert scores[0].tolist() == [3.0, 1.0, 0.75]
    assert load(model.to_bytes()).recommend(1, 3)[0].tolist() == items[0].tolist()
    assert model.recommend(1, exclude=TRAIN)[0].tolist() == ["milk"]
    assert model.explain(1, "rum")["score"] == 1.0
    assert CuratedList(items="milk, rum").fit(TRAIN).recommend(1, 2)[0].tolist() == ["milk", "rum"]


def test_ids_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="items are integers, but the model knows text"):
        CuratedList(items=[1, 2]).fit(TRAIN)
