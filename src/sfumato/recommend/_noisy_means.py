"""Biases and counts from noisy sums, shrunk by the known variance of the noise; no data comes here.

Ratings are in units of half their range. Everything is computed from noisy numbers and public ones.
"""

from dataclasses import dataclass

import numpy as np

__all__ = ["Seen", "gains", "shrunk_biases", "true_counts"]

BELLS = 64
ROUNDS = 60
QUANTILES = 2048
FEWEST = 0.25  # events that a row has at least, so that nothing is divided by 0
LEAST_BIAS = 2.5e-4  # variance of biases
MISFIT = 0.005  # variance that no weight forgets: rows of very many events are not of all weight


@dataclass(frozen=True)
class Seen:
    """What noisy sums tell: sums = slope * truth + noise of this variance, all (rows, columns)."""

    sums: np.ndarray
    slope: np.ndarray
    variance: np.ndarray


def true_counts(noisy: np.ndarray, variance: float, total: float) -> np.ndarray:
    """The expected numbers of events given noisy ones, scaled to a noisy total.

    How many rows have how many events is learned from the noisy counts themselves: a mixture of
    bells, each as wide as half its distance to the next, by expectation and maximisation. It is
    learned from so many quantiles, between which the answer is a line, however many rows there are.
    """
    centres = np.geomspace(1, max(float(noisy.max()), 2.0), BELLS)
    widths = (0.5 * centres * (centres[1] / centres[0] - 1)) ** 2
    told = np.quantile(noisy, np.linspace(0, 1, min(noisy.size, QUANTILES)))
    off = told[:, None] - centres
    fit = np.exp(-(off**2) / (2 * (variance + widths))) / np.sqrt(variance + widths) + 1e-300
    share = np.full(centres.size, 1 / centres.size)
    for _ in range(ROUNDS):
        part = fit * share
        share = (part / part.sum(axis=1, keepdims=True)).mean(axis=0)
    part = fit * share
    likely = centres + off * (widths / (variance + widths))
    expected = (part / part.sum(axis=1, keepdims=True) * likely).sum(axis=1)
    counts = np.maximum(np.interp(noisy, told, expected), FEWEST)
    return np.asarray(counts * (max(total, 1.0) / counts.sum()))


def gains(seen: Seen, least: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The factor that makes sums to expected truths, the truths' variance, and its error.

    The variance of each column is the weighted mean of squared sums, less that of the noise; the
    factor takes at least `least` for it. The error is that of the noise or, where a few rows alone
    make up the mean, theirs.
    """
    weight = seen.slope**2 / (seen.variance + MISFIT * seen.slope**2 + 1e-12) ** 2
    scale = np.maximum((weight * seen.slope**2).sum(axis=0), 1e-12)
    terms = weight * (seen.sums**2 - seen.variance)
    found = terms.sum(axis=0) / scale
    error = np.sqrt(np.maximum(2 * (weight * seen.variance) ** 2, terms**2).sum(axis=0)) / scale
    return shrinking(seen, np.maximum(found, least)), found, error


def shrinking(seen: Seen, prior: np.ndarray) -> np.ndarray:
    """The factor for truths of a known variance."""
    return np.asarray(prior * seen.slope / (seen.slope**2 * prior + seen.variance + 1e-12))


def shrunk_biases(seen: Seen, counts: np.ndarray) -> tuple[np.ndarray, float]:
    """Expected biases, (rows,), and their variance about the line that they are shrunk to.

    The line is in the logarithm of the counts: what is rated often is rated well.
    """
    log = np.log(counts + 3)
    weight = (seen.slope**2 / (seen.variance + 0.025 * seen.slope**2))[:, 0]
    weight = weight / weight.sum()
    told = (seen.sums / np.maximum(seen.slope, 1e-9))[:, 0]
    centre, level = weight @ log, weight @ told
    spread = max(float(weight @ (log - centre) ** 2), 1e-9)
    line = level + (weight @ ((log - centre) * told)) / spread * (log - centre)
    off = Seen(seen.sums - seen.slope * line[:, None], seen.slope, seen.variance)
    gain, found, _ = gains(off, LEAST_BIAS)
    return line + (gain * off.sums)[:, 0], max(float(found[0]), LEAST_BIAS)
