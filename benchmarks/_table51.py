"""Table 5.1 of the thesis for one seed: how well, how evenly and how fast 16 bits hold a direction.

Vectors are uniform on the sphere of 8 dimensions. MSE is the mean of |x - x_hat|^2 = 2 - 2 cos for
unit vectors; entropy that of the codes as drawn, in bits; time that of encoding on one thread, the
best of three runs of all vectors (one run where it is slow).
"""

import time

import numpy as np

from sfumato.retrieve.encoders import factories as codes

DIMENSION, BITS, FLIPS = 8, 16, 5
THESIS = {
    "LSH": (0.434, 11.39),
    "LSH+frame": (0.207, 12.47),
    "anti-sparse": (0.142, 14.23),
    "optimal": (0.075, 15.75),
    "qoLSH": (0.107, 15.43),
}


def encoders(seed):
    """The five rows, all but the first on the same tight frame."""
    return {
        "LSH": codes.project_and_sign(BITS, seed=seed),
        "LSH+frame": codes.tight_frame(BITS, seed=seed),
        "anti-sparse": codes.anti_sparse(BITS, seed=seed),
        "optimal": codes.optimal(BITS, seed=seed),
        "qoLSH": codes.qolsh(BITS, flips=FLIPS, seed=seed),
    }


def sphere(count, seed):
    """Unit vectors uniform on the sphere; not the stream of numbers that frames come from."""
    vectors = np.random.default_rng([51, seed]).standard_normal((count, DIMENSION), np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def rows(seed=0, count=1_000_000):
    """One dict(method, mse, entropy, microseconds) for each row of the table."""
    vectors = sphere(count, seed)
    return [measured(name, each, vectors) for name, each in encoders(seed).items()]


def measured(method, encoder, vectors):
    encoder.fit(vectors[:1]).encode(vectors[:1000])
    seconds, encoded = [], None
    while len(seconds) < 3 and sum(seconds) < 2:
        start = time.perf_counter()
        encoded = encoder.encode(vectors)
        seconds.append(time.perf_counter() - start)
    cosine = np.einsum("ij,ij->i", encoder.reconstruct(encoded), vectors, dtype=np.float64)
    return {
        "method": method,
        "mse": float(np.mean(2 - 2 * cosine)),
        "entropy": entropy(encoded.words[:, 0]),
        "microseconds": min(seconds) / len(vectors) * 1e6,
    }


def entropy(words):
    """Of the codes as they were drawn, in bits."""
    share = np.bincount(words.astype(np.int64)) / len(words)
    share = share[share > 0]
    return float(-(share * np.log2(share)).sum())
