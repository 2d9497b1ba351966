"""Attacks and audits: what an adversary learns from a release, measured.

Each name is imported when it is first used.
"""

from collections.abc import Callable
from typing import Any

from sfumato.core.deprecation import on_demand, renamed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.attack.channels.bloom_bits import BitChannel
    from sfumato.attack.channels.gaussian import SignChannel, VectorChannel
    from sfumato.attack.channels.min_hash import SymbolChannel
    from sfumato.attack.channels.profile_size import expected_sizes
    from sfumato.attack.decoders.joint import chain_agreement, joint_decoder
    from sfumato.attack.decoders.map_eigen import eigen_decoder, map_decoder
    from sfumato.attack.decoders.single import popularity, single_decoder
    from sfumato.attack.decoders.taste_prior import TastePrior, learn_prior
    from sfumato.attack.leakage.measured import MeasuredInformation, measured_information
    from sfumato.attack.leakage.mechanism import Information, information
    from sfumato.attack.leakage.symbol_bounds import profile_information
    from sfumato.attack.mechanism_audit.audit import Audit, audit
    from sfumato.attack.mechanism_audit.distinguishers import low_bits
    from sfumato.attack.mechanism_audit.lower_bounds import (
        GaussianFit,
        LowerBound,
        epsilon_lower_bound,
        gaussian_fit,
        one_run_lower_bound,
    )
    from sfumato.attack.membership.divergence import KLDivergence, kl_divergence
    from sfumato.attack.membership.inference import MembershipInference, membership_inference
    from sfumato.attack.membership.model_audit import ModelAudit, audit_model
    from sfumato.attack.profile_audit.audit import ProfileAudit, audit_profiles
    from sfumato.attack.profile_audit.epsilon_choice import EpsilonChoice, choose_epsilon
    from sfumato.attack.profile_audit.evaluation import (
        NeighbourRecall,
        Reconstruction,
        neighbour_recall,
        reconstruction,
    )
    from sfumato.attack.profile_audit.ground_truth import (
        GroundTruth,
        SizePrior,
        item_prior,
        size_prior,
        truth_matrix,
    )

__all__ = [
    "Audit",
    "BitChannel",
    "EpsilonChoice",
    "GaussianFit",
    "GroundTruth",
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

_RENAMED = {"Truth": "GroundTruth"}

__getattr__: Callable[..., Any] = renamed(
    __name__,
    _RENAMED,
    on_demand(
        __name__,
        {
            "channels.bloom_bits": ("BitChannel",),
            "channels.gaussian": (
                "SignChannel",
                "VectorChannel",
            ),
            "channels.min_hash": ("SymbolChannel",),
            "channels.profile_size": ("expected_sizes",),
            "decoders.joint": (
                "chain_agreement",
                "joint_decoder",
            ),
            "decoders.map_eigen": (
                "eigen_decoder",
                "map_decoder",
            ),
            "decoders.single": (
                "popularity",
                "single_decoder",
            ),
            "decoders.taste_prior": (
                "TastePrior",
                "learn_prior",
            ),
            "leakage.measured": (
                "MeasuredInformation",
                "measured_information",
            ),
            "leakage.mechanism": (
                "Information",
                "information",
            ),
            "leakage.symbol_bounds": ("profile_information",),
            "mechanism_audit.audit": (
                "Audit",
                "audit",
            ),
            "mechanism_audit.distinguishers": ("low_bits",),
            "mechanism_audit.lower_bounds": (
                "GaussianFit",
                "LowerBound",
                "epsilon_lower_bound",
                "gaussian_fit",
                "one_run_lower_bound",
            ),
            "membership.divergence": (
                "KLDivergence",
                "kl_divergence",
            ),
            "membership.inference": (
                "MembershipInference",
                "membership_inference",
            ),
            "membership.model_audit": (
                "ModelAudit",
                "audit_model",
            ),
            "profile_audit.audit": (
                "ProfileAudit",
                "audit_profiles",
            ),
            "profile_audit.epsilon_choice": (
                "EpsilonChoice",
                "choose_epsilon",
            ),
            "profile_audit.evaluation": (
                "NeighbourRecall",
                "Reconstruction",
                "neighbour_recall",
                "reconstruction",
            ),
            "profile_audit.ground_truth": (
                "GroundTruth",
                "SizePrior",
                "item_prior",
                "size_prior",
                "truth_matrix",
            ),
        },
    ),
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
