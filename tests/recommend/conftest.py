"""Engines for tests of models that are fitted or asked on one."""

from support.engines import engine, spark

__all__ = ["engine", "spark"]
