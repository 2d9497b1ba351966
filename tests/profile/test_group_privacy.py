"""What is said of whole profiles holds for all of them: against an empty one, and any other.

Small profiles are enumerated, and what they differ by before the noise is counted in integers.
"""

import itertools
import math
import re
from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernels import profile_codes as symbols
from sfumato.kernels import profile_sets as filters
from sfumato.privacy.accounting.calibration import gaussian_delta
from sfumato.privacy.accounting.losses import Loss
from sfumato.profile import Blip, Jlt, Minima, Signs
from sfumato.profile.gaussian_projection import sums
from sfumato.profile.item_sets import ProfileSets, hashed_items
from sfumato.profile.signs import WEIGHT
from support.hard_rows import released_to_all
from support.profile_pairs import continuous_delta, interactions

# Small, so that the worst pairs are among few profiles; still some differ by all that they may.
BLIP, MINIMA = Blip(bits=256, hashes=3, epsilon=2.0), Minima(bins=64, epsilon=2.0)
JLT, SIGNS = Jlt(dimensions=1, epsilon=2.0, delta=1e-4), Signs(bits=1, epsilon=2.0, delta=1e-4)
KINDS = [BLIP, MINIMA, JLT, SIGNS]
RELATIONS = ["add/remove", "replace"]
MOST = 2
ITEMS = range(7)
PROFILES = [list(s) for size in range(4) for s in itertools.combinations(ITEMS, size)]
EVERY = pytest.mark.parametrize("make", KINDS, ids=lambda make: type(make).__name__)
BOTH = pytest.mark.parametrize("relation", RELATIONS)


def cells(make, profiles, most):
    """What gets the noise, a row of integers a profile of which `most` items count."""
    sets = ProfileSets(0).update(interactions(*profiles))
    sets = sets.of_users(np.arange(len(profiles))).trimmed(most)
    if isinstance(make, Blip):
        words = np.zeros((len(profiles), 8), np.uint64)
        filters.insert(sets.starts, sets.hashes, make.bits, make.hashes, words)
        return np.unpackbits(words.view(np.uint8), axis=1).astype(np.int64)
    if isinstance(make, Minima):
        out = np.empty((len(profiles), make.bins), np.uint8)
        symbols.lowest(sets.hashes, sets.starts, make.code_bits, out)
        return out.astype(np.int64)
    found = np.concatenate([part for _, part in sums(sets.hashes, sets.starts, 1)])
    return np.column_stack([found, sets.sizes * WEIGHT]) if make is SIGNS else found


def holds(made, one, other, epsilon):
    """Whether noise on these cells is within epsilon, by its exact distribution but for Signs."""
    if isinstance(made.statement.loss.get("probability"), str):
        p, changed = Loss.from_dict(made.statement.loss).probability, int((one != other).sum())
        return changed * math.log((1 - p) / p) <= epsilon
    change, sigma = np.abs(one - other), Fraction(made.sigma)
    if change.size == 1:
        return gaussian_delta(epsilon, sigma, change=max(int(change[0]), 1)) <= made.delta
    moved = int((change**2).sum())
    return moved == 0 or continuous_delta(epsilon, moved, float(sigma)) <= made.delta


class StatedRelease:
    """A release, and the losses that its statement reports for entire profiles."""

    def __init__(self, make, **terms):
        release = released_to_all(make, interactions([1, 2, 3]), **terms)
        self.statement, self.delta = release.statement, release.statement.delta
        self.sigma = getattr(release, "grid_sigma", None)
        self.profile_epsilon, self.sentence = release.profile_epsilon, self.statement.mechanism

    def against(self, whom):
        found = re.search(rf"at epsilon (\S+) against {whom}", self.sentence)
        return found and float(found[1])


def pairs(rows):
    return itertools.combinations(rows, 2)


@EVERY
@BOTH
def test_the_privacy_loss_between_any_two_profiles_is_at_most_the_stated_one(make, relation):
    result = StatedRelease(make, unit="user", contributions=MOST, relation=relation)
    rows, any_other = cells(make, PROFILES, MOST), result.against("any other")
    assert all(holds(result, one, other, any_other) for one, other in pairs(rows))
    assert not all(holds(result, one, other, 0.8 * any_other) for one, other in pairs(rows))
    if relation == "replace":
        assert any_other == pytest.approx(result.statement.epsilon, rel=1e-5)
        assert "an empty one" not in result.sentence
        return
    empty = result.against("an empty one")
    assert empty == pytest.approx(result.statement.epsilon, rel=1e-5)
    assert all(holds(result, one, rows[0], empty) for one in rows)
    assert not all(holds(result, one, other, empty) for one, other in pairs(rows))
    doubled = 1.999 if isinstance(make, Blip | Minima) else 2.1
    assert any_other > doubled * empty


@EVERY
def test_an_item_that_evicts_another_is_within_what_is_said_of_any_other(make):
    ordered = np.array(ITEMS)[np.argsort(hashed_items(np.array(ITEMS), 0))]
    result = StatedRelease(make, unit="user", contributions=1)
    found = []
    for low, high in pairs(ordered):
        before, after = cells(make, [[high], [low, high]], 1)
        np.testing.assert_array_equal(after, cells(make, [[low]], 1)[0])  # the other one is out
        assert holds(result, before, after, result.against("any other"))
        found.append(holds(result, before, after, result.against("an empty one")))
    assert not all(found)


@EVERY
@BOTH
@pytest.mark.parametrize("items", [1, 2, 3, 50])
def test_the_loss_of_a_profile_of_a_user_is_that_of_the_statement(make, relation, items):
    result = StatedRelease(make, unit="user", contributions=items, relation=relation)
    assert result.profile_epsilon(items) >= result.statement.epsilon
    assert result.profile_epsilon(10 * items) == result.profile_epsilon(items)
    assert result.profile_epsilon(items) == pytest.approx(result.statement.epsilon, rel=1e-9)


@EVERY
@BOTH
@pytest.mark.parametrize(("unit", "most"), [("item of a profile", 1), ("user", 2)])
def test_the_loss_of_a_profile_bounds_all_profiles_of_so_many_items(make, relation, unit, most):
    result = StatedRelease(make, unit=unit, contributions=most, relation=relation)
    retained = 3 if unit == "item of a profile" else most
    rows = cells(make, PROFILES, retained)
    sizes = np.array([len(profile) for profile in PROFILES])
    for size in (1, 2, 3):
        some = rows[sizes <= size]
        if relation == "add/remove":
            compared = [(some[0], each) for each in some]  # the first is empty
        else:
            compared = list(pairs(some))
        loss = result.profile_epsilon(size)
        assert all(holds(result, one, other, loss) for one, other in compared)
        assert not all(holds(result, one, other, 0.8 * loss) for one, other in compared)


@EVERY
def test_under_replace_a_typical_profile_is_said_to_be_exchanged(make):
    given = {**make.parameters, "typical_size": 3}
    result = StatedRelease(type(make)(**given), relation="replace")
    said = result.against("any other of as many")
    assert said == pytest.approx(result.profile_epsilon(3), rel=1e-5)
    assert said >= result.profile_epsilon(3)


def test_no_profile_loses_more_than_all_bits():
    blip = Blip(bits=256, hashes=3, epsilon=2.0, typical_size=60)
    result = StatedRelease(blip, relation="replace")
    each = Loss.from_dict(result.statement.loss).each
    assert result.profile_epsilon(60) == result.profile_epsilon(10**6) == pytest.approx(256 * each)
    assert result.sentence.endswith(
        "of as many (85.3334 for any profile), which hides next to nothing of it"
    )
    many = StatedRelease(blip, unit="user", contributions=60)
    assert many.against("any other") == pytest.approx(256 / 180 * 2.0, rel=1e-5)
