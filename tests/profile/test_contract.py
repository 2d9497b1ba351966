"""Every kind of released profiles keeps the contract of releases, and of the questions to them."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sfumato.profile
from sfumato.core.file_format import checksum
from sfumato.data import Interactions
from sfumato.privacy import Privacy
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import Blip, Jlt, Minima, ReleasedProfiles, Signs, load
from sfumato.sketch import SketchFormatError
from support.observable import use
from support.release_contract import CHECKS, accounted

USERS = [4, 7, 1, 9]
WORLDS = [  # they differ in all that is private: here nobody has anything, here all, here others
    Interactions(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)),
    Interactions(np.repeat([7, 4, 9], 40), [*range(80), *range(40)], np.ones(120)),
    Interactions(np.repeat([1, 9], 30), [f"item {at}" for at in range(60)], np.ones(60)),
]


@dataclass
class Profiles:
    """A mechanism to release, and arguments of its `release`."""

    make: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)

    def release(self, which: int = 1, epsilon: float = 1.0, **terms: Any) -> ReleasedProfiles:
        terms = {"source": InsecureSeededSource(7), "users": USERS, **self.arguments, **terms}
        return self.make(epsilon=epsilon).release(WORLDS[which], **terms)


ITEM = {"unit": "item of a profile"}
PROFILES = {
    "ReleasedBlip": [
        Profiles(lambda **how: Blip(bits=200, hashes=3, **how), ITEM),
        Profiles(lambda **how: Blip(bits=8, hashes=1, **how), {**ITEM, "relation": "replace"}),
        Profiles(
            lambda **how: Blip(bits=64, hashes=1, **how), {"unit": "user", "contributions": 2}
        ),
    ],
    "ReleasedJlt": [Profiles(lambda **how: Jlt(dimensions=40, **how), ITEM)],
    "ReleasedSigns": [Profiles(lambda **how: Signs(bits=70, **how), ITEM)],
    "ReleasedMinima": [Profiles(lambda **how: Minima(bins=64, **how), ITEM)],
}
DELTAS = {"ReleasedJlt": 1e-6, "ReleasedSigns": 1e-6}
OWN = {
    "check_a_privacy_object_stands_for_its_keywords",
    "check_bad_terms_name_themselves_and_cost_nothing",
    "check_says_what_it_promises",
}
CASES = [
    pytest.param(check, case, id=f"{name}-{at}-{check.__name__[6:]}")
    for name, cases in PROFILES.items()
    for at, case in enumerate(cases)
    for check in CHECKS
    if check.__name__ not in OWN
]


@pytest.mark.parametrize("name", PROFILES)
def test_a_privacy_object_stands_for_its_keywords(name):
    for case in PROFILES[name]:
        bare = Profiles(case.make)
        privacy = Privacy(1, DELTAS.get(name, 0.0), **case.arguments)
        assert bare.release(privacy=privacy) == case.release()
        with pytest.raises(ValueError, match="privacy and unit must not both be given"):
            bare.release(privacy=privacy, unit="user")


def test_every_kind_has_joined():
    public = [getattr(sfumato.profile, name) for name in sfumato.profile.__all__]
    kinds = {each.__name__ for each in public if isinstance(each, type)}
    assert {name for name in kinds if name.startswith("Released")} == {
        *PROFILES,
        "ReleasedProfiles",
    }


def test_importing_profiles_is_light():
    heavy = "scipy.stats matplotlib sklearn duckdb pandas polars dp_accounting"
    code = f"import sys, sfumato.profile; print([m for m in '{heavy}'.split() if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(("check", "case"), CASES)
def test_contract_of_releases(check, case, tmp_path):
    check(case, tmp_path)


@pytest.mark.parametrize("name", PROFILES)
def test_the_statement_tells_what_is_hidden_and_at_which_cost(name):
    for case in PROFILES[name]:
        released = case.release(source=None).statement
        assert 0 < released.epsilon <= 1.0
        assert released.delta == DELTAS.get(name, 0.0)
        assert released.covers == "the items of each profile; which users have one is public"
        assert "a whole profile" in released.mechanism


SAMPLES = [case.release().to_bytes() for cases in PROFILES.values() for case in cases]


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, len(SAMPLES) - 1),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=4),
)
def test_mutated_bytes_load_whole_or_are_refused(which, changes):
    body = bytearray(SAMPLES[which][:-8])
    for share, value in changes:
        body[int(share**3 * len(body))] = value  # most changes hit the header
    try:
        release = load(bytes(body) + checksum(memoryview(bytes(body))))
    except SketchFormatError:
        return
    assert load(release.to_bytes()) == release
    list(use(release))


BAD = [("epsilon", bad) for bad in (-1, np.nan, np.inf, "much", True)]
BAD += [("contributions", bad) for bad in (0, -1, 1.5, "many", 2**40)]
BAD += [("unit", "event"), ("relation", "similar"), ("release_id", 7), ("source", 3)]


@pytest.mark.parametrize("name", PROFILES)
def test_bad_terms_name_themselves_and_cost_nothing(name, tmp_path):
    case = PROFILES[name][0]
    ledger, terms = accounted(tmp_path, case)
    for term, bad in BAD:
        with pytest.raises(ValueError, match=term):
            case.release(**{**terms, term: bad})
    with pytest.raises(ValueError, match="ledger and dataset go together"):
        case.release(dataset="shop")
    assert list(ledger.history("shop")) == []


@pytest.mark.parametrize("name", PROFILES)
def test_questions_have_answers_of_one_shape(name):
    released = PROFILES[name][0].release(epsilon=8.0)
    assert released.users_.tolist() == USERS
    assert len(released) == 4
    assert released.rows([9, 4]).tolist() == [3, 0]
    low, high = released.size_bounds(0.9)
    for sizes in (released.estimate_size(), low, high):
        assert sizes.shape == (4,)
        assert sizes.dtype == np.float64
    assert released.memberships(["tea", "rum"], rows=[1, 2, 1]).shape == (3, 2)
    for metric in ("cosine", "jaccard", "inner"):
        found = released.similarity(metric=metric, rows=[2, 0])
        assert (
            found.shape == released.similarity_variance(metric=metric, rows=[2, 0]).shape == (2, 4)
        )
        rows, near = released.nearest_rows([2, 0], 5, metric=metric)
        assert rows.shape == near.shape == (2, 5)
        assert rows.dtype == np.int64
        assert (rows[:, 3:] == -1).all()
        assert (near[:, 3:] == -np.inf).all()
        ids, _ = released.nearest([1, 4], 2, metric=metric)
        assert ids.shape == (2, 2)
        assert not (ids == np.array([[1], [4]])).any()
        filled = released.nearest([1, 4], 5, metric=metric)[0]
        assert (filled[:, 3:] == -1).all()  # 0 would be a user
    assert released.profile_epsilon(1) <= released.profile_epsilon(10)
