"""Matrices with a known structure, for tests of decompositions."""

import numpy as np
from scipy import sparse

# Users and films of the course: three of science fiction, then two of romance.
FILMS = np.array(
    [
        [1, 1, 1, 0, 0],
        [3, 3, 3, 0, 0],
        [4, 4, 4, 0, 0],
        [5, 5, 5, 0, 0],
        [0, 2, 0, 4, 4],
        [0, 0, 0, 5, 5],
        [0, 1, 0, 2, 2],
    ],
    float,
)


def world(rows=120, columns=70, seed=0, density=0.2):
    """A sparse matrix with a decaying spectrum."""
    draws = np.random.default_rng(seed)
    made = draws.normal(size=(rows, 8)) @ (draws.normal(size=(8, columns)) * 3)
    made += draws.normal(size=made.shape)
    return sparse.csr_array(np.where(draws.random(made.shape) < density, made, 0))
