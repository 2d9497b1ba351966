"""Settings of the whole suite."""

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
