"""Accuracy of MinHash-128 beside the binomial ideal, on pairs of sets with a known similarity.

    python benchmarks/jaccard.py    writes benchmarks/results/jaccard.json

For J = 0.1 to 0.9: root mean square error over sqrt(J (1 - J) / 128), and the mean error in its own
standard errors (bias), over 4000 pairs of sets whose union has 1000 keys (and 200).
"""

import numpy as np
from _measure import write

from sfumato.sketch import MinHash

PAIRS, CHUNK, MINIMA = 4000, 500, 128


def estimates(kind, union, share, seed):
    """Estimated similarities of pairs whose sets share so many of the keys of their union."""
    sketch = MinHash(MINIMA, kind=kind, seed=seed)
    alone = (union - share) // 2
    keys = np.random.default_rng(seed).integers(0, 2**62, (CHUNK, union))
    left, right = keys[:, : share + alone], np.delete(keys, np.s_[share : share + alone], axis=1)

    def signatures(sets):
        return sketch.signatures(sets.ravel(), np.arange(CHUNK + 1) * sets.shape[1])

    return sketch.similarities(signatures(left), signatures(right))


def row(kind, union, tenths):
    share = union * tenths // 10
    truth, ideal = share / union, np.sqrt(share / union * (1 - share / union) / MINIMA)
    first = 100 * tenths  # other keys and hashes in every row, so that their biases are independent
    chunks = [estimates(kind, union, share, first + seed) for seed in range(PAIRS // CHUNK)]
    errors = np.concatenate(chunks) - truth
    rmse = float(np.sqrt((errors**2).mean()) / ideal)
    bias = float(errors.mean() / (errors.std() / np.sqrt(PAIRS)))
    print(
        f"{kind:<16} union {union:<5} J {truth:.1f}  rmse/ideal {rmse:.3f}  bias {bias:+.1f} s.e."
    )
    return dict(kind=kind, union=union, similarity=truth, rmse_over_ideal=rmse, bias_in_errors=bias)


def main():
    kinds = ("permutations", "one-permutation")
    cases = [(kind, union) for kind in kinds for union in (1000, 200)]
    rows = [row(kind, union, tenths) for kind, union in cases for tenths in range(1, 10)]
    write("jaccard", {"pairs": PAIRS, "minima": MINIMA, "target": 1.05, "rows": rows})


if __name__ == "__main__":
    main()
