"""The published client: its Bloom bits, its permanent responses, and epsilon of the f that runs."""

import hashlib
import hmac
import math
from fractions import Fraction

import numpy as np
import pytest

from sfumato.telemetry import Counts, GoogleRappor, Rappor, ReportEncoder
from sfumato.telemetry.schemes.base import read_scheme


def theirs(secret, cohort, word, bits, hashes, f):
    """Bloom filter and permanent response as integers, straight from the description."""
    digest = hashlib.md5(cohort.to_bytes(4, "big") + word).digest()
    bloom = 0
    for byte in digest[:hashes]:
        bloom |= 1 << byte % bits
    noise = hmac.new(secret, bloom.to_bytes(4, "big"), hashlib.sha256).digest()
    permanent = 0
    for i in range(bits):
        replaced = noise[i] >> 1 < f * 128
        permanent |= (noise[i] & 1 if replaced else bloom >> i & 1) << i
    return bloom, permanent


def number(payload):
    return int.from_bytes(payload.tobytes(), "little")


def test_the_published_vector_comes_out():
    # rappor_test.py: "abc" in cohort 0 with the secret "secret", k=16, h=2, f=1/2, p=1/2, q=3/4;
    # random numbers 0, 0.6, 0, 0, 0.6, ... instead of fresh ones give the report 64493.
    scheme = GoogleRappor(16, 2, 64, f=0.5, p=0.5, q=0.75)
    permanent = number(scheme.permanent(b"secret", 0, ["abc"])[0])
    draws = [0.0, 0.6, 0.0] * 6
    report = sum((draws[i] < (0.75 if permanent >> i & 1 else 0.5)) << i for i in range(16))
    assert report == 64493


def test_the_published_map_rows_come_out():
    # hash_candidates_test.py, one-based through all cohorts; apple hits one bit twice in cohort 1.
    scheme = GoogleRappor(16, 2, 4, f=0.5)
    cells = scheme.hashed(["apple", "banana", "carrot"])
    assert (cells + 1 + 16 * np.arange(4)[:, None]).reshape(3, 8).tolist() == [
        [5, 1, 26, 26, 38, 34, 63, 62],
        [12, 14, 28, 24, 37, 34, 62, 49],
        [4, 12, 25, 21, 48, 38, 61, 54],
    ]
    assert scheme.members(["apple"])[0, 1].tolist() == [9, -1]


@pytest.mark.parametrize(
    ("bits", "hashes", "f"), [(16, 2, 0.5), (32, 16, 0.3), (5, 3, 0.01), (8, 1, 0.0), (1, 2, 0.9)]
)
def test_permanent_responses_are_those_of_hashlib_and_hmac(bits, hashes, f):
    scheme = GoogleRappor(bits, hashes, 300, f=f)
    words = [f"word {'x' * i}" for i in range(100)] + ["word "]
    draw = np.random.default_rng(1)
    cohorts = draw.integers(0, 300, 101)
    secrets = draw.integers(0, 256, (101, 70), np.uint8)  # longer than a block of SHA-256
    many, one = scheme.permanent(secrets, cohorts, words), scheme.permanent(b"key", 7, words)
    for i, word in enumerate(words):
        want = theirs(secrets[i].tobytes(), int(cohorts[i]), word.encode(), bits, hashes, f)
        assert number(many[i]) == want[1]
        assert number(one[i]) == theirs(b"key", 7, word.encode(), bits, hashes, f)[1]
    own = scheme.own_members(scheme.values(words), cohorts.astype(np.int32))
    assert [sum(1 << c for c in row if c >= 0) for row in own.tolist()] == [
        theirs(b"", int(c), w.encode(), bits, hashes, f)[0]
        for c, w in zip(cohorts, words, strict=True)
    ]


@pytest.mark.parametrize("f", [0.0, 0.01, 0.3, 0.5, 0.75, 0.99])
def test_f_is_the_fraction_of_bytes_that_replace_and_epsilon_follows_it(f):
    scheme = GoogleRappor(16, 2, 64, f=f, p=0.25, q=0.75)
    fraction = Fraction(sum(byte >> 1 < f * 128 for byte in range(256)), 256)
    assert scheme.f_runs == fraction >= f
    flip = float(fraction) / 2
    want = 4 * math.log((1 - flip) / flip) if flip else math.inf
    assert scheme.epsilon_permanent == pytest.approx(want)
    high = 0.75 * (1 - flip) + 0.25 * flip
    low = 0.75 * flip + 0.25 * (1 - flip)
    assert [float(scheme.high), float(scheme.low)] == pytest.approx([high, low])
    one = 2 * math.log(high * (1 - low) / (low * (1 - high)))
    assert scheme.epsilon_one == pytest.approx(one)


def test_simulated_reports_mark_with_the_stated_probabilities():
    # 60,000 reports x 16 cells: fractions have a standard error below 0.0015, 6 are below 0.009.
    scheme = GoogleRappor(16, 2, 8, f=0.3, p=0.25, q=0.75)
    counts = Counts(scheme).update(ReportEncoder(scheme, seed=1).encode_many(["tea"] * 60_000))
    fractions = counts.cells / counts.reports[:, None]
    own = np.zeros((8, 16), bool)
    for cohort, cells in enumerate(scheme.members(["tea"])[0]):
        own[cohort, cells[cells >= 0]] = True
    assert abs(fractions[own].mean() - float(scheme.high)) < 0.009
    assert abs(fractions[~own].mean() - float(scheme.low)) < 0.009


def test_parameters_come_back_from_json_and_are_no_others():
    scheme = GoogleRappor(16, 2, 4, f=0.3, p=0.5, q=0.75, metric="home page")
    assert read_scheme(scheme.to_json()) == scheme
    others = [GoogleRappor(16, 2, 4, f=0.3, p=0.5, q=0.75), Rappor(16, 2, 4, f=0.3, p=0.5, q=0.75)]
    assert len({scheme.fingerprint, *(other.fingerprint for other in others)}) == 3
    assert "secret of its own" in scheme.statement().covers
    assert GoogleRappor(16, 2, 4, f=0).statement().startswith("NOT PRIVATE")


@pytest.mark.parametrize(
    "invalid",
    [
        *({"bits": 33}, {"bits": 0}, {"hashes": 17}, {"cohorts": 0}, {"f": 1}, {"f": 0.995}),
        *({"p": 0.75, "q": 0.75}, {"p": -1.0}, {"q": 2.0}, {"f": "much"}),
    ],
)
def test_what_the_published_client_cannot_do_is_refused_by_name(invalid):
    name = next(iter(invalid))
    with pytest.raises(ValueError, match=f"GoogleRappor: {name} must be"):
        GoogleRappor(**{"f": 0.5} | invalid)


def test_f_may_be_all_but_the_last_step():
    assert GoogleRappor(f=127 / 128).f_runs == Fraction(127, 128)


def test_no_rows_have_no_permanent_responses():
    assert GoogleRappor(16, 2, 4, f=0.5).permanent(b"secret", [], []).shape == (0, 2)


def test_secrets_and_cohorts_that_do_not_fit_are_refused():
    scheme = GoogleRappor(16, 2, 4, f=0.5)
    for secrets in (b"", "secret", np.zeros((2, 16), np.uint8), np.zeros((1, 16)), None):
        with pytest.raises(ValueError, match="secrets"):
            scheme.permanent(secrets, 0, ["tea"])
    for cohorts in (4, -1, 2**32, 1.5, "1", [1, 1], np.array([2**32]), None):
        with pytest.raises(ValueError, match="cohorts"):
            scheme.permanent(b"secret", cohorts, ["tea"])
