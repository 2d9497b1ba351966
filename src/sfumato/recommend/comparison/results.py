"""The result of a comparison: a leaderboard with intervals, as table, JSON, figure and page."""

import json
import math
import os
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.core.html_pages import AUDIENCE, write
from sfumato.core.tables import Table, described
from sfumato.core.validation import one_of
from sfumato.recommend.comparison.clustered_means import Difference, Estimate
from sfumato.recommend.comparison.protocol import EvaluationProtocol

__all__ = ["Comparison", "ModelResult"]


@dataclass(frozen=True)
class ModelResult:
    """Everything measured of one model; returned inside a `Comparison`.

    Parameters
    ----------
    metrics : dict of str to Estimate
        Each metric of the protocol, over all evaluated users.
    slices : dict of str to dict of str to Estimate
        The metrics by slice: users by their number of training rows, and items by popularity. In a
        slice of items, only its items count as relevant.
    differences : dict of str to dict of str to Difference
        Metric of this model less that of every other model, by metric and by the other's name.
    lists : dict of str to float
        Of lists as long as the first metric's: "coverage", the fraction of the catalogue in them;
        "diversity", one less the mean cosine of two items in a list, by their users; "novelty", the
        mean bits of an item, -log2 of the fraction of users who have it; "popularity_bias", by how
        many bits the lists are more popular than their users' own items. Empty for ratings.
    fit_seconds : float
        Median duration of a fit in seconds.
    answer_seconds : float
        Median duration of all lists, or all predictions, of a test part in seconds.
    nbytes : int or None
        Size of the fitted model in bytes; None if it reports none.
    privacy : str
        "none", "measured" or "proved".
    epsilon : float or None
        Epsilon of the model's privacy statement; None without one.

    Examples
    --------
    >>> score = Estimate(value=0.25, low=0.2, high=0.3, users=900)
    >>> ModelResult({"ndcg@10": score}, {}, {}, {}, 0.1, 0.2, 800, "none", None)
    ModelResult(metrics={'ndcg@10': 0.25}, fit_seconds=0.1, nbytes=800, privacy='none')
    """

    metrics: dict[str, Estimate]
    slices: dict[str, dict[str, Estimate]]
    differences: dict[str, dict[str, Difference]]
    lists: dict[str, float]
    fit_seconds: float
    answer_seconds: float
    nbytes: int | None
    privacy: str
    epsilon: float | None

    def __repr__(self) -> str:
        values = {name: round(each.value, 4) for name, each in self.metrics.items()}
        facts = {name: getattr(self, name) for name in ("fit_seconds", "nbytes", "privacy")}
        return described(self, metrics=values, **facts)


@dataclass(frozen=True, repr=False)
class Comparison(Table):
    """Result of `compare`: one row per model, best first by the first metric.

    Computed from raw data and not a release: for the curator only.

    Parameters
    ----------
    protocol : EvaluationProtocol
        How the models were compared.
    data : dict of str to int
        Number of "rows", "users" and "items" of the data.
    baseline : str
        Name of the trivial baseline among the models.
    results : dict of str to ModelResult
        What was measured of each model, best first.
    failed : dict of str to str
        The error of each model that could not be fitted or measured.
    repeats : int
        Number of complete repeats.
    stopped : bool
        Whether Ctrl-C ended the comparison early.

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.recommend import LinearItems
    >>> from sfumato.recommend.comparison import compare
    >>> world = generate_world(users=60, items=40, ratings=900, random_state=1)
    >>> found = compare({"linear": LinearItems()}, world.interactions)
    >>> found.to_arrow().column_names[:4]
    ['model', 'ndcg@10', 'ndcg@10_low', 'ndcg@10_high']
    """

    protocol: EvaluationProtocol
    data: dict[str, int]
    baseline: str
    results: dict[str, ModelResult]
    failed: dict[str, str]
    repeats: int
    stopped: bool

    @property
    def best(self) -> str | None:
        """Name of the best model by the first metric; None if all failed."""
        return next(iter(self.results), None)

    def difference(self, model: str, other: str | None, metric: str) -> Difference | None:
        """Return the paired difference of two models.

        Parameters
        ----------
        model : str
            Name of the model.
        other : str or None
            Name of the model it is compared with.
        metric : str
            One of the protocol's metrics.

        Returns
        -------
        Difference or None
            Metric of `model` less that of `other`; None if they are the same or one was not
            measured.
        """
        one_of(self.protocol.metrics).check("Comparison", "metric", metric)
        result = self.results.get(model)
        return None if result is None else result.differences[metric].get(other or "")

    def to_dict(self) -> dict[str, Any]:
        """Convert the comparison to plain JSON values.

        Returns
        -------
        dict
            Aggregates over users, by name; a number that is undefined is None.
        """
        plain: dict[str, Any] = _plain({"audience": AUDIENCE, "best": self.best, **asdict(self)})
        return plain

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Write the comparison as JSON, atomically.

        Parameters
        ----------
        path : path_like
            File to write.
        """
        text = json.dumps(self.to_dict(), indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        write(path, text.encode())

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write one self-contained HTML page with tables and the figure, atomically.

        Parameters
        ----------
        path : path_like
            File to write.
        """
        from sfumato.recommend.comparison.page import page

        write(path, page(self).encode())

    def plot(self) -> Any:
        """Draw the metrics of all models with their intervals, and the first one by slice.

        Returns
        -------
        matplotlib.figure.Figure
            The figure; notebooks show it, `savefig` writes it.
        """
        from sfumato.recommend.comparison.figure import drawn

        return drawn(self)

    def __repr__(self) -> str:
        facts: dict[str, Any] = {"objective": self.protocol.objective, "models": len(self.results)}
        if self.best is not None:
            first = self.protocol.metrics[0]
            facts |= {
                "best": self.best,
                first: round(self.results[self.best].metrics[first].value, 4),
            }
        facts |= {"failed": len(self.failed)} if self.failed else {}
        return described(self, **facts, **({"stopped": True} if self.stopped else {}))

    def __str__(self) -> str:
        from sfumato.recommend.comparison.page import headline, tables

        failed = [f"{name}: failed: {sentence}" for name, sentence in self.failed.items()]
        return "\n\n".join([headline(self), *map(_aligned, tables(self)), *failed])

    def _columns(self) -> dict[str, Any]:
        """Return one row per model, those that failed last."""
        names = [*self.results, *self.failed]
        columns: dict[str, Any] = {"model": names}
        for metric in self.protocol.metrics:
            for suffix, field in (("", "value"), ("_low", "low"), ("_high", "high")):
                columns[metric + suffix] = self._each(
                    lambda result, m=metric, f=field: getattr(result.metrics[m], f)
                )
        first = self.protocol.metrics[0]
        for title, other in (("to_best", self.best), ("to_baseline", self.baseline)):
            for suffix, field in (("", "value"), ("_low", "low"), ("_high", "high"), ("_p", "p")):
                columns[title + suffix] = self._each(
                    lambda result, o=other, f=field: getattr(
                        result.differences[first].get(o), f, None
                    )
                )
        for name in next(iter(self.results.values())).lists if self.results else ():
            columns[name] = self._each(lambda result, n=name: result.lists[n])
        for name in ("fit_seconds", "answer_seconds", "nbytes", "privacy", "epsilon"):
            columns[name] = self._each(lambda result, n=name: getattr(result, n))
        columns["failed"] = [None] * len(self.results) + list(self.failed.values())
        return columns

    def _each(self, value: Any) -> list[Any]:
        """Return a value of each model, None of those that failed."""
        found = [value(result) for result in self.results.values()]
        return found + [None] * len(self.failed)


def _plain(value: Any) -> Any:
    """Return a value in JSON's types; what JSON has no number for is None."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _aligned(columns: dict[str, list[str]]) -> str:
    """Return columns as lines of text, the first to the left."""
    filled: list[list[str]] = []
    for title, cells in columns.items():
        width = max(map(len, (title, *cells)))
        filled.append([f"{cell:{'>' if filled else '<'}{width}}" for cell in (title, *cells)])
    return "\n".join("  ".join(row).rstrip() for row in zip(*filled, strict=True))
