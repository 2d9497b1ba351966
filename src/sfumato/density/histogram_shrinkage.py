"""Noisy histograms shrunk by their known noise: smoothed, or towards bells by what all show.

All of this reads noisy counts and public numbers alone, so it costs no privacy.
"""

import numpy as np

__all__ = ["bells", "shrunk_to_bells", "smoothed"]

CENTRE = 0.25  # largest prior deviation of a slice's mean from the middle of its range, in ranges
WIDTH = 1 / 12  # prior variance of a slice: that of uniform points; also its prior deviation
CLEAR = 3.0  # deviations of noise that the evidence against bells must exceed
SURE = 2.0  # standard errors that what slices have in common must exceed
SAME, MANY = 2.0, 6.0  # deviations within which a count is the bell's; times root of slices
DEVIATIONS = 1.0, 2.0  # of the remaining noise that hide a count; two where noise is large
LARGE = 0.6  # deviation of noise that is large, in mean counts
FEWEST = 0.5  # count that is never hidden by less than this
KURTOSIS = 6.0  # of Laplace noise; that of Gaussian noise is less
STRENGTHS = 15  # degrees of smoothing that are tried, from none to nearly flat


def shrunk_to_bells(counts: np.ndarray, variance: float, size: float) -> np.ndarray:
    """Estimate the counts of cells, a histogram per row, from noisy ones of this variance.

    Counts are those of a bell (`bells`) plus a deviation from it, which is smoothed (`_filtered`).
    Where all deviations together do not exceed their noise clearly, they are shrunk, to nothing at
    `CLEAR` of its deviations. A deviation within two deviations of its remaining noise is 0, or
    where noise is large within fewer if there are many rows, over which scores average it. A count
    lower than that noise is raised to it, or to the bell. So where noise dominates all that is left
    are bells, which fall with the distance from the middle.
    Parameters: counts; variance of the noise of each; size, the estimated sum of a row.

    >>> spike = np.array([[0.0, 0.0, 900.0, 0.0, 40.0, -50.0, 0.0, 0.0]])
    >>> bool(shrunk_to_bells(spike, 900.0, 900.0)[0, 2] > 800)
    True
    >>> hidden = shrunk_to_bells(spike, 1e8, 900.0)[0]
    >>> np.allclose(hidden, hidden[::-1])
    True
    """
    rows, cells = counts.shape
    usual = size * bells(counts / size, variance / size**2)
    waves = _cosines(cells)
    heights = (counts - usual) @ waves
    filters = _filters(cells)
    filters[:, 0] = 0.0  # a bell has the sum of the row
    best = _filtered(heights, filters, variance)
    deviations = (heights * best) @ waves.T
    error = np.sqrt(variance * (best**2 @ (waves**2).T))
    large = variance > (LARGE * size / cells) ** 2
    same = min(SAME, MANY / np.sqrt(rows)) if large else SAME
    deviations[np.abs(deviations) <= same * error] = 0.0
    clear = _clear_part(heights, filters, variance)
    limit = DEVIATIONS[large] * clear * error + FEWEST
    raised = np.maximum(usual + clear * deviations, np.clip(usual, FEWEST, limit))
    return np.asarray(np.where(clear * deviations == 0, usual, raised))


def _filtered(heights: np.ndarray, filters: np.ndarray, variance: float) -> np.ndarray:
    """How much of each wave of each row is left.

    Either one filter for all rows, the part of a wave's mean energy that is beyond its noise, where
    energies fall with the wave (Wiener); or for each row the filter of the least estimated risk
    (Stein 1981), or nothing; whichever has less risk in all. A choice among as many filters by
    noisy risks costs about two logarithms of their number in variances of each row.
    """
    from scipy.optimize import isotonic_regression

    own = np.vstack([filters, np.zeros(heights.shape[1])])
    best, risks = _least_risk(heights, own, variance)
    beyond = (heights[:, 1:] ** 2).mean(axis=0) - variance
    energy = np.r_[0.0, np.maximum(isotonic_regression(beyond, increasing=False).x, 0.0)]
    common = energy / (energy + variance)
    risk = ((heights * (1 - common)) ** 2).sum() + 2 * variance * len(heights) * common.sum()
    chosen = risks.sum() + 2 * np.log(len(own)) * variance * len(heights) < risk
    return best if chosen else np.broadcast_to(common, heights.shape)


def bells(fractions: np.ndarray, variance: float) -> np.ndarray:
    """A Cauchy bell over the cells of each slice, of its mean and variance as far as known.

    Both are means over noisy fractions with noise of this variance, shrunk towards those of uniform
    points by how much they vary between slices beyond their noise (empirical Bayes: Morris 1983).
    So where noise dominates, bells fall with the distance from the middle.

    >>> bells(np.array([[0.0, 0.9, 0.1, 0.0]]), 0.0).round(2)
    array([[0.06, 0.82, 0.09, 0.02]])
    """
    size = fractions.shape[1]
    places = (np.arange(size) + 0.5) / size - 0.5
    mean_noise = np.full(len(fractions), variance * (places**2).sum())
    shift, _ = _pooled(fractions @ places, mean_noise, CENTRE, 0.0)
    squares = (places - np.clip(shift, -0.5, 0.5)[:, None]) ** 2
    noise = variance * (squares**2).sum(axis=1)
    wider, error = _pooled((fractions * squares).sum(axis=1) - WIDTH, noise, WIDTH)
    spread = np.maximum(WIDTH + wider, np.maximum(error / 2, size**-2 / 12))
    heights = 1 / (1 + squares / spread[:, None])
    return np.asarray(heights / heights.sum(axis=1, keepdims=True))


def _pooled(
    values: np.ndarray, noise: np.ndarray, most: float, common: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Values shrunk towards what they have in common, and their posterior deviations.

    What they have in common, unless it is given, is their mean, shrunk to 0 within two of its
    standard errors. The prior variance around it is what the mean square exceeds its noise by, less
    a standard error of that; at most `most` squared. noise: the variance of each value.
    """
    if not noise.any():
        return values, noise
    usual, count = noise.mean(), len(values)
    if common is None:
        mean = values.mean()
        common = mean * max(0.0, 1 - SURE**2 * usual / count / max(mean**2, 1e-300))
    beyond = ((values - common) ** 2).mean() - usual * (1 + np.sqrt(2 / count))
    prior = np.clip(beyond, 0.0, most**2)
    own = (values - common) * prior / (prior + noise)
    return common + own, np.sqrt(prior * noise / (prior + noise))


def _clear_part(heights: np.ndarray, filters: np.ndarray, variance: float) -> float:
    """How far the squares of all waves exceed their noise, by the clearest of the filters."""
    weights = filters**2
    excess = ((heights**2 - variance) @ weights.T).sum(axis=0)
    spread = variance * np.sqrt(len(heights) * (KURTOSIS - 1) * (weights**2).sum(axis=1))
    found = float((excess / spread).max())
    return max(0.0, 1 - (CLEAR / found) ** 2) if found > 0 else 0.0


def smoothed(cells: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smooth rows of equally wide cells; also return the remaining noise variance of each cell.

    The sum of a row is preserved. Each row takes the smoothing spline, of a fixed list, with the
    smallest estimated risk |smooth - noisy|**2 + 2 variance trace (Stein's unbiased risk estimate),
    which is unbiased if the noise of all cells is independent and of this variance.
    Parameters: cells, one histogram per row; variance of the noise of a cell, one number per row.

    >>> wavy = np.array([[0.0, 20.0, 0.0, 20.0, 0.0, 20.0, 0.0, 20.0]])
    >>> smoothed(wavy, np.array([100.0]))[0].round()
    array([[10., 10., 10., 10., 10., 10., 10., 10.]])
    >>> bool((smoothed(wavy, np.array([0.0]))[0] == wavy).all())
    True

    Stein 1981; splines as filters of the cosine transform: Garcia 2010.
    """
    size = cells.shape[1]
    waves = _cosines(size)
    heights = cells @ waves
    best, _ = _least_risk(heights, _filters(size), np.asarray(variance)[:, None])
    residual_variance = np.asarray(variance)[:, None] * (best**2 @ (waves**2).T)
    smooth = np.where((best == 1).all(axis=1)[:, None], cells, (heights * best) @ waves.T)
    return smooth, residual_variance


def _least_risk(
    heights: np.ndarray, filters: np.ndarray, variance: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of each row of heights of waves, the filter with the smallest estimated risk, and that."""
    misfit = ((heights[:, None, :] * (1 - filters)) ** 2).sum(axis=2)
    risk = misfit + 2 * variance * filters.sum(axis=1)
    return filters[risk.argmin(axis=1)], risk.min(axis=1)


def _cosines(size: int) -> np.ndarray:
    """The orthonormal cosine transform: one wave per column, slowest first."""
    position, wave = np.arange(size)[:, None] + 0.5, np.arange(size)
    waves = np.cos(np.pi * position * wave / size) * np.sqrt(2 / size)
    waves[:, 0] = np.sqrt(1 / size)
    return np.asarray(waves)


def _filters(size: int) -> np.ndarray:
    """Remaining fraction of each wave by strength: 1 / (1 + (strength wave)**4)."""
    strengths = np.r_[0.0, np.geomspace(1 / size, 2.0, STRENGTHS - 1)]
    return np.asarray(1 / (1 + (strengths[:, None] * np.arange(size)) ** 4))
