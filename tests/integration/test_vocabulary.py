"""One vocabulary: `n`, `random_state`, `metric`, (ids, scores), and one padding that is no hit."""

import ast
import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.attack import (
    audit_profiles,
    chain_agreement,
    choose_epsilon,
    joint_decoder,
    membership_inference,
    neighbour_recall,
)
from sfumato.attack.profile_audit import scenario
from sfumato.data import Interactions, folds, generate_world, split_by_user
from sfumato.density import SketchDensity, find_modes
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.profile import Blip
from sfumato.recommend import (
    DenseFactorization,
    PrivateNeighbours,
    RawProfiles,
    SketchFactorization,
    UserNeighbours,
    load,
    metrics,
)
from sfumato.retrieve import BinaryIndex, LshIndex
from sfumato.sketch import CountSketch, KernelSlices, Race

ROOMS = ("data", "privacy", "privacy.mechanisms", "sketch", "sketch.lsh", "retrieve", "profile")
ROOMS += ("recommend", "recommend.metrics", "telemetry", "density", "attack", "engine")
ROOT = Path(__file__).parents[2]
VAGUE = {"told", "asked", "had", "seen", "kept"}  # say what the value is: estimates, queries, ...
OLD = {"k", "count", "most", "measure", "n_modes", "num", "top_k", "rng"}
# Names that stand where the rule says so, and why.
KEPT = {
    ("BinaryIndex.search", "k"),  # faiss's own signature
    ("Accountant.compose", "count"),  # how often a loss is composed, no number of results
    ("BinaryResponse.estimate", "count"),  # data: how many answered yes
    ("Buckets.over", "count"),  # of stored rows
}
HASHED = {"Interactions.hashed", "item_seed"}  # seeds of hash functions
WORLD = generate_world(users=40, items=30, ratings=500, random_state=1).interactions
NAMES = np.array([f"item {i}" for i in range(30)], object)
NAMED = Interactions(
    np.array([f"user {u}" for u in range(40)], object)[WORLD.users],
    NAMES[WORLD.items],
    WORLD.ratings,
)
POINTS = np.random.default_rng(0).normal(size=(60, 4))


def public_calls(rooms):
    """Every public function and method, by the name that a user knows it by."""
    for room in rooms:
        module = import_module(f"sfumato.{room}")
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing):
                yield name, thing.__init__
                for part, method in inspect.getmembers(thing, callable):
                    if not part.startswith("_"):
                        yield f"{name}.{part}", method
            elif inspect.isfunction(thing):
                yield name, thing


def parameters(rooms=ROOMS):
    for name, call in public_calls(rooms):
        if inspect.isfunction(call) or inspect.ismethod(call):
            for parameter in inspect.signature(call).parameters:
                yield name, parameter


def test_public_parameters_have_the_names_of_the_vocabulary():
    found = {(name, each) for name, each in parameters() if each in OLD}
    assert found <= KEPT, sorted(found - KEPT)
    assert found >= KEPT
    rooms = ("data", "density", "attack", "recommend.metrics")
    assert {name for name, each in parameters(rooms) if each == "seed"} == HASHED


def released(observed, catalogue, **options):
    model = PrivateNeighbours(epsilon=1e6, per_user=40, **options)
    return model.fit(observed, catalogue=catalogue, source=InsecureSeededSource(1))


def answers(observed, catalogue):
    """What every public function that fills short lists says where nearly all is left out."""
    users = np.unique(observed.users)[:3]
    dense = DenseFactorization(factors=4, epochs=1).fit(observed)
    few = np.arange(30) < 2
    own = observed.filter(np.arange(len(observed)) < 0)
    yield "recommend", dense.recommend(users, 5, filter=few)
    yield "similar_items", dense.similar_items(catalogue[:3], 40)
    for kind in ("codes", "bands"):
        yield f"index {kind}", dense.index(kind).recommend(users, 5, filter=few)
    near = UserNeighbours(neighbours=5).fit(observed)
    yield "UserNeighbours.recommend", near.recommend(users, 5, filter=few)
    yield "similar_users", near.similar_users(users, 60)
    private = released(observed, catalogue)
    for model in (private, private.release_):
        name = type(model).__name__
        yield f"{name}.recommend", model.recommend(users, 5, user_items=own, filter=few)
        yield f"{name}.similar_items", model.similar_items(catalogue[:3], 40)
    private_release = Blip(epsilon=20.0, bits=256, hashes=2).release(
        observed, users=np.unique(observed.users)
    )
    yield "nearest", private_release.nearest(users, 60)
    yield "nearest_with_errors", private_release.nearest_with_errors(users, 60)[:2]


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_short_lists_are_filled_with_no_id_and_never_hit(kind):
    observed, catalogue = (WORLD, np.arange(30)) if kind == "integers" else (NAMED, NAMES)
    nobody = -1 if kind == "integers" else None
    for name, (ids, scores) in answers(observed, catalogue):
        empty = scores == -np.inf
        assert empty.any(), name
        assert [each for each in ids[empty].tolist() if each != nobody] == [], name
        assert nobody not in ids[~empty].tolist(), name
        known = np.unique(np.concatenate([np.unique(observed.users), catalogue]))
        # Everything but what is listed is right: only an empty place that counts could hit.
        rows, others = np.meshgrid(np.arange(len(ids)), known, indexing="ij")
        listed = np.array([[each in set(row.tolist()) for each in known] for row in ids])
        right = rows[~listed], others[~listed]
        assert metrics.ranked(ids, right)["hit_rate"] == 0, name
        assert metrics.ranked(ids, right, scores=scores) == metrics.ranked(ids, right), name


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_every_metric_sees_no_item_in_an_empty_place(kind):
    names = np.array(["tea", "rum", "ale", "gin"], object) if kind == "text" else np.arange(4)
    nobody = None if kind == "text" else -1
    lists = np.array([[names[0], names[1], nobody], [names[2], nobody, nobody]], names.dtype)
    right = np.array([0, 0, 1]), names[[0, 3, 3]]
    for metric in ("precision", "recall", "average_precision", "map_at_k", "ndcg", "mrr"):
        got = getattr(metrics, metric)(lists, right)
        mask = np.array([[True, True, False], [True, False, False]])
        filled = np.where(mask, lists, names[3])  # by an item that would be right
        assert got == getattr(metrics, metric)(filled, right, scores=mask), metric
    assert metrics.hit_rate(lists, right) == 0.5
    assert metrics.precision(lists, right) == 0.25
    assert metrics.coverage(lists, names) == 0.75
    assert metrics.novelty(lists, names, [1, 1, 1, 2], 2) == 1.0
    assert metrics.diversity(lists, names, np.eye(4)) == 1.0
    if kind == "text":  # None is no item whatever its score
        assert metrics.recall(lists, ([1], names[:1]), scores=np.ones(lists.shape)) == 0.0
        assert metrics.precision(lists, right, scores=np.ones(lists.shape, bool)) == 0.25
    none = np.full((1, 2), nobody, names.dtype)
    assert metrics.recall(none, ([0], names[:1])) == 0.0
    assert metrics.coverage(none, names) == 0.0


def test_rows_and_indexes_are_filled_with_minus_one():
    raw = RawProfiles(Interactions([1, 2, 3], [7, 7, 8], [1, 1, 1]))
    for rows, near in (raw.nearest_rows([0, 2], 4), raw.nearest_to([7], 4)):
        assert (rows[near == -np.inf] == -1).all()
        assert (rows[near > -np.inf] >= 0).all()
    index = LshIndex(4, 1).add([5, 6], POINTS[:2])
    ids, scores = index.search(POINTS[:3], 4)
    assert ids.dtype == np.int64
    assert (ids[scores == -np.inf] == -1).all()
    assert (ids[:, -1] == -1).all()
    scores, ids = BinaryIndex(64).add([5, 6], POINTS[:2]).search(POINTS[:3], 4)  # as faiss
    assert ids.dtype == np.int64
    assert (ids[scores == -np.inf] == -1).all()
    assert (ids[:, -1] == -1).all()


def test_places_that_a_release_leaves_open_are_no_neighbours_found():
    before = Interactions([0, 0, 1, 1, 2], [1, 2, 1, 2, 2], [1] * 5)
    nobody = SimpleNamespace(
        users_=np.arange(3), nearest_rows=lambda rows, n, *, metric: (np.full((3, n), -1), None)
    )
    assert neighbour_recall(nobody, before, n=1).recall == 0


@cache
def made():
    """Small fitted things, made when a first test asks."""
    result = Blip(epsilon=9.0, bits=64, hashes=2)
    return SimpleNamespace(
        sketch=CountSketch(64, track=4).update([1, 1, 1, 2, 2, 3]),
        index=LshIndex(8, 2).add(np.arange(60), POINTS),
        density=SketchDensity(bandwidth=0.5).fit(POINTS[:, :1]),
        released=result.release(WORLD, users=np.arange(40), source=InsecureSeededSource(1)),
        raw=RawProfiles(WORLD),
        near=released(WORLD, np.arange(30)),
        dense=DenseFactorization(factors=4, epochs=1).fit(WORLD),
        users=UserNeighbours(neighbours=5).fit(WORLD),
    )


# What is called, with old names or positions, and with new ones.
METRIC = {"measure": "inner"}, {"metric": "inner"}
RENAMED = {
    "split": (lambda o: WORLD.split(0.5, 0.5, **o), {"seed": 3}, {"random_state": 3}),
    "split_by_user": (lambda o: split_by_user(WORLD, **o), {"seed": 3}, {"random_state": 3}),
    "folds": (
        lambda o: [part for pair in folds(WORLD, **o) for part in pair],
        {"count": 3, "seed": 3},
        {"n": 3, "random_state": 3},
    ),
    "generate_world": (
        lambda o: generate_world(users=9, items=9, ratings=20, **o).interactions,
        {"seed": 3},
        {"random_state": 3},
    ),
    "find_modes": (
        lambda o: find_modes(made().density, threshold=0, random_state=0, **o),
        {"n_modes": 1},
        {"n": 1},
    ),
    "heavy_hitters": (lambda o: made().sketch.heavy_hitters(**o), {"k": 2}, {"n": 2}),
    "released heavy_hitters": (
        lambda o: (
            made()
            .sketch.release(1, source=InsecureSeededSource(1))
            .heavy_hitters(candidates=[1, 2, 3], **o)
        ),
        {"k": 2},
        {"n": 2},
    ),
    "LshIndex.search": (lambda o: made().index.search(POINTS, **o), {"k": 3}, {"n": 3}),
    "Race": (lambda o: Race.suggest_rows(0.1, 10**6, 1, **o), {"most": 50}, {"max_rows": 50}),
    "KernelSlices": (
        lambda o: KernelSlices.suggest_rows(0.1, 10**6, 1, dimension=2, **o),
        {"most": 50},
        {"max_rows": 50},
    ),
    "neighbour_recall": (
        lambda o: neighbour_recall(made().released, WORLD, **o).recall,
        {"k": 3, "measure": "jaccard"},
        {"n": 3, "metric": "jaccard"},
    ),
    "similarity": (lambda o: made().released.similarity(**o), *METRIC),
    "variance": (lambda o: made().released.similarity_variance(**o), *METRIC),
    "nearest": (lambda o: made().released.nearest([1], **o), *METRIC),
    "nearest_with_errors": (lambda o: made().released.nearest_with_errors([1], **o), *METRIC),
    "nearest_rows": (lambda o: made().released.nearest_rows([1], **o), *METRIC),
    "raw nearest_rows": (lambda o: made().raw.nearest_rows([1], **o), *METRIC),
    "nearest_to": (lambda o: made().raw.nearest_to([1], **o), *METRIC),
    "UserNeighbours": (
        lambda o: UserNeighbours(neighbours=5, **o).fit(WORLD).recommend([1, 2]),
        *METRIC,
    ),
    "set_params": (lambda o: UserNeighbours().set_params(**o).get_params()["metric"], *METRIC),
    "PrivateNeighbours": (
        lambda o: made().near.recommend([1, 2], **o),
        {"exclude": WORLD},
        {"user_items": WORLD},
    ),
    "ReleasedNeighbours": (
        lambda o: made().near.release_.recommend([1, 2], **o),
        {"exclude": WORLD},
        {"user_items": WORLD},
    ),
}


@pytest.mark.parametrize("name", RENAMED)
def test_old_names_answer_alike_and_warn(name, recwarn):
    call, old, new = RENAMED[name]
    want = call(new)
    assert not [each for each in recwarn if issubclass(each.category, DeprecationWarning)]
    with pytest.warns(DeprecationWarning, match="version 1.0"):
        got = call(old)
    assert_same(got, want)


def assert_same(got, want):
    if isinstance(want, tuple | list):
        assert len(got) == len(want)
        for pair in zip(got, want, strict=True):
            assert_same(*pair)
    else:
        assert np.array_equal(got, want) if isinstance(want, np.ndarray) else got == want


GUESTS = {
    "Factorization": (lambda: made().dense, ([1, 2], [5, 4])),
    "UserNeighbours": (lambda: made().users, ([1, 2],)),
    "PrivateNeighbours": (lambda: made().near, ([1, 2],)),
    "ReleasedNeighbours": (lambda: made().near.release_, ([1, 2],)),
}


@pytest.mark.parametrize("name", GUESTS)
def test_the_number_of_items_for_a_guest_is_a_keyword_everywhere(name):
    model, given = GUESTS[name][0](), GUESTS[name][1]
    want = model.recommend_fold_in(*given, n=3)
    assert want[0].size == 3
    with pytest.warns(DeprecationWarning, match="give n by name"):
        assert_same(model.recommend_fold_in(*given, 3), want)


def test_old_attributes_answer_and_warn():
    with pytest.warns(DeprecationWarning, match="n"):
        assert neighbour_recall(made().released, WORLD, n=3).k == 3
    with pytest.warns(DeprecationWarning, match="metric"):
        assert UserNeighbours(metric="inner").measure == "inner"


def test_own_items_of_users_are_asked_for_by_name():
    with pytest.raises(TypeError, match="user_items must be Interactions of the users' own items"):
        made().near.recommend([1], user_items=None)


BLIP = Blip(epsilon=4.0, bits=64, hashes=2)
SEEDED = {
    "split": lambda r: WORLD.split(0.5, 0.5, random_state=r),
    "split_by_user": lambda r: split_by_user(WORLD, random_state=r),
    "folds": lambda r: [pair[1] for pair in folds(WORLD, 3, random_state=r)],
    "generate_world": lambda r: (
        generate_world(users=9, items=9, ratings=20, random_state=r).interactions
    ),
    "DenseFactorization": lambda r: (
        DenseFactorization(factors=4, epochs=1, random_state=r).fit(WORLD).predict([1, 2], [3, 4])
    ),
    "SketchFactorization": lambda r: (
        SketchFactorization(factors=16, epochs=1, random_state=r).fit(WORLD).predict([1, 2], [3, 4])
    ),
    "joint_decoder": lambda r: joint_decoder(
        made().released, np.arange(30), method="gibbs", burn_in=5, samples=20, random_state=r
    ),
    "chain_agreement": lambda r: chain_agreement(
        made().released, np.arange(30), burn_in=5, samples=20, chains=2, random_state=r
    ),
    "membership_inference": lambda r: membership_inference(
        made().dense, *WORLD.split(0.5, 0.5), sample=60, random_state=r
    ).to_dict(),
    "audit_profiles": lambda r: audit_profiles(
        WORLD, BLIP, epsilons=[], n=2, random_state=r
    ).to_dict(),
    "choose_epsilon": lambda r: choose_epsilon(
        WORLD, BLIP, 0.9, largest=4, n=2, random_state=r
    ).to_dict(),
    "sample": lambda r: made().density.sample(5, random_state=r),
}


@pytest.mark.parametrize("name", SEEDED)
def test_random_state_is_a_number_a_generator_or_none(name, monkeypatch):
    monkeypatch.setattr(scenario, "CELLS", 5 * 30)  # users are attacked in parts
    call = SEEDED[name]
    assert_same(call(7), call(7))
    assert_same(call(np.random.default_rng(7)), call(np.random.default_rng(7)))
    assert_same(call(np.random.RandomState(7)), call(np.random.RandomState(7)))
    call(2**64 - 1)
    with pytest.raises(AssertionError):  # fresh each time
        assert_same(call(None), call(None))
    for bad in (-1, 2**64, "seven", 0.5):
        with pytest.raises(ValueError, match="random_state must be"):
            call(bad)


@pytest.mark.parametrize("make", [DenseFactorization, SketchFactorization])
def test_a_model_from_a_generator_keeps_the_number_it_drew_in_its_file(make):
    given = np.random.default_rng(7)
    model = make(factors=16, epochs=1, random_state=given).fit(WORLD)
    state = given.bit_generator.state
    data = model.to_bytes()
    assert model.to_bytes() == data
    assert given.bit_generator.state == state  # writing draws nothing
    assert model.random_state is given
    again = load(data)
    assert isinstance(again.random_state, int)
    same = make(factors=16, epochs=1, random_state=again.random_state).fit(WORLD)
    assert same.to_bytes() == data
    assert model.fit(WORLD).to_bytes() != data  # the generator moved on
    model.partial_fit(WORLD)


def variables(tree):
    """Variables, parameters, functions and classes; not fields of classes: files have them."""
    fields = {
        id(each.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    } | {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.Assign)
        for target in each.targets
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in fields:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not is_test(node.name):
            yield node.lineno, node.name


def is_test(name):
    return name.startswith("test_")


def test_no_variable_is_a_word_that_says_nothing():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for folder in ("src", "tests", "benchmarks", "docs")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, name in variables(ast.parse(path.read_text()))
        if VAGUE & set(re.findall(r"[a-z]+", re.sub("([A-Z])", r" \1", name).lower()))
    ]
    assert not found


def test_the_source_says_what_is_meant():
    # "unless told", "what is asked": one word for input, output, disclosure and a value.
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if re.search(r"\b(told|asked|had)\b", line):
                found.append(f"{path.relative_to(ROOT)}:{number}")
    assert not found
