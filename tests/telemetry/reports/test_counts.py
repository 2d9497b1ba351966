"""Counts: exact for every order and split; a report is counted once, or refused with its reason."""

import pickle
from itertools import pairwise
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.core.file_format import checksum
from sfumato.sketch import CountMin, SketchFormatError
from sfumato.telemetry import (
    Counts,
    GoogleRappor,
    HadamardResponse,
    LocalHashing,
    Rappor,
    ReportEncoder,
    Reports,
    SubsetSelection,
)
from sfumato.telemetry.reports import counts as aggregate
from sfumato.telemetry.reports.validation import HashSet

SCHEMES = [
    Rappor(13, 2, 5, f=0.5),
    Rappor(64, 2, 3, f=0.5, p=0.25, q=0.75),
    Rappor(1, 1, 1, f=0.5),
    GoogleRappor(16, 2, 4, f=0.3),
    LocalHashing(1.0, cohorts=6, cells=4),
    SubsetSelection(1.0, categories=[str(i) for i in range(11)]),
    HadamardResponse(1.0, categories=[str(i) for i in range(11)]),
]
NAMES = [f"{type(scheme).__name__}-{scheme.cells}" for scheme in SCHEMES]


def sent(scheme, rows=500, seed=1):
    return ReportEncoder(scheme, seed=seed).encode_many([str(i % 11) for i in range(rows)])


def by_hand(scheme, reports):
    """Cells and totals, one report after the other."""
    cells = np.zeros((scheme.cohorts, scheme.cells), np.int64)
    totals = np.zeros(scheme.cohorts, np.int64)
    for cohort, payload in zip(reports.cohorts, reports.payload, strict=True):
        totals[cohort] += 1
        if scheme.kind == "symbol":
            cells[cohort, int.from_bytes(payload.tobytes(), "little")] += 1
        else:
            number = int.from_bytes(payload.tobytes(), "little")
            for i in range(scheme.cells):
                cells[cohort, i] += number >> i & 1
    return cells, totals


def changed(reports, **columns):
    fields = {name: np.array(getattr(reports, name)) for name in ("cohorts", "payload", "ids")}
    return Reports(reports.scheme, **fields | columns)


@pytest.mark.parametrize("scheme", SCHEMES, ids=NAMES)
def test_counts_are_those_of_one_report_after_the_other(scheme):
    reports = sent(scheme)
    counts = Counts(scheme).update(reports)
    cells, totals = by_hand(scheme, reports)
    assert (counts.cells == cells).all()
    assert (counts.reports == totals).all()
    assert (len(counts), counts.refused) == (500, {})


@pytest.mark.parametrize("scheme", SCHEMES, ids=NAMES)
def test_streams_batches_and_merges_give_the_same_counts(scheme):
    reports = sent(scheme)
    full = Counts(scheme).update(reports)
    order = np.random.default_rng(0).permutation(500)
    parts = [reports.take(part) for part in np.array_split(order, [1, 2, 3, 100, 350])]
    streamed = Counts(scheme)
    for part in parts:
        streamed.update(part)
    assert streamed == full == Counts(scheme).update(iter(parts))
    merged = Counts(scheme)
    for part in parts:
        merged.merge(Counts(scheme).update(part))
    assert merged == full
    assert merged.copy() == full
    assert pickle.loads(pickle.dumps(full)) == full


def test_a_report_sent_again_is_counted_once():
    scheme = SCHEMES[0]
    reports = sent(scheme)
    counts = Counts(scheme).update(reports.take(np.repeat(np.arange(500), 2)))
    assert counts.refused == {"duplicate": 500}
    counts.update([reports, reports.take([3, 4, 3])])
    assert counts.refused == {"duplicate": 1003}
    counts.refused = {}
    assert counts == Counts(scheme).update(reports)
    # The first of two with one id is the one that counts.
    two = changed(reports.take([0, 0]), payload=np.array([[1, 0], [2, 0]], np.uint8))
    assert Counts(scheme).update(two).cells[two.cohorts[0], :2].tolist() == [1, 0]
    assert len(Counts(scheme, keep_ids=False).update(reports).update(reports)) == 1000


def test_ids_are_found_among_many_runs_of_any_length():
    scheme, draw = SCHEMES[2], np.random.default_rng(3)
    known, counts = set(), Counts(scheme)
    for size in draw.integers(0, 60, 60):
        numbers = draw.integers(0, 1500, size)
        ids = np.zeros((size, 16), np.uint8)
        ids[:, 3:5] = numbers.astype("<u2")[:, np.newaxis].view(np.uint8)
        counts.update(Reports(scheme, np.zeros(size, int), np.zeros((size, 1), np.uint8), ids))
        known |= set(numbers.tolist())
    assert len(counts) == len(known) == counts._id_hashes.sorted().size
    sizes = [run.size for run in counts._id_hashes._runs]
    assert all(a > 2 * b for a, b in pairwise(sizes))
    assert counts.nbytes == 8 * len(known) + 16


def test_merging_counts_of_the_same_report_is_refused_and_changes_nothing():
    scheme = SCHEMES[0]
    one = Counts(scheme).update(sent(scheme).take(slice(0, 300)))
    two = Counts(scheme).update(sent(scheme).take(slice(250, 500)))
    before = one.copy()
    with pytest.raises(ValueError, match=r"50 reports are in both.*count those reports into one"):
        one.merge(two)
    with pytest.raises(ValueError, match="keep_ids is True here and False there"):
        one.merge(two.without_ids())
    with pytest.raises(ValueError, match="fingerprint"):
        one.merge(Counts(SCHEMES[1]))
    with pytest.raises(TypeError):
        one.merge(CountMin(8))
    assert one == before
    assert len(one.without_ids().merge(two.without_ids())) == 550


def test_every_report_that_cannot_be_is_refused_with_its_reason():
    scheme = SCHEMES[0]
    reports = sent(scheme)
    payload = np.array(reports.payload)
    payload[7, 1] |= 1 << 5  # the first bit after 13
    cohorts = np.array(reports.cohorts)
    cohorts[[1, 2]] = [-1, 5]
    counts = Counts(scheme).update(changed(reports, payload=payload, cohorts=cohorts))
    assert (len(counts), counts.refused) == (497, {"marks": 1, "cohort": 2})
    counts.update(sent(SCHEMES[1], 20)).update(
        changed(reports, payload=np.zeros((500, 3), np.uint8))
    )
    assert counts.refused == {"marks": 1, "cohort": 2, "parameters": 20, "length": 500}
    read = Reports(
        scheme, [], np.empty((0, 2), np.uint8), np.empty((0, 16), np.uint8), {"version": 3}
    )
    assert counts.update(read).refused["version"] == 3
    # A refused report has used no id.
    assert len(counts.update(reports)) == 500


@pytest.mark.parametrize("scheme", SCHEMES[4:], ids=NAMES[4:])
def test_an_invalid_number_of_marks_or_a_symbol_out_of_range_is_refused(scheme):
    reports = sent(scheme)
    payload = np.array(reports.payload)
    if scheme.kind == "symbol":
        payload[:4] = np.array([scheme.cells, 2**16, 2**31, 2**32 - 1], "<u4")[:, None].view(
            np.uint8
        )
    else:
        payload[0], payload[1] = 0, 255
        payload[2, 0] ^= 1
        payload[3, 1] |= 1 << 3  # the first bit after 11
    counts = Counts(scheme).update(changed(reports, payload=payload))
    assert (len(counts), counts.refused) == (496, {"marks": 4})


def test_an_update_that_raises_leaves_the_counts_as_they_were():
    scheme = SCHEMES[0]
    counts = Counts(scheme).update(sent(scheme))
    before = counts.copy()

    def batches():
        yield sent(scheme, seed=2)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        counts.update(batches())
    for invalid in ([sent(scheme, seed=2), 3], 3, "reports.ndjson", None):
        with pytest.raises(TypeError, match="must be Reports"):
            counts.update(invalid)
    with pytest.raises(TypeError, match="scheme"):
        Counts("rappor")
    assert counts == before


@pytest.mark.parametrize("scheme", SCHEMES, ids=NAMES)
def test_files_store_everything(tmp_path, scheme):
    counts = Counts(scheme).update(sent(scheme)).update(sent(scheme).take([1]))
    counts.save(tmp_path / "counts")
    again = Counts.load(tmp_path / "counts")
    assert again == counts
    assert again.scheme == scheme
    # What was read goes on finding duplicates, and can be merged.
    assert again.update(sent(scheme)).refused == {"duplicate": 501}
    again.merge(Counts(scheme).update(sent(scheme, seed=9)))
    assert len(again) == 1000


SAMPLE = Counts(SCHEMES[0]).update(sent(SCHEMES[0], 40)).to_bytes()


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
    st.integers(-3, 3),
    st.booleans(),
)
def test_damaged_files_are_refused_as_such(changes, resize, reseal):
    body = bytearray(SAMPLE[:-8])
    for at, byte in changes:
        body[int(at * len(body))] = byte
    body = body[: len(body) + resize] if resize < 0 else body + bytes(resize)
    data = bytes(body) + (checksum(memoryview(bytes(body))) if reseal else SAMPLE[-8:])
    try:
        counts = Counts.from_bytes(data)
    except SketchFormatError:
        return
    assert (counts.cells <= counts.reports[:, np.newaxis]).all()
    assert Counts.from_bytes(counts.to_bytes()) == counts
    counts.update(sent(counts.scheme, 5)).dispersion()


@pytest.mark.parametrize("ids", [[1, 1, 2], [1, 2], []])
def test_a_file_without_an_id_for_every_report_is_refused(ids):
    counts = Counts(SCHEMES[0]).update(sent(SCHEMES[0], 3))
    counts._id_hashes = HashSet([np.array(ids, np.uint64)])
    with pytest.raises(SketchFormatError, match="an id for every report"):
        Counts.from_bytes(counts.to_bytes())


@pytest.mark.parametrize("invalid", [2**62, -1])
def test_a_file_of_impossible_totals_is_refused(invalid):
    counts = Counts(SCHEMES[0], keep_ids=False)
    counts.reports[:] = invalid
    with pytest.raises(SketchFormatError, match="cohort 0 has"):
        Counts.from_bytes(counts.to_bytes())


def test_a_file_of_deep_parameters_is_refused():
    counts = Counts(SCHEMES[0], keep_ids=False)
    counts.scheme = SimpleNamespace(to_json=lambda: "[" * 200_000)
    with pytest.raises(SketchFormatError, match="damaged"):
        Counts.from_bytes(counts.to_bytes())


def test_a_table_beyond_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(aggregate, "aligned", Mock(side_effect=MemoryError))
    with pytest.raises(ValueError, match=r"65536 cohorts of 65536 cells take 32\.0 GiB"):
        Counts(Rappor(65536, 2, 65536, f=0.5))


def test_files_of_another_kind_or_version_say_so():
    with pytest.raises(SketchFormatError, match="'CountMin'"):
        Counts.from_bytes(CountMin(8).to_bytes())
    body = SAMPLE[:-8].replace(b'"version": 1', b'"version": 2')
    with pytest.raises(SketchFormatError, match="version 2"):
        Counts.from_bytes(body + checksum(memoryview(body)))


def test_bytes_of_a_report_are_stated():
    assert Counts(Rappor(128, 2, 64, f=0.5)).bytes_per_report == {"payload": 16, "line": 130}
