"""Pan-privacy: counters whose internal state is noisy, so that one intrusion discloses little.

Noise enters when a counter starts, before any data, and afresh with every output. One intruder may
copy the state once, at a time of their choice, and also observe every output; the initial noise is
never stored apart from the data, only their sum is.
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
    """Noise in the state and fresh noise on each output: what both counters declare."""

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
        """Largest change of an output by one unit."""
        return 1

    @property
    def covers(self) -> str:
        """What an attacker may observe under the guarantee, as in the statement."""
        return f"one look at the state, at any time, and {self.outputs} output(s)"

    def run(self, value: Any, *, source: Source | None = None) -> np.ndarray:
        """Return everything an intruder observes who looks last, without charging a ledger.

        Parameters
        ----------
        value : object
            Two columns: the data before the outputs, and those between the outputs and the look.
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        ndarray
            The outputs, then the state.
        """
        return np.asarray(self.sample(value, 1, source=source)[0])

    def _output_noise(self, trials: int, source: Source) -> np.ndarray:
        """Draw fresh noise for all outputs."""
        shape = (trials, self.outputs)
        return np.asarray(discrete_laplace(1 / self.epsilon_output, shape, source=source))


@dataclass(frozen=True)
class PanPrivateCounter(_PanPrivate):
    """Pan-private counter of events: the internal state is noisy and may be stolen once.

    Parameters
    ----------
    epsilon_state : object
        Epsilon of one look at the state, above 0, taken exactly.
    epsilon_output : object
        Epsilon of each output, above 0, taken exactly.
    outputs : int, default=1
        Largest number of outputs, from 1 to 2**20.
    relation : str, default="add/remove"
        Must be "add/remove".

    Notes
    -----
    **Guarantee.** For one event of weight 1 under add/remove, an intruder's one look at the state
    is epsilon_state-differentially private, and the outputs together are private at `outputs` times
    epsilon_output. All of it together, in any order, has the sum, which `loss()` states: an event
    before the look is protected by the initial noise, shifted by one; the outputs before the event
    then shift by one each. A second look is not covered.

    References
    ----------
    .. [1] Dwork, Naor, Pitassi, Rothblum, Yekhanin. "Pan-Private Streaming Algorithms". ICS 2010
       (noise before the data, and after).

    Examples
    --------
    >>> visits = PanPrivateCounter(epsilon_state=1, epsilon_output=1).start()
    >>> isinstance(visits.update([3, 0, 5]).output(), int)
    True
    """

    domain = "two columns of counts: before the outputs, and between them and the look"

    def start(self, *, source: Source | None = None) -> "NoisyCount":
        """Start a counter of no events whose state is noise.

        Parameters
        ----------
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        NoisyCount
            Counter with `update`, `output` and `merge`.
        """
        noise = discrete_laplace(1 / self.epsilon_state, source=source)
        return NoisyCount(self, noise)

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        before, after = (_total(counts) for counts in _two("PanPrivateCounter", value))
        trials, source = self._trials(trials), source or SystemSource()
        start = discrete_laplace(1 / self.epsilon_state, (trials, 1), source=source)
        outputs = start + before + self._output_noise(trials, source)
        return np.concatenate((outputs, start + before + after), axis=1)

    def _loss(self) -> Pure:
        total = self.epsilon_state + self.outputs * self.epsilon_output
        return Pure(round_up(total), relation=self.relation)

    def _sentence(self) -> str:
        state, output = (float(1 / each) for each in (self.epsilon_state, self.epsilon_output))
        return (
            f"pan-private counter: discrete Laplace noise of scale {state:.6g} in the state and of "
            f"scale {output:.6g} on {self.outputs} output(s)"
        )


class NoisyCount:
    """Running pan-private counter; `state` is all that it stores of the data."""

    def __init__(self, mechanism: PanPrivateCounter, state: int) -> None:
        self.mechanism: PanPrivateCounter
        self.ended: bool
        self.mechanism, self.state, self.made, self.ended = mechanism, state, 0, False

    def update(self, counts: Any) -> Self:
        """Add events: one count, or a column of one count per step.

        Each is from 0 to 2**31 - 1; so ``update(20)`` counts twenty events, as ``update([20])``.
        """
        self._check_under_way()
        self.state = _fits(self.state + _total(counts))
        return self

    def output(self, *, source: Source | None = None) -> int:
        """Return an unbiased noisy number of events so far."""
        self._check_under_way()
        _one_more(self)
        noisy = self.state + int(discrete_laplace(1 / self.mechanism.epsilon_output, source=source))
        self.made += 1
        return noisy

    def merge(self, other: "NoisyCount") -> Self:
        """Count both streams. An event is in one of them, so its initial noise protects it.

        The other counter ends here, so that no event is in the outputs of both from now on.
        """
        if self.mechanism != other.mechanism or self is other:
            raise ValueError("PanPrivateCounter: cannot merge, it is itself or its fields differ.")
        self._check_under_way()
        other._check_under_way()
        self.state = _fits(self.state + other.state)
        # An event is in the outputs of one of the two so far, so the larger number counts.
        self.made = max(self.made, other.made)
        other.state, other.made, other.ended = 0, other.mechanism.outputs, True
        return self

    def _check_under_way(self) -> None:
        """Raise where the counter was merged: it has no noise left to protect an event."""
        if self.ended:
            raise ValueError("PanPrivateCounter: it was merged and counts no more; start another.")


@dataclass(frozen=True)
class PanPrivateDistinct(_PanPrivate):
    """Pan-private count of distinct users: the table of bits is noisy and may be stolen once.

    Parameters
    ----------
    epsilon_state : object
        Epsilon of one look at the table, at least 2**-36.
    epsilon_output : object
        Epsilon of each output, above 0.
    outputs : int, default=1
        Largest number of outputs, from 1 to 2**20.
    cells : int, default=1024
        Number of bits in the table, from 1 to 2**32; best near the number of users.
    seed : int, default=0
        Seed of the hash function; it need not be secret.
    relation : str, default="add/remove"
        Must be "add/remove".

    Notes
    -----
    **Guarantee.** Differentially private for one user with all their events, under add/remove. Each
    user has one cell of a table of bits that start as fair coins; the cell is drawn anew, 1 with
    probability q > 1/2, at every event of its user. A look at the table shows one bit of the user:
    log-ratio at most log(1 / (2 (1 - q))) <= epsilon_state. An output is the number of ones with
    discrete Laplace noise, which the user changes by at most 1. Together they cost the sum. One
    user has one cell under every seed.

    References
    ----------
    .. [1] Dwork, Naor, Pitassi, Rothblum, Yekhanin. "Pan-Private Streaming Algorithms". ICS 2010
       (the density estimator), here with exact probabilities, a hash in place of a sampled
       universe, and linear counting.

    Examples
    --------
    >>> visitors = PanPrivateDistinct(2, 1, cells=1024, seed=1).start()
    >>> 0 <= visitors.update(["ann", "bob", "ann"]).output()
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
        """Probability q of a 1 in a redrawn cell, rounded toward 1/2 (less epsilon)."""
        q = 1 - math.exp(-float(self.epsilon_state)) / 2
        return Fraction(math.floor(q * 2**40) - 1, 2**40)

    def _protected_unit(self, how: dict[str, Any]) -> str:
        return "user"

    def start(self, *, source: Source | None = None) -> "PanPrivateTable":
        """Start a table of fair coins.

        Parameters
        ----------
        source : Source or None, default=None
            Source of random bits, for tests only; None draws them from the operating system.

        Returns
        -------
        PanPrivateTable
            Table with `update` and `output`.
        """
        return PanPrivateTable(self, coins(Fraction(1, 2), self.cells, source=source))

    def sample(self, value: Any, trials: int, *, source: Source | None = None) -> np.ndarray:
        trials, source = self._trials(trials), source or SystemSource()
        before, after = (self._hit(users) for users in _two("PanPrivateDistinct", value))
        bits = coins(Fraction(1, 2), trials * self.cells, source=source).reshape(trials, -1)
        self._mark(bits, before, source)
        outputs = bits.sum(axis=1, keepdims=True) + self._output_noise(trials, source)
        self._mark(bits, after, source)
        return np.concatenate((outputs, bits.astype(np.int64)), axis=1)

    def _mark(self, bits: np.ndarray, hit: np.ndarray, source: Source | None) -> None:
        """Redraw these cells of all tables."""
        bits[..., hit] = coins(self.chance, bits[..., hit].size, source=source).reshape(
            bits[..., hit].shape
        )

    def estimate(self, ones: Any) -> Any:
        """Estimate the number of distinct users from a noisy number of ones.

        A fraction f of cells was hit if ones / cells = 1/2 + f (q - 1/2); n users hit about cells
        (1 - exp(-n / cells)) of them (linear counting).

        Parameters
        ----------
        ones : object
            Noisy number of ones, or an array of them.

        Returns
        -------
        object
            Estimated number of users, at least 0: a float or an ndarray.
        """
        hit = (np.asarray(ones) / self.cells - 0.5) / (float(self.chance) - 0.5)
        fraction = np.clip(hit, 0, 1 - 0.5 / self.cells)
        return -self.cells * np.log1p(-fraction)

    def _hit(self, users: Any) -> np.ndarray:
        """Return the distinct cells of these users."""
        hashes = hash_column(users, self.seed, name="PanPrivateDistinct: users") >> np.uint64(32)
        return np.unique(hashes * np.uint64(self.cells) >> np.uint64(32)).astype(np.int64)

    def _loss(self) -> Pure:
        state = -math.log(2 * float(1 - self.chance)) * UP
        total = Fraction(state) + self.outputs * self.epsilon_output
        return Pure(round_up(total), relation=self.relation)

    def _sentence(self) -> str:
        return (
            f"pan-private table of {self.cells} coins, drawn with chance {float(self.chance):.6g} "
            f"where a user was seen; {self.outputs} output(s), noise of scale "
            f"{float(1 / self.epsilon_output):.6g}"
        )


class PanPrivateTable:
    """Running pan-private table; it cannot merge: two noisy bits do not make one of either."""

    def __init__(self, mechanism: PanPrivateDistinct, bits: np.ndarray) -> None:
        self.mechanism: PanPrivateDistinct
        self.bits: np.ndarray
        self.mechanism, self.bits, self.made = mechanism, bits, 0

    def update(self, users: Any, *, source: Source | None = None) -> Self:
        """Redraw the cells of these users."""
        self.mechanism._mark(self.bits, self.mechanism._hit(users), source)
        return self

    def output(self, *, source: Source | None = None) -> float:
        """Return a noisy estimate of the number of distinct users so far."""
        _one_more(self)
        noise = int(discrete_laplace(1 / self.mechanism.epsilon_output, source=source))
        self.made += 1
        return float(self.mechanism.estimate(int(self.bits.sum()) + noise))


def _one_more(counter: "NoisyCount | PanPrivateTable") -> None:
    """Raise where all outputs were made."""
    if counter.made >= counter.mechanism.outputs:
        owner, most = type(counter.mechanism).__name__, counter.mechanism.outputs
        raise ValueError(f"{owner}: outputs must be at most {most}, and all were made.")


def _two(owner: str, value: Any) -> tuple[Any, Any]:
    """Check that a value is a pair of columns."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"{owner}: value must be two columns, before and after the outputs.")
    return value[0], value[1]


def _total(counts: Any) -> int:
    """Sum counts, given as one number or a column."""
    if isinstance(counts, int | np.integer) and not isinstance(counts, bool):
        counts = [counts]
    return int(count_column("PanPrivateCounter", "counts", counts).sum())


def _fits(state: int) -> int:
    """Clip a state to below 2**62 in size; clipping moves no two states further apart."""
    return min(max(state, 1 - ROOM), ROOM - 1)
