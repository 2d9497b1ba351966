"""Turns the notebooks of examples/ into pages of the site: their words, code and stored outputs."""

import base64
import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
PLACE = DOCS / "examples"  # written when the site is built, not kept


def lines(text: Any) -> str:
    """The text of a source or an output, which is a string or a list of lines."""
    return (text if isinstance(text, str) else "".join(text)).rstrip()


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```\n"


def page(name: str) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook, and its pictures by name."""
    notebook = json.loads((EXAMPLES / f"{name}.ipynb").read_text())
    parts, pictures = [], {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(lines(cell["source"]) + "\n")
            continue
        parts.append(fenced("python", lines(cell["source"])))
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{len(pictures)}.png"
                pictures[picture] = base64.b64decode(data["image/png"])
                parts.append(f"![What the cell draws]({picture})\n")
            else:
                parts.append(fenced("text", lines(output.get("text") or data["text/plain"])))
    link = (
        f"*This page is the notebook `examples/{name}.ipynb`, run by `python examples/run.py`.*\n"
    )
    return "\n".join([*parts, link]), pictures


def names() -> list[str]:
    return sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))


def write(app: Any = None) -> None:
    """Write all pages and pictures, those alone that changed."""
    PLACE.mkdir(exist_ok=True)
    for name in names():
        text, pictures = page(name)
        for file, content in {f"{name}.md": text.encode(), **pictures}.items():
            path = PLACE / file
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)


if __name__ == "__main__":
    write()
