"""Amplification of hash families: AND and OR separate the probabilities of near and far pairs."""

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from sfumato.core.validation import fraction, integer

__all__ = ["Sensitive", "bands_and_rows", "candidate_probability"]

LENGTH = integer(1, 2**20)
MOST_ROWS = 64


@dataclass(frozen=True)
class Sensitive:
    """A locality-sensitive hash family: near pairs agree more often than far ones.

    Parameters
    ----------
    near : float
        Distance up to which pairs are near; at most `far`.
    far : float
        Distance from which pairs are far.
    near_agree : float
        Minimum probability that a near pair agrees, from 0 to 1.
    far_agree : float
        Maximum probability that a far pair agrees, from 0 to 1.

    Notes
    -----
    **Guarantee.** Pairs at a distance of at most `near` agree with probability at least
    `near_agree`, pairs at a distance of at least `far` with probability at most `far_agree`.
    `every` and `some` return the families made of independent members, with exactly these
    probabilities, and can be chained.

    References
    ----------
    .. [1] Leskovec, Rajaraman, Ullman. "Mining of Massive Datasets", section 3.6.3 (amplification).
       http://www.mmds.org

    Examples
    --------
    >>> family = Sensitive(near=0.2, far=0.8, near_agree=0.8, far_agree=0.2)
    >>> round(family.some(4).every(4).every(4).some(4).far_agree, 6)
    0.000871
    """

    near: float
    far: float
    near_agree: float
    far_agree: float

    def __post_init__(self) -> None:
        for name in ("near_agree", "far_agree"):
            object.__setattr__(self, name, _probability("Sensitive", name, getattr(self, name)))
        if not self.near <= self.far:
            raise ValueError(
                f"Sensitive: near must be at most far, not {self.near!r} beside {self.far!r}."
            )

    def every(self, rows: int) -> "Sensitive":
        """Combine independent hashes by AND: agree where all of them agree.

        Parameters
        ----------
        rows : int
            Number of hashes, 1 to 2**20.

        Returns
        -------
        Sensitive
            The combined family; both probabilities decrease.
        """
        rows = LENGTH.check("Sensitive", "rows", rows)
        return replace(self, near_agree=self.near_agree**rows, far_agree=self.far_agree**rows)

    def some(self, bands: int) -> "Sensitive":
        """Combine independent hashes by OR: agree where at least one agrees.

        Parameters
        ----------
        bands : int
            Number of hashes, 1 to 2**20.

        Returns
        -------
        Sensitive
            The combined family; both probabilities increase.
        """
        bands = LENGTH.check("Sensitive", "bands", bands)
        near, far = _any(self.near_agree, bands), _any(self.far_agree, bands)
        return replace(self, near_agree=near, far_agree=far)


def candidate_probability(agree: float, bands: int, rows: int) -> float:
    """Compute the probability that a pair shares at least one key.

    Parameters
    ----------
    agree : float
        Probability that one hash agrees, from 0 to 1.
    bands : int
        Number of keys, 1 to 2**20.
    rows : int
        Number of hashes per key, 1 to 2**20.

    Returns
    -------
    float
        ``1 - (1 - agree**rows)**bands``, to full precision also where it is small.

    Examples
    --------
    >>> round(candidate_probability(0.8, bands=10, rows=5), 4)
    0.9811
    """
    owner = "candidate_probability"
    bands, rows = LENGTH.check(owner, "bands", bands), LENGTH.check(owner, "rows", rows)
    return _any(_probability(owner, "agree", agree) ** rows, bands)


def bands_and_rows(agree: float, recall: float, most_bands: int = 64) -> tuple[int, int]:
    """Longest keys whose tables still find a pair with probability `recall`.

    Longer keys let fewer far pairs through but need more bands, so this is the largest number of
    rows, up to 64, for which `most_bands` suffice, and the number of bands it needs. `agree` is the
    probability that one hash of a pair worth finding agrees.

    >>> bands_and_rows(0.8, recall=0.95, most_bands=20)
    (17, 8)
    """
    owner = "bands_and_rows"
    agree, recall = fraction.check(owner, "agree", agree), fraction.check(owner, "recall", recall)
    most = LENGTH.check(owner, "most_bands", most_bands)
    for rows in range(MOST_ROWS, 0, -1):
        bands = _bands(agree, recall, rows, most)
        if bands:
            return bands, rows
    raise ValueError(
        f"{owner}: {most} bands cannot reach a recall of {recall} where hashes agree with "
        f"probability {agree}; allow more bands."
    )


def _probability(owner: str, name: str, value: Any) -> float:
    """Validate a probability, 0 and 1 included."""
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not known or not 0 <= value <= 1:
        raise ValueError(f"{owner}: {name} must be a probability from 0 to 1, not {value!r}.")
    return float(value)


def _any(agree: float, bands: int) -> float:
    """1 - (1 - agree)**bands, to full precision where agree is small."""
    return 1.0 if agree >= 1 else -math.expm1(bands * math.log1p(-agree))


def _bands(agree: float, recall: float, rows: int, most: int) -> int:
    """Fewest bands of these rows that reach the recall, or 0 if more than `most`."""
    low, high = 1, most
    if candidate_probability(agree, most, rows) < recall:
        return 0
    while low < high:
        middle = (low + high) // 2
        enough = candidate_probability(agree, middle, rows) >= recall
        low, high = (low, middle) if enough else (middle + 1, high)
    return low
