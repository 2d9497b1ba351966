"""TF-IDF: the course's formula by hand, what a word is, and which words a profile retains."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data import Features
from sfumato.errors import NotFittedError
from sfumato.recommend import TfIdf
from sfumato.recommend.content.tfidf import tokens

DOCUMENTS = ["storm storm sea", "storm land land land", "rum", ""]


def weights(model, features):
    table = model.transform(features).toarray()
    return [dict(zip(model.names_[row > 0], row[row > 0], strict=True)) for row in table]


def test_weights_are_frequency_over_the_largest_times_log_of_rarity():
    features = Features(range(4), DOCUMENTS)
    first, second, third, empty = weights(TfIdf().fit(features), features)
    assert first == pytest.approx({"storm": np.log(4 / 2), "sea": np.log(4) / 2})
    assert second == pytest.approx({"storm": np.log(2) / 3, "land": np.log(4)})
    assert third == pytest.approx({"rum": np.log(4)})
    assert empty == {}


def test_categories_are_features_with_their_rarity_and_numbers_are_themselves():
    genres = ["a", ["a", "b"], ["a", "c"], None]
    features = Features(range(4), categories={"genre": genres}, numbers={"n": [2, 0, -1, 0]})
    model = TfIdf().fit(features)
    assert model.names_.tolist() == ["genre: a", "genre: b", "genre: c", "n:"]
    table = model.transform(features).toarray()
    common, rare = np.log(4 / 3), np.log(4)
    wanted = [[common, 0, 0, 2], [common, rare, 0, 0], [common, 0, rare, -1], [0, 0, 0, 0]]
    assert np.allclose(table, wanted)


def test_a_feature_of_every_row_weighs_nothing_and_unknown_ones_are_ignored():
    model = TfIdf().fit(Features([1, 2], ["tea rum", "tea gin"]))
    found = weights(model, Features([9], ["tea rum rum whisky"], {"genre": ["x"]}))
    assert found == [pytest.approx({"rum": np.log(2)})]


def test_words_are_runs_of_letters_and_digits_in_lower_case():
    starts, codes, words = tokens(pa.array(["Don't PANIC: 42, caf\xe9_bar!", "x", "\xc9t\xe9 42"]))
    assert words.tolist() == ["don", "panic", "42", "caf\xe9", "bar", "\xe9t\xe9"]
    assert starts.tolist() == [0, 5, 5, 7]
    assert codes.tolist() == [0, 1, 2, 3, 4, 5, 2]


def test_words_are_the_same_whatever_the_batches(monkeypatch):
    texts = pa.chunked_array([["tea rum", "rum gin"], ["gin tea tea"], []])
    once = tokens(texts)
    monkeypatch.setattr("sfumato.recommend.content.tfidf.BATCH", 1)
    assert all(map(np.array_equal, once, tokens(texts)))


def test_a_profile_retains_the_words_of_the_largest_weights():
    features = Features(range(4), DOCUMENTS)
    first, second, *_ = weights(TfIdf(terms=1).fit(features), features)
    assert (set(first), set(second)) == ({"storm"}, {"land"})  # of equal ones the earlier word
    fewer = TfIdf(min_documents=2, stop_words="Sea").fit(features)
    assert fewer.names_.tolist() == ["storm"]
    assert "sea" not in TfIdf(stop_words="Sea land").fit(features).names_


def test_what_is_no_table_of_features_is_refused():
    with pytest.raises(TypeError, match="features must be Features, not list; build them by"):
        TfIdf().fit(["tea"])
    with pytest.raises(NotFittedError, match="call fit first"):
        TfIdf().transform(Features([1], ["tea"]))
    with pytest.raises(ValueError, match="terms must be an integer from 1"):
        TfIdf(terms=0).fit(Features([1], ["tea"]))
    with pytest.raises(ValueError, match="must have a word, a category or a number"):
        TfIdf().fit(Features([1], [""]))
