"""Joint decoding by messages between items, prior and release, for a block of users at a time."""

import numpy as np

from sfumato.attack._channel import Channel
from sfumato.attack._odds import sigmoid
from sfumato.attack._priors import Prior

__all__ = ["propagated"]

ROUNDS, SWEEPS = 12, 2  # of the prior, and of messages between two of them
CLOSE = 2e-3  # largest change of a belief in a round at which messages have settled


def propagated(seen: Channel, rows: slice, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """Posterior log odds of items and the prior part of them (users x items each).

    Items tell the release how likely they are, the release tells each item what it makes of it,
    the others given; a personal prior learns from all of that, until beliefs settle.
    """
    messages = seen.messages(rows)
    shape = (rows.stop - rows.start, seen.items)
    log_odds = prior.log_odds(np.zeros(shape), rows)
    beliefs = sigmoid(log_odds)
    for _ in range(ROUNDS):
        for _ in range(SWEEPS):
            ratios = messages.sweep(log_odds)
        if prior.personal:
            log_odds = prior.log_odds(ratios, rows)
        last, beliefs = beliefs, sigmoid(log_odds + ratios)
        if np.abs(beliefs - last).max() < CLOSE:
            break
    return log_odds + ratios, log_odds
