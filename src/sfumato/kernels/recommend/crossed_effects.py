"""Products with the design matrix of crossed effects, of which each row has one cell per term."""

from sfumato.kernels.jit import kernel

__all__ = ["gram_product", "sums"]


@kernel
def sums(codes, factors, values, out):
    """out += X' values, where row n of X has a 1 in column codes[g, n] of each term g.

    Only that of the first term is factors[n] instead.
    """
    terms, rows = codes.shape
    for n in range(rows):
        out[codes[0, n]] += values[n] * factors[n]
        for g in range(1, terms):
            out[codes[g, n]] += values[n]


@kernel
def gram_product(codes, factors, vector, out):
    """out += X'X vector, with X as in `sums`."""
    terms, rows = codes.shape
    for n in range(rows):
        total = vector[codes[0, n]] * factors[n]
        for g in range(1, terms):
            total += vector[codes[g, n]]
        out[codes[0, n]] += total * factors[n]
        for g in range(1, terms):
            out[codes[g, n]] += total
