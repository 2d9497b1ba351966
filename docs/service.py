"""Writes the table of docs/service.md from benchmarks/results/service.json (make docs).

`python docs/service.py --picture` also takes a picture of the privacy lab, in Debian's Chromium.
"""

import json
import re
import sys
from pathlib import Path

DOCS = Path(__file__).parent
PAGE = DOCS / "service.md"
RESULTS = DOCS.parent / "benchmarks" / "results" / "service.json"
NAMES = {
    "events/s in batches of 100": "durable events a second, batches of 100, 32 connections",
    "events/s one by one": "durable events a second, one by one, 256 connections",
    "lists at 1,000/s, p99 ms": "lists of 10,000 items at 1,000 requests/s, p99",
    "lists at 300/s under 50,000 events/s, p99 ms": (
        "lists at 300 requests/s under 50,000 events/s, p99"
    ),
    "freshness under 10,000 events/s, p99 s": (
        "an event changes its user's list under 10,000 events/s, p99"
    ),
}
MARKED = re.compile(r"(<!-- measured -->\n).*?(<!-- end -->)", re.S)


def shown(what, value):
    """A figure with its unit."""
    if what.endswith(" ms"):
        return f"{value:.1f} ms"
    if what.endswith(" s"):
        return f"{value:.2g} s"
    return f"{value:,.0f}"


def table():
    """The figures, each beside what was wanted and what the disk took."""
    found = json.loads(RESULTS.read_text())
    lines = [
        "| | measured | wanted | fsync of 4 KiB beside it, median and p99 |",
        "|---|---|---|---|",
    ]
    for row in found["rows"]:
        what, (median, high) = row["what"], row["fsync_ms"]
        wanted = shown(what, row["target"]) + ("" if row["reached"] else ": missed")
        lines.append(
            f"| {NAMES[what]} | {shown(what, row['figure'])} | {wanted} | "
            f"{median:.2f}, {high:.2f} ms |"
        )
    runs = found.get("runs", 1)
    of = f"Medians of {runs} runs" if runs > 1 else "One run"
    lines.append(f"\n{of} of {found['seconds']:g} s each, on {found['machine']['cpu']}.")
    return "\n".join(lines) + "\n"


def page():
    """The page with the table of the last measurement."""
    return MARKED.sub(lambda found: found[1] + table() + found[2], PAGE.read_text())


def take_picture():
    """Take a picture of the privacy lab."""
    import subprocess

    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(DOCS.parent / "tests"))
    from support.browser import installed, launched

    demo = subprocess.Popen(
        [
            sys.executable,
            "-u",
            "-c",
            "from rich.console import Console\n"
            "from sfumato.cli.demo.service import run\nrun(Console(width=200))",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        link = next(line for line in demo.stdout if "#key=" in line).strip()
        with sync_playwright() as driver:
            browser = launched(driver, installed())
            page = browser.new_page(viewport={"width": 1100, "height": 800})
            page.goto(link)
            page.wait_for_selector("#list li")
            page.goto(f"{link.partition('/#')[0]}/page/lab")
            page.wait_for_selector("#curve canvas")
            slider = page.get_by_label("Epsilon of each item")
            slider.fill("5")
            chosen = "At epsilon " + page.inner_text("#epsilon-value") + " "
            page.get_by_text(chosen).wait_for()
            slider.blur()
            page.wait_for_timeout(1000)
            page.screenshot(path=DOCS / "page_lab.png", full_page=True)
            browser.close()
    finally:
        demo.terminate()
        demo.wait()


if __name__ == "__main__":
    PAGE.write_text(page())
    if "--picture" in sys.argv:
        take_picture()
