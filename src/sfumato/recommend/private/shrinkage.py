"""Empirical Bayes shrinkage of counts, biases and components by the known noise variance.

All inputs are noisy or public numbers; ratings are in units of half their range.
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

MIXTURE = 64  # components of the mixture of counts
ROUNDS = 60
QUANTILES = 2048
FEWEST = 0.25  # smallest estimated count, so that nothing is divided by 0
LEAST_BIAS = 2.5e-4  # variance of biases
MISFIT = 0.005  # model variance that keeps rows of very many events from taking all weight


@dataclass(frozen=True)
class NoisyObservations:
    """Linear observations, (rows, columns): sums = slope * truth + noise of this variance."""

    sums: np.ndarray
    slope: np.ndarray
    variance: np.ndarray


def true_counts(noisy: np.ndarray, variance: float, total: float) -> np.ndarray:
    """Return posterior mean counts given noisy ones, scaled to sum to a noisy total.

    The prior is learned from the noisy counts by expectation-maximisation: a mixture of Gaussians,
    each as wide as half its distance to the next. It is fitted on QUANTILES quantiles and
    interpolated linearly, so that the cost does not grow with the rows.
    """
    centres = np.geomspace(1, max(float(noisy.max()), 2.0), MIXTURE)
    widths = (0.5 * centres * (centres[1] / centres[0] - 1)) ** 2
    quantiles = np.quantile(noisy, np.linspace(0, 1, min(noisy.size, QUANTILES)))
    off = quantiles[:, None] - centres
    fit = np.exp(-(off**2) / (2 * (variance + widths))) / np.sqrt(variance + widths) + 1e-300
    weights = np.full(centres.size, 1 / centres.size)
    for _ in range(ROUNDS):
        posterior = fit * weights
        weights = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    posterior = fit * weights
    likely = centres + off * (widths / (variance + widths))
    expected = (posterior / posterior.sum(axis=1, keepdims=True) * likely).sum(axis=1)
    counts = np.maximum(np.interp(noisy, quantiles, expected), FEWEST)
    return np.asarray(counts * (max(total, 1.0) / counts.sum()))


def gains(observed: NoisyObservations, least: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the factor from sums to posterior means, the variance of the truth, and its error.

    The variance of each column is the weighted mean of squared sums less that of the noise; the
    factor uses at least `least` for it. The error is that of the noise or, if few rows dominate the
    mean, their own.
    """
    weight = observed.slope**2 / (observed.variance + MISFIT * observed.slope**2 + 1e-12) ** 2
    scale = np.maximum((weight * observed.slope**2).sum(axis=0), 1e-12)
    terms = weight * (observed.sums**2 - observed.variance)
    found = terms.sum(axis=0) / scale
    error = np.sqrt(np.maximum(2 * (weight * observed.variance) ** 2, terms**2).sum(axis=0)) / scale
    return shrinking(observed, np.maximum(found, least)), found, error


def shrinking(observed: NoisyObservations, prior: np.ndarray) -> np.ndarray:
    """Return the factor from sums to posterior means for a known variance of the truth."""
    return np.asarray(
        prior * observed.slope / (observed.slope**2 * prior + observed.variance + 1e-12)
    )


def shrunk_biases(observed: NoisyObservations, counts: np.ndarray) -> tuple[np.ndarray, float]:
    """Return posterior mean biases, (rows,), and their variance about the regression line.

    They are shrunk to a line in the logarithm of the counts: popular items have higher ratings.
    """
    log = np.log(counts + 3)
    weight = (observed.slope**2 / (observed.variance + 0.025 * observed.slope**2))[:, 0]
    weight = weight / weight.sum()
    estimates = (observed.sums / np.maximum(observed.slope, 1e-9))[:, 0]
    centre, level = weight @ log, weight @ estimates
    log_variance = max(float(weight @ (log - centre) ** 2), 1e-9)
    line = level + (weight @ ((log - centre) * estimates)) / log_variance * (log - centre)
    off = NoisyObservations(
        observed.sums - observed.slope * line[:, None], observed.slope, observed.variance
    )
    gain, found, _ = gains(off, LEAST_BIAS)
    return line + (gain * off.sums)[:, 0], max(float(found[0]), LEAST_BIAS)


GROUPS = 8  # rows with similar counts share one regression
LEAST = 1e-4  # smallest prior variance of a followed component
CLEAR = 3.0  # standard errors above 0 from which a component is used to predict
FURTHEST = 3.0  # standard deviations at which vectors are clipped
CAPS = 4  # repetitions of that clipping, each with new standard deviations


@dataclass
class Measurements:
    """All noisy sums of one side, the vectors they were taken against, and the noise variances."""

    counts: np.ndarray
    sums: list[np.ndarray] = field(default_factory=list)
    vectors: list[np.ndarray] = field(default_factory=list)
    variances: list[float] = field(default_factory=list)

    def add(self, sums: np.ndarray, vectors: np.ndarray, variance: float) -> None:
        """Append the sums of one step."""
        self.sums.append(sums)
        self.vectors.append(vectors)
        self.variances.append(variance)

    def towards(
        self, wanted: np.ndarray, weights: np.ndarray, residual: float
    ) -> NoisyObservations:
        """Combine all sums into observations against the wanted vectors.

        weights: counts of the other side. residual: variance of the residuals.
        """
        x, sums = np.concatenate(self.vectors, axis=1), np.concatenate(self.sums, axis=1)
        widths = [each.shape[1] for each in self.vectors]
        noise = np.repeat(self.variances, widths)
        fractions = (weights / weights.sum())[:, None]
        inside, across = (x * fractions).T @ x, (x * fractions).T @ wanted
        observed = NoisyObservations(*(np.empty((len(sums), wanted.shape[1])) for _ in range(3)))
        for rows in np.array_split(np.argsort(self.counts, kind="stable"), GROUPS):
            count = self.counts[rows, None]
            known = max(float(count.mean()) if rows.size else 1.0, 1.0) * residual
            by = np.linalg.solve(known * inside + np.diag(noise + 1e-12), known * across)
            observed.sums[rows] = sums[rows] @ by
            observed.slope[rows] = count * (by * across).sum(axis=0)
            power = (by * (inside @ by)).sum(axis=0)
            observed.variance[rows] = count * residual * power + (noise[:, None] * by**2).sum(
                axis=0
            )
        return observed


@dataclass(frozen=True)
class Components:
    """Components of one side's rows, estimated against vectors of the other side.

    followed: components that the next step measures by; believed: those that predict; against: the
    other side's vectors; feedback: mean contribution of one residual to `followed`, per unit of
    `against`; clearest: largest ratio of a variance to its standard error.
    """

    followed: np.ndarray
    believed: np.ndarray
    against: np.ndarray
    feedback: np.ndarray
    clearest: float


def components(observed: NoisyObservations, against: np.ndarray, counts: np.ndarray) -> Components:
    """Estimate components from noisy observations."""
    gain, found, error = gains(observed, LEAST)
    clear = np.where(found > CLEAR * error, found, 0.0)
    return Components(
        gain * observed.sums,
        shrinking(observed, clear) * observed.sums,
        against,
        (observed.slope * gain).sum(axis=0) / counts.sum(),
        float((found / np.maximum(error, 1e-12)).max()),
    )


def unit_power(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Rotate and scale vectors: uncorrelated, of mean 0 and variance 1 when weighted by counts."""
    weights = counts / counts.sum()
    off = vectors - weights @ vectors
    power, turn = np.linalg.eigh((off * weights[:, None]).T @ off)
    return np.asarray(off @ turn[:, ::-1] / np.sqrt(np.maximum(power[::-1], 1e-14)))


def capped(vectors: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Clip each column at FURTHEST standard deviations, so that few rows cannot dominate it.

    Sums against a vector that is nearly 0 but for a few rows are not sums of many terms, and their
    noise is not what `Measurements` assumes.
    """
    weights = (counts / counts.sum())[:, None]
    for _ in range(CAPS):
        most = FURTHEST * np.sqrt((weights * vectors**2).sum(axis=0))
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
    """Return first components from sums against random vectors, and the feedback in them.

    Sums are divided by their noise; the strongest directions are the leading eigenvectors. Each is
    weighted by its signal according to random matrix theory (Benaych-Georges and Nadakuditi 2012),
    or a little if it has none, since later steps decide.
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
    observed = NoisyObservations(
        sums @ turn, counts[:, None] * np.ones(wanted), noise[:, None] * np.ones(wanted)
    )
    gain = shrinking(observed, prior)
    feedback = (counts[:, None] * gain).sum(axis=0) / counts.sum()
    return gain * observed.sums, vectors @ turn * feedback
