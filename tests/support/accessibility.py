"""What a page lacks for those who use a keyboard or a screen reader, or need contrast."""

from pathlib import Path

SCRIPT = Path(__file__).with_suffix(".js").read_text()


def returned(page, function):
    """What a function of the script returns for a page of Playwright; its policy stays in force."""
    return page.evaluate(f"() => {{ {SCRIPT}\nreturn {function}(); }}")


def flaws(page):
    """Flaws of what the page shows now, as sentences; none of a good one."""
    return returned(page, "flaws")


def keyboard_flaws(page):
    """What the key Tab does not reach, or reaches without showing it."""
    usable = dict(map(tuple, returned(page, "usable")))
    page.evaluate("document.activeElement.blur(), getSelection().removeAllRanges(), scrollTo(0, 0)")
    found, reached = [], set()
    for _ in range(3 * len(usable) + 10):
        page.keyboard.press("Tab")
        focus = returned(page, "focused")
        if focus is None or focus["at"] in reached:
            if usable.keys() <= reached:
                break
            continue
        reached.add(focus["at"])
        if not (focus["outlined"] and focus["visible"]):
            found.append(f"the focus cannot be seen: {focus['name']}")
    missed = [name for at, name in usable.items() if at not in reached]
    return found + [f"Tab does not reach {name}" for name in missed]
