"""The recommenders' stop of `sfumato demo`: lists and ratings of one generated world.

The profiles' stop of `sfumato demo`: what neighbours and what attackers get of each release.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sfumato.attack import (
    expected_sizes,
    item_prior,
    joint_decoder,
    kl_divergence,
    learn_prior,
    membership_inference,
    neighbour_recall,
    popularity,
    reconstruction,
    truth_matrix,
)
from sfumato.data import Interactions, generate_world
from sfumato.privacy import Ledger
from sfumato.profile import Blip, Jlt, Minima
from sfumato.recommend import (
    DenseFactorization,
    ItemNeighbours,
    LinearItems,
    Popular,
    PrivateFactorization,
    SketchFactorization,
)
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.metrics import rating as metrics

__all__ = ["models", "profiles"]

BOUNDS = (1.0, 5.0)
EPSILON, DELTA = 8.0, 1e-6


def models(console: Console, ratings: int = 400_000) -> list[dict[str, Any]]:
    """Fit and measure models of lists and of ratings; print two tables and return their rows."""
    world = generate_world(
        users=ratings // 100, items=1500, ratings=ratings, bounds=BOUNDS, random_state=7
    )
    train, _, test = world.interactions.split(0.8, 0.1, 0.1, random_state=0)
    return _lists(console, train, test) + _stars(console, train, test)


def _lists(console: Console, train: Interactions, test: Interactions) -> list[dict[str, Any]]:
    """Fit models and measure their lists."""
    console.print(
        f"[bold cyan]What will they choose next?[/]  {len(train):,} generated interactions; lists "
        "of ten of all items"
    )
    table, rows = Table("model", "NDCG", "recall", "items listed", box=None, pad_edge=False), []
    compared: dict[str, Any] = {
        "most popular": Popular(),
        "item neighbours": ItemNeighbours(),
        "linear items (the default of sfumato fit)": LinearItems(),
        "sketched, of ratings": SketchFactorization(bounds=BOUNDS),
    }
    for name, model in compared.items():
        found = metrics.evaluate(model.fit(train), test, n=10, exclude=train)
        row = {"lists": name, **{key: found[key] for key in ("ndcg", "recall", "coverage")}}
        rows.append(row)
        table.add_row(name, f"{row['ndcg']:.3f}", f"{row['recall']:.3f}", f"{row['coverage']:.0%}")
    console.print(table)
    console.print("Predicted ratings do not tell what is chosen: lists need models of choices.\n")
    return rows


def _stars(console: Console, train: Interactions, test: Interactions) -> list[dict[str, Any]]:
    """Fit models of ratings, measure and attack them."""
    console.print(
        f"[bold cyan]How will they rate it, and what does a model give away?[/]  {len(train):,} "
        "generated ratings, stars 1 to 5"
    )
    rows = [_measured(name, model, train, test) for name, model in _fitted(train)]
    names = ("model", "RMSE", "memory", "KLD", "attack AUC", "privacy")
    table = Table(*names, box=None, pad_edge=False)
    for row in rows:
        table.add_row(
            row["model"],
            f"{row['rmse']:.4f}",
            f"{row['nbytes'] / 1024:,.0f} KiB" if row["nbytes"] else "-",
            f"{row['kld']:.4f}",
            f"{row['attack_auc']:.3f}",
            row["privacy"],
        )
    console.print(table)
    console.print(
        "KLD and AUC measure how well attacks separate training ratings from others. At 0 and 0.5 "
        "they cannot.\n"
    )
    return rows


def _fitted(train: Interactions) -> Iterator[tuple[str, Any]]:
    yield "means only", DampedMeans().fit(train)
    yield "dense", DenseFactorization(bounds=BOUNDS).fit(train)
    yield "sketched", SketchFactorization(bounds=BOUNDS).fit(train)
    yield "sketched, a quarter", SketchFactorization(space_gain=4.0, bounds=BOUNDS).fit(train)
    yield "sketched, clipped", SketchFactorization(clip=2.0, bounds=BOUNDS).fit(train)
    yield "differentially private", _private(train)


def _private(train: Interactions) -> PrivateFactorization:
    """Paid by a ledger; the world's accounts and catalogue are public."""
    model = PrivateFactorization(epsilon=EPSILON, delta=DELTA, bounds=BOUNDS)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "stars.ledger")
        ledger.create("stars", epsilon=EPSILON, delta=DELTA, unit="event")
        return model.fit(
            train,
            users=np.arange(train.users.max() + 1),  # the world numbers them; they are public
            catalogue=np.arange(train.items.max() + 1),
            ledger=ledger,
            dataset="stars",
        )


def _measured(name: str, model: Any, train: Interactions, test: Interactions) -> dict[str, Any]:
    known, fresh = (model.predict(rows.users, rows.items) - rows.ratings for rows in (train, test))
    return {
        "model": name,
        "rmse": metrics.rmse(test.ratings, fresh + test.ratings),
        "nbytes": int(getattr(model, "nbytes", 0)),
        "kld": float(kl_divergence(known, fresh).kld),
        "attack_auc": membership_inference(model, train, test).auc,
        "privacy": _label(model),
    }


def _label(model: Any) -> str:
    label = str(getattr(model, "privacy_label", "none"))
    statement = getattr(model, "statement", None)
    if statement is None or label == "none":
        return label
    return f"epsilon {statement.epsilon:.3g}, {label}"


ITEMS = 60  # of a profile, on average
MECHANISMS = [
    Blip(epsilon=0.5),
    Blip(epsilon=2),
    Blip(epsilon=8),
    Jlt(dimensions=200, epsilon=8),
    Minima(epsilon=8),
]

NAMES = ("release", "one item", "whole profile", "neighbours found", "popularity", "best attack")


def profiles(console: Console, users: int = 600) -> list[dict[str, Any]]:
    """Release and attack profiles; print the table and return its rows."""
    world = generate_world(
        users=users, items=800, ratings=ITEMS * users, bounds=(1, 5), random_state=7
    )
    interactions = world.interactions
    console.print(
        f"[bold cyan]What does a private profile hide?[/]  {users} generated users, about {ITEMS} "
        "items each; the attacker knows half of them"
    )
    half = np.unique(interactions.users)[users // 2]
    known, attacked = (
        interactions.filter(interactions.users < half),
        interactions.filter(interactions.users >= half),
    )
    items = np.unique(interactions.items)
    popular, taste = item_prior(known, items), learn_prior(known, items, traits=5, rounds=10)
    rows = [_measured_profile(attacked, items, popular, taste, each) for each in MECHANISMS]
    table = Table(*NAMES, box=None, pad_edge=False)
    for row in rows:
        fractions = (f"{row[key]:.0%}" for key in ("neighbours", "popularity", "attack"))
        table.add_row(row["release"], f"{row['epsilon']:.3g}", f"{row['profile']:.4g}", *fractions)
    console.print(table)
    console.print(
        "The two epsilons protect one item and the whole profile. The last two columns are cosines "
        "of rebuilt and true profiles; popularity sees no release.\n"
    )
    return rows


def _measured_profile(
    attacked: Interactions, items: np.ndarray, popular: np.ndarray, taste: Any, mechanism: Any
) -> dict[str, Any]:
    released = mechanism.release(attacked, users=np.unique(attacked.users))
    truth = truth_matrix(attacked, released.users_, items)
    expected = expected_sizes(released, ITEMS)
    best = joint_decoder(released, items, taste, sizes=ITEMS)
    return {
        "release": type(mechanism).__name__,
        "epsilon": released.statement.epsilon,
        "profile": released.profile_epsilon(ITEMS),
        "neighbours": neighbour_recall(released, attacked).recall,
        "popularity": reconstruction(popularity(released, items, popular), truth, expected).cosine,
        "attack": reconstruction(best, truth, expected).cosine,
    }
