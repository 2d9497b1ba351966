"""Atoms learned from vectors: levels along their principal axes, then refitted to their codes."""

from typing import NamedTuple, Self

import numpy as np

from sfumato.kernels import successive, top
from sfumato.kernels.lanes import aligned
from sfumato.retrieve._frames import Product

__all__ = ["Search", "levels", "refined"]

BATCH = 1024
# The uniform quantizer of 2**n levels for a Gaussian of variance 1, n from 0 to 8: squared error
# and distance of levels (Max 1960, table II). Beyond, a bit halves the distance.
ERRORS = (1.0, 0.3634, 0.1188, 0.03744, 0.01154, 0.003495, 0.001041, 0.0003035, 0.0000870)
STEPS = (0.0, 1.596, 0.9957, 0.5860, 0.3352, 0.1881, 0.1041, 0.05687, 0.03076)


class Search(NamedTuple):
    """What choosing codes of given atoms needs: their inner products, laid out for the kernel."""

    atoms: np.ndarray
    gram: np.ndarray
    products: Product

    @classmethod
    def of(cls, atoms: np.ndarray) -> Self:
        """The search among atoms, float32 (bits, dimension), the longest first."""
        wide = np.pad(atoms.astype(np.float64), ((0, -len(atoms) % top.WIDE), (0, 0)))
        gram = aligned((len(wide), len(wide)), np.float32)
        gram[...] = wide @ wide.T
        return cls(atoms, gram, Product.of(atoms))

    def codes(
        self, products: np.ndarray, along: np.ndarray, missing: np.ndarray, flips: int
    ) -> np.ndarray:
        """Sides of the codes of vectors, from their products with the atoms; see the kernel."""
        sides = aligned(products.shape, np.float32)
        successive.settle(self.gram, products, along, missing, len(self.atoms), flips, sides)
        return sides


def levels(rows: np.ndarray, bits: int) -> np.ndarray:
    """Atoms, float32 (bits, dimension), that quantize vectors axis by axis, the longest first.

    Each bit goes to the principal axis whose squared error it lowers most, as for a Gaussian; an
    axis of n bits has 2**n equally distant levels. Of few rows the variances are drawn together,
    as if as many rows as there are dimensions had been alike in all directions.
    """
    squares, dimension = rows.T.astype(np.float64) @ rows, rows.shape[1]
    ridge = np.trace(squares) / len(rows) * np.eye(dimension)
    variances, axes = np.linalg.eigh((squares + ridge) / (len(rows) + dimension))
    counts = _allocated(variances, bits)
    axis = np.repeat(np.arange(dimension), counts)
    place = np.arange(bits) - np.repeat(np.cumsum(counts) - counts, counts)
    lengths = np.sqrt(variances[axis]) * _step(counts)[axis] * 2.0 ** (place - 1)
    return _longest_first(axes.T[axis] * lengths[:, None])


def refined(
    rows: np.ndarray, atoms: np.ndarray, flips: int, rounds: int
) -> tuple[np.ndarray, list[float]]:
    """Atoms refitted by least squares to the codes that they give, and the errors on the way.

    Guarantee: the errors, mean squares over every fifth row, fall, though atoms are fitted to the
    other rows only; the first is that of the atoms given, the last that of the atoms returned. It
    ends after `rounds` refits, or before one that would help no more.
    """
    judges = np.arange(len(rows)) % 5 == 0
    held, others = rows[judges], rows[~judges]
    errors, kept = [np.inf], atoms
    for _ in range(rounds + 1):
        search = Search.of(atoms)
        error, _, _ = _coded(held, search, flips)
        if error >= errors[-1]:
            break
        kept = atoms
        errors.append(error)
        _, gram, sums = _coded(others, search, flips)
        # The old atoms weigh as much as one row a bit: atoms that few codes tell apart stay.
        pull = len(atoms) * np.eye(len(atoms))
        atoms = _longest_first(np.linalg.solve(gram + pull, sums + len(atoms) * atoms))
    return kept, errors[1:]


def _coded(rows: np.ndarray, search: Search, flips: int) -> tuple[float, np.ndarray, np.ndarray]:
    """The mean squared error of rows, and the sums of b b^T and b r^T over their codes b."""
    bits, dimension = search.atoms.shape
    error, gram, sums = 0.0, np.zeros((bits, bits)), np.zeros((bits, dimension))
    for start in range(0, len(rows), BATCH):
        part = rows[start : start + BATCH]
        filled = np.pad(part, ((0, -len(part) % top.ABREAST), (0, 0)))
        products = search.products(filled)
        nowhere = np.zeros(len(filled), np.float32)
        sides = search.codes(products, np.zeros_like(products), nowhere, flips)
        chosen = sides[: len(part), :bits]
        error += float(np.square(part - chosen @ search.atoms, dtype=np.float64).sum())
        gram += chosen.T @ chosen
        sums += chosen.T @ part
    return error / len(rows), gram, sums


def _allocated(variances: np.ndarray, bits: int) -> np.ndarray:
    """How many bits each axis gets."""
    counts = np.zeros(len(variances), np.int64)
    gains = variances * (_error(counts) - _error(counts + 1))
    for _ in range(bits):
        k = int(np.argmax(gains))
        counts[k] += 1
        n = counts[k : k + 1]
        gains[k] = variances[k] * (_error(n) - _error(n + 1))[0]
    return counts


def _error(counts: np.ndarray) -> np.ndarray:
    last = len(ERRORS) - 1
    return np.asarray(
        np.array(ERRORS)[np.minimum(counts, last)] / 4.0 ** np.maximum(counts - last, 0)
    )


def _step(counts: np.ndarray) -> np.ndarray:
    last = len(STEPS) - 1
    return np.asarray(
        np.array(STEPS)[np.minimum(counts, last)] / 2.0 ** np.maximum(counts - last, 0)
    )


def _longest_first(atoms: np.ndarray) -> np.ndarray:
    order = np.argsort(-np.square(atoms).sum(axis=1), kind="stable")
    return np.ascontiguousarray(atoms[order], np.float32)
