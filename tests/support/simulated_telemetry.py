"""Counts and reports without the encoder of a scheme: an independent world."""

from types import SimpleNamespace

import numpy as np

from sfumato.telemetry import Reports


def draw(scheme, members, clients, rng):
    """Counts of one collection: `clients[v]` clients have the value of members[v] (v, m, s)."""
    m, k = scheme.cohorts, scheme.cells
    high, low = float(scheme.high), float(scheme.low)
    split = rng.multinomial(clients, np.full(m, 1 / m))
    reports, cells = split.sum(0), np.zeros((m, k), np.int64)
    for j in range(m):
        have = np.zeros(k, np.int64)
        for column in members[:, j].T:
            np.add.at(have, column[column >= 0], split[column >= 0, j])
        cells[j] = _marks(scheme.kind, have, int(reports[j]), high, low, rng)
    return SimpleNamespace(scheme=scheme, cells=cells, reports=reports)


def any_reports(rows, seed=0, *, scheme):
    """Reports of random cohorts, bytes and ids: no value is behind them."""
    draw = np.random.default_rng(seed)
    return Reports(
        scheme,
        draw.integers(0, scheme.cohorts, rows),
        draw.integers(0, 256, (rows, scheme.payload_bytes), np.uint8),
        draw.integers(0, 256, (rows, 16), np.uint8),
    )


def _marks(kind, have, reports, high, low, rng):
    if kind == "bits":
        return rng.binomial(have, high) + rng.binomial(reports - have, low)
    k = have.size
    if kind == "symbol":  # sets of one cell
        return rng.multinomial(have, np.where(np.eye(k, dtype=bool), high, low)).sum(0)
    taken, out = round(high + (k - 1) * low), np.zeros(k, np.int64)
    for cell in range(k):
        order = rng.random((have[cell], k))
        order[:, cell] = np.where(rng.random(have[cell]) < high, -1, 2)
        chosen = np.argpartition(order, taken - 1, axis=1)[:, :taken]
        out += np.bincount(chosen.reshape(-1), minlength=k)
    return out
