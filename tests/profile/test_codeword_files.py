"""Releases of the three mechanisms survive files, refuse damage, and answer for empty profiles."""

import numpy as np
import pytest

from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.profile import load
from sfumato.sketch import SketchFormatError
from support.hard_rows import released_to_all
from support.profile_pairs import MECHANISMS, interactions

KINDS = pytest.mark.parametrize("kind", MECHANISMS)
INTERACTIONS = interactions([1, 2, 3], [2, 3], [9])
CELLS = {"jlt": "vectors", "signs": "codes", "minima": "codes"}


@KINDS
def test_a_file_gives_the_release_back(kind, tmp_path):
    for users in (range(3), np.array([5, 1, 0, 2]), np.array(["5", "1", "0", "2"], object)):
        release = MECHANISMS[kind]().release(INTERACTIONS, users=users)
        release.save(tmp_path / "profiles")
        read = load(tmp_path / "profiles")
        assert type(read) is type(release)
        assert read == release
        assert read.statement == release.statement
        np.testing.assert_array_equal(read.users_, release.users_)
        for metric in ("inner", "cosine", "jaccard"):
            np.testing.assert_array_equal(
                read.similarity(metric=metric), release.similarity(metric=metric)
            )
        assert not getattr(read, CELLS[kind]).flags.writeable


@KINDS
def test_cells_that_cannot_be_are_refused(kind):
    release = released_to_all(MECHANISMS[kind](), INTERACTIONS)
    data = bytearray(release.to_bytes())
    for at in (len(data) // 2, len(data) - 1):
        broken = bytearray(data)
        broken[at] ^= 1
        with pytest.raises(SketchFormatError):
            load(bytes(broken))
    with pytest.raises(SketchFormatError):
        load(bytes(data[:-8]))


@KINDS
def test_rows_that_do_not_go_with_the_users_are_refused(kind):
    release = released_to_all(MECHANISMS[kind](), INTERACTIONS)
    cells = getattr(release, CELLS[kind])
    arrays = {**release._arrays(), CELLS[kind]: cells[:2]}
    twin = object.__new__(type(release))
    twin.__dict__.update({**release.__dict__, **arrays})
    with pytest.raises(ValueError, match="not as many profiles as users"):
        twin._check_state()
    if kind != "jlt":
        over = cells.copy()
        over[0, -1] = np.iinfo(over.dtype).max
        twin.__dict__.update({**release.__dict__, CELLS[kind]: over})
        with pytest.raises(ValueError, match="code"):
            twin._check_state()


@KINDS
def test_empty_profiles_have_answers(kind):
    release = MECHANISMS[kind]().release(
        INTERACTIONS, users=np.arange(40), source=InsecureSeededSource(1)
    )
    assert len(release) == 40
    sizes = release.estimate_size()[3:]
    assert abs(sizes.mean()) < 5 * np.sqrt(release._size_variance()[3:].mean() / 37)
    for metric in ("inner", "cosine", "jaccard"):
        released = release.similarity(metric=metric)
        assert np.isfinite(released).all()
        assert np.isfinite(release.similarity_variance(metric=metric)).all()
    assert np.isfinite(release.memberships([1, 77])).all()
    low, high = release.size_bounds()
    assert (low >= 0).all()
    assert (high >= low).all()


@KINDS
def test_nobody_at_all_is_a_release_too(kind):
    release = released_to_all(MECHANISMS[kind](), interactions([1]).filter(np.zeros(1, bool)))
    assert len(release) == 0
    assert release.similarity().shape == (0, 0)
    assert release.estimate_size().shape == (0,)
    assert load(release.to_bytes()) == release


@KINDS
def test_unknown_items_are_answered_for_like_any_other(kind):
    release = released_to_all(MECHANISMS[kind](), INTERACTIONS)
    assert release.memberships([10**9, 4], rows=[0, 2]).shape == (2, 2)
    assert release.memberships(np.array([], np.int64)).shape == (3, 0)
    with pytest.raises((TypeError, ValueError), match="items"):
        release.memberships([1.5])
    with pytest.raises(ValueError, match="rows must be from 0 to 2"):
        release.memberships([4], rows=[3])
    with pytest.raises(ValueError, match="confidence must be"):
        release.size_bounds(1.0)
    with pytest.raises(ValueError, match="metric must be one of"):
        release.similarity(metric="distance")


@KINDS
def test_a_second_release_is_charged_and_the_one_too_many_refused(kind, tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    made = MECHANISMS[kind](epsilon=2)
    ledger.create("shop", 3.9, 1e-6, unit="item of a profile")
    terms = {"ledger": ledger, "dataset": "shop"}
    first = released_to_all(made, INTERACTIONS, release_id="monday", **terms)
    assert released_to_all(made, INTERACTIONS, release_id="monday", **terms) == first
    spent = ledger.spent("shop").epsilon
    assert 1.9 <= spent <= 2.0 * (1 + 1e-6)
    if kind != "minima":  # pure losses add up, so that two are too many already
        assert released_to_all(made, INTERACTIONS, **terms) != first
        assert ledger.spent("shop").epsilon > spent
        released_to_all(made, INTERACTIONS, **terms)
    with pytest.raises(BudgetExceeded):
        released_to_all(made, INTERACTIONS, **terms)


@KINDS
def test_parts_by_batches_are_released_at_one_charge(kind, tmp_path):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.create("shop", 2.1, 1e-6, unit="item of a profile")
    made = MECHANISMS[kind](epsilon=2)
    batches = [INTERACTIONS.filter(np.asarray(INTERACTIONS.users) == user) for user in range(3)]
    parts = list(
        made.release_batches(batches, users=[[0], [1], [2]], ledger=ledger, dataset="shop")
    )
    assert [part.users_.tolist() for part in parts] == [[0], [1], [2]]
    assert len({part.statement.release for part in parts}) == 1
    assert parts[0].similarity(parts[1]).shape == (1, 1)
    with pytest.raises(BudgetExceeded):
        released_to_all(made, INTERACTIONS, ledger=ledger, dataset="shop")
