"""Apache Spark as an engine: the same sketches and folds on many machines, and in its SQL."""

from sfumato.engine.spark.engine import SparkEngine
from sfumato.engine.spark.sql import register
from sfumato.engine.spark.streaming import StreamSketch

__all__ = ["SparkEngine", "StreamSketch", "register"]
