"""Attacks: what an adversary learns from a release, measured."""

from sfumato.attack._bounds import LowerBound, epsilon_lower_bound
from sfumato.attack._divergence import KLDivergence, kl_divergence
from sfumato.attack._gaussian_fit import GaussianFit, gaussian_fit
from sfumato.attack._scores import low_bits
from sfumato.attack.audit import Audit, audit
from sfumato.attack.membership import MembershipInference, membership_inference
from sfumato.attack.model_report import ModelAudit, audit_model
from sfumato.attack.one_run import one_run_lower_bound

__all__ = [
    "Audit",
    "GaussianFit",
    "KLDivergence",
    "LowerBound",
    "MembershipInference",
    "ModelAudit",
    "audit",
    "audit_model",
    "epsilon_lower_bound",
    "gaussian_fit",
    "kl_divergence",
    "low_bits",
    "membership_inference",
    "one_run_lower_bound",
]
