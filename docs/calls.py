"""Writes docs/calls.md from benchmarks/results: single calls, first use, reading (make docs)."""

import json
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
PARTS = {
    "sketches": "Sketches",
    "models": "Models: 3,700 items unless stated",
    "indexes": "Indexes",
    "telemetry": "Telemetry and classification",
    "noise": "Exact noise at a scale that was not drawn from before",
    "profiles": "Released profiles",
}
FIRST = {
    "imports": "Importing a room with the names of its first call",
    "fresh": "First call with an empty cache of kernels: everything is compiled",
    "warm": "First call of a process that finds the kernels compiled",
    "commands": "Short commands, from start to end",
}
LONG = ("array", "update, 10 of")  # rows of which others say as much
INTRODUCTION = """# Single calls, first use and reading

Written by `make docs` from the JSON of `python benchmarks/small_calls.py`, `first_use.py`,
`reading.py` and `blas_threads.py`: {cpu}, Python {python}, Numba {numba}.
What a service, a notebook or a shell does one thing at a time. CPU time of the whole process, one
thread, calls of ours and of peers taking turns; median of runs, in microseconds unless stated. A
figure above its limit is bold.
"""


def read(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


def figure(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def limited(value, limit):
    """A figure and its limit, in bold where it is above."""
    text = figure(value)
    if limit is None:
        return f"{text} | "
    return f"{f'**{text}**' if value > limit else text} | {figure(limit)}"


def calls(rows):
    lines = ["| call | us | at most | peers |", "|---|---|---|---|"]
    for row in rows:
        if any(word in row["name"] for word in LONG):
            continue
        peers = ", ".join(
            f"{name} {'missing' if 'missing' in peer else figure(peer['median'])}"
            for name, peer in row["peers"].items()
        )
        recall = row.get("recall")
        found = recall["ours"] if isinstance(recall, dict) else recall
        name = row["name"] + ("" if found is None else f", recall {found:.3f}")
        lines.append(
            f"| {name} | {limited(row['ours']['median'], row['limit'])} | {peers or '-'} |"
        )
    return lines


def seconds(rows):
    lines = ["| | seconds | at most | CPU seconds |", "|---|---|---|---|"]
    for row in rows:
        cells = f"{limited(row['seconds'], row['limit'])} | {figure(row['cpu_seconds'])}"
        lines.append(f"| {row['name']} | {cells} |")
    return lines


def parquet(rows):
    lines = ["| | s of CPU | DuckDB | more memory, MiB | DuckDB |", "|---|---|---|---|---|"]
    for row in rows:
        ours, peer = row["ours"], row["peers"]["DuckDB"]
        more = [figure(each["peak_mib"] - each["before_mib"]) for each in (ours, peer)]
        lines.append(
            f"| {row['name']} | {limited(ours['median'], peer['median'])} | {more[0]} | {more[1]} |"
        )
    return lines


def threads(rows):
    lines = ["| work | s, all threads | one | CPU s, all threads | one |", "|---|---|---|---|---|"]
    for row in rows:
        every, one = row["all"], row["one"]
        walls = f"{figure(every['wall'])} | {figure(one['wall'])}"
        cpus = f"{figure(every['cpu'])} | {figure(one['cpu'])}"
        lines.append(f"| {row['name']} | {walls} | {cpus} |")
    return lines


FIRST_USE = """\
Kernels are compiled by the first call that needs them and stored beside the package, or in the
user's cache folder where that cannot be written, or in `NUMBA_CACHE_DIR`. `sfumato warmup` makes
the first call of every room ahead of that, each in a process of its own, then once more, and prints
both times and how many kernels were compiled; `sfumato warmup density` takes one room only. Run it
once after an installation or an update, such as while an image is built: any change of a file of
kernels compiles them anew. Calls with other types or settings may still compile a kernel.

Wheels hold no compiled kernels: stored ones serve only the processor, the Numba and the time stamps
of the files they were made with, and Numba would compile them again everywhere else.

`sfumato doctor` says what an installation runs on: versions against those required, threads, the
widest vectors, where kernels are stored and how many, and which optional parts are missing. Its
exit code is 1 where something is missing that every room needs."""


def page():
    """The text of docs/calls.md."""
    small, first, reading = read("small_calls"), read("first_use"), read("reading")
    lines = [INTRODUCTION.format(**small["machine"])]
    for part, title in PARTS.items():
        lines += [f"## {title}", "", *calls(small[part]), ""]
    lines += ["## First use, each in a fresh process", "", FIRST_USE, ""]
    for part, title in FIRST.items():
        lines += [f"### {title}", "", *seconds(first[part]), ""]
    lines += ["## Reading", "", *calls(reading["ratings"]), ""]
    lines += [
        "### `sketch build hyper-log-log` from Parquet",
        "",
        *parquet(reading["sketches"]),
        "",
    ]
    lines += [
        "## Threads of the linear algebra",
        "",
        "Rooms with small matrices use one thread whatever the environment says, so that columns",
        "are alike. Where they differ, a second thread gains time, or only spends CPU on waiting.",
        "",
        *threads(read("blas_threads")["rows"]),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (DOCS / "calls.md").write_text(page())
