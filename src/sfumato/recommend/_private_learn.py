"""Which steps a private model takes for its unit and cover, and how a statement names them."""

from dataclasses import replace
from typing import Any

from sfumato.recommend._alternate import Alternation, Learned
from sfumato.recommend._item_steps import item_means
from sfumato.recommend._noisy_sums import NoisySums
from sfumato.recommend._private_plan import STEPS

__all__ = ["centred", "learn", "sentence"]


def learn(plain: dict[str, Any], sums: NoisySums) -> Learned:
    """Everything learned, for the whole budget of the sums."""
    if plain["unit"] == "user":
        return item_means(sums)
    return Alternation(sums, _steps(plain), plain["factors"], plain["seed"]).run()


def centred(learned: Learned) -> Learned:
    """The same predictions, the rows of users having mean 0: a stranger who shares one reads noise.

    What they had in common moves to the mean and to the items' biases.
    """
    common = learned.users.mean(axis=0)
    items = learned.items.copy()
    items[:, 0] += items[:, 1:] @ common[1:]
    mean = learned.mean + float(common[0])
    return replace(learned, mean=mean, users=learned.users - common, items=items)


def sentence(plain: dict[str, Any]) -> str:
    """The mechanism as a statement tells it."""
    steps = f"{_steps(plain)} steps of alternating least squares"
    parts = "item means in turn with users' own" if plain["unit"] == "user" else steps
    return f"discrete Gaussian noise on sums of clipped residuals, {parts}"


def _steps(plain: dict[str, Any]) -> int:
    return STEPS if plain["covers"] == "file" else STEPS - 1  # items come last where users stay
