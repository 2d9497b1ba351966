"""The places where a density is highest, found from its values alone, noise and all."""

import math
import warnings
from typing import Any

import numpy as np

from sfumato.core.deprecation import renamed_arguments
from sfumato.core.validation import RandomState, between, check_random_state, integer, optional
from sfumato.density.evaluation_grid import Field, field_of
from sfumato.density.sampling import by_population

__all__ = ["find_modes"]

PROBES = 4096  # even points of the box that are looked at first
STARTS = 64  # climbs, at most
DIRECTIONS = 32  # tried at each step of a climb, at most
FINEST = 64  # a climb ends at this part of a bandwidth
BETWEEN = 15  # places looked at between two modes
SHARE = 0.02  # of its value that a mode must rise by, however little the noise
NEIGHBOURS = 8  # seen places, itself among them, that a start is highest of
SIDE = 0.1  # of a narrow box that counts as near a side, in place of half a bandwidth
FEW = 3  # dimensions in which even points find every mode that is worth it


@renamed_arguments(n_modes="n")
def find_modes(
    source: Any,
    n: int | None = None,
    *,
    bounds: Any = None,
    threshold: float = 6.0,
    random_state: RandomState = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The modes of an estimator's density or of a release, the highest first: places and values.

    Parameters
    ----------
    source : object
        An estimator with a `density`, a kernel-sum sketch or its release.
    n : int or None, default=None
        The most to tell (None: all).
    bounds : object, default=None
        Where to look (None: all of the public box).
    threshold : float, default=6.0
        From 0 up.
    random_state : int, Generator or None, default=None
        Of the places where the climbs begin.

    Returns
    -------
    tuple
        The modes of an estimator's density or of a release, the highest first: places and values.

    Notes
    -----
    **Guarantee.** Of any two modes told, the lower one stands above the lowest of fifteen values
    between them, and every one above the median of the box, by `threshold` standard deviations of
    the noise, half as many of the error of hashing, and a fiftieth of its value; so noise alone
    rarely makes one: measured, none of 60 releases of a single point had one elsewhere (2 to 6
    dimensions, epsilon 1). Two modes are more than a bandwidth apart. A mode within half a
    bandwidth of the public box's sides brings a UserWarning, unless it is known that no row was
    clipped. Only answers are used, so that the modes of a private estimator cost nothing further.

    References
    ----------
    .. [1] Pattern search: Hooke and Jeeves 1961.

    Examples
    --------
    >>> from sfumato.density import SketchDensity
    >>> points = np.random.default_rng(0).normal([[-2.0], [2.0]], 0.3, (2, 5000)).reshape(-1, 1)
    >>> model = SketchDensity(bandwidth=0.5, kernel="gaussian").fit(points)
    >>> places, values = find_modes(model, random_state=0)
    >>> sorted(round(float(place), 1) for place in places[:, 0])
    [-2.0, 2.0]
    """
    owner = "find_modes"
    n = optional(integer(1)).check(owner, "n", n)
    threshold = between(0, math.inf).check(owner, "threshold", threshold)
    field = field_of(owner, source, bounds)
    rng = check_random_state(owner, random_state)
    even = field.uniform(PROBES, rng)
    heights = field.values(even)
    starts = _starts(field, even, heights, rng)
    positions, values = _climbed(field, starts, rng)
    floor = float(np.median(heights))
    positions, values = _apart(positions, values, field.setting.bandwidth)
    kept = _clear(field, positions, values, floor, threshold)[:n]
    _warn_of_bounds(source, field, positions[kept])
    return positions[kept], field.density(values[kept])


def _starts(
    field: Field, even: np.ndarray, heights: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Places seen that are higher than all their neighbours seen, the highest of those."""
    from scipy.spatial import KDTree

    if field.dimension > FEW:  # even points are too far apart there
        even = by_population(field.values, field.bounds, PROBES // 4, rng)
        heights = field.values(even)
    near = KDTree(even).query(even, NEIGHBOURS)[1]
    peaks = np.flatnonzero(heights >= heights[near].max(axis=1))
    return even[peaks[np.argsort(-heights[peaks])][:STARTS]]


def _apart(
    positions: np.ndarray, values: np.ndarray, distance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Places in falling order of value, without those that are this near to a higher one."""
    order = np.argsort(-values, kind="stable")
    positions, values = positions[order], values[order]
    kept: list[int] = []
    free = np.ones(values.size, bool)
    while free.any():
        best = int(free.argmax())
        kept.append(best)
        free &= ((positions - positions[best]) ** 2).sum(axis=1) > distance**2
    return positions[kept], values[kept]


def _climbed(
    field: Field, starts: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """All starts, each moved to the best of the places around it until a fine step finds none."""
    low, high = np.array(field.bounds[0]), np.array(field.bounds[1])
    positions, values = starts.copy(), field.values(starts)
    steps = np.full(len(starts), field.setting.bandwidth)
    while (active := np.flatnonzero(steps > field.setting.bandwidth / FINEST)).size:
        around = _directions(field.dimension, rng)
        tried = positions[active, None] + steps[active, None, None] * around
        tried = np.clip(tried, low, high)
        told = field.values(tried.reshape(-1, low.size)).reshape(active.size, -1)
        best = told.argmax(axis=1)
        found = told[np.arange(active.size), best]
        up = found > values[active]
        positions[active[up]] = tried[up, best[up]]
        values[active[up]] = found[up]
        steps[active[~up]] /= 2
    return positions, values


def _directions(dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Both ways along orthogonal axes, turned at random; in many dimensions, some of them."""
    turned = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0][: DIRECTIONS // 2]
    return np.concatenate([turned, -turned])


def _clear(
    field: Field, positions: np.ndarray, values: np.ndarray, floor: float, threshold: float
) -> list[int]:
    """Which of the places, highest first, stand out from the floor and from those kept before."""
    shares = np.linspace(0, 1, BETWEEN + 2)[1:-1, None]
    kept: list[int] = []
    for here, value in enumerate(values):
        rise = max(field.rise(value, threshold), SHARE * value)
        if value < floor + rise:
            break
        lines = [positions[here] + shares * (positions[other] - positions[here]) for other in kept]
        valleys = field.values(np.concatenate(lines)).reshape(-1, BETWEEN) if lines else np.empty(0)
        if not lines or (valleys.min(axis=1) < value - rise).all():
            kept.append(here)
    return kept


def _warn_of_bounds(source: Any, field: Field, positions: np.ndarray) -> None:
    """Say so where modes are at the sides, to which wrong bounds clip all rows."""
    if getattr(getattr(source, "_told", source), "clipped", None) == 0:
        return
    low, high = map(np.array, field.setting.bounds)
    near = np.minimum(field.setting.bandwidth / 2, SIDE * (high - low))
    found = int(((positions < low + near) | (positions > high - near)).any(axis=1).sum())
    if found:
        warnings.warn(
            f"find_modes: {found} of {len(positions)} modes at the bounds: are the bounds in the "
            "unit of the data? Rows outside are clipped to them.",
            UserWarning,
            stacklevel=4,  # whoever called find_modes, past the decorator of its old names
        )
