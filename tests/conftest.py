"""Settings of the whole suite."""

import gc

import pytest
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


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect tests without looking for garbage: there are thousands, and all of them stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
