"""Membership inference: whether a record was in the training data of a model."""

from sfumato.attack.membership.inference import Attack, MembershipInference, membership_inference

__all__ = ["Attack", "MembershipInference", "membership_inference"]
