"""What a released sketch reveals about one key, measured: never more than its statement allows."""

import numpy as np
import pytest

from sfumato.attack import audit
from sfumato.privacy.mechanisms.contribution_bounding import bound_contributions
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import (
    AMS,
    BloomFilter,
    CosineSketch,
    CountMin,
    CountSketch,
    HyperLogLog,
    KernelGrid,
    KernelSlices,
    MinHash,
    Race,
)
from sfumato.sketch.lsh import Euclidean
from support.release_plans import NEXT_TO_NONE, plan_of

# Sketches so small that one key has the largest effect; each with how it is released.
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
def test_a_release_reveals_no_more_than_its_statement(kind):
    # A true statement fails at this confidence with p < 1e-4, and the seed is fixed. The bound must
    # also come near (0.33 and more is measured, with deviations below 0.05), so that half the noise
    # would be detected (and was).
    empty, how = RELEASES[kind]
    found = measured(
        lambda sketch, source: sketch.release(**how, source=source),
        (empty, empty.copy().update([KEY])),
        seed=1,
    )
    assert found.passed, found
    assert found.epsilon > 0.25, found


def test_released_codes_of_rows_reveal_no_more_than_their_statement():
    sketch = CosineSketch(8, dimension=4)

    def release(rows, source):
        return sketch.release_rows(
            rows, 1, 0.01, bound=1, step=1, unit="item of a profile", source=source
        )

    # Signs reveal little about one item here, so that only the upper side is tested, with p < 1e-4.
    found = measured(release, (np.zeros((1, 4)), np.array([[1.0, 0, 0, 0]])), seed=2)
    assert found.passed, found


IDS = list(range(500))
SPOTS = np.random.default_rng(3).uniform(0, 9, (60, 2)).round(2).tolist()


def bounded(rows, epsilon):
    """Events of users that are bounded first: an event may put out another, so two may change."""
    users = [row if isinstance(row, str) else row % 40 for row in rows]
    retained = bound_contributions(users, rows, per_user=5, seed=1)
    events = [row for row, keep in zip(rows, retained, strict=True) if keep]
    return CountMin(16, 2).update(events).release(epsilon, contributions=2)


BOX = ([0, 0], [9, 9])
HARD = {
    "CountMin": (lambda rows, e: CountMin(16, 4).update(rows).release(e), IDS, "guest"),
    "CountSketch": (lambda rows, e: CountSketch(16, 4).update(rows).release(e), IDS, "guest"),
    "AMS": (lambda rows, e: AMS(16, 4).update(rows).release(e), IDS, None),
    "BloomFilter": (lambda rows, e: BloomFilter(64, 2).update(rows[480:]).release(e), IDS, "guest"),
    "MinHash": (
        lambda rows, e: MinHash(8, kind="one-permutation").update(rows[500:]).release(e, bits=1),
        IDS,
        "guest",
    ),
    "bound_contributions": (bounded, IDS, "guest"),
    "Race": (
        lambda rows, e: Race(4, 16, Euclidean(2.0, (0, 9), dimension=2)).update(rows).release(e),
        SPOTS,
        ["1e300", -np.inf],
    ),
    "KernelGrid": (lambda rows, e: KernelGrid(9.0, BOX).update(rows).release(e), SPOTS, ["9", 0]),
    "KernelSlices": (
        lambda rows, e: KernelSlices(4.0, BOX, rows=2).update(rows).release(e),
        SPOTS,
        [np.inf, "0"],
    ),
}


def audited(name, trials):
    """The audit of a release of rows, and of the same rows with one of another type."""
    run, rows, extra = HARD[name]
    values = (rows, [*rows, extra])
    plans = [plan_of(run, value, 1.0) for value in values]
    bare = [plan_of(run, value, NEXT_TO_NONE) for value in values]
    states = [cells_of(plan.noisy(InsecureSeededSource(0))) for plan in bare]
    moved = np.flatnonzero(states[0] != states[1])

    def mechanism(value, trials, source):
        plan = plans[len(value) - len(rows)]
        cells = np.array([cells_of(plan.noisy(source))[moved] for _ in range(trials)])
        near, far = (np.abs(cells - state[moved]).clip(0, 1e6) for state in states)
        return (near - far).sum(axis=1)  # the likelihood ratio of Laplace noise, but for its scale

    return audit(mechanism, values, trials, source=InsecureSeededSource(5), claimed=1.0)


def cells_of(parts):
    """All cells of all arrays in one; words of bits one by one."""
    words = [part.view(np.uint8) if part.dtype == np.uint64 else part for part in parts.values()]
    each = [np.unpackbits(w, bitorder="little") if w.dtype == np.uint8 else w for w in words]
    return np.concatenate([array.reshape(-1) for array in each]).astype(np.float64)


@pytest.mark.parametrize("name", HARD)
def test_a_row_of_another_type_is_hidden_as_well_as_any(name):
    # At confidence 0.95 a true claim fails with p < 0.05; the seed is fixed. The soak repeats it.
    assert audited(name, 400).passed


@pytest.mark.soak
@pytest.mark.parametrize("name", HARD)
def test_a_row_of_another_type_is_hidden_in_a_hundred_thousand_trials(name):
    found = audited(name, 100_000)
    print(f"{name}: epsilon at least {found.epsilon:.3f} of a claim of 1")
    assert found.passed, found
