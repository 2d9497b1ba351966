"""A query finds the nodes that have its words; links decide their order, not repetitions."""

import numpy as np
import pytest

from sfumato.errors import NullValueError, ParameterError, ParameterTypeError
from sfumato.mine.rank import Graph, TextIndex, pagerank

PAGES = ["imdb", "reviews", "shirts", "news", "paper"]
TEXTS = [
    "Movie database",
    "movie reviews, and more",
    "movie movie movie movie shirts",
    "The daily news",
    "",
]


def test_words_match_whatever_their_case_and_signs():
    index = TextIndex(PAGES, TEXTS)
    assert index.match("MOVIE").tolist() == ["imdb", "reviews", "shirts"]
    assert index.match("movie, reviews!").tolist() == ["reviews"]
    assert index.match("reviews shirts", "any").tolist() == ["reviews", "shirts"]
    assert index.match("movies").tolist() == []
    assert index.match(" ... ").tolist() == []
    assert TextIndex([1], ["Ölpreis"]).match("ölPREIS").tolist() == [1]


def test_term_spam_does_not_beat_links():
    graph = Graph(["a", "b", "c", "a"], ["imdb", "imdb", "reviews", "shirts"])
    ids, scores = TextIndex(PAGES, TEXTS).search("movie", pagerank(graph), n=2)
    assert ids[0] == "imdb"
    assert ids.size == 2
    assert scores[0] > scores[1]


def test_pages_are_found_by_the_anchor_texts_of_links_to_them():
    links = [("a", "imdb", "movie facts"), ("b", "imdb", "films"), ("c", "shirts", "shirts")]
    begins, ends, anchors = zip(*links, strict=True)
    index = TextIndex(ends, anchors)
    assert index.match("movie").tolist() == ["imdb"]  # not the shop that says so itself
    assert index.match("facts films").tolist() == ["imdb"]  # anchors of a page count together
    ids, _ = index.search("movie", pagerank(Graph(begins, ends)))
    assert ids.tolist() == ["imdb"]


def test_a_topic_by_text_is_topic_specific_pagerank():
    graph = Graph([0, 1, 2, 3, 4], [1, 0, 3, 2, 0])
    index = TextIndex(range(5), ["tea", "milk", "rum", "rum punch", "tea punch"])
    topic = index.topic("rum punch")
    assert topic == {2: 0.5, 3: 1.0, 4: 0.5}
    by_text = pagerank(graph, teleport=topic)
    np.testing.assert_allclose(by_text.scores[[2, 3]].sum(), 0.75, atol=1e-6)
    unranked, scores = index.search("tea", pagerank(Graph([9], [4])))
    assert unranked.tolist() == [4, 0]
    assert scores[1] == 0


def test_bad_texts_are_refused():
    with pytest.raises(ParameterError, match="as many as ids, 2, not 1"):
        TextIndex([1, 2], ["a"])
    with pytest.raises(NullValueError, match="row 1"):
        TextIndex([1, 2], ["a", None])
    with pytest.raises(ParameterTypeError, match="texts"):
        TextIndex([1], [["a"]])
    with pytest.raises(ParameterTypeError, match="query must be a text"):
        TextIndex([1], ["a"]).match(7)
    with pytest.raises(ParameterError, match="mode"):
        TextIndex([1], ["a"]).match("a", "some")
    assert TextIndex([], []).match("a").tolist() == []
