"""How much the scores of an attack told about true profiles: what was measured, not a bound."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.attack.numerics import log_odds, logistic_weights, within
from sfumato.core.typing import Matrix

__all__ = ["MeasuredInformation", "measured_information"]

CELLS = 1 << 20  # of a table at a time
FITTED = 1 << 21  # cells that weights are learned from
RIDGE = 1e-3
FOLDS = 4
AS_GIVEN = np.array([0.0, 1.0, 1.0])  # the weights under which scores are what they say


@dataclass(frozen=True)
class MeasuredInformation:
    """What scores told beyond the prior, in nats a profile.

    nats: with scores put right by users other than those they are tried on; error: its standard
    error over users; raw: with scores and prior as given, far below 0 where scores are too sure;
    slope: what a log-odds of 1 in the scores is worth, below 1 where they are too sure; users.

    Parameters
    ----------
    nats : float
        TODO.
    error : float
        TODO.
    raw : float
        TODO.
    slope : float
        TODO.
    users : int
        TODO.
    """

    nats: float
    error: float
    raw: float
    slope: float
    users: int

    def to_dict(self) -> dict[str, Any]:
        """The figures as plain JSON values.

        Returns
        -------
        dict
            The figures as plain JSON values.
        """
        return asdict(self)

    def __repr__(self) -> str:
        return (
            f"MeasuredInformation: {self.nats:.4g} +- {self.error:.2g} nats a profile "
            f"({self.raw:.4g} with the scores as they are)"
        )


def measured_information(scores: Matrix, truth: Any, prior: Any) -> MeasuredInformation:
    """How many nats about a profile the scores of an attack give that the prior does not.

    Parameters
    ----------
    scores : array_like
        Chances from 0 to 1, users x candidates, at least 8 users.
    truth : object
        Booleans of the same shape, or a `GroundTruth`.
    prior : object
        A chance for each candidate.

    Returns
    -------
    MeasuredInformation
        How many nats about a profile the scores of an attack give that the prior does not.

    Notes
    -----
    **Guarantee.** The gain in log-likelihood of scores over prior, summed over candidates, each by
    itself. Both are first put right by logistic regressions on their log-odds, learned on three
    quarters of the users and tried on the fourth, in turn: scores that are too sure gain no less
    and no more than they are worth, and what a better prior would have known gains nothing. Where
    items are independent given the prior, the expected gain is at most the information of the
    release about the profile (Gibbs' inequality), and that of true posteriors is all there is in
    them one by one; where items come together, what is told about several counts for each.

    Examples
    --------
    >>> draws = np.random.default_rng(0)
    >>> truth = draws.random((400, 50)) < 0.2
    >>> seen = truth ^ (draws.random(truth.shape) < 0.1)
    >>> scores = np.where(seen, 0.18 / 0.26, 0.02 / 0.74)  # the posterior of a flip of 0.1
    >>> told = measured_information(scores, truth, np.full(50, 0.2))
    >>> round(told.nats), round(50 * (0.573 - 0.325))  # 50 times h(0.26) - h(0.1)
    (12, 12)
    """
    owner = "measured_information"
    scores = within(owner, "scores", scores, 0, 1)
    right = np.asarray(getattr(truth, "present", truth))
    if scores.ndim != 2 or right.shape != scores.shape or right.dtype != np.bool_:
        raise ValueError(f"{owner}: truth must be booleans in the shape of scores, users x items.")
    prior = within(owner, "prior", prior, 0, 1)
    if prior.shape != scores.shape[1:]:
        raise ValueError(f"{owner}: prior must be {scores.shape[1]} chances, one a candidate.")
    if len(scores) < 2 * FOLDS:
        raise ValueError(f"{owner}: scores must be of at least {2 * FOLDS} users.")
    return _measured(scores, right, log_odds(prior))


def _measured(scores: np.ndarray, right: np.ndarray, prior: np.ndarray) -> MeasuredInformation:
    told, raw = np.empty(len(scores)), np.empty(len(scores))
    slopes = []
    for fold in range(FOLDS):
        held = np.arange(len(scores)) % FOLDS == fold
        known, tried = np.flatnonzero(~held), np.flatnonzero(held)
        both, alone = _fitted(scores, right, prior, known)
        slopes.append(float(both[2]))
        told[tried] = _likelihoods(scores, right, prior, tried, both)
        told[tried] -= _base(right, alone[0] + alone[1] * prior, tried)
        raw[tried] = _likelihoods(scores, right, prior, tried, AS_GIVEN)
        raw[tried] -= _base(right, prior, tried)
    error = float(told.std(ddof=1)) / math.sqrt(told.size)
    return MeasuredInformation(
        float(told.mean()), error, float(raw.mean()), float(np.mean(slopes)), told.size
    )


def _fitted(
    scores: np.ndarray, right: np.ndarray, prior: np.ndarray, users: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of 1, of the prior's log-odds and of what scores add to them; and without scores.

    Learned from users evenly among these, as many as fit FITTED: three numbers need no more.
    """
    most = max(FOLDS, FITTED // max(prior.size, 1))
    some = users[:: -(-users.size // most)]
    base = np.tile(prior, some.size)
    features = np.stack([np.ones_like(base), base, log_odds(scores[some]).ravel() - base])
    truth = right[some].ravel()
    both, alone = (logistic_weights(part, truth, RIDGE) for part in (features, features[:2]))
    return both, alone


def _base(right: np.ndarray, odds: np.ndarray, users: np.ndarray) -> np.ndarray:
    """The log-likelihood of each user's truth under the prior alone."""
    return np.asarray(right[users] @ odds - _softplus(odds).sum())


def _likelihoods(
    scores: np.ndarray, right: np.ndarray, prior: np.ndarray, users: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The log-likelihood of each user's truth under these weights, some users at a time."""
    out = np.empty(users.size)
    own = weights[0] + (weights[1] - weights[2]) * prior
    step = max(1, CELLS // max(prior.size, 1))
    for start in range(0, users.size, step):
        rows = users[start : start + step]
        odds = own + weights[2] * log_odds(scores[rows])
        out[start : start + step] = (np.where(right[rows], odds, 0.0) - _softplus(odds)).sum(axis=1)
    return out


def _softplus(odds: np.ndarray) -> np.ndarray:
    """log(1 + exp(odds)), without overflow; NumPy's logaddexp takes twice as long."""
    return np.asarray(np.maximum(odds, 0) + np.log1p(np.exp(-np.abs(odds))))
