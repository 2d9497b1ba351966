"""Compares models: fits each on the same parts, measures them alike, and tests the differences."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from time import perf_counter
from typing import Any

import numpy as np

from sfumato.data.interactions import Interactions
from sfumato.recommend.base import label_of
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.comparison.clustered_means import (
    Difference,
    UserSums,
    difference,
    estimate,
    holm,
)
from sfumato.recommend.comparison.measurement import EVERYTHING, Measurement, SplitData, measured
from sfumato.recommend.comparison.protocol import EvaluationProtocol
from sfumato.recommend.comparison.results import Comparison, ModelResult
from sfumato.recommend.implicit.popular import Popular
from sfumato.recommend.models import named_model
from sfumato.recommend.neighbours.user_neighbours import UserNeighbours

__all__ = ["compare", "named_models"]

BASELINES: dict[str, tuple[str, type[Any]]] = {
    "ranking": ("popular", Popular),
    "ratings": ("damped-means", DampedMeans),
}
# Models that are in no file, so that no command fits them by name.
UNSAVED: dict[str, type[Any]] = {"damped-means": DampedMeans, "user-neighbours": UserNeighbours}
# Of several repeats the median: the first fit of a class may compile its kernels.
MEDIANS = ("fit_seconds", "answer_seconds", "nbytes")


def compare(
    models: Mapping[str, Any] | Sequence[Any],
    data: Interactions,
    protocol: EvaluationProtocol | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Compare models on the same splits of the data, with intervals and paired tests over users.

    Every model is fitted on the same training parts and measured on the same test parts, beside the
    trivial baseline of the objective, `Popular` for lists and `DampedMeans` for ratings, which is
    added unless it is among the models. The result is computed from raw data: it is for the curator
    and not covered by any privacy statement.

    Parameters
    ----------
    models : mapping of str to object or sequence of object
        Models by name, a sequence of models, which are named by their classes, or a sequence of
        names from `sfumato.recommend.models`. A model is an object with `fit(train)`, which is
        copied and not changed, or a function that takes the training part and returns a fitted
        model; such a function can give a private model its public lists.
    data : Interactions
        All rows; they are split as `protocol` says.
    protocol : EvaluationProtocol or None, default=None
        Objective, split, metrics and slices; None for the defaults of `EvaluationProtocol`.
    progress : callable or None, default=None
        Called as `progress(done, total)` after each fit and its evaluation.

    Returns
    -------
    Comparison
        Metrics of all models with intervals and differences, best first. A model that raised an
        error is listed with its sentence, and the others are not affected. After Ctrl-C: what was
        complete.

    Raises
    ------
    KeyboardInterrupt
        If it arrives before any model was measured.

    Notes
    -----
    **Guarantee.** The sample are users: the values of one user, from several rows or repeats, are
    one cluster. A metric is the mean over all evaluated users (and repeats) or over test rows; its
    interval is that of Student's t with the clusters' first-order contributions to the mean, which
    for one repeat of a metric of lists is the usual t-interval of a mean. Differences are paired by
    user and tested by the t-test of the same contributions. The p-values of all pairs of models are
    adjusted together by Holm's method, so choosing the best model afterwards is covered; intervals
    of differences are not adjusted. A metric of lists that is 0 for all n users, or 1 for all, has
    an exact other end, ``1 - (1 - confidence)**(1 / n)`` away. Intervals describe other users and
    splits of the same data, not other data sets, and not the randomness of a model's own seed.

    Choosing among private models by such a result uses the data once more, without noise.

    References
    ----------
    .. [1] Holm. "A Simple Sequentially Rejective Multiple Test Procedure". Scandinavian Journal of
       Statistics 6, 1979. https://www.jstor.org/stable/4615733

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.recommend import ItemNeighbours
    >>> world = generate_world(users=60, items=40, ratings=900, random_state=1)
    >>> found = compare([ItemNeighbours()], world.interactions)
    >>> sorted(found.results), found.baseline
    (['ItemNeighbours', 'popular'], 'popular')
    """
    protocol = EvaluationProtocol() if protocol is None else protocol
    if not isinstance(protocol, EvaluationProtocol):
        raise TypeError(f"compare: protocol must be an EvaluationProtocol, not {protocol!r:.100}.")
    if not isinstance(data, Interactions):
        raise TypeError(f"compare: data must be Interactions, not {type(data).__name__}.")
    if protocol.objective == "ratings" and not getattr(data, "has_ratings", True):
        raise ValueError("compare: the data has no ratings; compare lists: objective='ranking'.")
    makers, baseline = _with_baseline(_named(models, protocol.objective), protocol.objective)
    trials = {name: _Trials() for name in makers}
    repeats = _run(makers, trials, data, protocol, progress)
    return _results(trials, baseline, repeats, data, protocol)


@dataclass
class _Trials:
    """What is known of one model so far."""

    measurements: list[Measurement] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    failed: str | None = None


def _named(models: Any, objective: str) -> dict[str, Any]:
    """Return the models by name; raise where there is none, or no model."""
    if isinstance(models, str) or not isinstance(models, Mapping | Sequence) or not len(models):
        raise TypeError("compare: models must be a dict or list of models, at least one.")
    if isinstance(models, Mapping):
        named = dict(models)
    elif all(isinstance(each, str) for each in models):
        named = named_models(models, objective)
    else:
        named = {}
        for each in models:
            kind = each if isinstance(each, type) else type(each)
            name, count = kind.__name__, 1
            while (numbered := name if count == 1 else f"{name} {count}") in named:
                count += 1
            named[numbered] = each
    for name, model in named.items():
        if isinstance(model, type):
            named[name] = model()
        if not isinstance(name, str) or not (callable(model) or hasattr(model, "fit")):
            raise TypeError(
                f"compare: models[{name!r:.100}] must be a model with fit, or a function that "
                "takes the training part and returns a fitted model, named by a text."
            )
    return named


def named_models(names: Sequence[str], objective: str) -> dict[str, Any]:
    """Return unfitted models of these names with their defaults; raise where one is no model."""
    made = {}
    for name in names:
        kind: Any = UNSAVED.get(name) or named_model(name).kind
        learns = {"objective": objective} if "objective" in getattr(kind, "LIMITS", ()) else {}
        try:
            made[name] = kind(**learns)
        except TypeError:
            raise ValueError(
                f"compare: {name} has parameters without default; give a function that takes the "
                "training part and returns the fitted model, to compare in Python."
            ) from None
    return made


def _with_baseline(models: dict[str, Any], objective: str) -> tuple[dict[str, Any], str]:
    """Return the models, baseline first so that Ctrl-C leaves it, and its name."""
    name, kind = BASELINES[objective]
    own = [given for given, model in models.items() if type(model) is kind]
    if own:
        return {own[0]: models[own[0]], **models}, own[0]
    while name in models:
        name = f"{name} (baseline)"
    return {name: kind(), **models}, name


def _run(
    makers: dict[str, Any],
    trials: dict[str, _Trials],
    data: Interactions,
    protocol: EvaluationProtocol,
    progress: Callable[[int, int], None] | None,
) -> int:
    """Fit and measure everything; return the number of complete repeats.

    Ctrl-C ends the first repeat after the models that are done, and drops a later one.
    """
    total, done = protocol.repeats * len(makers), 0
    try:
        for repeat in range(protocol.repeats):
            split = SplitData(data, protocol, repeat)
            for name, maker in makers.items():
                if trials[name].failed is None:
                    _try(maker, split, trials[name])
                done += 1
                if progress is not None:
                    progress(done, total)
    except KeyboardInterrupt:
        if not any(each.measurements for each in trials.values()):
            raise
        return max(done // len(makers), 1)
    return protocol.repeats


def _try(maker: Any, split: SplitData, trials: _Trials) -> None:
    """Fit and measure one model on one split; an error is recorded, not raised."""
    try:
        begun = perf_counter()
        model = _fitted(maker, split.train)
        seconds = perf_counter() - begun
        found = measured(model, split)
        statement = getattr(model, "statement", None)
        facts = {
            "fit_seconds": seconds,
            "answer_seconds": found.answer_seconds,
            "nbytes": getattr(model, "nbytes", None),
            "privacy": getattr(model, "privacy_label", None) or label_of(statement),
            "epsilon": None if statement is None else float(statement.epsilon),
        }
    except Exception as error:  # whatever a model raises, the others go on
        trials.failed = " ".join(str(error).split()) or type(error).__name__
        return
    trials.measurements.append(found)
    trials.facts.append(facts)


def _fitted(maker: Any, train: Interactions) -> Any:
    """Return a fitted copy of a model, or what the function of a model returns."""
    if not hasattr(maker, "fit"):
        return maker(train)
    if not hasattr(maker, "get_params"):
        return copy.deepcopy(maker).fit(train)
    return type(maker)(**copy.deepcopy(maker.get_params())).fit(train)


def _results(
    trials: dict[str, _Trials],
    baseline: str,
    repeats: int,
    data: Interactions,
    protocol: EvaluationProtocol,
) -> Comparison:
    """Return the comparison of the models that were measured in all complete repeats."""
    whole = {
        name: each
        for name, each in trials.items()
        if each.failed is None and len(each.measurements) >= repeats
    }
    pooled = {name: _pooled(each.measurements[:repeats]) for name, each in whole.items()}
    gaps = {metric: _gaps(pooled, metric, protocol) for metric in protocol.metrics}
    estimates = {
        name: {key: _estimate(cells, key[1], protocol) for key, cells in sums.items()}
        for name, sums in pooled.items()
    }
    first, sign = protocol.metrics[0], -1 if protocol.objective == "ranking" else 1
    order = sorted(whole, key=lambda name: sign * estimates[name][EVERYTHING, first].value)
    results = {
        name: ModelResult(
            metrics={metric: estimates[name][EVERYTHING, metric] for metric in protocol.metrics},
            slices=_by_slice(estimates[name]),
            differences={
                metric: {other: gaps[metric][name, other] for other in order if other != name}
                for metric in protocol.metrics
            },
            **_facts(whole[name], repeats),
        )
        for name in order
    }
    stopped = repeats < protocol.repeats or any(
        each.failed is None and not each.measurements for each in trials.values()
    )
    failed = {name: each.failed for name, each in trials.items() if each.failed is not None}
    size = data.coded()
    return Comparison(
        protocol=protocol,
        data={"rows": len(data), "users": len(size.user_ids), "items": len(size.item_ids)},
        baseline=baseline,
        results=results,
        failed=failed,
        repeats=repeats,
        stopped=stopped,
    )


def _pooled(measurements: list[Measurement]) -> dict[tuple[str, str], UserSums]:
    """Add up what users contribute in all repeats."""
    pooled: dict[tuple[str, str], UserSums] = {}
    for each in measurements:
        for key, cells in each.sums.items():
            pooled[key] = pooled[key] + cells if key in pooled else cells
    return pooled


def _estimate(cells: UserSums, metric: str, protocol: EvaluationProtocol) -> Any:
    most = 1.0 if protocol.objective == "ranking" else np.inf
    return estimate(cells, protocol.confidence, root=metric == "rmse", most=most)


def _gaps(
    pooled: dict[str, dict[tuple[str, str], UserSums]], metric: str, protocol: EvaluationProtocol
) -> dict[tuple[str, str], Difference]:
    """Return the difference of every model to every other, with adjusted p-values."""
    pairs = list(combinations(pooled, 2))
    found = [
        difference(
            pooled[one][EVERYTHING, metric],
            pooled[other][EVERYTHING, metric],
            protocol.confidence,
            root=metric == "rmse",
        )
        for one, other in pairs
    ]
    both: dict[tuple[str, str], Difference] = {}
    for (one, other), gap, p in zip(pairs, found, holm([gap.p for gap in found]), strict=True):
        both[one, other] = Difference(gap.value, gap.low, gap.high, p)
        both[other, one] = Difference(-gap.value, -gap.high, -gap.low, p)
    return both


def _by_slice(estimates: dict[tuple[str, str], Any]) -> dict[str, dict[str, Any]]:
    """Return the estimates by slice and metric, without those of all users and items."""
    found: dict[str, dict[str, Any]] = {}
    for (part, metric), value in estimates.items():
        if part != EVERYTHING:
            found.setdefault(part, {})[metric] = value
    return found


def _facts(trials: _Trials, repeats: int) -> dict[str, Any]:
    """Return properties of the lists, their mean over repeats, and costs, their median."""
    facts, lists = trials.facts[:repeats], [each.lists for each in trials.measurements[:repeats]]
    costs = {}
    for name in MEDIANS:
        values = [each[name] for each in facts]
        costs[name] = None if None in values else float(np.median(values))
    return {
        "lists": {name: float(np.mean([each[name] for each in lists])) for name in lists[0]},
        "fit_seconds": costs["fit_seconds"],
        "answer_seconds": costs["answer_seconds"],
        "nbytes": None if costs["nbytes"] is None else int(costs["nbytes"]),
        "privacy": facts[0]["privacy"],
        "epsilon": facts[0]["epsilon"],
    }
