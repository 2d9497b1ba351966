"""Both models: epochs, history, Ctrl-C, threads, bounds, scale, clip and noise."""

import math
import os
import signal
import time

import numpy as np
import pytest

from sfumato.data import Interactions
from sfumato.recommend import DenseFactorization, SketchFactorization

MODELS = [DenseFactorization, SketchFactorization]
both = pytest.mark.parametrize("kind", MODELS)


def world(seed=0, users=300, items=200, rows=20_000):
    random = np.random.default_rng(seed)
    who, what = random.integers(users, size=rows), random.integers(items, size=rows)
    p, q = random.normal(0, 0.7, users), random.normal(0, 0.7, items)
    ratings = np.clip(3 + p[who] + q[what] + random.normal(0, 0.4, rows), 1, 5)
    return Interactions(who, what, ratings).split(0.8, 0.2, random_state=seed)


TRAIN, TEST = world()


def rmse(model, data):
    return float(np.sqrt(np.mean((model.predict(data.users, data.items) - data.ratings) ** 2)))


def result(model):
    return model.predict(TEST.users, TEST.items)


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C interrupts, also where the tests themselves run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@both
def test_one_random_state_gives_one_model_bit_for_bit(kind):
    models = [kind(epochs=2, random_state=s).fit(TRAIN) for s in (1, 1, 2)]
    assert models[0].to_bytes() == models[1].to_bytes()
    assert (result(models[0]) != result(models[2])).any()


@both
def test_progress_and_history_tell_every_epoch(kind):
    observed = []
    model = kind(epochs=3).fit(TRAIN, TEST, progress=lambda *args: observed.append(args))
    assert [args[:2] for args in observed] == [(1, 3), (2, 3), (3, 3)]
    assert [h["epoch"] for h in model.history_] == [1, 2, 3]
    assert [h["valid_rmse"] for h in model.history_] == [args[2] for args in observed]
    assert model.history_[-1]["valid_rmse"] == pytest.approx(rmse(model, TEST))
    quiet = kind(epochs=1).fit(TRAIN, progress=lambda *args: observed.append(args))
    assert observed[-1] == (1, 1, None)
    assert quiet.history_ == [{"epoch": 1, "valid_rmse": None}]


@both
def test_the_learning_rate_decays_as_documented(kind):
    model = kind(learning_rate=0.3, decay=2.0, epochs=4)
    rates = [model._rate(model._check(), t / 4) for t in range(4)]
    assert rates == pytest.approx([0.3, 0.3 / 1.5, 0.3 / 2, 0.3 / 2.5])


@both
def test_control_c_keeps_the_last_whole_epoch_and_is_raised_again(kind):
    model = kind(epochs=50)

    def stop(done, epochs, error):
        if done == 2:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    with pytest.raises(KeyboardInterrupt):
        model.fit(TRAIN, progress=stop)
    assert len(model.history_) == 2
    # Two epochs of fifty have the rates of two epochs with a 25th of the decay.
    full = kind(epochs=2, decay=model.decay / 25).fit(TRAIN)
    assert (result(model) == result(full)).all()


@both
def test_control_c_in_an_epoch_that_fails_is_not_lost_and_keeps_nothing_of_it(kind):
    model = kind(epochs=5, learning_rate=0.05).fit(TRAIN)
    before = model.to_bytes()

    class Stopped(kind):
        def _pass(self, plain, *args):
            rate = 1e9 if self.history_ else 0.05
            os.kill(os.getpid(), signal.SIGINT) if self.history_ else None
            super()._pass(plain, args[0], rate, *args[2:])

    stopped = Stopped(**model.get_params())
    stopped.__dict__.update(model.__dict__)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        stopped.fit(TRAIN)
    assert "diverged" in str(interrupted.value.__context__)
    assert kind.to_bytes(model) == before
    assert (result(stopped) == result(model)).all()


@both
@pytest.mark.parametrize("factors", [7, 16, 32])
@pytest.mark.parametrize("rows", [1, len(TRAIN)])
@pytest.mark.parametrize("noise", [None, 1e-6])
def test_a_batch_that_diverges_leaves_the_model_as_it_was(kind, factors, rows, noise):
    # One row touches few numbers, all rows touch all; sevens lie across the blocks of 16, and a
    # step beyond float32 reaches what lies behind them.
    model = kind(epochs=2, factors=factors, noise=noise).fit(TRAIN)
    model.set_params(learning_rate=1e30)
    before, shown = model.to_bytes(), [table.copy() for table in model._tables()]
    wild = Interactions(TRAIN.users[:rows], TRAIN.items[:rows], np.full(rows, 1e12))
    sentence = r"diverged .* smaller learning_rate or regularization, or bounds= for a stream"
    for _ in range(2):
        with pytest.raises(ValueError, match=sentence):
            model.partial_fit(wild)
    assert model.to_bytes() == before
    for table, retained in zip(model._tables(), shown, strict=True):
        assert (table == retained).all()
    assert np.isfinite(result(model.set_params(learning_rate=0.05).partial_fit(TEST))).all()


@both
def test_a_batch_reads_and_keeps_what_it_touches_and_not_the_table(kind):
    model = kind(epochs=1).fit(TRAIN)
    one = model._columns(TRAIN.filter([3]))
    assert all(positions is not None for _, positions in model._regions(*one))
    before = [table.copy() for table in model._tables()]
    user, item = int(TRAIN.users[3]), int(TRAIN.items[3])
    model.partial_fit(Interactions([user], [item], [5.0]))
    for (table, positions), old in zip(model._regions(*one), before, strict=True):
        changed = table != old.reshape(table.shape)
        assert changed.any()
        changed[positions] = False
        assert not changed.any()


@both
def test_a_stream_without_bounds_is_refused_with_a_reason(kind):
    model = kind(**({"cells": 999} if kind is SketchFactorization else {}))
    with pytest.raises(ValueError, match=r"partial_fit needs bounds=, since .* scale of ratings"):
        model.partial_fit(TRAIN)
    assert "catalogue_" not in model.__dict__
    model.set_params(bounds=(1, 5)).partial_fit(TRAIN.filter([0]))
    assert (model.low_, model.high_, model.scale_) == (1, 5, 1)


@both
def test_a_failing_fit_leaves_the_model_as_it_was(kind):
    model = kind(epochs=2).fit(TRAIN)
    before, bytes_before = result(model), model.to_bytes()

    def fail(*args):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        model.fit(TEST, progress=fail)
    model.set_params(learning_rate=1e6)
    with pytest.raises(ValueError, match=r"diverged.*smaller learning_rate"):
        model.fit(TEST)
    model.set_params(learning_rate=0.05)
    assert (result(model) == before).all()
    assert model.to_bytes() == bytes_before
    assert model.history_[-1]["epoch"] == 2


@both
def test_bad_input_is_refused_in_a_sentence(kind):
    empty = Interactions([], [], [])
    for bad in (empty, TRAIN.filter([])):
        with pytest.raises(ValueError, match="train is empty; at least one row"):
            kind().fit(bad)
    with pytest.raises(ValueError, match="valid is empty"):
        kind().fit(TRAIN, empty)
    with pytest.raises(TypeError, match="train must be Interactions"):
        kind().fit([1, 2])
    with pytest.raises(ValueError, match=r"ratings must be within bounds \(2.0, 5.0\)"):
        kind(bounds=(2, 5)).fit(TRAIN)
    model = kind(bounds=(1, 5), **({"cells": 999} if kind is SketchFactorization else {})).fit(
        TRAIN
    )
    with pytest.raises(ValueError, match="within bounds"):
        model.partial_fit(Interactions([1], [1], [9]))


@both
def test_one_user_or_one_item_is_refused_by_fit_and_taken_from_a_stream(kind):
    options = {"bounds": (0, 9), **({} if kind is DenseFactorization else {"cells": 1024})}
    for users, items in (([1], [1]), ([1] * 9, range(9)), (range(9), [2] * 9)):
        rows = Interactions(list(users), list(items), [4] * len(users))
        with pytest.raises(ValueError, match=r"one (user|item) only"):
            kind(epochs=3).fit(rows)
        found = kind(**options).partial_fit(rows).predict(rows.users, rows.items)
        assert np.isfinite(found).all()
        assert ((found >= 0) & (found <= 9)).all()


@both
def test_any_scale_of_ratings_learns_equally(kind):
    stretched = [Interactions(d.users, d.items, d.ratings * 25 - 30) for d in (TRAIN, TEST)]
    stars, percent = kind(epochs=5).fit(TRAIN), kind(epochs=5).fit(stretched[0])
    expected = result(stars) * 25 - 30
    np.testing.assert_allclose(percent.predict(TEST.users, TEST.items), expected, atol=0.05)


@both
@pytest.mark.parametrize("width", [4, 100])
def test_clip_is_the_loss_above_which_a_rating_changes_nothing(kind, width):
    # The loss is (r - prediction)**2 / 2 in the units of the ratings, whatever their scale.
    stretched = Interactions(TRAIN.users, TRAIN.items, (TRAIN.ratings - 1) * width / 4)
    model = kind(epochs=5, bounds=(-width, 2 * width)).fit(stretched)
    user, item = int(TRAIN.users[0]), int(TRAIN.items[0])
    for off, changes in ((0.97, True), (-0.97, True), (1.03, False), (-1.03, False)):
        rating = model.predict(user, item)[0] + off * width / 4
        before = model._user_vectors(np.array([user]))
        model.set_params(clip=(width / 4) ** 2 / 2).partial_fit(
            Interactions([user], [item], [rating])
        )
        assert (model._user_vectors(np.array([user])) != before).any() == changes


@both
def test_noise_has_the_variance_of_langevin_dynamics(kind):
    # Rates so small that nothing is learned: an epoch adds noise of variance 2 rate temperature to
    # every number; 9,600 numbers and more give its deviation within 1 %, five deviations are 4 %.
    options = {"learning_rate": 1e-9, "decay": 0.0, "epochs": 3}
    retained = {
        t: kind(noise=t, **options).fit(TRAIN)._user_vectors(np.arange(300)) for t in (None, 1e9)
    }
    # A dense model and one deep sketch read numbers of the same standard deviation.
    moved = retained[1e9][:, :-1] - retained[None][:, :-1]
    moved = moved[:, moved.any(axis=0)]  # a sketch reads some of the factors
    assert moved.std() == pytest.approx(math.sqrt(3 * 2 * 1e-9 * 1e9), rel=0.04)


@both
def test_the_label_is_measured_where_something_hides(kind):
    assert kind().privacy_label == "none"
    assert kind(clip=2.0).privacy_label == "measured"
    assert kind(noise=0.1).privacy_label == "measured"
    assert kind(clip=2.0).statement is None
    model = kind(clip=2.0, epochs=1).fit(TRAIN)
    assert kind.from_bytes(model.to_bytes()).privacy_label == "measured"
    assert model.set_params(clip=None).privacy_label == "measured"
    assert model.partial_fit(TEST).privacy_label == "none"


@both
def test_two_threads_learn_as_well_as_one(kind):
    one, two = (rmse(kind(threads=t).fit(TRAIN), TEST) for t in (1, 2))
    assert two == pytest.approx(one, abs=0.02)


@both
def test_a_catalogue_that_is_given_stays(kind):
    model = kind(epochs=1).fit(TRAIN, catalogue=[5, 6, 7])
    assert list(model.catalogue_.ids) == [5, 6, 7]
    model.partial_fit(TEST)
    assert list(model.catalogue_.ids) == [5, 6, 7]
    assert list(model.partial_fit(TEST, catalogue=[8]).catalogue_.ids) == [8]
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(TypeError, match="catalogue holds text, but items of the data are int"):
            learn(TEST, catalogue=["a", "b"])
