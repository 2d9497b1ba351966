"""The served model: taken from the trainer's process and swapped at once; readers never wait."""

import asyncio
import json
import mmap
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

import msgspec

from sfumato.recommend.base import load
from sfumato.serve.config import ServiceConfig
from sfumato.serve.learning.trainer import MESSAGE
from sfumato.serve.logs import log

__all__ = ["ModelFeed", "ServedModel"]

RESTART = 1.0  # seconds before a trainer that ended is started again


@dataclass(frozen=True)
class ServedModel:
    """A model that does not change, and what it has learned."""

    model: Any  # None before the first event
    position: int
    erasures: int
    learned: float


class ModelFeed:
    """Starts the trainer, watches it, and loads each of its models aside before it is served."""

    def __init__(self, config: ServiceConfig) -> None:
        self._config = config
        self.current = ServedModel(None, 0, 0, time.time())
        self.arrived = asyncio.Event()  # a first model, if only of an empty log
        self.failures = 0
        self.restarts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._waiting: tuple[dict[str, Any], int] | None = None
        self._loading = False
        self._stopping = False
        self._watch: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether the trainer runs."""
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Start the trainer, and start it again whenever it ends."""
        self._spawn()
        self._watch = asyncio.create_task(self._watching())

    async def stop(self, seconds: float) -> None:
        """Let the trainer store its snapshot and end; kill it if it takes too long."""
        self._stopping = True
        if self._watch is not None:
            self._watch.cancel()
        self._detach()
        if self._process is not None:
            try:
                await asyncio.to_thread(self._process.wait, seconds)
            except subprocess.TimeoutExpired:
                log("warning", "trainer killed")
                self._process.kill()
                await asyncio.to_thread(self._process.wait)

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "sfumato.serve.learning.trainer", str(theirs.fileno())]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        settings = msgspec.json.encode(self._config)
        ours.sendall(len(settings).to_bytes(4, "big") + settings)
        ours.setblocking(False)
        self._channel = ours
        asyncio.get_running_loop().add_reader(ours, self._receive)

    def _detach(self) -> None:
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None
        if self._waiting is not None:
            os.close(self._waiting[1])
            self._waiting = None

    async def _watching(self) -> None:
        while True:
            await asyncio.sleep(RESTART)
            if not self.alive and not self._stopping:
                log("error", "trainer ended; starting it again")
                self.restarts += 1
                self._detach()
                self._spawn()

    def _receive(self) -> None:
        """Take all messages that are there; only the newest is loaded."""
        assert self._channel is not None
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._channel, MESSAGE, 1)
            except BlockingIOError:
                break
            except OSError:
                data, descriptors = b"", []
            if len(data) != MESSAGE or not descriptors:
                self._detach()
                return
            if self._waiting is not None:
                os.close(self._waiting[1])
            self._waiting = json.loads(data), descriptors[0]
        if self._waiting is not None and not self._loading:
            self._loading = True
            asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        try:
            while self._waiting is not None:
                (facts, descriptor), self._waiting = self._waiting, None
                try:
                    model = await asyncio.to_thread(_model_in, descriptor)
                finally:
                    os.close(descriptor)
                self.failures = facts["failures"]
                self.current = ServedModel(
                    model, facts["position"], facts["erasures"], facts["time"]
                )
                self.arrived.set()
        finally:
            self._loading = False


def _model_in(descriptor: int) -> Any:
    """Load a model from a file in memory, and lay out what its first list needs."""
    size = os.fstat(descriptor).st_size
    if not size:
        return None
    # Without a copy of the whole file: for as long as one takes, no request is answered.
    with mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
        model = load(view)
    model.recommend(model.catalogue_.ids[0], n=1)
    return model
