"""Privacy losses: the cost of one use of a mechanism, in forms that compose and store as JSON."""

import math
import re
from dataclasses import dataclass
from dataclasses import fields as fields_of
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from sfumato.core.validation import checked, integer, one_of, rational
from sfumato.privacy.rounding import COST, DELTA, LEAST, MOST, UP, pure_rho, round_up
from sfumato.privacy.units import RELATIONS

__all__ = [
    "RELATIONS",
    "Approximate",
    "Concentrated",
    "Flips",
    "GaussianNoise",
    "LaplaceNoise",
    "Loss",
    "Pure",
    "Sampled",
    "as_loss",
]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Privacy cost of one use of a mechanism on data sets that differ by one unit.

    Base class of all losses. `epsilon` is the pure epsilon (infinite where there is none) and `rho`
    the parameter of zero-concentrated differential privacy (zCDP); both are rounded up. Losses
    compose in an `Accountant` and travel inside statements and ledgers as plain JSON (`to_dict`).

    Parameters
    ----------
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" (one unit is added or removed) or "replace" (one unit
        is replaced by another). Losses under different relations never mix.

    Examples
    --------
    >>> loss = Loss.from_dict({"kind": "Pure", "epsilon": 0.5, "relation": "add/remove"})
    >>> loss.epsilon, loss.rho <= 0.126
    (0.5, True)
    """

    relation: str = "add/remove"
    KINDS: ClassVar[dict[str, type["Loss"]]] = {}
    LIMITS: ClassVar[dict[str, Any]] = {"relation": one_of(RELATIONS)}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.LIMITS = {**Loss.LIMITS, **cls.LIMITS}
        Loss.KINDS[cls.__name__] = cls

    def __post_init__(self) -> None:
        checked(self, self.LIMITS)
        try:
            fits = all(LEAST <= size <= MOST for size in self._sizes())
        except (OverflowError, ZeroDivisionError):
            fits = False
        if not fits:
            raise ValueError(f"{type(self).__name__}: the cost must be from 1e-100 to 1e100.")

    @property
    def epsilon(self) -> float:
        """Pure epsilon, rounded up; infinite where the loss is not pure."""
        return math.inf

    def _sizes(self) -> tuple[float, ...]:
        """Numbers that must stay within LEAST and MOST."""
        epsilon = self.epsilon
        return (epsilon if epsilon < math.inf else self.rho,)

    @property
    def rho(self) -> float:
        """Parameter rho of zero-concentrated differential privacy, rounded up.

        Infinite where there is none. From a pure epsilon it is the smaller of epsilon**2 / 2 (Bun
        and Steinke 2016, Proposition 1.4: pure privacy is concentrated,
        https://arxiv.org/abs/1605.02065) and epsilon, because no Renyi divergence exceeds the max
        divergence and its order is above 1.
        """
        return pure_rho(self.epsilon)

    def group(self, size: int) -> "Loss":
        """Return the loss for data sets that differ by several units (group privacy).

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Loss
            Loss for the group; `self.epsilon` times `size` where the loss is pure.
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Describe the loss in plain JSON values.

        Returns
        -------
        dict
            Fields of the loss and its class under "kind"; fractions are text such as "21/2".
        """
        values = {field.name: _plain(getattr(self, field.name)) for field in fields_of(self)}
        return {"kind": type(self).__name__, **values}

    @staticmethod
    def from_dict(fields: dict[str, Any]) -> "Loss":
        """Build a loss from its description.

        Parameters
        ----------
        fields : dict
            Result of `to_dict`.

        Returns
        -------
        Loss
            Loss of the class named by "kind".

        Raises
        ------
        ValueError
            If the fields are not those of a known loss, or a value is out of range.
        """
        values = dict(fields) if isinstance(fields, dict) else {}
        kind = Loss.KINDS.get(str(values.pop("kind", "")))
        if kind is None or set(values) != {field.name for field in fields_of(kind)}:
            raise ValueError("Loss: the description is not one of ours.")
        # A ratio of integers only: "1e999999999" would be a number of a billion digits.
        texts = (v for name, v in values.items() if name != "relation" and isinstance(v, str))
        if not all(re.fullmatch(r"[0-9]{1,4000}(/[0-9]{1,4000})?", text) for text in texts):
            raise ValueError("Loss: a ratio of the description is not one of integers.")
        return kind(**values)


@dataclass(frozen=True)
class Pure(Loss):
    """Pure epsilon-differential privacy, with nothing else known about the mechanism.

    Parameters
    ----------
    epsilon : float, default=0.0
        Bound on the log-ratio of the probabilities of any outcome, above 0.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".

    Examples
    --------
    >>> Pure(0.5).group(3).epsilon
    1.5
    """

    epsilon: float = 0.0
    LIMITS = {"epsilon": COST}

    def group(self, size: int) -> Self:
        """Return the loss for data sets that differ by several units (group privacy).

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Self
            Pure loss of `size` times epsilon, rounded up.
        """
        return type(self)(round_up(_size(size) * Fraction(self.epsilon)), relation=self.relation)


@dataclass(frozen=True)
class Approximate(Loss):
    """(epsilon, delta)-differential privacy, with nothing else known about the mechanism.

    Parameters
    ----------
    bound : float
        The epsilon that holds together with `delta`, above 0.
    delta : float
        Probability mass that epsilon need not cover, from 0 to below 1.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".

    Examples
    --------
    >>> Approximate(1.0, 1e-6).epsilon, Approximate(1.0, 0.0).epsilon
    (inf, 1.0)
    """

    bound: float
    delta: float
    LIMITS = {"bound": COST, "delta": DELTA}

    @property
    def epsilon(self) -> float:
        """Pure epsilon: `bound` where delta is 0, infinite otherwise."""
        return self.bound if self.delta == 0 else math.inf

    def _sizes(self) -> tuple[float, ...]:
        return (self.bound,)

    def group(self, size: int) -> Self:
        """Return the loss for data sets that differ by several units (group privacy).

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Self
            Epsilon is ``size * bound``; delta is multiplied by
            ``1 + exp(bound) + ... + exp((size - 1) * bound)``, one step per unit.

        Raises
        ------
        ValueError
            If the delta of the group would reach 1.

        References
        ----------
        .. [1] Dwork, Roth. "The Algorithmic Foundations of Differential Privacy". Foundations and
           Trends in Theoretical Computer Science 9, 2014, Theorem 2.2 (group privacy), without
           rounding the sum up to its largest term. https://doi.org/10.1561/0400000042
        """
        size, bound = _size(size), self.bound
        total = round_up(size * Fraction(bound))
        most = 700.0  # beyond, exp is no float and no delta that matters would survive it
        factor = math.expm1(min(total, most)) / math.expm1(min(bound, most)) * (1 + 1e-12)
        if self.delta and (total > most or factor * self.delta >= 1):
            raise ValueError(f"Approximate: delta of a group of {size} would reach 1.")
        return type(self)(total, factor * self.delta, relation=self.relation)


@dataclass(frozen=True)
class Concentrated(Loss):
    """Zero-concentrated differential privacy (zCDP) with parameter rho.

    Parameters
    ----------
    rho : float, default=0.0
        Bound on the Renyi divergence of every order a > 1, divided by a; above 0.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".

    Examples
    --------
    >>> Concentrated(0.125).group(2).rho
    0.5
    """

    rho: float = 0.0
    LIMITS = {"rho": COST}

    def group(self, size: int) -> Self:
        """Return the loss for data sets that differ by several units (group privacy).

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Self
            Loss of ``size**2 * rho``, rounded up.
        """
        return type(self)(round_up(_size(size) ** 2 * Fraction(self.rho)), relation=self.relation)


@dataclass(frozen=True)
class LaplaceNoise(Loss):
    """Discrete Laplace noise of one scale on each of several integers.

    The privacy loss distribution is known exactly, so it composes more tightly than `Pure`. Smaller
    changes are covered: the distribution is log-concave, so a longer shift is easier to
    distinguish.

    Parameters
    ----------
    scale : Fraction
        Scale b of the noise: k has probability proportional to exp(-abs(k) / b). Above 0.
    change : int, default=1
        Largest change of one integer by one unit, at least 1.
    cells : int, default=1
        Largest number of integers that one unit changes, at least 1.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".

    Examples
    --------
    >>> LaplaceNoise(4, change=1, cells=2).epsilon
    0.5
    """

    scale: Fraction
    change: int = 1
    cells: int = 1
    LIMITS = {"scale": rational, "change": integer(1), "cells": integer(1)}

    @cached_property
    def epsilon(self) -> float:
        """Pure epsilon: change * cells / scale, rounded up."""
        return round_up(Fraction(self.change * self.cells) / self.scale)

    @cached_property
    def rho(self) -> float:
        return min(self.epsilon, self.cells * pure_rho(round_up(self.change / self.scale)) * UP)

    def group(self, size: int) -> Pure:
        """Return the loss for data sets that differ by several units (group privacy).

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Pure
            Epsilon ``size * change * cells / scale``, rounded up. It is pure because the group may
            change the same integers or different ones.
        """
        exact = Fraction(_size(size) * self.change * self.cells) / self.scale
        return Pure(round_up(exact), relation=self.relation)


@dataclass(frozen=True)
class GaussianNoise(Loss):
    """Discrete Gaussian noise of one variance on each of several integers.

    The privacy loss distribution is known exactly, so it composes more tightly than `Concentrated`.
    There is no pure epsilon; rho is cells * change**2 / (2 * variance).

    Parameters
    ----------
    variance : Fraction
        Parameter sigma**2: k has probability proportional to exp(-k**2 / (2 * variance)). Above 0.
    change : int, default=1
        Largest change of one integer by one unit, at least 1.
    cells : int, default=1
        Largest number of integers that one unit changes, at least 1.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".

    References
    ----------
    .. [1] Canonne, Kamath, Steinke. "The Discrete Gaussian for Differential Privacy". NeurIPS 2020,
       Theorems 4 and 14 (concentrated privacy of one and of several numbers).
       https://arxiv.org/abs/2004.00010

    Examples
    --------
    >>> GaussianNoise(16, change=1, cells=2).rho
    0.0625
    """

    variance: Fraction
    change: int = 1
    cells: int = 1
    LIMITS = {"variance": rational, "change": integer(1), "cells": integer(1)}

    @cached_property
    def rho(self) -> float:
        return round_up(Fraction(self.cells * self.change**2) / (2 * self.variance))

    def group(self, size: int) -> Concentrated:
        """Return the loss for data sets that differ by several units (group privacy).

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Concentrated
            Loss of ``size**2 * rho``: which cells a group changes is not known.

        References
        ----------
        .. [1] Bun, Steinke. "Concentrated Differential Privacy: Simplifications, Extensions, and
           Lower Bounds". TCC 2016, Proposition 1.9 (group privacy).
           https://arxiv.org/abs/1605.02065
        """
        exact = Fraction(_size(size) ** 2 * self.cells * self.change**2) / (2 * self.variance)
        return Concentrated(round_up(exact), relation=self.relation)


@dataclass(frozen=True)
class Flips(Loss):
    """Randomized response: each bit is flipped independently with one probability.

    Parameters
    ----------
    probability : Fraction
        Probability of a flip, above 0 and below 1/2.
    cells : int, default=1
        Largest number of bits that one unit changes, at least 1.
    relation : str, default="add/remove"
        Adjacency of data sets: "add/remove" or "replace".

    Examples
    --------
    >>> round(Flips("1/4", cells=2).epsilon, 6)  # 2 * log(3)
    2.197225
    """

    probability: Fraction
    cells: int = 1
    LIMITS = {"probability": rational, "cells": integer(1)}

    @cached_property
    def epsilon(self) -> float:
        """Pure epsilon: cells * log((1 - probability) / probability), rounded up."""
        return self.cells * self.each * UP

    @cached_property
    def rho(self) -> float:
        return min(self.epsilon, self.cells * pure_rho(self.each) * UP)

    @cached_property
    def each(self) -> float:
        """Epsilon of one bit, log((1 - p) / p) rounded up; by log1p where the ratio is near 1."""
        ratio = (1 - self.probability) / self.probability
        if ratio < 3:
            return math.log1p(round_up(ratio - 1)) * UP
        return (math.log(ratio.numerator) - math.log(ratio.denominator)) * (1 + 1e-11)

    def group(self, size: int) -> Self:
        """Return the loss for data sets that differ by several units (group privacy).

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Self
            Loss of `size` times as many bits.
        """
        return type(self)(self.probability, _size(size) * self.cells, relation=self.relation)

    def _sizes(self) -> tuple[float, ...]:
        if self.probability >= Fraction(1, 2):
            raise ValueError(
                "Flips: probability must be below 1/2, or the bits carry no information; not "
                f"{self.probability}."
            )
        return float(self.probability), self.epsilon


@dataclass(frozen=True)
class Sampled(Loss):
    """Another loss, amplified by Poisson subsampling.

    Each unit takes part independently with probability `rate`, and which units do is not released.

    Parameters
    ----------
    rate : float
        Sampling probability of each unit, above 0 and below 1.
    of : Loss
        Loss of the mechanism on the sample, or its `to_dict`; under "add/remove".
    relation : str, default="add/remove"
        Must be "add/remove": the amplification holds for that adjacency only.

    References
    ----------
    .. [1] Li, Qardaji, Su. "On Sampling, Anonymization, and Differential Privacy: Or,
       k-Anonymization Meets Differential Privacy". ASIACCS 2012, Theorem 1 (privacy amplification
       by sampling). https://arxiv.org/abs/1101.2604

    Examples
    --------
    >>> round(Sampled(0.01, Pure(1.0)).epsilon, 4)
    0.017
    """

    rate: float
    of: Loss
    LIMITS = {"rate": DELTA}

    def __post_init__(self) -> None:
        of = self.of if isinstance(self.of, Loss) else Loss.from_dict(self.of)
        object.__setattr__(self, "of", of)
        super().__post_init__()
        if self.rate == 0 or of.relation != self.relation or self.relation != "add/remove":
            raise ValueError("Sampled: rate must be above 0 and the relation add/remove.")

    @property
    def epsilon(self) -> float:
        """Pure epsilon after amplification, rounded up; infinite where `of` is not pure."""
        return self.amplified(self.of.epsilon)

    def amplified(self, epsilon: float) -> float:
        """Return the epsilon that a given epsilon becomes on the Poisson sample.

        Parameters
        ----------
        epsilon : float
            Epsilon of the mechanism without sampling, at least 0.

        Returns
        -------
        float
            ``log(1 + rate * (exp(epsilon) - 1))``, rounded up; `epsilon` itself from 700 on.
        """
        return math.log1p(self.rate * math.expm1(epsilon)) * UP if epsilon < 700 else epsilon

    @property
    def rho(self) -> float:
        return min(self.of.rho, super().rho)

    def _sizes(self) -> tuple[float, ...]:
        return self.rate, *self.of._sizes()

    def group(self, size: int) -> Loss:
        """Return the loss for data sets that differ by several units (group privacy).

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Loss
            Loss of the group without amplification, which does not carry over to groups.
        """
        return self.of.group(size)


def as_loss(owner: str, loss: Any, relation: str) -> Loss:
    """Convert an epsilon or an (epsilon, delta) pair to a loss; a loss passes through.

    Parameters
    ----------
    owner : str
        Name of the caller, for error messages.
    loss : object
        A `Loss`, an epsilon above 0, or a pair (epsilon, delta).
    relation : str
        Adjacency of the new loss; a `Loss` keeps its own.

    Returns
    -------
    Loss
        `Pure` for an epsilon, `Approximate` for a pair.

    Raises
    ------
    ValueError
        If `loss` is none of these, or a class that could not be read from its description.

    Examples
    --------
    >>> as_loss("example", (1.0, 1e-6), "add/remove")
    Approximate(relation='add/remove', bound=1.0, delta=1e-06)
    """
    if isinstance(loss, Loss):
        if type(loss).__module__ != __name__:
            raise ValueError(f"{owner}: loss must be of a kind in {__name__}, to be read again.")
        return loss
    if hasattr(loss, "loss"):
        raise ValueError(f"{owner}: loss must be the loss() of {type(loss).__name__}, not itself.")
    if isinstance(loss, tuple | list):
        if len(loss) != 2:
            raise ValueError(f"{owner}: loss must be epsilon, (epsilon, delta) or a Loss.")
        epsilon = COST.check(owner, "epsilon", loss[0])
        delta = DELTA.check(owner, "delta", loss[1])
        return Approximate(epsilon, delta, relation=relation)
    return Pure(COST.check(owner, "epsilon", loss), relation=relation)


def _size(size: int) -> int:
    """Check a group size."""
    return integer(1).check("Loss", "size", size)


def _plain(value: Any) -> Any:
    """Convert a field to a plain JSON value."""
    if isinstance(value, Fraction):
        return str(value)
    return value.to_dict() if isinstance(value, Loss) else value
