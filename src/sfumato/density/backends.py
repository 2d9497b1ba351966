"""Which sketch answers for an estimator: a rule of public numbers, never of the data."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.bounds import Pair
from sfumato.density.combined import CombinedRelease
from sfumato.sketch.kernel_sums.slice_table import bins_fit, usual_resolution

__all__ = ["TYPES", "Setting", "choose", "described", "hash_error", "make", "suggested_rows"]

NAMES = {"Race": "race", "KernelGrid": "grid", "KernelSlices": "slices", "KernelFourier": "fourier"}
TYPES = {backend: name for name, backend in NAMES.items()}
GRID_DIMENSIONS = 3
NODES_PER_BANDWIDTH = (12.0, 3.0, 3.0)  # by the dimensions
NODES = 2**22  # of a grid, at most: 32 MiB
LEAST = 0.02  # epsilon for which the noise of a grid in three columns fits its cells
USUAL_SIZE = 2**16  # points, where nobody guesses
FEWEST = 16  # rows
ROWS = {"race": (0.04, 1, 2048), "slices": (0.02, 1, 1024), "fourier": (0.12, 2, 4096)}


@dataclass(frozen=True)
class Setting:
    """Everything public that decides a sketch: two equal settings make sketches that merge."""

    backend: str
    kernel: str
    bandwidth: float
    bounds: Pair
    rows: int
    width: int
    seed: int

    @property
    def dimension(self) -> int:
        """How many coordinates a point has."""
        return len(self.bounds[0])

    def parameters(self) -> dict[str, Any]:
        """Those of an estimator that has this setting."""
        return dict(
            backend=self.backend,
            kernel=self.kernel,
            bandwidth=self.bandwidth,
            bounds=self.bounds,
            rows=self.rows,
            width=self.width,
            random_state=self.seed,
        )


def choose(
    owner: str,
    *,
    backend: str,
    kernel: str,
    bandwidth: float,
    bounds: Pair,
    rows: int | None,
    width: int,
    epsilon: float | None,
    delta: float,
    expected_size: int | None,
    seed: int,
    contributions: int | None = None,
) -> Setting:
    """The setting that these public numbers ask for; "auto" and rows None are decided here."""
    if backend == "auto":
        each = math.inf if epsilon is None else epsilon / (2 * (contributions or 1))
        lines = rows or suggested_rows("slices", epsilon, delta, expected_size or USUAL_SIZE)
        backend = _best(kernel, bandwidth, bounds, each, lines)
    if backend == "race" and kernel != "p-stable":
        raise ValueError(
            f"{owner}: backend 'race' has the kernel 'p-stable' only, not {kernel!r}; take 'auto'."
        )
    rows = rows or suggested_rows(backend, epsilon, delta, expected_size or USUAL_SIZE)
    return Setting(backend, kernel, bandwidth, bounds, rows, width, seed)


def suggested_rows(backend: str, epsilon: float | None, delta: float, size: int) -> int:
    """How many rows make the error least, for a public guess of the number of points.

    Hashing leaves an error of about c / sqrt(rows) in a mean kernel value (see `_best`). Laplace
    noise adds sqrt(2 v rows) / (epsilon size), with v = 1 for counts and 2 for waves; so the best
    rows are c epsilon size / sqrt(2 v), as in corollary 3.5 of Coleman and Shrivastava 2021.
    Gaussian noise, or none, does not grow with the rows: then the most.
    """
    if backend == "grid":
        return 1
    spread, variance, most = ROWS[backend]
    if epsilon is None or delta:
        return most
    best = math.ceil(spread * epsilon * size / math.sqrt(2 * variance))
    return min(max(best, FEWEST), most)


def _best(kernel: str, bandwidth: float, bounds: Pair, epsilon: float, lines: int) -> str:
    """The backend of the smallest error, as it was measured on mixtures of Gaussians.

    Mean kernel values of 20,000 and 40,000 points were off by 0.01 / sqrt(rows) with slices and by
    0.04 with race in 3 dimensions; by 0.04 with both in 5 and 10, where race is faster; of the
    smoother kernels, slices and fourier are alike there, and fourier is faster. Columns of very
    different scale take these too, where slices would have too many bins. epsilon: of one row,
    where a unit may exchange its rows; lines: of slices.
    """
    roomy = len(bounds[0]) < GRID_DIMENSIONS or kernel == "gaussian" or epsilon >= LEAST
    if roomy and _nodes(bandwidth, bounds) <= NODES:
        return "grid"
    step = bandwidth / usual_resolution(len(bounds[0]))
    if len(bounds[0]) <= GRID_DIMENSIONS and bins_fit(step, bounds, lines):
        return "slices"
    return "race" if kernel == "p-stable" else "fourier"


def _nodes(bandwidth: float, bounds: Pair) -> float:
    """How many nodes a grid needs, about; infinite past the dimensions that it has."""
    if len(bounds[0]) > GRID_DIMENSIONS:
        return math.inf
    sides = ((high - low) / bandwidth for low, high in zip(*bounds, strict=True))
    each = NODES_PER_BANDWIDTH[len(bounds[0]) - 1]
    return math.prod(each * side + 1 for side in sides)


def make(setting: Setting) -> Any:
    """An empty sketch of this setting."""
    place = setting.bandwidth, setting.bounds
    if setting.backend == "race":
        from sfumato.sketch.kernel_sums.race import Race
        from sfumato.sketch.lsh import Euclidean

        return Race(setting.rows, setting.width, Euclidean(*place), seed=setting.seed)
    if setting.backend == "grid":
        from sfumato.sketch.kernel_sums.grid import KernelGrid

        return KernelGrid(*place, kernel=setting.kernel, seed=setting.seed)
    if setting.backend == "slices":
        from sfumato.sketch.kernel_sums.slices import KernelSlices

        return KernelSlices(*place, rows=setting.rows, kernel=setting.kernel, seed=setting.seed)
    from sfumato.sketch.kernel_sums.fourier import KernelFourier

    return KernelFourier(*place, rows=setting.rows, kernel=setting.kernel, seed=setting.seed)


def described(stored: Any) -> Setting:
    """The setting of a kernel-sum sketch, of its release, or of releases that answer together."""
    stored = stored.releases[0] if isinstance(stored, CombinedRelease) else stored
    name = type(stored).__name__.removeprefix("Released")
    family = stored.kernel if name == "Race" else stored
    if name not in NAMES or not hasattr(family, "bandwidth"):
        kind = f"{name} over {type(family).__name__}" if name == "Race" else type(stored).__name__
        raise TypeError(
            "density: there must be a Race over Euclidean, a KernelGrid, KernelSlices or "
            f"KernelFourier, or a release of one, not a {kind}."
        )
    return Setting(
        NAMES[name],
        "p-stable" if name == "Race" else stored.kernel,
        family.bandwidth,
        family.bounds,
        getattr(stored, "rows", 1),
        getattr(stored, "width", 1024),
        stored.seed,
    )


def hash_error(setting: Setting, values: np.ndarray) -> np.ndarray:
    """What rows leave of error in mean kernel values, about; a grid has none.

    A row that counts is right with chance v at most, one of waves has a variance of 1 / 2 at most.
    Half of the first is taken: stratified rows that count were measured at 0.2 to 0.5 of it.
    """
    if setting.backend == "grid":
        return np.zeros(len(values))
    share = np.clip(values, 0.0, 1.0)
    each = share * (1 - share) / 4 if setting.backend == "race" else np.full(len(values), 0.5)
    return np.asarray(np.sqrt(each / setting.rows))
