"""The trainer's process: follows the log, hands models to the server, stores snapshots.

It is started with one end of a socket. Over it come the settings, and the end when the server
stops; back go messages, each with the descriptor of a file in memory that contains a model. Such a
file is never changed after it was sent, so readers need no lock; it goes with its last reader.
"""

import json
import os
import select
import signal
import socket
import sys
import tempfile
import time
from typing import Any

import msgspec

from sfumato.errors import StoreUnavailable
from sfumato.serve.config import ServiceConfig
from sfumato.serve.learning.learner import READ, Learner
from sfumato.serve.logs import configure, log
from sfumato.store import Store, open_store

__all__ = ["MESSAGE", "SNAPSHOT", "Trainer", "load_learner", "main", "save_learner"]

MESSAGE = 512  # bytes of a message, padded
SNAPSHOT = "recommender"
PATIENCE = 1.0  # seconds before a database that failed is tried again


def load_learner(store: Store, config: ServiceConfig) -> tuple[Learner, int]:
    """Return the learner of the newest snapshot and its erasures; a new one if there is none.

    A snapshot from before an erasure contains what was erased: it is not used, and its number of
    erasures is returned, so that the first round relearns the log and drops it.
    """
    erased = store.erasures()
    last = erased[-1].number if erased else 0
    found = store.load_snapshot(SNAPSHOT)
    if found is not None and found.data is not None:
        size = int.from_bytes(found.data[:8], "big")
        if size < last:
            return Learner(config.model), size
        learner = Learner.from_bytes(found.data[8:], config.model)
        if learner is not None:
            return learner, last
    return Learner(config.model), last


def save_learner(store: Store, learner: Learner, erasures: int, versions: int) -> int:
    """Store a snapshot of the complete blocks, of the log after so many erasures."""
    data, position = learner.to_bytes()
    store.save_snapshot(SNAPSHOT, erasures.to_bytes(8, "big") + data, position, keep=versions)
    return position


class Trainer:
    """One round after the other: read, learn, hand over, and now and then store a snapshot."""

    def __init__(self, store: Store, config: ServiceConfig, channel: socket.socket) -> None:
        self.store, self.config, self.channel = store, config, channel
        self.learner, self.erasures = load_learner(store, config)
        self.saved = self.learner.blocks
        self._last_save = time.monotonic()
        self._sent = -1

    def run(self) -> None:
        """Work until the server closes its end; then store a snapshot."""
        while True:
            begin = time.monotonic()
            try:
                self.round()
                pause = self.config.model.refresh_seconds - (time.monotonic() - begin)
            except StoreUnavailable as error:
                log("warning", "trainer waits for the database", error=error)
                pause = PATIENCE
            except (BrokenPipeError, ConnectionResetError):  # the server closed its end meanwhile
                break
            if self._stopped(max(0.0, pause)):
                break
        self._read(self.config.shutdown_seconds / 2)
        if self.learner.blocks > self.saved:
            self._save()

    def round(self) -> None:
        """Take what is new in the log."""
        erased = self.store.erasures(self.erasures)
        if erased:
            self._relearn(erased[-1].number)
        # Readers get a model within the time of a refresh also while much is to be read.
        self._read(self.config.model.refresh_seconds)
        if self.learner.position != self._sent:
            self._send()
        if (
            self.learner.blocks > self.saved
            and time.monotonic() - self._last_save >= self.config.model.snapshot_seconds
        ):
            self._save()

    def _read(self, seconds: float) -> None:
        """Learn what is new in the log, as far as the time goes."""
        begin = time.monotonic()
        while True:
            batch = self.store.read(self.learner.position, READ)
            self.learner.feed(batch)
            if len(batch) < READ or time.monotonic() - begin > seconds:
                return

    def _relearn(self, number: int) -> None:
        """Learn the log from its start, without what was erased; then drop older snapshots."""
        log("info", "relearning after an erasure", erasure=number)
        learner = Learner(self.config.model)
        while True:
            batch = self.store.read(learner.position, READ)
            learner.feed(batch)
            if len(batch) < READ:
                break
        self.learner, self.erasures = learner, number
        self._send()
        self._save()
        self.store.prune_snapshots(SNAPSHOT, 1)

    def _save(self) -> None:
        position = save_learner(
            self.store, self.learner, self.erasures, self.config.model.snapshots
        )
        self.saved, self._last_save = self.learner.blocks, time.monotonic()
        log("debug", "snapshot stored", position=position)

    def _send(self) -> None:
        """Hand the model over; wait while the server has not taken the last ones."""
        model = self.learner.model()
        facts = {
            "position": self.learner.position,
            "erasures": self.erasures,
            "failures": self.learner.failures,
            "time": time.time(),
        }
        message = json.dumps(facts).encode().ljust(MESSAGE)
        with _memory_file() as file:
            if model is not None:
                file.write(model.to_bytes())
                file.flush()
            socket.send_fds(self.channel, [message], [file.fileno()])
        self._sent = self.learner.position

    def _stopped(self, seconds: float) -> bool:
        """Wait; return whether the server closed its end meanwhile."""
        ready, _, _ = select.select([self.channel], [], [], seconds)
        try:
            return bool(ready) and not self.channel.recv(1)
        except ConnectionResetError:
            return True


def _memory_file() -> Any:
    """Return a file without a name, in memory where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("model", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()


def main() -> None:
    """Run the trainer on the socket that the first argument numbers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server says when to stop
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(5)  # readers come first
    channel = socket.socket(fileno=int(sys.argv[1]))
    size = int.from_bytes(_exactly(channel, 4), "big")
    config = msgspec.json.decode(_exactly(channel, size), type=ServiceConfig)
    configure(config.log_level)
    while True:
        try:
            store = open_store(config.database, create=False)
            break
        except StoreUnavailable:
            if select.select([channel], [], [], PATIENCE)[0]:
                return
    with store:
        Trainer(store, config, channel).run()


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = channel.recv(size - len(data))
        if not part:
            sys.exit(0)
        data += part
    return data


if __name__ == "__main__":
    main()
