"""The suite: which cases there are, one process with one thread, and a report after every case."""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from sfumato.cli.bench import comparison
from sfumato.cli.bench.contest import Case

__all__ = ["HTML", "JSON", "ROOMS", "cases", "chosen", "one_thread", "run"]

# The modules of this folder that have CASES, and the rooms that they measure.
ROOMS = {
    "sketches": ("sketch",),
    "privacy": ("privacy",),
    "retrieval": ("retrieve", "profile"),
    "recommending": ("recommend",),
    "telemetry": ("telemetry",),
    "density": ("density",),
    "mining": ("mine",),
}
JSON, HTML = "bench.json", "bench.html"
# Read by the linear algebra, polars and rensa when they are imported.
THREADS = tuple(
    f"{library}_THREADS"
    for library in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMBA_NUM", "POLARS_MAX", "RAYON_NUM")
)
PACKAGES = {"DuckDB": "duckdb", "NumPy": "numpy", "OpenDP": "opendp", "SciPy": "scipy"}
PACKAGES |= {"faiss": "faiss-cpu", "scikit-learn": "scikit-learn"}


def cases(rooms: set[str] | None = None) -> list[Case]:
    """Return the cases of some rooms, all by default; other rooms are not imported."""
    found: list[Case] = []
    for module, measured in ROOMS.items():
        if rooms is None or rooms & set(measured):
            found += import_module(f"sfumato.cli.bench.{module}").CASES
    return found


def chosen(only: list[str] | None) -> list[Case]:
    """Return the cases that are named ROOM or ROOM/CASE, all for None.

    Raises
    ------
    ValueError
        If a name is none of them.
    """
    if not only:
        return cases()
    rooms = {name for measured in ROOMS.values() for name in measured}
    found = cases({each.partition("/")[0] for each in only} & rooms)
    for each in only:
        if each not in rooms and not any(each == case.name for case in found):
            names = ", ".join([*sorted(rooms), *(case.name for case in cases())])
            raise ValueError(f"bench: --only must be a room or a case, not {each:.100}: {names}.")
    return [case for case in found if {case.name, case.name.partition("/")[0]} & set(only)]


@contextmanager
def one_thread() -> Iterator[None]:
    """Let linear algebra and peers use one thread, also those that are imported later."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    import numpy  # noqa: F401  # its linear algebra is to be limited
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run(
    wanted: list[Case],
    folder: Path,
    measure: Callable[[Case], dict[str, Any]],
    advance: Callable[[int, int | None], None],
) -> list[dict[str, Any]]:
    """Measure cases one by one, and write both reports after each.

    What was measured is thus there when a run is stopped. Other cases keep their rows of earlier
    runs.

    Parameters
    ----------
    wanted : list of Case
        What to measure.
    folder : Path
        Folder of the reports, and of those of the last run.
    measure : callable
        From a case to its row.
    advance : callable
        Called with the number of cases done and of all.

    Returns
    -------
    list of dict
        The row of each case, with the changes since the last run.
    """
    before = comparison.read(folder / JSON)
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    measured = _circumstances()
    for done, case in enumerate(wanted):
        advance(done, len(wanted))
        row = _versioned({**measure(case), "measured": measured})
        rows.append(comparison.compare(row, before))
        _write(folder, comparison.merged(rows, before), measured)
    advance(len(wanted), len(wanted))
    return rows


def _circumstances() -> dict[str, str]:
    """When and on what a run is made."""
    import numpy

    import sfumato
    from sfumato.kernels.jit import processor

    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "sfumato": sfumato.__version__,
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "processor": str(processor()[0]),
    }


def _versioned(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the version of each peer's package."""
    peers = [{**each, "version": _version(each["name"])} for each in row["peers"]]
    return {**row, "peers": peers}


def _version(peer: str) -> str | None:
    """The version of a peer, whose name begins with that of its package."""
    package = peer.split(",")[0].split("'")[0].strip()
    try:
        return metadata.version(PACKAGES.get(package, package))
    except metadata.PackageNotFoundError:
        return None


def _write(folder: Path, rows: list[dict[str, Any]], measured: dict[str, str]) -> None:
    import json

    from sfumato.cli import printing
    from sfumato.cli.bench import page
    from sfumato.core.file_format import write_together

    content = {"format": comparison.FORMAT, "measured": measured, "rows": rows}
    text = json.dumps(printing.plain(content), indent=1, allow_nan=False) + "\n"
    html = page.html(content)
    write_together({folder / JSON: text.encode(), folder / HTML: html.encode()})
