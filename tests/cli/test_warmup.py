"""Warmup compiles what each room's first call needs, in processes of its own, and times it."""

import sys

import pytest

from sfumato.cli import first_calls
from support.cli_workspace import run, run_json


def test_a_second_warmup_finds_every_kernel_compiled(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (before,) = run_json(tmp_path, "warmup", "privacy")["rows"]
    (after,) = run_json(tmp_path, "warmup", "privacy")["rows"]
    assert before["room"] == after["room"] == "privacy noise"
    assert before["compiled"] > 0 == after["compiled"]
    assert before["seconds"] > before["seconds_after"] > 0


@pytest.mark.parametrize("room", first_calls.ROOMS)
def test_the_call_of_each_room_runs(room):
    first_calls.ROOMS[room]()


def test_every_call_is_counted(monkeypatch):
    monkeypatch.setattr(first_calls, "_timed", lambda room: (len(room), 0))
    steps = []
    rows = first_calls.warm(["a", "bc"], lambda *step: steps.append(step))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert rows[1] == {"room": "bc", "seconds": 2, "compiled": 0, "seconds_after": 2}


def test_a_room_that_is_not_there_and_a_call_that_fails_are_named(tmp_path, monkeypatch):
    assert "no room is called kitchen" in run(tmp_path, "warmup", "kitchen", code=2)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "the first call of privacy noise failed" in run(tmp_path, "warmup", "privacy", code=2)
