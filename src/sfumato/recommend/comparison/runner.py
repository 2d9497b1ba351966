"""Compares models: fits each on the same parts, and measures all of them alike."""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

from sfumato.data.features import Features
from sfumato.data.interactions import Interactions
from sfumato.recommend.base import label_of
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.comparison.leaderboard import Trials, leaderboard
from sfumato.recommend.comparison.measurement import SplitData, measured
from sfumato.recommend.comparison.protocol import EvaluationProtocol
from sfumato.recommend.comparison.results import Comparison
from sfumato.recommend.implicit.popular import Popular
from sfumato.recommend.models import named_model

__all__ = ["compare", "named_models"]

BASELINES: dict[str, tuple[str, type[Any]]] = {
    "ranking": ("popular", Popular),
    "ratings": ("damped-means", DampedMeans),
}


def compare(
    models: Mapping[str, Any] | Sequence[Any],
    data: Interactions,
    protocol: EvaluationProtocol | None = None,
    *,
    features: Features | None = None,
    attributes: Features | None = None,
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
    features : Features or None, default=None
        Features of items, for models whose `fit` takes them.
    attributes : Features or None, default=None
        Attributes of users, for models whose `fit` takes them.
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
    trials = {name: Trials() for name in makers}
    known = {"features": features, "attributes": attributes}
    repeats = _run(makers, trials, data, protocol, progress, known)
    size = data.coded()
    return Comparison(
        protocol=protocol,
        data={"rows": len(data), "users": len(size.user_ids), "items": len(size.item_ids)},
        baseline=baseline,
        results=leaderboard(trials, repeats, protocol),
        failed={name: each.failed for name, each in trials.items() if each.failed is not None},
        repeats=repeats,
        stopped=repeats < protocol.repeats or any(each.open for each in trials.values()),
    )


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
        kind: Any = named_model(name).kind
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
    trials: dict[str, Trials],
    data: Interactions,
    protocol: EvaluationProtocol,
    progress: Callable[[int, int], None] | None,
    known: dict[str, Any],
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
                    _try(maker, split, trials[name], known)
                done += 1
                if progress is not None:
                    progress(done, total)
    except KeyboardInterrupt:
        if not any(each.measurements for each in trials.values()):
            raise
        return max(done // len(makers), 1)
    return protocol.repeats


def _try(maker: Any, split: SplitData, trials: Trials, known: dict[str, Any]) -> None:
    """Fit and measure one model on one split; an error is recorded, not raised."""
    try:
        begun = perf_counter()
        model = _fitted(maker, split.train, known)
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


def _fitted(maker: Any, train: Interactions, known: dict[str, Any]) -> Any:
    """Return a fitted copy of a model, or what the function of a model returns."""
    if not hasattr(maker, "fit"):
        return maker(train)
    taken = inspect.signature(maker.fit).parameters
    useful = getattr(maker, "extras_of_parts", None)  # of a blend, what its parts take
    taken = taken if useful is None else useful
    options = {name: each for name, each in known.items() if each is not None and name in taken}
    if not hasattr(maker, "get_params"):
        return copy.deepcopy(maker).fit(train, **options)
    return type(maker)(**copy.deepcopy(maker.get_params())).fit(train, **options)
