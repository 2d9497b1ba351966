"""Threads search one index while another changes it, and each sees it before or after a change."""

import threading
import time

import numpy as np

from sfumato.core.file_format import checksum
from sfumato.retrieve import BinaryIndex
from support.concurrency import at_once

ROUNDS, SIZE = 40, 97
VECTORS = np.random.default_rng(6).normal(size=(ROUNDS * SIZE, 8)).astype(np.float32)


def test_a_search_beside_changes_sees_whole_batches():
    # Batch b holds SIZE copies of one vector, so the k best of that query are all of it or none.
    ids = np.arange(ROUNDS * SIZE)
    same = VECTORS[::SIZE].repeat(SIZE, axis=0)
    index = BinaryIndex(64, keep_vectors=True).fit(same)
    done, torn = threading.Event(), []
    queries = dict.fromkeys((0, 2, 5, 20), 0)

    def write():
        try:
            for b in range(ROUNDS):
                index.add(ids[b * SIZE : (b + 1) * SIZE], same[b * SIZE : (b + 1) * SIZE])
                if b >= 4 and b % 3 == 0:
                    index.remove(ids[(b - 4) * SIZE : (b - 3) * SIZE])
                if b % 10 == 9:
                    index.compact()
                while min(queries.values()) < b // 4:  # every reader asks between changes
                    time.sleep(0)
        finally:
            done.set()

    def read(which):
        try:
            while not done.is_set():
                look(which, ("exact", "asymmetric", None)[queries[which] % 3])
                queries[which] += 1
        finally:
            queries[which] += ROUNDS

    def look(which, rerank):
        scores, found = index.search(same[which * SIZE], SIZE, shortlist=SIZE, rerank=rerank)
        own = int(((found >= which * SIZE) & (found < (which + 1) * SIZE)).sum())
        living = index.ids
        if own not in (0, SIZE) or living.size % SIZE or np.isnan(scores).any():
            torn.append((which, own, living.size))
        if index.mask(ids).size % SIZE or len(index) % SIZE:
            torn.append((which, "mask"))

    at_once([write, *(lambda which=which: read(which) for which in queries)])
    assert not torn
    retained = [b for b in range(ROUNDS) if not (b + 4 < ROUNDS and (b + 4) % 3 == 0)]
    assert index.ids.tolist() == [i for b in retained for i in range(b * SIZE, (b + 1) * SIZE)]


def test_threads_that_add_together_add_everything():
    index = BinaryIndex(64)
    parts = np.split(np.arange(ROUNDS * SIZE), ROUNDS)
    at_once([lambda part=part: index.add(part, VECTORS[part]) for part in parts[:12]])
    wanted = np.concatenate(parts[:12])
    assert np.array_equal(np.sort(index.ids), wanted)
    assert np.array_equal(index.search(VECTORS[wanted], 1)[1][:, 0], wanted)


def test_threads_that_search_together_get_what_one_gets(tmp_path):
    made = BinaryIndex(64, keep_vectors=True).add(np.arange(len(VECTORS)), VECTORS)
    made.save(tmp_path / "a.index")
    for index in (made, BinaryIndex.load(tmp_path / "a.index")):
        alone = [index.search(VECTORS[at : at + 20], 5) for at in range(0, 160, 20)]
        asks = [
            lambda at=at, index=index: index.search(VECTORS[at : at + 20], 5)
            for at in range(0, 160, 20)
        ]
        for one, other in zip(alone, at_once(asks), strict=True):
            assert all(map(np.array_equal, one, other))


def test_a_file_that_is_saved_beside_changes_is_whole(tmp_path, monkeypatch):
    # Another thread adds rows between the checksums of the arrays and their bytes.
    index = BinaryIndex(64).add(np.arange(10), VECTORS[:10])
    adding = threading.Thread(target=lambda: index.add(np.arange(10, 50), VECTORS[10:50]))

    def late(data):
        if bytes(data[:4]) == b"SFIX":  # the header's, which is the last
            adding.start()
            adding.join(0.2)
        return checksum(data)

    monkeypatch.setattr("sfumato.retrieve.file_format.checksum", late)
    index.save(tmp_path / "a.index")
    adding.join()
    monkeypatch.undo()
    assert len(BinaryIndex.load(tmp_path / "a.index")) == 10
    assert len(index) == 50
