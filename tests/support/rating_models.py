"""What models of ratings need beside interactions, and parameters for small and quick ones."""

import inspect
from typing import Any

import numpy as np

from sfumato.data import Features, Interactions
from sfumato.recommend.hybrid.base import PartsModel

# Parameters of a quick fit by the name of the model, where the defaults would take long.
SMALL: dict[str, dict[str, Any]] = {
    "time-svdpp": {"factors": 6, "epochs": 20},
    "bayesian": {"factors": 2, "epochs": 4, "burn_in": 1},
    "langevin": {"factors": 2, "epochs": 4, "burn_in": 1},
    "svdpp": {"factors": 4, "epochs": 5},
    "bellkor-blend": {"parts": {"damped-means": {}, "dense": {"factors": 4, "epochs": 5}}},
}


def extras(model: Any, train: Interactions) -> dict[str, Any]:
    """Attributes of users and features of items, where `fit` takes them for the model's own use."""
    if isinstance(model, PartsModel):
        return {}
    known, found = inspect.signature(model.fit).parameters, {}
    if "attributes" in known:
        users = np.unique(train.users)
        found["attributes"] = Features(users, categories={"half": _halves(users.size)})
    if "features" in known:
        items = np.unique(train.items)
        found["features"] = Features(items, categories={"half": _halves(items.size)})
    return found


def _halves(size: int) -> list[str]:
    return ["one" if at % 2 else "other" for at in range(size)]
