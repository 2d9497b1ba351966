"""The epsilon that one model refutes, by guesses about pairs of a member and another."""

import numpy as np

from sfumato.attack._bounds import LowerBound
from sfumato.attack.one_run import one_run_lower_bound

__all__ = ["pairs_lower_bound"]

SHARES = (1.0, 0.3, 0.1, 0.03, 0.01)  # of pairs about which a guess is made: the clearest ones
Scores = tuple[np.ndarray, np.ndarray]  # of members and of others, each in random order


def pairs_lower_bound(
    learned_on: Scores, measured_on: Scores, delta: float, confidence: float
) -> LowerBound:
    """A lower bound on epsilon for replacing one rating, from one trained model.

    Guarantee: where the split was at random, the other rows took no part in training, and the score
    follows from the model and from rows other than the measured ones, the result exceeds the true
    epsilon with a chance of at most 1 - confidence.

    A random member and a random other make a pair; which of the two was learned from is then a fair
    coin, independent of those of the other pairs, and turning it replaces one rating by another.
    So the theorem for one run with many canaries holds, which needs no independent models; the
    bound of independent trials (`epsilon_lower_bound`) would not hold, since all guesses come from
    one model. How many of the clearest pairs to guess about is chosen on the first half.
    """
    shown = [_bound(learned_on, share, delta, confidence) for share in SHARES]
    best = max(range(len(SHARES)), key=lambda at: shown[at].epsilon)
    return _bound(measured_on, SHARES[best], delta, confidence)


def _bound(scores: Scores, share: float, delta: float, confidence: float) -> LowerBound:
    pairs = min(side.size for side in scores)
    gaps = scores[0][:pairs] - scores[1][:pairs]
    clear = np.argsort(-np.abs(gaps), kind="stable")[: max(int(share * pairs), 1)]
    guessed = gaps[clear][gaps[clear] != 0]  # no guess where both score alike
    if not guessed.size:
        return LowerBound(0.0, 0.0, confidence, delta)
    right = int((guessed > 0).sum())
    return one_run_lower_bound(right, guessed.size, pairs, delta, confidence)
