"""Mutual information as a privacy measure: nats that a release gives about one unit's presence."""

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

SERIES = 0.1  # smaller losses are integrated by quadrature: the closed form would cancel
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)
STEPS = 600
CERTAIN = -40.0  # log of an error probability that is 0 in float64


@dataclass(frozen=True)
class Information(Page):
    """Mutual information between a release and the presence of one unit.

    Returned by `information`. Neither figure exceeds log 2, the entropy of a fair coin.

    Parameters
    ----------
    nats : float
        Information for an attacker with prior probability 1/2 that the unit is present.
    capacity : float
        The largest information over all prior probabilities.
    share : float
        The prior probability of presence at which `capacity` is reached.
    exact : bool
        True if computed from the distribution of the noise itself, False for an upper bound derived
        from the stated guarantee.

    Notes
    -----
    Both figures are rounded upwards. Where the noise of many cells is convolved on a grid, this can
    add a few percent or 1e-8 nats.

    Examples
    --------
    >>> from sfumato.privacy.accounting.losses import Pure
    >>> information(Pure(1.0)).exact
    False
    """

    nats: float
    capacity: float
    share: float
    exact: bool

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter of the class.
        """
        return asdict(self)

    def _facts(self) -> dict[str, Any]:
        return asdict(self)

    def __repr__(self) -> str:
        word = "exactly" if self.exact else "at most"
        return f"Information: {word} {self.nats:.4g} of {math.log(2):.4g} nats about one unit"


def information(guarantee: PrivacyStatement | Loss) -> Information:
    """Bound the information of a release about the presence of one unit.

    Parameters
    ----------
    guarantee : PrivacyStatement or Loss
        The privacy statement of a release, or its privacy loss. For a group of units, such as an
        entire profile, pass the loss's `group(size)`.

    Returns
    -------
    Information
        Mutual information in nats for a fair prior, and its maximum over all priors.

    Raises
    ------
    TypeError
        If `guarantee` is neither a `PrivacyStatement` nor a `Loss`.

    Notes
    -----
    **Guarantee.** For any two neighbouring data sets, the release carries at most this information
    about which of them was used. The result is `exact` if the loss describes the noise, and so its
    dominating pair of neighbours: that pair attains it, if the data allow such a pair. All other
    known bounds are used too: pure epsilon, rho of zero-concentrated differential privacy, and
    log 2.

    With g(e) the smallest delta at epsilon e in either direction, the information for a fair prior
    is the integral of g(e) / (1 + exp(e)) over e > 0: mutual information is an f-divergence, and
    f-divergences are integrals of this curve [1]_.

    References
    ----------
    .. [1] Sason, Verdú. "f-Divergence Inequalities". IEEE Transactions on Information Theory 62,
       2016, section VII (f-divergences as integrals of E_gamma). https://arxiv.org/abs/1508.00335

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sfumato.privacy.accounting.losses import Flips
    >>> information(Flips(Fraction(1, 4)))  # log 2 - h(1/4)
    Information: exactly 0.1308 of 0.6931 nats about one unit
    """
    loss = _loss(guarantee)
    sides = _sides(loss)
    if sides is None:
        fair, most, prior = _bounded(loss), _bounded(loss), 0.5
    else:
        fair, (most, prior) = _nats(*sides, 0.5), _largest(*sides)
    cap = _cap(loss)
    exact = sides is not None and _described(loss) and fair <= cap * (1 + 1e-9)
    return Information(min(fair, cap, _small(loss.rho)), min(most, cap), prior, exact)


def _loss(guarantee: PrivacyStatement | Loss) -> Loss:
    """The privacy loss of a statement; a loss is returned unchanged."""
    if isinstance(guarantee, Loss):
        return guarantee
    if not isinstance(guarantee, PrivacyStatement):
        raise TypeError(
            "information: guarantee must be a PrivacyStatement or a Loss, not "
            f"{type(guarantee).__name__}."
        )
    if guarantee.loss:
        return Loss.from_dict(guarantee.loss)
    return Approximate(guarantee.epsilon, guarantee.delta, relation=guarantee.relation)


def _described(loss: Loss) -> bool:
    """Whether the loss describes the noise itself; of a subsample, only if one cell is noised."""
    if isinstance(loss, Sampled):
        return _described(loss.of) and directions(loss.of)[0].repeat == 1
    return not isinstance(loss, Pure | Approximate)


def _cap(loss: Loss) -> float:
    """Smallest bound that is valid for every prior: log 2, pure epsilon, and both KL divergences.

    The information is at most s (1 - s) times the sum of both divergences, each at most rho.
    """
    epsilon, delta = basic(loss)
    right = (1 - delta) / (1 + math.exp(-min(epsilon, 700)))
    answers = np.array([min(epsilon, 700)]), np.array([right]), delta
    return min(math.log(2), _nats(answers, answers, 0.5), loss.rho / 2)


def _small(rho: float) -> float:
    """Bound for a fair prior from the Renyi divergence of order 2, which is at most 2 rho.

    With x = |P - Q| / (P + Q) the nats are the mean of log 2 - h((1 + x) / 2) <= x**2 log 2, and by
    4 / (P + Q) <= 1 / P + 1 / Q the mean of x**2 is at most (exp(2 rho) - 1) / 4.
    """
    return math.log(2) / 4 * math.expm1(2 * min(rho, 1.0)) if rho < 1 else math.inf


Side = tuple[np.ndarray, np.ndarray, float]


def _sides(loss: Loss) -> tuple[Side, Side] | None:
    """Positive privacy losses, their probabilities and the mass at infinity, in both directions."""
    if not has_pair(loss):
        return None
    pair = directions(loss)
    if all(side.repeat == 1 for side in pair):
        one, other = ((side.losses, side.masses, side.infinity) for side in pair)
        return one, other
    if pair[0].repeat * math.log(_affinity(pair[0])) < CERTAIN:
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


def _affinity(side: Atoms) -> float:
    """Bhattacharyya coefficient, the integral of sqrt(P Q); independent noises multiply it.

    The remaining entropy, h(q) <= 2 log 2 sqrt(q (1 - q)), is at most log 2 times the product.
    """
    return max(float(side.masses @ np.exp(-side.losses / 2)), 1e-300)


def _nats(leaves: Side, joins: Side, prior: float) -> float:
    """Information where the unit is present with probability `share`."""
    absent = 1 - prior
    total = _mean(leaves, prior, absent) + _mean(joins, absent, prior)
    return prior * absent * total


def _mean(side: Side, a: float, b: float) -> float:
    """Mean over losses l of the integral of (1 - exp(e - l)) / (a exp(e) + b) for 0 < e < l."""
    losses, masses, infinity = side
    above = losses > 0
    return float(masses[above] @ _integral(losses[above], a, b)) - infinity * math.log(a) / b


def _integral(losses: np.ndarray, a: float, b: float) -> np.ndarray:
    """The integral in `_mean` for each loss: closed form, or quadrature for small losses."""
    decay = np.exp(-losses)
    log = np.log(a + b * decay)
    closed = -log / b - decay * (losses + log) / a
    small = losses < SERIES
    if not small.any():
        return np.asarray(closed)
    short = losses[small, None]
    at = short * (NODES + 1) / 2
    inner = -np.expm1(at - short) / (a * np.exp(at) + b)
    closed[small] = (inner @ WEIGHTS) * losses[small] / 2
    return np.asarray(closed)


def _largest(leaves: Side, joins: Side) -> tuple[float, float]:
    """Largest information over all prior probabilities, and where (1/2 for symmetric noise)."""
    if leaves is joins or leaves[0] is joins[0]:
        return _nats(leaves, joins, 0.5), 0.5
    prior = _peak(lambda prior: _nats(leaves, joins, prior))
    return _nats(leaves, joins, prior), prior


def _peak(function: Callable[[float], float]) -> float:
    """Maximiser of a concave function on (0, 1), by ternary search."""
    low, high = 0.0, 1.0
    for _ in range(40):
        third = (high - low) / 3
        rises = function(low + third) < function(high - third)
        low, high = (low + third, high) if rises else (low, high - third)
    return (low + high) / 2


def _bounded(loss: Loss) -> float:
    """Upper bound on the integral from upper bounds on the privacy curve, as a step function.

    The curve starts at the total variation, which is at most sqrt(rho / 2) (Pinsker) and at most
    sqrt(1 - exp(-rho)) (Bretagnolle and Huber).
    """
    if isinstance(loss, Sampled):  # information is convex in the distribution of the unit
        return loss.rate * _bounded(loss.of)
    rho = loss.rho
    most = math.sqrt(min(rho / 2, -math.expm1(-rho)))
    points = np.linspace(0, rho + 12 * math.sqrt(2 * rho), STEPS)
    deltas = np.array([min(most, delta_at({loss: 1}, float(each), "rdp")) for each in points])
    weight = -np.log1p(np.exp(-np.append(points, np.inf)))  # the integral of 1 / (1 + exp(e))
    return float(deltas @ np.diff(weight))
