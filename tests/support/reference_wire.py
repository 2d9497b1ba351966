"""The wire specification of RAPPOR in plain Python, one value at a time, from hashlib and hmac."""

import hashlib
import hmac
import math
import re
import struct

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def numbers16(source):
    """Big-endian 16-bit numbers of bytes."""
    return [high * 256 + low for high, low in zip(source[::2], source[1::2], strict=True)]


def unbiased(block, limit, count):
    """So many different numbers below the limit; block(t) gives 32 bytes."""
    found, t = [], 0
    while len(found) < count:
        for (word,) in struct.iter_unpack(">I", block(t)):
            if word < 2**32 - 2**32 % limit and len(found) < count and word % limit not in found:
                found.append(word % limit)
        t += 1
    return found


class Wire:
    """One client of parameters given as the dictionary of their JSON."""

    def __init__(self, params, secret=b""):
        self.bits, self.hashes = params["bits"], params["hashes"]
        self.cohorts = params["cohorts"]
        self.flip = math.floor(params["f"] * 32768 + 0.5)
        self.p16, self.q16 = (math.floor(params[name] * 65536 + 0.5) for name in "pq")
        self.categories, self.edges = params.get("categories"), params.get("edges")
        self.metric = params["metric"]
        self.key = self.hmac(secret, b"sfumato/client/1\0" + self.line().encode("utf-8"))

    @staticmethod
    def hmac(key, message):
        return hmac.new(key, message, hashlib.sha256).digest()

    def domain(self):
        if self.categories is not None:
            texts = [text.encode("utf-8") for text in self.categories]
            result = b"".join(len(text).to_bytes(4, "big") + text for text in texts)
            return "categories:" + hashlib.sha256(result).hexdigest()
        if self.edges is not None:
            result = b"".join(struct.pack(">d", edge) for edge in self.edges)
            return "edges:" + hashlib.sha256(result).hexdigest()
        return "-"

    def line(self):
        numbers = [self.bits, self.hashes, self.cohorts, self.flip, self.p16, self.q16]
        parts = ["sfumato", "telemetry", "1", "rappor", *map(str, numbers), self.domain()]
        return "/".join([*parts, self.metric])

    def fingerprint(self):
        return hashlib.sha256(self.line().encode("utf-8")).digest()[:8].hex()

    def cohort(self):
        return unbiased(
            lambda t: self.hmac(self.key, b"cohort" + t.to_bytes(4, "big")), self.cohorts, 1
        )[0]

    def text(self, value):
        """The bytes that stand for a value; none where it is none of the domain."""
        if self.edges is not None:
            if isinstance(value, str) and NUMBER.fullmatch(value):
                value = float(value)
            if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
                return b""
            inside = sum(edge <= value for edge in self.edges[1:-1])
            return str(inside).encode()
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, str | bytes | int):
            value = b""
        text = value if isinstance(value, bytes) else str(value).encode("utf-8")
        if self.categories is not None and text.decode("utf-8") not in self.categories:
            return b""
        return text

    def cells(self, value, cohort):
        text = self.text(value)
        if self.categories is not None:
            name = text.decode("utf-8")
            return [self.categories.index(name)] if name in self.categories else []
        if self.edges is not None:
            return [int(text)] if text else []
        head = b"sfumato/bloom/1\0" + cohort.to_bytes(4, "big")
        return unbiased(
            lambda t: hashlib.sha256(head + t.to_bytes(4, "big") + text).digest(),
            self.bits,
            self.hashes,
        )

    def permanent(self, value):
        """The list of bits of the permanent response."""
        cells, text = self.cells(value, self.cohort()), self.text(value)
        blocks = range(-(-self.bits // 16))
        stream = b"".join(
            self.hmac(self.key, b"permanent" + t.to_bytes(4, "big") + text) for t in blocks
        )
        coins = [u < self.flip for u in numbers16(stream)[: self.bits]]
        return [int((i in cells) != coin) for i, coin in enumerate(coins)]

    def report(self, permanent, fresh):
        """The list of bits sent, of fresh random bytes, two a cell."""
        if (self.p16, self.q16) == (0, 65536):
            return permanent
        chances = (self.p16, self.q16)
        pairs = zip(permanent, numbers16(fresh), strict=True)
        return [int(u < chances[bit]) for bit, u in pairs]


def payload(bits):
    """Bits as bytes: cell i is bit i & 7 of byte i >> 3."""
    out = bytearray(-(-len(bits) // 8))
    for i, bit in enumerate(bits):
        out[i >> 3] |= bit << (i & 7)
    return bytes(out)
