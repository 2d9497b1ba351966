"""Privacy accounting: losses, their distributions, their composition, and calibration of noise.

Each name is imported when it is first used.
"""

from collections.abc import Callable
from typing import Any

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.privacy.accounting.accountant import Accountant
    from sfumato.privacy.accounting.calibration import (
        concentrated_delta,
        concentrated_epsilon,
        epsilon_of,
        gaussian_delta,
        gaussian_epsilon,
        gaussian_sigma,
        gaussian_sigma_l2,
        variance_delta,
    )
    from sfumato.privacy.accounting.losses import (
        RELATIONS,
        Approximate,
        Concentrated,
        Flips,
        GaussianNoise,
        LaplaceNoise,
        Loss,
        Pure,
        Sampled,
        as_loss,
    )

__all__ = [
    "RELATIONS",
    "Accountant",
    "Approximate",
    "Concentrated",
    "Flips",
    "GaussianNoise",
    "LaplaceNoise",
    "Loss",
    "Pure",
    "Sampled",
    "as_loss",
    "concentrated_delta",
    "concentrated_epsilon",
    "epsilon_of",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "gaussian_sigma_l2",
    "variance_delta",
]

__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "accountant": ("Accountant",),
        "calibration": (
            "concentrated_delta",
            "concentrated_epsilon",
            "epsilon_of",
            "gaussian_delta",
            "gaussian_epsilon",
            "gaussian_sigma",
            "gaussian_sigma_l2",
            "variance_delta",
        ),
        "losses": (
            "RELATIONS",
            "Approximate",
            "Concentrated",
            "Flips",
            "GaussianNoise",
            "LaplaceNoise",
            "Loss",
            "Pure",
            "Sampled",
            "as_loss",
        ),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
