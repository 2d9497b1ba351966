"""Entropy and divergence of coins, in nats."""

from typing import Any

import numpy as np

from sfumato.attack._arrays import within

__all__ = ["binary_divergence", "binary_entropy"]


def binary_entropy(chance: Any) -> np.ndarray:
    """(3.17): the entropy of a coin, in nats; 0 where it is certain.

    >>> binary_entropy([0, 0.5, 1]).round(4)
    array([0.    , 0.6931, 0.    ])
    """
    from scipy.special import xlog1py, xlogy

    chance = within("binary_entropy", "chance", chance, 0, 1)
    return np.asarray(np.abs(xlogy(chance, chance) + xlog1py(1 - chance, -chance)))


def binary_divergence(chance: Any, other: Any) -> np.ndarray:
    """The divergence of a coin from another, in nats; infinite where the other rules it out.

    >>> binary_divergence(0.5, [0.5, 0.25, 1]).round(4)
    array([0.    , 0.1438,    inf])
    """
    from scipy.special import rel_entr

    chance = within("binary_divergence", "chance", chance, 0, 1)
    other = within("binary_divergence", "other", other, 0, 1)
    apart = rel_entr(chance, other) + rel_entr(1 - chance, 1 - other)
    return np.asarray(np.maximum(apart, 0))
