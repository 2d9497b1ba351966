"""Batches of whole users: each comes once, beside its public users."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from sfumato.hashing import hash_column
from sfumato.sketch._ids import is_one, texts

__all__ = ["SeenUsers", "in_step"]

MISSING = object()


class SeenUsers:
    """Users who had their release, by the hashes of their ids: 8 bytes each, in sorted runs.

    Guarantee: a user who comes again is refused; a new one is too if both hashes are equal, which
    has a chance below 2e-8 among a million users.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.runs: list[np.ndarray] = []  # each more than twice as long as the next

    def add(self, users: np.ndarray) -> None:
        """Remember these users; ValueError where one was there before."""
        new = np.sort(hash_column(texts(users), name="users"))
        for run in self.runs:
            at = np.minimum(np.searchsorted(run, new), run.size - 1)
            if (run[at] == new).any():
                raise ValueError(
                    f"{self.owner}: batches must hold whole users; one of this batch was in an "
                    "earlier one, and a second release of a profile would cost again."
                )
        while self.runs and self.runs[-1].size <= 2 * new.size:
            new = np.sort(np.concatenate([self.runs.pop(), new]))
        if new.size:
            self.runs.append(new)


def in_step(owner: str, batches: Iterable[Any], users: Any) -> Iterator[tuple[Any, Any]]:
    """Each batch with its public column of users.

    >>> list(in_step("Blip", ["rows"], [[7, 8]]))
    [('rows', [7, 8])]
    """
    asked = f"{owner}: users must be a column of users for each batch, in step"
    for at, (batch, who) in enumerate(zip_longest(batches, users, fillvalue=MISSING)):
        if batch is MISSING or who is MISSING or is_one(who):
            raise ValueError(f"{asked}.")
        if who is None:  # not taken as "those of the interactions", who may be fewer
            raise ValueError(f"{asked}; at position {at} there is None.")
        yield batch, who
