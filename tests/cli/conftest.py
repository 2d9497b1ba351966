"""One folder of generated ratings for each file of tests."""

import pytest

from support.cli_workspace import opened


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return opened(tmp_path_factory.mktemp("shop"))
