"""Bits of releases stay packed: a row is unpacked when it is looked at, and reads the same."""

import tracemalloc

import numpy as np
import pytest

from sfumato.attack import BitChannel, popularity
from sfumato.attack.channels.bloom_bits import PackedRows
from sfumato.data import Interactions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip, Jlt, Minima, Signs
from support.hard_rows import released_to_all

USERS, BITS = 2000, 5000


@pytest.fixture(scope="module")
def observed():
    before = Interactions(np.arange(USERS), np.arange(USERS) % 50, np.ones(USERS))
    return released_to_all(Blip(bits=BITS, epsilon=8), before, source=InsecureSeededSource(1))


@pytest.mark.parametrize("length", [1, 8, 13, 64, 100])
def test_rows_read_as_they_were_given(length):
    bits = np.random.default_rng(length).random((9, length)) < 0.4
    rows = PackedRows.of(bits)
    assert rows.shape == bits.shape
    np.testing.assert_array_equal(rows[2:5], bits[2:5])
    np.testing.assert_array_equal(rows[7], bits[7])
    np.testing.assert_allclose(rows.fractions(), bits.mean(axis=1))


def test_a_channel_of_packed_rows_is_that_of_the_bits(observed):
    packed = np.ascontiguousarray(observed.words[:5]).view(np.uint8)
    bits = np.unpackbits(packed, axis=1, count=BITS, bitorder="little").astype(bool)
    items = np.arange(50)
    plain = BitChannel(bits, observed.positions(items), float(observed.flip_probability))
    made = BitChannel.of_release(observed, items)
    np.testing.assert_array_equal(plain.single(slice(0, 5)), made.single(slice(0, 5)))
    np.testing.assert_array_equal(plain.debiased()[0], made.debiased()[0][:5])


def test_a_channel_to_a_release_takes_no_byte_a_bit(observed):
    # A byte a bit would be 10 MB; the words themselves are 1.25 MB, and they are there already.
    words = observed.words
    tracemalloc.start()
    made = BitChannel.of_release(observed, np.arange(50))
    made.single(slice(0, 16))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert made.users == len(words)
    assert peak < 4e6


@pytest.mark.parametrize("mechanism", [Blip, Jlt, Signs, Minima])
def test_popularity_looks_at_no_row_and_at_no_codeword(mechanism, monkeypatch):
    before = Interactions([1, 1, 2], ["a", "b", "a"], [1, 1, 1])
    observed = released_to_all(mechanism(epsilon=8), before)

    def refuse(*_):
        raise AssertionError("popularity needs only how many users and items there are")

    names = ("words", "vectors", "codes", "positions", "codewords", "places")
    for name in names:
        if hasattr(type(observed), name):
            monkeypatch.setattr(type(observed), name, property(refuse))
    assert popularity(observed, ["a", "b"], [0.5, 0.25]).tolist() == [[0.5, 0.25]] * 2
