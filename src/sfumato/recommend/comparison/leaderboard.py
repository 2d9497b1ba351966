"""From what was measured of each model to estimates, paired differences, and their order."""

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from sfumato.recommend.comparison.clustered_means import (
    Difference,
    Estimate,
    UserSums,
    difference,
    estimate,
    holm,
)
from sfumato.recommend.comparison.measurement import EVERYTHING, Measurement
from sfumato.recommend.comparison.protocol import EvaluationProtocol
from sfumato.recommend.comparison.results import ModelResult

__all__ = ["Trials", "leaderboard"]

Sums = dict[tuple[str, str], UserSums]  # by slice and metric
# Of several repeats the median: the first fit of a class may compile its kernels.
MEDIANS = ("fit_seconds", "answer_seconds", "nbytes")


@dataclass
class Trials:
    """What is known of one model so far: measurements and costs of each repeat, or an error."""

    measurements: list[Measurement] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    failed: str | None = None

    @property
    def open(self) -> bool:
        """Whether nothing is known yet."""
        return self.failed is None and not self.measurements


def leaderboard(
    trials: dict[str, Trials], repeats: int, protocol: EvaluationProtocol
) -> dict[str, ModelResult]:
    """Return the results of the models that were measured in all complete repeats, best first."""
    measured = {
        name: each
        for name, each in trials.items()
        if each.failed is None and len(each.measurements) >= repeats
    }
    pooled = {name: _pooled(each.measurements[:repeats]) for name, each in measured.items()}
    gaps = {metric: _gaps(pooled, metric, protocol) for metric in protocol.metrics}
    results = {
        name: ModelResult(
            metrics={
                metric: _estimate(sums[EVERYTHING, metric], metric, protocol)
                for metric in protocol.metrics
            },
            slices=_by_slice(sums, protocol),
            differences={
                metric: {other: gaps[metric][name, other] for other in pooled if other != name}
                for metric in protocol.metrics
            },
            **_facts(measured[name], repeats),
        )
        for name, sums in pooled.items()
    }
    first, sign = protocol.metrics[0], -1 if protocol.objective == "ranking" else 1
    order = sorted(results, key=lambda name: sign * results[name].metrics[first].value)
    return {name: results[name] for name in order}


def _pooled(measurements: list[Measurement]) -> Sums:
    """Add up what users contribute in all repeats."""
    pooled: Sums = {}
    for each in measurements:
        for key, cells in each.sums.items():
            pooled[key] = pooled[key] + cells if key in pooled else cells
    return pooled


def _estimate(cells: UserSums, metric: str, protocol: EvaluationProtocol) -> Estimate:
    most = 1.0 if protocol.objective == "ranking" else np.inf
    return estimate(cells, protocol.confidence, root=metric == "rmse", most=most)


def _gaps(
    pooled: dict[str, Sums], metric: str, protocol: EvaluationProtocol
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


def _by_slice(sums: Sums, protocol: EvaluationProtocol) -> dict[str, dict[str, Estimate]]:
    """Return the estimates by slice and metric, without those of all users and items."""
    found: dict[str, dict[str, Estimate]] = {}
    for (part, metric), cells in sums.items():
        if part != EVERYTHING:
            found.setdefault(part, {})[metric] = _estimate(cells, metric, protocol)
    return found


def _facts(trials: Trials, repeats: int) -> dict[str, Any]:
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
