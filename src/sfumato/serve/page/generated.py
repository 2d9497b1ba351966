"""Generated data of the page's demonstrations: titles, readers and points that nobody is."""

import numpy as np

from sfumato.data.interactions import Interactions
from sfumato.data.synthetic import generate_world

__all__ = ["BOUNDS", "choices", "points", "readers", "title", "titles"]

FIRST = (
    *("Amber", "Silent", "Distant", "Northern", "Paper", "Crimson", "Hidden", "Winter", "Broken"),
    *("Golden", "Midnight", "Second", "Salt", "Borrowed", "Velvet", "Hollow", "Electric", "Last"),
    *("Quiet", "Wild"),
)
SECOND = (
    *("River", "Garden", "Letters", "Harbour", "Machine", "Orchard", "Season", "Witness", "Bridge"),
    *("Chorus", "Island", "Mirror", "Station", "Compass", "Kitchen", "Forest", "Summer", "Road"),
    *("Archive", "Theatre"),
)
BOUNDS = 0.0, 100.0
CENTRES = np.array([[25.0, 30.0], [70.0, 40.0], [45.0, 75.0]])
SPREAD = np.array([7.0, 5.0, 6.0])


def title(number: int) -> str:
    """Return the title of an item, one of 400: neighbours in number share no word."""
    row, column = divmod(number, len(FIRST))
    return f"{FIRST[column]} {SECOND[(row + column) % len(SECOND)]}"


def titles(count: int) -> list[str]:
    """Return the first so many titles, all different."""
    return [title(number) for number in range(count)]


def readers(users: int, items: int, each: int, seed: int) -> Interactions:
    """Generate interactions of readers who choose about `each` titles by taste and popularity."""
    return generate_world(
        users=users,
        items=items,
        ratings=users * each,
        skew=1,  # no title that nearly everybody has
        activity=0,
        choices=4,
        random_state=seed,
    ).interactions


def points(count: int, seed: int) -> np.ndarray:
    """Generate positions in three towns, within `BOUNDS`."""
    draw = np.random.default_rng(seed)
    town = draw.choice(len(CENTRES), count, p=[0.5, 0.3, 0.2])
    return np.clip(draw.normal(CENTRES[town], SPREAD[town, None]), *BOUNDS)


def choices(readers: int, each: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate choices of readers with two favourite families of titles, in random order.

    A family is the 20 titles that end in one word, so that reasons can be read at a glance. Of ten
    choices of a reader about nine are of the favourite families, which any seed leaves as they are.

    Returns the numbers of readers, and those of titles.
    """
    draw = np.random.default_rng(seed)
    count, families = readers * each, len(SECOND)
    reader = np.repeat(np.arange(readers), each)
    favourite = np.random.default_rng(0).integers(0, families, (readers, 2))
    family = favourite[reader, draw.integers(0, 2, count)]
    family = np.where(draw.random(count) < 0.1, draw.integers(0, families, count), family)
    column = draw.integers(0, len(FIRST), count)
    item = ((family - column) % families) * len(FIRST) + column
    order = draw.permutation(count)
    return reader[order], item[order]
