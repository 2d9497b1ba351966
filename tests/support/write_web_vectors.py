"""Vectors that every client must reproduce.

`python -m support.write_web_vectors` in tests/ writes them.
"""

import hashlib
import json
from pathlib import Path

from support.reference_wire import Wire, payload

PATH = Path(__file__).parents[2] / "web" / "vectors.json"
TEXTS = ["", "tea", "Zürich", "日本語 🙂", "a text of more than thirty-one bytes, " * 4]
FULL = {"f": 0.5, "p": 0.25, "q": 0.75}


NONE = [None, True, 7.5, ["tea"], {"tea": 1}]


def _bloom(bits, hashes, cohorts, noise, metric=""):
    return {"metric": metric, "bits": bits, "hashes": hashes, "cohorts": cohorts} | noise


def _basic(name, domain, cells, noise, metric=""):
    return _bloom(cells, 1, 1, noise, metric) | {name: domain}


ONE_TIME = {"f": 0.73, "p": 0.0, "q": 1.0}
CASES = [
    (_bloom(8, 1, 1, ONE_TIME), TEXTS),
    (_bloom(8, 4, 8, FULL, "search engine"), TEXTS),
    (_bloom(48, 2, 8, ONE_TIME, "home page"), [*TEXTS, 0, -7, 2**53 - 1]),
    (_bloom(100, 3, 64, {"f": 0.25, "p": 0.1, "q": 0.9}, "größe/µs 測定"), TEXTS),
    (_bloom(128, 2, 64, FULL, "home page"), TEXTS),
    (_bloom(128, 4, 1000, {"f": 0.0, "p": 0.4, "q": 0.6}), TEXTS[:3]),
    (_bloom(1, 1, 3, FULL), TEXTS[:2]),
    (_bloom(13, 13, 3, FULL, "every cell"), TEXTS[:2]),
    (_basic("categories", ["yes", "no", "später", ""], 4, FULL, "asked"), ["no", "später", ""]),
    (_basic("categories", [str(n) for n in range(40)], 40, ONE_TIME), ["0", "39", 17]),
    (
        _basic("edges", [-1.5, 0.0, 0.1, 10.0, 1e300], 4, FULL, "seconds"),
        [-99, -1.5, -0.0, 0.1, 0.09999999999999999, 9.75, 10, 1e300, 1e308],
    ),
    # What is none of the values, or of the domain, and numbers that are written as text.
    (_bloom(48, 2, 8, ONE_TIME, "none"), [*NONE, 7.0, 7, "7"]),
    (_basic("categories", ["yes", "no", "7"], 3, FULL, "none"), [*NONE, "rum", "", 7.0, 9]),
    (_basic("categories", ["yes", "", "7"], 3, FULL, "none"), [*NONE, "rum", "7"]),
    (
        _basic("edges", [0.0, 5.0, 10.0], 2, FULL, "none"),
        [*NONE, "7", "1e1", "-.5", "+7.", "x", ""],
    ),
]


def _bytes(use, case, value, size):
    """Bytes that are arbitrary but always the same."""
    return hashlib.shake_256(f"{use} {case} {value}".encode()).digest(size)


def _case(at, params, values):
    secret = _bytes("secret", at, 0, (16, 32, 64, 80)[at % 4])
    wire = Wire(params, secret)
    result = {"format": "sfumato telemetry parameters", "version": 1, "scheme": "rappor"} | params
    found = []
    for n, value in enumerate(values):
        fresh = _bytes("fresh", at, n, 2 * wire.bits)
        retained = wire.permanent(value)
        found.append(
            {
                "value": value,
                "cells": wire.cells(value, wire.cohort()),
                "permanent": payload(retained).hex(),
                "fresh": fresh.hex(),
                "report": payload(wire.report(retained, fresh)).hex(),
            }
        )
    return {
        "params": result | {"fingerprint": wire.fingerprint()},
        "line": wire.line(),
        "secret": secret.hex(),
        "cohort": wire.cohort(),
        "values": found,
    }


def vectors():
    """The text of the file."""
    cases = [_case(at, params, values) for at, (params, values) in enumerate(CASES)]
    return json.dumps({"version": 1, "cases": cases}, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    PATH.parent.mkdir(exist_ok=True)
    PATH.write_text(vectors(), encoding="utf-8")
