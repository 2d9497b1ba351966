"""The choice of the sketch behind an estimator, by public numbers and never by the data."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.core.bounds import Pair
from sfumato.density.combined import CombinedRelease
from sfumato.sketch.kernel_sums.slice_table import bins_fit, usual_resolution

__all__ = ["TYPES", "Setting", "choose", "described", "hash_error", "make", "suggested_rows"]

NAMES = {
    "Race": "race",
    "AdaptiveGrid": "grid",
    "KernelGrid": "grid",
    "KernelSlices": "slices",
    "KernelFourier": "fourier",
}
TYPES = {backend: name for name, backend in NAMES.items()}
SLICES_DIMENSIONS = 3
NODES_PER_BANDWIDTH = (12.0, 3.0, 3.0)  # in 1, 2 and 3 dimensions
COARSEST = 1.2  # nodes per bandwidth in 4 dimensions, at least
NODES = 2**22  # of a grid, at most: 32 MiB
LEAST = 0.02  # smallest epsilon for which the noise of a grid in 3 and 4 columns fits its cells
USUAL_SIZE = 2**16  # points, if expected_size is None
FEWEST = 16  # rows
# Hashing error times sqrt(rows), noise variance per unit of scale, and largest number of rows.
ROWS = {"race": (0.016, 1, 2048), "slices": (0.02, 1, 1024), "fourier": (0.12, 2, 4096)}


@dataclass(frozen=True)
class Setting:
    """The public configuration of a sketch: equal settings make sketches that merge."""

    backend: str
    kernel: str
    bandwidth: float
    bounds: Pair
    rows: int
    width: int
    seed: int

    @property
    def dimension(self) -> int:
        """Number of columns of a point."""
        return len(self.bounds[0])

    def parameters(self) -> dict[str, Any]:
        """The parameters of an estimator with this setting."""
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
    """The setting for these public numbers; resolves backend "auto" and rows None."""
    if backend == "auto":
        each = math.inf if epsilon is None else epsilon / (2 * (contributions or 1))
        lines = rows or suggested_rows("slices", epsilon, delta, expected_size or USUAL_SIZE)
        pure = epsilon is not None and not delta
        backend = _best(kernel, bandwidth, bounds, each, lines, pure)
    if backend == "race" and kernel != "p-stable":
        raise ValueError(
            f"{owner}: backend 'race' has the kernel 'p-stable' only, not {kernel!r}; take 'auto'."
        )
    rows = rows or suggested_rows(backend, epsilon, delta, expected_size or USUAL_SIZE)
    return Setting(backend, kernel, bandwidth, bounds, rows, width, seed)


def suggested_rows(backend: str, epsilon: float | None, delta: float, size: int) -> int:
    """The number of rows with the smallest error, for a public guess of the number of points.

    Hashing leaves an error of about c / sqrt(rows) in a mean kernel value (see `_best`); c of race
    is lower, since noise also hides what estimates are shrunk by: chosen by errors of default
    densities in 5 to 12 columns of generated worlds. Laplace
    noise adds sqrt(2 v rows) / (epsilon size), with v = 1 for counts and 2 for Fourier features.
    The error is smallest at rows = c epsilon size / sqrt(2 v), as in Corollary 3.5 (optimal number
    of rows) of Coleman and Shrivastava 2021. Gaussian noise, or none, does not grow with the rows:
    then the maximum.
    """
    if backend == "grid":
        return 1
    deviation, variance, most = ROWS[backend]
    if epsilon is None or delta:
        return most
    best = math.ceil(deviation * epsilon * size / math.sqrt(2 * variance))
    return min(max(best, FEWEST), most)


def _best(
    kernel: str, bandwidth: float, bounds: Pair, epsilon: float, lines: int, pure: bool
) -> str:
    """The backend with the smallest error, as measured on mixtures of Gaussians.

    Mean kernel values of 20,000 and 40,000 points gave errors of 0.01 / sqrt(rows) with slices and
    0.04 / sqrt(rows) with race in 3 dimensions, and 0.04 / sqrt(rows) with both in 5 and 10, where
    race is faster; for the smoother kernels slices and fourier have equal errors there, and fourier
    is faster. Columns of very different scale also take these, where slices would have too many
    bins. In 4 dimensions a grid has too few nodes to be as exact, but a fraction of the noise.
    epsilon: per row, if a unit may exchange its rows; lines: rows of slices; pure: whether the
    release has an epsilon and no delta.
    """
    columns = len(bounds[0])
    roomy = columns < 3 or (columns == 3 and kernel == "gaussian") or epsilon >= LEAST
    if roomy and (pure or columns < 4) and _grid_fits(kernel, bandwidth, bounds):
        return "grid"
    step = bandwidth / usual_resolution(columns)
    if columns <= SLICES_DIMENSIONS and bins_fit(step, bounds, lines):
        return "slices"
    return "race" if kernel == "p-stable" else "fourier"


def _grid_fits(kernel: str, bandwidth: float, bounds: Pair) -> bool:
    """Whether a grid has nodes that are close enough and not too many."""
    sides = [(high - low) / bandwidth for low, high in zip(*bounds, strict=True)]
    if len(sides) > 4:
        return False
    if len(sides) == 4:
        from sfumato.sketch.kernel_sums import grid_field

        return grid_field.usual_resolution(np.array(sides), kernel) >= COARSEST
    each = NODES_PER_BANDWIDTH[len(sides) - 1]
    return math.prod(each * side + 1 for side in sides) <= NODES


def make(setting: Setting) -> Any:
    """An empty sketch of this setting."""
    geometry = setting.bandwidth, setting.bounds
    if setting.backend == "race":
        from sfumato.sketch.kernel_sums.race import Race
        from sfumato.sketch.lsh import Euclidean

        return Race(setting.rows, setting.width, Euclidean(*geometry), seed=setting.seed)
    if setting.backend == "grid":
        from sfumato.sketch.kernel_sums.grid import KernelGrid

        return KernelGrid(*geometry, kernel=setting.kernel, seed=setting.seed)
    if setting.backend == "slices":
        from sfumato.sketch.kernel_sums.slices import KernelSlices

        return KernelSlices(*geometry, rows=setting.rows, kernel=setting.kernel, seed=setting.seed)
    from sfumato.sketch.kernel_sums.fourier import KernelFourier

    return KernelFourier(*geometry, rows=setting.rows, kernel=setting.kernel, seed=setting.seed)


def described(stored: Any) -> Setting:
    """The setting of a kernel-sum sketch, of its release, or of combined releases."""
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
    """Approximate standard deviation of the hashing error of mean kernel values; 0 for a grid.

    A counting row is right with probability at most v, a Fourier row has a variance of at most 1 /
    2. For race half of the first deviation is taken: stratified counting rows were measured at 0.2
    to 0.5 of it.
    """
    if setting.backend == "grid":
        return np.zeros(len(values))
    probability = np.clip(values, 0.0, 1.0)
    each = (
        probability * (1 - probability) / 4
        if setting.backend == "race"
        else np.full(len(values), 0.5)
    )
    return np.asarray(np.sqrt(each / setting.rows))
