"""Shingles are the windows of the normalised text, hashed as any text is."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.core.hashing import hash_column
from sfumato.mine.similar import ShingleSets, shingles
from sfumato.mine.similar.shingling import BLOCK

TEXTS = [
    "abcab",
    "été à la plage",
    "12345 12345",
    "",
    "a",
    "日本語テキスト処理",
    "😀😀abc😀",
    "the same, the same",
]


def sets(found):
    return [set(found.hashes[a:b].tolist()) for a, b in zip(*_ends(found), strict=True)]


def _ends(found):
    return found.offsets[:-1], found.offsets[1:]


def hashed(*texts, seed=0):
    return set(hash_column(list(texts), seed).tolist()) if texts else set()


def windows(text, k):
    return [text[i : i + k] for i in range(max(len(text) - k + 1, 1))] if text else []


@pytest.mark.parametrize("k", [1, 2, 3, 9, 40])
def test_character_shingles_are_all_windows_of_code_points(k):
    expected = [hashed(*windows(text, k), seed=7) for text in TEXTS]
    assert sets(shingles(TEXTS, k, normalise=(), seed=7)) == expected


@pytest.mark.parametrize("k", [1, 2, 3, 9])
def test_word_shingles_are_all_windows_of_words(k):
    expected = []
    for text in TEXTS:
        words = text.split()
        runs = [" ".join(words[i : i + k]) for i in range(max(len(words) - k + 1, 1))]
        expected.append(hashed(*runs) if words else set())
    assert sets(shingles(TEXTS, k, "words", normalise=())) == expected


def test_the_examples_of_the_course():
    abcab, abab, d1, d2 = sets(shingles(["abcab", "abab", "abc", "bca"], 2))
    assert abcab == hashed("ab", "bc", "ca")
    assert abab == hashed("ab", "ba")  # the course prints {ab, bc, ca} for this one
    assert (len(d1 & d2), len(d1 | d2)) == (1, 3)
    long = "".join(np.random.default_rng(0).choice(list("abcdefghijklmnopqrstuvwxyz"), 10_000))
    found = shingles([long], 5, bits=32)
    assert found.hashes.dtype == np.uint32
    assert 39_000 < found.hashes.nbytes <= 4 * 9_996  # about 40 KB


def test_one_edit_changes_at_most_k_shingles():
    draws = np.random.default_rng(1)
    for k in (2, 5):
        for _ in range(30):
            text = "".join(draws.choice(list("abcd"), 60))
            at = draws.integers(60)
            edited = text[:at] + "x" + text[at + 1 :]
            before, after = sets(shingles([text, edited], k))
            assert len(before) <= 60 - k + 1
            assert len(before - after) <= k
            assert len(after - before) <= k


@pytest.mark.parametrize(
    ("normalise", "text", "plain"),
    [
        (("case",), "Ça VA, Ö", "ça va, ö"),
        (("punctuation",), "don't: it\u2019s a “test”—ok", "dont  its a  test  ok"),
        (("space",), " a\t\nb\u00a0c\u200bd  ", "a b cd"),
        (("unicode",), "e\u0301 ﬁ", "é fi"),
        (("case", "punctuation", "space", "unicode"), "  DON'T…  Stop!! ", "dont stop"),
        (("case",), "İ ẞ Ⱥ", "İ ß ⱥ"),  # a lower case of two characters is left alone
        ((), " As It  Is ", " As It  Is "),
    ],
)
def test_normalisation_removes_what_it_names(normalise, text, plain):
    assert sets(shingles([text], 100, normalise=normalise)) == [hashed(plain)]


def test_stop_word_shingles_start_with_a_stop_word():
    text = "The cat sat on the mat. Buy now!"
    found = shingles([text], 3, "words", stop_words=["the", "ON", "now"])
    assert sets(found) == [hashed("the cat sat", "on the mat", "the mat buy")]
    short, none = sets(shingles(["cat", "cats sat here"], 3, "words", stop_words=["the"]))
    assert short == hashed("cat")  # shorter than a shingle: the whole text
    assert none == set()


def test_sets_are_sorted_and_without_repeats():
    found = shingles(["abcabcabc" * 50, "z" * 500], 3)
    assert found.sizes.tolist() == [3, 1]
    assert (np.diff(found.hashes[:3].astype(object)) > 0).all()


def test_32_bits_are_the_low_bits():
    wide, narrow = shingles(TEXTS, 2), shingles(TEXTS, 2, bits=32)
    low = [{value & 0xFFFFFFFF for value in each} for each in sets(wide)]
    assert sets(narrow) == low


@pytest.mark.parametrize(
    "column",
    [
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, object),
        pa.array(TEXTS),
        pa.array(["x", *TEXTS]).slice(1),
        pa.chunked_array([TEXTS[:3], TEXTS[3:]]),
        pa.array(TEXTS, pa.string_view()),
        pa.array(TEXTS).dictionary_encode(),
        [text.encode() for text in TEXTS],
        pd.Series(TEXTS),
        pl.Series(TEXTS),
        (text for text in TEXTS),
    ],
    ids=lambda column: type(column).__name__,
)
def test_every_container_gives_the_same_sets(column):
    expected = shingles(TEXTS, 3)
    found = shingles(column, 3)
    np.testing.assert_array_equal(found.hashes, expected.hashes)
    np.testing.assert_array_equal(found.offsets, expected.offsets)


def test_long_columns_are_read_in_blocks():
    texts = ["short", "x" * (BLOCK + 5), "", "abc " * (BLOCK // 8), "short"]
    found = shingles(texts, 4)
    assert sets(found) == [sets(shingles([text], 4))[0] for text in texts]


def test_missing_texts_have_no_shingles():
    column = pd.Series(["abc", None, np.nan, pd.NA], dtype=object)
    assert shingles(column, 2).sizes.tolist() == [2, 0, 0, 0]
    assert shingles([None], 2).sizes.tolist() == [0]
    assert len(shingles([], 2)) == 0


@pytest.mark.parametrize(
    ("texts", "error", "says"),
    [
        (["ok", 7], TypeError, "int at row 1"),
        ([b"ok", b"fine", b"\xff\xfe"], ValueError, r"row 2 is not. Decode"),
        (pa.array([b"\xc3"]), ValueError, "row 0"),
        ("one text", TypeError, "put a single text in a list"),
        (7, TypeError, "column of texts"),
        (pa.array([1.5]), TypeError, "double at row 0"),
        (pa.table({"a": ["x"]}), TypeError, "name the column"),
        (["\ud800"], ValueError, "surrogate"),
        ([["nested"]], TypeError, "list at row 0"),
    ],
)
def test_other_columns_are_refused(texts, error, says):
    with pytest.raises(error, match=says):
        shingles(texts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"k": 2.5},
        {"unit": "lines"},
        {"normalise": "case"},
        {"normalise": ["accents"]},
        {"stop_words": ["the"]},
        {"unit": "words", "stop_words": "the"},
        {"unit": "words", "stop_words": [1]},
        {"bits": 16},
        {"seed": -1},
    ],
)
def test_wrong_parameters_are_refused_by_name(wrong):
    with pytest.raises(ValueError, match=rf"^shingles: .*{list(wrong)[-1]}"):
        shingles(["text"], **wrong)


def test_sets_of_ones_own_are_checked():
    with pytest.raises(TypeError, match="hash_column"):
        ShingleSets([0, 1], [1.5])
    with pytest.raises(ValueError, match="from 0 to the 2 hashes"):
        ShingleSets([0, 1], np.array([1, 2], np.uint64))
    assert repr(ShingleSets([0, 1], np.array([1], np.uint32))) == (
        "ShingleSets(documents=1, hashes=1)"
    )
