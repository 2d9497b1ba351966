"""Sorted runs of numbers: which of one are in another, in one pass over both."""

from ._jit import kernel

__all__ = ["among"]


@kernel
def among(run, asked, out):
    """out[i] = whether asked[i] is in the run; both are sorted."""
    size, low = run.size, 0
    for i in range(asked.size):
        # The place is near the last one: twice as far each time, then halves between.
        step, high = 1, low
        while high < size and run[high] < asked[i]:
            low = high + 1
            high += step
            step *= 2
        high = min(high, size)
        while low < high:
            middle = (low + high) // 2
            if run[middle] < asked[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low < size and run[low] == asked[i]
