"""The page shows six views in a real browser, asks nobody else, and its files carry no data."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import pytest
from playwright.sync_api import expect, sync_playwright

from sfumato.cli.demo import service as demo
from sfumato.serve.config import BudgetConfig, MetricConfig
from sfumato.serve.metrics import Metrics
from sfumato.serve.page import generated, history, shell
from sfumato.serve.page.lab import EPSILONS, PrivacyLab
from sfumato.store import open_store
from sfumato.telemetry import Rappor
from support.accessibility import flaws, keyboard_flaws
from support.browser import installed, launched

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
SERVE = """
import sys, msgspec
from sfumato.serve import ServiceConfig, serve
serve(msgspec.json.decode(sys.stdin.buffer.read(), type=ServiceConfig))
"""
# Bits tell nearly the truth: a few reports of one browser are enough to find its value.
CLEAR = Rappor(bits=32, hashes=2, cohorts=1, f=0.002, p=0.002, q=0.998, metric="fruit")
FRUIT = ["apple", "pear", "plum"]


def started(code, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SFUMATO_", "ONCE"))}
    return subprocess.Popen([sys.executable, "-u", "-c", code], env=environment, **options)


def with_fruit(world, folder):
    """The demo's world with metrics that no visitor reports, and with names that are HTML."""
    scheme = folder / "fruit.json"
    scheme.write_text(CLEAR.to_json())
    with open_store(world.config.database) as store:
        own = {"metric": "fruit", "origins": [world.url]}
        key = store.create_key("fruit", ["ingest"], attributes=own)[1]
    config = world.config
    metrics = {
        **config.metrics,
        "fruit": MetricConfig(str(scheme), FRUIT, key),
        HOSTILE: MetricConfig(str(scheme), [HOSTILE, "apple"]),
    }
    budgets = {**config.budgets, HOSTILE: BudgetConfig(1.0)}
    densities = {**config.densities, HOSTILE: config.densities["places"]}
    return msgspec.structs.replace(
        config, metrics=metrics, budgets=budgets, densities=densities, log_level="debug"
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The generated world, served by a process of its own."""
    folder = tmp_path_factory.mktemp("page")
    with demo.prepared() as world, (folder / "log").open("wb") as log:
        config = with_fruit(world, folder)
        process = started(SERVE, stdin=subprocess.PIPE, stderr=log)
        process.stdin.write(msgspec.json.encode(config))
        process.stdin.close()
        try:
            transport = httpx.HTTPTransport(retries=8)
            with httpx.Client(base_url=world.url, transport=transport, timeout=PATIENCE) as client:
                while client.get("/readyz", headers=bearer(world)).json().get("lag") != 0:
                    assert process.poll() is None
                object.__setattr__(world, "client", client)
                object.__setattr__(world, "log", folder / "log")
                yield world
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


@pytest.fixture(scope="module")
def browser():
    path = installed()
    with sync_playwright() as driver:
        browser = launched(driver, path)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(world, browser):
    """One page with the link's key; what it asks for and says is retained."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(1000 * PATIENCE)
    page.lines, page.urls, page.posted = [], [], []
    page.on("console", lambda line: page.lines.append(line.text))
    page.on("pageerror", lambda error: page.lines.append(str(error)))
    page.on("request", lambda request: page.urls.append(request.url))
    page.on("request", lambda request: page.posted.append(request.post_data or ""))
    page.goto(world.link)
    page.wait_for_selector("#list li")
    return page


@pytest.fixture
def view(world, tab):
    """Open a view; afterwards, nothing was said, and nobody but the service was asked."""

    def opened(slug, ready):
        tab.goto(f"{world.url}/page/{slug}")
        tab.wait_for_selector(ready)
        return tab

    yield opened
    assert tab.lines == []
    assert [url for url in tab.urls if not url.startswith(f"{world.url}/")] == []
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def number(text):
    return int(re.sub(r"\D", "", text))


def test_a_list_has_reasons_memory_and_age_and_follows_a_choice(world, view):
    page = view("recommend", "#list li")
    assert world.secret not in page.url
    rows = page.locator("#list > li")
    expect(rows).to_have_count(8)
    family = [text.split()[-1] for text in page.locator("#list strong").all_text_contents()]
    reasons = page.locator("#list .because").all_text_contents()
    # A reader's list is of few of the 20 families, and its reasons are of the same family.
    assert len(set(family)) <= 4
    assert (
        sum(own in reason.split("Score")[0] for own, reason in zip(family, reasons, strict=True))
        >= 5
    )
    assert all("taste" in reason and "popularity" in reason for reason in reasons)
    facts = page.locator("#model").inner_text()
    assert re.search(r"Memory\s+1\.\d MiB", facts)
    assert re.search(r"Age\s+[\d.,]+ (s|min)", facts)
    assert re.search(r"Events learned\s+15,0\d\d", facts)
    first = page.locator("#list strong").first.inner_text()
    page.get_by_role("button", name=f"Choose {first} for this user").click()
    expect(page.locator("#list strong").first).not_to_have_text(first)
    assert first not in page.locator("#list strong").all_text_contents()
    page.get_by_label("User", exact=True).fill("reader 77")
    page.keyboard.press("Enter")
    expect(page.locator("#list-about")).to_contain_text("for reader 77")


def test_the_slider_shows_item_by_item_what_is_rebuilt(view):
    page = view("lab", "#curve canvas")

    def found(key, epsilon):
        page.get_by_label("Epsilon of each item").focus()
        page.keyboard.press(key)
        expect(page.locator("#sentence")).to_contain_text(f"At epsilon {epsilon} for each item")
        rebuilt, hidden, wrong = (
            page.locator(f"#{name} li").all_text_contents() for name in ("found", "missed", "wrong")
        )
        assert len(rebuilt) + len(hidden) == len(rebuilt) + len(wrong) == 20
        assert page.locator("#mosaic .found").count() == len(rebuilt)
        assert f"right about {len(rebuilt)} of" in page.locator("#sentence").inner_text()
        return len(rebuilt)

    # At epsilon 8 some 98 % are rebuilt, at 0.1 some 32 %: 16 and more of 20 with p < 1e-5.
    assert found("End", "8") >= 16 > found("Home", "0.1")
    page.get_by_text("The curve as a table").click()
    assert page.locator("#curve-table tbody tr").count() == len(EPSILONS)


def test_a_typed_value_leaves_as_bits_and_is_decoded(world, view):
    page = view("telemetry", "#decoded tbody tr")
    detected = page.locator("#decoded tr", has_text="drama")
    expect(detected).to_contain_text("found")
    page.get_by_label("Metric").select_option("fruit")
    expect(page.locator("#decoded-about")).to_contain_text("0 reports")
    value = page.get_by_label("A value")
    value.fill("pear")
    report = json.loads(page.locator("#line").inner_text())
    shown = page.locator("#bits-report").get_attribute("aria-label").split(": ")[1]
    bits = int.from_bytes(bytes.fromhex(report["bits"]), "little")
    assert shown == f"{bits:032b}"[::-1]
    assert page.locator("#bits-value .on").count() == 2
    for turn in range(10):
        sent = page.locator("#line").inner_text()
        value.press("Enter")
        expect(page.locator("#line")).not_to_have_text(sent)
        expect(page.locator("#decoded-about")).to_contain_text(f"{turn + 1} reports")
        assert f"{sent}\n" in page.posted
    assert not any("pear" in body for body in page.posted)
    # A bit is wrong with p < 0.004; of ten reports, six or fewer right with p < 1e-5.
    cells = page.locator("#decoded tr", has_text="pear").locator("td").all_text_contents()
    assert 7 <= number(cells[1]) <= 13
    assert (
        number(page.locator("#decoded tr", has_text="plum").locator("td").nth(1).inner_text()) <= 3
    )


PIXELS = """id => {
  const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  copy.drawImage(document.getElementById(id), 0, 0);
  return [...copy.getImageData(0, 0, 40, 40).data];
}"""


def test_maps_show_generated_points_and_a_private_file(view):
    page = view("density", "#own:not([hidden])")
    private, exact = (page.evaluate(PIXELS, name) for name in ("private", "exact"))
    assert len(set(exact)) > 50
    assert private != exact
    page.get_by_label("Epsilon of each point").press("End")
    expect(page.locator("#sentence")).to_contain_text("At epsilon 2 ")
    expect(page.locator("#private-badge")).to_have_text("proved, epsilon 2")
    assert page.evaluate(PIXELS, "exact") == exact
    assert "generated points" in page.locator("#exact").get_attribute("aria-label")
    expect(page.locator("#own-facts")).to_contain_text("proved, epsilon 0.5")
    assert page.evaluate(PIXELS, "own") != exact


def test_the_budget_shows_what_is_left_and_every_statement(world, view):
    page = view("budget", "#ledger tbody tr")
    left = world.client.get("/budget", headers=bearer(world)).json()["budgets"]
    cards = page.locator("#budgets .card").all_inner_texts()
    for row, card in zip(left, cards, strict=True):
        assert row["dataset"] in card
        assert re.search(rf"{row['remaining_epsilon']:.2f}".rstrip("0"), card)
    assert page.locator("#releases tbody tr").count() == 3
    named = page.locator("#releases details").locator("xpath=..")
    assert [text.split("\n")[0] for text in named.all_inner_texts()] == [
        "Popularity of items",
        "Similar items",
        "Map of a density",
    ]
    page.get_by_role("button", name="Statement of places-map").click()
    expect(page.locator("#statement")).to_contain_text("epsilon 0.5")
    expect(page.locator("#statement")).to_be_focused()
    assert page.locator("#ledger tbody tr").count() == 3


def test_health_shows_rates_lag_and_errors(world, view):
    world.client.get("/budget")  # without a key: refused
    page = view("health", "#samples tbody tr")
    expect(page.locator("#now")).to_contain_text("ready")
    expect(page.locator("#throughput canvas")).to_be_visible()
    expect(page.locator("#errors canvas")).to_be_visible()
    expect(page.locator("#samples tbody tr")).to_have_count(8)
    refused = page.locator("#errors .u-series", has_text="refused (4xx)")
    expect(refused.locator(".u-value")).to_have_text(re.compile(r"^[\d.]+$"))

    def counted():
        return world.client.get("/metrics/history", headers=bearer(world)).json()

    samples = counted()
    while not sum(samples["refused"]):  # the second in which it was refused is not over
        samples = counted()
    assert len(samples["time"]) == len(samples["lag"]) == len(samples["milliseconds"])
    assert sum(samples["requests"]) > 10
    assert sum(samples["failed"]) == 0


def test_keys_are_asked_for_refused_and_forgotten_by_keyboard_alone(world, browser):
    page = browser.new_page(viewport={"width": 360, "height": 740}, color_scheme="dark")
    page.goto(f"{world.url}/")
    expect(page.get_by_role("heading", name="Enter a key")).to_be_visible()
    expect(page.locator("#view")).to_be_hidden()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "key":
            break
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("valid key")
    page.get_by_label("Key", exact=True).focus()
    page.keyboard.type(world.secret)
    page.keyboard.press("Enter")
    expect(page.locator("#list > li")).to_have_count(8)
    expect(page.get_by_role("alert")).to_be_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 21, 20)"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.context.cookies() == []
    page.get_by_role("link", name="Privacy lab").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Privacy lab")).to_be_visible()
    page.get_by_role("button", name="Forget key").press("Enter")
    expect(page.locator("#view")).to_be_hidden()
    assert page.evaluate("sessionStorage.length") == 0
    page.close()


READY = {
    "recommend": "#list li",
    "lab": "#curve canvas",
    "telemetry": "#decoded tbody tr",
    "density": "#own:not([hidden])",
    "budget": "#ledger tbody tr",
    "health": "#samples tbody tr",
}


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_every_view_is_usable_by_keyboard_screen_reader_and_little_sight(
    world, browser, scheme, width
):
    page = browser.new_page(viewport={"width": width, "height": 840}, color_scheme=scheme)
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(f"{world.url}/")
    expect(page.get_by_role("heading", name="Enter a key")).to_be_visible()
    assert (flaws(page), keyboard_flaws(page)) == ([], [])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(world.link)
    for slug, ready in READY.items():
        page.goto(f"{world.url}/page/{slug}")
        page.wait_for_selector(ready)
        if slug == "budget":
            page.get_by_role("button", name="Statement of places-map").press("Enter")
            expect(page.locator("#statement")).to_be_focused()
        assert (slug, flaws(page), keyboard_flaws(page)) == (slug, [], [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), slug
    page.close()


HOSTILE = "<img src=/page/none.js onerror=document.title='taken'>\"'&${1}"


def test_hostile_names_stay_text(world, browser):
    headers = bearer(world)
    events = [{"user": f"{HOSTILE} {k}", "item": HOSTILE} for k in range(2000)]
    assert world.client.post("/events", json=events, headers=headers).status_code == 200
    page = browser.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(world.link)
    page.wait_for_selector("#list li")
    page.get_by_label("Items").fill("50")
    page.get_by_label("User", exact=True).fill(HOSTILE)
    item = page.locator("#list strong", has_text="<img src")

    def listed():
        page.get_by_role("button", name="Recommend").click()
        expect(page.locator("#list-about")).to_contain_text(f"for {HOSTILE}")
        return item.count()

    while not listed():
        assert world.client.get("/readyz").status_code == 200
    assert item.inner_text() == HOSTILE
    page.goto(f"{world.url}/page/telemetry")
    page.wait_for_selector("#decoded tbody tr")
    page.get_by_label("Metric").select_option(HOSTILE)
    expect(page.locator("#decoded-about")).to_contain_text("0 reports")
    page.get_by_label("A value").fill(HOSTILE)
    page.goto(f"{world.url}/page/budget")
    expect(page.locator("#budgets .card", has_text="<img src")).to_contain_text(HOSTILE)
    page.goto(f"{world.url}/page/density")
    page.get_by_label("Density", exact=True).select_option(HOSTILE)
    expect(page.locator("#own-about")).to_contain_text(HOSTILE)
    assert page.title() == "Density · Sfumato"
    assert not [url for url in requested if url.endswith("none.js")]
    page.close()


def bearer(world):
    return {"authorization": f"Bearer {world.secret}"}


@pytest.mark.parametrize("name", ["", *(f"page/{name}" for name in sorted(shell._files()))])
def test_files_need_no_key_and_are_the_same_whatever_is_stored(world, name):
    answer = world.client.get(f"/{name}")
    assert answer.status_code == 200
    media_type, body = shell._files()[name.removeprefix("page/") or "recommend"]
    assert answer.content == body  # rendered here, where there is no store
    assert answer.headers["content-type"] == media_type.decode()
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("name", ["none.js", "..%2Fshell.py", "%2e%2e/shell.py", "../shell.py"])
def test_no_other_file_can_be_reached(world, name):
    answer = world.client.get(f"/page/{name}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_every_reference_of_the_page_stays_within_the_service():
    names = shell._files()
    for view in shell.VIEWS:
        text = names[view.slug][1].decode()
        links = re.findall(r'(?:href|src)="([^"#]+)"', text)
        assert [
            link for link in links if link != "/" and link.removeprefix("/page/") not in names
        ] == []
        assert not re.search(r"<script(?![^>]*\bsrc=)|<style| style=| on\w+=", text)
    for name, (_, body) in names.items():
        if name.endswith((".js", ".css")) and not name.startswith(("uplot", "sfumato-telemetry")):
            assert b"://" not in body.replace(b"http://www.w3.org/2000/svg", b"")


def test_the_served_browser_client_is_the_built_one():
    served = shell._files()["sfumato-telemetry.js"][1]
    assert served == (ROOT / "web" / "dist" / "sfumato-telemetry.js").read_bytes()
    assert b"The MIT License" in shell._files()["uplot-licence.txt"][1]


def test_no_key_or_user_is_in_the_log(world):
    text = world.log.read_text()
    assert '"route": "/page/{name}"' in text
    assert world.secret.split("_", 2)[2] not in text
    assert "reader" not in text


def test_generated_titles_differ_and_lab_work_is_done_once_a_step():
    assert len(set(generated.titles(400))) == 400
    lab = PrivacyLab()
    assert lab.at(5.1).epsilon == 6
    first = lab.at(6)
    assert lab.at(6).items == first.items  # noise is drawn once
    assert len(lab._attacks) == 1


def test_history_has_rates_and_bounded_length(monkeypatch):
    metrics = Metrics()

    class Feed:
        current = type("Served", (), {"position": 3})

    service = type("Service", (), {"metrics": metrics, "position": 10, "feed": Feed})
    record = history.RateHistory(service)
    assert record.table().time == []
    record.sample(100.0)
    for status in (200, 404, 500):
        metrics.request("GET", "/budget", status, 0.25)
    metrics.request("GET", "/readyz", 503, 0.25)
    metrics.add("events_total", 6)
    record.sample(102.0)
    made = record.table()
    assert (made.requests, made.refused, made.failed) == ([2.0], [0.5], [0.5])
    assert (made.events, made.lag, made.milliseconds) == ([3.0], [7.0], [250.0])
    for second in range(2 * history.LENGTH):
        record.sample(103.0 + second)
    assert len(record.table().time) == history.LENGTH
