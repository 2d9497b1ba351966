"""The profiles' stop of `sfumato demo`: what neighbours and what attackers get of each release."""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sfumato.attack import (
    expected_sizes,
    item_prior,
    joint_decoder,
    learn_prior,
    neighbour_recall,
    popularity,
    reconstruction,
    truth_matrix,
)
from sfumato.data import Interactions, generate_world
from sfumato.profile import Blip, Jlt, Minima

__all__ = ["profiles"]

ITEMS = 60  # of a profile, on average
MECHANISMS = [
    Blip(epsilon=2),
    Blip(epsilon=8),
    Blip(epsilon=28),
    Jlt(dimensions=200, epsilon=8),
    Minima(epsilon=8),
]

NAMES = ("release", "one item", "whole profile", "neighbours found", "popularity", "best attack")


def profiles(console: Console, users: int = 600) -> list[dict[str, Any]]:
    """Release and attack profiles; print the table and return its rows."""
    world = generate_world(users=users, items=800, ratings=ITEMS * users, bounds=(1, 5), seed=7)
    had = world.interactions
    console.print(
        f"[bold cyan]What does a private profile hide?[/]  {users} generated users, about {ITEMS} "
        "items each; the attacker knows half of them"
    )
    half = np.unique(had.users)[users // 2]
    known, attacked = had.filter(had.users < half), had.filter(had.users >= half)
    items = np.unique(had.items)
    popular, taste = item_prior(known, items), learn_prior(known, items, traits=5, rounds=10)
    rows = [_measured(attacked, items, popular, taste, each) for each in MECHANISMS]
    table = Table(*NAMES, box=None, pad_edge=False)
    for row in rows:
        shares = (f"{row[key]:.0%}" for key in ("neighbours", "popularity", "attack"))
        table.add_row(row["release"], f"{row['epsilon']:.3g}", f"{row['profile']:.4g}", *shares)
    console.print(table)
    console.print(
        "Two epsilons: to hide one item, and to hide the profile. Attacks: the cosine of rebuilt "
        "and true profiles; popularity sees no release.\n"
    )
    return rows


def _measured(
    attacked: Interactions, items: np.ndarray, popular: np.ndarray, taste: Any, mechanism: Any
) -> dict[str, Any]:
    seen = mechanism.release(attacked, users=np.unique(attacked.users))
    truth = truth_matrix(attacked, seen.users_, items)
    expected = expected_sizes(seen, ITEMS)
    best = joint_decoder(seen, items, taste, sizes=ITEMS)
    return {
        "release": type(mechanism).__name__,
        "epsilon": seen.statement.epsilon,
        "profile": seen.profile_epsilon(ITEMS),
        "neighbours": neighbour_recall(seen, attacked).recall,
        "popularity": reconstruction(popularity(seen, items, popular), truth, expected).cosine,
        "attack": reconstruction(best, truth, expected).cosine,
    }
