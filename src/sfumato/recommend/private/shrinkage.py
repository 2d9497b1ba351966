"""Biases and counts from noisy sums, shrunk by the known variance of the noise; no data comes here.

Ratings are in units of half their range. Everything is computed from noisy numbers and public ones.

Components from noisy sums of several steps, each used again; no data comes here.
"""

from dataclasses import dataclass, field

import numpy as np

__all__ = [
    "Components",
    "Measurements",
    "NoisyObservations",
    "beginning",
    "capped",
    "components",
    "gains",
    "shrunk_biases",
    "true_counts",
    "unit_power",
]

BELLS = 64
ROUNDS = 60
QUANTILES = 2048
FEWEST = 0.25  # events that a row has at least, so that nothing is divided by 0
LEAST_BIAS = 2.5e-4  # variance of biases
MISFIT = 0.005  # variance that no weight forgets: rows of very many events are not of all weight


@dataclass(frozen=True)
class NoisyObservations:
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


def gains(seen: NoisyObservations, least: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def shrinking(seen: NoisyObservations, prior: np.ndarray) -> np.ndarray:
    """The factor for truths of a known variance."""
    return np.asarray(prior * seen.slope / (seen.slope**2 * prior + seen.variance + 1e-12))


def shrunk_biases(seen: NoisyObservations, counts: np.ndarray) -> tuple[np.ndarray, float]:
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
    off = NoisyObservations(seen.sums - seen.slope * line[:, None], seen.slope, seen.variance)
    gain, found, _ = gains(off, LEAST_BIAS)
    return line + (gain * off.sums)[:, 0], max(float(found[0]), LEAST_BIAS)


GROUPS = 8  # rows of like counts share a regression
LEAST = 1e-4  # variance that a component is followed with, however little it shows
CLEAR = 3.0  # errors above 0 from which a component is believed
FURTHEST = 3.0  # deviations that a vector may be from 0
CAPS = 4  # times that deviations are taken again after the cut


@dataclass
class Measurements:
    """All noisy sums of one side: what was summed, the vectors it was multiplied by, the noise."""

    counts: np.ndarray
    sums: list[np.ndarray] = field(default_factory=list)
    vectors: list[np.ndarray] = field(default_factory=list)
    variances: list[float] = field(default_factory=list)

    def add(self, sums: np.ndarray, vectors: np.ndarray, variance: float) -> None:
        self.sums.append(sums)
        self.vectors.append(vectors)
        self.variances.append(variance)

    def towards(
        self, wanted: np.ndarray, weights: np.ndarray, residual: float
    ) -> NoisyObservations:
        """What the sums for the wanted vectors would be; weights: counts of the others.

        residual: the variance of residuals.
        """
        x, sums = np.concatenate(self.vectors, axis=1), np.concatenate(self.sums, axis=1)
        widths = [each.shape[1] for each in self.vectors]
        noise = np.repeat(self.variances, widths)
        share = (weights / weights.sum())[:, None]
        inside, across = (x * share).T @ x, (x * share).T @ wanted
        seen = NoisyObservations(*(np.empty((len(sums), wanted.shape[1])) for _ in range(3)))
        for rows in np.array_split(np.argsort(self.counts, kind="stable"), GROUPS):
            count = self.counts[rows, None]
            known = max(float(count.mean()) if rows.size else 1.0, 1.0) * residual
            by = np.linalg.solve(known * inside + np.diag(noise + 1e-12), known * across)
            seen.sums[rows] = sums[rows] @ by
            seen.slope[rows] = count * (by * across).sum(axis=0)
            power = (by * (inside @ by)).sum(axis=0)
            seen.variance[rows] = count * residual * power + (noise[:, None] * by**2).sum(axis=0)
        return seen


@dataclass(frozen=True)
class Components:
    """Components of one side's rows against vectors of the other's.

    followed, what the next step measures by, and believed, what predicts; against, the other's
    vectors; feedback, what one residual of an event adds on average to `followed`, per number of
    `against`; clearest, how many errors above 0 the clearest variance is.
    """

    followed: np.ndarray
    believed: np.ndarray
    against: np.ndarray
    feedback: np.ndarray
    clearest: float


def components(seen: NoisyObservations, against: np.ndarray, counts: np.ndarray) -> Components:
    """Components from what was seen of them."""
    gain, found, error = gains(seen, LEAST)
    clear = np.where(found > CLEAR * error, found, 0.0)
    return Components(
        gain * seen.sums,
        shrinking(seen, clear) * seen.sums,
        against,
        (seen.slope * gain).sum(axis=0) / counts.sum(),
        float((found / np.maximum(error, 1e-12)).max()),
    )


def unit_power(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The vectors turned and scaled: weighted by counts, uncorrelated, of mean 0 and power 1."""
    share = counts / counts.sum()
    off = vectors - share @ vectors
    power, turn = np.linalg.eigh((off * share[:, None]).T @ off)
    return np.asarray(off @ turn[:, ::-1] / np.sqrt(np.maximum(power[::-1], 1e-14)))


def capped(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Each column cut at so many of its deviations, which a few rows must not make up alone.

    Sums against a vector that is nearly 0 but for a few rows are no sums of many terms, and what
    noise explains of them is not what `Measurements` says.
    """
    share = (counts / counts.sum())[:, None]
    for _ in range(CAPS):
        most = FURTHEST * np.sqrt((share * vectors**2).sum(axis=0))
        vectors = np.clip(vectors, -most, most)
    return vectors


def beginning(
    sums: np.ndarray,
    vectors: np.ndarray,
    variance: float,
    counts: np.ndarray,
    residual: float,
    wanted: int,
) -> tuple[np.ndarray, np.ndarray]:
    """First components of the rows from sums against random vectors, and the feedback in them.

    Sums are divided by their noise; the strongest directions are those in which most is left, and
    each counts as far as random matrix theory says that it stands out (Benaych-Georges and
    Nadakuditi 2012), or a little, since later steps tell.
    """
    width = vectors.shape[1]
    noise = counts * residual * (vectors**2).sum(axis=1).mean() / width + variance
    power, turn = np.linalg.eigh((sums / noise[:, None]).T @ sums / len(sums))
    power, turn = power[::-1][:wanted], turn[:, ::-1][:, :wanted]
    ratio = width / len(sums)
    over = power - 1 - ratio
    signal = (over + np.sqrt(np.maximum(over**2 - 4 * ratio, 0))) / 2
    least = 0.2 * np.sqrt(ratio) * np.exp(-np.arange(wanted) / 4)
    prior = np.maximum(signal, least) / (counts**2 / noise).mean()
    seen = NoisyObservations(
        sums @ turn, counts[:, None] * np.ones(wanted), noise[:, None] * np.ones(wanted)
    )
    gain = shrinking(seen, prior)
    feedback = (counts[:, None] * gain).sum(axis=0) / counts.sum()
    return gain * seen.sums, vectors @ turn * feedback
