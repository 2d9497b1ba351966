"""The exact law of a permanent response: every output of the code that runs, with its chance."""

from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np

WORDS = 2**32


class FixedStream:
    """Streams that are given: row r has the words table[r]."""

    def __init__(self, table):
        self.table = np.asarray(table, np.uint32)

    def words(self, rows, start, count):
        return self.table[rows, start : start + count]


def answers(scheme, cell_set, table):
    """The payloads of one value's cells under each row of words."""
    members = np.tile(np.asarray(cell_set, np.int32), (len(table), 1))
    return [row.tobytes() for row in scheme.respond(FixedStream(table), members)]


def symbol_law(scheme, cell_set):
    """Payload -> chance, by the intervals of words between the thresholds of the code.

    The code is evaluated at both ends of every interval and at words between them.
    """
    equal = scheme.cells * scheme.wrong
    starts = [c * scheme.wrong for c in range(scheme.cells)]
    starts += [equal + s * scheme.extra for s in range(scheme.set_size)]
    law = defaultdict(Fraction)
    for start, stop in zip(starts, [*starts[1:], WORDS], strict=True):
        queries = np.linspace(start, stop - 1, 50).astype(np.uint64)[:, np.newaxis]
        found = set(answers(scheme, cell_set, queries))
        assert len(found) == 1
        law[found.pop()] += Fraction(stop - start, WORDS)
    return dict(law)


def subset_law(scheme, cell_set):
    """Payload -> chance: the coin by its threshold, then every residue of the other words.

    Words that are refused leave a multiple of each limit, so residues are alike; and a refused row
    is tried again with fresh words, which changes nothing of that.
    """
    law = defaultdict(Fraction)
    for retained, chance in ((1, scheme.own_words), (0, WORDS - scheme.own_words)):
        coins = [0, scheme.own_words - 1] if retained else [scheme.own_words, WORDS - 1]
        draws = scheme.chosen - retained
        limits = [scheme.cells - draws + d for d in range(draws)]
        rest = [[*r, *([0] * retained)] for r in product(*map(range, limits))]
        result = [answers(scheme, cell_set, [[coin, *row] for row in rest]) for coin in coins]
        assert result[0] == result[1]
        for payload in result[0]:
            law[payload] += Fraction(chance, WORDS) / len(rest)
    return dict(law)


def law_of(scheme, cell_set):
    law = (symbol_law if scheme.kind == "symbol" else subset_law)(scheme, cell_set)
    assert sum(law.values()) == 1
    return law


def marks(scheme, payload):
    """The cells that a payload marks."""
    if scheme.kind == "symbol":
        return {int.from_bytes(payload, "little")}
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())
