"""A comparison as texts: the leaderboard of the terminal, and the HTML page."""

import math
from html import escape
from typing import TYPE_CHECKING, Any

from sfumato.core.html_pages import AUDIENCE, document, table
from sfumato.recommend.comparison.clustered_means import Difference, Estimate
from sfumato.recommend.comparison.figure import drawn, svg
from sfumato.recommend.comparison.measurement import ITEM_SLICES

if TYPE_CHECKING:
    from sfumato.recommend.comparison.results import Comparison, ModelResult

__all__ = ["headline", "page", "tables"]

SPLITS = {
    "row": "random rows as test",
    "user": "random rows of each user as test",
    "time": "the latest rows as test",
    "last": "the latest row of each user as test",
}
LISTS = {"coverage": ".1%", "diversity": ".3f", "novelty": ".2f", "popularity_bias": "+.2f"}
MEANINGS = {
    "ranking": {
        "Lists": "The best items of the entire catalogue for each user, without the user's own "
        "items of the training part. What the user has in the test part is relevant.",
        "Coverage": "Fraction of the catalogue that appears in at least one list.",
        "Diversity": "One less the mean cosine of two items of a list, items being the sets of "
        "their training users; of at most 1,000 lists.",
        "Novelty": "Mean bits of a listed item: -log2 of the fraction of users who have it.",
        "Popularity bias": "By how many bits the items of a list are more popular than the user's "
        "own training items; 0 is neutral, +1 means twice as popular.",
        "Slices": "Users by their number of training rows; items of the head (the most popular "
        "ones with the stated fraction of the training rows), of the tail, and new ones, only "
        "which count as relevant there.",
    },
    "ratings": {
        "Errors": "RMSE and MAE of predicted ratings over the rows of the test part.",
        "Slices": "Rows of users by their number of training rows; rows of items of the head (the "
        "most popular ones with the stated fraction of the training rows), of the tail, and new "
        "ones.",
    },
}
STATISTICS = {
    "Intervals": "Student's t over users: all values of a user, of several rows or repeats, are "
    "one cluster, and the mean is linearized (the delta method). They describe other users, not "
    "other data sets, and not the seed of a model.",
    "Differences": "Model less the other, paired by user; their intervals are of one pair. "
    "p is of the paired t-test, adjusted by Holm's method for all pairs of models, so that "
    "choosing the best of them afterwards is covered.",
    "Seconds": "Wall clock, the median of the repeats: of a fit, and of all lists or predictions "
    "of a test part. A first fit may include the compilation of kernels.",
}


def headline(found: "Comparison") -> str:
    """Return how the models were compared, in one line."""
    protocol = found.protocol
    what = "lists of the entire catalogue" if protocol.objective == "ranking" else "ratings"
    size = "" if protocol.split == "last" else f" ({100 * protocol.test_size:.3g} %)"
    repeats = f", {found.repeats} repeats" if found.repeats > 1 else ""
    data = ", ".join(f"{count:,} {name}" for name, count in found.data.items())
    stopped = f"; stopped early, {found.repeats} of {protocol.repeats} repeats"
    return (
        f"Comparison by {what}, {SPLITS[protocol.split]}{size}{repeats}, of {data}; "
        f"{100 * protocol.confidence:.4g} % intervals over users{stopped if found.stopped else ''}"
    )


def tables(found: "Comparison") -> list[dict[str, list[str]]]:
    """Return what people read first, as columns by title: accuracy, then lists and costs."""
    first, results = found.protocol.metrics[0], found.results.values()
    model = {"model": list(found.results)}
    accuracy = {
        metric: [_plus_minus(each.metrics[metric]) for each in results]
        for metric in found.protocol.metrics
    }
    for title, other in _others(found).items():
        gaps = [each.differences[first].get(other) for each in results]
        accuracy[f"{first} - {title}"] = [
            "" if gap is None else f"{gap.value:+.4f} (p {_p(gap.p)})" for gap in gaps
        ]
    return [model | accuracy, model | _lists(found) | _costs(found)]


def page(found: "Comparison") -> str:
    """Return the HTML page of a comparison, without outside resources."""
    title = f"Comparison of {len(found.results)} recommenders"
    failed = [[name, sentence] for name, sentence in found.failed.items()]
    meanings = MEANINGS[found.protocol.objective] | STATISTICS
    model, lists = {"model": list(found.results)}, _lists(found)
    intervals = {
        metric: [_interval(each.metrics[metric], ".4f") for each in found.results.values()]
        for metric in found.protocol.metrics
    }
    terms = "".join(f"<dt>{a}</dt><dd>{escape(b)}</dd>" for a, b in meanings.items())
    parts = [
        f"<h1>{title}</h1>",
        f'<p class="audience"><strong>{AUDIENCE}</strong>. These figures are computed from raw '
        "data and no noise protects them.</p>",
        f"<p>{escape(headline(found))}.</p>",
        _table(model | intervals | _costs(found)),
        "<h2>Failed</h2>" + table(["model", "error"], failed) if failed else "",
        svg(drawn(found)) if found.results else "",
        *_differences(found),
        *_slices(found),
        "<h2>Lists</h2>" + _table(model | lists) if lists else "",
        "<h2>What the figures mean</h2>",
        f"<dl>{terms}</dl>",
    ]
    return document(title, parts)


def _table(columns: dict[str, list[str]]) -> str:
    """Return an HTML table of columns by title."""
    return table(list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def _lists(found: "Comparison") -> dict[str, list[str]]:
    """Return the properties of lists; none of a comparison by ratings."""
    results = found.results.values()
    return {
        name.replace("_", " "): [_number(each.lists[name], form) for each in results]
        for name, form in LISTS.items()
        if found.protocol.objective == "ranking"
    }


def _costs(found: "Comparison") -> dict[str, list[str]]:
    results = found.results.values()
    return {
        "fit s": [f"{each.fit_seconds:.3g}" for each in results],
        "answer s": [f"{each.answer_seconds:.3g}" for each in results],
        "memory": [_size(each.nbytes) for each in results],
        "privacy": [_privacy(each) for each in results],
    }


def _others(found: "Comparison") -> dict[str, str]:
    """Return the models that all are compared with: the best and the baseline, by their title."""
    others = {"best": found.best or "", "baseline": found.baseline}
    measured = {title: name for title, name in others.items() if name in found.results}
    return {"baseline": found.baseline} if found.best == found.baseline else measured


def _differences(found: "Comparison") -> list[str]:
    """Return a table of differences from the best model, and one from the baseline."""
    parts = []
    for title, other in _others(found).items():
        measured = {name: each for name, each in found.results.items() if name != other}
        columns = {"model": list(measured)}
        for metric in found.protocol.metrics:
            gaps = [each.differences[metric][other] for each in measured.values()]
            columns[metric] = [_interval(gap, "+.4f") for gap in gaps]
            columns[f"{metric}, p"] = [_p(gap.p) for gap in gaps]
        if measured:
            parts += [f"<h2>Difference from the {title}, {escape(other)}</h2>", _table(columns)]
    return parts


def _slices(found: "Comparison") -> list[str]:
    """Return one table for slices of users and one for those of items, of the first metric."""
    first, results = found.protocol.metrics[0], found.results.values()
    names = list(dict.fromkeys(name for each in results for name in each.slices))
    parts = []
    for kind, of_items in (("Users by training rows", False), ("Items by popularity", True)):
        columns = {"model": list(found.results)}
        for name in names:
            if (name in ITEM_SLICES) == of_items:
                values = [each.slices[name][first] for each in results]
                title = f"{name} ({values[0].users:,} users)"
                columns[title] = [_interval(value, ".4f") for value in values]
        if len(columns) > 1:
            parts += [f"<h2>{kind}: {escape(first)}</h2>", _table(columns)]
    return parts


def _plus_minus(value: Estimate) -> str:
    half = max(value.high - value.value, value.value - value.low)
    return _number(value.value, ".4f") + ("" if math.isnan(half) else f" ±{half:.4f}")


def _interval(value: Estimate | Difference, form: str) -> str:
    if math.isnan(value.low):
        return _number(value.value, form)
    return f"{value.value:{form}} [{value.low:{form}}, {value.high:{form}}]"


def _p(p: float) -> str:
    if math.isnan(p):
        return "-"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:{form}}"


def _size(nbytes: int | None) -> str:
    if nbytes is None:
        return "-"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.3g} {unit}"
    return f"{nbytes} B"


def _privacy(result: "ModelResult") -> str:
    epsilon: Any = result.epsilon
    return result.privacy if epsilon is None else f"{result.privacy}, epsilon {epsilon:.4g}"
