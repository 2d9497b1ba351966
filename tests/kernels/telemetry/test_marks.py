"""Marks: sums of bits by cohort, as NumPy sums them, for any number of cells."""

import numpy as np
import pytest

from sfumato.kernels.telemetry import marks


@pytest.mark.parametrize("cells", [1, 7, 8, 9, 48, 63, 128, 130])
def test_added_bits_are_the_sums_of_the_kept_rows(cells):
    draw, rows = np.random.default_rng(cells), 300
    bits = draw.integers(0, 2, (rows, cells), np.uint8)
    payload = np.packbits(bits, axis=1, bitorder="little")
    cohorts, keep = draw.integers(0, 3, rows).astype(np.int32), draw.random(rows) < 0.8
    room = np.full((5, cells), 7, np.uint64)  # rows around the table must not change
    totals = np.zeros(3, np.uint64)
    marks.add_bits(cohorts, payload, keep, totals, room[1:4])
    for cohort in range(3):
        retained = bits[keep & (cohorts == cohort)]
        assert totals[cohort] == len(retained)
        assert (room[1 + cohort] == 7 + retained.sum(axis=0)).all()
    assert (room[[0, 4]] == 7).all()


@pytest.mark.parametrize("cells", [1, 7, 8, 9, 16])
def test_bits_are_judged_by_cohort_spare_bits_and_their_number(cells):
    draw, rows = np.random.default_rng(cells), 400
    payload = draw.integers(0, 256, (rows, -(-cells // 8)), np.uint8)
    cohorts = draw.integers(-1, 4, rows).astype(np.int32)
    bits = np.unpackbits(payload, axis=1, bitorder="little")
    outside = (cohorts < 0) | (cohorts >= 3)
    for wanted in (-1, 0, cells // 2):
        wrong = bits[:, cells:].any(axis=1)
        if wanted >= 0:
            wrong |= bits.sum(axis=1) != wanted
        out = np.full(rows, 9, np.uint8)
        marks.judge_bits(cohorts, payload, 3, cells, wanted, out)
        assert (out == np.where(outside, marks.COHORT, np.where(wrong, marks.MARKS, 0))).all()


def test_symbols_are_judged_and_added():
    symbols = np.array([0, 5, 6, 2**31, 2**32 - 1, 2, 5], np.uint32)
    payload = symbols.astype("<u4").view(np.uint8).reshape(-1, 4)
    cohorts, out = np.array([0, 1, 0, 0, 1, 2, 1], np.int32), np.empty(7, np.uint8)
    marks.judge_symbols(cohorts, payload, 2, 6, out)
    assert out.tolist() == [0, 0, marks.MARKS, marks.MARKS, marks.MARKS, marks.COHORT, 0]
    table, totals = np.zeros((2, 6), np.uint64), np.zeros(2, np.uint64)
    marks.add_symbols(cohorts, payload, out == 0, totals, table)
    assert table.tolist() == [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 2]]
    assert totals.tolist() == [1, 2]
