"""One cell for a value of any dictionary in every cohort: RAPPOR's hashing with one hash."""

import numpy as np

from sfumato.telemetry._bloom import bloom_cells, in_all_cohorts
from sfumato.telemetry._values import Values

__all__ = ["hashed_members", "own_hashed_members"]


def hashed_members(values: Values, cohorts: int, cells: int) -> np.ndarray:
    """The cell of the value of every row in all cohorts: int32 (n, cohorts, 1)."""
    found: np.ndarray = _table(values, cohorts, cells)[values.codes]
    return found[:, :, np.newaxis]


def own_hashed_members(values: Values, own: np.ndarray, cohorts: int, cells: int) -> np.ndarray:
    """The cell of the value of every row in its own cohort: int32 (n, 1)."""
    if values.distinct * cohorts <= values.codes.size:  # fewer hashes than one a row
        found: np.ndarray = _table(values, cohorts, cells)[values.codes, own]
        return found[:, np.newaxis]
    return bloom_cells(values, values.codes, own, cells, 1)


def _table(values: Values, cohorts: int, cells: int) -> np.ndarray:
    """The cells of the distinct values in all cohorts."""
    found = bloom_cells(values, *in_all_cohorts(values, cohorts, 1), cells, 1)
    return found.reshape(values.distinct, cohorts)
