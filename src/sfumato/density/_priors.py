"""How likely classes are before anything is seen: told, equal, or estimated from counts."""

from typing import Any

import numpy as np

__all__ = ["PRIORS", "prior_shares"]


class _Priors:
    """None, "estimated", or one number above 0 per class."""

    def check(self, owner: str, name: str, value: Any) -> Any:
        if value is None or (isinstance(value, str) and value == "estimated"):
            return value
        try:
            shares = tuple(map(float, value))
        except (TypeError, ValueError):
            shares = ()
        if not shares or not all(0 < share < np.inf for share in shares):
            wanted = "None, 'estimated' or one number above 0 per class"
            raise ValueError(f"{owner}: {name} must be {wanted}, not {value!r}.")
        return shares

    def bad(self) -> list[Any]:
        return ["equal", (), (0.0, 1.0), (-1, 2), 3, (float("nan"), 1), (float("inf"), 1)]


PRIORS = _Priors()


def prior_shares(owner: str, priors: Any, sizes: np.ndarray) -> np.ndarray:
    """The share of every class, all together 1; sizes are what was counted or released.

    >>> prior_shares("example", "estimated", np.array([30.0, 10.0]))
    array([0.75, 0.25])
    """
    if priors is None:
        shares = np.ones(sizes.size)
    else:
        shares = sizes if isinstance(priors, str) else np.array(priors)
    if shares.size != sizes.size:
        raise ValueError(
            f"{owner}: priors must be one number per class, {sizes.size}, not {shares.size}."
        )
    return np.asarray(shares / shares.sum())
