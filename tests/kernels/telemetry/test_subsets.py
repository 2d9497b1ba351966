"""Subsets are uniform: every residue of the words once gives every set equally often."""

from collections import Counter
from itertools import combinations, product
from math import comb

import numpy as np
import pytest

from sfumato.kernels.telemetry import responses as subsets


def drawn(words, own, retained, chosen, cells):
    out = np.zeros((len(words), -(-cells // 8)), np.uint8)
    refused = np.zeros(len(words), bool)
    retained = np.full(len(words), retained)
    subsets.choose_subset(words, np.full(len(words), own), retained, chosen, cells, refused, out)
    return out, refused


def all_words(chosen, cells, retained):
    """Words whose residues run through all there are, each once."""
    draws = chosen - retained
    limits = [cells - draws + d for d in range(draws)]
    unused = [0] * retained
    return np.array([[*r, *unused] for r in product(*map(range, limits))], np.uint32)


@pytest.mark.parametrize(("cells", "chosen"), [(2, 1), (5, 2), (7, 4), (9, 3), (6, 5)])
@pytest.mark.parametrize("retained", [False, True])
def test_every_set_of_the_size_is_as_likely_as_any_other(cells, chosen, retained):
    for own in (0, cells // 2, cells - 1):
        words = all_words(chosen, cells, retained)
        out, refused = drawn(words, own, retained, chosen, cells)
        assert not refused.any()
        bits = np.unpackbits(out, axis=1, bitorder="little")
        found = Counter(tuple(np.flatnonzero(row)) for row in bits)
        wanted = {s for s in combinations(range(cells), chosen) if (own in s) == retained}
        assert set(found) == wanted
        assert set(found.values()) == {len(words) // comb(cells - 1, chosen - retained)}


def test_words_that_would_favour_small_cells_are_refused_and_leave_the_row_empty():
    # Limits of the draws: 5 then 6. 2**32 - 1 is the only word refused for 5 (2**32 % 5 = 1); the
    # last four are refused for 6 (2**32 % 6 = 4).
    top = 2**32 - 1
    words = np.array([[top, 0], [top - 1, 0], [0, top - 3], [0, top - 4]], np.uint32)
    out, refused = drawn(words, 0, False, 2, 7)
    assert refused.tolist() == [1, 0, 1, 0]
    assert [int(np.unpackbits(row).sum()) for row in out] == [0, 2, 0, 2]
