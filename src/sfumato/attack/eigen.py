"""Eigen-analysis: noise outside the main directions of all releases is dropped first."""

from typing import Any

import numpy as np

from sfumato.attack._bit_channel import BitChannel
from sfumato.attack._channel import channel
from sfumato.attack._priors import believed
from sfumato.attack._vector_channel import VectorChannel

__all__ = ["eigen_decoder"]

TINY = 1e-12
NORMAL_MIDDLE = 0.6745  # the median of a standard Gaussian's absolute value


def eigen_decoder(
    released: Any, candidates: Any, prior: Any = None, *, sizes: Any = None
) -> np.ndarray:
    """Scores of items, users x candidates: single decoding of the releases after a spectral filter.

    All releases together show in which directions profiles differ; each row is kept along those
    where its variance is more than noise of this strength can give (the edge of Marchenko and
    Pastur), shrunk as the noise asks, and tested against each codeword as a Gaussian row.
    It is a baseline, for releases that are linear in the profile but for noise: JLT, and BLIP after
    its bits are debiased, where items that share bits bend the line. Signs and minima are refused.
    Parameters: as of `joint_decoder`; the more users are released, the better it works.

    >>> from sfumato.attack import VectorChannel
    >>> draws = np.random.default_rng(0)
    >>> codes = draws.normal(size=(40, 200)) / 200**0.5
    >>> kind = draws.integers(2, size=100)  # who has item 0 has items 0 to 9, the others 10 to 19
    >>> has = (np.arange(40) // 10 == kind[:, None]).astype(float)
    >>> seen = VectorChannel(has @ codes + 0.3 * draws.normal(size=(100, 200)), codes, 0.3)
    >>> best = np.argsort(-eigen_decoder(seen, None, sizes=10), axis=1)[:, :10]
    >>> bool((best // 10 == kind[:, None]).mean() > 0.95)
    True

    Thesis 2.4.7; Guo and Wu 2006; Huang, Du and Chen 2005.
    """
    owner = "eigen_decoder"
    seen = channel(released, candidates)
    if not isinstance(seen, BitChannel | VectorChannel):
        raise TypeError(
            f"{owner}: released must be linear in the profile but for noise (Blip or Jlt), not of "
            f"{type(seen).__name__}; joint_decoder takes all mechanisms."
        )
    believes = believed(owner, prior, seen, sizes)[0]
    if not seen.users:
        return np.zeros((0, seen.items))
    out = _filtered_ratios(*seen.debiased())
    if prior is not None:
        out += believes.log_odds(out, slice(0, seen.users))
    return out


def _filtered_ratios(rows: np.ndarray, codes: np.ndarray, noise: float) -> np.ndarray:
    """Log-likelihood ratios of codewords in rows whose noise was filtered out."""
    centre = rows.mean(axis=0)
    kept = centre + _filtered(rows - centre, noise)
    base = codes - codes.mean(axis=0)  # what all codewords share tells no item from another
    scores = (kept - kept.mean(axis=1, keepdims=True)) @ base.T
    powers = np.square(base).sum(axis=1)
    # Most items are in no one's profile, so the middle of the scores shows what chance does.
    middle = np.median(np.abs(scores / np.sqrt(powers)), axis=1, keepdims=True)
    spread = np.maximum((middle / NORMAL_MIDDLE) ** 2, TINY)
    return np.asarray((scores - powers / 2) / spread, np.float64)


def _filtered(rows: np.ndarray, noise: float) -> np.ndarray:
    """Rows along their main directions, each shrunk by the share of its variance that is noise.

    Users x users and components x components have the same variances: the smaller is decomposed.
    """
    users, length = rows.shape
    gram = rows.T @ rows if length < users else rows @ rows.T
    values, vectors = np.linalg.eigh(gram.astype(np.float64) / users)
    kept = values > noise * (1 + np.sqrt(length / users)) ** 2
    values, vectors = values[kept], vectors[:, kept]
    share = np.clip(1 - noise * (1 + length / users) / values, 0, 1)
    shrink = np.asarray((vectors * share) @ vectors.T, np.float32)
    return rows @ shrink if length < users else shrink @ rows
