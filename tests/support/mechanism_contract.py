"""Every shipped mechanism with pairs of neighbouring values, for the audits and the contract.

A new mechanism joins by one line in `attack.mechanism_audit.cases`: one of a given epsilon and the
two neighbouring values that are easiest to tell apart, so that its bound is tight there. Other
settings of it, and pairs that tell less, are added here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.attack.mechanism_audit.cases import CASES, named
from sfumato.privacy.mechanisms.additive import Gaussian, Laplace
from sfumato.privacy.mechanisms.base import Mechanism
from sfumato.privacy.mechanisms.binary_tree import BinaryTreeCounter
from sfumato.privacy.mechanisms.pan_private import PanPrivateCounter, PanPrivateDistinct
from sfumato.privacy.mechanisms.posterior_sampling import BetaBernoulli, PosteriorSample
from sfumato.privacy.mechanisms.randomized_response import BinaryResponse
from sfumato.privacy.mechanisms.sample_and_aggregate import SampleAndAggregate
from sfumato.privacy.mechanisms.selection import Exponential, PermuteAndFlip, ReportNoisyMax
from sfumato.privacy.mechanisms.smooth_sensitivity import SmoothMedian


@dataclass(frozen=True)
class Case:
    mechanism: Mechanism
    neighbours: tuple[Any, Any]
    tight: bool = True


SHIPPED = [Case(*named(name, 1, 1e-5)) for name in CASES]
MECHANISMS: dict[str, list[Case]] = {type(case.mechanism).__name__: [case] for case in SHIPPED}
MECHANISMS["Laplace"] += [
    Case(Laplace(2, 1, relation="replace"), (5, 7)),
    Case(Laplace(2, 1, cells=2), ([0, 0], [1, 1])),
]
MECHANISMS["Gaussian"] += [
    Case(Gaussian(4, 1, 1e-5, squared=True), ([0, 0], [2, 0]), tight=False),
]
MECHANISMS["Exponential"] += [
    Case(Exponential(1, 1, candidates=2), ([0, 5], [-1, 6])),
    Case(Exponential(1, 1, candidates=2, monotone=True), ([0, 3], [0, 4])),
    Case(Exponential(3, 1, candidates=4), ([0, 1, 5, 5], [3, 4, 2, 2]), tight=False),
]
MECHANISMS["PermuteAndFlip"] += [
    Case(PermuteAndFlip(1, 1, candidates=2, monotone=True), ([0, 0], [0, 1])),
]
MECHANISMS["ReportNoisyMax"] += [
    Case(ReportNoisyMax(1, 1, candidates=2, noise="laplace"), ([0, 4], [-1, 5]), tight=False),
]
MECHANISMS["BinaryResponse"] += [
    Case(BinaryResponse(1.0, cells=2), ([0, 0, 1], [1, 1, 1])),
]
MECHANISMS["SmoothMedian"] += [
    Case(SmoothMedian(1, 0, 9), ([0, 0, 1, 1], [0, 0, 1, 1, 1]), tight=False),
    Case(SmoothMedian(1, 0, 1, relation="replace"), ([0, 1], [1, 1]), tight=False),
]
MECHANISMS["SampleAndAggregate"] += [
    Case(SampleAndAggregate(np.sum, 1, 3, 0, 4, aggregate="median"), ([1], [1, 4]), tight=False),
]
MECHANISMS["PosteriorSample"] += [
    Case(PosteriorSample(BetaBernoulli(0.25, 3), 1), ([1], [1, 1]), tight=False),
]
MECHANISMS["BinaryTreeCounter"] += [
    Case(BinaryTreeCounter(1, 1), ([0], [1])),
    Case(BinaryTreeCounter(1, 4, 1e-5), ([0, 0, 0, 0], [1, 0, 0, 0])),
]
MECHANISMS["PanPrivateCounter"] += [
    Case(PanPrivateCounter(0.4, 0.2, outputs=3), (([0], [0]), ([0], [1]))),
]
MECHANISMS["PanPrivateDistinct"] += [
    # The output is priced for a change that the user makes only sometimes: the truth is 0.82.
    Case(PanPrivateDistinct(0.5, 0.5, cells=2), (([], []), ([7], [7])), tight=False),
]
