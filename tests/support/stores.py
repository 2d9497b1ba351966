"""Stores that tests run on: SQLite files, and databases of one real PostgreSQL per process."""

import ctypes
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from sfumato.store import open_store

BACKENDS = ("sqlite", "postgresql")
MISSING = (
    "no PostgreSQL: `make postgres` installs Debian's server, as root, and the extra `postgres` "
    "its driver"
)
PR_SET_PDEATHSIG = 1


def _binaries():
    """The folder of the newest server from version 15 on, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    found = [each for each in found if int(each.parts[4]) >= 15]
    return found[-1].parent if found else None


def _unprivileged():
    """What runs the server, which refuses to be root: options of Popen."""
    if os.geteuid() != 0:
        return {}
    names = {each.pw_name: each for each in pwd.getpwall()}
    user = names.get("postgres") or names["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class PostgresServer:
    """A server on the loopback, with its data in a temporary folder."""

    def __init__(self, binaries):
        self._binaries, self._user = binaries, _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="sfumato-postgres-"))
        if self._user:
            os.chown(self.folder, self._user["user"], self._user["group"])
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._numbers, self._free = itertools.count(), []
        options = ("-A", "trust", "-U", "sfumato", "--no-locale", "-E", "UTF8", "--no-sync")
        subprocess.run(
            [binaries / "initdb", "-D", self.folder / "data", *options],
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            **self._user,
        )
        self.start()

    def start(self):
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "shared_buffers": "64MB",
            "max_connections": 100,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self.folder / "data", *options],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=_die_with_parent,
                **self._user,
            )
        end = time.monotonic() + 120
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < end, "PostgreSQL does not start"
            time.sleep(0.02)

    def stop(self, how=signal.SIGINT):
        """End the server: by default after rolling back; SIGKILL ends all its processes at once."""
        if how == signal.SIGKILL:
            os.killpg(self._process.pid, how)
        else:
            self._process.send_signal(how)
        self._process.wait(timeout=120)

    @contextmanager
    def hung(self):
        """The server neither answers nor drops a connection."""
        tasks = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        processes = [self._process.pid, *map(int, tasks.read_text().split())]
        for process in processes:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                os.kill(process, signal.SIGCONT)

    def remove(self):
        if self._process.poll() is None:
            self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, statement, database="postgres"):
        import psycopg

        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute(statement)

    def address(self, database):
        return f"postgresql://sfumato@127.0.0.1:{self.port}/{database}"

    def new_database(self):
        """The address of an empty database: one that was given back, or a new one."""
        if self._free:
            return self._free.pop()
        name = f"store_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.address(name)

    def give_back(self, address):
        self.run("DROP SCHEMA IF EXISTS sfumato CASCADE", address.rpartition("/")[2])
        self._free.append(address)

    def _answers(self):
        import psycopg

        try:
            psycopg.connect(self.address("postgres"), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def small_disk(folder, nbytes, owner=None):
    """A disk of so many bytes in a folder, which root alone can mount; others skip."""
    folder.mkdir()
    owner = (owner or folder).stat()
    options = f"size={nbytes},mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        pytest.skip("a small disk is mounted by root only")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)  # its processes end later


@contextmanager
def store_on_small_disk(kind, tmp_path, nbytes):
    """The location of a new store on a small disk, and the folder of that disk."""
    if kind == "sqlite":
        with small_disk(tmp_path / "small", nbytes) as disk:
            yield str(disk / "shop.db"), disk
        return
    server = PostgresServer(_binaries())
    try:
        with small_disk(server.folder / "small", nbytes, server.folder) as disk:
            server.run(f"CREATE TABLESPACE small LOCATION '{disk}'")
            server.run("CREATE DATABASE small TABLESPACE small")
            try:
                yield server.address("small"), disk
            finally:
                server.stop(signal.SIGKILL)
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres_server():
    """Debian's server, which `make postgres` installs; no test installs anything."""
    binaries = _binaries()
    if binaries is None or importlib.util.find_spec("psycopg") is None:
        # What runs before a change lands sets the variable: there the tests must run.
        required = os.environ.get("SFUMATO_POSTGRES") == "required"
        pytest.fail(MISSING) if required else pytest.skip(MISSING)
    server = PostgresServer(binaries)
    yield server
    server.remove()


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


@pytest.fixture
def new_location(backend, request, tmp_path):
    """A function that makes the location of a new store; "sqlite" or "postgresql" of its own."""
    numbers, databases = itertools.count(), []

    def make(kind=backend):
        if kind == "postgresql":
            databases.append(request.getfixturevalue("postgres_server").new_database())
            return databases[-1]
        return str(tmp_path / f"store {next(numbers)}.db")

    yield make
    for address in databases:
        request.getfixturevalue("postgres_server").give_back(address)


@pytest.fixture
def location(new_location):
    return new_location()


@pytest.fixture
def store(location):
    with open_store(location) as found:
        yield found


def run_sql(location, statement, parameters=()):
    """Run a statement beside the store; return the rows, if there are any."""
    if location.startswith("postgresql:"):
        import psycopg

        with psycopg.connect(location, options="-c search_path=sfumato") as connection:
            done = connection.execute(statement, parameters)
            return done.fetchall() if done.description else []
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(location, timeout=60)) as file, file:
        return file.execute(statement, parameters).fetchall()
