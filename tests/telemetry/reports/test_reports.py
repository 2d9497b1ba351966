"""Reports: columns of one length that do not change."""

from functools import partial

import numpy as np
import pytest

from sfumato.telemetry import Rappor, Reports
from support.simulated_telemetry import any_reports

SCHEME = Rappor(13, 2, 5, f=0.5)
made = partial(any_reports, scheme=SCHEME)


def test_columns_cannot_be_written_to():
    reports = made(3)
    for name in ("cohorts", "payload", "ids"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(reports, name)[0] = 1
        with pytest.raises(AttributeError, match="do not change"):
            setattr(reports, name, None)
    with pytest.raises(TypeError):
        reports.refused["cohort"] = 1


def test_take_gives_the_requested_rows():
    reports = made(10)
    for rows, at in (
        ([7, 0, 7], [7, 0, 7]),
        (np.arange(10) % 3 == 0, [0, 3, 6, 9]),
        (slice(2, 5), [2, 3, 4]),
        ([], []),
    ):
        taken = reports.take(rows)
        assert taken.cohorts.tolist() == [int(reports.cohorts[i]) for i in at]
        assert taken.payload.tolist() == [reports.payload[i].tolist() for i in at]
        assert taken.ids.tolist() == [reports.ids[i].tolist() for i in at]


def test_concat_is_all_rows_in_order_and_all_that_was_refused():
    reports = made(10)
    parts = [reports.take(slice(0, 4)), reports.take([]), reports.take(slice(4, 10))]
    assert Reports.concat(parts) == reports
    batches = [Reports(SCHEME, r.cohorts, r.payload, r.ids, {"cohort": 2}) for r in parts]
    assert dict(Reports.concat(batches).refused) == {"cohort": 6}
    with pytest.raises(ValueError, match="at least one"):
        Reports.concat([])
    with pytest.raises(ValueError, match="batch 1"):
        Reports.concat([reports, made(1, scheme=Rappor(13, 2, 5, f=0.25))])


def test_what_exceeds_32_bits_is_no_cohort():
    columns = (np.zeros((4, 2), np.uint8), np.zeros((4, 16), np.uint8))
    wide = np.array([1, 2**32 + 1, 2**63, 2**31], np.uint64)
    assert Reports(SCHEME, wide, *columns).cohorts.tolist() == [1, -1, -1, -1]
    assert Reports(SCHEME, [-(2**40), -5, 0, 1], *columns).cohorts.tolist() == [-1, -1, 0, 1]


@pytest.mark.parametrize(
    ("cohorts", "payload", "ids", "word"),
    [
        ([0.5], (1, 2), (1, 16), "cohorts"),
        ([[0]], (1, 2), (1, 16), "cohorts"),
        ([0], (2, 2), (1, 16), "payload"),
        ([0], (1, 2), (1, 15), "ids"),
        ([0], (2,), (1, 16), "payload"),
        (0, (1, 2), (1, 16), "cohorts"),
        (None, (1, 2), (1, 16), "cohorts"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name(cohorts, payload, ids, word):
    with pytest.raises(ValueError, match=f"Reports: {word}"):
        Reports(SCHEME, cohorts, np.zeros(payload, np.uint8), np.zeros(ids, np.uint8))
    with pytest.raises(TypeError, match="Reports: scheme"):
        Reports(None, [0], np.zeros((1, 2), np.uint8), np.zeros((1, 16), np.uint8))
