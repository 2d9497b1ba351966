"""Ratings of each user as rows of a sparse matrix over the catalogue."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.data.interactions import Interactions
from sfumato.recommend.catalogue import Catalogue, SortedCatalogue
from sfumato.recommend.ranking import taken

__all__ = ["RatedRows"]

COLUMNS = {"starts": np.int64, "positions": np.int32, "ratings": np.float32}


@dataclass(frozen=True)
class RatedRows:
    """Rated items of each user as positions in a catalogue, ascending and each once.

    The ratings of user row u are ``ratings[starts[u] : starts[u + 1]]``, of the items at the same
    `positions`; `times` are beside them, or None. Of several ratings of one pair the mean counts,
    at the latest time.
    """

    users: SortedCatalogue
    starts: np.ndarray
    positions: np.ndarray
    ratings: np.ndarray
    items: int
    times: np.ndarray | None = None

    @classmethod
    def of(cls, train: Interactions, catalogue: Catalogue) -> Self:
        """Group the rows of the catalogue's items by user; users without such rows have none."""
        coded = train.coded()
        at = catalogue.positions(coded.item_ids)[coded.item_codes]
        used = np.flatnonzero(at >= 0)
        pairs = coded.user_codes[used].astype(np.int64) * len(catalogue) + at[used]
        order = np.argsort(pairs, kind="stable")
        used, pairs = used[order], pairs[order]
        first = np.flatnonzero(np.diff(pairs, prepend=-1) != 0)
        ratings = train.ratings[used]
        times = None if train.times is None else np.asarray(train.times[used], np.float64)
        if first.size < pairs.size:
            counts = np.diff(first, append=pairs.size)
            ratings = np.add.reduceat(ratings, first) / counts
            times = None if times is None else np.maximum.reduceat(times, first)
        users, positions = np.divmod(pairs[first], len(catalogue))
        counts = np.bincount(users, minlength=coded.user_ids.size)
        return cls(
            SortedCatalogue(coded.user_ids),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            positions.astype(np.int32),
            ratings.astype(np.float32),
            len(catalogue),
            times,
        )

    def __len__(self) -> int:
        return int(self.positions.size)

    @cached_property
    def user_rows(self) -> np.ndarray:
        """Row of the user of each rating."""
        return np.repeat(np.arange(self.starts.size - 1, dtype=np.int32), np.diff(self.starts))

    def user_times(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return first, mean and last time of each user; 0 for a user without ratings."""
        assert self.times is not None
        counts = np.diff(self.starts)
        used, begins = counts > 0, self.starts[:-1][counts > 0]
        first, mean, last = np.zeros((3, counts.size))
        first[used] = np.minimum.reduceat(self.times, begins)
        # From the first time on, so that large times lose no digits.
        later = np.add.reduceat(self.times - first[self.user_rows], begins)
        mean[used] = first[used] + later / counts[used]
        last[used] = np.maximum.reduceat(self.times, begins)
        return first, mean, last

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return starts, positions and ratings of some users; row -1 is empty."""
        starts, positions, ratings = taken(rows, self.starts, self.positions, self.ratings)
        return starts, positions, ratings

    def filtered(self, chosen: np.ndarray) -> Self:
        """Return the ratings that a mask over all of them chooses, of the same users."""
        counts = np.bincount(self.user_rows[chosen], minlength=self.starts.size - 1)
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        times = None if self.times is None else self.times[chosen]
        columns = self.positions[chosen], self.ratings[chosen]
        return type(self)(self.users, starts, *columns, self.items, times)

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a file, without the ids of users."""
        return {name: getattr(self, name) for name in COLUMNS}

    @staticmethod
    def layout() -> dict[str, Cells]:
        """The arrays that a file must contain."""
        return {name: Cells(dtype, (-1,)) for name, dtype in COLUMNS.items()}

    @classmethod
    def from_arrays(cls, users: SortedCatalogue, arrays: dict[str, np.ndarray], items: int) -> Self:
        """Read the arrays of a file; ValueError where they contradict each other."""
        starts, at, ratings = (arrays[name] for name in COLUMNS)
        sound = (
            starts.size == len(users) + 1
            and starts[0] == 0
            and starts[-1] == at.size == ratings.size
            and (np.diff(starts) >= 0).all()
            and (at >= 0).all()
            and (at < items).all()
            and np.isfinite(ratings).all()
        )
        if not sound:
            raise ValueError("ratings must be rows of positions within the catalogue.")
        return cls(users, starts, at, ratings, items)
