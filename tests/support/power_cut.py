"""A process whose SQLite runs on a disk that loses what was not synchronised.

`python power_cut.py FOLDER SEED MODE` fills a store while every write and synchronisation of its
files is recorded, beneath SQLite. At random ones of them it writes to FOLDER what a power cut would
leave: all that was synchronised, and of later writes some, some torn, some not; and beside it what
had been acknowledged by then. MODE "full" leaves the store as it is; "off" takes its
synchronisation away, which the test must notice.
"""

import _sqlite3
import ctypes as c
import json
import random
import sqlite3
import sys
import threading
from pathlib import Path

from sfumato.store import EventBatch, open_store, sqlite

SECTOR = 512
DISKS = []  # SQLite calls them to the end of the process
LIBRARY = c.CDLL(_sqlite3.__file__)
Write = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_int, c.c_int64)
Truncate = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int64)
Sync = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_int)
# SQLite keeps the pointer of the name, so it must be passed on, not a copy of the text.
Open = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_void_p, c.c_int, c.c_void_p)


class Methods(c.Structure):
    """sqlite3_io_methods, of version 3."""

    _fields_ = [
        ("iVersion", c.c_int),
        ("xClose", c.c_void_p),
        ("xRead", c.c_void_p),
        ("xWrite", c.c_void_p),
        ("xTruncate", c.c_void_p),
        ("xSync", c.c_void_p),
        ("others", c.c_void_p * 13),
    ]


class Vfs(c.Structure):
    """The beginning of sqlite3_vfs."""

    _fields_ = [
        ("iVersion", c.c_int),
        ("szOsFile", c.c_int),
        ("mxPathname", c.c_int),
        ("pNext", c.c_void_p),
        ("zName", c.c_char_p),
        ("pAppData", c.c_void_p),
        ("xOpen", c.c_void_p),
    ]


class Disk:
    """Content that is safe, and what was written to each file since its last synchronisation."""

    def __init__(self, prefix, cut):
        self._prefix, self._cut = prefix, cut
        self.lock = threading.RLock()
        self.safe, self.pending = {}, {}
        self._names, self._kept = {}, []
        LIBRARY.sqlite3_vfs_find.restype = c.POINTER(Vfs)
        vfs = LIBRARY.sqlite3_vfs_find(None).contents
        usual = Open(vfs.xOpen)

        def opened(own, name, file, flags, out):
            code = usual(own, name, file, flags, out)
            path = c.string_at(name).decode() if name else ""
            if code == 0 and path.startswith(prefix):
                self._watch(path, file)
            return code

        self._kept.append(Open(opened))
        vfs.xOpen = c.cast(self._kept[-1], c.c_void_p)

    def _watch(self, name, file):
        with self.lock:
            self._names[file] = name
            self.safe.setdefault(name, b"")
            self.pending.setdefault(name, [])
        pointer = c.cast(file, c.POINTER(c.POINTER(Methods)))
        own = Methods.from_buffer_copy(pointer.contents.contents)
        write, truncate, sync = Write(own.xWrite), Truncate(own.xTruncate), Sync(own.xSync)

        def on_write(file, data, size, offset):
            with self.lock:
                self._cut(self)
                code = write(file, data, size, offset)
                self.pending[self._names[file]].append((offset, c.string_at(data, size)))
            return code

        def on_truncate(file, size):
            with self.lock:
                self._cut(self)
                self.pending[self._names[file]].append((size, None))
                return truncate(file, size)

        def on_sync(file, flags):
            with self.lock:
                self._cut(self)
                code = sync(file, flags)
                name = self._names[file]
                self.safe[name] = content(self.safe[name], self.pending[name])
                self.pending[name] = []
            return code

        calls = (Write(on_write), Truncate(on_truncate), Sync(on_sync))
        own.xWrite, own.xTruncate, own.xSync = (c.cast(each, c.c_void_p) for each in calls)
        self._kept += [own, calls]
        pointer[0] = c.pointer(own)


def content(data, writes):
    """The bytes of a file after writes; None for bytes cuts the file."""
    out = bytearray(data)
    for offset, part in writes:
        if part is None:
            del out[offset:]
        else:
            out.extend(bytes(max(0, offset - len(out))))
            out[offset : offset + len(part)] = part
    return bytes(out)


def survivors(writes, draws):
    """Of writes that were not synchronised some, in order; some of only their first sectors."""
    for offset, part in writes:
        fate = draws.random()
        if fate < 0.4:
            continue
        if part is not None and fate < 0.6:
            part = part[: SECTOR * draws.randrange(1 + len(part) // SECTOR)]
        yield offset, part


class PowerCuts:
    """Images of a database at random moments, with what had been acknowledged by then.

    MODE "off" takes the synchronisation of SQLite away.
    """

    def __init__(self, folder, draws, acknowledged, mode):
        self.path, self._folder = str(folder / "live.db"), folder
        self._draws, self._acknowledged = draws, acknowledged
        self.images, self.started = 0, False
        DISKS.append(Disk(self.path, self._cut))
        sqlite.CHECKPOINT = 60  # so that the log is copied to the file often
        if mode == "off":
            _take_synchronisation_away()

    def _cut(self, disk):
        if not self.started or self._draws.random() >= 0.02:
            return
        acknowledged = json.dumps(self._acknowledged)  # before anything is read of the disk
        for end in ("", "-wal"):
            name = self.path + end
            some = survivors(disk.pending.get(name, []), self._draws)
            data = content(disk.safe.get(name, b""), some)
            (self._folder / f"image-{self.images}.db{end}").write_bytes(data)
        (self._folder / f"image-{self.images}.json").write_text(acknowledged)
        self.images += 1


def _take_synchronisation_away():
    usual = sqlite.SqliteBackend._connect

    def connect(self):
        connection = usual(self)
        connection.execute("PRAGMA synchronous = OFF")
        connection.set_authorizer(
            lambda action, name, value, *_: (
                sqlite3.SQLITE_IGNORE
                if action == sqlite3.SQLITE_PRAGMA and name == "synchronous" and value
                else sqlite3.SQLITE_OK
            )
        )
        return connection

    sqlite.SqliteBackend._connect = connect


def main():
    draws, acknowledged = random.Random(int(sys.argv[2])), []
    cuts = PowerCuts(Path(sys.argv[1]), draws, acknowledged, sys.argv[3])
    with open_store(cuts.path) as store:
        store.ledger.create("views", epsilon=1000)
        store.append({"users": ["first"], "items": ["x"]})
        cuts.started = True
        for k in range(120):
            ids = [f"{k}-{j}" for j in range(draws.choice((1, 1, 30)))]
            store.append(EventBatch(["ann"] * len(ids), ["x"] * len(ids), event_ids=ids))
            acknowledged += [("event", each) for each in ids]
            if k % 10 == 0:
                acknowledged.append(("charge", store.ledger.charge("views", 0.001, "a count")))
        cuts.started = False
    print(cuts.images)


if __name__ == "__main__":
    main()
