"""Hadamard response: half a block of cells for every value, in bounded memory."""

import numpy as np
import pytest
from scipy.linalg import hadamard

from sfumato.telemetry import Counts, HadamardResponse, ReportEncoder
from sfumato.telemetry.schemes import hadamard_response as room
from sfumato.telemetry.schemes.base import read_scheme
from support.reference_client import permanent_words


def names(count):
    return [str(i) for i in range(count)]


@pytest.mark.parametrize(("count", "blocks"), [(2, 1), (3, 1), (12, 1), (12, 4), (21, 2), (70, 16)])
def test_sets_are_the_positive_entries_of_rows_of_the_hadamard_matrix(count, blocks):
    scheme = HadamardResponse(1.0, names(count), blocks=blocks)
    matrix = hadamard(scheme.length)
    found = scheme.members(names(count))[:, 0]
    for value, cells in enumerate(found):
        row, block = divmod(value, blocks)
        wanted = block * scheme.length + np.flatnonzero(matrix[row + 1] > 0)
        assert sorted(cells.tolist()) == wanted.tolist()
    assert len({tuple(sorted(cells)) for cells in found.tolist()}) == count
    assert found.max() < scheme.cells == blocks * scheme.length


def test_the_report_of_a_secret_follows_from_hmac_alone():
    scheme = HadamardResponse(1.0, names(20), blocks=2, metric="drink")
    own = scheme.members(["7"])[0, 0].tolist()
    for secret in (bytes([i]) * 16 for i in range(40)):
        word = next(permanent_words(scheme, secret, "7"))
        surplus = word - scheme.cells * scheme.wrong
        cell = word // scheme.wrong if surplus < 0 else own[surplus // scheme.extra]
        report = ReportEncoder(scheme, secret=secret).encode("7")
        assert report.payload.tobytes() == cell.to_bytes(4, "little")


def test_counts_are_estimated_without_bias_by_least_squares():
    # Six standard errors: p < 2e-9 for each of 13 values. A cell's variance is n high at most.
    scheme, rows = HadamardResponse(2.0, names(12), other=True), 30_000
    sent = np.repeat([*names(12), "else"], [2000] * 12 + [6000])
    counts = Counts(scheme).update(ReportEncoder(scheme, seed=2).encode_many(sent))
    design = np.zeros((scheme.cells, 13))
    for value, cells in enumerate(scheme.members(scheme.domain)[:, 0]):
        design[cells, value] = 1
    inverse = np.linalg.pinv(design) / float(scheme.high - scheme.low)
    estimates = inverse @ (counts.cells[0] - rows * float(scheme.low))
    errors = np.sqrt((inverse**2).sum(axis=1) * rows * float(scheme.high))
    assert (np.abs(estimates - ([2000] * 12 + [6000])) < 6 * errors).all()


def test_a_table_of_members_beyond_the_limit_is_refused_with_the_remedy(monkeypatch):
    scheme = HadamardResponse(1.0, names(100), blocks=1)
    monkeypatch.setattr(room, "LARGEST", 64 * 10)
    assert scheme.members(names(10)).shape == (10, 1, 64)
    with pytest.raises(ValueError, match="take at most 10 values at a time, or subset selection"):
        scheme.members(names(11))
    with pytest.raises(ValueError, match="take at most 10 values at a time"):
        ReportEncoder(scheme, seed=0).encode_many(["5"] * 11)


def test_parameters_come_back_from_json_and_are_named_by_all_that_matters():
    scheme = HadamardResponse(2, ["tea", "milk", "rum"], other=True, metric="drink")
    assert read_scheme(scheme.to_json()) == scheme
    others = [
        HadamardResponse(2, ["tea", "milk", "rum"], metric="drink"),
        HadamardResponse(2, ["tea", "milk", "gin"], other=True, metric="drink"),
        HadamardResponse(2.1, ["tea", "milk", "rum"], other=True, metric="drink"),
        HadamardResponse(2, ["tea", "milk", "rum"], other=True),
        HadamardResponse(2, ["tea", "milk", "rum"], other=True, metric="drink", blocks=1),
    ]
    assert len({each.fingerprint for each in [scheme, *others]}) == 6


def test_bad_parameters_are_refused_by_name():
    for name, limit in HadamardResponse.LIMITS.items():
        for bad in limit.bad():
            with pytest.raises(ValueError, match=f"HadamardResponse: {name} must be"):
                HadamardResponse(**{"epsilon": 1.0, "categories": names(3), name: bad})
    with pytest.raises(ValueError, match="blocks must be a power of two"):
        HadamardResponse(1.0, names(9), blocks=3)
    with pytest.raises(ValueError, match="categories must be"):
        HadamardResponse(1.0)
