"""Settings of the whole suite."""

import gc

from hypothesis import settings

from support.engines import engine, spark
from support.stores import backend, location, new_location, postgres_server, store

__all__ = [
    "backend",
    "engine",
    "location",
    "new_location",
    "postgres_server",
    "spark",
    "store",
]

# Kernels compile on first use, so one example can be far slower than the next.
settings.register_profile("sfumato", deadline=None, derandomize=True)
settings.load_profile("sfumato")

# Thousands of tests are collected, and stay: to look for garbage meanwhile takes as long again.
gc.disable()


def pytest_collection_finish():
    """Look for garbage from here on."""
    gc.enable()
    gc.collect()
