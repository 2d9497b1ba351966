"""Every public sketch keeps the contract of tests/checks.py."""

import pytest

import sfumato.sketch
from sfumato.sketch import Sketch
from support.sketch_contract import CHECKS, SKETCHES

PUBLIC = [getattr(sfumato.sketch, name) for name in sfumato.sketch.__all__]
CASES = [
    pytest.param(make, id=f"{name}-{at}")
    for name, factories in SKETCHES.items()
    for at, make in enumerate(factories)
]


def test_every_public_sketch_has_joined():
    kinds = {c.__name__ for c in PUBLIC if isinstance(c, type) and issubclass(c, Sketch)}
    assert kinds - {"Sketch"} == set(SKETCHES)


@pytest.mark.parametrize("make", CASES)
def test_contract(make):
    for check in CHECKS:
        check(make)
