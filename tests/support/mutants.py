"""Break private code and recommenders in small ways: a test must fail for each (`make mutants`).

`mutants.toml` lists the mutants: a file below src/sfumato, a text that occurs in it once, the text
that takes its place, and the tests that must notice. The tests run once on the code as it is, and
then once on each mutant, in copies of the source that keep the compiled kernels.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

ROOT = Path(__file__).parents[2]
SOURCE = Path("src/sfumato")
LIST = Path(__file__).with_suffix(".toml")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line")
LATER = 3600 * 10**9  # nanoseconds that a mutant's file is younger, so that no old bytecode fits it


@dataclass(frozen=True)
class Mutant:
    """One change of the source, and the tests that must fail for it."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.old.split())} -> {' '.join(self.new.split())}"

    def stale(self, root: Path = ROOT) -> str:
        """Why the entry fits the source no more, or the empty text."""
        path = root / SOURCE / self.file
        if not path.is_file():
            return f"{self.file} is not there"
        found = path.read_text().count(self.old)
        if found != 1:
            return f"the old text occurs {found} times"
        missing = [name for name in self.tests if not _named(root, name)]
        return f"no test {missing[0]}" if missing else ""

    def written(self, root: Path) -> Path:
        """Put it in the place of the original; the path of the file."""
        path = root / SOURCE / self.file
        stamp = path.stat().st_mtime_ns + LATER
        path.write_text(path.read_text().replace(self.old, self.new))
        os.utime(path, ns=(stamp, stamp))
        return path


def listed(path: Path = LIST) -> list[Mutant]:
    """The mutants of a list."""
    entries = tomllib.loads(path.read_text())
    return [
        Mutant(file, each["old"], each["new"], tuple(each["tests"].split()))
        for file, mutants in entries.items()
        for each in mutants
    ]


def _named(root: Path, test: str) -> bool:
    """Whether the file of a test is there and defines it."""
    name, *inside = test.split("::")
    path = root / "tests" / name
    text = path.read_text() if path.is_file() else ""
    names = (re.escape(each.split("[")[0]) for each in inside)
    return bool(text) and all(re.search(rf"(def|class) {each}\b", text) for each in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="take only mutants whose line has one of these")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="time of one mutant, at most")
    queries = parser.parse_args()
    mutants = [m for m in listed() if not queries.only or any(o in str(m) for o in queries.only)]
    began = time.monotonic()
    fresh = [mutant for mutant in mutants if not _stale_message(mutant)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        original = Path(folder) / "original"
        shutil.copytree(ROOT / SOURCE, original / SOURCE)  # with times, so that caches stay valid
        if not _pass_unchanged(fresh, original, queries.workers):
            return 1
        found = Counter(_survey(fresh, original, queries.workers, queries.seconds))
    found["stale"] = len(mutants) - len(fresh)
    result = ", ".join(f"{count} {word}" for word, count in found.items() if count)
    print(f"{len(mutants)} mutants: {result}; {time.monotonic() - began:.0f} s")
    return 0 if found["killed"] + found["killed by time"] == len(mutants) else 1


def _stale_message(mutant: Mutant) -> bool:
    if why := mutant.stale():
        print(f"stale      {mutant} ({why})", flush=True)
    return bool(why)


def _pass_unchanged(mutants: list[Mutant], original: Path, workers: int) -> bool:
    """Whether all named tests pass on the code as it is; this also compiles what they need."""
    files: dict[str, set[str]] = {}
    for test in {test for mutant in mutants for test in mutant.tests}:
        files.setdefault(test.split("::")[0], set()).add(test)
    names = [sorted(files[name]) for name in sorted(files)]
    parts = [[test for some in names[each::workers] for test in some] for each in range(workers)]
    parts = [part for part in parts if part]
    with ThreadPoolExecutor(workers) as pool:
        runs = list(pool.map(lambda part: tested(original, part, None), parts))
    for code, text in runs:
        if code:
            print(f"Tests fail without any mutant:\n{text}")
    return not any(code for code, _ in runs)


def _survey(mutants: list[Mutant], original: Path, workers: int, seconds: float) -> list[str]:
    """What became of each mutant, printed as it happens."""
    copies: SimpleQueue[Path] = SimpleQueue()

    def tried(mutant: Mutant) -> str:
        copy, began = copies.get(), time.monotonic()
        try:
            word, text = outcome(mutant, original, copy, seconds)
        finally:
            copies.put(copy)
        note = f"\n{text}" if word == "broken" else ""
        print(f"{word:<10} {mutant} ({time.monotonic() - began:.1f} s){note}", flush=True)
        return word

    for each in range(workers):
        copy = original.with_name(str(each))
        shutil.copytree(original, copy)
        copies.put(copy)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(tried, mutants))


def outcome(mutant: Mutant, original: Path, copy: Path, seconds: float) -> tuple[str, str]:
    """What becomes of a mutant in a copy, which is left as it was, and what pytest wrote."""
    path = mutant.written(copy)
    try:
        code, text = tested(copy, mutant.tests, seconds)
    except subprocess.TimeoutExpired:
        return "killed by time", ""
    finally:
        shutil.copy2(original / SOURCE / mutant.file, path)
    # Tests that cannot even be collected say nothing about privacy: the mutant is a bad one.
    noticed = code == 1 and re.search(r"^(FAILED|ERROR) \S+::", text, re.MULTILINE)
    return "killed" if noticed else "broken" if code else "SURVIVED", text


def tested(root: Path, tests: Sequence[str], seconds: float | None) -> tuple[int, str]:
    """The exit code of pytest for these tests of the source in root, and what it wrote.

    With a limit of time it stops at the first failure and leaves no bytecode, as that of one
    mutant is not that of the next.
    """
    settings = {"PYTHONPATH": str(root / SOURCE.parent)}
    settings |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    settings |= {"PYTHONDONTWRITEBYTECODE": "1"} if seconds else {}
    once = ("-x",) if seconds else ()
    run = subprocess.run(
        [sys.executable, *PYTEST, *once, *(str(Path("tests", test)) for test in tests)],
        cwd=ROOT,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )
    return run.returncode, run.stdout


if __name__ == "__main__":
    sys.exit(main())
