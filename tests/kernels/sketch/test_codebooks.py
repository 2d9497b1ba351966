"""Entries of keys have the promised distribution and the same bits everywhere."""

import hashlib

import numpy as np
import pytest
from scipy import linalg, stats

from sfumato.core.hashing import hash_column
from sfumato.kernels.hash import GOLDEN
from sfumato.kernels.sketch import codes as codebooks

HASHES = hash_column(range(2000), seed=7)


def entries(kind, hashes=HASHES, count=64):
    """The codebook as a matrix, one key a row."""
    out = np.empty((count // 16, hashes.size, 16))
    getattr(codebooks, kind)(hashes, out)
    return out.transpose(1, 0, 2).reshape(hashes.size, count)


def words(hashes, count):
    """The words behind the entries, in NumPy."""
    z = hashes[:, None] + np.arange(1, count + 1, dtype=np.uint64) * GOLDEN
    for shift, factor in ((27, 0x3C79AC492BA7B653), (33, 0x1C69B3F74AC4AE35)):
        z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
    return z ^ (z >> np.uint64(27))


def halves(hashes, count):
    """The two uniform numbers of each word."""
    word = words(hashes, count)
    low, high = word & np.uint64(2**32 - 1), word >> np.uint64(32)
    return [(half.astype(np.float64) + 0.5) / 2**32 for half in (high, low)]


def in_panels(first, second):
    """Pairs of entries as they lie in panels: eight firsts, then eight seconds."""
    count = first.shape[1] // 8
    parts = [half.reshape(-1, count, 8) for half in (first, second)]
    return np.concatenate(parts, axis=2).reshape(len(first), -1)


def test_gaussian_entries_are_those_of_box_and_muller():
    u, v = halves(HASHES, 32)
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * v
    want = in_panels(radius * np.cos(angle), radius * np.sin(angle))
    # Near radius 0 the logarithm itself has lost digits: 1e-16 / 2**-32 in the square.
    np.testing.assert_allclose(entries("gaussian"), want, rtol=1e-8, atol=1e-12)


def test_cauchy_entries_are_slopes():
    u, v = halves(HASHES, 32)
    want = in_panels(np.tan(2 * np.pi * u), np.tan(2 * np.pi * v))
    np.testing.assert_allclose(entries("cauchy"), want, rtol=1e-6)


def test_extreme_words_give_finite_entries():
    # Hashes chosen so that the first word is 0, all ones, and each half one or the other.
    extremes = np.array([0, 2**64 - 1, 2**32 - 1, 2**64 - 2**32], np.uint64)
    hashes = unmixed(extremes) - GOLDEN
    np.testing.assert_array_equal(words(hashes, 1)[:, 0], extremes)
    normal = entries("gaussian", hashes, 16)
    assert np.isfinite(normal).all()
    assert 6.7 < np.hypot(normal[0, 0], normal[0, 8]) < 6.8
    assert np.isfinite(entries("cauchy", hashes, 16)).all()


def unmixed(words):
    """What `mix` maps to these words."""
    z = unshifted(words, 27) * np.uint64(pow(0x1C69B3F74AC4AE35, -1, 2**64))
    z = unshifted(z, 33) * np.uint64(pow(0x3C79AC492BA7B653, -1, 2**64))
    return unshifted(z, 27)


def unshifted(z, shift):
    x = z
    for _ in range(3):
        x = z ^ (x >> np.uint64(shift))
    return x


@pytest.mark.parametrize(("kind", "law"), [("gaussian", "norm"), ("cauchy", "cauchy")])
def test_entries_follow_their_law(kind, law):
    # Of 128,000 entries; a true law fails with p = 1e-6.
    assert stats.kstest(entries(kind).ravel(), law).pvalue > 1e-6


def test_sign_and_ternary_entries_have_their_shares():
    # 128,000 entries: each share within 5 standard deviations, p < 1e-6.
    sign, ternary = entries("signs"), entries("ternary")
    assert set(np.unique(sign)) == {-1, 1}
    assert set(np.unique(ternary)) == {-1, 0, 1}
    for found, share in ((sign == 1, 1 / 2), (ternary == 1, 1 / 6), (ternary == -1, 1 / 6)):
        assert abs(found.mean() - share) < 5 * np.sqrt(share * (1 - share) / found.size)


@pytest.mark.parametrize("kind", ["gaussian", "signs", "ternary"])
def test_entries_of_two_dimensions_or_two_keys_are_uncorrelated(kind):
    # The largest of about 2,000 correlations of 2,000 entries each; above 5.5 sd has p < 1e-4.
    across = np.corrcoef(entries(kind), rowvar=False) - np.eye(64)
    assert np.abs(across).max() < 5.5 / np.sqrt(HASHES.size)
    down = np.corrcoef(entries(kind, HASHES[:64], 2000 // 16 * 16)) - np.eye(64)
    assert np.abs(down).max() < 5.5 / np.sqrt(2000 // 16 * 16)


def test_more_dimensions_leave_the_first_entries_as_they_are():
    for kind in ("gaussian", "cauchy", "signs", "ternary"):
        np.testing.assert_array_equal(entries(kind, count=32), entries(kind)[:, :32])


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("gaussian", "a787d3533397df8a"),
        ("cauchy", "9bd06fdfe7f3489e"),
        ("signs", "74f495cf6f42a7dc"),
        ("ternary", "8c02eadc485e291c"),
    ],
)
def test_entries_are_the_same_bits_on_every_machine(kind, digest):
    data = entries(kind).astype("<f8").tobytes()
    assert hashlib.blake2b(data, digest_size=8).hexdigest() == digest


def test_walsh_entries_are_those_of_the_hadamard_matrix():
    rows = np.arange(64, dtype=np.uint64)
    flips = np.where(rows % 3 == 0, -1.0, 1.0)
    columns = np.random.default_rng(1).permutation(64).astype(np.uint64)[:32]
    out = np.empty((2, 64, 16))
    codebooks.walsh(rows, flips, columns, out)
    want = linalg.hadamard(64)[:, columns.astype(int)] * flips[:, None]
    np.testing.assert_array_equal(out.transpose(1, 0, 2).reshape(64, 32), want)
