"""How fast clients are simulated, their reports read and counted, beside peers in one process.

    python benchmarks/telemetry_speed.py        writes benchmarks/results/telemetry_speed.json

One thread, k = 128, h = 2, m = 64, f = 0.73; a million values out of a thousand, an Arrow column.
Peers (`_ldp_peers.py`) make reports one by one in Python.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from _ldp_peers import rappor, subset_selection
from _measure import Ceilings, peer, rate, show, write

from sfumato.privacy.noise.discrete import flips
from sfumato.telemetry import (
    Counts,
    HadamardResponse,
    LocalHashing,
    Rappor,
    ReportEncoder,
    SubsetSelection,
    read_reports,
    write_reports,
)

ROWS, DISTINCT, FEW = 1_000_000, 1_000, 20_000
SHAPE = {"bits": 128, "hashes": 2, "cohorts": 64, "f": 0.73}
EPSILON = Rappor(**SHAPE).epsilon_permanent
NAMES = [f"value-{i}" for i in range(DISTINCT)]


def clients(rows=ROWS):
    codes = np.random.default_rng(0).integers(0, DISTINCT, rows, dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(NAMES))


def row(name, work, rows=ROWS, ceiling=None, target=None, peers=None):
    found = {"name": name, "ours": rate(work, rows), "target": target, "peers": peers or {}}
    return show(found | {"ceiling": ceiling})


def pure_ldp():
    """RAPPOR of pure-ldp."""
    _, client = rappor(SHAPE, DISTINCT)
    values = np.random.default_rng(0).integers(1, DISTINCT + 1, FEW).tolist()
    return lambda: [client.privatise(value) for value in values]


def multi_freq_ldpy():
    """Subset selection of multi-freq-ldpy over as many values."""
    values = np.random.default_rng(0).integers(0, DISTINCT, FEW).tolist()
    return lambda: subset_selection(values, DISTINCT, EPSILON)


def encoding():
    """Reports made in a second, permanent responses drawn or derived from a secret each."""
    values = clients()
    coins = rate(lambda: flips("365/1000", ROWS * 128), ROWS)["median"]
    secrets = np.random.default_rng(1).integers(0, 256, (ROWS // 10, 32), dtype=np.uint8)
    once, full = Rappor(**SHAPE), Rappor(**SHAPE, p=0.25, q=0.75)
    peers = {"pure-ldp": peer(pure_ldp, FEW)}
    known = SubsetSelection(EPSILON, categories=NAMES)
    return [
        row("one-time, drawn", drawn(once, values), ceiling=coins, target=2, peers=peers),
        row("with instantaneous response, drawn", drawn(full, values), target=2),
        row(
            "one-time, a secret each, HMAC",
            lambda: ReportEncoder(once).encode_many(values[: len(secrets)], secrets=secrets),
            len(secrets),
            target=0.1,
        ),
        row("local hashing", drawn(LocalHashing(EPSILON), values)),
        row("subset selection, hashed", drawn(SubsetSelection(EPSILON), values)),
        row(
            "subset selection of 1,000 known values",
            drawn(known, values[: ROWS // 10]),
            ROWS // 10,
            peers={"multi-freq-ldpy": peer(multi_freq_ldpy, FEW)},
        ),
        row(
            "Hadamard response of 1,000 known values",
            drawn(HadamardResponse(EPSILON, categories=NAMES), values[: ROWS // 2]),
            ROWS // 2,
        ),
    ]


def drawn(scheme, values):
    encoder = ReportEncoder(scheme, seed=0)
    return lambda: encoder.encode_many(values)


def serving():
    """What a server does with them: read lines, count bits."""
    scheme = Rappor(**SHAPE)
    reports = ReportEncoder(scheme, seed=0).encode_many(clients())
    stream = Ceilings().stream(scheme.payload_bytes)
    rows = [
        row(
            "counted, ids not stored",
            lambda: Counts(scheme, keep_ids=False).update(reports),
            ceiling=stream,
        ),
        row("counted, re-sends found", lambda: Counts(scheme).update(reports)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reports.ndjson"
        write_reports(path, reports)
        length = path.stat().st_size / ROWS
        reading = row("lines read", lambda: [len(each) for each in read_reports(path, scheme)])
    return [*rows, reading | {"bytes_a_line": length}]


if __name__ == "__main__":
    write("telemetry_speed", {"rows": [*encoding(), *serving()]})
