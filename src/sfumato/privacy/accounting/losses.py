"""What a mechanism costs: descriptions that compose tightly and are stored as JSON."""

import math
import re
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from sfumato.core.validation import checked, integer, one_of, rational
from sfumato.privacy.rounding import COST, DELTA, LEAST, MOST, UP, pure_rho, round_up

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

RELATIONS = ("add/remove", "replace")


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The cost of one use of a mechanism on data sets that differ by one unit.

    `epsilon` is the pure epsilon, infinite where there is none; `rho` that of zero-concentrated
    differential privacy. Both are rounded up. relation: "add/remove" (one unit more or less) or
    "replace" (one unit exchanged); losses under different relations never mix.

    Parameters
    ----------
    relation : str, default="add/remove"
        TODO.
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
        """TODO."""
        return math.inf

    def _sizes(self) -> tuple[float, ...]:
        """What must stay within LEAST and MOST."""
        epsilon = self.epsilon
        return (epsilon if epsilon < math.inf else self.rho,)

    @property
    def rho(self) -> float:
        """Pure epsilon gives epsilon**2 / 2 (Bun and Steinke 2016, proposition 1.4).

        And it gives epsilon: no Renyi divergence exceeds the largest, and orders are above 1.
        """
        return pure_rho(self.epsilon)

    def group(self, size: int) -> "Loss":
        """The cost for data sets that differ by so many units.

        Parameters
        ----------
        size : int
            TODO.

        Returns
        -------
        Loss
            The cost for data sets that differ by so many units.
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The description as plain JSON values.

        Returns
        -------
        dict
            The description as plain JSON values.
        """
        told = {field.name: _plain(getattr(self, field.name)) for field in fields(self)}
        return {"kind": type(self).__name__, **told}

    @staticmethod
    def from_dict(told: dict[str, Any]) -> "Loss":
        """The loss that was described; ValueError where it is none.

        Parameters
        ----------
        told : dict
            TODO.

        Returns
        -------
        Loss
            The loss that was described; ValueError where it is none.
        """
        told = dict(told) if isinstance(told, dict) else {}
        kind = Loss.KINDS.get(str(told.pop("kind", "")))
        if kind is None or set(told) != {field.name for field in fields(kind)}:
            raise ValueError("Loss: the description is not one of ours.")
        # A ratio of integers only: "1e999999999" would be a number of a billion digits.
        texts = (v for name, v in told.items() if name != "relation" and isinstance(v, str))
        if not all(re.fullmatch(r"[0-9]{1,4000}(/[0-9]{1,4000})?", text) for text in texts):
            raise ValueError("Loss: a ratio of the description is not one of integers.")
        return kind(**told)


@dataclass(frozen=True)
class Pure(Loss):
    """Pure differential privacy at this epsilon, and nothing else known.

    Parameters
    ----------
    epsilon : float, default=0.0
        TODO.
    relation : str, default="add/remove"
        TODO.
    """

    epsilon: float = 0.0
    LIMITS = {"epsilon": COST}

    def group(self, size: int) -> Self:
        return type(self)(round_up(_size(size) * Fraction(self.epsilon)), relation=self.relation)


@dataclass(frozen=True)
class Approximate(Loss):
    """(epsilon, delta), and nothing else known: delta is the chance that nothing is promised.

    Parameters
    ----------
    bound : float
        TODO.
    delta : float
        TODO.
    relation : str, default="add/remove"
        TODO.
    """

    bound: float
    delta: float
    LIMITS = {"bound": COST, "delta": DELTA}

    @property
    def epsilon(self) -> float:
        """TODO."""
        return self.bound if self.delta == 0 else math.inf

    def _sizes(self) -> tuple[float, ...]:
        return (self.bound,)

    def group(self, size: int) -> Self:
        """delta times 1 + exp(bound) + ... + exp((size - 1) bound): from unit to unit.

        Parameters
        ----------
        size : int
            TODO.

        Returns
        -------
        Self
            The object itself.

        References
        ----------
        .. [1] Dwork and Roth 2014, theorem 2.2, without rounding the sum up to its largest term.
        """
        size, bound = _size(size), self.bound
        total = round_up(size * Fraction(bound))
        most = 700.0  # beyond, exp is no float and no delta that matters would survive it
        share = math.expm1(min(total, most)) / math.expm1(min(bound, most)) * (1 + 1e-12)
        if self.delta and (total > most or share * self.delta >= 1):
            raise ValueError(f"Approximate: delta of a group of {size} would reach 1.")
        return type(self)(total, share * self.delta, relation=self.relation)


@dataclass(frozen=True)
class Concentrated(Loss):
    """Zero-concentrated differential privacy at this rho.

    Parameters
    ----------
    rho : float, default=0.0
        TODO.
    relation : str, default="add/remove"
        TODO.
    """

    rho: float = 0.0
    LIMITS = {"rho": COST}

    def group(self, size: int) -> Self:
        return type(self)(round_up(_size(size) ** 2 * Fraction(self.rho)), relation=self.relation)


@dataclass(frozen=True)
class LaplaceNoise(Loss):
    """Discrete Laplace noise of one scale on integers.

    change: the most that one unit changes a number by; cells: how many numbers it changes, at most.
    Smaller changes are covered: the law is log-concave, so longer shifts are easier to tell apart.

    Parameters
    ----------
    scale : Fraction
        TODO.
    change : int, default=1
        TODO.
    cells : int, default=1
        TODO.
    relation : str, default="add/remove"
        TODO.
    """

    scale: Fraction
    change: int = 1
    cells: int = 1
    LIMITS = {"scale": rational, "change": integer(1), "cells": integer(1)}

    @cached_property
    def epsilon(self) -> float:
        """TODO."""
        return round_up(Fraction(self.change * self.cells) / self.scale)

    @cached_property
    def rho(self) -> float:
        return min(self.epsilon, self.cells * pure_rho(round_up(self.change / self.scale)) * UP)

    def group(self, size: int) -> Pure:
        """By the sum of the changes: which cells a group changes, and by how much, is not known.

        Parameters
        ----------
        size : int
            TODO.

        Returns
        -------
        Pure
            TODO.
        """
        exact = Fraction(_size(size) * self.change * self.cells) / self.scale
        return Pure(round_up(exact), relation=self.relation)


@dataclass(frozen=True)
class GaussianNoise(Loss):
    """Discrete Gaussian noise of one variance (sigma squared) on integers.

    Parameters
    ----------
    variance : Fraction
        TODO.
    change : int, default=1
        TODO.
    cells : int, default=1
        TODO.
    relation : str, default="add/remove"
        TODO.

    References
    ----------
    .. [1] change: the most that one unit changes a number by; cells: how many numbers it changes,
       at most. rho = cells change**2 / (2 variance): Canonne, Kamath and Steinke 2020, theorems 4
       and 14.
    """

    variance: Fraction
    change: int = 1
    cells: int = 1
    LIMITS = {"variance": rational, "change": integer(1), "cells": integer(1)}

    @cached_property
    def rho(self) -> float:
        return round_up(Fraction(self.cells * self.change**2) / (2 * self.variance))

    def group(self, size: int) -> Concentrated:
        """Bun and Steinke 2016, proposition 1.9: which cells a group changes is not known.

        Parameters
        ----------
        size : int
            TODO.

        Returns
        -------
        Concentrated
            TODO.
        """
        exact = Fraction(_size(size) ** 2 * self.cells * self.change**2) / (2 * self.variance)
        return Concentrated(round_up(exact), relation=self.relation)


@dataclass(frozen=True)
class Flips(Loss):
    """Bits, each flipped with this probability below one half; one unit changes so many of them.

    Parameters
    ----------
    probability : Fraction
        TODO.
    cells : int, default=1
        TODO.
    relation : str, default="add/remove"
        TODO.
    """

    probability: Fraction
    cells: int = 1
    LIMITS = {"probability": rational, "cells": integer(1)}

    @cached_property
    def epsilon(self) -> float:
        """TODO."""
        return self.cells * self.each * UP

    @cached_property
    def rho(self) -> float:
        return min(self.epsilon, self.cells * pure_rho(self.each) * UP)

    @cached_property
    def each(self) -> float:
        """The epsilon of one bit: the log of (1 - p) / p, by log1p where that is near 1."""
        ratio = (1 - self.probability) / self.probability
        if ratio < 3:
            return math.log1p(round_up(ratio - 1)) * UP
        return (math.log(ratio.numerator) - math.log(ratio.denominator)) * (1 + 1e-11)

    def group(self, size: int) -> Self:
        return type(self)(self.probability, _size(size) * self.cells, relation=self.relation)

    def _sizes(self) -> tuple[float, ...]:
        if self.probability >= Fraction(1, 2):
            raise ValueError(
                f"Flips: probability must be below 1/2, or nothing is told; not {self.probability}."
            )
        return float(self.probability), self.epsilon


@dataclass(frozen=True)
class Sampled(Loss):
    """Another loss on a Poisson sample: each unit takes part with this chance, told to nobody.

    Parameters
    ----------
    rate : float
        TODO.
    of : Loss
        TODO.
    relation : str, default="add/remove"
        TODO.

    References
    ----------
    .. [1] Amplified where the relation is "add/remove" (Li, Qardaji and Su 2012, theorem 1).
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
        """TODO."""
        return self.amplified(self.of.epsilon)

    def amplified(self, epsilon: float) -> float:
        """What an epsilon without sampling becomes.

        Parameters
        ----------
        epsilon : float
            TODO.

        Returns
        -------
        float
            What an epsilon without sampling becomes.
        """
        return math.log1p(self.rate * math.expm1(epsilon)) * UP if epsilon < 700 else epsilon

    @property
    def rho(self) -> float:
        return min(self.of.rho, super().rho)

    def _sizes(self) -> tuple[float, ...]:
        return self.rate, *self.of._sizes()

    def group(self, size: int) -> Loss:
        """Without amplification, which does not carry over to groups unit by unit.

        Parameters
        ----------
        size : int
            TODO.

        Returns
        -------
        Loss
            TODO.
        """
        return self.of.group(size)


def as_loss(owner: str, loss: Any, relation: str) -> Loss:
    """A loss as it is, or a plain epsilon or (epsilon, delta) as one of this relation.

    Parameters
    ----------
    owner : str
        TODO.
    loss : object
        TODO.
    relation : str
        TODO.

    Returns
    -------
    Loss
        A loss as it is, or a plain epsilon or (epsilon, delta) as one of this relation.
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
    return integer(1).check("Loss", "size", size)


def _plain(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    return value.to_dict() if isinstance(value, Loss) else value
