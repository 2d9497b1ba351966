"""Hashes learned from public data: what belongs together collides more, whatever the units."""

import math

import numpy as np
import pytest

from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.sketch import Race
from sfumato.sketch.lsh import Euclidean, Family, separating, whitened


def world(size, seed, noisy=5):
    """Two classes that differ by 4 standard deviations in one direction among noisier ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, size)
    points = rng.normal(size=(size, 1 + noisy)) * [1.0, *[8.0] * noisy]
    points[:, 0] += 4 * labels
    points[:, 1] += 3 * points[:, 0]  # a column that hangs together with the telling one
    return points, labels


def separation(family, points, labels):
    """How much more often points of one class collide than points of two."""
    kernel = family.kernel(points, points)
    same = labels[:, None] == labels[None, :]
    other = ~np.eye(len(points), dtype=bool)
    return kernel[same & other].mean() / kernel[~same].mean()


BOUNDS = {"bounds": (-100, 100)}


def test_separating_hashes_tell_classes_apart_that_plain_ones_do_not():
    public, labels = world(2000, seed=1)
    private, theirs = world(400, seed=2)
    plain = max(
        separation(Euclidean(width, (-100, 100), dimension=6), private, theirs)
        for width in (1.0, 4.0, 16.0, 64.0)
    )
    learned = separation(separating(public, labels, bandwidth=1.0, **BOUNDS), private, theirs)
    assert plain < 1.2
    assert learned > 2


def test_learned_hashes_separate_private_classes_better():
    # Class by the larger of two noisy kernel means. 4 standard deviations apart, the best rule is
    # right in 97.7 %; plain hashes see little of that.
    public, labels = world(2000, seed=3)
    train, known = world(4000, seed=4)
    queries, truth = world(1000, seed=5)

    def right(family):
        noise = InsecureSeededSource(1)
        result = [
            Race(200, 256, family).update(train[known == c]).release(2.0, source=noise)
            for c in (0, 1)
        ]
        return ((result[1].mean(queries) > result[0].mean(queries)) == truth).mean()

    learned = right(separating(public, labels, bandwidth=1.0, **BOUNDS))
    plain = right(Euclidean(8.0, (-100, 100), dimension=6))
    assert learned > 0.94
    assert learned > plain + 0.05


def test_separating_finds_fishers_direction():
    points, labels = world(100_000, seed=6)
    (direction,) = separating(points, labels, bandwidth=1.0, **BOUNDS).transform
    means = [points[labels == c].mean(axis=0) for c in (0, 1)]
    inside = sum(np.cov(points[labels == c], rowvar=False) for c in (0, 1)) / 2
    fisher = np.linalg.solve(inside, means[1] - means[0])
    cosine = abs(np.dot(direction, fisher)) / np.linalg.norm(direction) / np.linalg.norm(fisher)
    assert cosine > 0.999
    # In standard deviations within a class, the classes are 4 apart.
    assert abs(np.dot(direction, means[1] - means[0])) == pytest.approx(4, rel=0.02)


def test_whitened_distances_do_not_depend_on_units():
    rng = np.random.default_rng(7)
    public = rng.normal(size=(500, 3)) @ [[1, 0.9, 0], [0, 0.5, 0], [0, 0, 2]]
    units = np.array([1.0, 1e4, 1e-4])
    one = whitened(public, bandwidth=1.0, bounds=(-50, 50))
    other = whitened(public * units, bandwidth=1.0, bounds=(-50 * units, 50 * units))
    assert np.allclose(
        one.kernel(public[:9], public[:9]),
        other.kernel(public[:9] * units, public[:9] * units),
        atol=1e-5,
    )
    far = np.array([1e45, 1.0, 1e-45])  # beyond the range of 32 bits
    third = whitened(public * far, bandwidth=1.0, bounds=(-50 * far, 50 * far), ridge=1e-6)
    assert np.allclose(
        one.kernel(public[:9], public[:9]),
        third.kernel(public[:9] * far, public[:9] * far),
        atol=1e-5,
    )
    covariance = np.cov(public @ np.array(one.transform).T, rowvar=False)
    assert np.allclose(covariance, np.eye(3), atol=0.01)


def test_columns_that_repeat_or_never_change_do_no_harm():
    rng = np.random.default_rng(8)
    column = rng.normal(size=(200, 1))
    public = np.hstack([column, column, np.full((200, 1), 3.0)])
    for family in (
        whitened(public, bandwidth=1.0, **BOUNDS),
        separating(public, column[:, 0] > 0, bandwidth=1.0, **BOUNDS),
    ):
        kernel = family.kernel(public[:5], public[:5])
        assert np.isfinite(kernel).all()
        assert np.allclose(np.diagonal(kernel), 1)
        assert Family.from_dict(family.to_dict()) == family


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: whitened([[1, 2]], bandwidth=1, **BOUNDS), "public must have at least 2 rows"),
        (lambda: whitened([[1], [math.nan]], bandwidth=1, **BOUNDS), "row 1, column 0"),
        (lambda: whitened([[1], [2]], bandwidth=1, ridge=0, **BOUNDS), "ridge must be"),
        (lambda: separating([[1], [2]], [0], bandwidth=1, **BOUNDS), "one for each of 2 rows"),
        (lambda: separating([[1], [2]], [0, 0], bandwidth=1, **BOUNDS), "two classes at least"),
        (
            lambda: separating([[1], [2]], [0, 1], bandwidth=1, directions=2, **BOUNDS),
            "directions must be",
        ),
    ],
)
def test_what_nothing_can_be_learned_from_is_refused(made, message):
    with pytest.raises(ValueError, match=message):
        made()


def test_the_documentation_says_that_the_data_must_be_public():
    for learn in (whitened, separating):
        assert "THE DATA MUST BE PUBLIC" in learn.__doc__
