"""Discovery by n-grams, which prefixes are held against: few strings come out that nobody has."""

import json
from itertools import product

import numpy as np
import pytest

from sfumato.telemetry.discovery.screening import OTHER, PADDING, Strings
from support.benchmarks import benchmark

peers = benchmark("_ngram_discovery")
NGramDiscovery, cliques, evidence = peers.NGramDiscovery, peers.cliques, peers.evidence

LETTERS = "abcdefghijkl"


def hidden(count, seed, longest=6):
    """A dictionary of random strings, and how often each comes, as in a text."""
    rng = np.random.default_rng(seed)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choice(list(LETTERS), rng.integers(2, longest + 1)))] = None
    share = 1 / np.arange(1, count + 1)
    return list(words), share / share.sum()


def test_heavy_strings_of_a_hidden_dictionary_are_found_and_hardly_any_absent_one():
    # A count of 5 % is 9 standard errors of a pair of n-grams and 20 of a whole string, so each of
    # the 4 heaviest is missed with p < 1e-9; false ones have the mean 0.05 of those found.
    words, share = hidden(500, 1)
    counts = np.random.default_rng(2).multinomial(200_000, share)
    find = NGramDiscovery(epsilon=4, alphabet=LETTERS)
    found = find.find(find.encode_many(np.repeat(words, counts), seed=3))
    assert set(words[:4]) <= set(found.value)
    assert len(found) >= 8
    assert sum(value not in words for value in found.value) <= 2
    known = [at for at, value in enumerate(found.value) if value in words]
    true = np.array([counts[words.index(found.value[at])] for at in known])
    assert np.all(np.abs(found.estimate[known] - true) < 5 * found.std_error[known])


def test_limits_are_kept_and_said():
    find = NGramDiscovery(epsilon=4, length=4, alphabet=LETTERS)
    texts = ["abcd", "efgh", "ijkl", "cdef", "ghij"] * 4000
    found = find.find(find.encode_many(texts, seed=1), limit=2)
    assert found.candidates == 2
    assert any("were left out: their n-grams" in note for note in found.notes)


def test_few_clients_or_random_strings_find_nothing():
    find = NGramDiscovery(epsilon=1, length=4, alphabet=LETTERS)
    rng = np.random.default_rng(4)
    texts = ["".join(row) for row in rng.choice(list(LETTERS), (5000, 4))]
    found = find.find(find.encode_many(texts, seed=5))
    assert len(found) <= 1
    assert len(find.find(find.encode_many(texts[:3], seed=6))) <= 1
    assert json.loads(found.to_json())["reports"] == 5000
    assert found.to_arrow().num_rows == len(found)


def test_what_a_client_does_depends_on_its_secret_alone():
    find = NGramDiscovery(epsilon=2, length=4, alphabet="ab", whole_share=0.25)
    secrets = np.random.default_rng(7).integers(0, 256, (3000, 16)).astype(np.uint8)
    one = find.encode_many(["abab"] * 3000, secrets=secrets)
    two = find.encode_many(["bb"] * 3000, secrets=secrets)
    assert 650 < len(one.whole) < 850  # mean 750, standard deviation 24
    assert len(one) == 3000
    assert np.array_equal(one.whole.cohorts, two.whole.cohorts)
    assert [len(a) for a, _ in one.pairs] == [len(a) for a, _ in two.pairs]
    again = find.encode_many(["abab"] * 3000, secrets=secrets)
    assert np.array_equal(one.pairs[0][0].payload, again.pairs[0][0].payload)
    assert np.array_equal(one.whole.payload, again.whole.payload)
    alone = find.encode("abab", bytes(secrets[0]))
    assert len(alone) == 1


def test_the_promise_covers_whole_strings_and_both_n_grams():
    find = NGramDiscovery(epsilon=3, length=4, metric="home page")
    assert find.whole.epsilon_permanent <= 3
    halves = [piece.epsilon_permanent for piece in find.pieces[:2]]
    assert sum(halves) <= find.statement().epsilon <= 3
    assert find.whole.epsilon_permanent <= find.statement().epsilon
    assert len({scheme.fingerprint for scheme in [find.whole, *find.pieces]}) == 3


def test_strings_are_padded_cut_and_spelled_in_the_alphabet():
    strings = Strings(4, 2, "abc")
    texts, codes = strings.padded(["a", "abcabc", "bäc", "a"])
    assert texts == ["a" + 3 * PADDING, "abca", f"b{OTHER}c{PADDING}"]
    assert codes.tolist() == [0, 1, 2, 0]
    assert len(strings.grams) == len(set(strings.grams)) == 4 * 4 + 4 + 1
    assert all(piece in strings.grams for at in (0, 1) for piece in strings.pieces(texts, at))
    nodes = [np.arange(21), np.arange(21)]
    every = strings.joined(nodes, np.array(list(product(range(21), repeat=2))))
    wanted = sum(4**n for n in range(5))  # nothing follows padding
    assert len(every) == len(set(every)) == wanted


def test_cliques_are_all_choices_whose_pairs_all_score():
    rng = np.random.default_rng(8)
    pairs = [(i, j) for j in range(4) for i in range(j)]
    scores = {(i, j): rng.random((5, 5)) for i, j in pairs}
    wanted = [
        list(nodes)
        for nodes in product(range(5), repeat=4)
        if all(scores[i, j][nodes[i], nodes[j]] >= 0.3 for i, j in pairs)
    ]
    assert cliques(scores, 0.3, 10_000).nodes.tolist() == wanted
    fewer = cliques(scores, 0.3, 7)
    assert len(fewer.nodes) == 7
    assert fewer.left_out > 0
    assert all(row in wanted for row in fewer.nodes.tolist())


def test_n_grams_that_go_together_score_and_others_do_not():
    # A pair of a third of the clients is 60 standard errors above 0; one of nobody is beyond 5 with
    # p < 1e-6.
    find = NGramDiscovery(epsilon=4, length=4, alphabet="abc")
    texts = ["abba", "bcab", "cacb"] * 20_000
    reports = find.encode_many(texts, seed=9)
    nodes, edges, _ = evidence(find.positions, reports.pairs)
    grams = find.strings.grams
    first, second = ([grams[at] for at in side] for side in nodes)
    assert {"ab", "bc", "ca"} <= set(first)
    together = [(first.index(a), second.index(b)) for a, b in (("ab", "ba"), ("bc", "ab"))]
    apart = [(first.index(a), second.index(b)) for a, b in (("ab", "ab"), ("bc", "cb"))]
    assert min(edges[0, 1][at] for at in together) > 6
    assert max(abs(edges[0, 1][at]) for at in apart) < 5


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"length": 5}, "length must be 2 to 16 times ngram"),
        ({"length": 2}, "length must be 2 to 16 times ngram"),
        ({"alphabet": "aa"}, "alphabet must be text of different letters"),
        ({"alphabet": ""}, "alphabet must be text of different letters"),
        ({"alphabet": "a" + PADDING}, "must not contain the marks"),
        ({"ngram": 4, "length": 8}, "ngram must leave at most 65536"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"whole_share": 1}, "whole_share must be"),
    ],
)
def test_wrong_parameters_are_refused_by_name(wrong, why):
    with pytest.raises(ValueError, match=why):
        NGramDiscovery(**{"epsilon": 1.0, **wrong})
