"""Sphinx: the pages of this folder, and a reference of every public name from its docstring.

`make site` builds it, and fails on a warning. Pages of the reference are written anew on each
build, one per module that `docs/api.py` calls public and one per class or function of it.
"""

import inspect
import re
import reprlib
import sys
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import api  # noqa: E402
import notebooks  # noqa: E402

import sfumato  # noqa: E402

project, author, copyright = "Sfumato", "the authors of Sfumato", "the authors of Sfumato"
version = release = sfumato.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc", "myst_parser"]
exclude_patterns = ["_build", "*_notes.md"]
html_theme = "furo"
html_title = "Sfumato"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]
default_role = "code"  # `name` in our docstrings is code
autodoc_typehints = "none"  # types stand in the docstrings, and are checked against signatures
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
myst_heading_anchors = 3
# Links to files of the repository, such as the change log, lie outside the site.
suppress_warnings = ["myst.xref_missing"]

MODULES = api.modules()
PUBLIC = list(api.public())
OUTSIDE = "BaseEstimator, object, Exception, tuple, dict, str, int, Protocol"


def pages() -> dict[str, str]:
    """The text of each page of the reference, by its name."""
    homes = first_homes()
    found = {"index": index(homes)}
    for path in sorted({home for home, _ in homes.values()}):
        names = sorted(name for home, name in homes.values() if home == path)
        found[path] = module_page(path, names)
        for name in names:
            found[f"{path}.{name}"] = object_page(path, name)
    return found


def first_homes() -> dict[int, tuple[str, str]]:
    """Module and name of every public class and function, the shortest of several."""
    homes: dict[int, tuple[str, str]] = {}
    for path, name, thing in sorted(PUBLIC, key=lambda each: (each[0].count("."), each[0])):
        if inspect.isclass(thing) or inspect.isroutine(thing):
            homes.setdefault(id(thing), (path, name))
    return homes


def title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def index(homes: dict[int, tuple[str, str]]) -> str:
    paths = "\n".join(f"   {path}" for path in sorted({home for home, _ in homes.values()}))
    return f"{title('API reference')}\n.. toctree::\n   :maxdepth: 1\n\n{paths}\n"


def module_page(path: str, names: list[str]) -> str:
    """What a module offers: a table of names with their first lines, then the pages."""
    about = inspect.getdoc(MODULES[path]) or ""
    home = MODULES[path].__name__
    rows = "\n".join(
        f"   * - :py:obj:`{name} <{home}.{name}>`\n     - {summary(path, name)}" for name in names
    )
    tree = "\n".join(f"   {path}.{name}" for name in names)
    rows += "".join(
        f"\n   * - ``{name}``\n     - ``{reprlib.repr(value)}``"
        for name, value in constants().get(path, {}).items()
    )
    return (
        f"{title(path)}\n.. py:module:: {home}\n\n{about.partition(chr(10))[0]}\n\n"
        f".. list-table::\n   :widths: 30 70\n\n{rows}\n\n"
        f".. toctree::\n   :hidden:\n\n{tree}\n"
    )


def constants() -> dict[str, dict[str, Any]]:
    """Public names that are neither classes nor functions, with their values, by module."""
    found: dict[str, dict[str, Any]] = {}
    for path, name, thing in PUBLIC:
        if not (inspect.isclass(thing) or inspect.isroutine(thing) or callable(thing)):
            found.setdefault(path, {})[name] = thing
    return found


def summary(path: str, name: str) -> str:
    text = inspect.getdoc(getattr(MODULES[path], name)) or ""
    return text.partition("\n")[0].replace("*", r"\*").replace("|", r"\|").replace("_ ", r"\_ ")


def object_page(path: str, name: str) -> str:
    thing = getattr(MODULES[path], name)
    kind = "autoclass" if inspect.isclass(thing) else "autofunction"
    options = f"   :members:\n   :inherited-members: {OUTSIDE}\n" if inspect.isclass(thing) else ""
    home = f".. currentmodule:: {MODULES[path].__name__}"
    return f"{title(name)}\n{home}\n\n.. {kind}:: {name}\n{options}"


def write_reference(app: Any) -> None:
    """Write the pages, those alone that changed: a second build is quick."""
    folder = HERE / "reference"
    folder.mkdir(exist_ok=True)
    written = {f"{name}.rst": text for name, text in pages().items()}
    for stale in {each.name for each in folder.glob("*.rst")} - set(written):
        (folder / stale).unlink()
    for name, text in written.items():
        file = folder / name
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def leave_out(app: Any, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Members of other libraries, and names that stand for a new one, have no entry."""
    home = getattr(inspect.unwrap(getattr(thing, "fget", None) or thing), "__module__", None) or ""
    if hasattr(thing, "__deprecated__") or (callable(thing) and not home.startswith("sfumato")):
        return True
    return None


def escape(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Make plain `mean_` and `|x|` plain in reStructuredText too, examples left as they are.

    In docstrings they stand unescaped, since `help` and editors show these.
    """
    example = False
    for at, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = re.split(r"(`+[^`]*`+_?|:\w+:`[^`]*`|\[[^\]]*\]_|\*\*[^*]+\*\*)", line)
            parts[::2] = [
                re.sub(r"(?<=\w)_(?!\w)", r"\\_", each).replace("|", r"\|") for each in parts[::2]
            ]
            lines[at] = "".join(parts)


def setup(app: Any) -> None:
    app.add_lexer("mermaid", TextLexer)  # diagrams are drawn where the page is read as Markdown
    app.connect("autodoc-process-docstring", escape, priority=900)
    app.connect("builder-inited", write_reference)
    app.connect("builder-inited", notebooks.write)
    app.connect("autodoc-skip-member", leave_out)
