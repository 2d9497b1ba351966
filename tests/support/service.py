"""A service in a process of its own on a free port of loopback, with keys of every scope."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx

from sfumato.store import open_store

# Seconds after which a process that does not answer is taken for broken; a busy machine needs more.
PATIENCE = float(os.environ.get("SFUMATO_PATIENCE", "60"))
SCOPES = ("ingest", "read", "admin")


class ServiceProcess:
    """One run of `sfumato serve` after another on the same database."""

    def __init__(self, folder, settings="", database=None):
        self.folder = Path(folder)
        self.database = str(database or self.folder / "shop.db")
        self.settings = settings
        self.log = self.folder / "service.log"
        with open_store(self.database) as store:
            self.keys = {scope: store.create_key(scope, [scope])[1] for scope in SCOPES}
        self.process = self.port = None

    def start(self, *options, ready=True):
        """Start it; return when it is ready."""
        config = self.folder / "serve.toml"
        config.write_text(self.settings)
        begin = self.log.stat().st_size if self.log.exists() else 0
        command = [sys.executable, "-m", "sfumato", "serve", "--database", self.database]
        command += ["--port", "0", "--config", str(config), *options]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SFUMATO_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, env=environment)
        self.port = self._await(lambda: self._listening(begin))
        if ready:
            self._await(self._ready)
        return self

    def lines(self, begin=0):
        """The records of the log."""
        text = self.log.read_bytes()[begin:].decode()
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def client(self, scope=None, **options):
        """A plain client of HTTP with the key of a scope."""
        headers = {"authorization": f"Bearer {self.keys[scope]}"} if scope else {}
        url = f"http://127.0.0.1:{self.port}"
        return httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, **options)

    def stop(self):
        """Stop it gracefully; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.process = None
        return code

    def kill(self):
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process = None

    def until(self, condition):
        """Wait until a condition is true; fail if it never is."""
        return self._await(condition)

    def learned(self):
        """Wait until the model has learned all of the log."""
        with self.client("read") as client:

            def caught_up():
                answer = client.get("/readyz")
                return answer.status_code == 200 and answer.json()["lag"] == 0

            self._await(caught_up)

    def _listening(self, begin):
        ports = [line["port"] for line in self.lines(begin) if line["event"] == "listening"]
        return ports[0] if ports else None

    def _ready(self):
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def _await(self, condition):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            if self.process.poll() is not None:
                raise AssertionError(f"the service ended: {self.log.read_text()[-2000:]}")
            time.sleep(0.02)
        raise AssertionError(f"the service did not answer: {self.log.read_text()[-2000:]}")


@contextmanager
def running(folder, settings="", **options):
    """A service that runs in the block, and is ended with it."""
    service = ServiceProcess(folder, settings, **options)
    try:
        yield service.start()
    finally:
        if service.process is not None:
            service.kill()
