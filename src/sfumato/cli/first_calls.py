"""The first call of each room, as a newcomer makes it: what `sfumato warmup` compiles and times."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

__all__ = ["ROOMS", "warm"]

WORDS = [f"word {i % 90}" for i in range(1000)]


def _sketch() -> None:
    from sfumato.sketch import BloomFilter, CountMin, CountSketch, HyperLogLog

    for keys in (WORDS, list(range(1000))):
        HyperLogLog().update(keys).estimate()
        CountMin(1024).update(keys).estimate(keys[:10])
        CountSketch(1024).update(keys).estimate(keys[:10])
        BloomFilter(1 << 14).update(keys).contains(keys[:10])


def _min_hash() -> None:
    from sfumato.sketch import MinHash

    MinHash(128).update(WORDS).similarity(MinHash(128).update(WORDS[:50]))


def _binary_index() -> None:
    from sfumato.retrieve import BinaryIndex

    rows = _points(2000, 64).astype("float32")
    BinaryIndex(256).fit(rows).add(range(len(rows)), rows).search(rows[:1], 10)


def _blip() -> None:
    from sfumato.profile import Blip

    released = Blip(epsilon=3.0).release(_ratings(), users=range(200))
    released.similarity(released)


def _telemetry() -> None:
    from sfumato.telemetry import Counts, Rappor, ReportEncoder, decode

    scheme = Rappor(f=0.5, p=0.25, q=0.75)
    reports = ReportEncoder(scheme).encode_many(WORDS)
    decode(Counts(scheme).update(reports), WORDS[:20])


def _factorization() -> None:
    from sfumato.recommend import SketchFactorization

    SketchFactorization(epochs=2).fit(_ratings()).recommend([1], 10)


def _linear_items() -> None:
    from sfumato.recommend import LinearItems

    LinearItems().fit(_ratings()).recommend([1], 10)


def _density() -> None:
    from sfumato.density import SketchDensity

    rows = abs(_points(2000, 2)) % 1.0
    model = SketchDensity(bandwidth=0.2, epsilon=1.0, bounds=([0, 0], [1, 1]))
    model.fit(rows).score_samples(rows[:10])


def _noise() -> None:
    from sfumato.privacy import discrete_gaussian, discrete_laplace

    discrete_laplace(10.0, 100)
    discrete_gaussian(10.0, 100)


def _itemsets() -> None:
    from sfumato.mine.itemsets import Baskets, frequent_itemsets

    baskets = [[str(i % 7), str(i % 11), str(i % 13)] for i in range(2000)]
    frequent_itemsets(Baskets(baskets), min_support=0.01)


def _similar() -> None:
    from sfumato.mine.similar import near_duplicates

    texts = [f"a text of several words, number {i % 90} of them all" for i in range(100)]
    near_duplicates(texts, threshold=0.9)


def _cluster() -> None:
    from sfumato.mine.cluster import KMeans

    rows = _points(2000, 4)
    KMeans(5, random_state=0).fit(rows).predict(rows[:10])


def _rank() -> None:
    import numpy as np

    from sfumato.mine.rank import Graph, pagerank

    pagerank(Graph(*np.random.default_rng(0).integers(0, 500, (2, 5000))))


ROOMS: dict[str, Callable[[], None]] = {
    "sketch": _sketch,
    "sketch MinHash": _min_hash,
    "retrieve BinaryIndex": _binary_index,
    "profile Blip": _blip,
    "recommend SketchFactorization": _factorization,
    "recommend LinearItems": _linear_items,
    "telemetry": _telemetry,
    "density": _density,
    "privacy noise": _noise,
    "mine.itemsets": _itemsets,
    "mine.similar": _similar,
    "mine.cluster": _cluster,
    "mine.rank": _rank,
}


def _points(count: int, dimension: int) -> Any:
    import numpy as np

    return np.random.default_rng(0).normal(size=(count, dimension))


def _ratings() -> Any:
    import numpy as np

    from sfumato.data import Interactions

    draw = np.random.default_rng(0).integers
    return Interactions(draw(0, 200, 4000), draw(0, 100, 4000), draw(1, 6, 4000))


def warm(
    rooms: Sequence[str], progress: Callable[[int, int | None], None] | None = None
) -> list[dict[str, Any]]:
    """Make the first call of each room in a new process, then again in another.

    Parameters
    ----------
    rooms : sequence of str
        Keys of `ROOMS`.
    progress : callable, optional
        Called with the number of calls done and of all.

    Returns
    -------
    list of dict
        For each room: its name as `room`, `seconds` of the first call with all that it imports,
        how many kernels it compiled as `compiled`, and `seconds_after` of the same call in the next
        process.
    """
    rows: list[dict[str, Any]] = []
    for i, room in enumerate(rooms):
        seconds, compiled = _timed(room)
        if progress is not None:
            progress(2 * i + 1, 2 * len(rooms))
        after, _ = _timed(room)
        if progress is not None:
            progress(2 * i + 2, 2 * len(rooms))
        rows.append(
            {"room": room, "seconds": seconds, "compiled": compiled, "seconds_after": after}
        )
    return rows


def _timed(room: str) -> tuple[float, int]:
    """Seconds and compiled kernels of a room's call in a process of its own."""
    line = [sys.executable, "-W", "ignore", "-m", __name__, room]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it was killed"])[-1]
        raise ChildProcessError(f"the first call of {room} failed: {reason}.")
    seconds, compiled = json.loads(done.stdout)
    return seconds, compiled


def _compiled() -> int:
    """How many kernels this process compiled rather than loaded."""
    kernels = {
        id(each): each
        for name, module in tuple(sys.modules.items())
        if name.startswith("sfumato.kernels.") and type(module) is ModuleType
        for each in vars(module).values()
        if hasattr(each, "py_func") and hasattr(each, "stats")
    }
    return sum(sum(each.stats.cache_misses.values()) for each in kernels.values())


def _main(room: str) -> None:
    start = time.perf_counter()
    ROOMS[room]()
    print(json.dumps([round(time.perf_counter() - start, 3), _compiled()]))


if __name__ == "__main__":
    _main(sys.argv[1])
