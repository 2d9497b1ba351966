"""What a client's secret gives by hashlib and hmac alone: its cohort, streams and hashed cells."""

import hashlib
import hmac
from itertools import count

FULL = 2**32


def _mac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def _words(block):
    """The big-endian words of block 0, 1 and on."""
    for t in count():
        digest = block(t.to_bytes(4, "big"))
        yield from (int.from_bytes(digest[i : i + 4], "big") for i in range(0, 32, 4))


def _below(words, limit):
    return next(word % limit for word in words if word < FULL - FULL % limit)


def client_key(scheme, secret):
    return _mac(secret, b"sfumato/client/1\0" + scheme.line().encode())


def cohort(scheme, secret):
    key = client_key(scheme, secret)
    return _below(_words(lambda t: _mac(key, b"cohort" + t)), scheme.cohorts)


def permanent_words(scheme, secret, value):
    key = client_key(scheme, secret)
    return _words(lambda t: _mac(key, b"permanent" + t + value.encode()))


def hashed_cell(value, at, cells):
    def block(t):
        head = b"sfumato/bloom/1\0" + at.to_bytes(4, "big") + t
        return hashlib.sha256(head + value.encode()).digest()

    return _below(_words(block), cells)
