"""The mining stop of `sfumato demo`: patterns planted in generated data, and what was found."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from sfumato.mine.cluster import KMeans, purity
from sfumato.mine.itemsets import Baskets, association_rules, frequent_itemsets
from sfumato.mine.rank import Graph, pagerank
from sfumato.mine.similar import near_duplicates

__all__ = ["mining"]

Row = dict[str, Any]
BASKETS, SHOP, BUNDLE = 200_000, 2_000, (11, 222, 1_111)
SUPPORT = 0.015  # above that of the bundle with the most popular item
ARTICLES, COPIES, WORDS = 3_000, 100, 80
CLUSTERS = 12


def mining(console: Console) -> list[Row]:
    """Mine baskets, texts, points and links; print the table and return its rows."""
    console.print(
        f"What is hidden in {BASKETS:,} baskets, {ARTICLES:,} texts, points and links?\n"
        "frequent_itemsets(baskets, 0.015), near_duplicates(texts), KMeans, pagerank"
    )
    random = np.random.default_rng(5)
    rows = [row for stop in (_baskets, _texts, _points, _links) for row in stop(random)]
    table = Table(box=None, pad_edge=False)
    for name in ("question", "answer", "truth"):
        table.add_column(name, justify="left" if name == "question" else "right")
    for row in rows:
        table.add_row(row["question"], row["answer"], row["truth"])
    console.print(table)
    return rows


def _baskets(random: np.random.Generator) -> Iterator[Row]:
    """Zipf items; one bundle of rare items is bought together in 2 of 100 baskets."""
    sizes = random.poisson(6, BASKETS) + 1
    cumulative = np.cumsum(1 / np.arange(1, SHOP + 1))
    items = np.searchsorted(cumulative, random.random(int(sizes.sum())) * cumulative[-1])
    bundled = np.flatnonzero(random.random(BASKETS) < 0.02)
    owners = np.concatenate((np.repeat(np.arange(BASKETS), sizes), np.repeat(bundled, 3)))
    every = np.concatenate((items, np.tile(BUNDLE, bundled.size)))
    order = np.argsort(owners, kind="stable")
    offsets = np.searchsorted(owners[order], np.arange(BASKETS + 1))
    found = frequent_itemsets(Baskets((offsets, every[order])), SUPPORT)
    rule = association_rules(found, "lift", min=1.0, top=1).to_arrow().to_pylist()[0]
    together = [*rule["antecedent"], *rule["consequent"]]
    yield _row("bought together, by the highest lift", _listed(together), _listed(BUNDLE))


def _texts(random: np.random.Generator) -> Iterator[Row]:
    """Articles of random words; some are copied with one word changed."""
    words = np.array([f"word{n}" for n in range(5_000)])
    drawn = random.integers(words.size, size=(ARTICLES, WORDS))
    copied = random.choice(ARTICLES, COPIES, replace=False)
    copies = drawn[copied].copy()
    copies[np.arange(COPIES), random.integers(WORDS, size=COPIES)] = 0
    texts = [" ".join(words[row]) for row in np.concatenate((drawn, copies))]
    pairs = near_duplicates(texts, 0.8)
    planted = {(int(source), ARTICLES + n) for n, source in enumerate(copied)}
    found = set(zip(pairs["first"].to_pylist(), pairs["second"].to_pylist(), strict=True))
    yield _row("copied articles that were found", str(len(found & planted)), str(COPIES))
    yield _row("pairs that are no copies", str(len(found - planted)), "0")


def _points(random: np.random.Generator) -> Iterator[Row]:
    centres = random.normal(0, 10, (CLUSTERS, 8))
    cluster = random.integers(CLUSTERS, size=100_000)
    points = centres[cluster] + random.normal(size=(cluster.size, 8))
    labels = KMeans(CLUSTERS, random_state=0).fit(points).labels_
    yield _row("points in a cluster of their own kind", f"{purity(cluster, labels):.1%}", "100 %")


def _links(random: np.random.Generator) -> Iterator[Row]:
    """Pages that link to older ones, as often as those are linked to; page 0 is the oldest."""
    pages = 50_000
    sources = np.repeat(np.arange(1, pages), 4)
    targets = (sources * random.random(sources.size) ** 2).astype(np.int64)
    ranks = pagerank(Graph(sources, targets))
    yield _row("the most important page", str(ranks.top(1)[0][0]), "0")


def _row(question: str, answer: str, truth: str) -> Row:
    return {"question": question, "answer": answer, "truth": truth}


def _listed(items: Any) -> str:
    return ", ".join(str(item) for item in sorted(items))
