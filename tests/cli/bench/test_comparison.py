"""A ratio is marked where it left the spread of the last run, and only there."""

import json

import pytest

from sfumato.cli.bench import comparison


def ratio(low, median, high):
    return {"low": low, "median": median, "high": high}


def row(case="room/case", items=10, at="now", ceiling=None, **peers):
    listed = [
        {"name": name, "ratio": found, "rate": ratio(1, 1, 1), "version": "1"}
        for name, found in peers.items()
    ]
    measured = {"at": at}
    return {
        "case": case,
        "items": items,
        "unit": "items",
        "measured": measured,
        "peers": listed,
        "ceiling": ceiling,
    }


def verdicts(found):
    return {each["name"]: each["change"]["verdict"] for _, each in comparison.changes([found])}


def test_a_planted_slowdown_is_marked_and_noise_is_not():
    before = row(at="before", half=ratio(9, 10, 11), noisy=ratio(7, 10, 13), up=ratio(1, 2, 3))
    now = row(half=ratio(4, 5, 6), noisy=ratio(6, 8, 9), up=ratio(4, 5, 6))
    found = comparison.compare(now, [before])
    assert verdicts(found) == {"half": "slower", "noisy": "within the spread", "up": "faster"}
    assert [each["name"] for _, each in comparison.marked([found])] == ["half", "up"]
    change = found["peers"][0]["change"]
    assert (change["before"], change["times"], change["other_version"]) == (10, 0.5, False)
    assert found["before"] == {"at": "before"}


def test_the_ceiling_is_compared_too():
    limit = {"name": "reading", "rate": ratio(1, 1, 1)}
    before = row(ceiling={**limit, "ratio": ratio(0.5, 0.6, 0.7)})
    now = row(ceiling={**limit, "ratio": ratio(0.2, 0.3, 0.4)})
    assert verdicts(comparison.compare(now, [before])) == {"reading": "slower"}


def test_other_cases_and_other_sizes_are_not_compared():
    now = row(peer=ratio(1, 1, 1))
    for other in (row("room/other", peer=ratio(9, 9, 9)), row(items=11, peer=ratio(9, 9, 9))):
        assert comparison.compare(now, [other]) == now


def test_a_peer_that_came_went_or_changed_its_version():
    before = row(gone=ratio(9, 9, 9), other=ratio(9, 9, 9))
    before["peers"].append({"name": "came", "missing": "came is not installed"})
    now = row(came=ratio(1, 1, 1), other=ratio(1, 1, 1))
    now["peers"].append({"name": "gone", "missing": "gone is not installed"})
    now["peers"][1]["version"] = "2"
    found = comparison.compare(now, [before])
    assert verdicts(found) == {"other": "slower"}
    assert found["peers"][1]["change"]["other_version"]


def test_cases_that_were_not_measured_again_stay_in_the_report():
    before = [row("b/old", at="before"), row("a/both", at="before"), row("a/both", items=99)]
    found = comparison.merged([row("a/both"), row("c/new")], before)
    names = [(each["case"], each["items"], each["measured"]["at"]) for each in found]
    assert names == [
        ("a/both", 10, "now"),
        ("a/both", 99, "now"),
        ("b/old", 10, "before"),
        ("c/new", 10, "now"),
    ]


@pytest.mark.parametrize(
    "content",
    [
        "not JSON",
        "[]",
        "{}",
        json.dumps({"format": 99, "rows": []}),
        json.dumps({"format": 1, "rows": [{"case": "a/b"}]}),
        json.dumps({"format": 1, "rows": [row(peer={"median": 1})]}),
    ],
)
def test_a_file_that_is_no_report_is_refused(tmp_path, content):
    path = tmp_path / "bench.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="no report of sfumato bench"):
        comparison.read(path)


def test_no_file_is_no_earlier_run(tmp_path):
    assert comparison.read(tmp_path / "bench.json") == []
