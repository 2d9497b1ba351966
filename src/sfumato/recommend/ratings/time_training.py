"""Training of SVD++ in time: drift of users, bins of items and days, and how times are coded."""

from typing import Any

import numpy as np

from sfumato.errors import ParameterError
from sfumato.kernels.alignment import aligned
from sfumato.kernels.recommend import sgd_svdpp
from sfumato.recommend.factorization.svdpp_training import SvdppTraining
from sfumato.recommend.ratings.rated_rows import RatedRows
from sfumato.recommend.ratings.temporal_means import BINS

__all__ = ["TimeTraining", "bins_of", "day_keys", "deviations"]

DAY = 86_400.0  # seconds
POWER = 0.4  # of a deviation in time: half a year counts about twice as much as a month


class TimeTraining(SvdppTraining):
    """Tables of SVD++ with drift, bins and days while they are trained."""

    def __init__(
        self, owner: str, plain: dict[str, Any], rated: RatedRows, mean: float, scale: float
    ) -> None:
        super().__init__(owner, plain, rated, mean, scale)
        assert rated.times is not None
        times, users = rated.times, rated.user_rows
        self.earliest: float
        self.latest: float
        self.earliest, self.latest = float(times.min()), float(times.max())
        self.bin_seconds: Any = plain["bin_days"] * DAY
        count = _bin_count(owner, self.earliest, self.latest, self.bin_seconds)
        self.user_times: np.ndarray = np.column_stack(rated.user_times())
        self.deviations: np.ndarray = deviations(times - self.user_times[users, 1]).astype(
            np.float32
        )
        bins = bins_of(times, self.earliest, self.bin_seconds, count)
        self.bins: Any = self.items.astype(np.int64) * count + bins
        keys = day_keys(users, times, self.earliest, self.latest)
        self.day_keys: np.ndarray
        self.days: np.ndarray
        self.day_keys, self.days = np.unique(keys, return_inverse=True)
        self.drift: np.ndarray = aligned(self.p.shape, np.float32)
        self.slope: np.ndarray = np.zeros(len(self.p), np.float32)
        self.bin_biases: np.ndarray = np.zeros((rated.items, count), np.float32)
        self.day_biases: np.ndarray = np.zeros(self.day_keys.size, np.float32)

    def step(self, *rows: Any) -> None:
        columns = self.deviations, self.bins, self.days
        *tables, bins, days = self.tables()
        sgd_svdpp.descend_in_time(*rows, *columns, *tables, bins.reshape(-1), days)

    def tables(self) -> tuple[np.ndarray, ...]:
        more = self.drift, self.slope, self.bin_biases, self.day_biases
        return *super().tables(), *more

    def penalties(self) -> list[float]:
        names = "drift_regularization", "bin_regularization", "day_regularization"
        return [*super().penalties(), *(self.plain[name] for name in names)]

    def learned(self) -> dict[str, Any]:
        """Return the attributes of the fitted model, in the unit of the ratings."""
        users, items = self.vectors()
        return {
            "_user_rows": users,
            "_item_rows": items,
            "_drift_rows": self.joined(self.drift, self.slope),
            "_implicit_rows": self.implicit(),
            "_bin_biases": self.bin_biases * np.float32(self.scale),
            "_user_times": self.user_times,
            "_days": self.day_keys,
            "_day_biases": self.day_biases * np.float32(self.scale),
            "_bin_seconds": self.bin_seconds,
            "_earliest": self.earliest,
            "latest_": self.latest,
        }


def deviations(seconds: np.ndarray) -> np.ndarray:
    """Return signed powers of times before or after the mean, 1 for a year."""
    return np.asarray(np.sign(seconds) * np.abs(seconds / (365 * DAY)) ** POWER)


def _bin_count(owner: str, earliest: float, latest: float, length: float) -> int:
    """Return the number of bins; ParameterError where they, or the days, are too many."""
    bins, days = (latest - earliest) / length, latest / DAY - earliest / DAY
    if not (bins < BINS - 1 and days < 2**31 - 2):
        span = f"more than {BINS} bins of {length / DAY:g} days, or 2**31 days"
        raise ParameterError.of(
            owner, "bin_days", f"must suit times in seconds: these would span {span}."
        )
    return int((latest - earliest) // length) + 1


def bins_of(times: np.ndarray, earliest: float, length: float, count: int) -> np.ndarray:
    """Return the number of the bin of each time; the ends count for all times outside."""
    return np.clip((times - earliest) // length, 0, count - 1).astype(np.int64)


def day_keys(rows: np.ndarray, times: np.ndarray, earliest: float, latest: float) -> np.ndarray:
    """Return a number for each pair of user and day; -1 for a day outside of the training data."""
    first, count = earliest // DAY, latest // DAY - earliest // DAY + 1
    days = times // DAY - first
    inside = (days >= 0) & (days < count)
    keys = np.asarray(rows, np.int64) * int(count) + np.where(inside, days, 0).astype(np.int64)
    return np.where(inside, keys, -1)
