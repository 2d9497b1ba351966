"""Epochs run to their end, and Ctrl-C keeps those that are complete."""

import os
import signal
import threading
import time

import pytest

from sfumato.recommend.factorization.epochs import run_epochs, run_uninterrupted


@pytest.fixture(autouse=True)
def interruptible():
    """Ctrl-C interrupts, also where the tests themselves run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_control_c_in_an_epoch_waits_for_its_end():
    ended = []

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_uninterrupted(work)
    assert ended == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    other = threading.Thread(target=run_uninterrupted, args=(lambda: ended.append(False),))
    other.start()
    other.join()
    assert ended == [True, False]


def test_all_epochs_run_and_something_after_each():
    done = []
    assert run_epochs(3, lambda: done.append("epoch"), lambda: done.append("after"))
    assert done == ["epoch", "after"] * 3
    assert run_epochs(2, lambda: done.append("alone"))
    assert done[6:] == ["alone", "alone"]


@pytest.mark.parametrize("inside", [True, False])
def test_control_c_in_or_after_an_epoch_ends_training_with_that_epoch(inside):
    done = []

    def epoch():
        if inside and done:
            os.kill(os.getpid(), signal.SIGINT)
        done.append(True)

    def after():
        if not inside and len(done) == 2:
            os.kill(os.getpid(), signal.SIGINT)

    assert not run_epochs(9, epoch, after)
    assert len(done) == 2


@pytest.mark.parametrize("before", [0, 2])
def test_nothing_is_kept_of_an_epoch_that_does_not_end(before):
    done = []

    def epoch():
        if len(done) == before:
            raise KeyboardInterrupt
        done.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_epochs(5, epoch)


def test_errors_are_raised():
    def epoch():
        raise ValueError("diverged")

    with pytest.raises(ValueError, match="diverged"):
        run_epochs(5, epoch)
