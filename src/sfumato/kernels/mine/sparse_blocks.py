"""Products of a sparse matrix (CSR) with a dense block whose rows are whole vector lanes.

A row of a block is `lanes` vectors of 512 bits: 8 columns of float64 or 16 of float32 each. Four
lanes are in registers at a time, so that the row of the sparse matrix is read once for them.
"""

from sfumato.kernels.jit import kernel
from sfumato.kernels.lanes import load, store

__all__ = ["gram", "gram_matrix", "multiply"]


@kernel
def multiply(offsets, columns, values, block, step, out):
    """out = A X for zeroed `out`; `step` is the number of columns of a lane."""
    width = block.shape[1]
    for first in range(0, width - width % (4 * step), 4 * step):
        for i in range(offsets.size - 1):
            at = i * width + first
            a = load(out, at)
            b = load(out, at + step)
            c = load(out, at + 2 * step)
            d = load(out, at + 3 * step)
            for place in range(offsets[i], offsets[i + 1]):
                value = values[place]
                x = columns[place] * width + first
                a = a + load(block, x) * value
                b = b + load(block, x + step) * value
                c = c + load(block, x + 2 * step) * value
                d = d + load(block, x + 3 * step) * value
            store(out, at, a)
            store(out, at + step, b)
            store(out, at + 2 * step, c)
            store(out, at + 3 * step, d)
    for first in range(width - width % (4 * step), width, step):
        for i in range(offsets.size - 1):
            a = load(out, i * width + first)
            for place in range(offsets[i], offsets[i + 1]):
                a = a + load(block, columns[place] * width + first) * values[place]
            store(out, i * width + first, a)


@kernel
def gram(offsets, columns, values, block, step, row, out):
    """out = A' A X for zeroed `out`; `row` holds four lanes of zeros."""
    width = block.shape[1]
    for first in range(0, width - width % (4 * step), 4 * step):
        for i in range(offsets.size - 1):
            a = load(row, 0)
            b = load(row, step)
            c = load(row, 2 * step)
            d = load(row, 3 * step)
            for place in range(offsets[i], offsets[i + 1]):
                value = values[place]
                x = columns[place] * width + first
                a = a + load(block, x) * value
                b = b + load(block, x + step) * value
                c = c + load(block, x + 2 * step) * value
                d = d + load(block, x + 3 * step) * value
            for place in range(offsets[i], offsets[i + 1]):
                value = values[place]
                x = columns[place] * width + first
                store(out, x, load(out, x) + a * value)
                store(out, x + step, load(out, x + step) + b * value)
                store(out, x + 2 * step, load(out, x + 2 * step) + c * value)
                store(out, x + 3 * step, load(out, x + 3 * step) + d * value)
    for first in range(width - width % (4 * step), width, step):
        for i in range(offsets.size - 1):
            a = load(row, 0)
            for place in range(offsets[i], offsets[i + 1]):
                a = a + load(block, columns[place] * width + first) * values[place]
            for place in range(offsets[i], offsets[i + 1]):
                x = columns[place] * width + first
                store(out, x, load(out, x) + a * values[place])


@kernel
def gram_matrix(offsets, columns, values, out):
    """out += A' A, all of it, for zeroed `out`."""
    for i in range(offsets.size - 1):
        for first in range(offsets[i], offsets[i + 1]):
            value = values[first]
            row = columns[first]
            for second in range(offsets[i], offsets[i + 1]):
                out[row, columns[second]] += value * values[second]
