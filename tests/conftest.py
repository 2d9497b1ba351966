"""Settings of the whole suite."""

from hypothesis import settings

from support.engines import engine, spark

__all__ = ["engine", "spark"]

# Kernels compile on first use, so one example can be far slower than the next.
settings.register_profile("sfumato", deadline=None, derandomize=True)
settings.load_profile("sfumato")
