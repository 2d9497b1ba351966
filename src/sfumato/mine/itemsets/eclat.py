"""Eclat: itemsets depth first, each with the set of baskets that contain it."""

from typing import Any

import numpy as np

from sfumato.mine.itemsets.baskets import Baskets

__all__ = ["eclat"]


def eclat(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Mine in memory; the levels of `Itemsets.from_codes`."""
    n = baskets.frequent(min_count)
    bits = np.zeros((n, baskets.size), bool)
    row = 0
    for chunk in baskets.read(max_code=n):
        baskets_of = np.repeat(np.arange(chunk.offsets.size - 1), np.diff(chunk.offsets))
        bits[chunk.items, row + baskets_of] = True
        row += chunk.offsets.size - 1
    found: dict[int, list[tuple[list[int], int]]] = {}

    def grow(prefix: list[int], sets: list[tuple[int, np.ndarray]]) -> None:
        for at, (item, mine) in enumerate(sets):
            found.setdefault(len(prefix) + 1, []).append(([*prefix, item], int(mine.sum())))
            if max_size is None or len(prefix) + 1 < max_size:
                pairs = [(other, mine & theirs) for other, theirs in sets[at + 1 :]]
                grow([*prefix, item], [each for each in pairs if each[1].sum() >= min_count])

    grow([], [(item, bits[item]) for item in range(n)])
    return [
        (np.array([row for row, _ in rows], np.int32), np.array([c for _, c in rows], np.int64))
        for _, rows in sorted(found.items())
    ]
