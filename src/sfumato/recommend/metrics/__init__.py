"""How good predictions and lists are."""

from sfumato.recommend.metrics.rating import (
    auc,
    average_precision,
    coverage,
    diversity,
    evaluate,
    hit_rate,
    mae,
    map_at_k,
    mrr,
    ndcg,
    novelty,
    precision,
    ranked,
    recall,
    rmse,
    spearman,
)

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
    "spearman",
]
