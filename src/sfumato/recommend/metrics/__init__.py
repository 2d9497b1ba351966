"""How good predictions and lists are."""

from sfumato.recommend.metrics.beyond_accuracy import coverage, diversity, novelty
from sfumato.recommend.metrics.ranking import (
    average_precision,
    hit_rate,
    map_at_k,
    mrr,
    ndcg,
    precision,
    ranked,
    recall,
)
from sfumato.recommend.metrics.rating import auc, evaluate, mae, rmse, roc_curve, spearman

__all__ = [
    "auc",
    "average_precision",
    "coverage",
    "diversity",
    "evaluate",
    "hit_rate",
    "mae",
    "map_at_k",
    "mrr",
    "ndcg",
    "novelty",
    "precision",
    "ranked",
    "recall",
    "rmse",
    "roc_curve",
    "spearman",
]
