"""One session of Spark for all tests of a process, on threads of this machine."""

import pytest

from sfumato.engine import SparkEngine


@pytest.fixture(scope="session")
def spark():
    with SparkEngine("local[2]", settings={"spark.default.parallelism": "2"}) as engine:
        yield engine
