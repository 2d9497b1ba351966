"""Attacks: what an adversary learns from a release, measured."""

from sfumato.attack._bounds import LowerBound, epsilon_lower_bound
from sfumato.attack._gaussian_fit import GaussianFit, gaussian_fit
from sfumato.attack._scores import low_bits
from sfumato.attack.audit import Audit, audit
from sfumato.attack.one_run import one_run_lower_bound

__all__ = [
    "Audit",
    "GaussianFit",
    "LowerBound",
    "audit",
    "epsilon_lower_bound",
    "gaussian_fit",
    "low_bits",
    "one_run_lower_bound",
]
