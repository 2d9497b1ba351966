"""Subset selection: a fixed number of cells, chosen without bias from the client's stream."""

import numpy as np
import pytest
from scipy import stats

from sfumato.telemetry import Counts, ReportEncoder, SubsetSelection
from sfumato.telemetry.keyed_randomness import ClientKeys, KeyedStream
from sfumato.telemetry.schemes import subset_selection
from sfumato.telemetry.schemes.base import read_scheme
from support.reference_client import cohort, hashed_cell, permanent_words
from support.report_distributions import FixedStream

FULL = 2**32


def floyd(own, included, chosen, cells, words):
    """Floyd's algorithm in sets, going on with fresh words while one would favour some cells."""
    others = [cell for cell in range(cells) if cell != own]
    draws = chosen - included
    while True:
        block, found = [next(words) for _ in range(chosen)], set()
        limits = range(len(others) - draws + 1, len(others) + 1)
        pairs = list(zip(block, limits, strict=False))
        if any(word >= FULL - FULL % limit for word, limit in pairs):
            continue
        for word, limit in pairs:
            found.add(limit - 1 if word % limit in found else word % limit)
        return sorted([others[i] for i in found] + [own] * included)


def cells_of(payload):
    return np.flatnonzero(np.unpackbits(payload, bitorder="little")).tolist()


@pytest.mark.parametrize("hashed", [False, True])
def test_the_report_of_a_secret_follows_from_hashlib_and_hmac_alone(hashed):
    names = [f"word {i}" for i in range(30)]
    known = {"cells": 30, "cohorts": 4} if hashed else {"categories": names}
    scheme = SubsetSelection(1.2, **known, metric="drink")
    for secret in (bytes([i]) * 16 for i in range(40)):
        report = ReportEncoder(scheme, secret=secret).encode("word 7")
        at = cohort(scheme, secret)
        own = hashed_cell("word 7", at, 30) if hashed else 7
        words = permanent_words(scheme, secret, "word 7")
        included = next(words) < scheme.own_words
        assert report.cohorts.tolist() == [at]
        assert cells_of(report.payload[0]) == floyd(own, included, scheme.chosen, 30, words)


def test_a_row_with_a_biased_word_goes_on_with_the_next_words():
    scheme = SubsetSelection(1.0, [str(i) for i in range(7)], chosen=2)
    top = FULL - 1  # refused for the limits 5 and 6 of the two draws
    table = [
        [top, top, 0, 3, 4, 9, 9],
        [top, 1, top, top, 0, 0, 0],
        [top, 2, 2, top, top, top, top],
    ]
    answers = scheme.respond(FixedStream(table), np.full((3, 1), 6, np.int32))
    assert [cells_of(row) for row in answers] == [[3, 4], [0, 5], [2, 5]]


class Watched(KeyedStream):
    """A client's stream that remembers how many words were read at once."""

    most = 0

    def words(self, rows, start, count):
        self.most = max(self.most, rows.size * count)
        return super().words(rows, start, count)


def test_few_words_are_in_memory_at_a_time_however_many_cells_are_chosen(monkeypatch):
    scheme, secret = SubsetSelection(0.5, cells=200, cohorts=1), np.zeros((1, 16), np.uint8)
    values = scheme.values([f"word {i}" for i in range(300)])
    members = scheme.own_members(values, np.zeros(300, np.int32))
    streams = [Watched(ClientKeys(secret, scheme.line()), values) for _ in range(2)]
    full = scheme.respond(streams[0], members)
    monkeypatch.setattr(subset_selection, "WORDS", 1000)
    assert (scheme.respond(streams[1], members) == full).all()
    assert streams[1].most <= 1000 < streams[0].most


@pytest.mark.parametrize("keyed", [False, True])
def test_drawn_and_derived_reports_have_the_stated_probabilities(keyed):
    # Each cell's count is binomial; the largest of 60 deviations exceeds 6 with probability < 2e-7.
    scheme, rows = SubsetSelection(1.5, cells=20, cohorts=3), 60_000
    secrets = np.random.default_rng(6).integers(0, 256, (rows, 16), dtype=np.uint8)
    sent = ReportEncoder(scheme, seed=4).encode_many(["tea"] * rows, secrets if keyed else None)
    assert set(np.unpackbits(sent.payload, axis=1).sum(axis=1).tolist()) == {scheme.chosen}
    counts = Counts(scheme).update(sent)
    probabilities = np.full((3, 20), float(scheme.low))
    probabilities[np.arange(3), scheme.members(["tea"])[0, :, 0]] = float(scheme.high)
    n = counts.reports[:, np.newaxis]
    deviations = (counts.cells - n * probabilities) / np.sqrt(
        n * probabilities * (1 - probabilities)
    )
    assert np.abs(deviations).max() < 6
    assert stats.norm.sf(6) * 2 * 60 < 2e-7


def test_a_count_is_estimated_without_bias_from_its_cell():
    # 30 % of 40,000 values; a deviation beyond 6 standard errors has probability 2e-9 for each.
    scheme = SubsetSelection(1.0, ["tea", "milk"], other=True)
    drinks = np.repeat(["tea", "milk", "rum"], [12_000, 24_000, 4_000])
    counts = Counts(scheme).update(ReportEncoder(scheme, seed=1).encode_many(drinks))
    high, low = float(scheme.high), float(scheme.low)
    estimates = (counts.cells[0] - 40_000 * low) / (high - low)
    error = np.sqrt(40_000 * 0.25) / (high - low)  # a cell's variance is at most a quarter
    assert np.abs(estimates - [12_000, 24_000, 4_000]).max() < 6 * error


def test_values_that_are_no_category_are_one_value_with_one_response():
    scheme = SubsetSelection(1.0, [str(i) for i in range(40)], other=True)
    assert scheme.members(["gin", "3", "rum", "(other)"]).ravel().tolist() == [40, 3, 40, 40]
    client = ReportEncoder(scheme, secret=bytes(16))
    sent = client.encode_many(["gin", "rum", "(other)"]).payload
    assert (sent == sent[0]).all()
    assert scheme.domain == [*scheme.categories, "(other)"]


def test_a_value_that_is_no_category_is_refused_by_its_row_and_not_shown():
    scheme = SubsetSelection(1.0, ["tea", "milk"])
    with pytest.raises(
        ValueError, match="row 1 of the values is none of the 2 categories"
    ) as result:
        scheme.members(["tea", "secret drink", "milk"])
    assert "secret drink" not in str(result.value)


def test_parameters_come_back_from_json_and_are_named_by_all_that_matters():
    known = SubsetSelection(2, ["tea", "mílk"], other=True, metric="drink")
    hashed = SubsetSelection(2, cells=32, cohorts=9)
    assert read_scheme(known.to_json()) == known
    assert read_scheme(hashed.to_json()) == hashed
    others = [
        SubsetSelection(2, ["tea", "mílk"], metric="drink"),
        SubsetSelection(2, ["tea", "milk"], other=True, metric="drink"),
        SubsetSelection(2, ["tea", "mílk"], other=True),
        SubsetSelection(2.01, ["tea", "mílk"], other=True, metric="drink"),
        SubsetSelection(2, cells=32, cohorts=9, chosen=5),
    ]
    assert len({each.fingerprint for each in [known, hashed, *others]}) == 7


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        ({"categories": ["a"]}, "categories must be 2 to 65536"),
        ({"categories": ["a", "a"]}, "categories must"),
        ({"categories": "ab"}, "categories must"),
        ({"categories": ["a", "b"], "cells": 3}, "cells must be 2 with these categories"),
        ({"categories": ["a", "b"], "cohorts": 2}, "cohorts must be 1 with these categories"),
        ({"categories": ["a", "(other)"], "other": True}, "must not contain"),
        ({"categories": ["a", "b"], "other": 1}, "other must be True or False"),
        ({"cells": 4, "chosen": 4}, "chosen must be below the number of cells, 4"),
        ({"other": True}, "other needs categories"),
    ],
)
def test_bad_parameters_are_refused_with_what_would_be_right(invalid, message):
    with pytest.raises(ValueError, match=f"SubsetSelection: .*{message}"):
        SubsetSelection(1.0, **invalid)


def test_limits_hold():
    for name, limit in SubsetSelection.LIMITS.items():
        for bad in limit.bad():
            with pytest.raises(ValueError, match=f"SubsetSelection: {name} must be"):
                SubsetSelection(**{"epsilon": 1.0, name: bad})


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-12])
def test_an_epsilon_of_nearly_nothing_is_refused_in_a_sentence(epsilon):
    with pytest.raises(ValueError, match="epsilon must be larger"):
        SubsetSelection(epsilon=epsilon, cells=12)
