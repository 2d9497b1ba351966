"""Comparisons: no split leaks, values are those of brute force, and if one fails, others go on."""

import json
import math
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import stats

from sfumato.data import Interactions, generate_world
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import (
    DenseFactorization,
    ItemNeighbours,
    LinearItems,
    Popular,
    PrivateNeighbours,
)
from sfumato.recommend.comparison import EvaluationProtocol, compare
from sfumato.recommend.comparison.measurement import ITEM_SLICES, SplitData, measured, user_slices
from sfumato.recommend.comparison.protocol import LIMITS

GENERATED = generate_world(users=60, items=40, ratings=880, random_state=1).interactions
# Twenty items that a single user has, so that some of them are new in a test part.
WORLD = Interactions(
    np.append(GENERATED.users, np.arange(20)),
    np.append(GENERATED.items, np.arange(40, 60)),
    np.append(GENERATED.ratings, np.full(20, 4.0)),
)
TIMED = Interactions(
    np.array([f"user {u}" for u in WORLD.users], object),
    np.array([f"item {i}" for i in WORLD.items], object),
    WORLD.ratings,
    times=np.random.default_rng(0).integers(0, 300, len(WORLD)),
)


def pairs(part):
    return list(zip(part.users.tolist(), part.items.tolist(), strict=True))


class Guesses:
    """A model that predicts ratings and recommends no lists."""

    def fit(self, train):
        return self

    def predict(self, users, items):
        return np.full(len(users), 3.0)


class Fails:
    def fit(self, train):
        raise RuntimeError("the model says\nwhy")


class Interrupted:
    """Raises Ctrl-C in its last permitted fit."""

    def __init__(self, fits):
        self.fits = [fits]  # shared by all copies

    def __deepcopy__(self, memo):
        return self

    def fit(self, train):
        self.fits[0] -= 1
        if not self.fits[0]:
            raise KeyboardInterrupt
        return Popular().fit(train)


@pytest.mark.parametrize("split", ["row", "user", "time", "last"])
def test_no_split_leaks(split):
    protocol = EvaluationProtocol(split=split, test_size=0.3, random_state=4)
    twice = Interactions(  # every tenth pair is in the data twice
        *(np.concatenate([column, column[::10]]) for column in (TIMED.users, TIMED.items)),
        *(np.concatenate([column, column[::10]]) for column in (TIMED.ratings, TIMED.times)),
    )
    for data in (TIMED, twice):
        train, test = protocol.parts(data)
        assert not set(pairs(train)) & set(pairs(test))
        assert set(pairs(train)) | set(pairs(test)) <= set(pairs(data))
        assert len(test) > 0
        if split == "time":
            assert train.times.max() <= test.times.min()
        if split == "last":
            last = {user: train.times[train.users == user].max() for user in set(test.users)}
            assert all(last[u] <= t for u, t in zip(test.users, test.times, strict=True))
            assert len(set(test.users)) == len(test)
        if split == "user":
            assert set(test.users) <= set(train.users)
    train, test = protocol.parts(TIMED)
    assert sorted(pairs(train) + pairs(test)) == sorted(pairs(TIMED))
    if split in ("row", "time"):
        assert len(test) == 270


def test_repeats_are_other_splits_and_the_same_again():
    protocol = EvaluationProtocol(repeats=2)
    first, second = (protocol.parts(WORLD, repeat)[1] for repeat in range(2))
    assert first == protocol.parts(WORLD, 0)[1] == WORLD.split(0.8, 0.2, random_state=0)[1]
    assert first != second


def test_protocols_refuse_what_they_cannot_do():
    for name, limit in LIMITS.items():
        for value in limit.bad():
            with pytest.raises(ValueError, match=f"EvaluationProtocol: {name} "):
                EvaluationProtocol(**{name: value})
    with pytest.raises(ValueError, match="repeats must be 1 for split='time'"):
        EvaluationProtocol(split="time", repeats=2)
    with pytest.raises(ValueError, match="must all be metrics of ratings"):
        EvaluationProtocol(objective="ratings", metrics=("ndcg@5",))
    with pytest.raises(TypeError, match="protocol must be an EvaluationProtocol"):
        compare([Popular()], WORLD, "ranking")
    with pytest.raises(TypeError, match="data must be Interactions"):
        compare([Popular()], [1, 2])
    for models in ([], {}, "popular", [7], {7: Popular()}, None):
        with pytest.raises(TypeError, match="compare: models"):
            compare(models, WORLD)
    with pytest.raises(ValueError, match="private-factorization has parameters without default"):
        compare(["private-factorization"], WORLD)
    with pytest.raises(ValueError, match="no times"):
        compare([Popular()], WORLD, EvaluationProtocol(split="last"))
    with pytest.raises(ValueError, match="none to find"):
        compare([Popular()], WORLD, EvaluationProtocol(relevant_from=1000))


@pytest.mark.parametrize("data", [WORLD, TIMED], ids=["integers", "texts"])
def test_values_of_users_are_those_of_brute_force(data):
    protocol = EvaluationProtocol(
        metrics=("ndcg@3", "recall@7", "recall@100"), relevant_from=3, activity=(8, 12), head=0.4
    )
    split = SplitData(data, protocol, 0)
    train, test = protocol.parts(data)
    model = ItemNeighbours().fit(train)
    found = measured(model, split)
    own = {user: set(train.items[train.users == user]) for user in split.user_ids}
    popular = [sum(item in items for items in own.values()) for item in split.item_ids]
    head, before = set(), 0
    for at in np.argsort(-np.array(popular), kind="stable"):
        if before < 0.4 * len(train):
            head.add(split.item_ids[at])
        before += popular[at]
    in_slice = {
        "all": lambda user, item: True,
        "0 to 8 rows": lambda user, item: len(own[user]) <= 8,
        "9 to 12 rows": lambda user, item: 9 <= len(own[user]) <= 12,
        "13 rows or more": lambda user, item: len(own[user]) >= 13,
        "head items": lambda user, item: item in head,
        "tail items": lambda user, item: item not in head and item in train.items,
        "new items": lambda user, item: item not in train.items,
    }
    assert set(user_slices(protocol)) | set(ITEM_SLICES) | {"all"} == set(in_slice)
    rows = [p for p, r in zip(pairs(test), test.ratings, strict=True) if r >= 3]
    assert {part for part, _ in found.sums} == set(in_slice)  # each has rows in this world
    for part in in_slice:
        for code, user in enumerate(split.user_ids):
            right = {item for u, item in rows if u == user and in_slice[part](user, item)}
            listed = model.recommend([user], 7, exclude=train)[0][0].tolist()
            assert found.sums[part, "ndcg@3"].counts[code] == bool(right)
            if right:
                gain = sum(1 / math.log2(k + 2) for k in range(3) if listed[k] in right)
                ideal = sum(1 / math.log2(k + 2) for k in range(min(3, len(right))))
                assert found.sums[part, "ndcg@3"].sums[code] == pytest.approx(gain / ideal)
                recall = len(right & set(listed)) / len(right)
                assert found.sums[part, "recall@7"].sums[code] == pytest.approx(recall)
                longer = len(right & set(train.items)) / len(right)  # than the catalogue
                assert found.sums[part, "recall@100"].sums[code] == pytest.approx(longer)


def test_lists_are_described_as_by_hand():
    protocol = EvaluationProtocol(metrics=("ndcg@4",))
    split = SplitData(WORLD, protocol, 0)
    train, test = protocol.parts(WORLD)
    model = ItemNeighbours().fit(train)
    found = measured(model, split).lists
    users = np.unique(test.users)
    lists = model.recommend(users, 4, exclude=train)[0]
    owners = {item: set(train.users[train.items == item]) for item in np.unique(train.items)}
    known = len(set(train.users))
    bits = {item: -math.log2(len(users) / known) for item, users in owners.items()}
    assert found["coverage"] == len(np.unique(lists)) / len(owners)
    assert found["novelty"] == pytest.approx(np.mean([bits[item] for item in lists.flat]))
    bias = [
        np.mean([bits[i] for i in train.items[train.users == user]])
        - np.mean([bits[i] for i in row])
        for user, row in zip(users, lists, strict=True)
        if (train.users == user).any()
    ]
    assert found["popularity_bias"] == pytest.approx(np.mean(bias))
    far = [
        1 - len(owners[a] & owners[b]) / math.sqrt(len(owners[a]) * len(owners[b]))
        for row in lists
        for k, a in enumerate(row)
        for b in row[:k]
    ]
    assert found["diversity"] == pytest.approx(np.mean(far))


def test_errors_of_ratings_are_over_rows_and_slices():
    protocol = EvaluationProtocol(objective="ratings", repeats=2)
    found = compare([DenseFactorization(factors=4, epochs=2)], WORLD, protocol)
    errors, news = [], []
    for repeat in range(2):
        train, test = protocol.parts(WORLD, repeat)
        model = DenseFactorization(factors=4, epochs=2).fit(train)
        errors.append(model.predict(test.users, test.items) - test.ratings)
        news.append(~np.isin(test.items, train.items))
    errors = np.concatenate(errors)
    result = found.results["DenseFactorization"]
    assert result.metrics["rmse"].value == pytest.approx(np.sqrt(np.mean(errors**2)))
    assert result.metrics["mae"].value == pytest.approx(np.mean(np.abs(errors)))
    assert result.lists == {}
    assert found.baseline == "damped-means"
    assert set(result.slices) >= {"6 to 20 rows", *ITEM_SLICES}
    new = np.concatenate(news)
    assert result.slices["new items"]["mae"].value == pytest.approx(np.abs(errors)[new].mean())


def test_the_baseline_is_always_there_once():
    assert compare([ItemNeighbours()], WORLD).baseline == "popular"
    own = compare({"mine": Popular(), "other": ItemNeighbours()}, WORLD)
    assert (own.baseline, set(own.results)) == ("mine", {"mine", "other"})
    taken = compare({"popular": ItemNeighbours()}, WORLD)
    assert taken.baseline == "popular (baseline)"
    named = compare(["linear-items", "user-neighbours"], WORLD)
    assert set(named.results) == {"popular", "linear-items", "user-neighbours"}
    same = compare([ItemNeighbours(), ItemNeighbours], WORLD)
    assert set(same.results) == {"popular", "ItemNeighbours", "ItemNeighbours 2"}
    assert same.difference("ItemNeighbours", "ItemNeighbours 2", "ndcg@10").p == 1.0


def test_differences_are_the_paired_test_of_all_pairs():
    models = {"items": ItemNeighbours(), "linear": LinearItems(), "popular": Popular()}
    found = compare(models, WORLD)
    assert not any(hasattr(model, "catalogue_") for model in models.values())  # copies were fitted
    split = SplitData(WORLD, found.protocol, 0)
    users = split.listed_users[0]
    values = {
        name: measured(model.fit(split.train), split).sums["all", "ndcg@10"].sums[users]
        for name, model in models.items()
    }
    raw = {
        (a, b): stats.ttest_rel(values[a], values[b]).pvalue
        for a, b in (("items", "linear"), ("items", "popular"), ("linear", "popular"))
    }
    steps = [min(1.0, p * (3 - k)) for k, p in enumerate(sorted(raw.values()))]
    adjusted = dict(zip(sorted(raw, key=raw.get), np.maximum.accumulate(steps), strict=True))
    for (a, b), p in adjusted.items():
        gap = found.difference(a, b, "ndcg@10")
        assert gap.p == pytest.approx(p)
        assert gap.value == pytest.approx(np.mean(values[a] - values[b]))
        back = found.difference(b, a, "ndcg@10")
        assert (back.value, back.low, back.p) == (-gap.value, -gap.high, gap.p)
    means = {name: values[name].mean() for name in models}
    assert list(found.results) == sorted(means, key=means.get, reverse=True)
    assert found.best == next(iter(found.results))


def test_a_model_that_fails_does_not_stop_the_others():
    found = compare({"bad": Fails(), "guess": Guesses(), "good": ItemNeighbours()}, WORLD)
    assert set(found.results) == {"good", "popular"}
    assert found.failed["bad"] == "the model says why"
    assert "recommends no lists" in found.failed["guess"]
    assert not found.stopped
    assert "bad: failed: the model says why" in str(found)
    ratings = compare([Popular()], WORLD, EvaluationProtocol(objective="ratings"))
    assert "predicts no ratings" in ratings.failed["Popular"]


def test_ctrl_c_returns_what_is_complete(monkeypatch):
    models = {"stops": Interrupted(1), "never": ItemNeighbours()}
    found = compare({"done": ItemNeighbours(), **models}, WORLD)
    assert found.stopped
    assert set(found.results) == {"popular", "done"}
    later = EvaluationProtocol(repeats=3)
    found = compare({"done": ItemNeighbours(), "stops": Interrupted(3)}, WORLD, later)
    two = compare({"done": ItemNeighbours()}, WORLD, EvaluationProtocol(repeats=2))
    assert (found.stopped, found.repeats) == (True, 2)
    assert found.results["done"].metrics == two.results["done"].metrics
    monkeypatch.setattr(Popular, "fit", Interrupted(1).fit)
    with pytest.raises(KeyboardInterrupt):
        compare([ItemNeighbours()], WORLD)


def test_functions_fit_models_that_need_public_lists():
    def private(train):
        model, source = PrivateNeighbours(epsilon=2.0, per_user=5), InsecureSeededSource(1)
        return model.fit(train, catalogue=np.arange(65), source=source)

    calls = []
    found = compare({"private": private}, WORLD, progress=lambda *done: calls.append(done))
    assert found.failed == {}
    result = found.results["private"]
    assert (result.privacy, result.epsilon) == ("none", 2.0)  # seeded noise proves nothing
    assert result.nbytes > 0
    assert calls == [(1, 2), (2, 2)]


class Page(HTMLParser):
    VOID = {"meta", "br", "img"}

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.outside = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        links = [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.outside += [value for value in links if not value.startswith("#")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)


def test_the_page_is_whole_and_escapes_names(tmp_path):
    name = 'a <script>alert("1")</script> & $x_1$'
    found = compare({name: ItemNeighbours(), "<i>bad</i>": Fails()}, WORLD)
    found.save_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    read = Page()
    read.feed(text)
    assert read.open == []
    assert read.outside == []
    assert not {"script", "i", "link"} & set(read.tags)
    assert {"svg", "table", "dl"} <= set(read.tags)
    assert "a &lt;script&gt;" in text
    drawing = text[text.index("<svg") : text.index("</svg>") + 6]
    words = [each.text or "" for each in ElementTree.fromstring(drawing).iter()]
    assert name in words  # a text, not a formula
    found.save_html(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == text


def test_tables_and_json_hold_the_same_figures(tmp_path):
    found = compare({"items": ItemNeighbours(), "bad": Fails()}, WORLD)
    fields = found.to_dict()
    found.save_json(tmp_path / "found.json")
    assert json.loads((tmp_path / "found.json").read_text()) == fields
    frame = found.to_pandas().set_index("model")
    score = found.results["items"].metrics["ndcg@10"]
    assert (
        frame.loc["items", "ndcg@10"] == fields["results"]["items"]["metrics"]["ndcg@10"]["value"]
    )
    assert tuple(frame.loc["items", ["ndcg@10_low", "ndcg@10_high"]]) == (score.low, score.high)
    gap = found.difference("items", "popular", "ndcg@10")
    assert frame.loc["items", "to_baseline_p"] == gap.p
    assert found.difference("bad", "popular", "ndcg@10") is None
    with pytest.raises(ValueError, match="Comparison: metric must be one of 'ndcg@10'"):
        found.difference("items", "popular", "ndcg@11")
    assert frame.loc["bad", "failed"] == "the model says why"
    assert f"{score.value:.4f}" in str(found)
    assert "<table>" in found._repr_html_()
    assert len(found.plot().get_axes()) == 4
