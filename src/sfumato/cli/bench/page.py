"""The page of a benchmark report: one file, no outside resources, light and dark."""

import math
from html import escape
from typing import Any

from sfumato.cli.bench import comparison
from sfumato.core import html_pages

__all__ = ["figures", "html", "short"]

STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1f; --paper: #fff; --line: #d8d8d8; --soft: #6b6b70;
  --win: #2f7d5b; --loss: #b4552d; --roof: #55709c; --mark: #fff3e0; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececf0; --paper: #17181b; --line: #3a3b40;
  --soft: #a3a3ab; --win: #5fbf93; --loss: #e08a5f; --roof: #8fabd9; --mark: #3d2f1c; } }
body { color: var(--ink); background: var(--paper); }
h2 { margin: 2.2rem 0 0; font-size: 1.25rem; } h3 { margin: 1.4rem 0 0; font-size: 1rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); font-size: .9rem; }
.bar { display: grid; grid-template-columns: 16rem 1fr 20rem; gap: 0 .8rem; margin: .4rem 0;
  align-items: center; font-size: .92rem; }
.track { position: relative; height: 1.1rem; border-bottom: 1px solid var(--line); }
.track i { position: absolute; top: .1rem; bottom: .1rem; border-radius: 2px;
  background: var(--win); }
.track i.loss { background: var(--loss); } .track i.roof { background: var(--roof); }
.track b { position: absolute; top: 0; bottom: 0; width: 0; border-left: 1px solid var(--ink); }
.track s { position: absolute; top: .52rem; height: 0; border-top: 2px solid var(--ink); }
.figure { font-variant-numeric: tabular-nums; }
.moved { background: var(--mark); padding: 0 .3rem; border-radius: 3px; }
@media (max-width: 52rem) { .bar { grid-template-columns: 1fr; } }
"""
UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
Row = dict[str, Any]


def html(content: Row) -> str:
    """Return the page of a report."""
    rows = content["rows"]
    rooms = dict.fromkeys(row["case"].partition("/")[0] for row in rows)
    scale = _scale(rows)
    parts = ["<h1>Sfumato beside its peers</h1>", *_introduction(content)]
    for room in rooms:
        parts.append(f"<h2>{escape(room)}</h2>")
        inside = [row for row in rows if row["case"].partition("/")[0] == room]
        parts += [_case(row, scale, content["measured"]) for row in inside]
    return html_pages.document("Sfumato beside its peers", parts, STYLE)


def short(rate: float) -> str:
    """Return a rate of three digits and a unit's letter."""
    for size, letter in UNITS:
        if rate >= size:
            return f"{rate / size:.3g}{letter}"
    return f"{rate:.3g}"


def figures(each: Row) -> tuple[str, str, str]:
    """Return ratio, its spread, and what became of it since the last run, in words."""
    ratio = each["ratio"]
    spread = f"{_times(ratio['low'])}-{_times(ratio['high'])}"
    return _times(ratio["median"]), spread, _since(each)


def _times(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}" if ratio >= 1 else f"{ratio:.2g}"


def _since(each: Row) -> str:
    change = each.get("change")
    if change is None:
        return ""
    words = {"slower": "slower", "faster": "faster"}.get(change["verdict"], "same")
    return f"{words} {change['times']:.2f}"


def _introduction(content: Row) -> list[str]:
    measured, rows = content["measured"], content["rows"]
    moved, compared = comparison.marked(rows), comparison.changes(rows)
    parts = [
        "<p>Each bar is a ratio: how many times as fast ours is as what stands beside it, on a "
        "logarithmic scale from the line at 1. Right of it ours is faster, left of it slower. The "
        "thin line is the spread of all runs. A blue bar is the share of what the machine allows: "
        "a call that does less than anyone can.</p>",
        f'<p class="soft">{escape(measured["at"])}: Sfumato {escape(measured["sfumato"])}, '
        f"Python {escape(measured['python'])}, NumPy {escape(measured['numpy'])}, "
        f"{escape(measured['processor'])}. One process, one thread, CPU time, warm; all calls of "
        "a case take turns.</p>",
    ]
    if compared:
        parts.append(
            f"<p>Since the last run, {len(moved)} of {len(compared)} ratios left its spread.</p>"
        )
    if moved:
        lines = [
            f"<li>{escape(row['case'])} beside {escape(each['name'])}: {_moved(each)}</li>"
            for row, each in moved
        ]
        parts.append(f"<ul>{''.join(lines)}</ul>")
    return parts


def _moved(each: Row) -> str:
    change = each["change"]
    other = "; the peer has another version" if change["other_version"] else ""
    times, before = _times(each["ratio"]["median"]), _times(change["before"])
    return f'<span class="moved">{change["verdict"]}: {before} before, {times} now{other}</span>'


def _scale(rows: list[Row]) -> float:
    """The largest distance of any ratio from 1, as a logarithm."""
    ratios = [each["ratio"] for row in rows for each in comparison.references(row)]
    ends = [abs(math.log(ratio[end])) for ratio in ratios for end in ("low", "high")]
    return max([math.log(10), *ends])


def _case(row: Row, scale: float, measured: Row) -> str:
    ours, unit = row["ours"], escape(row["unit"])
    spread = f"{short(ours['rate']['low'])} to {short(ours['rate']['high'])}"
    about = f"{row['items']:,} {unit}, {row['runs']} runs"
    earlier = "" if row["measured"] == measured else f"; measured {escape(row['measured']['at'])}"
    lines = [
        f'<h3 id="{escape(row["case"])}-{row["items"]}">{escape(row["question"])}</h3>',
        f'<p class="soft">{escape(row["case"])}: {about}{earlier}</p>',
        f"<p>Ours: {short(ours['rate']['median'])} {unit} a second ({spread})"
        f"{_answer(row, ours)}.</p>",
    ]
    lines += [_bar(row, each, scale) for each in comparison.references(row)]
    lines += [
        f'<p class="soft">{escape(each["name"])}: no ratio, {escape(each["missing"])}.</p>'
        for each in row["peers"]
        if "missing" in each
    ]
    return "\n".join(lines)


def _answer(row: Row, each: Row) -> str:
    value = each.get("answer")
    return "" if value is None or not row["answer_is"] else f"; {row['answer_is']} {value:.3g}"


def _bar(row: Row, each: Row, scale: float) -> str:
    """Name, bar and figures of one ratio."""
    at = {
        end: 50 + 50 * math.log(value) / scale if value > 0 else 0.0
        for end, value in each["ratio"].items()
    }
    left, right = min(50, at["median"]), max(50, at["median"])
    kind = "roof" if each is row["ceiling"] else "loss" if at["median"] < 50 else "win"
    ratio, spread, since = figures(each)
    moved = ' class="moved"' if "change" in each and since[:4] != "same" else ""
    version = f" {each['version']}" if each.get("version") else ""
    name = escape(each["name"] + version)
    return (
        f'<div class="bar"><span>{name}</span>'
        f'<span class="track" role="img" aria-label="{ratio} times as fast">'
        f'<i class="{kind}" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'
        f'<s style="left:{at["low"]:.2f}%;width:{at["high"] - at["low"]:.2f}%"></s>'
        '<b style="left:50%"></b></span>'
        f'<span class="figure">{ratio} ({spread}){escape(_answer(row, each))} '
        f"<span{moved}>{since}</span></span></div>"
    )
