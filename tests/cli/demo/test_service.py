"""The demo ends with the service in its terminal, until Ctrl-C, unless it is to end by itself."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager

import httpx
import pytest

PATIENCE = 60.0
DEMO = """
import duckdb  # as the tour does
import sfumato.cli.demo
sfumato.cli.demo.summary = lambda console=None: {}
from sfumato.cli import app
app(["demo"])
"""


@contextmanager
def in_terminal(code, **variables):
    """A process whose terminal has 80 columns, and what it has printed there so far."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SFUMATO_", "ONCE"))}
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environment, "TERM": "xterm", **variables},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C reaches its group
    )
    os.close(theirs)

    def until(pattern):
        """What is printed up to a pattern, without colours; all of it for None."""
        text, end = "", time.monotonic() + PATIENCE
        while pattern is None or not re.search(pattern, text):
            assert time.monotonic() < end, text
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the process has ended
                    break
                text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part.decode())
        return text

    try:
        yield process, until, lambda data: os.write(ours, data)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        os.close(ours)


def test_the_demo_ends_with_the_service_until_ctrl_c():
    with in_terminal(DEMO) as (process, until, write):
        text = until(r"#key=\S+\r?\n")
        url, secret = re.search(r"^(http://127\.0\.0\.1:\d+)/#key=(\S+)\r?$", text, re.M).groups()
        assert "Ctrl-C" in text
        headers = {"authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
            assert client.get("/overview").json()["generated"] is True
            begin = client.get("/telemetry/favourite%20genre").json()["reports"]
            while client.get("/telemetry/favourite%20genre").json()["reports"] == begin:
                assert process.poll() is None  # visitors report without end
        write(b"\x03")
        rest = until(None)
        assert process.wait(PATIENCE) == 0
        assert "Traceback" not in text + rest
        for word in ("error", "leaked"):  # nothing is printed but the sentences above
            assert word not in (text + rest).lower()


def test_once_the_demo_ends_by_itself_in_a_terminal():
    with in_terminal(DEMO, ONCE="1") as (process, until, _):
        text = until(None)
        assert process.wait(PATIENCE) == 0
        assert "http" not in text
        assert "Traceback" not in text


@pytest.mark.parametrize("ends", [["--once"], ["--json"]])
def test_the_demo_ends_after_the_tables_where_that_is_wanted(monkeypatch, ends):
    from typer.testing import CliRunner

    import sfumato.cli
    import sfumato.cli.demo as package

    monkeypatch.delenv("ONCE", raising=False)
    monkeypatch.setattr(package, "summary", lambda console=None: {})
    begun = []
    monkeypatch.setattr(sfumato.cli, "_demo_service", begun.append)
    assert CliRunner().invoke(sfumato.cli.app, ["demo", *ends]).exit_code == 0
    assert CliRunner().invoke(sfumato.cli.app, ["demo"], env={"ONCE": "1"}).exit_code == 0
    assert begun == []
    assert CliRunner().invoke(sfumato.cli.app, ["demo"], env={"ONCE": ""}).exit_code == 0
    assert len(begun) == 1
