"""Parameters of stored objects are checked together, set once, and stay."""

import pytest

from sfumato.profile import Blip
from sfumato.sketch import CountMin, ReleasedCountMin


@pytest.mark.parametrize("build", [lambda: CountMin(64), lambda: Blip(epsilon=1)])
def test_what_was_built_cannot_be_built_again_in_place(build):
    built = build()
    before = built.parameters
    with pytest.raises(AttributeError, match="its parameters cannot be changed; build another"):
        type(built).__init__(built, **before)
    assert built.parameters == before


def test_a_parameter_that_is_wrong_sets_none_of_them():
    sketch = CountMin.__new__(CountMin)
    with pytest.raises(ValueError, match="CountMin: depth must be"):
        sketch._set_parameters(width=64, depth=0, seed=0, cells="plain")
    assert vars(sketch) == {}


def test_a_parameter_that_a_release_does_not_have_is_refused():
    # As a file of another kind might bring it.
    release = ReleasedCountMin.__new__(ReleasedCountMin)
    known = dict(width=64, depth=4, seed=0, noise="Laplace", scale=1.0)
    with pytest.raises(TypeError, match="ReleasedCountMin: unknown parameter 'height'"):
        release._set_parameters(**known, height=3)
