"""The least error from counts: posterior means where all true counts are known but for their order.

No decoder of the same counts can know more than the list of all true counts. What is left is which
candidate has which: Gibbs sampling draws it from the posterior under the normal noise of the cells.
"""

import numba
import numpy as np

from sfumato.telemetry.decoding.decode import decoding_task
from sfumato.telemetry.decoding.design import CellFractions
from sfumato.telemetry.decoding.weighted_least_squares import LinearModel

__all__ = ["posterior_means"]

SWEEPS, FIRST = 4000, 800  # of all candidates; those before the first is used


def posterior_means(counts, candidates, true, others, seed):
    """Posterior mean of every candidate's count; `others` are the counts of all other strings."""
    total = len(counts)
    task = decoding_task(counts, candidates, True)
    cells = CellFractions.counted(counts, task.design)
    model = LinearModel(cells, task.design.matrix, closed=False)
    fractions = true / total
    spread = float(((others / total) ** 2).sum())
    weights = cells.weights(model.blocks, fractions, 1 - fractions.sum(), spread)
    gram, target = model._normal(weights)
    values, times = np.unique(fractions, return_counts=True)
    start = np.zeros(target.size)
    return total * _sampled(gram, target, values, np.log(times), SWEEPS, FIRST, seed, start)


@numba.njit(cache=False)
def _sampled(gram, target, values, log_prior, sweeps, first, seed, fractions):
    """Mean of the fractions over the sweeps, each of one draw for every candidate."""
    np.random.seed(seed)
    residual = target - gram @ fractions
    mean, log_weights = np.zeros(target.size), np.empty(values.size)
    for sweep in range(sweeps):
        for at in range(target.size):
            precision = gram[at, at]
            centre = fractions[at] + residual[at] / precision
            for k in range(values.size):
                log_weights[k] = log_prior[k] - 0.5 * precision * (values[k] - centre) ** 2
            weights = np.exp(log_weights - log_weights.max())
            drawn, k = np.random.rand() * weights.sum(), 0
            while k < values.size - 1 and drawn > weights[k]:
                drawn -= weights[k]
                k += 1
            change = values[k] - fractions[at]
            if change != 0:
                residual -= gram[at] * change
                fractions[at] = values[k]
        if sweep >= first:
            mean += fractions
    return mean / (sweeps - first)
