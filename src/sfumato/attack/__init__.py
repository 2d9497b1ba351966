"""Attacks: what an adversary learns from a release, measured."""

from sfumato.attack._bit_channel import BitChannel
from sfumato.attack._bounds import LowerBound, epsilon_lower_bound
from sfumato.attack._choose_epsilon import EpsilonChoice, choose_epsilon
from sfumato.attack._divergence import KLDivergence, kl_divergence
from sfumato.attack._gaussian_fit import GaussianFit, gaussian_fit
from sfumato.attack._scores import low_bits
from sfumato.attack._sign_channel import SignChannel
from sfumato.attack._sizes import expected_sizes
from sfumato.attack._symbol_channel import SymbolChannel
from sfumato.attack._vector_channel import VectorChannel
from sfumato.attack.audit import Audit, audit
from sfumato.attack.eigen import eigen_decoder
from sfumato.attack.information import (
    Information,
    MeasuredInformation,
    information,
    measured_information,
    profile_information,
)
from sfumato.attack.joint import chain_agreement, joint_decoder
from sfumato.attack.maximum import map_decoder
from sfumato.attack.membership import MembershipInference, membership_inference
from sfumato.attack.model_report import ModelAudit, audit_model
from sfumato.attack.one_run import one_run_lower_bound
from sfumato.attack.popularity import popularity
from sfumato.attack.profile_report import ProfileAudit, audit_profiles
from sfumato.attack.reconstruction import (
    NeighbourRecall,
    Reconstruction,
    SizePrior,
    Truth,
    item_prior,
    neighbour_recall,
    reconstruction,
    size_prior,
    truth_matrix,
)
from sfumato.attack.single import single_decoder
from sfumato.attack.taste import TastePrior, learn_prior

__all__ = [
    "Audit",
    "BitChannel",
    "EpsilonChoice",
    "GaussianFit",
    "Information",
    "KLDivergence",
    "LowerBound",
    "MeasuredInformation",
    "MembershipInference",
    "ModelAudit",
    "NeighbourRecall",
    "ProfileAudit",
    "Reconstruction",
    "SignChannel",
    "SizePrior",
    "SymbolChannel",
    "TastePrior",
    "Truth",
    "VectorChannel",
    "audit",
    "audit_model",
    "audit_profiles",
    "chain_agreement",
    "choose_epsilon",
    "eigen_decoder",
    "epsilon_lower_bound",
    "expected_sizes",
    "gaussian_fit",
    "information",
    "item_prior",
    "joint_decoder",
    "kl_divergence",
    "learn_prior",
    "low_bits",
    "map_decoder",
    "measured_information",
    "membership_inference",
    "neighbour_recall",
    "one_run_lower_bound",
    "popularity",
    "profile_information",
    "reconstruction",
    "single_decoder",
    "size_prior",
    "truth_matrix",
]
