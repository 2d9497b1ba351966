"""association_rules: which items make which others likely, from frequent itemsets alone."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.core.tables import Table, described
from sfumato.core.validation import integer, one_of, optional
from sfumato.errors import ParameterError
from sfumato.mine.itemsets.itemset_index import ItemsetIndex
from sfumato.mine.itemsets.results import Itemsets

__all__ = ["METRICS", "Rules", "association_rules"]

OWNER = "association_rules"
METRICS = ("confidence", "support", "interest", "lift", "leverage", "conviction")
BLOCK = 2**19  # items of the itemsets that are split at a time


class Rules(Table):
    """Association rules, as `association_rules` returns them.

    Parameters
    ----------
    columns : dict
        The columns of the table.
    metric : str
        The number by which the rules are chosen and sorted.

    Examples
    --------
    >>> from sfumato.mine.itemsets import association_rules, frequent_itemsets
    >>> found = frequent_itemsets([["milk", "tea"], ["tea"], ["milk", "tea"]], 2)
    >>> rules = association_rules(found, min=0.9)
    >>> rules.to_arrow().select(["antecedent", "consequent", "confidence"]).to_pylist()
    [{'antecedent': ['milk'], 'consequent': ['tea'], 'confidence': 1.0}]
    """

    def __init__(self, columns: dict[str, Any], metric: str) -> None:
        self.metric: str
        self._all, self.metric = columns, metric

    def __len__(self) -> int:
        return len(self._all["count"])

    def __repr__(self) -> str:
        return described(self, rules=len(self), metric=self.metric)

    def _columns(self) -> dict[str, Any]:
        return self._all

    def figure(self, kind: str = "png") -> bytes:
        """Draw the rules: support against confidence, with lift as colour.

        Parameters
        ----------
        kind : {"png", "svg", "pdf"}, default="png"
            Format of the picture.

        Returns
        -------
        bytes
            Content of the file. Needs matplotlib.
        """
        # Only here: most who mine draw nothing.
        from matplotlib.figure import Figure
        from matplotlib.ticker import LogLocator, NullFormatter

        kind = one_of(("png", "svg", "pdf")).check("Rules", "kind", kind)
        drawn = Figure(figsize=(7, 5), layout="constrained")
        axis: Any = drawn.subplots()
        # On a scale of factors, with grey where items are independent.
        lift = np.log2(np.asarray(self._all["lift"]))
        most = max(float(np.abs(lift).max(initial=0.0)), 1e-9)
        order = np.argsort(np.abs(lift), kind="stable")  # the strongest are drawn last
        shown = axis.scatter(
            np.asarray(self._all["support"])[order],
            np.asarray(self._all["confidence"])[order],
            c=lift[order],
            cmap="coolwarm",
            vmin=-most,
            vmax=most,
            s=14,
            linewidths=0,
        )
        bar = drawn.colorbar(shown, ax=axis, label="lift")
        bar.ax.yaxis.set_major_formatter(lambda power, _: f"{2.0**power:.3g}")
        axis.set_xlabel("support")
        axis.set_ylabel("confidence")
        if len(self):
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=_marks(np.asarray(self._all["support"]))))
            axis.xaxis.set_major_formatter(lambda support, _: f"{100 * support:.3g} %")
            axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(f"{len(self)} rules", fontsize=10, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        out = BytesIO()
        drawn.savefig(out, format=kind, dpi=120)
        return out.getvalue()


def _marks(supports: np.ndarray) -> tuple[float, ...]:
    """Multiples of powers of ten that mark an axis of supports: fewer, the wider it is."""
    decades = float(np.log10(supports.max() / supports.min()))
    if decades > 2.5:
        return (1.0,)
    if decades > 1:
        return (1.0, 2.0, 5.0)
    return (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)


def association_rules(
    itemsets: Itemsets,
    metric: str = "confidence",
    *,
    min: float = 0.5,
    top: int | None = None,
    consequents: str = "single",
) -> Rules:
    """Find the rules "baskets with these items have those as well".

    Parameters
    ----------
    itemsets : Itemsets
        All frequent itemsets, as `frequent_itemsets` returns them; not only closed or maximal ones.
    metric : str, default="confidence"
        The number that `min` and `top` apply to: "confidence", "support", "interest", "lift",
        "leverage" or "conviction".
    min : float, default=0.5
        Smallest value of the metric.
    top : int or None, default=None
        Number of rules, those with the largest metric; None for all.
    consequents : str, default="single"
        "single" for rules with one item on the right side, "several" for all.

    Returns
    -------
    Rules
        By decreasing metric, then support. Columns: `antecedent` and `consequent` (lists), `count`
        and `support` of both together, `antecedent_support`, `consequent_support`, `confidence`,
        `interest`, `sign`, `lift`, `leverage`, `conviction`.

    Notes
    -----
    **Guarantee.** Every rule whose itemset is given, and whose metric is at least `min`, is found.
    For the rule A -> B with supports as fractions of baskets: confidence is P(A and B) / P(A);
    interest is ``abs(confidence - P(B))`` and `sign` tells whether A makes B more (1) or less (-1)
    likely, or neither (0); lift is confidence / P(B); leverage is P(A and B) - P(A) P(B);
    conviction is (1 - P(B)) / (1 - confidence), infinite for a confidence of 1.

    Moving items from A to B never raises the confidence [1]_. So by the metric "confidence" a right
    side is tried only where it is one item more than one that was confident enough. By the other
    metrics all ``2**k - 2`` rules of an itemset of k items are computed.

    References
    ----------
    .. [1] Agrawal, Srikant. "Fast Algorithms for Mining Association Rules". VLDB 1994, section 3.
       https://www.vldb.org/conf/1994/P487.PDF

    Examples
    --------
    >>> from sfumato.mine.itemsets import frequent_itemsets
    >>> found = frequent_itemsets([["milk", "tea"], ["tea"], ["milk", "tea"]], 2)
    >>> association_rules(found, "lift", min=1).to_arrow()["antecedent"].to_pylist()
    [['milk'], ['tea']]
    """
    metric = one_of(METRICS).check(OWNER, "metric", metric)
    several = one_of(("single", "several")).check(OWNER, "consequents", consequents) == "several"
    top = optional(integer(1)).check(OWNER, "top", top)
    least = _number(min)
    found = _Found(itemsets)
    pruned = least if metric == "confidence" else -np.inf
    parts = [_chosen(found, part, metric, least) for part in found.splits(several, pruned)]
    return found.rules(parts, metric, top)


def _number(least: Any) -> float:
    try:
        value = float("nan") if isinstance(least, bool | str) else float(least)
    except (TypeError, ValueError, OverflowError):
        value = float("nan")
    if value != value:
        raise ParameterError.of(OWNER, "min", f"must be a number, not {least!r:.100}.")
    return value


class _Split(NamedTuple):
    """Rules of one size: rows of itemsets, bits of their right side, and three counts."""

    level: int
    rows: np.ndarray
    bits: np.ndarray
    both: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def take(self, at: np.ndarray) -> "_Split":
        return _Split(self.level, *(column[at] for column in self[1:]))


class _Found:
    """Itemsets by size, with a way from any of their subsets to its count."""

    def __init__(self, itemsets: Itemsets) -> None:
        if not isinstance(itemsets, Itemsets):
            raise TypeError(
                f"{OWNER}: itemsets must be the Itemsets of frequent_itemsets, not "
                f"{type(itemsets).__name__}."
            )
        self.n, self.items = itemsets.n_baskets, itemsets.items
        sizes = [codes.shape[1] for codes, _ in itemsets.levels]
        if sizes != list(range(1, len(sizes) + 1)):
            raise _incomplete()
        self.codes = [codes for codes, _ in itemsets.levels]
        self.counts = [counts for _, counts in itemsets.levels]
        self.index = ItemsetIndex(self.codes)

    def splits(self, several: bool, least: float) -> Iterator[_Split]:
        """Yield the rules of all itemsets, as far as their confidence is at least `least`."""
        for level, codes in enumerate(self.codes[1:], 1):
            step = max(BLOCK // codes.shape[1] ** 2, 1)
            for start in range(0, codes.shape[0], step):
                rows = np.arange(start, min(start + step, codes.shape[0]))
                yield from self._of_rows(level, rows, several, least)

    def _of_rows(
        self, level: int, rows: np.ndarray, several: bool, least: float
    ) -> Iterator[_Split]:
        size = level + 1
        place = np.arange(size)
        single = self._counted(
            level, np.repeat(rows, size), np.tile(np.eye(size, dtype=bool), (rows.size, 1))
        )
        good = single.both / single.left >= least
        possible = good.reshape(rows.size, size)  # right sides of one item that may grow
        split = single.take(np.flatnonzero(good))
        yield split
        for _ in range(2, size if several else 0):
            if not split.rows.size:
                return
            # One item more, after all that are there: each right side comes about once.
            last = np.where(split.bits, place, -1).max(axis=1)
            at, new = np.nonzero((place > last[:, np.newaxis]) & possible[split.rows - rows[0]])
            bits = split.bits[at]
            bits[np.arange(at.size), new] = True
            split = self._counted(level, split.rows[at], bits)
            split = split.take(np.flatnonzero(split.both / split.left >= least))
            yield split

    def _counted(self, level: int, rows: np.ndarray, bits: np.ndarray) -> _Split:
        """Look up the counts of both sides of rules whose right sides have equally many items."""
        codes = self.codes[level][rows]
        width = int(bits[0].sum()) if rows.size else 1
        left = self._count(codes[~bits].reshape(rows.size, level + 1 - width))
        right = self._count(codes[bits].reshape(rows.size, width))
        return _Split(level, rows, bits, self.counts[level][rows], left, right)

    def _count(self, codes: np.ndarray) -> np.ndarray:
        at = self.index.find(codes)
        if at.min(initial=0) < 0:
            raise _incomplete()
        return np.asarray(self.counts[codes.shape[1] - 1][at])

    def metrics(self, split: _Split) -> dict[str, np.ndarray]:
        """Return the numbers of rules, from integers as far as they go."""
        exact = np.int64 if self.n < 2**31 else np.float64  # products stay below 2**62
        both, left, right = (column.astype(exact) for column in split[3:])
        n = exact(self.n)
        excess = both * n - left * right
        with np.errstate(divide="ignore", invalid="ignore"):
            conviction = (n - right) * left / (n * (left - both))
        return {
            "count": split.both,
            "support": both / n,
            "antecedent_support": left / n,
            "consequent_support": right / n,
            "confidence": both / left,
            "interest": np.abs(excess) / (left * n),
            "sign": np.sign(excess).astype(np.int8),
            "lift": both * n / (left * right),
            "leverage": excess / n / n,
            "conviction": np.where(left == both, np.inf, conviction),
        }

    def rules(self, parts: list[_Split], metric: str, top: int | None) -> Rules:
        """Sort the rules of all parts and write their sides."""
        metrics = [self.metrics(part) for part in parts] or [self.metrics(_NONE)]
        columns = {name: np.concatenate([each[name] for each in metrics]) for name in metrics[0]}
        order = np.lexsort([-columns["support"], -columns[metric]])[:top]
        sides = {
            "antecedent": self._side(parts, order, left=True),
            "consequent": self._side(parts, order, left=False),
        }
        return Rules({**sides, **{name: each[order] for name, each in columns.items()}}, metric)

    def _side(self, parts: list[_Split], order: np.ndarray, *, left: bool) -> pa.Array:
        """Return the items of one side of the rules, as lists."""
        sides = [part.bits ^ left for part in parts]
        flat = [self.codes[p.level][p.rows][side] for p, side in zip(parts, sides, strict=True)]
        sizes = [side.sum(axis=1) for side in sides]
        ends = np.concatenate([[0], *sizes]).cumsum()
        words = pa.large_string() if self.items.dtype == object else None
        codes = pa.array(np.concatenate([np.empty(0, np.int32), *flat]))
        values = pa.array(self.items, words).take(codes)
        return pa.LargeListArray.from_arrays(pa.array(ends), values).take(pa.array(order))


_NONE = _Split(0, *(np.empty(0, np.int64) for _ in range(5)))


def _chosen(found: _Found, part: _Split, metric: str, least: float) -> _Split:
    return part.take(np.flatnonzero(found.metrics(part)[metric] >= least))


def _incomplete() -> ValueError:
    return ValueError(
        f"{OWNER}: itemsets must have every subset of each itemset; give all frequent ones, not "
        "closed or maximal ones alone."
    )
