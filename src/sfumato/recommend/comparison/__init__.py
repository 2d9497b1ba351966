"""One evaluation for all models: the same splits, metrics, intervals and paired tests."""

from sfumato.recommend.comparison.clustered_means import Difference, Estimate
from sfumato.recommend.comparison.protocol import EvaluationProtocol
from sfumato.recommend.comparison.results import Comparison, ModelResult
from sfumato.recommend.comparison.runner import compare

__all__ = ["Comparison", "Difference", "Estimate", "EvaluationProtocol", "ModelResult", "compare"]
