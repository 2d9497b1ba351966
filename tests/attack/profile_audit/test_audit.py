"""The audit of profiles: what is recovered and by whom, the same each time, about nobody alone."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from sfumato.attack import audit_profiles, choose_epsilon
from sfumato.attack.profile_audit import scenario
from sfumato.attack.profile_audit.scenario import BY_POPULARITY, BY_TASTE, POPULARITY
from sfumato.attack.report.profile_page import GRID, MEANINGS
from sfumato.data import Interactions, generate_world
from sfumato.profile import Blip, Jlt, Minima, Signs
from support.hard_rows import released_to_all

SMALL = {"bits": 512, "hashes": 4}
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def world():
    return generate_world(users=80, items=60, ratings=1000, random_state=4).interactions


@pytest.fixture(scope="module")
def found(world):
    return audit_profiles(world, Blip(**SMALL, epsilon=4), epsilons=[0.02, 2, 4, 200])


def recoveries(found, attack):
    return [point.attacks[attack].recovery for point in found.points]


def test_more_is_recovered_at_larger_epsilons_up_to_everything(found):
    for attack in (BY_POPULARITY, BY_TASTE):
        result = recoveries(found, attack)
        assert result == sorted(result)
        assert (
            result[-1] > 0.99
        )  # a few items have all their bits in common with others of a profile
    # No information at 0.02: the error of a difference of two means is about 0.03.
    assert abs(recoveries(found, BY_POPULARITY)[0] - found.popularity) < 0.05
    assert recoveries(found, "single, no prior")[0] < found.popularity - 0.1
    assert [point.privacy for point in found.points][-1] < 0.01  # sizes are estimated
    utility = [point.utility for point in found.points]
    assert utility[-1] > utility[0] + 0.3
    assert found.points[-1].profile_nats > found.points[1].profile_nats > 0


def test_popularity_alone_is_what_raw_profiles_give(world, found):
    coded = world.coded()
    has = np.zeros((coded.user_ids.size, coded.item_ids.size), bool)
    has[coded.user_codes, coded.item_codes] = True
    order = np.random.default_rng(0).permutation(80)
    attacked, known = has[order[48:]], has[order[:48]].sum(axis=0)
    fractions = []
    for profile in attacked:
        size = int(profile.sum())
        # Items of one popularity take equal fractions of the remaining ranks.
        cut = np.sort(known)[::-1][size - 1]
        sure, tied = known > cut, known == cut
        fractions.append((profile[sure].sum() + profile[tied].mean() * (size - sure.sum())) / size)
    assert found.popularity == pytest.approx(np.mean(fractions))
    assert recoveries(found, POPULARITY) == pytest.approx([np.mean(fractions)] * 4)
    assert found.users == {"known": 48, "learned_from": 48, "attacked": 32, "at_most": 200}
    assert found.mean_size == attacked.sum() / 32


def test_the_sentence_says_what_was_measured(found):
    here, before, after = found.points[2], found.points[1], found.points[3]
    assert found.epsilon == here.epsilon == 4
    for words in (
        "An attacker who sees this release (epsilon 4) and knows item popularity",
        f"recovers {here.by_popularity:.1%} of a typical profile",
        f"popularity alone gives {found.popularity:.1%}",
        f"which items go together recovers {here.recovery:.1%}",
        f"at epsilon 2 it would be {before.by_popularity:.1%} and {before.recovery:.1%}",
        f"at epsilon 200 it would be {after.by_popularity:.1%} and {after.recovery:.1%}.",
    ):
        assert words in found.sentence
    size = round(found.mean_size)
    assert f"profile of mean size, {size}, only with epsilon {4 * size}" in found.promise
    assert found.sentence in str(found)
    assert f"recovers {here.recovery:.1%}" in repr(found)


@pytest.mark.parametrize(
    "mechanism",
    [
        Blip(**SMALL, epsilon=3),
        Jlt(dimensions=64, sigma=2.0),
        Signs(bits=64, epsilon=3),
        Minima(bins=32, epsilon=3),
    ],
)
def test_every_mechanism_is_audited_the_same_each_time(world, mechanism):
    result, again = (audit_profiles(world, mechanism, epsilons=[], sample=20) for _ in range(2))
    assert result.to_dict() == again.to_dict()
    other = audit_profiles(world, mechanism, epsilons=[], sample=20, random_state=1)
    assert other.recovery != result.recovery
    assert 0 < result.popularity <= result.recovery + 0.1 < 1.1
    if isinstance(mechanism, Jlt):  # sigma gave its epsilon
        stated = released_to_all(mechanism, world).statement.epsilon
        assert result.epsilon == pytest.approx(stated)
    json.dumps(result.to_dict(), allow_nan=False)


def test_nobody_is_named_and_no_list_is_about_users(world, tmp_path):
    named = Interactions(
        [f"person{u}" for u in world.users], [f"film{i}" for i in world.items], world.ratings
    )
    found = audit_profiles(named, Blip(**SMALL, epsilon=4), epsilons=[])
    found.save_json(tmp_path / "json")
    found.save_html(tmp_path / "html")
    for name in ("json", "html"):
        assert not re.search(r"person\d|film\d", (tmp_path / name).read_text())

    def lists(value):
        if isinstance(value, list):
            yield len(value)
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, dict | list):
                yield from lists(each)

    assert list(lists(found.to_dict())) == [1]  # the points


class Checker(HTMLParser):
    """Notes tags that are not closed, what is fetched from elsewhere, and the text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.wrong, self.fetched, self.text, self.tags = [], [], [], "", set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.fetched += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data


def test_the_page_stands_alone_and_is_for_the_curator(found, tmp_path):
    found.save_html(tmp_path / "audit.html")
    result = Checker((tmp_path / "audit.html").read_text())
    assert (result.open, result.wrong) == ([], [])
    assert "script" not in result.tags
    assert len(result.fetched) == 1
    assert result.fetched[0].startswith("data:image/png;base64,iVBOR")
    assert "for the curator; not a release" in result.text
    assert "computed from raw profiles" in result.text
    for sentence in (found.sentence, found.promise, *MEANINGS.values()):
        assert sentence in result.text
    best = found.point.attacks[BY_TASTE]
    assert f"{best.recovery:.1%} ± {best.error:.1%}" in result.text
    assert list(tmp_path.iterdir()) == [tmp_path / "audit.html"]
    assert found.files()["html"] == (tmp_path / "audit.html").read_bytes()
    found.save_png(tmp_path / "audit.png")
    assert (tmp_path / "audit.png").read_bytes().startswith(PNG)


def test_a_row_that_comes_again_counts_once(world):
    again = np.arange(len(world)) % 3 == 0
    twice = world.merge(world.filter(again))
    mechanism = Blip(**SMALL, epsilon=4)
    one, two = (audit_profiles(each, mechanism, epsilons=[]) for each in (world, twice))
    assert one.to_dict() == two.to_dict()


def test_many_items_are_worked_off_in_parts(world, found, monkeypatch):
    monkeypatch.setattr(scenario, "CELLS", 5 * found.candidates)
    ticks = []
    result = audit_profiles(
        world,
        Blip(**SMALL, epsilon=4),
        epsilons=[0.02, 2, 4, 200],
        progress=lambda done, total: ticks.append((done, total)),
    )
    assert result.popularity == found.popularity
    assert result.points[-1].recovery == pytest.approx(found.points[-1].recovery, abs=0.002)
    # The noise is another one: the error of a difference of two means is about 0.03.
    assert result.recovery == pytest.approx(found.recovery, abs=0.1)
    assert [point.utility for point in result.points] == [point.utility for point in found.points]
    assert ticks == sorted(ticks)
    assert ticks[-1] == (128, 128)


def test_fewer_users_are_attacked_by_default_where_there_are_many_items(world, monkeypatch):
    monkeypatch.setattr(scenario, "ATTACKED", 25 * 60 + 7)
    mechanism = Blip(**SMALL, epsilon=4)
    found = audit_profiles(world, mechanism, epsilons=[])
    assert found.users == {"known": 48, "learned_from": 48, "attacked": 25, "at_most": 25}
    assert "at most 25" in found.files()["html"].decode()
    queries = audit_profiles(world, mechanism, epsilons=[], sample=30)
    assert queries.users == {"known": 48, "learned_from": 48, "attacked": 30, "at_most": 30}
    monkeypatch.setattr(scenario, "ATTACKED", 1)
    assert audit_profiles(world, mechanism, epsilons=[]).users["attacked"] == 20


def test_an_audit_looks_at_the_epsilon_it_chose(world):
    mechanism = Blip(**SMALL, epsilon=1)
    result = audit_profiles(world, mechanism, max_recovery=0.8)
    assert result.choice == choose_epsilon(world, mechanism, 0.8)
    assert result.epsilon == result.choice.epsilon
    assert result.recovery == result.choice.recovery <= 0.8
    page = result.files()["html"].decode()
    assert result.to_dict()["choice"]["sentence"] in page
    assert "does not cover the choice" in page
    assert GRID in page
    assert all(point.epsilon in dict(result.choice.tried) for point in result.points)
    none = audit_profiles(world, mechanism, max_recovery=0.01, epsilons=[])
    assert (none.choice.epsilon, none.epsilon) == (None, 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"known": 0}, "audit_profiles: known must be a number between 0 and 1"),
        ({"known": 1}, "audit_profiles: known"),
        ({"sample": 1}, "audit_profiles: sample must be an integer from 2"),
        ({"n": 0}, "audit_profiles: n must be"),
        ({"random_state": -1}, "audit_profiles: random_state"),
        ({"epsilons": [1, 0]}, "audit_profiles: epsilons must be a finite number above 0, not 0"),
        ({"max_recovery": 1.5}, "audit_profiles: max_recovery"),
    ],
)
def test_bad_values_are_refused(world, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        audit_profiles(world, Blip(**SMALL, epsilon=1), **change)


def test_what_cannot_be_audited_is_refused(world):
    few = Interactions(np.arange(19), np.arange(19), np.ones(19))
    with pytest.raises(ValueError, match="at least 20 users, not 19"):
        audit_profiles(few, Blip(epsilon=1))
    with pytest.raises(ValueError, match="at least 20 users, not 0"):
        audit_profiles(few.filter([]), Blip(epsilon=1))
    with pytest.raises(
        ValueError, match="epsilon must be above 0: at 0 a release carries no information"
    ):
        audit_profiles(world, Blip(epsilon=0))
    with pytest.raises(TypeError, match="must be a Blip, Jlt, Signs or Minima, not str"):
        audit_profiles(world, "blip")
    with pytest.raises(TypeError, match="must be Interactions, not list"):
        audit_profiles([1, 2], Blip(epsilon=1))
    one_item = Interactions(np.arange(20), np.zeros(20, int), np.ones(20))
    assert audit_profiles(one_item, Blip(**SMALL, epsilon=1), epsilons=[]).popularity == 1
