"""The worked examples of the course, computed by the package: benchmarks/results/course.json.

    python benchmarks/course.py

They are exact and take seconds. What a lecture builds without giving a number is not here.
"""

import itertools
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from _measure import write

from sfumato.mine import cluster, decompose, itemsets, rank, similar
from sfumato.retrieve import Sensitive, candidate_probability

BASKETS = [
    ["Bread", "Coke", "Milk"],
    ["Beer", "Bread"],
    ["Beer", "Coke", "Diaper", "Milk"],
    ["Beer", "Bread", "Diaper", "Milk"],
    ["Coke", "Diaper", "Milk"],
]
YAM = rank.Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "a"])
TRAP = rank.Graph(["y", "y", "a", "a", "m"], ["y", "a", "y", "m", "m"])


def number(value, digits=4):
    return f"{float(value):.{digits}f}".rstrip("0").rstrip(".")


def supports():
    sizes = []
    for least in (2, 3):
        found = itemsets.frequent_itemsets(BASKETS, least).to_list()
        sizes.append("+".join(str(sum(len(i) == k for i, _ in found)) for k in (1, 2, 3)))
    return f"s = 2: {sizes[0]}; s = 3: {sizes[1]}"


def rule(left, right, column):
    table = itemsets.association_rules(itemsets.frequent_itemsets(BASKETS, 2), min=0).to_arrow()
    for row in table.to_pylist():
        if set(row["antecedent"]) == left and set(row["consequent"]) == right:
            return number(row[column])
    raise KeyError(left)


def both_rules(column):
    return f"{rule({'Milk'}, {'Coke'}, column)}, {rule({'Diaper', 'Milk'}, {'Beer'}, column)}"


def shingle_sets():
    found = similar.shingles(["abcab", "abab", "abc", "bca"], 2)
    sets = [set(found.hashes[a:b]) for a, b in itertools.pairwise(found.offsets)]
    first, second = sets[2:]
    similarity = f"{len(first & second)}/{len(first | second)}"
    return f"{len(sets[0])} and {len(sets[1])} shingles; J = {similarity}"


def permuted():
    ranks = similar.permutation_ranks([[3, 1, 4, 2]])
    return ", ".join(str(each[0]) for each in similar.explicit_signatures([[1, 3], [2, 3]], ranks))


def hashed():
    table = similar.linear_hashes([1, 2], [0, 1], 5, range(1, 6))
    found = similar.explicit_signatures([[0, 2, 3], [1, 2, 4]], table)
    one, two = (tuple(map(int, each)) for each in found)
    return f"2x+1 mod 5: {', '.join(map(str, table[1]))}; signatures {one}, {two}"


def curve(rows, bands, at):
    return ", ".join(number(candidate_probability(each, bands, rows)) for each in at)


def thresholds():
    curves = [similar.SCurve.and_or(r, b) for r, b in ((5, 10), (5, 20), (4, 4))]
    return ", ".join(f"{c.threshold:.4f} / {c.approximate_threshold:.4f}" for c in curves)


def fixed_points():
    return ", ".join(
        number(similar.SCurve.and_or(r, b).fixed_point) for r, b in ((4, 4), (5, 10), (5, 20))
    )


def cascade():
    family = Sensitive(near=0.2, far=0.8, near_agree=0.8, far_agree=0.2)
    both = family.some(4).every(4).every(4).some(4)
    return f"{both.near_agree:.7f}, {both.far_agree:.7f}"


def bands():
    found = similar.choose_bands(0.6, permutations=50)
    return f"b = {found.bands}, r = {found.rows}"


def sides():
    return ", ".join(
        number(cluster.neighbourhood_side(10 / 10**6, d), digits) for d, digits in ((2, 4), (7, 3))
    )


def energy():
    parts = decompose.SVD(np.eye(3), [12.4, 9.5, 1.3], np.eye(3))
    return f"{100 * parts.energies[1]:.2f} %"


def scores(ranks):
    return ", ".join(number(each) for each in ranks.score(["y", "a", "m"]))


def farm():
    found = rank.LinkFarm(pages=10**6, total=10**9)
    return f"{found.amplification:.4f}, c = {found.share:.4f}"


def encoded():
    return f"{rank.DiskCost(10**9, 10**10).matrix_bytes / 10**9:g} GB"


EXAMPLES = {
    "1.2": ("5+7+2 itemsets at s = 2, 5+2 at s = 3", supports),
    "1.3": (".75, 2/3", lambda: both_rules("confidence")),
    "1.4": (".15, .0667", lambda: both_rules("interest")),
    "2.1": ("{ab, bc, ca} (printed for abab too, which has 2); J = 1/3", shingle_sets),
    "2.4": ("3, 1", permuted),
    "2.6": ("3, 0, 2, 4, 1; (1, 2), (0, 0)", hashed),
    "2.9": ("r = 5, b = 10: .9811, .5549, .0978", lambda: curve(5, 10, (0.8, 0.6, 0.4))),
    "2.10": (".5823 / .5864, .5087 / .5105, .6316 / .6452", thresholds),
    "2.11": ("b = 10, r = 5 for s = .6", bands),
    "2.15": (".9999996, .0008715", cascade),
    "2.16": (".7245, .6212, .5122", fixed_points),
    "3.1": (".0032, 19.3 %", sides),
    "4.3": ("99.31 %", energy),
    "6.1": ("2/5, 2/5, 1/5", lambda: scores(rank.flow_equations(YAM))),
    "6.3": (
        "7/33, 5/33, 21/33",
        lambda: scores(rank.pagerank(TRAP, 0.8, tolerance=1e-12)),
    ),
    "6.6": ("44 GB", encoded),
    "6.11": ("3.6036, c = .4595", farm),
}


def examples():
    """What the course prints and what we compute, by the number of the item."""
    return {name: {"course": theirs, "ours": run()} for name, (theirs, run) in EXAMPLES.items()}


if __name__ == "__main__":
    found = examples()
    print(json.dumps(found, indent=1))
    write("course", {"examples": found})
