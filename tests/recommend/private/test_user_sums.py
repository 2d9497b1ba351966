"""No user moves the sums by more than their sensitivity, rounding included."""

import itertools

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.user_sums import (
    COUNT,
    GRAM,
    ItemSets,
    count_sensitivity,
    head_sensitivity,
)
from support.hard_rows import ODD, nothing, silent, with_row

ITEMS = 5
CATALOGUE = Catalogue(np.arange(ITEMS))
HEAD = np.array([3, 0, 4])
OTHERS = [(8, 1), (8, 3), (8, 0), (9, 3), (9, 4), (9, 99)]


def rows(events):
    users, items = zip(*events, strict=True) if events else ((), ())
    return Interactions(np.array(users, int), np.array(items, int), np.ones(len(events)))


def counts(train, per_user):
    return ItemSets.of(train, CATALOGUE).counts(ITEMS, per_user)


def gram(train, head=HEAD):
    return ItemSets.of(train, CATALOGUE).gram(head, ITEMS)


def histories():
    """Every set of items of user 7, in the order of the catalogue and as duplicates backwards."""
    for size in range(ITEMS + 1):
        for own in itertools.combinations(range(ITEMS), size):
            yield [(7, item) for item in own]
            yield [(7, item) for item in (*own, *own)][::-1]


@pytest.mark.parametrize("per_user", [1, 2, 3, 64])
def test_no_user_changes_the_counts_more_than_is_said(per_user):
    for mine in histories():
        # First, so that numbers in the order of appearance would shift.
        change = counts(rows(mine + OTHERS), per_user) - counts(rows(OTHERS), per_user)
        assert int((change**2).sum()) <= count_sensitivity(per_user)
        assert (np.flatnonzero(change[:ITEMS]) == np.unique([item for _, item in mine])).all()


@pytest.mark.parametrize("head", [HEAD, np.arange(ITEMS), np.array([2])])
def test_no_user_changes_the_gram_matrix_more_than_is_said(head):
    for mine in histories():
        change = gram(rows(mine + OTHERS), head) - gram(rows(OTHERS), head)
        assert int((change**2).sum()) <= head_sensitivity()
        if not {item for _, item in mine} & set(head.tolist()):
            assert not change.any()


def test_long_histories_use_their_norm_and_never_more():
    # Rounding down loses at most one unit of a cell, which is much for the longest history only.
    catalogue = Catalogue(np.arange(2500))
    for k in (1, 2, 3, 7, 8, 9, 100, 777, 2500):
        sets = ItemSets.of(rows([(7, item) for item in range(k)]), catalogue)
        squares = int((sets.counts(2500, 8) ** 2).sum())
        assert squares <= count_sensitivity(8)
        assert squares >= 0.98 * count_sensitivity(8) or k < 8
        squares = int((sets.gram(np.arange(2500), 2500) ** 2).sum())
        assert 0.97 * head_sensitivity() <= squares <= head_sensitivity()


def test_sums_are_those_of_the_formulas():
    train = rows([(7, 0), (7, 1), (7, 1), (8, 1), (8, 0), (8, 3), (8, 4), (9, 99)])
    cells = counts(train, 4)
    assert cells.tolist() == [2 * COUNT, 2 * COUNT, 0, COUNT, COUNT, 2 * (2 * COUNT // 5)]
    less = counts(train, 1)
    assert less[0] == int(COUNT / 2**0.5) + COUNT // 2
    matrix = gram(train)  # of 3, 0 and 4: user 7 has one of them, user 8 three
    each, both = GRAM // 3, int(2**0.5 * GRAM / 3)
    assert matrix.tolist() == [each, GRAM + each, each, both, both, both]
    for shuffled in (rows(OTHERS), rows(OTHERS[::-1])):
        assert (counts(shuffled, 2) == counts(rows(OTHERS), 2)).all()
        assert (gram(shuffled) == gram(rows(OTHERS))).all()


def test_no_odd_row_raises_warns_or_moves_more_than_its_user():
    plain = rows([(7, 3), (7, 1), *OTHERS])
    for name, row in ODD.items():
        more = silent(lambda row=row: with_row(plain, row))
        change = counts(more, 2) - counts(plain, 2)
        assert int((change**2).sum()) <= 4 * count_sensitivity(2), name  # a user leaves, one comes
        change = gram(more) - gram(plain)
        assert int((change**2).sum()) <= 4 * head_sensitivity(), name
    for name in ("floats", "written", "plain", "no user", "NaN rating", "text item", "list"):
        assert (counts(with_row(plain, ODD[name]), 2) == counts(plain, 2)).all(), name
    assert not counts(nothing(), 2).any()
    assert not gram(nothing()).any()


def test_ids_as_integers_and_as_texts_are_summed_equally():
    users, items = zip(*OTHERS, strict=True)
    texts = list(map(str, users)), list(map(str, items))
    for both in (texts, (users, texts[1]), (texts[0], items)):
        train = Interactions(*both, np.ones(len(users)))
        assert (counts(train, 2) == counts(rows(OTHERS), 2)).all()
        assert (gram(train) == gram(rows(OTHERS))).all()
