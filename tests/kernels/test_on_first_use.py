"""A module of kernels runs when a name of it is first used: once, whoever comes first."""

import importlib
import sys
import threading
import types

import pytest

import sfumato.kernels

SLOW = """
import threading, time
RUNS.append(1)
first = 1
time.sleep(0.05)
last = 2
"""


@pytest.fixture
def pending(tmp_path, monkeypatch):
    """Writes a file of the kernels' folder and imports it; returns the module."""
    monkeypatch.setattr(sfumato.kernels, "__path__", [*sfumato.kernels.__path__, str(tmp_path)])

    def write(text):
        (tmp_path / "made_for_a_test.py").write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module("sfumato.kernels.made_for_a_test")

    yield write
    sys.modules.pop("sfumato.kernels.made_for_a_test", None)
    vars(sfumato.kernels).pop("made_for_a_test", None)


def test_importing_a_module_does_not_run_its_file(pending):
    module = pending("raise RuntimeError('it ran')")
    assert module.__name__ == "sfumato.kernels.made_for_a_test"
    assert module is sys.modules[module.__name__]
    with pytest.raises(RuntimeError, match="it ran"):
        module.anything  # noqa: B018


def test_a_module_that_has_run_is_a_plain_module(pending):
    module = pending("value = 3")
    assert module.value == 3
    assert type(module) is types.ModuleType
    with pytest.raises(AttributeError, match="nothing"):
        module.nothing  # noqa: B018


def test_threads_wait_until_the_file_has_run_once(pending, monkeypatch):
    runs = []
    monkeypatch.setattr("builtins.RUNS", runs, raising=False)
    module, found = pending(SLOW), []

    def look():
        found.append((module.first, module.last))

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(1, 2)] * 8
    assert runs == [1]


def test_what_failed_is_tried_again(pending, monkeypatch):
    monkeypatch.setattr("builtins.RUNS", [], raising=False)
    module = pending("RUNS.append(1)\nif len(RUNS) == 1:\n    raise OSError('once')\nvalue = 4")
    with pytest.raises(OSError, match="once"):
        module.value  # noqa: B018
    assert module.value == 4


def test_a_name_set_before_the_first_use_stays(pending):
    module = pending("value = 5\nother = 6")
    module.value = 7
    assert (module.value, module.other) == (7, 6)


def test_names_are_listed_and_reloaded(pending):
    assert "value" in dir(pending("value = 8"))
    module = importlib.reload(sys.modules["sfumato.kernels.made_for_a_test"])
    assert module.value == 8
