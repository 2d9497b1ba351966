"""Prefix discovery: frequent strings grow letter by letter, and few come out that nobody has."""

import json

import numpy as np
import pytest

from sfumato.telemetry import Counts, LocalHashing, PrefixDiscovery, ReportEncoder
from sfumato.telemetry.discovery.screening import OTHER, PADDING, extended, scores

LETTERS = "abcdefghijkl"


def hidden(count, seed):
    """A dictionary of random strings, and how often each comes, as in a text."""
    rng = np.random.default_rng(seed)
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choice(list(LETTERS), rng.integers(2, 6)))] = None
    frequencies = 1 / np.arange(1, count + 1)
    return list(words), frequencies / frequencies.sum()


def test_heavy_strings_of_a_hidden_dictionary_are_found_and_hardly_any_absent_one():
    # A count of 2.5 % is 10 standard errors in every group, so each of the 8 heaviest is missed
    # with p < 1e-8; false ones have the mean 0.05 of those found.
    words, frequencies = hidden(200, 1)
    counts = np.random.default_rng(2).multinomial(150_000, frequencies)
    find = PrefixDiscovery(epsilon=3, length=5, alphabet=LETTERS)
    found = find.find(find.encode_many(np.repeat(words, counts), seed=3))
    assert set(words[:8]) <= set(found.value)
    assert sum(value not in words for value in found.value) <= 3
    known = [at for at, value in enumerate(found.value) if value in words]
    true = np.array([counts[words.index(found.value[at])] for at in known])
    assert np.all(np.abs(found.estimate[known] - true) < 5 * found.std_error[known])
    assert np.all(np.diff(found.estimate) <= 0)


def test_the_level_is_met_though_prefixes_were_chosen_for_their_noise():
    # One string of many clients, and 7**4 that a few have at most, so all others are false: a run
    # finds one with p about 0.1, so more than 3 in all four have p < 0.01.
    find = PrefixDiscovery(epsilon=1, length=4, alphabet=LETTERS[:7])
    rng, invalid = np.random.default_rng(4), 0
    for seed in range(4):
        texts = ["".join(row) for row in rng.choice(list(LETTERS[:7]), (5000, 4))]
        found = find.find(find.encode_many(texts + ["gabe"] * 5000, seed=seed))
        assert "gabe" in found.value
        invalid += len(found) - 1
        assert json.loads(found.to_json())["reports"] == 10_000
    assert invalid <= 3


def test_a_limit_is_respected_and_noted():
    find = PrefixDiscovery(epsilon=3, length=4, alphabet="abcdefgh")
    texts = ["abcd", "efgh", "cdef", "ghab", "hgfe"] * 3000
    found = find.find(find.encode_many(texts, seed=1), limit=2)
    assert found.candidates <= 2 * 10
    assert set(found.value) <= set(texts)
    assert any("prefixes of 3 letters, the rarest, were left out" in note for note in found.notes)


def test_what_a_client_does_depends_on_its_secret_alone():
    find = PrefixDiscovery(epsilon=2, length=4, alphabet=LETTERS, whole_share=0.25)
    secrets = np.random.default_rng(7).integers(0, 256, (3000, 16)).astype(np.uint8)
    one, two, again = (
        find.encode_many([text] * 3000, secrets=secrets) for text in ("abab", "bbb", "abab")
    )
    assert len(one) == 3000
    assert 650 < len(one.groups[-1]) < 850  # mean 750, standard deviation 24
    for first, second, third in zip(one.groups, two.groups, again.groups, strict=True):
        assert np.array_equal(first.cohorts, second.cohorts)
        assert np.array_equal(first.payload, third.payload)
        assert len(first) > 0
    assert len(find.encode("abab", bytes(secrets[0]))) == 1


def test_a_client_sends_one_report_at_the_full_epsilon():
    find = PrefixDiscovery(epsilon=3, metric="home page")
    assert find.lengths == [3, 4, 5, 6]
    assert max(scheme.epsilon_permanent for scheme in find.schemes) <= find.statement().epsilon <= 3
    assert len({scheme.fingerprint for scheme in find.schemes}) == 4
    reports = find.encode_many(["tea", "milk"] * 50, seed=1)
    assert len(reports) == sum(map(len, reports.groups)) == 100


def test_prefixes_grow_by_every_letter_and_end_at_padding():
    assert extended(["a", PADDING], "ab", 1) == [
        *("a" + letter for letter in ("a", "b", OTHER, PADDING)),
        2 * PADDING,
    ]
    every = extended([""], "ab", 3)
    assert len(every) == len(set(every)) == 3**3 + 3**2 + 3 + 1


def test_strings_that_stand_out_do_not_lift_those_that_share_their_cells():
    # 64 cohorts of 8 cells: an absent string has about 8 cells in common with each of three
    # heavy ones; without these they vary by noise alone: 2000 scores have the deviation 1 +- 0.016.
    scheme = LocalHashing(4, cohorts=64, cells=8)
    texts = ["tea", "milk", "rum"] * 10_000
    counts = Counts(scheme).update(ReportEncoder(scheme, seed=1).encode_many(texts))
    names = [f"absent {at}" for at in range(2000)]
    found = scores(counts, ["tea", "milk", "rum", *names])
    assert found[:3].min() > 40
    assert abs(found[3:].mean()) < 0.1
    assert found[3:].std() == pytest.approx(1, abs=0.15)
    assert np.array_equal(scores(counts, []), np.empty(0))


@pytest.mark.parametrize(
    ("invalid", "why"),
    [
        ({"length": 1}, "length must be"),
        ({"alphabet": "aa"}, "alphabet must be text of different letters"),
        ({"alphabet": "a" + PADDING}, "must not contain the marks"),
        ({"epsilon": 0}, "epsilon must be"),
        ({"whole_share": 1}, "whole_share must be"),
    ],
)
def test_invalid_parameters_are_refused_by_name(invalid, why):
    with pytest.raises(ValueError, match=why):
        PrefixDiscovery(**{"epsilon": 1.0, **invalid})
