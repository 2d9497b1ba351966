"""The sketches' and the privacy stops of `sfumato demo`: answers of sketches beside the truth."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from sfumato import sketch
from sfumato.attack import audit
from sfumato.engine import map_merge
from sfumato.privacy import BudgetExceeded, Ledger
from sfumato.privacy.mechanisms.additive import Laplace

__all__ = ["privacy", "sketches"]

EVENTS, ITEMS, USERS = 2_000_000, 100_000, 50_000
Row = dict[str, Any]


class _Shop:
    """Purchases of a generated shop: Zipf-popular items, users of uneven appetite."""

    def __init__(self, events: int) -> None:
        random = np.random.default_rng(7)
        cumulative = np.cumsum(1 / np.arange(1, ITEMS + 1) ** 1.1)
        self.item = np.searchsorted(cumulative, random.random(events) * cumulative[-1])
        self.user = (USERS * random.random(events) ** 2).astype(np.int64)
        self.names = pa.array([f"item {i}" for i in range(ITEMS)]).take(pa.array(self.item))
        self.counts = np.bincount(self.item, minlength=ITEMS)

    def basket(self, user: int) -> np.ndarray:
        return np.unique(self.item[self.user == user])


def sketches(console: Console, events: int = EVENTS) -> list[Row]:
    """Ask sketches of generated purchases; print each answer beside the truth, return the rows."""
    stops = (_how_often, _best_sellers, _how_many, _bought, _similar, _directions, _together)
    return _visited(stops, console, events)


def privacy(console: Console, events: int = EVENTS) -> list[Row]:
    """Release a sketch from a budget and audit a mechanism; print and return the rows."""
    return _visited((_released, _measured), console, events)


def _visited(
    stops: tuple[Callable[[_Shop], Iterator[Any]], ...], console: Console, events: int
) -> list[Row]:
    console.print(f"A shop with {events:,} purchases, generated; nothing is downloaded.\n")
    shop = _Shop(events)
    return [row for stop in stops for row in _shown(stop(shop), console)]


def _shown(stop: Iterator[Any], console: Console) -> Iterator[dict[str, Any]]:
    console.print(f"[bold cyan]{next(stop)}[/]")
    table = Table(box=None, pad_edge=False)
    for name in ("question", "sketch says", "truth", "memory"):
        table.add_column(name, justify="left" if name == "question" else "right", min_width=12)
    for question, answer, truth, memory in stop:
        table.add_row(question, answer, truth, memory)
        yield {"question": question, "answer": answer, "truth": truth, "memory": memory}
    console.print(table)
    console.print()


def _size(made: Any) -> str:
    return f"{made.nbytes / 1024:,.0f} KiB" if made.nbytes >= 1024 else f"{made.nbytes} bytes"


def _how_often(shop: _Shop) -> Iterator[Any]:
    yield "How often was it bought?  CountMin.from_error(0.0001).update(names)"
    counts = sketch.CountMin.from_error(0.0001, 0.99).update(shop.names)
    for item in (0, 10, 1000):
        says = int(counts.estimate([f"item {item}"])[0])
        yield f"item {item}", f"{says:,}", f"{shop.counts[item]:,}", _size(counts)
    yield _within("too high by at most, 95 % of items", counts, shop)


def _within(question: str, counts: Any, shop: _Shop) -> tuple[str, str, str, str]:
    """The proved bound of counts at 95 %, and how many of all items are within it."""
    bound = counts.error_bound(0.95)
    errors = np.abs(counts.estimate([f"item {item}" for item in range(ITEMS)]) - shop.counts)
    return question, f"{bound:,.0f}", f"{np.mean(errors <= bound):.1%} of items", ""


def _best_sellers(shop: _Shop) -> Iterator[Any]:
    yield "Which sell best?  CountSketch(8192, 5, combine='median', track=20).update(names)"
    best = sketch.CountSketch(8192, 5, combine="median", track=20).update(shop.names)
    order = np.argsort(-shop.counts)
    keys, values = best.heavy_hitters(3)
    for rank, (key, value) in enumerate(zip(keys, values, strict=True)):
        truth = f"item {order[rank]}: {shop.counts[order[rank]]:,}"
        yield f"number {rank + 1}", f"{key}: {value:,.0f}", truth, _size(best)


def _how_many(shop: _Shop) -> Iterator[Any]:
    yield "How many different customers?  HyperLogLog().update(users)"
    customers = sketch.HyperLogLog().update(shop.user)
    yield (
        "customers",
        f"{customers.estimate():,.0f}",
        f"{np.unique(shop.user).size:,}",
        _size(customers),
    )


def _bought(shop: _Shop) -> Iterator[Any]:
    yield "Was it ever bought?  BloomFilter.from_capacity(100_000, 0.01).update(names)"
    bought = sketch.BloomFilter.from_capacity(ITEMS, 0.01).update(shop.names)
    yield "item 1", str(bool(bought.contains(["item 1"])[0])), "True", _size(bought)
    false_positives = bought.contains([f"not for sale {i}" for i in range(10_000)]).mean()
    yield "false positive rate", f"{false_positives:.2%}", "0 %", ""


def _similar(shop: _Shop) -> Iterator[Any]:
    yield "How similar are two baskets?  MinHash(256).update(a).similarity(other)"
    one, other = shop.basket(0), shop.basket(1)
    left, right = sketch.MinHash(256).update(one), sketch.MinHash(256).update(other)
    truth = np.intersect1d(one, other).size / np.union1d(one, other).size
    yield "customers 0 and 1", f"{left.similarity(right):.3f}", f"{truth:.3f}", _size(left)


def _directions(shop: _Shop) -> Iterator[Any]:
    yield "How similar are two customers?  CosineSketch(1024).update(rows)"
    random = np.random.default_rng(1)
    tastes = random.normal(size=(2, 64)) + random.normal(size=64)
    truth = float(tastes[0] @ tastes[1] / np.linalg.norm(tastes[0]) / np.linalg.norm(tastes[1]))
    codes = sketch.CosineSketch(1024).update(tastes)
    yield "cosine of two vectors", f"{codes.cosine(codes)[0, 1]:.3f}", f"{truth:.3f}", _size(codes)


def _released(shop: _Shop) -> Iterator[Any]:
    yield "What may be released?  sketch.release(1, ledger=ledger, dataset='orders')"
    counts = sketch.CountSketch(8192, 5, combine="median").update(shop.names)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "shop.ledger")
        ledger.create("orders", epsilon=1.5)
        released = counts.release(1, ledger=ledger, dataset="orders", release_id="june")
        for item in (0, 10, 1000):
            says, near = released.estimate(f"item {item}"), released.interval(f"item {item}")
            answer = f"{says:,.0f} +-{(near[1] - near[0]) / 2:,.0f}"
            yield f"item {item}, private", answer, f"{shop.counts[item]:,}", _size(released)
        yield _within("off by at most, 95 % of items", released, shop)
        again = counts.release(1, ledger=ledger, dataset="orders", release_id="june")
        spent = f"epsilon {ledger.spent('orders').epsilon:g}"
        yield "a retry: same bytes, spent", f"{again == released}, {spent}", "epsilon 1", ""
        try:
            counts.release(1, ledger=ledger, dataset="orders")
        except BudgetExceeded:
            yield "one more, of a budget of 1.5", "refused", "refused", ""


def _measured(shop: _Shop) -> Iterator[Any]:
    yield "Does the guarantee hold?  audit(Laplace(1, epsilon=1), (0, 1))"
    honest = audit(Laplace(1, epsilon=1), (0, 1), 20_000)
    broken = audit(lambda x, n, s: Laplace(1, 4).sample(x, n), (0, 1), 20_000, claimed=1)
    verdict = "missed" if broken else "caught"
    yield "epsilon measured, at least", f"{honest.epsilon:.2f}", "at most 1", ""
    yield (
        "the same with a quarter of the noise",
        f"{broken.epsilon:.2f}: {verdict}",
        "4: caught",
        "",
    )


def _together(shop: _Shop) -> Iterator[Any]:
    yield "Two threads, one answer?  map_merge(table, make_sketch, column='item')"
    direct = sketch.CountMin(65536).update(shop.item)
    parts = map_merge({"item": shop.item}, lambda: sketch.CountMin(65536), column="item", threads=2)
    yield "merged = built at once, bit for bit", str(parts == direct), "True", _size(direct)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "items.sketch"
        direct.save(path)
        yield "saved and read back", str(sketch.load(path) == direct), "True", ""
