"""Directions of random projections, derived from a seed: never stored, equal on every machine.

Coordinate i of a vector is the integer key i, and its entries in all directions are derived from
the hash of that key (kernels/sketch/codes.py), so a direction is the same in every sketch.
"""

from collections.abc import Callable
from weakref import WeakValueDictionary

import numpy as np

from sfumato.kernels.alignment import aligned
from sfumato.kernels.seed_keys import integer_hashes
from sfumato.kernels.sketch import codes as codebooks
from sfumato.kernels.sketch import projections as frames
from sfumato.kernels.sketch.layout import PANEL

__all__ = [
    "ENTRIES",
    "MOST_ENTRIES",
    "dense",
    "directions",
    "fill_entries",
    "panel_count",
    "product",
    "project_all",
]

Fill = Callable[[slice, np.ndarray], None]

MOST_ENTRIES = 2**26  # of a direction matrix that stays in memory: 512 MiB
BLOCK_ENTRIES = 2**16  # of a codebook that is made, used and dropped: 512 KiB
ENTRIES = {
    "gaussian": "gaussian",
    "cauchy": "cauchy",
    "sign": "signs",
    "achlioptas": "ternary",
}  # kernels
_alive: WeakValueDictionary[tuple[str, int, int, int], np.ndarray] = WeakValueDictionary()


def directions(kind: str, count: int, dimension: int, seed: int) -> np.ndarray:
    """Panels of `count` directions in `dimension` coordinates, shared by all sketches in memory.

    The kind is one of ENTRIES, or a kind of Gaussian directions: "orthogonal", "super-bit"
    (orthogonal in batches of `dimension`), "frame" (a tight frame of unit vectors) or "tight"
    (orthonormal columns: a tight frame of unequal lengths).

    >>> dense(directions("sign", 2, 3, seed=0), 2).shape
    (2, 3)
    """
    key = kind, count, dimension, seed
    panels = _alive.get(key)
    if panels is None:
        panels = _alive[key] = _made(kind, count, dimension, seed)
    return panels


def dense(panels: np.ndarray, count: int) -> np.ndarray:
    """Convert panels to a matrix with one direction per row."""
    return np.ascontiguousarray(panels.transpose(0, 2, 1).reshape(-1, panels.shape[1])[:count])


def project_all(rows: np.ndarray, panels: np.ndarray) -> np.ndarray:
    """Multiply every row by every direction; the last columns are padding of the last panel."""
    out = np.zeros((len(rows), PANEL * len(panels)))
    frames.project(rows, panels, out)
    return out


def product(rows: np.ndarray, count: int, fill: Fill) -> np.ndarray:
    """Multiply rows by a codebook of `count` entries per key, made in blocks.

    `fill(part, out)` writes the panels of the keys in a slice.
    """
    out = np.zeros((len(rows), PANEL * panel_count(count)))
    step = max(1, BLOCK_ENTRIES // out.shape[1])
    for start in range(0, rows.shape[1], step):
        part = slice(start, min(start + step, rows.shape[1]))
        entries = aligned((panel_count(count), part.stop - start, PANEL), np.float64)
        fill(part, entries)
        frames.project(np.ascontiguousarray(rows[:, part]), entries, out)
    return out[:, :count]


def fill_entries(kind: str, keys: np.ndarray, out: np.ndarray) -> None:
    """Fill panels with the entries of a kind, from the hashes of their coordinates."""
    getattr(codebooks, ENTRIES[kind])(keys, out)


def panel_count(count: int) -> int:
    return -(-count // PANEL)


def _made(kind: str, count: int, dimension: int, seed: int) -> np.ndarray:
    if kind in ENTRIES:
        return _entries(kind, dimension, count, seed)
    if kind == "frame":
        return _panelled(_frame(count, dimension, seed))
    if kind == "tight":
        return _panelled(_tight(count, dimension, seed))
    batches = dense(_entries("gaussian", dimension, count, seed), count)
    for start in range(0, count, dimension):
        batch = batches[start : start + dimension]
        batch[...] = _orthonormal(_panelled(batch), len(batch))
    return _panelled(batches)


def _entries(kind: str, keys: int, count: int, seed: int) -> np.ndarray:
    out = aligned((panel_count(count), keys, PANEL), np.float64)
    fill_entries(kind, integer_hashes(keys, seed), out)
    out[-1, :, count - PANEL * (len(out) - 1) :] = 0  # so that no padding direction sets a bit
    return out


def _frame(count: int, dimension: int, seed: int) -> np.ndarray:
    """A matrix W of unit rows with W^T W = (count / dimension) I."""
    matrix = _tight(count, dimension, seed)
    frames.even_rows(matrix, np.empty(count))
    matrix *= np.sqrt(count / dimension)
    return matrix


def _tight(count: int, dimension: int, seed: int) -> np.ndarray:
    """A matrix of orthonormal columns: the orthogonal factor of a Gaussian matrix."""
    columns = _orthonormal(_entries("gaussian", count, dimension, seed), dimension)
    return np.ascontiguousarray(columns.T)


def _orthonormal(panels: np.ndarray, count: int) -> np.ndarray:
    done = np.empty((count, panels.shape[1]))
    for _ in range(2):  # the second pass removes rounding errors
        frames.orthonormalise(panels, count, done)
    return done


def _panelled(matrix: np.ndarray) -> np.ndarray:
    count, dimension = matrix.shape
    padded = np.zeros((PANEL * panel_count(count), dimension))
    padded[:count] = matrix
    out = aligned((panel_count(count), dimension, PANEL), np.float64)
    out[...] = padded.reshape(-1, PANEL, dimension).transpose(0, 2, 1)
    return out
