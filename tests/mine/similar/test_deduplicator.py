"""A stream keeps the first of similar texts, whatever its batches, with or without a filter."""

import numpy as np
import pytest

import sfumato
from sfumato.mine.similar import Deduplicator, ShingleSets, signatures
from sfumato.mine.similar.deduplicator import HASHES


def sets(n=400, size=100, shared=90, seed=0):
    """n sets, and n after them that share so many of their members with one of the first."""
    draws = np.random.default_rng(seed)
    hashes = draws.integers(0, 2**64, (2 * n, size), dtype=np.uint64)
    hashes[n:, :shared] = hashes[:n, :shared]
    return ShingleSets(size * np.arange(2 * n + 1), hashes.reshape(-1))


def by_hand(rows, threshold):
    """Keep each row unless an earlier one that was kept agrees in so many positions."""
    retained, out = [], []
    for row in rows:
        out.append(not any((row == other).mean() >= threshold for other in retained))
        if out[-1]:
            retained.append(row)
    return out


def test_texts_are_kept_as_by_hand():
    # Families of eight that share 86 of 100 members, so that several of one are kept and stand in
    # common buckets. Bands miss a pair at the threshold with p <= 1e-6.
    draws = np.random.default_rng(0)
    hashes = draws.integers(0, 2**64, (8, 40, 100), dtype=np.uint64)
    hashes[:, :, :86] = hashes[0, :, :86]
    given = ShingleSets(100 * np.arange(321), hashes.reshape(-1))
    stream = Deduplicator(0.76, permutations=64, recall=1 - 1e-6)
    expected = by_hand(signatures(given, 64), 0.76)
    assert stream.keep(given).tolist() == expected
    assert 100 < sum(expected) < 250
    assert (stream.retained, stream.dropped) == (sum(expected), 320 - sum(expected))


@pytest.mark.parametrize("memory", [None, 1 << 16])
def test_batches_change_nothing(memory):
    texts = [f"text number {n % 37} of {n % 3} and more words" for n in range(200)]
    whole, parts = Deduplicator(memory=memory), Deduplicator(memory=memory)
    expected = whole.keep(texts)
    found = np.concatenate([parts.keep(texts[at : at + 7]) for at in range(0, 200, 7)])
    np.testing.assert_array_equal(found, expected)
    assert parts == whole
    assert Deduplicator(memory=memory).partial_fit(texts) == whole


@pytest.mark.parametrize("memory", [None, 1 << 20])
def test_equal_texts_are_dropped_and_others_kept(memory):
    given = sets(shared=100)
    found = Deduplicator(memory=memory).keep(given)
    assert found[:400].all()  # chance hits of the filter have p < 1e-8 each at this size
    assert not found[400:].any()


def test_the_filter_drops_by_its_curve():
    # 2,000 pairs of similarity 90 / 110: within 4.5 binomial deviations of the curve (p < 1e-5).
    stream = Deduplicator(0.8, memory=1 << 22)
    found = stream.keep(sets(n=2000))
    expected = float(stream.curve.probability(90 / 110))
    assert 0.3 < expected < 0.9
    assert abs((~found[2000:]).mean() - expected) < 4.5 * np.sqrt(expected * (1 - expected) / 2000)


def test_a_full_filter_states_how_often_it_drops_by_chance():
    # 2,000 sets like no other: the rate was measured before them, so it is a lower bound on their
    # drops, and the one after them an upper one; 4.5 binomial deviations (p < 1e-5).
    stream = Deduplicator(0.8, memory=1 << 13)
    assert stream.false_drop_rate == 0
    stream.keep(sets(n=400, shared=0))
    before = stream.false_drop_rate
    dropped = (~stream.keep(sets(n=1000, shared=0, seed=1))).mean()
    after = stream.false_drop_rate
    slack = 4.5 * np.sqrt(0.25 / 2000)
    assert 0.01 < before < after
    assert before - slack < dropped < after + slack
    assert stream.nbytes == 1 << 13
    assert HASHES == 6


def test_empty_and_missing_texts_are_kept():
    for memory in (None, 4096):
        stream = Deduplicator(memory=memory)
        assert stream.keep(["", None, "...", "a", "A"]).tolist() == [True, True, True, True, False]
        assert stream.keep([]).tolist() == []
        assert stream.retained == 4


@pytest.mark.parametrize("memory", [None, 4096])
def test_files_continue_where_the_stream_was(memory, tmp_path):
    stream = Deduplicator(0.7, k=2, unit="words", stop_words=["the"], memory=memory, seed=5)
    stream.keep(["the cat sat on the mat", "the dog", "the cat sat on the mat now"])
    stream.save(tmp_path / "stream")
    loaded = sfumato.load(tmp_path / "stream")
    assert loaded == stream
    assert loaded.stop_words == ("the",)
    more = ["the cat sat on the mat!", "birds", "the dog"]
    assert loaded.keep(more).tolist() == stream.keep(more).tolist() == [False, True, False]
    assert loaded == stream


def test_a_call_that_raises_changes_nothing():
    stream = Deduplicator().partial_fit(["one", "two"])
    before = stream.to_bytes()
    with pytest.raises(TypeError, match="Deduplicator: texts must be texts, not int at row 1"):
        stream.keep(["three", 4])
    assert stream.to_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0},
        {"threshold": 1.1},
        {"k": 0},
        {"unit": "lines"},
        {"normalise": ["accents"]},
        {"stop_words": ["the"]},
        {"permutations": 0},
        {"recall": 1},
        {"memory": 8},
        {"seed": -1},
    ],
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=f"Deduplicator: {next(iter(wrong))}"):
        Deduplicator(**wrong)


def test_memory_grows_with_what_is_retained_alone():
    stream = Deduplicator()
    first = stream.partial_fit(sets(n=50, shared=0)).nbytes
    for _ in range(5):
        stream.keep(sets(n=50, shared=0))
    assert stream.retained == 100
    assert stream.nbytes <= 4 * first
