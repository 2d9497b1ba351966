"""Debian's Chromium for tests of pages: where it is, and how it is started."""

import os
import shutil

import pytest

QUIET = ("--disable-gpu", "--disable-background-networking", "--disable-component-update")


def installed():
    """The path of the browser, which `make browser` installs; no test installs anything."""
    found = shutil.which("chromium")
    if not found:
        missing = "no browser: `make browser` installs Debian's chromium, as root"
        # What runs before a change lands sets the variable: there the tests must run.
        required = os.environ.get("SFUMATO_BROWSER") == "required"
        pytest.fail(missing) if required else pytest.skip(missing)
    return found


def launched(driver, path):
    """A browser of Playwright that asks nobody by itself."""
    # Chromium refuses its sandbox to root; the pages are our own.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    return driver.chromium.launch(executable_path=path, args=[*sandbox, *QUIET])
