"""Threads search an LshIndex while one changes it, and get its rows before or after."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sfumato.retrieve import LshIndex

VECTORS = np.random.default_rng(0).normal(size=(1500, 8)).astype(np.float32)


def test_searches_beside_changes_give_true_scores_of_rows_that_are_there():
    index = LshIndex(6, 3, metric="inner", probes=4).add(np.arange(500), VECTORS[:500])
    stop, wrong = threading.Event(), []

    def ask():
        while not stop.is_set():
            ids, scores = index.search(VECTORS[:20], 5)
            found = ids >= 0
            true = np.einsum("qd,qkd->qk", VECTORS[:20], VECTORS[ids])
            if not np.allclose(scores[found], true[found], atol=1e-4):
                wrong.append("a score is of another row")
            if (ids == 0).any():  # removed before the threads began
                wrong.append("a removed row was found")

    index.remove(0)
    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask) for _ in range(3)]
        for first in range(500, 1500, 25):
            index.add(np.arange(first, first + 25), VECTORS[first : first + 25])
            index.remove(np.arange(first - 400, first - 390))
            if first % 200 == 0:
                index.compact()
        stop.set()
        for each in asking:
            each.result()
    assert not wrong
    assert len(index) == 1500 - 1 - 40 * 10
