"""HTML pages of results: one file without outside resources, all texts escaped."""

import os
from html import escape
from pathlib import Path

__all__ = ["AUDIENCE", "document", "table", "write"]

AUDIENCE = "for the curator; not a release"
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
  color: #1d1d1f; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; font-size: 0.92rem; }
th, td { border-bottom: 1px solid #d8d8d8; padding: 0.35rem 0.6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img, svg { width: 100%; height: auto; }
.audience { background: #fff3e0; border-left: 4px solid #d1822b; padding: 0.5rem 1rem; }
.refuted { background: #fdecea; border-left: 4px solid #b3261e; padding: 0.5rem 1rem; }
dt { font-weight: 600; } dd { margin: 0 0 0.6rem 1rem; }
.wide { overflow-x: auto; }
"""


def document(title: str, parts: list[str], style: str = "") -> str:
    """Complete HTML page of these parts; empty ones are dropped. style: rules of its own."""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width">\
<title>{title}</title><style>{STYLE}{style}</style>'
    body = "\n".join(part for part in parts if part)
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def table(names: list[str], rows: list[list[str]]) -> str:
    """HTML table of texts, which are escaped."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    inside = f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    return f'<div class="wide"><table>{inside}</table></div>'


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file atomically."""
    from sfumato.core.file_format import write_atomic  # imported here: it is slow to import

    write_atomic(Path(path), data)
