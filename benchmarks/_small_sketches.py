"""Small calls of sketches: one key, a few keys, an estimate, a new sketch, its bytes.

Beside Apache DataSketches and rbloom, each by its natural call: one key at a time, rbloom several
keys by its `update`. DataSketches has no call for several keys, so it loops over them.
"""

import numpy as np
from _calls import call_row

from sfumato.sketch import (
    BloomFilter,
    CountingBloomFilter,
    CountMin,
    CountSketch,
    HyperLogLog,
    ScalableBloomFilter,
)

__all__ = ["rows"]

WIDTH, DEPTH, BITS, PRECISION = 16_384, 4, 1_000_000, 14
SIZES = (1, 10, 100)
FIXED, PER_KEY = 5.0, 0.03  # microseconds of an update: once, and for each key
CONSTRUCT, ESTIMATE, SCALAR, LIST, PACK = 15.0, 5.0, 3.0, 8.0, 2000.0
WORDS = [f"key {at}" for at in range(1000)]
KEYS = {
    "integers": list(range(1000)),
    "texts": WORDS,
    "an int64 array": np.arange(1000),
    "a text array": np.array(WORDS),
}


def rows():
    """Measure every small call of sketches."""
    return [*_one_key(), *_constructions(), *_estimates(), *_updates(), _bytes()]


def _filled():
    return {
        "CountMin": CountMin(WIDTH, DEPTH).update(WORDS),
        "CountSketch": CountSketch(WIDTH, DEPTH).update(WORDS),
        "BloomFilter": BloomFilter(BITS).update(WORDS),
        "blocked BloomFilter": BloomFilter(1 << 20, layout="blocked").update(WORDS),
        "CountingBloomFilter": CountingBloomFilter(BITS).update(WORDS),
        "ScalableBloomFilter": ScalableBloomFilter().update(WORDS),
    }


def _count_min():
    from datasketches import count_min_sketch

    peer = count_min_sketch(DEPTH, WIDTH)
    for word in WORDS:
        peer.update(word)
    return peer


def _rbloom():
    from rbloom import Bloom

    peer = Bloom(100_000, 0.01)
    peer.update(WORDS)
    return peer


def _hll():
    from datasketches import hll_sketch, tgt_hll_type

    peer = hll_sketch(PRECISION, tgt_hll_type.HLL_8)
    for key in range(100_000):
        peer.update(key)
    return peer


def _one_key():
    """Queries and additions of one key; a text, an integer, and a list of one."""
    found = []
    for name, sketch in _filled().items():
        peers = _peers_of_one(name)
        for key in ("key 7", 7):
            call = f"{name}.estimate({key!r})"
            found.append(call_row(call, _call(sketch.estimate, key), SCALAR, peers["ask"]))
        call = f"{name}.estimate(['key 7'])"
        found.append(call_row(call, _call(sketch.estimate, ["key 7"]), LIST, peers["ask"]))
        if hasattr(sketch, "contains"):
            work = _call(sketch.__contains__, "key 7")
            found.append(call_row(f"'key 7' in {name}", work, SCALAR, peers["ask"]))
        call = f"{name}.add('key 7')"
        found.append(call_row(call, _call(sketch.add, "key 7"), SCALAR, peers["add"]))
    distinct = HyperLogLog(PRECISION)
    peers = {"datasketches": lambda: _call(_hll().update, "key 7")}
    work = _call(distinct.add, "key 7")
    return [*found, call_row("HyperLogLog.add('key 7')", work, SCALAR, peers)]


def _peers_of_one(name):
    if name == "CountMin":
        return {
            "ask": {"datasketches": lambda: _call(_count_min().get_estimate, "key 7")},
            "add": {"datasketches": lambda: _call(_count_min().update, "key 7")},
        }
    if "Bloom" in name:
        return {
            "ask": {"rbloom": lambda: _call(_rbloom().__contains__, "key 7")},
            "add": {"rbloom": lambda: _call(_rbloom().add, "key 7")},
        }
    return {"ask": {}, "add": {}}


def _call(method, argument):
    return lambda: method(argument)


def _constructions():
    def count_min():
        from datasketches import count_min_sketch

        return lambda: count_min_sketch(DEPTH, WIDTH)

    def rbloom():
        from rbloom import Bloom

        return lambda: Bloom(100_000, 0.01)

    def hll():
        from datasketches import hll_sketch

        return lambda: hll_sketch(PRECISION)

    made = {
        "CountMin": (lambda: CountMin(WIDTH, DEPTH), {"datasketches": count_min}),
        "CountSketch": (lambda: CountSketch(WIDTH, DEPTH), {}),
        "BloomFilter": (lambda: BloomFilter(BITS), {"rbloom": rbloom}),
        "HyperLogLog": (lambda: HyperLogLog(PRECISION), {"datasketches": hll}),
    }
    return [
        call_row(f"construct {name}", make, CONSTRUCT, peers)
        for name, (make, peers) in made.items()
    ]


def _estimates():
    """The distinct count of an unchanged sketch, and after every added key."""
    sketch = HyperLogLog(PRECISION).update(range(100_000))
    keys = iter(range(10**9))

    def changed():
        sketch.add(next(keys))
        return sketch.estimate()

    def peer():
        found, others = _hll(), iter(range(10**9))

        def work():
            found.update(next(others))
            return found.get_estimate()

        return work

    first = {"datasketches": lambda: _hll().get_estimate}
    return [
        call_row("HyperLogLog.estimate()", sketch.estimate, ESTIMATE, first),
        call_row(
            "HyperLogLog.add(key), then estimate()", changed, ESTIMATE, {"datasketches": peer}
        ),
    ]


def _updates():
    """Updates with 1, 10 and 100 keys in lists and arrays."""
    sketches = {
        "CountMin": (CountMin(WIDTH, DEPTH), {"datasketches": _count_min}),
        "CountSketch": (CountSketch(WIDTH, DEPTH), {}),
        "BloomFilter": (BloomFilter(BITS), {"rbloom": _rbloom}),
        "HyperLogLog": (HyperLogLog(PRECISION), {"datasketches": _hll}),
    }
    return [
        _update_row(name, sketch, peers, kind, keys[:size])
        for name, (sketch, peers) in sketches.items()
        for kind, keys in KEYS.items()
        for size in SIZES
    ]


def _update_row(name, sketch, peers, kind, keys):
    limit = FIXED + PER_KEY * len(keys)
    beside = {}
    if isinstance(keys, list):
        beside = {peer: _several(make, keys) for peer, make in peers.items()}
    work = _call(sketch.update, keys)
    return call_row(f"{name}.update, {len(keys)} of {kind}", work, limit, beside)


def _several(make, keys):
    def prepare():
        peer = make()
        if hasattr(peer, "add"):  # rbloom, which takes several at once
            return lambda: peer.update(keys)

        def work():
            for key in keys:
                peer.update(key)

        return work

    return prepare


def _bytes():
    sketch = CountMin(1 << 20, DEPTH).update(WORDS)  # 16 MiB

    def peer():
        from datasketches import count_min_sketch

        found = count_min_sketch(DEPTH, 1 << 19)  # 16 MiB of its 64-bit cells
        for word in WORDS:
            found.update(word)
        return found.serialize

    return call_row("CountMin.to_bytes, 16 MiB", sketch.to_bytes, PACK, {"datasketches": peer})
