"""Mechanisms of differential privacy, each with its domain, adjacency, sensitivity and loss."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato.core.deprecation import on_demand

if TYPE_CHECKING:
    from sfumato.privacy.mechanisms.additive import Gaussian, Laplace
    from sfumato.privacy.mechanisms.base import Mechanism
    from sfumato.privacy.mechanisms.binary_tree import BinaryTreeCounter
    from sfumato.privacy.mechanisms.contribution_bounding import (
        ContributionBound,
        ContributionSample,
        bound_contributions,
    )
    from sfumato.privacy.mechanisms.fixed_point import FixedPoint
    from sfumato.privacy.mechanisms.pan_private import PanPrivateCounter, PanPrivateDistinct
    from sfumato.privacy.mechanisms.posterior_sampling import (
        BetaBernoulli,
        DirichletMultinomial,
        GaussianMean,
        PosteriorSample,
    )
    from sfumato.privacy.mechanisms.randomized_response import BinaryResponse, KaryResponse
    from sfumato.privacy.mechanisms.sample_and_aggregate import SampleAndAggregate
    from sfumato.privacy.mechanisms.selection import Exponential, PermuteAndFlip, ReportNoisyMax
    from sfumato.privacy.mechanisms.smooth_sensitivity import SmoothMedian

__all__ = [
    "BetaBernoulli",
    "BinaryResponse",
    "BinaryTreeCounter",
    "ContributionBound",
    "ContributionSample",
    "DirichletMultinomial",
    "Exponential",
    "FixedPoint",
    "Gaussian",
    "GaussianMean",
    "KaryResponse",
    "Laplace",
    "Mechanism",
    "PanPrivateCounter",
    "PanPrivateDistinct",
    "PermuteAndFlip",
    "PosteriorSample",
    "ReportNoisyMax",
    "SampleAndAggregate",
    "SmoothMedian",
    "bound_contributions",
]

# Who needs one mechanism does not load the others.
__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "additive": ("Gaussian", "Laplace"),
        "base": ("Mechanism",),
        "binary_tree": ("BinaryTreeCounter",),
        "contribution_bounding": ("ContributionBound", "ContributionSample", "bound_contributions"),
        "fixed_point": ("FixedPoint",),
        "pan_private": ("PanPrivateCounter", "PanPrivateDistinct"),
        "posterior_sampling": (
            "BetaBernoulli",
            "DirichletMultinomial",
            "GaussianMean",
            "PosteriorSample",
        ),
        "randomized_response": ("BinaryResponse", "KaryResponse"),
        "sample_and_aggregate": ("SampleAndAggregate",),
        "selection": ("Exponential", "PermuteAndFlip", "ReportNoisyMax"),
        "smooth_sensitivity": ("SmoothMedian",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
