"""What a model of factors gives to gradient descent: its tables, and steps over columns."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from sfumato.data.interactions import Interactions
from sfumato.recommend.factorization.base import Factorization
from sfumato.recommend.factorization.damping import BiasPrior
from sfumato.recommend.factorization.passes import Regions

__all__ = ["DescentTables"]


class DescentTables(Factorization, in_files=False):
    """Base of models by gradient descent: what each kind of tables must define.

    Columns of users and items are codes that the kernels of the model read, from `_columns`.
    """

    def _begin(self, plain: dict[str, Any], train: Interactions, random: Generator) -> None:
        """Create the tables for the training data."""
        raise NotImplementedError

    def _begin_stream(self, plain: dict[str, Any], batch: Interactions, random: Generator) -> None:
        """Create the tables for a first batch."""
        self._begin(plain, batch, random)

    def _make_room(
        self, plain: dict[str, Any], batch: Interactions
    ) -> tuple[np.ndarray, np.ndarray]:
        """Extend the tables by new ids, where the model needs that; return `_columns`."""
        return self._columns(batch)

    def _columns(self, data: Interactions) -> tuple[np.ndarray, np.ndarray]:
        """Return users and items as the codes that the kernels read."""
        raise NotImplementedError

    def _tables(self) -> list[np.ndarray]:
        """Return the tables of parameters."""
        raise NotImplementedError

    def _all(self) -> Regions:
        """Return all tables as regions."""
        return [(table, None) for table in self._tables()]

    def _regions(self, users: np.ndarray, items: np.ndarray) -> Regions:
        """Return the regions that a pass over these columns may change."""
        raise NotImplementedError

    def _log(self, rows: int) -> np.ndarray | None:
        """Return an array for the log of a pass over so many rows; None where regions are less."""
        raise NotImplementedError

    def _restore(self, users: np.ndarray, items: np.ndarray, log: np.ndarray) -> None:
        """Write the values of a log back."""
        raise NotImplementedError

    def _own_tables(self) -> None:
        """Copy the tables, which a twin shares with its model."""
        raise NotImplementedError

    def _changes(self, batch: Interactions, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return what a pass changed, for `_changed_positions`; columns as the kernels read."""
        raise NotImplementedError

    def _most_changes(self) -> int:
        """Return how many changes to take over: more cost as much as computing all vectors."""
        raise NotImplementedError

    def _step(
        self, plain: dict[str, Any], rate: float, clip: float, log: np.ndarray
    ) -> Callable[..., float | None]:
        """Return a function that runs gradient steps over columns of users, items and targets.

        It returns a number that is finite if all numbers it wrote are, or None if it does not know.
        """
        raise NotImplementedError

    def _ranking_step(self, plain: dict[str, Any], rate: float, seed: int) -> Callable[..., Any]:
        """Return a function that runs ranking steps over users, items and numbers of rows."""
        raise NotImplementedError

    def _codes(self, items: np.ndarray) -> np.ndarray:
        """Return items as the codes that kernels read, below 0 where there is none."""
        raise NotImplementedError

    def _remember(self, users: np.ndarray) -> None:
        """Take note of users, given as codes, that a ranking has learned from."""

    def _damper(self, train: Interactions, prior: BiasPrior) -> Callable[[float], Any]:
        """Return a function that shrinks all biases by one step of this learning rate."""
        raise NotImplementedError

    def _add_noise(self, deviation: float, random: Generator) -> None:
        """Add Gaussian noise of this standard deviation to all parameters."""
        raise NotImplementedError
