"""Mining a random sample: sampling may miss itemsets, Toivonen's method then starts again."""

import math
from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
import scipy

from sfumato.core.validation import RandomState, check_random_state, flag, fraction, optional
from sfumato.errors import ParameterError
from sfumato.mine.itemsets.methods.apriori import count_pairs
from sfumato.mine.itemsets.methods.candidates import Supports, join, union
from sfumato.mine.itemsets.methods.chunks import basket_bytes, mined, sampled
from sfumato.mine.itemsets.methods.pair_counters import pair_counter
from sfumato.mine.itemsets.methods.passes import LONGEST, OWNER, ItemsetLevels, Level, Passes
from sfumato.mine.itemsets.sources.baskets import Baskets

__all__ = ["expected_missed", "sampling", "toivonen"]

SAMPLE_BASKETS = 20_000  # that a sample has by default, if there are so many
SAMPLE_COUNT = 200  # and the expected count in it of an itemset at the threshold
ATTEMPTS = 20


def sampling(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
    sample: float | None = None,
    lowered: float = 0.8,
    verify: bool = True,
    random_state: RandomState = 0,
) -> ItemsetLevels:
    """Mine a sample at a lowered threshold; `verify` counts what it found in all baskets.

    Without it, counts are estimates and infrequent itemsets may be among them. Either way, frequent
    itemsets may be missing; `missed` of the result estimates how many. Items are always exact.
    """
    passes = Passes("sampling", baskets, memory_limit, explain)
    rng = check_random_state(OWNER, random_state)
    n, items = passes.frequent_items(min_count)
    levels = ItemsetLevels([items])
    if n < 2 or max_size == 1:
        return levels
    plan = _planned(passes, n, min_count, sample, lowered)
    found = _mined(passes, plan, n, max_size, rng)
    if flag.check(OWNER, "verify", verify):
        levels.extend(_verified(passes, [codes for codes, _ in found], n, min_count))
    else:
        rounded = [np.rint(counts / plan.share).astype(np.int64) for _, counts in found]
        levels.extend((codes, count) for (codes, _), count in zip(found, rounded, strict=True))
    counts = np.concatenate([np.empty(0, np.int64), *(count for _, count in levels[1:])])
    levels.missed = expected_missed(counts[counts >= min_count], plan.share, plan.threshold)
    levels.exact = plan.share >= 1
    return levels


def toivonen(
    baskets: Baskets,
    min_count: int,
    *,
    max_size: int | None,
    memory_limit: int | None,
    explain: list[dict[str, Any]] | None,
    sample: float | None = None,
    lowered: float = 0.8,
    longest: int = LONGEST,
    random_state: RandomState = 0,
) -> ItemsetLevels:
    """Mine by Toivonen: if an itemset of the sample's negative border is frequent, start again.

    The next sample is twice as large, or its threshold lower where no larger one fits.
    """
    passes = Passes("toivonen", baskets, memory_limit, explain, longest)
    rng = check_random_state(OWNER, random_state)
    n, items = passes.frequent_items(min_count)
    levels = ItemsetLevels([items])
    if n < 2 or max_size == 1:
        return levels
    plan = _planned(passes, n, min_count, sample, lowered)
    for _ in range(ATTEMPTS):
        found = [codes for codes, _ in _mined(passes, plan, n, max_size, rng)]
        larger, lost = _bordered(passes, levels, found, min_count, max_size)
        if not lost:
            levels.extend(larger)
            return levels
        plan = _larger(passes, plan, n, min_count)
    raise RuntimeError(
        f"frequent_itemsets: method 'toivonen' gave up after {ATTEMPTS} samples, each of which "
        "missed a frequent itemset; take a larger sample or method 'son'."
    )


class _Drawing(NamedTuple):
    """Probability of a basket to be sampled, factor of the threshold, and the threshold."""

    share: float
    lowered: float
    threshold: int


def _planned(
    passes: Passes, n: int, min_count: int, sample: float | None, lowered: float
) -> _Drawing:
    share = optional(fraction).check(OWNER, "sample", sample)
    lowered = fraction.check(OWNER, "lowered", lowered)
    size = max(passes.size, 1)
    if share is None:
        share = min(1.0, max(SAMPLE_BASKETS / size, SAMPLE_COUNT / min_count))
        least = min(1.0, 2 / (lowered * min_count))  # for a threshold above 1
        passes.reserve("baskets of a sample", int(least * _sample_bytes(passes, n)))
        share = max(least, min(share, passes.budget / _sample_bytes(passes, n)))
    return _checked(passes, n, min_count, share, lowered)


def _checked(passes: Passes, n: int, min_count: int, share: float, lowered: float) -> _Drawing:
    passes.reserve("baskets of the sample", int(share * _sample_bytes(passes, n)))
    # The product may be a little above the integer it stands for; all baskets need no lower one.
    lower = math.ceil(lowered * share * min_count * (1 - 1e-12))
    threshold = min_count if share >= 1 else max(1, lower)
    if threshold == 1 and share < 1 and min_count > 1:
        raise ParameterError.of(
            OWNER,
            "sample",
            f"must be larger than {share:.3g}: {min_count} baskets of all are then one of the "
            "sample, at which all subsets of all its baskets are frequent; raise it, memory_limit "
            "or min_support.",
        )
    return _Drawing(share, lowered, threshold)


def _sample_bytes(passes: Passes, n: int) -> float:
    """Bytes of a sample of all baskets: while gathered, coded again, and as Eclat's sets."""
    return 6 * passes.size * basket_bytes(passes.baskets, n)


def _larger(passes: Passes, plan: _Drawing, n: int, min_count: int) -> _Drawing:
    share = min(1.0, 2 * plan.share)
    if share * _sample_bytes(passes, n) <= passes.budget:
        return _checked(passes, n, min_count, share, plan.lowered)
    return _checked(passes, n, min_count, plan.share, 0.8 * plan.lowered)


def _mined(
    passes: Passes, plan: _Drawing, n: int, max_size: int | None, rng: np.random.Generator
) -> list[Level]:
    """Itemsets of two items or more that reach the threshold in a new sample."""
    with passes.record("mine a sample") as facts:
        chunk = sampled(passes.read(n), plan.share, rng)
        levels = mined(chunk, plan.threshold, max_size, passes.tables)[1:]
        facts.update(sample=plan.share, sample_baskets=chunk.offsets.size - 1)
        facts.update(threshold=plan.threshold, frequent=sum(count.size for _, count in levels))
        facts.update(memory=3 * sum(each.nbytes for each in chunk))
    return levels


def _verified(passes: Passes, candidates: list[np.ndarray], n: int, min_count: int) -> list[Level]:
    """The candidates that are frequent in all baskets, with their counts."""
    with passes.record("count candidates of the sample") as facts:
        supports = Supports(candidates, n, passes.block_bytes)
        passes.reserve("candidates of the sample", supports.nbytes)
        for chunk in passes.read(n):
            supports.add(chunk)
        levels = supports.frequent(min_count)
        facts.update(candidates=sum(codes.shape[0] for codes in candidates))
        facts.update(frequent=sum(count.size for _, count in levels), memory=supports.nbytes)
    return levels


def expected_missed(counts: np.ndarray, share: float, threshold: int) -> float:
    """Estimate how many frequent itemsets a sample missed, from the counts of those it found.

    An itemset with count c is missed with probability q = P(Binomial(c, share) < threshold). Each
    found one stands for 1 / (1 - q) such itemsets, so q / (1 - q) of them were missed: without
    bias (Horvitz and Thompson).
    """
    missed = scipy.special.bdtr(float(threshold - 1), counts, min(share, 1.0))
    return float((missed / np.maximum(1 - missed, 1e-12)).sum()) if share < 1 else 0.0


def _bordered(
    passes: Passes,
    levels: ItemsetLevels,
    found: list[np.ndarray],
    min_count: int,
    max_size: int | None,
) -> tuple[list[Level], int]:
    """Count a sample's itemsets and their negative border in all baskets.

    Returns the frequent ones of three items or more, and how many frequent ones the sample lacks.
    The border of pairs is every other pair of frequent items, so the first time all are counted.
    """
    n = levels[0][1].size
    most = max_size or n
    candidates = [join(codes, passes) for codes in found if codes.shape[1] < most]
    supports = Supports(candidates, n, passes.block_bytes)
    passes.reserve("itemsets of the sample and their border", supports.nbytes)
    if len(levels) == 1:
        count_pairs(passes, levels, pair_counter(passes, n), min_count, supports)
    else:
        for chunk in passes.read(n):
            supports.add(chunk)
    with passes.record("check the negative border") as facts:
        larger = supports.frequent(min_count)
        lost = sum(map(_absent, [levels[1][0], *(codes for codes, _ in larger)], _padded(found)))
        facts.update(candidates=sum(codes.shape[0] for codes in candidates), lost=lost)
        facts.update(frequent=sum(count.size for _, count in larger), memory=supports.nbytes)
    return larger, lost


def _absent(rows: np.ndarray, known: np.ndarray) -> int:
    """How many of the rows are not among the known ones."""
    both = union([rows, known]) if known.size else rows
    return int(both.shape[0] - known.shape[0])


def _padded(found: list[np.ndarray]) -> Iterator[np.ndarray]:
    """The itemsets of each size, then none."""
    return chain(found, repeat(np.empty((0, 0), np.int32)))
