"""The client in a real Chromium: Python's bits, a secret that stays, reports that decode."""

import json

import numpy as np
import pytest

from sfumato.telemetry import Counts, Rappor, ReportEncoder, Reports, decode, read_reports

FRUIT = Rappor(bits=96, hashes=2, cohorts=512, f=0.5, p=0.25, q=0.75, metric="fruit")
HELD = {"tea": 1500, "milk": 900, "rum": 600}
KEPT = """json => {
    const client = new sfumato.Telemetry(json);
    return [client.cohort, ...client.permanent("tea")];
}"""


def of_page(page, params, secret, values):
    """Cohort and permanent responses as the page computes them."""
    return page.evaluate(
        """([json, secret, values]) => {
            const client = new sfumato.Telemetry(json, { secret: Uint8Array.from(secret) });
            return [client.cohort, values.map(value => [...client.permanent(value)])];
        }""",
        [params.to_json(), list(secret), values],
    )


def reports_of_page(page, params, held):
    """Reports of many clients, each with its own secret, made in the page and read by Python."""
    lines = page.evaluate(
        """([json, held]) => held.flatMap(([value, clients]) =>
            Array.from({ length: clients }, () => {
                const secret = crypto.getRandomValues(new Uint8Array(32));
                return JSON.stringify(new sfumato.Telemetry(json, { secret }).encode(value));
            }))""",
        [params.to_json(), list(held.items())],
    )
    return Reports.concat(read_reports(lines, params))


def test_the_page_gives_the_bits_of_every_vector(page, web):
    cases = json.loads((web / "vectors.json").read_text(encoding="utf-8"))["cases"]
    found = page.evaluate(
        """cases => {
            const bytes = digits => Uint8Array.from(digits.match(/../g), x => parseInt(x, 16));
            const hex = bytes => [...bytes].map(x => x.toString(16).padStart(2, "0")).join("");
            return cases.map(({ params, secret, values }) => {
                const client = new sfumato.Telemetry(params, { secret: bytes(secret) });
                const rows = values.map(({ value, fresh }) => {
                    const draws = bytes(fresh);
                    crypto.getRandomValues = array => array.set(draws.subarray(0, array.length));
                    return [hex(client.permanent(value)), client.encode(value).bits];
                });
                return [client.cohort, rows];
            });
        }""",
        cases,
    )
    assert found == [
        [case["cohort"], [[each["permanent"], each["report"]] for each in case["values"]]]
        for case in cases
    ]


@pytest.mark.parametrize(
    ("params", "values"),
    [
        (FRUIT, ["", "tea", "żółw 🍵", "x" * 300, 7, -(2**53) + 1]),
        (Rappor(bits=1000, hashes=16, cohorts=65536, f=0.73, metric="é/ü"), ["tea", "milk"]),
        (Rappor(categories=["no", "yes", "7"], f=0.3, p=0.1, q=0.9), ["yes", 7]),
        (Rappor(edges=[-1.5, 0, 2.25, 1e9], f=0.5), [-9, -1.5, 0, 2.25, 3.5, 1e10]),
    ],
    ids=["text", "wide", "categories", "edges"],
)
def test_the_page_gives_the_bits_of_python(page, params, values):
    for secret in [bytes(range(32)), b"sixteen letters!", bytes(100)]:
        cohort, retained = of_page(page, params, secret, values)
        client = ReportEncoder(params, secret=secret)
        assert cohort == client.cohort
        assert retained == [client.permanent(value).tolist() for value in values]


def test_the_page_states_the_epsilons_of_python(page):
    read = page.evaluate("json => sfumato.readParameters(json)", FRUIT.to_json())
    found = [read["epsilonPermanent"], read["epsilonOne"]]
    assert found == pytest.approx([FRUIT.epsilon_permanent, FRUIT.epsilon_one], rel=1e-12)


def test_the_secret_stays_over_reloads_and_goes_with_the_storage(page):
    # Two secrets agree in cohort and 96 bits with a chance below 1e-20.
    before = page.evaluate(KEPT, FRUIT.to_json())
    page.reload()
    assert page.evaluate(KEPT, FRUIT.to_json()) == before
    assert page.evaluate("Object.keys(localStorage)") == ["sfumato.telemetry.secret"]
    page.evaluate("localStorage.clear()")
    assert page.evaluate(KEPT, FRUIT.to_json()) != before


def test_the_stored_secret_is_the_one_that_python_would_use(page):
    cohort, *retained = page.evaluate(KEPT, FRUIT.to_json())
    secret = bytes.fromhex(page.evaluate("localStorage.getItem(sfumato.ITEM)"))
    assert len(secret) == 32
    client = ReportEncoder(FRUIT, secret=secret)
    assert [cohort, retained] == [client.cohort, client.permanent("tea").tolist()]


def test_two_metrics_of_one_browser_respond_on_their_own(page):
    # Responses without a link differ in a bit with chance 3/8; below 12 of 96 has p < 1e-7, and
    # clients alike in both metrics differ in none.
    drinks = Rappor(bits=96, hashes=2, cohorts=512, f=0.5, p=0.25, q=0.75, metric="drinks")
    (_, *one), (_, *other) = (page.evaluate(KEPT, each.to_json()) for each in (FRUIT, drinks))
    assert np.unpackbits(np.uint8(one) ^ np.uint8(other)).sum() >= 12


def test_blocked_storage_is_refused_with_the_remedy(page, site):
    page.goto(f"{site.url}/script.html?blocked")
    attempt = "json => { try { new sfumato.Telemetry(json); } catch (e) { return e.message; } }"
    said = page.evaluate(attempt, FRUIT.to_json())
    assert "no storage that lasts" in said
    assert "{ secret }" in said


def test_the_script_and_the_module_are_one_client(page, site):
    secret = bytes(range(40))
    module = of_page(page, FRUIT, secret, ["tea"])
    page.goto(f"{site.url}/script.html")
    assert of_page(page, FRUIT, secret, ["tea"]) == module


def test_a_sent_report_arrives_as_one_line_that_counts_once(page, site):
    # The site refuses the first try; both tries carry one id.
    send = """async ([json, url]) => {
        const client = new sfumato.Telemetry(json);
        await sfumato.send(url, client.encode("tea"), { pause: 1 });
    }"""
    page.evaluate(send, [FRUIT.to_json(), f"{site.url}/reports"])
    assert len(site.posted) == 2
    assert site.posted[0] == site.posted[1]
    assert "tea" not in site.posted[0]
    counts = Counts(FRUIT).update(read_reports([line.strip() for line in site.posted], FRUIT))
    assert (counts.reports.sum(), counts.refused["duplicate"]) == (1, 1)


def test_reports_made_in_the_page_count_as_the_chances_say(page):
    # 128 cells of fresh randomness: their chi-squared passes this with chance 1e-12 (Laurent,
    # Massart 2000, lemma 1).
    params = Rappor(bits=32, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75)
    reports = reports_of_page(page, params, HELD)
    counts = Counts(params).update(reports)
    assert (counts.reports.sum(), dict(counts.refused)) == (3000, {})
    owner = np.repeat(np.arange(len(HELD)), list(HELD.values()))
    clients = np.zeros((len(HELD), 4))
    np.add.at(clients, (owner, reports.cohorts), 1)
    chances = np.full((len(HELD), 4, 32), float(params.low))
    np.put_along_axis(chances, params.members(list(HELD)), float(params.high), axis=2)
    mean = np.einsum("vj,vji->ji", clients, chances)
    spread = np.einsum("vj,vji->ji", clients, chances * (1 - chances))
    surprise = ((counts.cells - mean) ** 2 / spread).sum()
    assert surprise < 128 + 2 * np.sqrt(128 * np.log(1e12)) + 2 * np.log(1e12)


def test_reports_made_in_the_page_decode_to_what_the_clients_held(page):
    # Beyond seven standard errors with chance 3e-12 for each of five candidates.
    params = Rappor(bits=32, hashes=2, cohorts=4, f=0.25, p=0.25, q=0.75)
    counts = Counts(params).update(reports_of_page(page, params, HELD))
    found = decode(counts, [*HELD, "ale", "gin"])
    truth = np.array([*HELD.values(), 0, 0])
    assert np.all(np.abs(found["estimate"] - truth) < 7 * found["std_error"])
    assert np.all(found["std_error"] < 150)
    assert found["detected"].tolist()[:3] == [True, True, True]


def test_the_demonstration_shows_every_step_and_asks_nobody(page, site):
    page.goto(f"{site.url}/demo.html")
    page.fill("#word", "pears")
    assert page.locator("#bloom i").count() == page.locator("#permanent i").count() == 64
    assert page.locator("#bloom i.on").count() == 2
    assert page.locator("#reports i").count() == 6 * 64
    sent = page.inner_text("#json")
    assert "pears" not in sent
    assert set(json.loads(sent)) == {"v", "params", "cohort", "bits", "id"}
    page.click("#again")
    assert page.inner_text("#json") != sent
