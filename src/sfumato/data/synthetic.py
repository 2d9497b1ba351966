"""Synthetic worlds: ratings of generated users and items, with the true parameters."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.deprecation import renamed_arguments
from sfumato.core.validation import (
    RANDOM_STATE,
    Limit,
    RandomState,
    between,
    flag,
    integer,
    optional,
    positive,
    random_seed,
)
from sfumato.data.interactions import Interactions
from sfumato.kernels import synthetic as kernels
from sfumato.kernels.seed_keys import key_of

__all__ = ["World", "generate_world", "topic_texts"]

WORDS = 40  # of each topic
LENGTH = 12  # words of a text
COMMON = 0.25  # fraction of words that are independent of the topic
SYLLABLES = np.array([c + v for c in "bdfgklmnprstvz" for v in "aeiou"], object)


def topic_texts(factors: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Generate a text for each row of factors, from words of its strongest components.

    Words are of made-up syllables; topic 2l is component l above 0, topic 2l + 1 below, and the
    last topic is common to all.
    """
    many, components = factors.shape
    words = _words((2 * components + 1) * WORDS)
    topics = np.full((many, LENGTH), 2 * components)
    if components:
        weights = np.cumsum((factors / factors.std(axis=0, keepdims=True)) ** 2, axis=1)
        points = random.random((many, LENGTH, 1)) * weights[:, None, -1:]
        chosen = (points > weights[:, None, :-1]).sum(axis=2)
        below = np.take_along_axis(factors, chosen, axis=1) < 0
        topics = np.where(random.random((many, LENGTH)) < COMMON, topics, 2 * chosen + below)
    positions = topics * WORDS + (WORDS * random.random((many, LENGTH)) ** 2).astype(int)
    columns = [pa.array(words).take(pa.array(column)) for column in positions.T]
    return np.asarray(pc.binary_join_element_wise(*columns, " ").to_numpy(zero_copy_only=False))


def _words(many: int) -> np.ndarray:
    """Distinct words of three syllables; multiplying by a prime makes neighbours dissimilar."""
    positions = (np.arange(many) * 7919) % SYLLABLES.size**3
    first, remainder = np.divmod(positions, SYLLABLES.size**2)
    second, third = np.divmod(remainder, SYLLABLES.size)
    return np.asarray(SYLLABLES[first] + SYLLABLES[second] + SYLLABLES[third])


ENTITIES = integer(1, 2**31 - 1)
LIMITS: dict[str, Limit] = {
    "users": ENTITIES,
    "items": ENTITIES,
    "ratings": integer(1, 2**40),
    "factors": integer(0, 256),
    "step": optional(positive),
    "noise": optional(between(0, float("inf"))),
    "skew": between(1, float("inf")),
    "activity": between(0, 4),
    "choices": integer(1, 16),
    "random_state": RANDOM_STATE,
    "texts": flag,
}
# Strengths in quarters of the range of ratings, so in stars from 1 to 5. With them a world of the
# shape of MovieLens-1M is about as hard as the real set.
MEAN, USER_BIAS, ITEM_BIAS, TASTE, NOISE = 2.4, 0.5, 0.55, 0.47, 0.87
LEAST = 0.12  # minimum number of ratings per user, as a fraction of the average
GUIDE = 6  # slots that share one entry of the guide: 64
BATCH_ROWS = 1 << 16
START, SPAN = 956_700_000, 1000 * 86_400  # seconds: about three years


@renamed_arguments(seed="random_state")
def generate_world(
    *,
    users: int = 6040,
    items: int = 3706,
    ratings: int = 1_000_000,
    factors: int = 8,
    bounds: tuple[float, float] = (1, 5),
    step: float | None = 1,
    noise: float | None = None,
    skew: float = 12,
    activity: float = 1,
    choices: int = 2,
    random_state: RandomState = 0,
    texts: bool = False,
) -> "World":
    """Generate ratings from a known model: mean, biases and factors.

    Since the truth is known, so is the smallest possible error of a prediction. The defaults have
    the shape of MovieLens-1M and are about as hard. Ratings are generated when they are read: a
    world takes memory for its users and items alone.

    Parameters
    ----------
    users : int, default=6040
        Number of users, at least 1.
    items : int, default=3706
        Number of items, at least 1.
    ratings : int, default=1000000
        Number of ratings; at most half of the items per user.
    factors : int, default=8
        Number of latent factors of the model, 0 to 256.
    bounds : tuple of (float, float), default=(1, 5)
        Lowest and highest rating.
    step : float or None, default=1
        Step of the grid of ratings, a divisor of the range; None for any number.
    noise : float or None, default=None
        Standard deviation of a rating around the truth, at least 0; None for 0.87 / 4 of the range
        (0.87 stars for bounds 1 and 5).
    skew : float, default=12
        Popularity of the most popular item relative to the average, at least 1 (all equal).
    activity : float, default=1
        Standard deviation of the logarithm of ratings per user, 0 to 4.
    choices : int, default=2
        Number of items, 1 to 16, of which a user rates the preferred one.
    random_state : int, Generator or None, default=0
        Seed or generator; None for a fresh seed.
    texts : bool, default=False
        Whether items get texts, with words by their factors.

    Returns
    -------
    World
        The generated users, items and true parameters, with their ratings.

    Notes
    -----
    **Guarantee.** Equal parameters give equal worlds, in batches of any size. No user rates an item
    twice. Rows are in the order of their times, with users mixed.

    Examples
    --------
    >>> world = generate_world(users=50, items=40, ratings=600, random_state=1)
    >>> world.interactions
    Interactions(rows=600, users=50, items=40, times=True)
    >>> truth = world.expected(world.interactions.users, world.interactions.items)
    >>> bool(np.mean((truth - world.interactions.ratings) ** 2) < 0.9)
    True
    """
    values = {
        "users": users, "items": items, "ratings": ratings, "factors": factors, "step": step,
        "noise": noise, "skew": skew, "activity": activity, "choices": choices,
        "random_state": random_state, "texts": texts,
    }  # fmt: skip
    given = {name: LIMITS[name].check("generate_world", name, values[name]) for name in LIMITS}
    given["seed"] = random_seed("generate_world", given["random_state"])
    distribution = _distribution(bounds, given)
    most = given["users"] * (given["items"] // 2)
    if given["ratings"] > most:
        raise ValueError(
            f"generate_world: ratings must be at most {most}, so that a user rates at most half of "
            f"the items, not {given['ratings']}."
        )
    return _made(given, distribution)


@dataclass(frozen=True, eq=False)
class World:
    """Generated users and items with their true parameters and ratings.

    Made by `generate_world`. Users and items are 0, 1, ... The expected score of a pair is `mean` +
    the product of the factors + both biases, before it is clipped to `bounds`.

    Parameters
    ----------
    mean : float
        Mean score.
    noise : float
        Standard deviation of a rating around its expected score.
    bounds : tuple of (float, float)
        Lowest and highest rating.
    step : float or None
        Step of the grid of ratings, None for any number.
    user_factors : ndarray of shape (n_users, factors + 1)
        Factors of the users, with the bias in the last column.
    item_factors : ndarray of shape (n_items, factors + 1)
        Factors of the items, with the bias in the last column.
    texts : ndarray of shape (n_items,) or None
        Texts of the items, or None.
    _draw : dict
        Internal state of the generation of ratings.

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> world = generate_world(users=50, items=40, ratings=600, random_state=1)
    >>> world
    World(users=50, items=40, ratings=600)
    >>> world.user_factors.shape
    (50, 9)
    """

    mean: float
    noise: float
    bounds: tuple[float, float]
    step: float | None
    user_factors: np.ndarray
    item_factors: np.ndarray
    texts: np.ndarray | None
    _draw: dict[str, Any]

    def __repr__(self) -> str:
        users, items = len(self.user_factors), len(self.item_factors)
        return f"World(users={users}, items={items}, ratings={len(self)})"

    def __len__(self) -> int:
        return int(self._draw["offsets"][-1])

    @cached_property
    def interactions(self) -> Interactions:
        """All ratings, generated when first used."""
        return self._rows(0, len(self))

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Interactions]:
        """Generate the ratings in batches.

        Parameters
        ----------
        rows : int, default=65536
            Maximum number of rows of a batch, at least 1.

        Yields
        ------
        Interactions
            The next rows; all batches together are `interactions`.
        """
        rows = integer(1).check("World", "rows", rows)
        for first in range(0, len(self), rows):
            yield self._rows(first, min(rows, len(self) - first))

    def expected(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Compute the expected rating of each pair; no prediction has a smaller squared error.

        Parameters
        ----------
        users : ndarray of shape (n,)
            Users, integers from 0.
        items : ndarray of shape (n,)
            Items, integers from 0.

        Returns
        -------
        ndarray of shape (n,)
            Mean of all ratings that each pair could get.
        """
        who = _inside(users, len(self.user_factors), "users")
        what = _inside(items, len(self.item_factors), "items")
        if who.size != what.size:
            raise ValueError(
                f"World: users and items must be of one length, not {who.size} and {what.size}."
            )
        out = np.empty(who.size)
        distribution = self._draw["law"]
        kernels.expected(who, what, self.user_factors, self.item_factors, distribution, out)
        return out

    def _rows(self, first: int, count: int) -> Interactions:
        who, what, rated = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
        draw = self._draw
        kernels.rows(
            first, draw["key"], draw["offsets"], draw["guide"], GUIDE, draw["ranked"],
            self.user_factors, self.item_factors, draw["law"], draw["choices"], who, what, rated,
        )  # fmt: skip
        times = START + ((first + np.arange(count)) * (SPAN / len(self))).astype(np.int64)
        return Interactions(who, what, rated, times)


def _distribution(bounds: Any, given: dict[str, Any]) -> np.ndarray:
    """Parameters of ratings as the kernel reads them: mean, noise, low, high, step and skew."""
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        low, high = 0.0, 0.0
    if not -1e9 <= low < high <= 1e9:
        raise ValueError(f"generate_world: bounds must be (low, high), low < high, not {bounds!r}.")
    step = given["step"] or 0.0
    steps = (high - low) / step if step else 1.0
    if abs(steps - round(steps)) > 1e-9 or not 1 <= steps <= 10_000:
        raise ValueError(
            f"generate_world: step must divide the range of ratings, {high - low:g}, into 1 to "
            f"10000 parts, not {step!r}."
        )
    scale = (high - low) / 4
    noise = NOISE * scale if given["noise"] is None else given["noise"]
    return np.array([low + MEAN * scale, noise, low, high, step, given["skew"]])


def _made(given: dict[str, Any], distribution: np.ndarray) -> World:
    """Generate everything except ratings."""
    random = np.random.default_rng(given["seed"])
    mean, noise, low, high, step, _ = map(float, distribution)
    scale = (high - low) / 4
    counts = _counts(given, random)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    starts = np.arange(0, offsets[-1], 1 << GUIDE)
    draw = {
        "key": key_of(given["seed"]),
        "offsets": offsets,
        "guide": (np.searchsorted(offsets, starts, side="right") - 1).astype(np.int32),
        "ranked": random.permutation(given["items"]).astype(np.int32),
        "law": distribution,
        "choices": given["choices"],
    }
    factors = given["factors"]
    people = _entities(given["users"], factors, USER_BIAS * scale, TASTE * scale, random)
    things = _entities(given["items"], factors, ITEM_BIAS * scale, 1.0, random)
    texts = topic_texts(things[:, :-1], random) if given["texts"] else None
    return World(mean, noise, (low, high), step or None, people, things, texts, draw)


def _counts(given: dict[str, Any], random: np.random.Generator) -> np.ndarray:
    """Ratings per user: log-normal above a floor, at most half the items, with the given sum."""
    users, ratings = given["users"], given["ratings"]
    least, most = int(LEAST * ratings / users), max(1, given["items"] // 2)
    weights = np.exp(given["activity"] * random.standard_normal(users))
    counts = weights * ((ratings - least * users) / weights.sum())
    full = np.zeros(users, bool)
    for _ in range(100):  # what does not fit one user goes to the others; ends after a few rounds
        over = counts > most - least
        if not (over & ~full).any():
            break
        full |= over
        counts[full] = most - least
        remaining = ratings - least * users - (most - least) * int(full.sum())
        counts[~full] *= remaining / max(counts[~full].sum(), 1e-300)
    ends = np.rint(np.cumsum(counts)).astype(np.int64)
    ends[-1] = ratings - least * users
    return np.asarray(least + np.diff(ends, prepend=0))


def _entities(
    many: int, factors: int, bias: float, strength: float, random: np.random.Generator
) -> np.ndarray:
    """Factors and a bias per row; a product of user and item factors has this standard deviation.

    The components' contributions to its variance fall as 1, 1/4, 1/9, ...
    """
    weights = 1.0 / np.arange(1, factors + 1) ** 2
    scales = strength * (weights / weights.sum()) ** 0.25
    drawn = random.standard_normal((many, factors + 1), np.float32)
    return drawn * np.append(scales, bias).astype(np.float32)


def _inside(ids: Any, many: int, name: str) -> np.ndarray:
    positions = np.asarray(ids)
    if positions.ndim != 1:
        raise ValueError(f"World: {name} must be one column, not {positions.ndim} dimensions.")
    if positions.size and (
        positions.dtype.kind not in "iu" or not 0 <= positions.min() <= positions.max() < many
    ):
        raise ValueError(f"World: {name} must be integers from 0 to {many - 1}.")
    return positions.astype(np.int64)
