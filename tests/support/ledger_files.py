"""Ledger files for tests: one as version 1 wrote it, and copies with one bit flipped."""

import json
import os
import sqlite3
from fractions import Fraction

from sfumato.privacy import Ledger
from sfumato.privacy.accounting.losses import GaussianNoise, Pure

# The tables of version 1, without its triggers.
OLD = """
CREATE TABLE dataset (
    name TEXT PRIMARY KEY, epsilon REAL NOT NULL, delta REAL NOT NULL, unit TEXT NOT NULL,
    relation TEXT NOT NULL, parent TEXT REFERENCES dataset (name), created TEXT NOT NULL
);
CREATE TABLE charge (
    place INTEGER PRIMARY KEY, release_id TEXT NOT NULL UNIQUE,
    dataset TEXT NOT NULL REFERENCES dataset (name), loss TEXT NOT NULL, what TEXT NOT NULL,
    stores INTEGER NOT NULL, charged TEXT NOT NULL, released TEXT, bytes BLOB
);
CREATE INDEX charge_of_dataset ON charge (dataset, loss);
CREATE TRIGGER charges_stand BEFORE DELETE ON charge
BEGIN SELECT RAISE (ABORT, 'a charge is never taken back'); END;
PRAGMA application_id = 0x53464C47;
PRAGMA user_version = 1;
PRAGMA journal_mode = WAL;
"""


def old_ledger(path):
    """Four data sets, two of which differ in case only, and five charges."""
    file = sqlite3.connect(path)
    file.executescript(OLD)
    add_remove = ("event", "add/remove")
    for name, epsilon, delta, parent in (
        ("orders", 1, 0, None),
        ("Orders", 1, 0, None),
        ("train", 0.5, 0, "orders"),
        ("rough", 2, 1e-6, None),
    ):
        file.execute(
            "INSERT INTO dataset VALUES (?, ?, ?, ?, ?, ?, 'then')",
            (name, epsilon, delta, *add_remove, parent),
        )
    noise = GaussianNoise(Fraction(100))
    for release_id, dataset, loss, what, stores, data in (
        ("one", "orders", Pure(0.25), "a count", 1, b"stored"),
        ("two", "train", Pure(0.25), "a sum", 1, None),
        ("three", "orders", Pure(0.25), "elsewhere", 0, None),
        ("four", "rough", noise, "noise", 0, None),
        ("five", "rough", noise, "noise", 0, None),
    ):
        line = json.dumps(loss.to_dict(), sort_keys=True)
        released = None if data is None else "then"
        file.execute(
            "INSERT INTO charge (release_id, dataset, loss, what, stores, charged, released, bytes)"
            " VALUES (?, ?, ?, ?, ?, 'then', ?, ?)",
            (release_id, dataset, line, what, stores, released, data),
        )
    file.commit()
    file.close()
    return path


def flipped(folder, data, bit, left, charge=False):
    """Whether one flipped bit is noticed; it must never raise what is left, nor another error."""
    path, sentence = folder / f"{bit}.ledger", ""
    copy = bytearray(data)
    copy[bit // 8] ^= 1 << bit % 8
    path.write_bytes(copy)
    try:
        with Ledger(path) as ledger:
            for name, epsilon in left.items():
                assert ledger.remaining(name).epsilon <= epsilon, bit
            ledger.history("views")
            if charge:
                ledger.charge("views", 0.25, "one more")
                assert ledger.remaining("views").epsilon <= left["views"] - 0.25 + 1e-9, bit
    except (ValueError, OSError) as error:
        sentence = str(error)
    finally:
        for end in ("", "-wal", "-shm"):
            if os.path.exists(f"{path}{end}"):
                os.unlink(f"{path}{end}")
    assert sentence[:8] in ("", "Ledger: "), (bit, sentence)
    assert "\n" not in sentence, bit
    return bool(sentence)
