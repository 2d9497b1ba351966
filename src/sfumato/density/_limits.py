"""What the estimators of this room may be told: one table of limits."""

from typing import Any

import numpy as np

from sfumato._require import DELTA, Limit, one_of, optional, positive, whole
from sfumato.sketch._points import BOUNDS
from sfumato.sketch._radial import KERNEL

__all__ = ["BACKENDS", "LIMITS"]

BACKENDS = ("race", "grid", "slices", "fourier")


class _RandomState:
    """A whole number, a source of random numbers of NumPy, or None."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        if value is None or isinstance(value, np.random.RandomState | np.random.Generator):
            return value
        return whole(0, 2**64 - 1).check(owner, name, value)

    def bad(self) -> list[Any]:
        return [-1, 0.5, "seed", True]


class _Anything:
    """What the release itself checks, since a ledger must be opened for that."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        return value

    def bad(self) -> list[Any]:
        return []


LIMITS: dict[str, Limit] = {
    "bandwidth": positive,
    "kernel": KERNEL,
    "backend": one_of(("auto", *BACKENDS)),
    "rows": optional(whole(1, 2**20)),
    "width": whole(2, 2**31),
    "expected_size": optional(whole(1)),
    "epsilon": optional(positive),
    "delta": DELTA,
    "bounds": optional(BOUNDS),
    "ledger": _Anything(),
    "dataset": _Anything(),
    "unit": _Anything(),
    "relation": _Anything(),
    "contributions": optional(whole(1, 2**31)),
    "release_id": _Anything(),
    "random_state": _RandomState(),
}
