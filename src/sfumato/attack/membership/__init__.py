"""Whether a record was in the data that a model learned from."""

from sfumato.attack.membership.inference import Attack, MembershipInference, membership_inference

__all__ = ["Attack", "MembershipInference", "membership_inference"]
