"""What all encoders keep to: estimates, batches, bad input, and their stored state."""

import copy
import json
import pickle

import numpy as np
import pytest

from sfumato.retrieve.encoders import linear
from sfumato.retrieve.encoders.base import CodeEncoder, Codes
from sfumato.retrieve.encoders.factories import (
    anti_sparse,
    optimal,
    project_and_sign,
    qolsh,
    tight_frame,
)

FACTORS = {"factor": "unbiased"}
MAKERS = {
    "project_and_sign": lambda **o: project_and_sign(16, **o),
    "tight_frame": lambda **o: tight_frame(16, **o),
    "anti_sparse": lambda **o: anti_sparse(16, **o),
    "optimal": lambda **o: optimal(12, **o),
    "qolsh": lambda **o: qolsh(16, together=2, **o),
}
every_encoder = pytest.mark.parametrize("maker", MAKERS)


def rows(count=50, dimension=6, seed=0):
    return np.random.default_rng(seed).normal(0.5, 1, (count, dimension)).astype(np.float32)


def estimates(encoder, q, x):
    codes = encoder.encode(x)
    weights, offsets = encoder.query_weights(q)
    words = codes.words.view(np.uint8)
    b = 2.0 * np.unpackbits(words, axis=1, bitorder="little")[:, : encoder.bits] - 1
    factors = codes.factors[:, 0] if encoder.factor else encoder.scales(codes.words)
    return offsets[:, None] + (weights @ b.T) * factors


@every_encoder
def test_the_unbiased_factor_makes_the_product_of_a_vector_with_itself_exact(maker):
    x = rows() * 100
    encoder = MAKERS[maker](**FACTORS).fit(x)
    own = np.diag(estimates(encoder, x, x))
    np.testing.assert_allclose(own, np.square(x).sum(axis=1), rtol=1e-5)
    centred = MAKERS[maker](center=True, **FACTORS).fit(x)
    apart = x - centred.centre_
    rebuilt = centred.reconstruct(centred.encode(x)) - centred.centre_
    np.testing.assert_allclose((apart * rebuilt).sum(1), np.square(apart).sum(1), rtol=1e-4)


@every_encoder
def test_the_unbiased_factor_is_unbiased_over_frames(maker):
    # 16 means of 600 frames, each 5 standard errors from the truth with p < 1e-6: together 2e-5.
    # Queries lean towards the vectors, so that a factor that shrinks by 3 % would be noticed.
    x = rows(4, seed=1)
    q = x + 0.3 * rows(4, seed=2)
    found = np.array(
        [estimates(MAKERS[maker](seed=seed, **FACTORS).fit(x), q, x) for seed in range(600)]
    )
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - q @ x.T) < 5 * error + 1e-4).all()
    assert (error < 0.1 * np.linalg.norm(q, axis=1)[:, None]).all()


@every_encoder
def test_codes_do_not_depend_on_how_rows_are_split(maker, monkeypatch):
    x = rows(203)
    encoder = MAKERS[maker](center=True, short=True, **FACTORS).fit(x)
    whole = encoder.encode(x)
    weights, offsets = encoder.query_weights(x)
    rebuilt = encoder.reconstruct(whole)
    monkeypatch.setattr(linear, "ROOM", 1)
    for parts in ([1, 2, 7, 100], [64], []):
        pieces = [encoder.encode(part) for part in np.split(x, parts)]
        for at in range(3):
            joined = np.concatenate([piece[at] for piece in pieces])
            np.testing.assert_array_equal(joined, whole[at])
    np.testing.assert_array_equal(encoder.query_weights(x)[0], weights)
    np.testing.assert_array_equal(encoder.query_weights(x[5:9])[1], offsets[5:9])
    np.testing.assert_array_equal(encoder.reconstruct(whole), rebuilt)
    np.testing.assert_array_equal(encoder.query_words(x), whole.short)


@every_encoder
def test_zero_vectors_have_no_bits_and_the_factor_0(maker):
    x = rows()
    x[[0, 7]] = 0
    encoder = MAKERS[maker](short=True, **FACTORS).fit(x)
    codes = encoder.encode(x)
    assert not codes.words[[0, 7]].any()
    assert not codes.short[[0, 7]].any()
    assert codes.factors[[0, 7], 0].tolist() == [0, 0]
    assert not encoder.reconstruct(codes)[[0, 7]].any()
    assert codes.factors[1:7].all()


@every_encoder
def test_the_centre_itself_is_rebuilt_as_the_centre(maker):
    encoder = MAKERS[maker](center=True, **FACTORS).fit(rows())
    codes = encoder.encode(encoder.centre_[None])
    assert codes.factors[0, 0] == 0
    np.testing.assert_array_equal(encoder.reconstruct(codes)[0], encoder.centre_)


@every_encoder
def test_the_length_of_a_vector_changes_no_bit(maker):
    x = rows()
    encoder = MAKERS[maker](**FACTORS).fit(x)
    near, far = encoder.encode(x), encoder.encode(x * 2.0**100)
    np.testing.assert_array_equal(near.words, far.words)
    np.testing.assert_allclose(far.factors, near.factors * 2.0**100, rtol=1e-6)


def test_other_containers_and_float64_are_taken():
    x = rows()
    encoder = qolsh(32).fit(x)
    wanted = encoder.encode(x).words
    for other in (x.astype(np.float64), x.tolist(), np.asfortranarray(x), x[::-1][::-1]):
        np.testing.assert_array_equal(encoder.encode(other).words, wanted)
    with pytest.raises(TypeError, match="must not be masked"):
        encoder.encode(np.ma.masked_less(x, 0))
    assert encoder.encode(x[:0]).words.shape == (0, 1)
    assert encoder.reconstruct(encoder.encode(x[:0])).shape == (0, 6)
    assert encoder.query_weights(x[:0])[0].shape == (0, 32)


@every_encoder
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_numbers_that_are_not_finite_are_refused_by_their_place(maker, bad, monkeypatch):
    monkeypatch.setattr(linear, "ROOM", 1)  # the row is not in the first batch
    x = rows().astype(np.float64)
    encoder = MAKERS[maker]().fit(x)
    x[31, 4] = bad
    for call in (encoder.encode, encoder.query_words, encoder.query_weights, encoder.fit):
        with pytest.raises(ValueError, match=rf"{maker}.*finite.*row 31, column 4"):
            call(x)
    assert encoder.dimension_ == 6


@every_encoder
def test_other_dimensions_and_unfitted_encoders_are_refused(maker):
    encoder = MAKERS[maker]()
    for call in (encoder.encode, encoder.query_words, encoder.query_weights, encoder.scales):
        with pytest.raises(ValueError, match=rf"{maker}.*call fit first"):
            call(rows())
    with pytest.raises(ValueError, match="at least one row"):
        encoder.fit(rows(0))
    encoder.fit(rows())
    for call in (encoder.encode, encoder.query_words, encoder.query_weights):
        with pytest.raises(ValueError, match=rf"{maker}.*6 columns.*not 5"):
            call(rows(dimension=5))


@every_encoder
def test_codes_that_are_not_the_encoders_are_refused(maker):
    # Kernels read as many words as the bits need, whatever they are given.
    encoder = MAKERS[maker]().fit(rows())
    words, factors, _ = encoder.encode(rows())
    for bad in (words[:, :0], np.hstack([words, words]), words[0], words.astype(np.int64)):
        for call in (
            encoder.scales,
            lambda w: encoder.reconstruct(Codes(w, factors[: len(w)], None)),
        ):
            with pytest.raises(ValueError, match=r"words must be uint64 of shape \(n, 1\)"):
                call(bad)
    for bad in (factors[1:], np.ones((50, 1), np.float32)):
        with pytest.raises(ValueError, match=r"factors must be of shape \(50, 0\)"):
            encoder.reconstruct(Codes(words, bad, None))


@every_encoder
def test_every_limit_of_a_parameter_is_enforced(maker):
    encoder = MAKERS[maker]()
    for name, limit in encoder.LIMITS.items():
        for bad in limit.bad():
            with pytest.raises(ValueError, match=rf"^{maker}: {name} must be"):
                type(encoder)(**{**encoder.get_params(), name: bad})
    with pytest.raises(ValueError, match="none of them"):
        type(encoder)(**encoder.get_params(), colour=1)


def test_sizes_that_cannot_be_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match="super-bit"):
        project_and_sign(7, directions="orthogonal").fit(rows())
    with pytest.raises(ValueError, match="use tight_frame"):
        anti_sparse(5).fit(rows())
    with pytest.raises(ValueError, match="fewer bits"):
        tight_frame(2**16).fit(np.zeros((1, 2**11), np.float32))


@every_encoder
def test_state_comes_back_through_json_and_copies_encode_equally(maker):
    x = rows()
    encoder = MAKERS[maker](center=True, short=True, seed=5, **FACTORS).fit(x)
    parameters, arrays = encoder.state()
    again = CodeEncoder.from_state(json.loads(json.dumps(parameters)), arrays)
    copied, pickled = copy.deepcopy(encoder), pickle.loads(pickle.dumps(encoder))
    assert repr(again) == repr(encoder)
    assert set(arrays) == {"centre"}
    for other in (again, copied, pickled):
        for one, two in zip(other.encode(x), encoder.encode(x), strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(other.query_weights(x)[1], encoder.query_weights(x)[1])
    plain = MAKERS[maker]().fit(x)
    assert plain.state()[1] == {}
    np.testing.assert_array_equal(
        CodeEncoder.from_state(*plain.state()).scales(plain.encode(x).words),
        plain.scales(plain.encode(x).words),
    )


def test_a_state_that_does_not_fit_is_refused():
    parameters, arrays = qolsh(16, center=True).fit(rows()).state()
    for name, bad in {"kind": "none", "dimension": 0, "bits": 0}.items():
        with pytest.raises(ValueError, match=f"{name} must be"):
            CodeEncoder.from_state({**parameters, name: bad}, arrays)
    with pytest.raises(ValueError, match="do not fit its dimension"):
        CodeEncoder.from_state({**parameters, "dimension": 7}, arrays)
    with pytest.raises(ValueError, match="centre"):
        CodeEncoder.from_state(parameters, {"centre": np.full(6, np.nan, np.float32)})
