"""Components from noisy sums of several steps, each used again; no data comes here.

What a step measured for each row, the sum of residual times x over its events, is linear in x. So
all steps together estimate that sum for any other vectors t near the span of theirs, by a ridge
regression of t on the measured x whose penalty is the known noise: later steps do not replace
earlier ones but join them.
"""

from dataclasses import dataclass, field

import numpy as np

from sfumato.recommend._noisy_means import Seen, gains, shrinking

__all__ = ["Components", "Measurements", "beginning", "capped", "components", "unit_power"]

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

    def towards(self, wanted: np.ndarray, weights: np.ndarray, residual: float) -> Seen:
        """What the sums for the wanted vectors would be; weights: counts of the others.

        residual: the variance of residuals.
        """
        x, sums = np.concatenate(self.vectors, axis=1), np.concatenate(self.sums, axis=1)
        widths = [each.shape[1] for each in self.vectors]
        noise = np.repeat(self.variances, widths)
        share = (weights / weights.sum())[:, None]
        inside, across = (x * share).T @ x, (x * share).T @ wanted
        seen = Seen(*(np.empty((len(sums), wanted.shape[1])) for _ in range(3)))
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


def components(seen: Seen, against: np.ndarray, counts: np.ndarray) -> Components:
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
    seen = Seen(sums @ turn, counts[:, None] * np.ones(wanted), noise[:, None] * np.ones(wanted))
    gain = shrinking(seen, prior)
    feedback = (counts[:, None] * gain).sum(axis=0) / counts.sum()
    return gain * seen.sums, vectors @ turn * feedback
