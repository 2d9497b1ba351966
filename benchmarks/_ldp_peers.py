"""Peers in local privacy: RAPPOR of pure-ldp and subset selection of multi-freq-ldpy.

pure-ldp does not run with xxhash 4, which takes no text: it is repaired here by encoding the text
before it is hashed. Its RAPPOR has no instantaneous step. Both make reports one by one.
"""

import random

import numpy as np

__all__ = ["rappor", "subset_selection", "subsets_of"]


def rappor(shape, candidates, seed=0):
    """The server and the client of pure-ldp for `Rappor`-like sizes."""
    import pure_ldp.frequency_oracles.rappor.rappor_server as server
    import xxhash
    from pure_ldp.frequency_oracles.rappor import RAPPORClient

    def hashed(cells, seed):
        return lambda text: xxhash.xxh64(text.encode(), seed=seed).intdigest() % cells

    server.generate_hash = hashed
    random.seed(seed)
    sizes = {"f": shape["f"], "m": shape["bits"], "num_of_cohorts": shape["cohorts"]}
    retained = server.RAPPORServer(**sizes, k=shape["hashes"], d=candidates)
    return retained, RAPPORClient(**sizes, hash_funcs=retained.get_hash_funcs())


def subset_selection(values, categories, epsilon):
    """Reports of multi-freq-ldpy, one for each value from 0 to categories - 1."""
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Client

    return [SS_Client(value, categories, epsilon) for value in values]


def subsets_of(values, categories, epsilon, seed):
    """The counts that multi-freq-ldpy estimates from its own reports."""
    import numba
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI

    @numba.njit
    def start(seed):  # its compiled client has a generator of its own
        np.random.seed(seed)

    start(seed)
    reports = subset_selection(values, categories, epsilon)
    return SS_Aggregator_MI(reports, categories, epsilon) * len(values)
