"""Telemetry and classification one call at a time: a report, a table of candidates, one row."""

import hmac
import random

import numpy as np
from _calls import call_row

from sfumato.density import SketchClassifier
from sfumato.telemetry import Counts, LocalHashing, Rappor, ReportEncoder, decode

SECRET = bytes(range(16))
BITS, COHORTS, HASHES, FLIP, P, Q = 64, 64, 2, 16_384, 16_384, 49_152  # of 65,536
WORDS = 43


def rows():
    return [_one_report(), _few_candidates(), _many_candidates(), *_classifier()]


def _one_report():
    scheme = Rappor(bits=BITS, cohorts=COHORTS, hashes=HASHES, f=0.5, p=0.25, q=0.75, metric="m")
    client = ReportEncoder(scheme, secret=SECRET)
    peers = {"plain Python, HMAC": lambda: _plain_report, "pure-ldp, unary": _pure_ldp}
    return call_row("encode one report, 64 bits", lambda: client.encode("tea"), 40, peers)


def _plain_report():
    """The same work by the standard library alone, for a client that keeps its cohort."""
    keys = b"".join(
        hmac.digest(SECRET, b"permanent" + bytes([block]) + b"tea", "sha256")
        for block in range(BITS // 16)
    )
    cells = int.from_bytes(hmac.digest(b"cohort", b"tea", "sha256")[: 2 * HASHES], "big")
    own = {cells % BITS, (cells >> 16) % BITS}
    draw, report = random.SystemRandom().getrandbits(16 * BITS), 0
    for bit in range(BITS):
        permanent = (bit in own) ^ (int.from_bytes(keys[2 * bit : 2 * bit + 2], "big") < FLIP)
        report |= ((draw >> 16 * bit & 65_535) < (Q if permanent else P)) << bit
    return report


def _pure_ldp():
    from pure_ldp.frequency_oracles.unary_encoding import UEClient

    client = UEClient(epsilon=2, d=BITS, use_oue=True)
    return lambda: client.privatise(7)


def _few_candidates():
    scheme = Rappor(bits=64, cohorts=64, f=0.5, p=0.25, q=0.75, metric="m")
    words = [f"w{number}" for number in range(WORDS)]
    drawn = np.random.default_rng(0).zipf(1.5, 100_000) % WORDS
    reports = ReportEncoder(scheme, seed=1).encode_many([words[number] for number in drawn])
    counts = Counts(scheme).update(reports)
    return call_row(f"decode {WORDS} candidates", lambda: decode(counts, words), 900_000, runs=3)


def _many_candidates():
    scheme = LocalHashing(epsilon=2)
    drawn = np.random.default_rng(0).zipf(1.3, 200_000) % 100_000
    reports = ReportEncoder(scheme, seed=1).encode_many([f"w{number}" for number in drawn])
    counts = Counts(scheme).update(reports)
    words = [f"w{number}" for number in range(50_000)]
    name = "decode 50,000 candidates of local hashing"
    return call_row(name, lambda: decode(counts, words), 10_000_000, runs=1)


def _classifier():
    random_numbers = np.random.default_rng(0)
    points = random_numbers.standard_normal((200_000, 40))
    labels = points[:, :5].sum(axis=1) + random_numbers.standard_normal(len(points)) > 0
    model = SketchClassifier().fit(points, labels)

    def bayes(call):
        from sklearn.naive_bayes import GaussianNB

        fitted = GaussianNB().fit(points, labels)
        return lambda: call(fitted)

    def fit(estimator):
        return estimator.fit(points, labels)

    def predict(estimator):
        return estimator.predict(points[:1])

    return [
        call_row(
            "classifier: fit 200,000 x 40",
            lambda: fit(SketchClassifier()),
            None,
            {"GaussianNB": lambda: bayes(fit)},
            runs=3,
        ),
        call_row(
            "classifier: predict one row",
            lambda: predict(model),
            100,
            {"GaussianNB": lambda: bayes(predict)},
        ),
    ]
