"""Privacy accounting: losses, their distributions, their composition, and calibration of noise."""

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
