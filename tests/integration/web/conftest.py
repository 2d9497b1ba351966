"""A real Chromium, a server on the loopback, and Node, for the browser client."""

import functools
import re
import shutil
import subprocess
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import playwright
import pytest
from playwright.sync_api import sync_playwright

from support.browser import installed, launched

WEB = Path(__file__).parents[3] / "web"
PAGES = {
    "/module.html": '<script type="module">'
    'import * as sfumato from "/dist/sfumato-telemetry.js"; window.sfumato = sfumato;</script>',
    "/script.html": '<script src="/dist/sfumato-telemetry.script.js"></script>',
}


@pytest.fixture(scope="session")
def web():
    return WEB


@pytest.fixture(scope="session")
def node():
    """The system's Node from 20 on, else the one that Playwright brings."""
    own = shutil.which("node")
    if own:
        result = subprocess.run([own, "--version"], capture_output=True, text=True, check=True)
        if int(re.match(r"v(\d+)", result.stdout)[1]) >= 20:
            return own
    return str(Path(playwright.__file__).parent / "driver" / "node")


@pytest.fixture(scope="session")
def chromium():
    """The Debian browser, which `make browser` installs; no test installs anything."""
    return installed()


class Site(SimpleHTTPRequestHandler):
    """The folder web/, two empty pages that load the client, and a place that takes reports."""

    def do_GET(self):
        name, _, query = self.path.partition("?")
        if name not in PAGES:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        if query == "blocked":
            # An origin of its own for every visit: the browser then refuses local storage.
            self.send_header("Content-Security-Policy", "sandbox allow-scripts")
        self.end_headers()
        head = '<!doctype html><link rel="icon" href="data:,">'
        return self.wfile.write((head + PAGES[name]).encode())

    def do_POST(self):
        self.server.posted.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.send_response(503 if len(self.server.posted) == 1 else 204)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Site, directory=WEB)) as server:
        server.posted = []  # bodies, one a request
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def tab(chromium):
    """One page for a file of tests, for each new one costs a second; and what is heard of it."""
    heard = {"target": [], "said": []}
    with sync_playwright() as driver:
        browser = launched(driver, chromium)
        page = browser.new_page()
        page.on("request", lambda request: heard["target"].append(request.url))
        page.on("console", lambda line: heard["said"].append(line.text))
        page.on("pageerror", lambda error: heard["said"].append(str(error)))
        yield page, heard
        browser.close()


@pytest.fixture
def page(tab, site):
    """The client, loaded into an empty storage; it may ask nobody but the site, and log nothing."""
    page, heard = tab
    for retained in (*heard.values(), site.posted):
        retained.clear()
    page.goto(f"{site.url}/module.html")
    page.evaluate("localStorage.clear()")
    yield page
    assert f"{site.url}/dist/sfumato-telemetry.js" in heard["target"]
    assert [url for url in heard["target"] if not url.startswith(f"{site.url}/")] == []
    # Chromium itself notes the answer 503 of a test.
    assert [line for line in heard["said"] if "503" not in line] == []
