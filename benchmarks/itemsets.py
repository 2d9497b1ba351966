"""Frequent itemsets in memory beside pyfim's Eclat and mlxtend: lists in, lists out, CPU seconds.

    python benchmarks/itemsets.py [pyfim] [mlxtend]
        writes benchmarks/results/itemsets.json, all parts unless some are named
    python benchmarks/itemsets.py out-of-core [--baskets N]
        writes benchmarks/results/itemsets_out_of_core.json (_itemsets_out_of_core.py)

Both take the same Python lists and return Python lists, in turn in one process; a ratio is of one
round, and the median of all rounds is reported. Both find the same itemsets with the same counts,
which is checked, except that pyfim leaves an item out that is in every basket. mlxtend's frame of
booleans is made within its time, as lists are what a user has. The sets are read from the folder
that SFUMATO_DATA names.
"""

import gc
import gzip
import math
import statistics
import sys
import time

import _itemsets_out_of_core
from _measure import write_parts
from _ratings import folder

from sfumato.mine.itemsets import Baskets, frequent_itemsets

ROUNDS = 11
PEER_ROUNDS = 3  # of mlxtend, which takes seconds
# name of the set, support, ratio to reach
SPEED = [
    ("retail", 0.001, 2.0),
    ("T10I4D100K", 0.001, 2.0),
    ("retail", 0.0003, 1.2),
    ("chess", 0.6, 1.2),
    ("mushroom", 0.1, 1.2),
]
# name of the set, support, methods; Apriori where its frames of candidates fit
FRAMES = [
    ("T10I4D100K", 0.01, ("fpgrowth",)),
    ("chess", 0.6, ("fpgrowth",)),
    ("mushroom", 0.1, ("fpgrowth",)),
    ("groceries", 0.001, ("fpgrowth", "apriori")),
]


def lists(name):
    """Baskets of a set as lists."""
    if name == "groceries":
        with gzip.open(folder() / "groceries" / "groceries.csv.gz", "rt") as file:
            return [line.strip().split(",") for line in file]
    with gzip.open(folder() / "fimi" / f"{name}.dat.gz", "rt") as file:
        return [list(map(int, line.split())) for line in file]


def timed(work):
    """CPU seconds of a call, and what it returns."""
    gc.collect()
    start = time.process_time()
    found = work()
    return time.process_time() - start, found


def ours(baskets, count):
    return frequent_itemsets(baskets, count).to_list()


def steps(baskets, count):
    """CPU milliseconds of the three steps of our call."""
    first, made = timed(lambda: Baskets(baskets))
    second, found = timed(lambda: frequent_itemsets(made, count))
    third, _ = timed(found.to_list)
    return [round(1000 * each, 1) for each in (first, second, third)]


def as_sets(rows):
    return {frozenset(items): int(count) for items, count in rows}


def agreement(mine, theirs, size):
    """Number of itemsets; refuses a difference other than pyfim's known one."""
    mine, theirs = as_sets(mine), as_sets(theirs)
    missing = {items: count for items, count in mine.items() if items not in theirs}
    if any(mine.get(items) != count for items, count in theirs.items()):
        sys.exit("the itemsets differ")
    if any(len(items) > 1 or count < size for items, count in missing.items()):
        sys.exit("the peer lacks itemsets")
    return {"itemsets": len(mine), "left_out_by_peer": len(missing)}


def beside_pyfim():
    """Ratios against pyfim's Eclat."""
    import fim

    rows = []
    for name, support, target in SPEED:
        baskets = lists(name)
        count = math.ceil(support * len(baskets))

        def peer(baskets=baskets, count=count):
            return fim.eclat(baskets, supp=-count, zmin=1)

        found = agreement(ours(baskets, count), peer(), len(baskets))
        times = [(timed(peer)[0], timed(lambda: ours(baskets, count))[0]) for _ in range(ROUNDS)]  # noqa: B023
        ratios = sorted(theirs / mine for theirs, mine in times)
        rows.append(
            {
                "set": name,
                "support": support,
                "count": count,
                **found,
                "pyfim_ms": round(1000 * statistics.median(theirs for theirs, _ in times), 1),
                "ours_ms": round(1000 * statistics.median(mine for _, mine in times), 1),
                "ratio": round(statistics.median(ratios), 2),
                "ratios": [round(each, 2) for each in ratios],
                "target": target,
                "baskets_mine_lists_ms": steps(baskets, count),
            }
        )
        print(rows[-1], flush=True)
    return rows


def beside_mlxtend():
    """Ratios against mlxtend's FP-growth and Apriori: tables as each returns them, and lists."""
    import pandas as pd
    from mlxtend import frequent_patterns
    from mlxtend.preprocessing import TransactionEncoder

    def frame(method, baskets, support):
        encoder = TransactionEncoder()
        table = pd.DataFrame(encoder.fit_transform(baskets), columns=encoder.columns_)
        return method(table, min_support=support, use_colnames=True)

    def as_list(found, size):
        counts = (found["support"] * size).round().astype(int)
        return list(zip(map(tuple, found["itemsets"]), counts.tolist(), strict=True))

    rows = []
    for name, support, methods in FRAMES:
        baskets = lists(name)
        count = math.ceil(support * len(baskets))
        mine = [
            statistics.median(timed(work)[0] for _ in range(ROUNDS))
            for work in (
                lambda: frequent_itemsets(baskets, count).to_arrow(),  # noqa: B023
                lambda: ours(baskets, count),  # noqa: B023
            )
        ]
        for method in methods:
            work = getattr(frequent_patterns, method)
            theirs = []
            for _ in range(PEER_ROUNDS):
                seconds, found = timed(lambda: frame(work, baskets, support))  # noqa: B023
                more, found = timed(lambda: as_list(found, len(baskets)))  # noqa: B023
                theirs.append((seconds, seconds + more))
            both = [statistics.median(column) for column in zip(*theirs, strict=True)]
            row = {"set": name, "support": support, "method": method}
            row |= agreement(ours(baskets, count), found, len(baskets))
            for what, peer, here in zip(("tables", "lists"), both, mine, strict=True):
                row[what] = {
                    "mlxtend_ms": round(1000 * peer, 1),
                    "ours_ms": round(1000 * here, 1),
                    "ratio": round(peer / here, 1),
                }
            rows.append({**row, "target": 50.0})
            print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    if sys.argv[1:2] == ["out-of-core"]:
        sys.exit(_itemsets_out_of_core.main(sys.argv[2:]))
    write_parts("itemsets", {"pyfim": beside_pyfim, "mlxtend": beside_mlxtend}, sys.argv[1:])
