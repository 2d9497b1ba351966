"""Every shipped mechanism with a pair of neighbouring values, for the audits and the contract.

A new mechanism joins by one line in MECHANISMS: a mechanism of epsilon near 1, two neighbouring
values that are easiest to tell apart, and whether its bound is tight there.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.privacy.additive import Gaussian, Laplace
from sfumato.privacy.conjugate import BetaBernoulli
from sfumato.privacy.continual import BinaryTreeCounter
from sfumato.privacy.mechanism import Mechanism
from sfumato.privacy.pan_private import PanPrivateCounter, PanPrivateDistinct
from sfumato.privacy.posterior import PosteriorSample
from sfumato.privacy.response import BinaryResponse, KaryResponse
from sfumato.privacy.sample_and_aggregate import SampleAndAggregate
from sfumato.privacy.selection import Exponential, PermuteAndFlip, ReportNoisyMax
from sfumato.privacy.smooth import SmoothMedian


@dataclass(frozen=True)
class Case:
    mechanism: Mechanism
    neighbours: tuple[Any, Any]
    tight: bool = True


MECHANISMS: dict[str, list[Case]] = {}
MECHANISMS["Laplace"] = [
    Case(Laplace(1, 1), (0, 1)),
    Case(Laplace(2, 1, relation="replace"), (5, 7)),
    Case(Laplace(2, 1, cells=2), ([0, 0], [1, 1]), tight=False),  # spread changes hide better
]
MECHANISMS["Gaussian"] = [
    Case(Gaussian(1, 1, 1e-5), (0, 1)),  # tight because the audit fits its whole curve
    Case(Gaussian(4, 1, 1e-5, squared=True), ([0, 0], [2, 0]), tight=False),
]
MECHANISMS["Exponential"] = [
    Case(Exponential(1, 1, candidates=2), ([0, 5], [-1, 6])),
    Case(Exponential(1, 1, candidates=2, monotone=True), ([0, 3], [0, 4])),
    Case(Exponential(3, 1, candidates=4), ([0, 1, 5, 5], [3, 4, 2, 2]), tight=False),
]
MECHANISMS["PermuteAndFlip"] = [
    Case(PermuteAndFlip(1, 1, candidates=2), ([0, 0], [-1, 1])),
    Case(PermuteAndFlip(1, 1, candidates=2, monotone=True), ([0, 0], [0, 1])),
]
MECHANISMS["ReportNoisyMax"] = [
    Case(ReportNoisyMax(1, 1, candidates=2), ([0, 0], [-1, 1])),
    Case(ReportNoisyMax(1, 1, candidates=2, noise="laplace"), ([0, 4], [-1, 5]), tight=False),
]
MECHANISMS["BinaryResponse"] = [
    Case(BinaryResponse(1.0), (0, 1)),
    Case(BinaryResponse(1.0, cells=2), ([0, 0, 1], [1, 1, 1]), tight=False),
]
MECHANISMS["KaryResponse"] = [Case(KaryResponse(4, 1.0), (0, 1))]
MECHANISMS["SmoothMedian"] = [
    Case(SmoothMedian(1, 0, 9), ([0, 0, 1, 1], [0, 0, 1, 1, 1]), tight=False),
    Case(SmoothMedian(1, 0, 1, relation="replace"), ([0, 1], [1, 1]), tight=False),
]
MECHANISMS["SampleAndAggregate"] = [
    Case(SampleAndAggregate(np.sum, 1, 1, 0, 1), ([0], [0, 1])),
    Case(SampleAndAggregate(np.sum, 1, 3, 0, 4, aggregate="median"), ([1], [1, 4]), tight=False),
]
MECHANISMS["PosteriorSample"] = [
    Case(PosteriorSample(BetaBernoulli(0.25, 3), 1), ([1], [1, 1]), tight=False),
]
MECHANISMS["BinaryTreeCounter"] = [
    Case(BinaryTreeCounter(1, 1), ([0], [1])),
    Case(BinaryTreeCounter(1, 4), ([0, 0, 0, 0], [1, 0, 0, 0]), tight=False),
    Case(BinaryTreeCounter(1, 4, 1e-5), ([0, 0, 0, 0], [1, 0, 0, 0]), tight=False),
]
MECHANISMS["PanPrivateCounter"] = [
    Case(PanPrivateCounter(0.5, 0.5), (([0], [0]), ([0], [1])), tight=False),
]
MECHANISMS["PanPrivateDistinct"] = [
    Case(PanPrivateDistinct(0.5, 0.5, cells=2), (([], []), ([7], [7])), tight=False),
]
