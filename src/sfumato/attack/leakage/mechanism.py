"""Mutual information as a privacy figure: nats that a release gives about one unit's presence."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.attack.leakage.measured import MeasuredInformation, measured_information
from sfumato.attack.leakage.symbol_bounds import profile_information
from sfumato.core.tables import Page
from sfumato.privacy.accounting import pld
from sfumato.privacy.accounting.composition import delta_at
from sfumato.privacy.accounting.losses import Approximate, Loss, Pure, Sampled
from sfumato.privacy.accounting.pld import Atoms, directions, has_pair
from sfumato.privacy.accounting.rdp import basic
from sfumato.privacy.statement import PrivacyStatement

__all__ = [
    "Information",
    "MeasuredInformation",
    "information",
    "measured_information",
    "profile_information",
]

SERIES = 0.1  # losses below are integrated by six nodes: there the closed form would cancel
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)
STEPS = 600
CERTAIN = -40.0  # log of a doubt that no float tells from none


@dataclass(frozen=True)
class Information(Page):
    """What a release tells about whether one unit is in the data.

    nats: for an attacker to whom that is a fair coin; capacity: for the one whom the release tells
    most; share: how likely that one thinks the unit to be there. Neither passes log 2, the whole
    answer. exact: True for the law of the noise itself, False for a bound that follows from what
    was promised. Both are rounded upwards, which can cost a few percent or 1e-8 nats where the
    noises of many cells are added on a grid.

    Parameters
    ----------
    nats : float
        TODO.
    capacity : float
        TODO.
    share : float
        TODO.
    exact : bool
        TODO.
    """

    nats: float
    capacity: float
    share: float
    exact: bool

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values.

        Returns
        -------
        dict
            The figures as plain JSON values.
        """
        return asdict(self)

    def _facts(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        word = "exactly" if self.exact else "at most"
        return f"Information: {word} {self.nats:.4g} of {math.log(2):.4g} nats about one unit"


def information(told: PrivacyStatement | Loss) -> Information:
    """The nats that a release gives about one unit's presence, from what is known of its noise.

    Parameters
    ----------
    told : PrivacyStatement or Loss
        The statement of a release or a description of its cost; for a group of units the loss's
        `group(size)`, so for a whole profile too.

    Returns
    -------
    Information
        The nats that a release gives about one unit's presence, from what is known of its noise.

    Notes
    -----
    **Guarantee.** No two neighbouring data sets are told apart by more. `exact` where the loss
    describes the noise and so the pair of neighbours that is easiest to tell apart: then that pair
    is told apart by as much, if the data allow it. Everything else that is known is used too: pure
    epsilon, rho of concentrated privacy, and log 2.

    References
    ----------
    .. [1] With g(e) the least delta at epsilon e in either direction, the nats for a fair coin are
       the integral of g(e) / (1 + exp(e)) over e > 0: mutual information is an f-divergence, and
       these are means of such curves (Sason and Verdu 2016, section VII).

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.privacy.accounting.losses import Flips
    >>> information(Flips(Fraction(1, 4)))  # log 2 - h(1/4)
    Information: exactly 0.1308 of 0.6931 nats about one unit
    """
    loss = _loss(told)
    sides = _sides(loss)
    if sides is None:
        fair, most, share = _bounded(loss), _bounded(loss), 0.5
    else:
        fair, (most, share) = _nats(*sides, 0.5), _largest(*sides)
    cap = _cap(loss)
    exact = sides is not None and _described(loss) and fair <= cap * (1 + 1e-9)
    return Information(min(fair, cap, _small(loss.rho)), min(most, cap), share, exact)


def _loss(told: PrivacyStatement | Loss) -> Loss:
    if isinstance(told, Loss):
        return told
    if not isinstance(told, PrivacyStatement):
        raise TypeError(
            f"information: told must be a PrivacyStatement or a Loss, not {type(told).__name__}."
        )
    if told.loss:
        return Loss.from_dict(told.loss)
    return Approximate(told.epsilon, told.delta, relation=told.relation)


def _described(loss: Loss) -> bool:
    """Whether the pair is that of the noise; of a sample it is where one cell is noised."""
    if isinstance(loss, Sampled):
        return _described(loss.of) and directions(loss.of)[0].repeat == 1
    return not isinstance(loss, Pure | Approximate)


def _cap(loss: Loss) -> float:
    """The least of what holds for every attacker: log 2, pure epsilon, and both divergences.

    The information is at most s (1 - s) times the sum of both divergences, each of them rho.
    """
    epsilon, delta = basic(loss)
    right = (1 - delta) / (1 + math.exp(-min(epsilon, 700)))
    answers = np.array([min(epsilon, 700)]), np.array([right]), delta
    return min(math.log(2), _nats(answers, answers, 0.5), loss.rho / 2)


def _small(rho: float) -> float:
    """For a fair coin, from the divergence of order 2, at most 2 rho.

    With x = |P - Q| / (P + Q) the nats are the mean of log 2 - h((1 + x) / 2) <= x**2 log 2, and by
    4 / (P + Q) <= 1 / P + 1 / Q the mean of x**2 is at most (exp(2 rho) - 1) / 4.
    """
    return math.log(2) / 4 * math.expm1(2 * min(rho, 1.0)) if rho < 1 else math.inf


Side = tuple[np.ndarray, np.ndarray, float]


def _sides(loss: Loss) -> tuple[Side, Side] | None:
    """Losses above 0 with their masses, and the mass at infinity, in both directions."""
    if not has_pair(loss):
        return None
    pair = directions(loss)
    if all(side.repeat == 1 for side in pair):
        one, other = ((side.losses, side.masses, side.infinity) for side in pair)
        return one, other
    if pair[0].repeat * math.log(_alike(pair[0])) < CERTAIN:
        everything = np.empty(0), np.empty(0), 1.0
        return everything, everything
    found = pld.distribution({loss: 1})
    if not found:
        return None
    grids = [
        (each.step * np.arange(1, each.mass.size + 1), each.mass * each.scale, each.extra)
        for each in found
    ]
    return grids[0], grids[-1]


def _alike(side: Atoms) -> float:
    """The integral of sqrt(P Q), which is multiplied where noises are independent.

    The doubt that is left, h(q) <= 2 log 2 sqrt(q (1 - q)), is at most log 2 times that of all.
    """
    return max(float(side.masses @ np.exp(-side.losses / 2)), 1e-300)


def _nats(leaves: Side, joins: Side, share: float) -> float:
    """The information where the unit is there with this chance."""
    rest = 1 - share
    total = _mean(leaves, share, rest) + _mean(joins, rest, share)
    return share * rest * total


def _mean(side: Side, a: float, b: float) -> float:
    """The mean over losses l of the integral of (1 - exp(e - l)) / (a exp(e) + b) for 0 < e < l."""
    losses, masses, infinity = side
    held = losses > 0
    return float(masses[held] @ _integral(losses[held], a, b)) - infinity * math.log(a) / b


def _integral(losses: np.ndarray, a: float, b: float) -> np.ndarray:
    left = np.exp(-losses)
    log = np.log(a + b * left)
    closed = -log / b - left * (losses + log) / a
    small = losses < SERIES
    if not small.any():
        return np.asarray(closed)
    short = losses[small, None]
    at = short * (NODES + 1) / 2
    inner = -np.expm1(at - short) / (a * np.exp(at) + b)
    closed[small] = (inner @ WEIGHTS) * losses[small] / 2
    return np.asarray(closed)


def _largest(leaves: Side, joins: Side) -> tuple[float, float]:
    """The most over all shares, and where; noise that is its own mirror has it at one half."""
    if leaves is joins or leaves[0] is joins[0]:
        return _nats(leaves, joins, 0.5), 0.5
    share = _peak(lambda share: _nats(leaves, joins, share))
    return _nats(leaves, joins, share), share


def _peak(function: Callable[[float], float]) -> float:
    """Where a concave function on (0, 1) is largest, by thirds."""
    low, high = 0.0, 1.0
    for _ in range(40):
        third = (high - low) / 3
        rises = function(low + third) < function(high - third)
        low, high = (low + third, high) if rises else (low, high - third)
    return (low + high) / 2


def _bounded(loss: Loss) -> float:
    """The integral over a curve of which only upper bounds are known, taken as steps.

    The curve falls from the total variation, by rho at most sqrt(rho / 2) (Pinsker) and
    sqrt(1 - exp(-rho)) (Bretagnolle and Huber).
    """
    if isinstance(loss, Sampled):  # information is convex in the law of the unit
        return loss.rate * _bounded(loss.of)
    rho = loss.rho
    most = math.sqrt(min(rho / 2, -math.expm1(-rho)))
    points = np.linspace(0, rho + 12 * math.sqrt(2 * rho), STEPS)
    deltas = np.array([min(most, delta_at({loss: 1}, float(each), "rdp")) for each in points])
    weight = -np.log1p(np.exp(-np.append(points, np.inf)))  # the integral of 1 / (1 + exp(e))
    return float(deltas @ np.diff(weight))
