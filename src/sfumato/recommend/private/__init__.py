"""Differentially private recommenders."""

from sfumato.recommend.private.factorization import PrivateFactorization

__all__ = ["PrivateFactorization"]
