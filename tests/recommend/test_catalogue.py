"""Known ids stand where a catalogue says, also where keys of texts collide."""

import numpy as np
import pytest

from sfumato.recommend import Catalogue, catalogue
from sfumato.recommend.catalogue import SortedCatalogue

RNG = np.random.default_rng(3)
NUMBERS = RNG.choice(10**6, 500, replace=False) - 500_000
WORDS = np.array([f"é{number}" for number in NUMBERS], object)


@pytest.mark.parametrize("ids", [NUMBERS, WORDS, NUMBERS[:1], WORDS[:1]])
def test_places_are_those_of_a_catalogue(ids):
    wanted = np.concatenate([ids, ids[::-1], ids[:0]])
    unknown = [10**9, -(10**9)] if ids.dtype == np.int64 else ["", "zz"]
    wanted = np.concatenate([wanted, np.array(unknown, ids.dtype)])
    np.testing.assert_array_equal(
        SortedCatalogue(ids).positions(wanted), Catalogue(ids).positions(wanted)
    )
    assert SortedCatalogue(ids).positions(wanted[:0]).size == 0


def test_ids_of_another_kind_stand_nowhere():
    assert SortedCatalogue([1, 2]).positions(["1", "2"]).tolist() == [-1, -1]
    assert SortedCatalogue(["1", "2"]).positions([1, 2]).tolist() == [-1, -1]


def test_texts_of_one_key_get_another_seed(monkeypatch):
    usual = catalogue.hash_column
    few = lambda ids, seed: usual(ids, seed) % np.uint64(9 if seed < 2 else 2**60)  # noqa: E731
    monkeypatch.setattr(catalogue, "hash_column", few)
    known = SortedCatalogue(WORDS)
    np.testing.assert_array_equal(known.positions(WORDS), np.arange(500))
    assert known._sorted[0] == 2
