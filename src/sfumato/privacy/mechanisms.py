"""Every mechanism in one place: each with its domain, relation, sensitivity and proved cost."""

from sfumato.privacy.additive import Gaussian, Laplace
from sfumato.privacy.bounding import ContributionBound, ContributionSample, bound_contributions
from sfumato.privacy.conjugate import BetaBernoulli, DirichletMultinomial, GaussianMean
from sfumato.privacy.continual import BinaryTreeCounter
from sfumato.privacy.fixed_point import FixedPoint
from sfumato.privacy.mechanism import Mechanism
from sfumato.privacy.pan_private import PanPrivateCounter, PanPrivateDistinct
from sfumato.privacy.posterior import PosteriorSample
from sfumato.privacy.response import BinaryResponse, KaryResponse
from sfumato.privacy.sample_and_aggregate import SampleAndAggregate
from sfumato.privacy.selection import Exponential, PermuteAndFlip, ReportNoisyMax
from sfumato.privacy.smooth import SmoothMedian

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
