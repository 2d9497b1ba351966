"""Files of a discovery: every group comes back as it was sent, whatever else a file holds."""

import json

import numpy as np
import pytest

from sfumato.telemetry import PrefixDiscovery, read_prefix_reports, write_reports
from sfumato.telemetry.reports.jsonl import to_lines

DISCOVERY = PrefixDiscovery(epsilon=3, length=5, alphabet="abcdefgh", metric="word")


@pytest.fixture(scope="module")
def sent():
    return DISCOVERY.encode_many(["abcde", "hgfed", "bad"] * 200, seed=1)


def equal(first, second):
    return all(
        np.array_equal(one.payload, two.payload) and np.array_equal(one.cohorts, two.cohorts)
        for one, two in zip(first.groups, second.groups, strict=True)
    )


def test_a_file_of_all_groups_is_read_as_it_was_written(sent, tmp_path):
    assert len(sent.groups) > 1
    assert write_reports(tmp_path / "r.jsonl.gz", sent.groups) == len(sent) == 600
    steps = []
    read = read_prefix_reports(
        [tmp_path / "r.jsonl.gz"], DISCOVERY, advance=lambda done, _: steps.append(done)
    )
    assert equal(sent, read)
    assert read.refused == {}
    assert steps[-1] == 600


def test_lines_in_any_order_and_form_belong_to_the_group_that_they_name(sent):
    lines = b"".join(map(to_lines, sent.groups)).splitlines()
    loose = [json.dumps(dict(reversed(json.loads(line).items()))).encode() for line in lines]
    every = [*loose[::-1], b"", b"not a report", lines[0]]  # which is sent again
    read = read_prefix_reports([every], DISCOVERY)
    assert len(read) == 600
    assert read.refused == {"unreadable": 1, "duplicate": 1}
    assert [len(group) for group in read.groups] == [len(group) for group in sent.groups]


def test_parameters_are_read_back_and_changed_ones_refused():
    text = DISCOVERY.to_json()
    assert PrefixDiscovery.from_json(text) == DISCOVERY
    fields = json.loads(text)
    for change in ({"length": 4}, {"epsilon": 2.5}, {"whole_share": 0.5}, {"alphabet": "hgfedcba"}):
        with pytest.raises(ValueError, match="fingerprint must be that of these parameters"):
            PrefixDiscovery.from_json(json.dumps(fields | change))
    for change in ({"extra": 1}, {"scheme": "rappor"}, {"version": 2}, {"epsilon": "x"}):
        with pytest.raises(ValueError, match="PrefixDiscovery"):
            PrefixDiscovery.from_json(json.dumps(fields | change))
    with pytest.raises(ValueError, match="is not JSON"):
        PrefixDiscovery.from_json("{")


def test_reports_of_other_parameters_are_left_out(sent):
    other = PrefixDiscovery(epsilon=3, length=5, alphabet="abcdefgh", metric="other")
    read = read_prefix_reports([b"".join(map(to_lines, sent.groups))], other)
    assert len(read) == 0
    assert read.refused == {"parameters": 600}
    assert len(other.find(read)) == 0
