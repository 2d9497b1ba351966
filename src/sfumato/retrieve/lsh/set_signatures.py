"""Sets as the minima of their keys: a matrix of signatures from any column of sets."""

from typing import Any

import numpy as np

from sfumato.sketch.similarity.min_hash import MinHash

__all__ = ["is_set", "signatures"]

ROWS = (set, frozenset, list, tuple, np.ndarray)


def is_set(value: Any) -> bool:
    """True for one set of keys.

    >>> is_set({"tea"}), is_set([{"tea"}])
    (True, False)
    """
    return isinstance(value, set | frozenset)


def signatures(owner: str, sets: Any, columns: int, seed: int) -> np.ndarray:
    """Signatures, uint32 (n, columns), of a column of sets, (keys, offsets), or signatures.

    >>> made = signatures("Index", [{1, 2}, [2, 1, 1]], 4, seed=0)
    >>> bool((made[0] == made[1]).all()), signatures("Index", made, 4, seed=0) is made
    (True, True)
    """
    if isinstance(sets, np.ndarray) and sets.ndim == 2:
        if sets.dtype != np.uint32 or sets.shape[1] != columns:
            raise ValueError(
                f"{owner}: signatures must be uint32 with {columns} columns (bands times rows), "
                f"not {sets.dtype} of shape {sets.shape}."
            )
        return np.ascontiguousarray(sets)
    keys, offsets = _parts(owner, sets)
    return MinHash(columns, seed=seed).signatures(keys, offsets)


def _parts(owner: str, sets: Any) -> tuple[Any, Any]:
    """Keys and offsets, which are None where the keys are a column of lists."""
    if isinstance(sets, tuple) and not any(is_set(each) for each in sets):
        if len(sets) != 2:
            raise ValueError(f"{owner}: a tuple of sets must be (keys, offsets); give a list.")
        return sets
    if isinstance(sets, list | tuple):
        for row, each in enumerate(sets):
            if not isinstance(each, ROWS):
                raise TypeError(
                    f"{owner}: row {row} must be a set or a list of keys, not "
                    f"{type(each).__name__}."
                )
        return [list(each) if is_set(each) else each for each in sets], None
    if is_set(sets):
        raise TypeError(f"{owner}: one set is no column of sets; give a list of sets.")
    return sets, None
