"""Pan-privacy: counters whose very state is noisy, so that one look inside tells little.

Noise enters when a counter starts, before any data, and afresh with every output. One intruder may
copy the state once, at a time of their choice, and also see every output; the noise of the start is
never stored apart from the data, and can be seen only through their sum.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np

from sfumato.core.hashing import hash_column
from sfumato.core.integer_columns import count_column
from sfumato.core.validation import integer, rational
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.base import Mechanism
from sfumato.privacy.noise.discrete import LARGEST, ROOM, coins, discrete_laplace
from sfumato.privacy.random_source import Source, SystemSource
from sfumato.privacy.rounding import UP, round_up

__all__ = ["NoisyCount", "PanPrivateCounter", "PanPrivateDistinct", "PanPrivateTable"]


@dataclass(frozen=True)
class _PanPrivate(Mechanism):
    """Noise in the state and fresh noise on each output: what both counters declare.

    `run` shows all that can be seen where the look comes last: the outputs, then the state.
    """

    epsilon_state: Any
    epsilon_output: Any
    outputs: int = 1
    LIMITS = {
        "epsilon_state": rational,
        "epsilon_output": rational,
        "outputs": integer(1, 2**20),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        owner = type(self).__name__
        for name in ("epsilon_state", "epsilon_output"):
            if 1 / getattr(self, name) > LARGEST:
                given = getattr(self, name)
                raise ValueError(f"{owner}: {name} must be at least 2**-40, not {given}.")
        if self.relation != "add/remove":
            raise ValueError(f"{owner}: relation must be 'add/remove', not {self.relation!r}.")

    @property
    def sensitivity(self) -> int:
        """What one unit changes an output by, at most."""
        return 1

    @property
    def covers(self) -> str:
        """What the promise is about."""
        return f"one look at the state, at any time, and {self.outputs} output(s)"

    def run(self, value: Any, *, source: Source | None = None) -> np.ndarray:
        return np.asarray(self.sample(value, 1, source=source)[0])

    def _told(self, trials: int, source: Source) -> np.ndarray:
        """Fresh noise of all outputs."""
        shape = (trials, self.outputs)
        return np.asarray(discrete_laplace(1 / self.epsilon_output, shape, source=source))


@dataclass(frozen=True)
class PanPrivateCounter(_PanPrivate):
    """How many events there were, from a state that may be stolen once.

    Parameters
    ----------
    epsilon_state : object
        Above 0, taken exactly.
    epsilon_output : object
        Above 0, taken exactly.
    outputs : int, default=1
        How many will be asked for, at most.
    relation : str, default="add/remove"
        TODO.

    Notes
    -----
    **Guarantee.** For one event of weight 1, an intruder's one look at the state costs
    epsilon_state alone, the outputs cost `outputs` times epsilon_output alone, and all of it
    together, in any order, costs the sum, which `loss()` states: an event before the look is hidden
    by the noise of the start, moved by one; the outputs before the event then move by one each. A
    second look is not covered.

    References
    ----------
    .. [1] Dwork, Naor, Pitassi, Rothblum and Yekhanin 2010: noise before the data, and after.

    Examples
    --------
    >>> visits = PanPrivateCounter(epsilon_state=1, epsilon_output=1).start()
    >>> isinstance(visits.update([3, 0, 5]).output(), int)
    True
    """

    domain = "two columns of counts: before the outputs, and between them and the look"

    def start(self, *, source: Source | None = None) -> "NoisyCount":
        """A counter of no events whose state is noise.

        Parameters
        ----------
        source : Source or None, default=None
            TODO.

        Returns
        -------
        NoisyCount
            A counter of no events whose state is noise.
        """
        noise = discrete_laplace(1 / self.epsilon_state, source=source)
        return NoisyCount(self, noise)

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        before, after = (_total(counts) for counts in _two("PanPrivateCounter", value))
        trials, source = self._trials(trials), source or SystemSource()
        start = discrete_laplace(1 / self.epsilon_state, (trials, 1), source=source)
        told = start + before + self._told(trials, source)
        return np.concatenate((told, start + before + after), axis=1)

    def _loss(self) -> Pure:
        whole_cost = self.epsilon_state + self.outputs * self.epsilon_output
        return Pure(round_up(whole_cost), relation=self.relation)

    def _sentence(self) -> str:
        state, output = (float(1 / each) for each in (self.epsilon_state, self.epsilon_output))
        return (
            f"pan-private counter: discrete Laplace noise of scale {state:.6g} in the state and of "
            f"scale {output:.6g} on {self.outputs} output(s)"
        )


class NoisyCount:
    """A pan-private counter under way. `state` is all it knows of the data."""

    def __init__(self, mechanism: PanPrivateCounter, state: int) -> None:
        self.mechanism, self.state, self.made, self.ended = mechanism, state, 0, False

    def update(self, counts: Any) -> Self:
        """Add events: how many there were, one number or a column of one for each step.

        Each is from 0 to 2**31 - 1; so ``update(20)`` counts twenty events, as ``update([20])``.
        """
        self._check_under_way()
        self.state = _fits(self.state + _total(counts))
        return self

    def output(self, *, source: Source | None = None) -> int:
        """The number of events so far, noisy; unbiased."""
        self._check_under_way()
        _one_more(self)
        told = self.state + int(discrete_laplace(1 / self.mechanism.epsilon_output, source=source))
        self.made += 1
        return told

    def merge(self, other: "NoisyCount") -> Self:
        """Count both streams. An event is in one of them, so the noise of its start hides it.

        The other counter ends here, so that no event is told by both from now on.
        """
        if self.mechanism != other.mechanism or self is other:
            raise ValueError("PanPrivateCounter: cannot merge, it is itself or its fields differ.")
        self._check_under_way()
        other._check_under_way()
        self.state = _fits(self.state + other.state)
        # An event was told by one of the two so far, so the larger number counts.
        self.made = max(self.made, other.made)
        other.state, other.made, other.ended = 0, other.mechanism.outputs, True
        return self

    def _check_under_way(self) -> None:
        """A counter that was merged has no noise left to hide an event."""
        if self.ended:
            raise ValueError("PanPrivateCounter: it was merged and counts no more; start another.")


@dataclass(frozen=True)
class PanPrivateDistinct(_PanPrivate):
    """How many different users there were, from a table that may be stolen once.

    Parameters
    ----------
    epsilon_state : object
        Above 0.
    epsilon_output : object
        Above 0.
    outputs : int, default=1
        How many at most.
    cells : int, default=1024
        Best near the number of users.
    seed : int, default=0
        Of the hash.
    relation : str, default="add/remove"
        TODO.

    Notes
    -----
    **Guarantee.** Hides all events of one user (add/remove). Each user has one cell of bits that
    start as fair coins; the cell is drawn anew, 1 with chance q > 1/2, whenever its user is seen. A
    look sees one bit of the user: log-ratio at most log(1 / (2 (1 - q))) <= epsilon_state. An
    output is the number of ones with discrete Laplace noise, which the user changes by at most 1.
    Together they cost the sum. The hash seed need not be secret: one user, one cell, under every
    seed.

    References
    ----------
    .. [1] Dwork, Naor, Pitassi, Rothblum and Yekhanin 2010, the density estimator, here with exact
       chances, a hash in place of a sampled universe, and linear counting.

    Examples
    --------
    >>> seen = PanPrivateDistinct(2, 1, cells=1024, seed=1).start()
    >>> 0 <= seen.update(["ann", "bob", "ann"]).output()
    True
    """

    cells: int = 1024
    seed: int = 0
    domain = "two columns of users: before the outputs, and between them and the look"
    LIMITS = {**_PanPrivate.LIMITS, "cells": integer(1, 2**32), "seed": integer(0, 2**64 - 1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.chance <= Fraction(1, 2):
            raise ValueError(
                "PanPrivateDistinct: epsilon_state must be at least 2**-36, "
                f"not {self.epsilon_state}."
            )

    @cached_property
    def chance(self) -> Fraction:
        """q, rounded toward 1/2 so that the state costs no more than it should."""
        q = 1 - math.exp(-float(self.epsilon_state)) / 2
        return Fraction(math.floor(q * 2**40) - 1, 2**40)

    def _protected_unit(self, how: dict[str, Any]) -> str:
        return "user"

    def start(self, *, source: Source | None = None) -> "PanPrivateTable":
        """A table of fair coins.

        Parameters
        ----------
        source : Source or None, default=None
            TODO.

        Returns
        -------
        PanPrivateTable
            A table of fair coins.
        """
        return PanPrivateTable(self, coins(Fraction(1, 2), self.cells, source=source))

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        trials, source = self._trials(trials), source or SystemSource()
        before, after = (self._hit(users) for users in _two("PanPrivateDistinct", value))
        bits = coins(Fraction(1, 2), trials * self.cells, source=source).reshape(trials, -1)
        self._mark(bits, before, source)
        told = bits.sum(axis=1, keepdims=True) + self._told(trials, source)
        self._mark(bits, after, source)
        return np.concatenate((told, bits.astype(np.int64)), axis=1)

    def _mark(self, bits: np.ndarray, hit: np.ndarray, source: Source | None) -> None:
        """Draw these cells of all tables anew."""
        bits[..., hit] = coins(self.chance, bits[..., hit].size, source=source).reshape(
            bits[..., hit].shape
        )

    def estimate(self, ones: Any) -> Any:
        """The number of users behind a noisy number of ones, from 0 up: no cell is counted twice.

        A share f of cells was hit if ones / cells = 1/2 + f (q - 1/2); n users hit about cells (1 -
        exp(-n / cells)).

        Parameters
        ----------
        ones : object
            TODO.

        Returns
        -------
        object
            The number of users behind a noisy number of ones, from 0 up: no cell is counted twice.
        """
        hit = (np.asarray(ones) / self.cells - 0.5) / (float(self.chance) - 0.5)
        share = np.clip(hit, 0, 1 - 0.5 / self.cells)
        return -self.cells * np.log1p(-share)

    def _hit(self, users: Any) -> np.ndarray:
        hashes = hash_column(users, self.seed, name="PanPrivateDistinct: users") >> np.uint64(32)
        return np.unique(hashes * np.uint64(self.cells) >> np.uint64(32)).astype(np.int64)

    def _loss(self) -> Pure:
        state = -math.log(2 * float(1 - self.chance)) * UP
        whole_cost = Fraction(state) + self.outputs * self.epsilon_output
        return Pure(round_up(whole_cost), relation=self.relation)

    def _sentence(self) -> str:
        return (
            f"pan-private table of {self.cells} coins, drawn with chance {float(self.chance):.6g} "
            f"where a user was seen; {self.outputs} output(s), noise of scale "
            f"{float(1 / self.epsilon_output):.6g}"
        )


class PanPrivateTable:
    """A pan-private table under way. It cannot merge: two noisy bits do not make one of either."""

    def __init__(self, mechanism: PanPrivateDistinct, bits: np.ndarray) -> None:
        self.mechanism, self.bits, self.made = mechanism, bits, 0

    def update(self, users: Any, *, source: Source | None = None) -> Self:
        """Mark the cells of these users."""
        self.mechanism._mark(self.bits, self.mechanism._hit(users), source)
        return self

    def output(self, *, source: Source | None = None) -> float:
        """The number of different users so far, noisy."""
        _one_more(self)
        noise = int(discrete_laplace(1 / self.mechanism.epsilon_output, source=source))
        self.made += 1
        return float(self.mechanism.estimate(int(self.bits.sum()) + noise))


def _one_more(counter: "NoisyCount | PanPrivateTable") -> None:
    if counter.made >= counter.mechanism.outputs:
        owner, most = type(counter.mechanism).__name__, counter.mechanism.outputs
        raise ValueError(f"{owner}: outputs must be at most {most}, and all were made.")


def _two(owner: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{owner}: value must be two columns, before and after the outputs.")
    return value[0], value[1]


def _total(counts: Any) -> int:
    if isinstance(counts, int | np.integer) and not isinstance(counts, bool):
        counts = [counts]
    return int(count_column("PanPrivateCounter", "counts", counts).sum())


def _fits(state: int) -> int:
    """The state, which ends at 2**62 - 1 in size; to clip moves no two states further apart."""
    return min(max(state, 1 - ROOM), ROOM - 1)
