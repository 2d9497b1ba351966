"""The suggested width gives the wanted recall at the wanted distance."""

import mpmath
import numpy as np
import pytest

from sfumato.retrieve import LshIndex, suggest_width
from sfumato.sketch import PStableSketch


def collision(ratio, p):
    """P(one hash agrees) at a distance of `ratio` widths, by integration (Datar et al., 3.2)."""
    densities = {
        1: lambda t: 2 / (mpmath.pi * (1 + t * t)),
        2: lambda t: mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-t * t / 2),
    }
    return mpmath.quad(lambda t: densities[p](t) * (1 - ratio * t), [0, 0.1 / ratio, 1 / ratio])


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("bands", "rows", "recall"), [(1, 1, 0.5), (32, 12, 0.95), (4, 30, 0.2)])
def test_the_width_solves_the_equation_of_the_recall(p, bands, rows, recall):
    width = suggest_width(3.0, bands=bands, rows=rows, recall=recall, p=p)
    agree = collision(mpmath.mpf(3) / width, p)
    assert float(1 - (1 - agree**rows) ** bands) == pytest.approx(recall, abs=1e-9)
    if (p, bands) == (2, 32):
        index = LshIndex(bands, rows, metric="euclidean", width=width)
        assert index.probability(3.0) == pytest.approx(recall)
        assert suggest_width(6.0, bands=bands, rows=rows, recall=recall) == pytest.approx(2 * width)
    if bands == 1:
        sketch = PStableSketch(width, hashes=1, p=p)
        assert sketch.collision_probability(3.0) == pytest.approx(recall)


def test_pairs_at_the_radius_are_candidates_as_often_as_wanted():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(4000, 12))
    steps = rng.normal(size=base.shape)
    queries = base + 0.7 * steps / np.linalg.norm(steps, axis=1, keepdims=True)
    width = suggest_width(0.7, bands=6, rows=8, recall=0.8)
    index = LshIndex(6, 8, metric="euclidean", width=width, keep_vectors=False, seed=3)
    starts, ids = index.add(np.arange(4000), base).candidates(queries)
    owners = np.repeat(np.arange(4000), np.diff(starts))
    found = np.zeros(4000, bool)
    found[owners[owners == ids]] = True
    # Pairs share the hash functions, so the fraction varies more than that of 4,000 coins: its
    # standard deviation over seeds is 0.01 here.
    assert abs(found.mean() - 0.8) < 0.05


def test_a_sample_gives_the_distance_of_its_neighbours():
    X = np.random.default_rng(1).normal(size=(700, 9))
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)
    tenth = np.sort(distances, axis=1)[:, 10]
    low, high = (suggest_width(float(np.quantile(tenth, q))) for q in (0.85, 0.95))
    width = suggest_width(sample=X)
    assert low < width < high
    assert width == suggest_width(sample=X.tolist(), random_state=0)
    index = LshIndex(metric="euclidean", width=width).add(np.arange(700), X)
    ids, _ = index.search(X[:100], 11)
    truth = np.argsort(distances[:100], axis=1)[:, :11]
    recall = np.mean([np.isin(a, b).mean() for a, b in zip(truth, ids, strict=True)])
    assert recall > 0.95


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "radius or sample"),
        ({"radius": 1.0, "sample": [[1.0]]}, "radius or sample"),
        ({"radius": 0.0}, "radius"),
        ({"radius": 1.0, "recall": 1.0}, "recall"),
        ({"radius": 1.0, "p": 3}, "p must be"),
        ({"sample": np.eye(5)}, "more than 10 rows"),
        ({"sample": np.ones((50, 2))}, "equal rows"),
        ({"sample": np.full((50, 2), np.nan)}, "finite"),
    ],
)
def test_bad_parameters_are_named(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        suggest_width(**options)
