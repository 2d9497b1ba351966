"""Settings of the whole suite."""

import pytest
from hypothesis import settings

# Kernels compile on first use, so one example can be far slower than the next.
settings.register_profile("sfumato", deadline=None, derandomize=True)
settings.load_profile("sfumato")


@pytest.fixture(scope="session")
def spark():
    """One session of Spark for all tests of a process, on threads of this machine."""
    from sfumato.engine import SparkEngine

    with SparkEngine("local[2]", settings={"spark.default.parallelism": "2"}) as engine:
        yield engine
