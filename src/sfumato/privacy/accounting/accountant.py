"""The accountant: the total privacy cost of many uses of the same data, rounded up."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any, Self

from sfumato.core.tables import described
from sfumato.core.validation import between, integer, one_of
from sfumato.privacy.accounting import composition
from sfumato.privacy.accounting.losses import RELATIONS, Loss, as_loss

__all__ = ["Accountant"]

DELTA = between(0, 1)
EPSILON = between(0, math.inf)
BRANCHES = 64


class Accountant:
    """Composition of privacy losses under one adjacency relation.

    Parameters
    ----------
    method : str, default="pld"
        "pld" (privacy loss distributions, the tightest; where a loss is known by its rho alone, as
        "rdp"), "rdp" (Renyi differential privacy) or "zcdp" (zero-concentrated).
    relation : str, default="add/remove"
        Adjacency: "add/remove" or "replace". Losses under another relation are refused.

    Notes
    -----
    **Guarantee.** Everything composed is (epsilon(delta), delta)-differentially private. Each query
    may depend on all earlier answers, but the losses must be fixed beforehand (losses chosen by
    earlier answers are covered at delta 0 only). Pure losses stay pure: epsilon(0) is their exact
    sum, rounded up, and no epsilon(delta) is above it. A tighter method is never above a simpler
    one. No result decreases when a loss is added: the grid of distributions changes with the
    losses, so a finer one may be lower by a part in ten thousand, and then the earlier result is
    returned.

    References
    ----------
    .. [1] Zhu, Dong, Wang. "Optimal Accounting of Differential Privacy via Characteristic
       Function". AISTATS 2022, Theorem 10 (dominating pairs compose).
       https://arxiv.org/abs/2106.08567
    .. [2] Mironov. "Rényi Differential Privacy". CSF 2017, Proposition 1 (composition).
       https://arxiv.org/abs/1702.07476
    .. [3] Bun, Steinke. "Concentrated Differential Privacy: Simplifications, Extensions, and Lower
       Bounds". TCC 2016, Lemma 2.3 (composition). https://arxiv.org/abs/1605.02065

    Examples
    --------
    >>> two = Accountant().compose(0.5).compose(0.25, count=2)
    >>> two.epsilon()
    1.0
    >>> two.epsilon(delta=0.1) < 0.8
    True
    """

    def __init__(self, method: str = "pld", relation: str = "add/remove") -> None:
        self.method: str = one_of(composition.METHODS).check("Accountant", "method", method)
        self.relation: str = one_of(RELATIONS).check("Accountant", "relation", relation)
        self._branches: list[Counter[Loss]] = [Counter()]
        self._epsilons: list[tuple[float, float]] = []  # answers, which later ones stay above
        self._deltas: list[tuple[float, float]] = []

    def __repr__(self) -> str:
        composed = max(branch.total() for branch in self._branches)
        return described(self, method=self.method, relation=self.relation, losses=composed)

    def compose(self, loss: Any, count: int = 1) -> Self:
        """Add a loss, once or several times.

        Parameters
        ----------
        loss : object
            A `Loss`, an epsilon above 0, or a pair (epsilon, delta).
        count : int, default=1
            Number of uses with this loss, at least 1.

        Returns
        -------
        Self
            The accountant itself.
        """
        loss = self._own(as_loss("Accountant", loss, self.relation))
        count = integer(1).check("Accountant", "count", count)
        self._branches = [branch + Counter({loss: count}) for branch in self._branches]
        return self

    def parallel(self, parts: Iterable[Any]) -> Self:
        """Add uses of disjoint parts of the data, of which only the most expensive counts.

        Which part a unit belongs to must not depend on earlier answers.

        Parameters
        ----------
        parts : iterable
            One accountant or loss per part.

        Returns
        -------
        Self
            The accountant itself.

        Raises
        ------
        ValueError
            Under "replace": a replaced unit may move from one part to another, and then both
            change.
        """
        if self.relation != "add/remove":
            raise ValueError(
                "Accountant: parallel needs the relation 'add/remove'; under 'replace' a unit may "
                "move between parts and change two of them. Compose the losses instead."
            )
        inside = [branch for part in parts for branch in self._part(part)]
        if not inside:
            raise ValueError("Accountant: parts must contain at least one accountant or loss.")
        joined = _undominated([one + two for one in self._branches for two in inside])
        if len(joined) > BRANCHES:
            raise ValueError(
                f"Accountant: parts differ in more than {BRANCHES} ways; make the "
                "losses of the parts equal."
            )
        self._branches = joined
        return self

    def group(self, size: int) -> "Accountant":
        """Return an accountant of the same uses for data sets that differ by several units.

        Not after `parallel`: units of a group may lie in several parts, and cost in each.

        Parameters
        ----------
        size : int
            Number of units in which the data sets differ, at least 1.

        Returns
        -------
        Accountant
            New accountant with the group loss of every use.
        """
        other = type(self)(self.method, self.relation)
        size = integer(1).check("Accountant", "size", size)
        if size == 1:
            other._branches = [Counter(branch) for branch in self._branches]
            return other
        if len(self._branches) > 1:
            raise ValueError(
                "Accountant: group cannot follow parallel, as units of a group may lie in several "
                "parts; compose the losses of all parts, and group those."
            )
        other._branches = [
            sum((Counter({loss.group(size): n}) for loss, n in branch.items()), Counter())
            for branch in self._branches
        ]
        return other

    @property
    def rho(self) -> float:
        """Parameter rho of zero-concentrated DP, rounded up; infinite if a loss has none."""
        return max(composition.rho_sum(branch) for branch in self._branches)

    def epsilon(self, delta: float = 0) -> float:
        """Return the smallest known epsilon at a given delta.

        Parameters
        ----------
        delta : float, default=0
            From 0 to below 1.

        Returns
        -------
        float
            Epsilon, rounded up; infinite where none is known.
        """
        delta = DELTA.check("Accountant", "delta", delta)
        found = max(composition.epsilon_at(each, delta, self.method) for each in self._branches)
        return _envelope(self._epsilons, delta, found)

    def delta(self, epsilon: float) -> float:
        """Return the smallest known delta at a given epsilon.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Returns
        -------
        float
            Delta from 0 to 1, rounded up.
        """
        epsilon = EPSILON.check("Accountant", "epsilon", epsilon)
        found = max(composition.delta_at(each, epsilon, self.method) for each in self._branches)
        return _envelope(self._deltas, epsilon, found)

    def _own(self, loss: Loss) -> Loss:
        if loss.relation != self.relation:
            raise ValueError(
                f"Accountant: a loss under {loss.relation!r} cannot join losses under "
                f"{self.relation!r}; state it under that relation."
            )
        return loss

    def _part(self, part: Any) -> list[Counter[Loss]]:
        if not isinstance(part, Accountant):
            part = Accountant(relation=self.relation).compose(part)
        for branch in part._branches:
            for loss in branch:
                self._own(loss)
        return list(part._branches)


def _undominated(branches: list[Counter[Loss]]) -> list[Counter[Loss]]:
    """Drop the branches that are contained in another."""
    maximal: list[Counter[Loss]] = []
    for branch in sorted(branches, key=Counter.total, reverse=True):
        if not any(branch <= other for other in maximal):
            maximal.append(branch)
    return maximal


def _envelope(answers: list[tuple[float, float]], at: float, found: float) -> float:
    """Return the larger of this result and earlier ones at no smaller point; remember it."""
    best = max([found, *(answer for point, answer in answers if point >= at)])
    answers[:] = [each for each in answers if each[0] > at or each[1] > best]
    answers.append((at, best))
    return best
