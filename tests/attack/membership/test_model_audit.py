"""The curator's report: figures over many rows only, the same each time, written atomically."""

import json
import re
import subprocess
import sys
from copy import copy
from html.parser import HTMLParser

import numpy as np
import pytest

from sfumato.attack import audit_model
from sfumato.attack.membership.records import quarters
from sfumato.attack.report.html import MEANINGS, page
from sfumato.data import Interactions
from sfumato.privacy import PrivacyStatement
from sfumato.privacy.statement import INSECURE
from support.fake_models import LeastSquares, Means, ratings_world

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def split():
    return ratings_world(seed=2).split(0.5, 0.5)


@pytest.fixture(scope="module")
def learned_by_heart(split):
    return LeastSquares(12, 1e-3).fit(split[0])


@pytest.fixture(scope="module")
def found(split, learned_by_heart):
    return audit_model(learned_by_heart, *split)


def test_a_model_that_learned_by_heart_looks_it(found):
    assert found.rmse["train"] < 0.6 * found.rmse["test"]
    assert found.divergence > 0.3
    assert found.divergence.free > 0.1
    assert found.membership.auc > 0.65
    assert "for the curator; not a release" in repr(found)


def test_means_look_harmless(split):
    found = audit_model(Means().fit(split[0]), *split)
    assert found.divergence < 0.005
    assert found.membership.attacks["loss"].auc.low < 0.5


def test_the_dictionary_is_json_and_holds_figures_over_many_rows_only(found):
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["audience"] == "for the curator; not a release"
    assert document["rows"] == {"train": 6000, "test": 6000, "left_out": 0}

    def lists(value):
        if isinstance(value, list):
            yield len(value)
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, dict | list):
                yield from lists(each)

    assert max(lists(document)) < 200


def test_nobody_is_named(split, tmp_path):
    sides = [
        Interactions([f"person{u}" for u in s.users], [f"film{i}" for i in s.items], s.ratings)
        for s in split
    ]

    class Named(Means):
        def predict(self, users, items):
            return super().predict(None, np.array([int(item[4:]) for item in items]))

        _user_vectors = property()  # as of a model that gives no factors

    found = audit_model(Named().fit(split[0]), *sides)
    assert set(found.membership.attacks) == {"loss", "likelihood ratio"}
    found.save_html(tmp_path / "a.html")
    found.save_json(tmp_path / "a.json")
    for name in ("a.html", "a.json"):
        assert not re.search(r"person\d|film\d", (tmp_path / name).read_text())


def test_quarters_hold_all_rows_and_quiet_users_leak_more(found, split):
    assert sum(quarter.train for quarter in found.activity) == 6000
    assert sum(quarter.test for quarter in found.activity) == 6000
    least = [quarter.least for quarter in found.activity]
    assert least == sorted(least)
    rated = np.bincount(np.concatenate([side.users for side in split]))
    assert least[1:] == list(np.quantile(rated, (0.25, 0.5, 0.75), method="higher"))
    for side in (0, 1):
        quarter = np.searchsorted(least[1:], rated[split[side].users], "right")
        shown = [(each.train, each.test)[side] for each in found.activity]
        assert shown == list(np.bincount(quarter, minlength=4))
    quiet, busy = found.activity[0].divergence, found.activity[3].divergence
    assert quiet > 1.5 * busy


def test_a_quarter_of_too_few_rows_says_so():
    class Row:
        errors = np.linspace(-1, 1, 50)
        quarter = np.repeat([3, 0], [45, 5])

    class Looked(tuple):
        quarters = (2, 5, 9)

    first, *_, last = quarters(Looked((Row, Row)))
    assert (first.train, first.divergence, first.test_rmse) == (5, None, None)
    assert last.least == 9
    assert last.divergence == 0
    assert json.dumps([first.to_dict(), last.to_dict()], allow_nan=False)


class Checker(HTMLParser):
    """Notes tags that are not closed, what is fetched from elsewhere, and the text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.wrong, self.fetched, self.text, self.cells = [], [], [], "", []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.fetched += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_the_page_stands_alone_and_explains_every_figure(found, tmp_path):
    found.save_html(tmp_path / "audit.html")
    result = Checker((tmp_path / "audit.html").read_text())
    assert (result.open, result.wrong) == ([], [])
    assert len(result.fetched) == 1
    assert result.fetched[0].startswith("data:image/png;base64,iVBOR")
    assert "for the curator; not a release" in result.text
    for sentence in MEANINGS.values():
        assert sentence in result.text
    area = found.membership.attacks["loss"].auc
    assert f"{area:.3f} ({area.low:.3f} to {area.high:.3f})" in result.cells
    assert f"{found.rmse['test']:.4f}" in result.cells
    assert list(tmp_path.iterdir()) == [tmp_path / "audit.html"]


def test_the_figure_is_drawn_and_all_files_are_the_same_each_time(
    found, split, learned_by_heart, tmp_path
):
    again = audit_model(learned_by_heart, *split)
    for name in ("json", "html"):  # the page contains the figure
        files = [tmp_path / f"{at}.{name}" for at in (0, 1)]
        for file, audit in zip(files, (found, again), strict=True):
            getattr(audit, f"save_{name}")(file)
        assert files[0].read_bytes() == files[1].read_bytes()
    found.save_png(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(PNG)


def test_a_perfect_memory_is_reported_too(tmp_path):
    rows = ratings_world(4000, seed=3)
    train, test = rows.split(0.5, 0.5)
    heart = dict(zip(zip(train.users, train.items, strict=True), train.ratings, strict=True))

    class Parrot:
        def predict(self, users, items):
            return np.array([heart.get(pair, 3.5) for pair in zip(users, items, strict=True)])

    found = audit_model(Parrot(), train, test)
    assert found.membership.attacks["loss"].auc == 1
    assert found.to_dict()["divergence"]["gaussian"] is None
    found.save_json(tmp_path / "a.json")
    found.save_html(tmp_path / "a.html")


def stated(**changed):
    words = dict(unit="event", relation="add/remove", mechanism="noise", epsilon=0.1, loss={})
    return PrivacyStatement(**{**words, "covers": "the whole file: all of it", **changed})


@pytest.mark.parametrize(
    ("statement", "claimed"),
    [
        (stated(), (0.2, 0)),
        (stated(relation="replace"), (0.1, 0)),
        (stated(epsilon=1.0, delta=1e-6), (2, pytest.approx(1e-6 * (1 + np.e)))),
        (stated(covers="joint: item side only"), None),
        (stated(covers="the values of ratings alone", relation="replace"), None),
        (stated(unit="user", contributions=9), None),
        (stated(source=INSECURE), None),
        (None, None),
    ],
)
def test_a_claim_is_held_against_what_was_measured(split, learned_by_heart, statement, claimed):
    model = copy(learned_by_heart)
    model.statement = statement
    found = audit_model(model, *split)
    assert found.claimed == claimed
    assert found.membership.epsilon.delta == (claimed[1] if claimed else 0)
    assert found.refuted is (
        None if claimed is None else found.membership.epsilon.epsilon > claimed[0]
    )
    words = "an attack refutes it" if found.refuted else "proves nothing"
    assert words in page(found.to_dict(), b"")


def test_a_false_claim_is_refuted_and_a_true_one_is_not(split, learned_by_heart):
    # The second model learned from other ratings, so of these it keeps every epsilon. It is refuted
    # with p <= 0.05, of which a fixed seed makes never.
    heart, unrelated = copy(learned_by_heart), LeastSquares(12, 1e-3).fit(ratings_world(seed=9))
    heart.statement = unrelated.statement = stated()
    assert audit_model(heart, *split).refuted is True
    assert audit_model(unrelated, *split).refuted is False


def test_a_file_that_cannot_be_written_leaves_nothing(found, tmp_path):
    with pytest.raises(OSError, match="missing"):
        found.save_png(tmp_path / "missing" / "audit.png")
    assert list(tmp_path.iterdir()) == []


def test_drawing_is_loaded_only_when_something_is_drawn():
    code = (
        "import sys, sfumato.attack; print('matplotlib' in sys.modules, 'sklearn' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False False"
