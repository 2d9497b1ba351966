"""A user's own list and its reasons, from the internal model; similar items, from a release."""

import time
from typing import Annotated, Any

import numpy as np
from msgspec import Meta, Struct

from sfumato.data.interactions import Interactions
from sfumato.recommend.factorization.sketched import SketchFactorization
from sfumato.serve.endpoint import Call, Endpoint
from sfumato.serve.protection.problems import Problem, not_found
from sfumato.serve.routes.messages import (
    Explanation,
    Number,
    Reason,
    Recommendations,
    Recommended,
    Similar,
    Text,
)

__all__ = ["ENDPOINTS", "recommended", "warm_up"]

NEAREST = 100  # similar items among which a user's own are looked for


class ListQuery(Struct, forbid_unknown_fields=True):
    """How a list is wanted."""

    LISTS = ("exclude",)
    n: Number = 10
    repeat: bool = False
    exclude: Annotated[list[Text], Meta(max_length=1000)] = []


class NumberQuery(Struct, forbid_unknown_fields=True):
    """How many are wanted."""

    n: Number = 10


async def get_recommendations(call: Call) -> Recommendations:
    """Recommend items to a user: those of the user's last events only with repeat=true."""
    user, query = call.path("user"), call.query(ListQuery)
    served = call.service.feed.current
    excluded = list(query.exclude)
    if not query.repeat:
        excluded += call.service.recent.of(user)
    rows = recommended(served.model, user, query.n, excluded)
    items = [Recommended(item, score) for item, score in rows]
    return Recommendations(user, items, served.position, max(0.0, time.time() - served.learned))


def recommended(model: Any, user: str, n: int, excluded: list[str]) -> list[tuple[str, float]]:
    """Return items and scores of a model for a user, best first; none without a model."""
    if model is None:
        return []
    exclude = None
    if excluded:
        exclude = Interactions([user] * len(excluded), excluded, np.ones(len(excluded)))
    items, scores = model.recommend(user, n=n, exclude=exclude)
    return list(zip(items.tolist(), scores.tolist(), strict=True))


def warm_up() -> None:
    """Compile what lists and reasons need, on a model of two events, before anybody waits."""
    model = SketchFactorization(objective="ranking", factors=16, cells=1024)
    model.partial_fit(Interactions(["a", "b"], ["c", "d"], np.ones(2)))
    recommended(model, "a", 1, [])
    recommended(model, "a", 1, ["c"])
    model.explain("a", "d", 1)


async def explain(call: Call) -> Explanation:
    """Split the score of an item for a user, and name the user's own items that are similar."""
    user, item, query = call.path("user"), call.path("item"), call.query(NumberQuery)
    served = call.service.feed.current
    if served.model is None or not bool(np.all(served.model.catalogue_.positions([item]) >= 0)):
        raise not_found("item", field="item")
    parts = served.model.explain(user, item, NEAREST)
    own = set(call.service.recent.of(user)) - {item}
    near = [Reason(name, value) for name, value in parts["similar"] if name in own]
    bias = parts["mean"] + parts["user_bias"] + parts["item_bias"]
    affinity = parts["score"] - bias
    because = near[: query.n]
    return Explanation(user, item, parts["score"], bias, affinity, because, served.position)


async def similar(call: Call) -> Similar:
    """List items similar to one, by the newest private release of neighbours."""
    item, query = call.path("item"), call.query(NumberQuery)
    release, model = await call.service.neighbours()
    if model is None:
        raise Problem(
            409,
            "Items are compared by a private release only, and there is none: "
            "POST /releases with kind neighbours.",
            kind="no-release",
        )
    if not bool(np.all(model.catalogue_.positions([item]) >= 0)):
        raise not_found("item", field="item")
    items, scores = model.similar_items(item, query.n)
    rows = zip(items.tolist(), scores.tolist(), strict=True)
    return Similar(item, [Recommended(str(name), value) for name, value in rows], release)


ENDPOINTS = [
    Endpoint(
        "GET", "/recommendations/{user}", get_recommendations, "read", Recommendations, ListQuery
    ),
    Endpoint("GET", "/similar/{item}", similar, "read", Similar, NumberQuery, statuses=(404, 409)),
    Endpoint(
        "GET",
        "/explain/{user}/{item}",
        explain,
        "read",
        Explanation,
        NumberQuery,
        statuses=(404,),
    ),
]
