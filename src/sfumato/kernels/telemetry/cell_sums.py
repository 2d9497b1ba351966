"""Sums over candidates that each have one cell in every group of cohorts."""

from sfumato.kernels.jit import kernel

__all__ = ["add_to_cells", "sum_of_cells"]

BLOCK = 2048  # candidates whose sums stay in the first cache


@kernel
def add_to_cells(codes, fractions, out):
    """out[g, codes[g, v]] += fractions[v]."""
    for g in range(codes.shape[0]):
        for v in range(codes.shape[1]):
            out[g, codes[g, v]] += fractions[v]


@kernel
def sum_of_cells(codes, first, second, out):
    """out[0, v] += the sum over groups g of first[g, codes[g, v]], and out[1, v] of second."""
    for begin in range(0, codes.shape[1], BLOCK):
        end = min(begin + BLOCK, codes.shape[1])
        for g in range(codes.shape[0]):
            for v in range(begin, end):
                c = codes[g, v]
                out[0, v] += first[g, c]
                out[1, v] += second[g, c]
