"""Learned codes: better where directions differ, exact along vectors, and safe with any input."""

import copy
import json

import numpy as np
import pytest

from sfumato.retrieve import BinaryIndex
from sfumato.retrieve import learned as make
from sfumato.retrieve.encoders import linear
from sfumato.retrieve.encoders.base import CodeEncoder
from sfumato.retrieve.encoders.factories import qolsh
from sfumato.retrieve.encoders.learned import LearnedEncoder, learned


def falling(rows=4000, dimension=32, rate=0.88, seed=0):
    """Gaussian vectors around a centre, with deviations that fall by `rate` from axis to axis."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(dimension, dimension)))
    scales = rate ** np.arange(dimension)
    return (0.3 + rng.normal(size=(rows, dimension)) * scales @ turn).astype(np.float32)


def error(encoder, rows):
    return float(np.square(encoder.reconstruct(encoder.encode(rows)) - rows).sum(1).mean())


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_it_halves_the_error_of_a_random_frame_where_variances_fall():
    x = falling(6000)
    observed, fresh = x[:4000], x[4000:]
    ours = error(learned(96, along=0).fit(observed), fresh)
    frame = qolsh(96, flips=60, center=True, factor="unbiased").fit(observed)  # has 4 bytes more
    assert ours < 0.5 * error(frame, fresh)


def test_where_all_directions_vary_equally_it_is_the_best_scalar_quantizer():
    # 2 bits an axis; of 4,000 * 32 squared errors the mean has a relative deviation below 1 %.
    x = falling(8000, rate=1.0)
    ours = error(learned(64, along=0).fit(x[:4000]), x[4000:])
    assert 0.9 * 0.1188 < ours / 32 < 1.02 * 0.1188
    assert ours < error(qolsh(64, flips=5, center=True, factor="unbiased").fit(x), x[4000:])


def test_errors_along_a_vector_all_but_vanish():
    x = unit(falling())
    plain, guarded = learned(96, along=0).fit(x), learned(96, along=30).fit(x)
    np.testing.assert_array_equal(plain.atoms_, guarded.atoms_)
    along = [((e.reconstruct(e.encode(x)) - x) * x).sum(1).std() for e in (plain, guarded)]
    assert along[1] < along[0] / 4
    assert error(guarded, x) < 1.2 * error(plain, x)


def test_estimates_are_products_with_the_reconstruction():
    x = falling(500)
    encoder = learned(80).fit(x)
    codes = encoder.encode(x)
    weights, offsets = encoder.query_weights(x[:9])
    b = 2.0 * np.unpackbits(codes.words.view(np.uint8), axis=1, bitorder="little")[:, :80] - 1
    found = offsets[:, None] + weights @ b.T * encoder.scales(codes.words)
    np.testing.assert_allclose(found, x[:9] @ encoder.reconstruct(codes).T, atol=1e-4)
    assert codes.factors.shape == (500, 0)
    assert encoder.nbytes_per_vector == 16


def test_codes_do_not_depend_on_how_rows_are_split(monkeypatch):
    x = falling(203)
    encoder = learned(70, short=True).fit(x)
    whole = encoder.encode(x)
    monkeypatch.setattr(linear, "ROOM", 1)
    for parts in ([1, 2, 7, 100], [64]):
        pieces = [encoder.encode(part) for part in np.split(x, parts)]
        for at in range(3):
            joined = np.concatenate([piece[at] for piece in pieces])
            np.testing.assert_array_equal(joined, whole[at])
    np.testing.assert_array_equal(encoder.query_words(x), whole.short)
    assert not (whole.words[:, -1] >> np.uint64(6)).any()  # spare bits


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**60])
def test_the_unit_of_the_numbers_changes_no_bit(scale):
    x = falling(1000)
    near, far = learned(64).fit(x), learned(64).fit(x * np.float32(scale))
    np.testing.assert_array_equal(near.encode(x).words, far.encode(x * np.float32(scale)).words)


def test_the_centre_zero_and_far_vectors_have_codes_like_others():
    x = falling(2000)
    encoder = learned(96).fit(x)
    extremes = np.array([encoder.centre_, 0 * encoder.centre_, 1e30 * x[0]])
    with np.errstate(over="raise", invalid="raise"):
        reconstructed = encoder.reconstruct(encoder.encode(extremes))
    assert np.isfinite(reconstructed).all()
    assert np.linalg.norm(reconstructed[0] - extremes[0]) < 3 * np.sqrt(error(encoder, x))
    apart = np.linalg.norm(reconstructed[1]) / np.linalg.norm(encoder.centre_)
    assert apart < 0.7  # it lies farther out than any row, in a direction that hardly varies
    assert unit(reconstructed)[2] @ unit(x)[0] > 0.8


def test_the_same_seed_learns_the_same_and_a_sample_is_drawn_by_it(monkeypatch):
    x = falling(3000)
    first, again = learned(64).fit(x), learned(64).fit(x)
    np.testing.assert_array_equal(first.atoms_, again.atoms_)
    monkeypatch.setitem(type(first)._learn.__globals__, "SAMPLE", 1000)
    drawn, again, other = (learned(64, seed=s).fit(x) for s in (0, 0, 1))
    np.testing.assert_array_equal(drawn.atoms_, again.atoms_)
    assert (drawn.atoms_ != other.atoms_).any()
    assert (drawn.atoms_ != first.atoms_).any()
    np.testing.assert_array_equal(drawn.centre_, first.centre_)  # of all rows


@pytest.mark.parametrize("count", [2, 3, 20, 100])
def test_few_rows_are_enough_to_begin(count):
    x = falling(1000, dimension=8)
    encoder = learned(64).fit(x[:count])
    variance = np.square(x - x.mean(axis=0)).sum(axis=1).mean()
    assert error(encoder, x) < (0.5 if count < 20 else 0.01) * variance


@pytest.mark.parametrize("rows", [np.ones((1, 4)), np.full((50, 4), 3.0), np.zeros((3, 2))])
def test_rows_that_are_all_equal_are_refused_and_change_nothing(rows):
    with pytest.raises(ValueError, match=r"learned: fit needs rows that differ"):
        learned(16).fit(rows)
    encoder = learned(16).fit(falling(100, dimension=4))
    before = encoder.state()[1]
    with pytest.raises(ValueError, match="differ"):
        encoder.fit(rows)
    np.testing.assert_array_equal(encoder.state()[1]["atoms"], before["atoms"])


def test_state_gives_the_encoder_back():
    x = falling(1000)
    encoder = learned(72, short=True, seed=3).fit(x)
    parameters, arrays = encoder.state()
    again = CodeEncoder.from_state(json.loads(json.dumps(parameters)), arrays)
    assert isinstance(again, LearnedEncoder)
    assert repr(again) == repr(encoder)
    for one, other in zip(encoder.encode(x), again.encode(x), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(encoder.query_weights(x)[0], again.query_weights(x)[0])
    np.testing.assert_array_equal(copy.deepcopy(encoder).encode(x).words, encoder.encode(x).words)


@pytest.mark.parametrize("atoms", [np.ones((72, 31)), np.ones((71, 32)), np.full((72, 32), np.nan)])
def test_a_state_with_other_atoms_is_refused(atoms):
    parameters, arrays = learned(72).fit(falling(100)).state()
    with pytest.raises(ValueError, match=r"learned: the state's atoms"):
        CodeEncoder.from_state(parameters, arrays | {"atoms": atoms})


@pytest.mark.parametrize("name", list(LearnedEncoder.LIMITS))
def test_every_parameter_refuses_what_is_past_its_limits(name):
    for bad in LearnedEncoder.LIMITS[name].bad():
        with pytest.raises(ValueError, match=f"learned: {name} must be"):
            learned(**{"bits": 8, name: bad})


def test_bad_rows_are_refused():
    x = falling(100, dimension=4)
    with pytest.raises(ValueError, match="call fit first"):
        learned(8).encode(x)
    encoder = learned(8).fit(x)
    with pytest.raises(ValueError, match="must have 4 columns"):
        encoder.encode(x[:, :3])
    x[7, 2] = np.nan
    for ask in encoder.fit, encoder.encode, encoder.query_weights:
        with pytest.raises(ValueError, match="row 7, column 2"):
            ask(x)
    with pytest.raises(ValueError, match="at least one row"):
        encoder.fit(x[:0])
    assert encoder.encode(x[:0]).words.shape == (0, 1)


def test_an_index_finds_vectors_by_learned_codes():
    x = falling(3000)
    index = BinaryIndex(bits=128, encoder=make(128))
    index.add(np.arange(3000), x)
    _, ids = index.search(x[:200], 1)
    assert (ids[:, 0] == np.arange(200)).mean() > 0.95
