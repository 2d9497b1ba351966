"""Exact discrete noise, and noise shares that several parties draw independently."""

from sfumato.privacy.noise.discrete import (
    PARTIES,
    InsecureSeededSource,
    ShareSource,
    add_gaussian,
    add_laplace,
    add_laplace_share,
    coins,
    discrete_gaussian,
    discrete_laplace,
    flips,
    gaussian_gap,
    laplace_share,
    uniform,
)

__all__ = [
    "PARTIES",
    "InsecureSeededSource",
    "ShareSource",
    "add_gaussian",
    "add_laplace",
    "add_laplace_share",
    "coins",
    "discrete_gaussian",
    "discrete_laplace",
    "flips",
    "gaussian_gap",
    "laplace_share",
    "uniform",
]
