"""What MinHash keeps of its minima: all, or a few bits in bytes that still compare."""

import numpy as np
import pytest

from sfumato.core.file_format import pack
from sfumato.sketch import MinHash, SketchFormatError, load
from sfumato.sketch.similarity.packed_minima import coefficients


def test_multipliers_are_odd_and_differ():
    multipliers, shifts = coefficients(2**16)
    assert (multipliers & 1).all()
    assert np.unique(multipliers).size > 2**16 - 10
    assert np.unique(shifts).size > 2**16 - 10


@pytest.mark.parametrize("kind", ["permutations", "one-permutation"])
def test_bits_save_bytes_and_keep_the_similarity(kind):
    whole = MinHash(1024, kind=kind).update(range(700))
    other = MinHash(1024, kind=kind, bits=2).update(range(300, 1000))
    few = whole.with_bits(2)
    assert few == MinHash(1024, kind=kind, bits=2).update(range(700))
    retained = load(few.to_bytes())
    assert retained.nbytes == 1024 * (2 if kind == "permutations" else 3) // 8
    assert retained.similarity(other) == few.similarity(load(other.to_bytes()))
    np.testing.assert_array_equal(retained.signature(), few.signature())
    assert retained.error_bound() == few.error_bound() > whole.error_bound()
    with pytest.raises(ValueError, match="keys cannot be added, only 2 bits"):
        retained.update([1])
    assert retained == few == retained.copy()


def test_copies_of_few_bits_still_take_keys():
    sketch = MinHash(bits=4).update(range(10))
    twin = sketch.copy().update(range(100))
    assert twin == MinHash(bits=4).update(range(100))
    assert sketch == MinHash(bits=4).update(range(10))


def test_k_minimum_takes_whole_minima_only():
    with pytest.raises(ValueError, match="bits must be 32 for k-minimum, not 8"):
        MinHash(kind="k-minimum", bits=8)


@pytest.mark.parametrize(
    ("shape", "change", "message"),
    [
        ({"kind": "k-minimum"}, {"_minima": [5, 4, 9]}, "not in order"),
        ({"kind": "k-minimum"}, {"_minima": [5, 2**32 - 1, 9]}, "not in order"),
        ({}, {"keys": ""}, "an empty set has minima"),
        ({"bits": 8}, {"held": "minima"}, "does not fit the bits"),
        ({}, {"held": "bits"}, "does not fit the bits|not those of this kind"),
    ],
)
def test_bytes_that_contradict_themselves_are_refused(shape, change, message):
    sketch = MinHash(3, **shape).update(range(10))
    arrays = {"_minima": np.array(change.get("_minima", sketch._minima), np.uint32)}
    state = {"keys": change.get("keys", "some"), "held": change.get("held", "minima")}
    header = {"kind": "MinHash", "version": 2, "parameters": sketch.parameters, "state": state}
    with pytest.raises(SketchFormatError, match=message):
        load(pack(header, arrays))
