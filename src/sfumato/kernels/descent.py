"""Coordinate descent on sparse 0/1 designs: penalised least squares with weights from 0 up."""

from ._jit import kernel

__all__ = ["nonnegative_lasso"]


@kernel
def nonnegative_lasso(starts, rows, penalty, level, sweeps, close, residual, weights):
    """Lower |y - b - X w|**2 / 2 + penalty sum w over w >= 0, and over b where `level` is set.

    Column v of X has ones in rows[starts[v]:starts[v + 1]]; residual = y - b - X w on entry and on
    return. Ends when no weight changes by more than `close` in a sweep.
    """
    for _ in range(sweeps):
        largest = 0.0
        if level:
            mean = residual.mean()
            residual -= mean
            largest = abs(mean)
        for v in range(weights.size):
            begin, end = starts[v], starts[v + 1]
            if begin == end:
                continue
            total = 0.0
            for e in range(begin, end):
                total += residual[rows[e]]
            step = max((total - penalty) / (end - begin), -weights[v])
            if step != 0.0:
                weights[v] += step
                for e in range(begin, end):
                    residual[rows[e]] -= step
                largest = max(largest, abs(step))
        if largest <= close:
            break
