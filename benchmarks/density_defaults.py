"""Private kernel means by default settings, beside Laplace histograms and a uniform density.

    python benchmarks/density_defaults.py [WORD ...]
        writes benchmarks/results/density_defaults.json; words choose among the cases, whose rows
        alone are then replaced

Errors are mean relative errors of the mean kernel value at held-out points, against brute force,
and mean absolute errors over the mean value; of all draws of ours, and means over those of others.
A histogram has equal cells along every axis, Laplace noise of scale 1 / epsilon, points uniform
within a cell, and as many cells as were best in hindsight, which no release knows. The uniform
density is that of the box, without any data; the constant is the best one in hindsight. A part is
the unbiased release of the same sketch with all of epsilon. Settings were chosen on generated
worlds of other seeds; the real tables were not used.
"""

import json
import sys
import warnings
from dataclasses import dataclass, replace

import numpy as np
from _density_data import COVER, cover, magic, skin
from _measure import RESULTS, write
from scipy.special import ndtr

from sfumato.density import SketchDensity
from sfumato.density.backends import choose, make
from sfumato.density.evaluation_grid import field_of
from sfumato.sketch.kernel_sums.radial_kernels import profile

SIZE, QUERIES = 40_000, 150
DRAWS = {1: 27, 2: 27, 3: 12}  # releases of each case, by columns; else FEW
FEW = 6
EPSILONS = (0.1, 1.0)
KERNELS = ("p-stable", "gaussian")
BANDWIDTH = 0.05  # of the longest side of the box
WIDE = 0.25  # of a Gaussian in nine columns, where means would be about 1e-9
BINS = {
    1: (2, 4, 10, 20, 50, 100, 200),
    2: (2, 3, 5, 7, 10, 20, 40),
    3: (2, 3, 4, 5, 7, 10, 20),
    4: (2, 3, 4, 5, 7, 10),
}
WITHIN = 3_000  # points in all cells together that stand for uniform ones, at most
BLOCK = 50
FOUND = RESULTS / "density_defaults.json"


@dataclass(frozen=True)
class World:
    """Points, their public bounds and held-out queries."""

    name: str
    points: np.ndarray
    queries: np.ndarray
    bounds: tuple[np.ndarray, np.ndarray]
    share: float = BANDWIDTH

    @property
    def bandwidth(self):
        return self.share * float((self.bounds[1] - self.bounds[0]).max())


def uniform(rng, count, columns):
    return rng.random((count, columns))


def sloped(rng, count, columns):
    """Points with a slight slope along every axis."""
    slope = rng.uniform(-0.3, 0.3, columns)
    points = rng.random((4 * count, columns))
    heights = (1 + (points - 0.5) @ slope * 2) / (1 + np.abs(slope).sum())
    return points[rng.random(len(points)) < heights / heights.max()][:count]


def clustered(rng, count, columns):
    """A mixture of four normal clusters of different widths and weights."""
    centres = rng.uniform(0.2, 0.8, (4, columns))
    widths = rng.uniform(0.02, 0.12, (4, columns))
    which = rng.choice(4, count, p=rng.dirichlet(np.full(4, 4.0)))
    return centres[which] + rng.normal(size=(count, columns)) * widths[which]


def line(rng, count, columns):
    """Points near a smooth closed curve; in one column, near five values."""
    if columns == 1:
        return rng.choice(rng.uniform(0.1, 0.9, 5), count)[:, None] + rng.normal(
            0, 0.004, (count, 1)
        )
    along = rng.random(count)[:, None] * 2 * np.pi
    waves, starts = rng.integers(1, 3, columns), rng.uniform(0, 2 * np.pi, columns)
    return 0.5 + 0.4 * np.sin(along * waves + starts) + rng.normal(0, 0.01, (count, columns))


KINDS = {"uniform": uniform, "sloped": sloped, "clustered": clustered, "line": line}


def generated(kind, columns, seed, size=SIZE):
    """A world in the box [0, 10]^columns."""
    rng = np.random.default_rng([seed, columns, *map(ord, kind)])
    points = np.clip(KINDS[kind](rng, size + QUERIES, columns), 0, 1) * 10
    box = np.zeros(columns), np.full(columns, 10.0)
    return World(f"{kind}, {columns} columns", points[QUERIES:], points[:QUERIES], box)


def kernel_sums(kernel, bandwidth, points, masses, queries):
    """Sums of masses times kernels at queries, by brute force."""
    stops = np.linspace(0, 1, 2**14) ** 2
    longest = float(np.linalg.norm(np.ptp(np.vstack([points, queries]), axis=0))) / bandwidth + 1e-9
    table, out = profile(kernel, stops * longest), np.empty(len(queries))
    for start in range(0, len(queries), BLOCK):
        part = queries[start : start + BLOCK]
        squares = (part**2).sum(1)[:, None] + (points**2).sum(1) - 2 * part @ points.T
        position = np.sqrt(np.sqrt(np.maximum(squares, 0)) / bandwidth / longest) * (2**14 - 1)
        below = np.minimum(position.astype(np.int32), 2**14 - 2)
        values = table[below] + (position - below) * (table[below + 1] - table[below])
        out[start : start + BLOCK] = values @ masses
    return out


class Histogram:
    """Kernel sums of points that are uniform within equal cells of a box."""

    def __init__(self, world, kernel, bins):
        self.world, self.bins = world, bins
        low, high = world.bounds
        columns = len(low)
        self.edges = [np.linspace(a, b, bins + 1) for a, b in zip(low, high, strict=True)]
        self.counts = np.histogramdd(np.clip(world.points, low, high), self.edges)[0]
        if kernel == "gaussian":
            parts = []
            for axis, edges in enumerate(self.edges):
                at = (edges - world.queries[:, axis : axis + 1]) / world.bandwidth
                mass = np.diff(ndtr(at), axis=1) * np.sqrt(2 * np.pi) * world.bandwidth
                parts.append(mass / (edges[1] - edges[0]))
            letters = "abcd"[:columns]
            pattern = ",".join(f"q{a}" for a in letters) + f"->q{letters}"
            self.matrix = np.einsum(pattern, *parts).reshape(len(world.queries), -1)
            return
        cells = bins**columns
        each = max(1, WITHIN // cells)
        rng = np.random.default_rng(0)
        position = np.stack(np.unravel_index(np.arange(cells), (bins,) * columns), axis=1)
        self.matrix = np.zeros((len(world.queries), cells))
        for _ in range(min(each, 64) if cells > 64 else 1):
            if cells > 64:
                inside = position + rng.random((cells, columns))
                add = _kernel_matrix(kernel, world, low + inside / bins * (high - low))
                self.matrix += add / min(each, 64)
            else:
                for cell in range(cells):
                    inside = position[cell] + rng.random((each, columns))
                    at = low + inside / bins * (high - low)
                    self.matrix[:, cell] = kernel_sums(
                        kernel, world.bandwidth, at, np.full(each, 1 / each), world.queries
                    )

    def means(self, epsilon, seed):
        noise = np.random.default_rng(seed).laplace(0, 1 / epsilon, self.counts.shape)
        masses = self.counts + noise
        return self.matrix @ masses.ravel() / max(masses.sum(), 1.0)


def _kernel_matrix(kernel, world, points):
    from scipy.spatial.distance import cdist

    far = cdist(world.queries, points) / world.bandwidth
    stops = np.linspace(0, 1, 2**12) ** 2 * float(far.max())
    return np.interp(far, stops, profile(kernel, stops))


def errors(found, true):
    off = np.abs(found - true)
    return float((off / true).mean()), float(off.mean() / true.mean())


def measured(world, kernel, epsilon, options=None):
    """Errors of the default, the best histogram, uniform and constant."""
    columns, true = len(world.bounds[0]), truth(world, kernel)
    draws = range(DRAWS.get(columns, FEW))
    result = {"world": world.name, "kernel": kernel, "epsilon": epsilon}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = [_ours(world, kernel, epsilon, seed, options or {}) for seed in draws]
    result["warned"] = any("noise" in str(each.message) for each in caught)
    result["ours"] = [errors(each, true) for each in ours]
    result["part"] = [errors(_part(world, kernel, epsilon, s), true) for s in draws]
    result["histograms"] = {}
    if columns > 4:
        result["uniform"] = errors(_uniform(world, kernel), true)
        result["constant"] = [
            min(errors(np.full_like(true, c), true)[which] for c in true) for which in (0, 1)
        ]
        return result
    for bins in BINS[columns]:
        made = histogram(world, kernel, bins)
        result["histograms"][bins] = [errors(made.means(epsilon, s), true) for s in draws]
    result["uniform"] = errors(histogram(world, kernel, 1).means(1e9, 0), true)
    result["constant"] = [
        min(errors(np.full_like(true, c), true)[which] for c in true) for which in (0, 1)
    ]
    return result


_MEMO = {}


def histogram(world, kernel, bins):
    key = (id(world), kernel, bins)
    if key not in _MEMO:
        _MEMO[key] = Histogram(world, kernel, bins)
    return _MEMO[key]


def truth(world, kernel):
    key = (id(world), kernel)
    if key not in _MEMO:
        masses = np.full(len(world.points), 1 / len(world.points))
        low, high = world.bounds
        _MEMO[key] = kernel_sums(
            kernel, world.bandwidth, np.clip(world.points, low, high), masses, world.queries
        )
    return _MEMO[key]


def _ours(world, kernel, epsilon, seed, options):
    model = SketchDensity(
        bandwidth=world.bandwidth,
        kernel=kernel,
        epsilon=epsilon,
        bounds=tuple(map(tuple, world.bounds)),
        random_state=seed,
        **options,
    ).fit(world.points)
    return field_of("benchmarks", model).values(world.queries)


def _part(world, kernel, epsilon, seed):
    """Mean kernel values by the unbiased release of the default's own sketch."""
    low, high = (tuple(map(float, side)) for side in world.bounds)
    setting = choose(
        "benchmarks",
        backend="auto",
        kernel=kernel,
        bandwidth=world.bandwidth,
        bounds=(low, high),
        rows=None,
        width=1024,
        epsilon=epsilon,
        delta=0.0,
        expected_size=None,
        seed=seed,
    )
    return make(setting).update(world.points).release(epsilon).mean(world.queries)


def _uniform(world, kernel):
    """Mean kernel values of uniform points of the box."""
    low, high = world.bounds
    points = low + np.random.default_rng(0).random((WITHIN, len(low))) * (high - low)
    masses = np.full(WITHIN, 1 / WITHIN)
    return kernel_sums(kernel, world.bandwidth, points, masses, world.queries)


def real():
    """Columns of real tables, as many as a name says, within their public bounds."""
    skin_box = (np.zeros(3), np.full(3, 255.0))
    low, high = (np.asarray(side, float) for side in COVER)
    magic_box = (np.full(10, -4.0), np.full(10, 4.0))
    for name, points, box, columns in (
        ("skin", skin().points, skin_box, (0,)),
        ("skin", skin().points, skin_box, (0, 2)),
        ("skin", skin().points, skin_box, (0, 1, 2)),
        ("magic", magic().points, magic_box, (0, 3)),
        ("magic", magic().points, magic_box, (0, 3, 8)),
        ("magic", magic().points, magic_box, (0, 3, 5, 8)),
        ("cover", cover().points, (low, high), (1,)),
        ("cover", cover().points, (low, high), (1, 6)),
        ("cover", cover().points, (low, high), (1, 6, 7, 8)),
    ):
        taken = list(columns)
        scaled = (points[:, taken] - box[0][taken]) / (box[1][taken] - box[0][taken])
        order = np.random.default_rng(5).permutation(len(scaled))[: SIZE + QUERIES]
        drawn = np.clip(scaled[order], 0, 1) * 10
        sides = np.zeros(len(taken)), np.full(len(taken), 10.0)
        said = f"{name}, {len(taken)} columns"
        yield World(said, drawn[QUERIES:], drawn[:QUERIES], sides)


def summary(row):
    """Means over draws, and the ratio to the best of all others, by both errors."""
    ours = np.mean(row["ours"], axis=0)
    best = np.minimum(row["uniform"], row["constant"])
    best = np.minimum(best, np.mean(row["part"], axis=0))
    for each in row["histograms"].values():
        best = np.minimum(best, np.mean(each, axis=0))
    return {"error": list(map(float, ours)), "ratio": list(map(float, ours / best))}


def _position(row):
    """Generated worlds by columns, then tables by name."""
    name, columns = row["world"].removesuffix(" columns").split(", ")
    if name in KINDS:
        return 0, int(columns), list(KINDS).index(name)
    return 1, ("skin", "magic", "cover").index(name), int(columns)


def main(words):
    rows = json.loads(FOUND.read_text())["rows"] if words else []
    worlds = [
        (kind, columns, seed) for columns in (1, 2, 3, 4, 9) for kind in KINDS for seed in (11,)
    ]
    made = [lambda w=w: generated(*w) for w in worlds] + [lambda w=w: w for w in real()]
    for make_world in made:
        world = make_world()
        if words and not any(word in world.name for word in words):
            continue
        for kernel in KERNELS:
            if kernel == "gaussian" and len(world.bounds[0]) > 4:
                world = replace(world, share=WIDE)
            for epsilon in EPSILONS:
                row = measured(world, kernel, epsilon)
                row |= summary(row)
                row["part"] = list(map(float, np.mean(row["part"], axis=0)))
                row["histograms"] = {
                    str(bins): list(map(float, np.mean(each, axis=0)))
                    for bins, each in row["histograms"].items()
                }
                print(
                    f"{world.name:<24}{kernel:<10}{epsilon:<5g}error {row['error'][0]:.4f}  "
                    f"ratio to the best of all {row['ratio'][0]:.2f} ({row['ratio'][1]:.2f})",
                    flush=True,
                )
                same = (row["world"], row["kernel"], row["epsilon"])
                rows = [r for r in rows if (r["world"], r["kernel"], r["epsilon"]) != same]
                rows.append(row)
        _MEMO.clear()
        rows.sort(key=_position)
        write("density_defaults", {"points": SIZE, "queries": QUERIES, "rows": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
