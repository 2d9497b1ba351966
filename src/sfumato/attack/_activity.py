"""Quarters of the users by how much they rated: how well each is predicted, and how it leaks."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.attack._divergence import LEAST, KLDivergence, kl_divergence
from sfumato.attack._rows import Sides

__all__ = ["Quarter", "quarters"]


@dataclass(frozen=True)
class Quarter:
    """A quarter of the users: those with at least `least` ratings and fewer than the next one's.

    train, test: rows looked at; divergence and root mean squared errors: None of too few rows.
    """

    least: int
    train: int
    test: int
    train_rmse: float | None
    test_rmse: float | None
    divergence: KLDivergence | None

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values."""
        found = None if self.divergence is None else self.divergence.to_dict()
        return {**vars(self), "divergence": found}


def quarters(sides: Sides) -> tuple[Quarter, ...]:
    """All four, the quietest users first."""
    return tuple(_quarter(sides, at) for at in range(4))


def _quarter(sides: Sides, at: int) -> Quarter:
    errors = [side.errors[side.quarter == at] for side in sides[:2]]
    least = (1, *sides.quarters)[at]
    rows = [side.size for side in errors]
    if min(rows) < LEAST:
        return Quarter(least, rows[0], rows[1], None, None, None)
    rmse = [float(np.sqrt((side**2).mean())) for side in errors]
    return Quarter(least, rows[0], rows[1], rmse[0], rmse[1], kl_divergence(*errors))
