"""Lists for all users on an engine: those of `recommend`, once for each user."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.data import Interactions, generate_world
from sfumato.engine import LocalEngine
from sfumato.recommend import ALS, NotFittedError, Popular, SketchFactorization, recommend_all
from support.engines import as_source

TRAIN = generate_world(users=150, items=40, ratings=3000, random_state=3).interactions
EVENTS = {"user": TRAIN.users, "item": TRAIN.items}
USERS = np.unique(TRAIN.users)
ONE = LocalEngine(threads=1)


def lists(rows):
    """The rows of each user, by rank."""
    found = {}
    for batch in rows:
        for row in batch.to_pylist():
            found.setdefault(row["user"], []).append((row["rank"], row["item"], row["score"]))
    return {user: sorted(own) for user, own in found.items()}


def expected(model, users, n, exclude=None, **options):
    found = {}
    for user in users.tolist():
        items, scores = model.recommend(user, n, exclude=exclude, **options)
        found[user] = list(zip(range(1, n + 1), items.tolist(), scores.tolist(), strict=False))
    return found


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for user, own in left.items():
        assert [row[:2] for row in own] == [row[:2] for row in right[user]]
        assert np.allclose([row[2] for row in own], [row[2] for row in right[user]])


def test_every_user_has_the_list_of_the_model_once(engine, tmp_path):
    model = SketchFactorization(factors=16, epochs=2).fit(TRAIN)
    source = as_source(engine, EVENTS, tmp_path)
    rows = recommend_all(model, source, engine=engine, user_column="user", n=5)
    assert_equal(lists(rows.batches()), expected(model, USERS, 5))
    rows.write(tmp_path / "lists")
    written = pq.read_table(tmp_path / "lists")
    assert written.schema.names == ["user", "item", "score", "rank"]
    assert_equal(lists(written.to_batches()), expected(model, USERS, 5))


@pytest.mark.parametrize("threads", [1, 3])
def test_own_items_are_excluded_and_short_lists_are_short(threads):
    model = ALS(factors=8, epochs=2, regularization=0.4).fit(TRAIN)
    engine = LocalEngine(threads=threads)
    rows = recommend_all(model, EVENTS, engine=engine, item_column="item", n=35)
    found = lists(rows.batches())
    assert_equal(
        found, {user: own for user, own in expected(model, USERS, 35, TRAIN).items() if own}
    )
    assert min(map(len, found.values())) < 35


def test_filters_unknown_users_and_text_ids_are_those_of_recommend():
    texts = Interactions([f"u{id}" for id in TRAIN.users.tolist()], TRAIN.items)
    model = Popular().fit(texts)
    mask = np.arange(len(model.catalogue_)) % 2 == 0
    users = np.array(["u1", "nobody", "u1", "u2"], object)
    rows = recommend_all(model, {"who": users}, engine=ONE, user_column="who", n=4, filter=mask)
    wanted = expected(model, np.unique(users), 4, filter=mask)
    assert_equal(lists(rows.batches()), wanted)


def test_what_cannot_be_recommended_is_refused():
    with pytest.raises(NotFittedError, match="ALS: not fitted yet; call fit first"):
        recommend_all(ALS(), EVENTS, engine=ONE)
    model = Popular().fit(TRAIN)
    with pytest.raises(ValueError, match="recommend_all: n must be an integer from 1 up"):
        recommend_all(model, EVENTS, engine=ONE, n=0)
    with pytest.raises(ValueError, match="null"):
        list(recommend_all(model, pa.table({"user": [1, None]}), engine=ONE).batches())
