"""Texts of generated items: made-up words, each topic with its own, more of those that fit."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["topic_texts"]

WORDS = 40  # of each topic
LENGTH = 12  # words of a text
COMMON = 0.25  # share of words that say nothing about the topic
SYLLABLES = np.array([c + v for c in "bdfgklmnprstvz" for v in "aeiou"], object)


def topic_texts(factors: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """A text for each row of factors: a component strongly above or below 0 gives its words often.

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
    places = topics * WORDS + (WORDS * random.random((many, LENGTH)) ** 2).astype(int)
    columns = [pa.array(words).take(pa.array(column)) for column in places.T]
    return np.asarray(pc.binary_join_element_wise(*columns, " ").to_numpy(zero_copy_only=False))


def _words(many: int) -> np.ndarray:
    """Different words of three syllables: multiplying by a prime spreads neighbours apart."""
    places = (np.arange(many) * 7919) % SYLLABLES.size**3
    first, rest = np.divmod(places, SYLLABLES.size**2)
    second, third = np.divmod(rest, SYLLABLES.size)
    return np.asarray(SYLLABLES[first] + SYLLABLES[second] + SYLLABLES[third])
