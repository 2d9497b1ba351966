"""What a release of a sketch tells about one key, measured: never more than its statement says."""

import numpy as np
import pytest

from sfumato.attack import audit
from sfumato.privacy.noise import InsecureSeededSource
from sfumato.sketch import (
    AMS,
    BloomFilter,
    CosineSketch,
    CountMin,
    CountSketch,
    HyperLogLog,
    MinHash,
)

# Sketches so small that one key tells as much as it can; each with how it is released.
RELEASES = {
    "BloomFilter": (BloomFilter(8, 2), dict(epsilon=1)),
    "CountMin": (CountMin(2, 2), dict(epsilon=1)),
    "CountMin, Gaussian": (CountMin(2, 4), dict(epsilon=1, delta=0.01)),
    "CountSketch": (CountSketch(2, 2), dict(epsilon=1)),
    "AMS": (AMS(2, 2), dict(epsilon=1)),
    "AMS, tug-of-war": (AMS(2, 1, kind="tug-of-war"), dict(epsilon=1)),
    "HyperLogLog": (HyperLogLog(4), dict(epsilon=1, largest=20)),
    "MinHash": (MinHash(3, kind="one-permutation"), dict(epsilon=1)),
}
KEY = 1  # of those few it sets a bit of every small sketch


def sampled(release):
    """Many releases of the same thing, their cells in a row; words of bits one by one."""

    def sample(sketch, trials, source):
        made = (release(sketch, source) for _ in range(trials))
        cells = np.array([np.concatenate([*one._arrays().values()], None) for one in made])
        if cells.dtype == np.uint64:
            cells = np.unpackbits(cells.view(np.uint8), axis=1, bitorder="little")
        return cells.astype(np.int64)

    return sample


def measured(release, neighbours, seed):
    statement = release(neighbours[1], InsecureSeededSource(0)).statement
    claim = (statement.epsilon, statement.delta) if statement.delta else statement.epsilon
    source = InsecureSeededSource(seed)
    return audit(
        sampled(release), neighbours, 4000, confidence=0.9999, source=source, claimed=claim
    )


@pytest.mark.parametrize("kind", RELEASES)
def test_a_release_tells_no_more_than_its_statement(kind):
    # A true statement fails at this confidence with p < 1e-4, and the seed is fixed. The bound must
    # also come near (0.33 and more is measured, with deviations below 0.05), so that half the noise
    # would be seen (and was).
    empty, how = RELEASES[kind]
    found = measured(
        lambda sketch, source: sketch.release(**how, source=source),
        (empty, empty.copy().update([KEY])),
        seed=1,
    )
    assert found.passed, found
    assert found.epsilon > 0.25, found


def test_released_codes_of_rows_tell_no_more_than_their_statement():
    sketch = CosineSketch(8, dimension=4)

    def release(rows, source):
        return sketch.release_rows(
            rows, 1, 0.01, bound=1, step=1, unit="item of a profile", source=source
        )

    # Signs tell little of one item here, so that only the upper side is tested, with p < 1e-4.
    found = measured(release, (np.zeros((1, 4)), np.array([[1.0, 0, 0, 0]])), seed=2)
    assert found.passed, found
