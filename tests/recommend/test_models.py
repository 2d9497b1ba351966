"""The table of models: every model that can be fitted and saved is there, as its class is."""

import inspect
import re

import numpy as np
import pytest

from sfumato.data import Features, Interactions, generate_world
from sfumato.recommend import DampedMeans, RawProfiles, UserNeighbours
from sfumato.recommend.base import Estimator
from sfumato.recommend.models import DEFAULTS, MODELS, default_model, named_model
from support.rating_models import SMALL

FEATURES = Features(range(30), categories={"genre": [n % 4 for n in range(30)]})
ATTRIBUTES = Features(range(40), categories={"age": [n % 3 for n in range(40)]})
RATED = generate_world(users=40, items=30, ratings=600, random_state=1).interactions
WORLD = Interactions(RATED.users, RATED.items, RATED.ratings, times=np.arange(len(RATED)) * 1e5)
UNRATED = Interactions(WORLD.users, WORLD.items, times=WORLD.times)
GIVEN = {"epsilon": 4.0, "delta": 1e-6, "bounds": (1, 5)}
NEEDED = {"curated": {"items": [1, 2]}, **SMALL}  # without default, or for a quick fit


def fitted(entry, train, **parameters):
    """A model of this kind, with what a private one requires."""
    needed = {name: value for name, value in GIVEN.items() if entry.private and name != "bounds"}
    if entry.private and "bounds" in entry.kind.LIMITS:
        needed["bounds"] = GIVEN["bounds"]
    public = {"catalogue": range(30), "users": range(40)} if entry.private else {}
    known = inspect.signature(entry.kind.fit).parameters
    public = {name: ids for name, ids in public.items() if name in known}
    tables = {"features": FEATURES, "attributes": ATTRIBUTES}
    public |= {name: tables[name] for name in getattr(entry.kind, "NEEDS", ())}
    return entry.kind(**needed, **NEEDED.get(entry.name, {}), **parameters).fit(train, **public)


def test_every_model_that_is_fitted_to_interactions_and_saved_has_a_name():
    kinds = [kind for kind in Estimator.KINDS.values() if kind.__module__.startswith("sfumato.")]
    wanted = {kind for kind in kinds if "train" in inspect.signature(kind.fit).parameters}
    assert wanted <= {entry.kind for entry in MODELS.values()}
    assert all(re.fullmatch("[a-z]+(-[a-z]+)*", name) for name in MODELS)
    assert all(entry.grids.keys() <= entry.kind.LIMITS.keys() for entry in MODELS.values())
    with pytest.raises(ValueError, match=r"the model must be one of popular, .*, not 'ease'"):
        named_model("ease")


def test_defaults_are_models_of_what_they_are_the_default_for():
    for (objective, private), name in DEFAULTS.items():
        assert objective in MODELS[name].objectives
        assert MODELS[name].private == private
        assert default_model(objective, private) == name
    assert MODELS[default_model("ranking", private=True)].private


@pytest.mark.parametrize("name", MODELS)
def test_what_the_table_says_of_a_model_holds(name):
    entry = MODELS[name]
    facts = entry.facts()
    for objective in entry.objectives:
        chosen = {"objective": objective} if len(entry.objectives) > 1 else {}
        model = fitted(entry, WORLD, **chosen)
        assert getattr(model, "predicts_ratings", False) == (objective == "ratings")
        assert (type(model).__name__, model.privacy_label) == (facts["class"], facts["privacy"])
        if objective == "ratings":
            with pytest.raises(ValueError, match=r"train has no ratings .* such as LinearItems"):
                fitted(entry, UNRATED, **chosen)
        else:
            assert fitted(entry, UNRATED, **chosen).recommend_fold_in([1], n=3)[0].size == 3
    assert facts["needs"].startswith("ratings") == ("lists" not in facts["learns"])


def test_what_reads_ratings_elsewhere_refuses_rows_without():
    with pytest.raises(ValueError, match="DampedMeans: train has no ratings"):
        DampedMeans().fit(UNRATED)
    profiles = RawProfiles(UNRATED)
    with pytest.raises(ValueError, match=r"metric must be one of .* without ratings"):
        profiles.nearest_rows([0], metric="pearson")
    with pytest.raises(ValueError, match="has no ratings"):
        UserNeighbours(predicts="ratings").fit(profiles)
    for parameter, value in (("relevant_from", 3.0), ("weighting", "log")):
        model = MODELS["linear-items"].kind(**{parameter: value})
        with pytest.raises(ValueError, match=rf"LinearItems: {parameter} must be .*no ratings"):
            model.fit(UNRATED)
