"""Privacy is one object for all options of a release, and no copy of it spends unless allowed."""

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sfumato.data import Interactions
from sfumato.density import NodeDensity, SketchClassifier, SketchDensity, SketchSampler
from sfumato.privacy import Ledger, Privacy
from sfumato.privacy.parameters import ClonedLedger
from sfumato.profile import Blip, Jlt
from sfumato.recommend import PrivateFactorization, PrivateNeighbours, load
from sfumato.recommend.tuning import tune
from sfumato.sketch import (
    AMS,
    CountMin,
    CountSketch,
    KernelFourier,
    KernelGrid,
    KernelSlices,
    Moments,
    Race,
)

RATINGS = Interactions([1, 1, 2, 3], [7, 8, 7, 9], [5, 4, 3, 2])
WEIGHED = (AMS, CountMin, CountSketch, KernelFourier, KernelGrid, KernelSlices, Moments, Race)
POINTS = np.random.default_rng(0).normal(size=(60, 1))
NO_PERMISSION = "SketchDensity: this is a clone, which has no permission to spend"
SPELLINGS = ("keywords", "privacy")


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "budget.ledger") as made:
        made.create("people", epsilon=100)
        yield made


def spent(ledger):
    return ledger.spent("people").epsilon


def density(spelling, ledger, **more):
    options = dict(epsilon=1.0, ledger=ledger, dataset="people")
    if spelling == "privacy":
        options = dict(privacy=Privacy(**options, **more))
    return SketchDensity(bounds=(-4, 4), **options)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of noise, and of fits that failed
        yield


def test_it_tells_what_it_is_and_is_equal_by_value():
    privacy = Privacy(1, 1e-6, unit="user", contributions=3)
    assert repr(privacy) == "Privacy(epsilon=1.0, delta=1e-06, unit='user', contributions=3)"
    assert privacy == Privacy(1.0, 1e-6, unit="user", contributions=3)
    assert privacy != privacy.replace(epsilon=2)
    assert privacy.replace(epsilon=2).contributions == 3
    assert copy.copy(privacy) == copy.deepcopy(privacy) == pickle.loads(pickle.dumps(privacy))
    assert len({privacy, Privacy(1.0, 1e-6, unit="user", contributions=3)}) == 1
    with pytest.raises(AttributeError):
        privacy.epsilon = 2


BAD = [("epsilon", bad) for bad in (0, -1, np.nan, "much", None)]
BAD += [("delta", bad) for bad in (-0.1, 1, np.nan, None)]
BAD += [("unit", "nobody"), ("relation", "similar"), ("contributions", 0), ("clones", "some")]
BAD += [("dataset", 7), ("ledger", 7), ("release_id", 7)]


@pytest.mark.parametrize(("name", "bad"), BAD)
def test_what_is_wrong_is_named(name, bad):
    good = dict(epsilon=1, ledger="budget.ledger", dataset="people")
    with pytest.raises((ValueError, TypeError), match=f"Privacy: .*{name}"):
        Privacy(**{**good, name: bad})


@pytest.mark.parametrize("missing", ["ledger", "dataset"])
def test_ledger_and_dataset_go_together(missing):
    with pytest.raises(ValueError, match="go together"):
        Privacy(1, **{"ledger": "budget.ledger", "dataset": "people", missing: None})


def test_copies_that_pay_have_no_release_id():
    with pytest.raises(ValueError, match="clones must be 'refuse' with a release_id"):
        Privacy(1, ledger="l", dataset="d", release_id="june", clones="charge")


def test_no_ledger_is_opened_to_tell_or_to_clone(tmp_path):
    privacy = Privacy(1, ledger=tmp_path / "missing.ledger", dataset="people")
    model = SketchDensity(bounds=(-4, 4), privacy=privacy)
    for one in (model, clone(model), copy.deepcopy(model)):
        assert "missing.ledger" in repr(one)
        assert one.get_params()["privacy"].dataset == "people"
    with pytest.raises(FileNotFoundError):
        model.fit(POINTS)


@pytest.mark.parametrize("how", ["position", "name"])
def test_a_release_takes_it_in_place_of_all_options(ledger, how):
    privacy = Privacy(0.5, ledger=ledger, dataset="people", release_id="june")
    sketch = CountMin(64).update(["tea", "milk"])
    take = (lambda p: sketch.release(p)) if how == "position" else sketch_release(sketch)
    result = take(privacy).statement
    assert (result.epsilon, result.dataset, result.release) == (0.5, "people", "june")
    assert spent(ledger) == 0.5
    assert take(privacy).statement == result
    with pytest.raises(ValueError, match="CountMin: privacy and delta must not both be given"):
        sketch.release(privacy=privacy, delta=1e-9)
    with pytest.raises(ValueError, match="CountMin: privacy and dataset must not both be given"):
        sketch.release(privacy, dataset="people")
    with pytest.raises(ValueError, match="CountMin: privacy must be a sfumato"):
        sketch.release(privacy=0.5)
    with pytest.raises(ValueError, match="CountMin: epsilon must be given"):
        sketch.release()
    assert spent(ledger) == 0.5


def sketch_release(sketch):
    return lambda privacy: sketch.release(privacy=privacy)


def test_an_estimator_takes_it_and_files_are_those_of_the_keywords(ledger):
    model = density("privacy", ledger).fit(POINTS)
    assert (model.statement_.epsilon, model.statement_.dataset) == (1.0, "people")
    assert model.epsilon is None  # stored as given
    twin = SketchDensity.from_bytes(model.to_bytes())
    assert (twin.epsilon, twin.privacy, twin.ledger) == (1.0, None, None)
    keywords = density("keywords", ledger).fit(POINTS)
    keywords.release_ = model.release_
    keywords.statement_ = model.statement_
    assert keywords.to_bytes() == model.to_bytes()


def test_privacy_and_keywords_are_not_given_both():
    for name, value in [("epsilon", 1), ("delta", 0.1), ("ledger", "l"), ("contributions", 2)]:
        model = SketchDensity(bounds=(-4, 4), privacy=Privacy(1), **{name: value})
        with pytest.raises(ValueError, match=f"SketchDensity: privacy and {name} must not both"):
            model.fit(POINTS)
    with pytest.raises(ValueError, match="privacy must be a sfumato"):
        SketchDensity(bounds=(-4, 4), privacy=1).fit(POINTS)
    with pytest.raises(ValueError, match="bounds must be given with epsilon"):
        SketchDensity(privacy=Privacy(1)).fit(POINTS)


def test_an_unreleased_sketch_of_a_private_estimator_is_not_saved():
    model = SketchDensity(bounds=(-4, 4)).fit(POINTS).set_params(privacy=Privacy(1))
    with pytest.raises(ValueError, match="what was learned is not private"):
        model.to_bytes()
    with pytest.raises(ValueError, match="partial_fit is not private"):
        model.partial_fit(POINTS)
    assert not hasattr(
        SketchClassifier(method="kernel", classes=[0, 1], privacy=Privacy(1)), "partial_fit"
    )


def test_a_unit_that_has_another_default_is_still_taken_from_it():
    edges = [[1, 2], [1, 3], [4, 2]]
    result = NodeDensity(rows=8, width=64, privacy=Privacy(1, unit="edge")).fit(edges)
    assert result.statement_.unit == "edge"
    result = NodeDensity(rows=8, width=64, privacy=Privacy(1)).fit(edges)
    assert result.statement_.unit == "adjacency list"
    with pytest.raises(ValueError, match="contributions must be 1"):
        NodeDensity(privacy=Privacy(1, contributions=2)).fit(edges)


@pytest.mark.parametrize("given", ["path", "object"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_search_spends_nothing_and_says_why(ledger, spelling, given):
    model = density(spelling, ledger.path if given == "path" else ledger)
    search = GridSearchCV(model, {"bandwidth": [0.5, 1.0]}, cv=3)
    with pytest.raises(ValueError, match=NO_PERMISSION):
        search.fit(POINTS)
    with pytest.raises(ValueError, match=NO_PERMISSION):
        cross_val_score(model, POINTS, cv=3)
    pipeline = make_pipeline(FunctionTransformer(), model)
    with pytest.raises(ValueError, match=NO_PERMISSION):
        GridSearchCV(pipeline, {"sketchdensity__bandwidth": [0.5, 1.0]}, cv=3).fit(POINTS)
    assert spent(ledger) == 0
    pipeline.fit(POINTS)  # which fits the model itself
    assert spent(ledger) == 1


def test_a_search_over_budgets_spends_nothing(ledger):
    grid = {"privacy": [Privacy(epsilon, ledger=ledger, dataset="people") for epsilon in (1, 2)]}
    with pytest.raises(ValueError, match=NO_PERMISSION):
        GridSearchCV(SketchDensity(bounds=(-4, 4)), grid, cv=3).fit(POINTS)
    assert spent(ledger) == 0


def test_clones_are_charged_each_where_that_was_allowed(ledger):
    model = density("privacy", ledger.path, clones="charge")
    GridSearchCV(model, {"bandwidth": [0.5, 1.0]}, cv=3).fit(POINTS)
    assert spent(ledger) == 7
    copy.deepcopy(model).fit(POINTS)
    assert spent(ledger) == 8


@pytest.mark.parametrize("copied", [clone, copy.deepcopy, lambda m: clone(clone(m))])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_copy_gets_permission_by_being_given_the_ledger(ledger, spelling, copied):
    model = density(spelling, ledger)
    twin = copied(model)
    with pytest.raises(ValueError, match=NO_PERMISSION):
        twin.fit(POINTS)
    cloned = twin.ledger if spelling == "keywords" else twin.privacy.ledger
    assert cloned == ClonedLedger("budget.ledger")
    with pytest.raises(ValueError, match=NO_PERMISSION):
        pickle.loads(pickle.dumps(twin)).fit(POINTS)
    assert spent(ledger) == 0
    name = "ledger" if spelling == "keywords" else "privacy"
    twin.set_params(**{name: getattr(model, name)}).fit(POINTS)
    assert spent(ledger) == 1
    model.fit(POINTS)
    assert spent(ledger) == 2


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_copy_of_a_fitted_model_answers_and_a_pickled_one_may_be_fitted(ledger, spelling):
    model = density(spelling, ledger).fit(POINTS)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(twin.score_samples(POINTS), model.score_samples(POINTS))
        assert twin.to_bytes() == model.to_bytes()
    assert clone(model).input_report(POINTS)["rows"] == len(POINTS)
    assert spent(ledger) == 1
    pickle.loads(pickle.dumps(model)).fit(POINTS)
    assert spent(ledger) == 2


def test_a_copied_sampler_still_draws(ledger):
    privacy = Privacy(1, ledger=ledger, dataset="people")
    model = SketchSampler(bounds=(-4, 4), privacy=privacy, random_state=0).fit(POINTS)
    assert np.array_equal(copy.deepcopy(model).sample(5), model.sample(5))


def test_estimators_of_estimators_need_permission_too(ledger):
    options = dict(bounds=(-4, 4), classes=[0, 1])
    labels = (POINTS[:, 0] > 0).astype(int)
    privacy = Privacy(1, ledger=ledger, dataset="people")
    one = SketchClassifier(privacy=privacy, **options)
    with pytest.raises(ValueError, match="SketchClassifier: this is a clone"):
        VotingClassifier([("one", one)]).fit(POINTS, labels)
    assert spent(ledger) == 0
    one.set_params(privacy=privacy.replace(clones="charge"))
    VotingClassifier([("one", one)]).fit(POINTS, labels)
    assert spent(ledger) == 1


def test_without_a_ledger_clones_fit_as_ever():
    for options in (dict(epsilon=1.0), dict(privacy=Privacy(1.0))):
        model = SketchDensity(bounds=(-4, 4), **options)
        assert clone(model).get_params() == model.get_params()
        assert cross_val_score(model, POINTS, cv=2, error_score="raise").shape == (2,)


@pytest.mark.parametrize("kind", WEIGHED)
def test_sketches_share_a_release_and_each_says_what_it_guarantees(kind):
    released = inspect.signature(kind.release)
    assert {"epsilon", "delta", "weight", "noise", "options"} <= set(released.parameters)
    assert released.return_annotation.__name__ == f"Released{kind.__name__}"
    assert "Guarantee" in kind.release.__doc__
    assert kind.release.__qualname__ == f"{kind.__name__}.release"


FACTORS = dict(bounds=(1, 5), factors=2)


def model_of(kind, ledger, **more):
    privacy = Privacy(4, 1e-6, ledger=ledger, dataset="people", unit="event", **more)
    if kind is PrivateFactorization:
        return PrivateFactorization(privacy=privacy, **FACTORS)
    return PrivateNeighbours(privacy=privacy, per_user=2)


def lists(kind):
    public = dict(catalogue=[7, 8, 9])
    return {**public, "users": [1, 2, 3]} if kind is PrivateFactorization else public


@pytest.fixture
def deep(tmp_path):
    with Ledger(tmp_path / "deep.ledger") as made:
        made.create("people", epsilon=100, delta=1e-3)
        yield made


@pytest.mark.parametrize("kind", [PrivateFactorization, PrivateNeighbours])
def test_recommenders_take_it_and_keep_it_as_given(deep, kind, tmp_path):
    model = model_of(kind, deep)
    before = model.get_params()
    model.fit(RATINGS, **lists(kind))
    paid = spent(deep)
    assert 0 < paid <= 4
    assert (model.statement.dataset, model.statement.unit) == ("people", "event")
    assert model.get_params() == before
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").statement == model.statement
    with pytest.raises(ValueError, match="privacy and dataset must not both be given"):
        model.fit(RATINGS, dataset="people", **lists(kind))
    for copied in (clone, copy.deepcopy):
        with pytest.raises(ValueError, match="this is a clone"):
            copied(model).fit(RATINGS, **lists(kind))
    with pytest.raises(ValueError, match="contributions of privacy must be left out, or 1"):
        model_of(kind, deep, contributions=3).fit(RATINGS, **lists(kind))
    assert spent(deep) == paid


def test_recommenders_need_an_epsilon_and_keep_to_their_neighbours():
    with pytest.raises(ValueError, match="PrivateFactorization: epsilon must be"):
        PrivateFactorization(**FACTORS).fit(RATINGS, **lists(PrivateFactorization))
    privacy = Privacy(4, 1e-6, relation="replace")
    with pytest.raises(ValueError, match="relation of privacy must be 'add/remove'"):
        PrivateFactorization(privacy=privacy, **FACTORS).fit(RATINGS, **lists(PrivateFactorization))


def test_models_that_tuning_makes_may_not_spend():
    observed = []

    class Model:
        def __init__(self, rate=1.0, privacy=None):
            self.rate, self.privacy = rate, privacy

        def get_params(self):
            return {"rate": self.rate, "privacy": self.privacy}

        def fit(self, train):
            observed.append(self.privacy.ledger)
            return self

        def predict(self, users, items):
            return np.full(len(users), self.rate)

    model = Model(privacy=Privacy(1, ledger="budget.ledger", dataset="people"))
    tune(model, RATINGS, RATINGS, grids={"rate": [1.0, 2.0]})
    assert set(observed) == {ClonedLedger("budget.ledger")}


def test_profiles_are_released_by_one_of_the_same_cost(tmp_path):
    with Ledger(tmp_path / "profiles.ledger") as ledger:
        ledger.create("people", epsilon=10, delta=1e-3, unit="item of a profile")
        privacy = Privacy(4, ledger=ledger, dataset="people")
        released = (
            Blip(bits=64, epsilon=4).release(RATINGS, users=[1, 2], privacy=privacy).statement
        )
        assert (released.dataset, released.unit) == ("people", "item of a profile")
        paid = spent(ledger)
        assert 0 < paid <= 4
        with pytest.raises(ValueError, match="epsilon of privacy must be that which the Blip was"):
            Blip(bits=64, epsilon=5).release(RATINGS, users=[1, 2], privacy=privacy)
        with pytest.raises(ValueError, match="delta of privacy must be that which the Jlt was"):
            Jlt(dimensions=8, epsilon=4).release(RATINGS, users=[1, 2], privacy=privacy)
        with pytest.raises(ValueError, match="Blip: privacy and dataset must not both be given"):
            Blip(epsilon=4).release(RATINGS, users=[1, 2], privacy=privacy, dataset="people")
        with pytest.raises(TypeError, match="release takes no 'epsilon'"):
            Blip(epsilon=4).release(RATINGS, users=[1, 2], epsilon=4)
        assert spent(ledger) == paid
