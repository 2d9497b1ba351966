"""frequent_itemsets: one call for every algorithm, and the choice among them."""

import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.core.validation import flag, integer, one_of, optional
from sfumato.errors import ParameterError
from sfumato.mine.itemsets.methods.apriori import apriori
from sfumato.mine.itemsets.methods.eclat import eclat, eclat_bytes
from sfumato.mine.itemsets.methods.engine_son import count_items, engine_son
from sfumato.mine.itemsets.methods.pcy import multihash, multistage, pcy
from sfumato.mine.itemsets.methods.sampling import sampling, toivonen
from sfumato.mine.itemsets.methods.son import son
from sfumato.mine.itemsets.results import Itemsets
from sfumato.mine.itemsets.sources.baskets import Baskets

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["METHODS", "count_of", "frequent_itemsets", "min_count_of"]

OWNER = "frequent_itemsets"
Method = Callable[..., list[tuple[np.ndarray, np.ndarray]]]
# mine(baskets, min_count, *, max_size, memory_limit, explain, **own) -> (codes, counts) by size
METHODS: dict[str, Method] = {
    "eclat": eclat,
    "apriori": apriori,
    "pcy": pcy,
    "multistage": multistage,
    "multihash": multihash,
    "sampling": sampling,
    "son": son,
    "toivonen": toivonen,
}


def frequent_itemsets(
    baskets: Any,
    min_support: float,
    *,
    method: str = "auto",
    max_size: int | None = None,
    memory_limit: int | None = None,
    explain: bool = False,
    engine: "Engine | None" = None,
    column: str = "items",
    **options: Any,
) -> Itemsets:
    """Find all sets of items that are together in at least so many baskets.

    Parameters
    ----------
    baskets : Baskets, array_like or source
        Baskets, or what `Baskets` takes; with `engine` what the engine reads.
    min_support : float
        Below 1 a fraction of all baskets, above 0; from 1 up an integer number of baskets.
    method : str, default="auto"
        Algorithm: "eclat", "apriori", "pcy", "multistage", "multihash", "sampling", "son" or
        "toivonen"; "auto" chooses by size, density and memory, and says why in `reason`.
    max_size : int or None, default=None
        Number of items of the largest itemsets, at least 1; None for no limit.
    memory_limit : int or None, default=None
        Bytes that may be used; None for no limit.
    explain : bool, default=False
        Whether to record what each pass did, in `explain` of the result.
    engine : Engine or None, default=None
        Where the baskets are and the passes run, by SON; None for this process. With it `method`
        is "auto" or "son", and `memory_limit` is None.
    column : str, default="items"
        Name of the column of lists, one basket per row; only with `engine`.
    **options : object
        Of the method: `sparse` and `dense` (eclat; number of words of a bitset per entry of a list
        from which lists of baskets, or of those that lack an item, replace bitsets), `buckets` and
        `seed` (pcy, multistage, multihash), `stages` (multistage), `tables` (multihash), `sample`,
        `lowered` and `random_state` (sampling, toivonen), `verify` (sampling), `chunk_baskets`
        (son), and `longest` (those that count pairs): how many items of a basket, the most frequent
        ones, are paired.

    Returns
    -------
    Itemsets
        The itemsets, with their counts and supports.

    Notes
    -----
    **Guarantee.** Unless `exact` of the result is False, it has every itemset that is in at least
    ``min_support`` baskets (a fraction is rounded up to a count), no other, with exact counts. On
    any engine the result is that of method "son" here, row for row.

    An engine makes three passes over its source. Each partition is mined where it is, in chunks;
    the counts of all items and the candidates of all partitions are in the memory of the caller.

    Examples
    --------
    >>> frequent_itemsets([["milk", "tea"], ["tea"], ["milk", "tea"]], 2).to_list()
    [(('tea',), 3), (('milk',), 2), (('tea', 'milk'), 2)]
    >>> from sfumato.engine import LocalEngine
    >>> rows = {"items": [["milk", "tea"], ["tea"], ["milk", "tea"]]}
    >>> len(frequent_itemsets(rows, 2, engine=LocalEngine(threads=2)))
    3
    """
    method = one_of(("auto", *METHODS)).check(OWNER, "method", method)
    most = optional(integer(1)).check(OWNER, "max_size", max_size)
    limit = optional(integer(1)).check(OWNER, "memory_limit", memory_limit)
    record: list[dict[str, Any]] | None = [] if flag.check(OWNER, "explain", explain) else None
    if engine is not None:
        _check_engine(method, limit, options)
        return _by_engine(engine, baskets, column, min_support, most, record, options)
    baskets = baskets if isinstance(baskets, Baskets) else Baskets(baskets)
    min_count = min_count_of(min_support, baskets)
    reason = "chosen by the caller"
    if method == "auto":
        method, reason = _choice(baskets, min_count, limit)
    mine = METHODS[method]
    _check_options(method, mine, options)
    levels = mine(baskets, min_count, max_size=most, memory_limit=limit, explain=record, **options)
    if warning := getattr(levels, "warning", None):
        warnings.warn(f"{OWNER}: {warning}", UserWarning, stacklevel=2)
    return Itemsets.from_codes(
        levels,
        baskets,
        min_count=min_count,
        method=method,
        reason=reason,
        exact=getattr(levels, "exact", True),
        missed=getattr(levels, "missed", 0.0),
        explain=record or (),
    )


def _check_engine(method: str, limit: int | None, options: Mapping[str, Any]) -> None:
    """Refuse what only baskets in this process can have."""
    if method not in ("auto", "son"):
        problem = f"must be 'auto' or 'son' with an engine, not {method!r}."
        raise ParameterError.of(OWNER, "method", problem)
    if limit is not None:
        problem = "must be None with an engine, whose own settings limit its memory."
        raise ParameterError.of(OWNER, "memory_limit", problem)
    for name in options:
        if name != "chunk_baskets":
            valid = "an engine has the option chunk_baskets alone."
            raise TypeError(f"{OWNER}: there is no option {name!r} with an engine; {valid}")


def _by_engine(
    engine: "Engine",
    source: Any,
    column: str,
    min_support: Any,
    max_size: int | None,
    record: list[dict[str, Any]] | None,
    options: Mapping[str, Any],
) -> Itemsets:
    """Mine the baskets of an engine by SON."""
    count_of(min_support, lambda: 1, OWNER)  # refuse it before the first pass
    items = count_items(engine, source, column)
    min_count = count_of(min_support, lambda: items.size, OWNER)
    if record is not None:
        facts = {"candidates": items.items.size, "frequent": items.frequent(min_count)}
        record.append({"pass": 1, "step": "count items", **facts})
    levels = engine_son(
        engine, source, column, items, min_count, max_size=max_size, explain=record, **options
    )
    return Itemsets(
        levels,
        items.items,
        items.size,
        min_count=min_count,
        method="son",
        reason="the baskets are in partitions of an engine",
        explain=record or (),
    )


def _check_options(method: str, mine: Method, options: Mapping[str, Any]) -> None:
    known = list(inspect.signature(mine).parameters)[5:]
    for name in options:
        if name not in known:
            valid = ", ".join(known) or "none"
            raise TypeError(f"{OWNER}: method {method!r} has no option {name!r}; it has: {valid}.")


def min_count_of(min_support: Any, baskets: Baskets, owner: str = OWNER) -> int:
    """Number of baskets that a `min_support` stands for."""
    return count_of(min_support, lambda: baskets.size, owner)


def count_of(min_support: Any, size: Callable[[], int], owner: str) -> int:
    """Number of baskets that a `min_support` stands for, among as many as `size` returns."""
    wanted = "must be a fraction above 0 and below 1, or an integer number of baskets from 1 up"
    try:
        support = math.nan if isinstance(min_support, bool | np.bool_ | str) else float(min_support)
    except (TypeError, ValueError, OverflowError):
        support = math.nan
    if not 0 < support < math.inf or (support >= 1 and support != int(support)):
        raise ParameterError.of(owner, "min_support", f"{wanted}, not {min_support!r:.100}.")
    if support >= 1:
        return int(support)
    # The product of a decimal fraction and a size may be a little above the integer it stands for.
    return max(1, math.ceil(support * size() * (1 - 1e-12)))


def _choice(baskets: Baskets, min_count: int, limit: int | None) -> tuple[str, str]:
    """The method for baskets of this size and density, and why."""
    need, n = eclat_bytes(baskets, min_count), baskets.frequent(min_count)
    density = baskets.item_counts[:n].sum() / max(1, n * baskets.size)
    facts = (
        f"{baskets.size:,} baskets and {n:,} frequent items, each in {density:.2%} of them on "
        f"average, take about {need / 2**20:,.0f} MiB in memory"
    )
    if limit is None:
        return "eclat", f"{facts}, and no memory_limit is given"
    if need <= limit:
        return "eclat", f"{facts}, which the memory_limit of {limit / 2**20:,.0f} MiB allows"
    return "son", (
        f"{facts}, more than the memory_limit of {limit / 2**20:,.0f} MiB, so they are mined chunk "
        "by chunk in two passes"
    )
