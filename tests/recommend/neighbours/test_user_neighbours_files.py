"""Files of user neighbours: the same answers bit by bit, whatever was set later; damage refused."""

import numpy as np
import pytest

from sfumato.core.file_format import pack
from sfumato.data import Interactions, generate_world
from sfumato.recommend import ModelFormatError, RawProfiles, UserNeighbours, load

WORLD = generate_world(users=60, items=40, ratings=900, random_state=1).interactions
WORDS = Interactions(
    [f"user {u}" for u in WORLD.users], [f"item {i}" for i in WORLD.items], WORLD.ratings
)
UNRATED = Interactions(WORLD.users, WORLD.items)
CASES = {
    "default": (WORLD, {}),
    "words": (WORDS, {"metric": "jaccard", "weighting": "equal", "threshold": 0.1}),
    "unrated": (UNRATED, {"neighbours": None, "shrink": False}),
    "ratings": (WORLD, {"predicts": "ratings"}),
    "correlation": (WORLD, {"metric": "pearson", "predicts": "ratings", "shrink": False}),
    "many common": (RawProfiles(WORLD, least_common=4, threads=2), {"metric": "inner"}),
}


def ids_of(train):
    return (train.users_, train.items_) if isinstance(train, RawProfiles) else train.coded()[2:]


def answers(model, users, items):
    """Everything that a model is ever asked for."""
    yield from model.recommend(users, 12)
    yield from model.similar_users(users, 7)
    yield model.predict(np.repeat(users, 5), np.tile(items[:5], len(users)))
    if model.get_params()["metric"] != "pearson":
        yield from model.recommend_fold_in(items[3:9])


@pytest.mark.parametrize("case", CASES)
def test_a_file_gives_the_same_answers_bit_by_bit(case, tmp_path):
    train, options = CASES[case]
    users, items = ids_of(train)
    model = UserNeighbours(**options).fit(train, catalogue=items[2:])
    model.save(tmp_path / "model")
    for twin in (load(tmp_path / "model"), UserNeighbours.load(tmp_path / "model")):
        pairs = zip(answers(model, users, items), answers(twin, users, items), strict=True)
        for one, other in pairs:
            np.testing.assert_array_equal(one, other)
        assert twin.to_bytes() == model.to_bytes()
        assert (twin.nbytes, twin.user_kind_) == (model.nbytes, model.user_kind_)
        assert twin.get_params() == model.get_params()


def test_a_file_answers_as_it_was_fitted_whatever_was_set_later():
    model = UserNeighbours(neighbours=5).fit(WORLD)
    want = model.recommend(3)[1]
    twin = load(model.set_params(neighbours=1, metric="inner").to_bytes())
    np.testing.assert_array_equal(twin.recommend(3)[1], want)
    assert twin.get_params()["neighbours"] == 1


BROKEN = {
    "an item outside": ("positions", lambda a: np.r_[a[:-1], 4000].astype(a.dtype)),
    "an item twice": ("positions", lambda a: np.r_[a[1], a[1:]]),
    "a user without items": ("starts", lambda a: np.r_[a[:1], a[:1], a[2:]]),
    "a rating that is none": ("ratings", lambda a: np.r_[a[:-1], np.nan]),
    "too few ratings": ("ratings", lambda a: a[:-1]),
    "too few means": ("crowd_mean", lambda a: a[:-1]),
    "a variance below 0": ("crowd_variance", lambda a: a - 1),
}
STATES = {
    "between": -2.0,
    "overdispersion": -1.0,
    "users": "text",
    "least_common": 0,
    "fitted": {},
}


def rewritten(model, arrays=None, **state):
    """The file of a model with other arrays or another state, and a sound checksum."""
    header = {
        "kind": "UserNeighbours",
        "version": model.version,
        "parameters": model.get_params(),
        "state": {**model._state(), "catalogue": model.catalogue_.kind, **state},
    }
    return pack(header, {**model._arrays(), **(arrays or {}), **model.catalogue_.arrays()})


def test_contradictory_files_are_refused():
    model = UserNeighbours().fit(WORLD)
    assert load(rewritten(model)).to_bytes() == model.to_bytes()
    for name, damage in BROKEN.values():
        with pytest.raises(ModelFormatError):
            load(rewritten(model, {name: damage(model._arrays()[name])}))
    for name, value in STATES.items():
        with pytest.raises(ModelFormatError):
            load(rewritten(model, **{name: value}))
    rated = UserNeighbours(predicts="ratings").fit(WORLD)
    assert load(rewritten(rated)).to_bytes() == rated.to_bytes()
    for other in (
        UserNeighbours(predicts="ratings").fit(WORDS),
        UserNeighbours(predicts="ratings").fit(WORLD, catalogue=WORLD.items[:9]),
    ):
        with pytest.raises(ModelFormatError):
            load(rewritten(rated, {"rated": other._arrays()["rated"]}))
    with pytest.raises(ModelFormatError):
        load(rewritten(rated, {"rated": rated._arrays()["rated"][:-1]}))
