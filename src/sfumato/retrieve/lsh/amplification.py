"""Amplification: how AND and OR of hashes drive the chances of near and far pairs apart."""

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
    """A family of hashes for which near pairs agree more often than far ones.

    Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.6.3.

    Parameters
    ----------
    near : float
        Distances, near the smaller.
    far : float
        Distances, near the smaller.
    near_agree : float
        From 0 to 1.
    far_agree : float
        From 0 to 1.

    Notes
    -----
    **Guarantee.** Pairs no farther apart than `near` agree with probability at least `near_agree`,
    pairs as far apart as `far` or farther with probability at most `far_agree`; `every` and `some`
    give the families made of independent members, with exactly these probabilities, and may follow
    each other.

    Examples
    --------
    >>> family = Sensitive(near=0.2, far=0.8, near_agree=0.8, far_agree=0.2)
    >>> family.some(4).every(4).every(4).some(4).far_agree.__round__(6)
    0.000871
    """

    near: float
    far: float
    near_agree: float
    far_agree: float

    def __post_init__(self) -> None:
        for name in ("near_agree", "far_agree"):
            object.__setattr__(self, name, _chance("Sensitive", name, getattr(self, name)))
        if not self.near <= self.far:
            raise ValueError(
                f"Sensitive: near must be at most far, not {self.near!r} beside {self.far!r}."
            )

    def every(self, rows: int) -> "Sensitive":
        """AND: agree where all of so many hashes do, from 1 up; both probabilities fall.

        Parameters
        ----------
        rows : int
            TODO.

        Returns
        -------
        Sensitive
            TODO.
        """
        rows = LENGTH.check("Sensitive", "rows", rows)
        return replace(self, near_agree=self.near_agree**rows, far_agree=self.far_agree**rows)

    def some(self, bands: int) -> "Sensitive":
        """OR: agree where at least one of so many does, from 1 up; both probabilities rise.

        Parameters
        ----------
        bands : int
            TODO.

        Returns
        -------
        Sensitive
            TODO.
        """
        bands = LENGTH.check("Sensitive", "bands", bands)
        near, far = _any(self.near_agree, bands), _any(self.far_agree, bands)
        return replace(self, near_agree=near, far_agree=far)


def candidate_probability(agree: float, bands: int, rows: int) -> float:
    """The probability that a pair shares at least one of `bands` keys of `rows` hashes each.

    Parameters
    ----------
    agree : float
        From 0 to 1, the probability that one hash agrees.
    bands : int
        From 1 up.
    rows : int
        From 1 up.

    Returns
    -------
    float
        The probability that a pair shares at least one of `bands` keys of `rows` hashes each.

    Notes
    -----
    **Guarantee.** 1 - (1 - agree**rows)**bands, to full precision also where it is small.

    Examples
    --------
    >>> round(candidate_probability(0.8, bands=10, rows=5), 4)
    0.9811
    """
    owner = "candidate_probability"
    bands, rows = LENGTH.check(owner, "bands", bands), LENGTH.check(owner, "rows", rows)
    return _any(_chance(owner, "agree", agree) ** rows, bands)


def bands_and_rows(agree: float, recall: float, most_bands: int = 64) -> tuple[int, int]:
    """The strictest keys whose tables still find a pair with probability `recall`.

    Longer keys let fewer far pairs through but need more bands, so this is the largest number of
    rows, up to 64, for which `most_bands` are enough, and the bands it needs.
    Parameters: agree, between 0 and 1, the probability that one hash of a pair worth finding
    agrees; recall, between 0 and 1; most_bands, from 1 up.

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


def _chance(owner: str, name: str, value: Any) -> float:
    """A probability, its ends included."""
    known = isinstance(value, Real) and not isinstance(value, bool)
    if not known or not 0 <= value <= 1:
        raise ValueError(f"{owner}: {name} must be a probability from 0 to 1, not {value!r}.")
    return float(value)


def _any(agree: float, bands: int) -> float:
    """1 - (1 - agree)**bands, to full precision where agree is small."""
    return 1.0 if agree >= 1 else -math.expm1(bands * math.log1p(-agree))


def _bands(agree: float, recall: float, rows: int, most: int) -> int:
    """The fewest bands of these rows that reach the recall, or 0 where more than `most`."""
    low, high = 1, most
    if candidate_probability(agree, most, rows) < recall:
        return 0
    while low < high:
        middle = (low + high) // 2
        enough = candidate_probability(agree, middle, rows) >= recall
        low, high = (low, middle) if enough else (middle + 1, high)
    return low
