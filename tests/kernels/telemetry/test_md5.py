"""MD5 of a cohort and a text: the bytes of hashlib, for every length around a block."""

import hashlib

import numpy as np

from sfumato.kernels.telemetry import md5


def test_first_bytes_are_those_of_hashlib():
    texts = [bytes(range(7, 7 + n % 200)) * (1 + n // 200) for n in range(260)]
    offsets = np.cumsum([0, *map(len, texts)])
    draw = np.random.default_rng(0)
    codes = np.repeat(np.arange(len(texts)), 3)
    cohorts = draw.integers(0, 2**31, codes.size).astype(np.int32)
    out = np.empty((codes.size, 16), np.uint8)
    md5.first_bytes(cohorts, np.frombuffer(b"".join(texts), np.uint8), offsets, codes, out)
    for row, cohort, code in zip(out, cohorts.tolist(), codes, strict=True):
        assert row.tobytes() == hashlib.md5(cohort.to_bytes(4, "big") + texts[code]).digest()
