"""Information that the scores of an attack carry about true profiles, estimated from samples."""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.attack.numerics import log_odds, logistic_weights, within
from sfumato.core.typing import Matrix

__all__ = ["MeasuredInformation", "measured_information"]

CELLS = 1 << 20  # of a table at a time
FITTED = 1 << 21  # cells from which the weights are learned
RIDGE = 1e-3
FOLDS = 4
AS_GIVEN = np.array([0.0, 1.0, 1.0])  # weights that leave the scores unchanged


@dataclass(frozen=True)
class MeasuredInformation:
    """Information of an attack's scores beyond the prior, in nats per profile.

    Returned by `measured_information`.

    Parameters
    ----------
    nats : float
        Estimated information, with scores recalibrated on users other than those evaluated.
    error : float
        Standard error of `nats` over users.
    raw : float
        The same with scores and prior as given; far below 0 for overconfident scores.
    slope : float
        Fitted weight of the scores' log-odds, averaged over folds; below 1 for overconfident
        scores.
    users : int
        Number of users.

    Examples
    --------
    >>> MeasuredInformation(nats=12.4, error=0.3, raw=12.1, slope=0.98, users=400)
    MeasuredInformation: 12.4 +- 0.3 nats a profile (12.1 with the scores as they are)
    """

    nats: float
    error: float
    raw: float
    slope: float
    users: int

    def to_dict(self) -> dict[str, Any]:
        """Convert the figures to plain JSON values.

        Returns
        -------
        dict
            One entry per parameter of the class.
        """
        return asdict(self)

    def __repr__(self) -> str:
        return (
            f"MeasuredInformation: {self.nats:.4g} +- {self.error:.2g} nats a profile "
            f"({self.raw:.4g} with the scores as they are)"
        )


def measured_information(scores: Matrix, truth: Any, prior: Any) -> MeasuredInformation:
    """Estimate how many nats about a profile an attack's scores add to the prior.

    Parameters
    ----------
    scores : array_like of shape (n_users, n_candidates)
        Estimated probabilities from 0 to 1 that the user has the item; at least 8 users.
    truth : array_like of shape (n_users, n_candidates) or GroundTruth
        Booleans: True where the user has the item.
    prior : array_like of shape (n_candidates,)
        Prior probability of each candidate, from 0 to 1.

    Returns
    -------
    MeasuredInformation
        The estimate with its standard error, in nats per profile.

    Raises
    ------
    ValueError
        If shapes disagree, values lie outside 0 to 1, or there are fewer than 8 users.

    Notes
    -----
    **Guarantee.** The result is the gain in log-likelihood of scores over prior, summed over
    candidates, each by itself. Both are first recalibrated by logistic regression on their
    log-odds, fitted on three quarters of the users and evaluated on the fourth, in turn. So
    overconfident scores are neither punished nor rewarded, and what a better prior would have known
    counts for nothing. Where items are independent given the prior, the expected gain is at most
    the information of the release about the profile (Gibbs' inequality); the true posterior
    probabilities attain the sum of the information about single items. Where items are correlated,
    evidence about several items counts once for each of them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random((400, 50)) < 0.2
    >>> released = truth ^ (rng.random(truth.shape) < 0.1)
    >>> scores = np.where(released, 0.18 / 0.26, 0.02 / 0.74)  # posterior at flip probability 0.1
    >>> measured = measured_information(scores, truth, np.full(50, 0.2))
    >>> round(measured.nats), round(50 * (0.573 - 0.325))  # 50 times h(0.26) - h(0.1)
    (12, 12)
    """
    owner = "measured_information"
    scores = within(owner, "scores", scores, 0, 1)
    right = np.asarray(getattr(truth, "present", truth))
    if scores.ndim != 2 or right.shape != scores.shape or right.dtype != np.bool_:
        raise ValueError(f"{owner}: truth must be booleans in the shape of scores, users x items.")
    prior = within(owner, "prior", prior, 0, 1)
    if prior.shape != scores.shape[1:]:
        raise ValueError(
            f"{owner}: prior must be {scores.shape[1]} probabilities, one per candidate."
        )
    if len(scores) < 2 * FOLDS:
        raise ValueError(f"{owner}: scores must be of at least {2 * FOLDS} users.")
    return _measured(scores, right, log_odds(prior))


def _measured(scores: np.ndarray, right: np.ndarray, prior: np.ndarray) -> MeasuredInformation:
    """Cross-validated gain of recalibrated and of raw scores over the prior."""
    gains, raw = np.empty(len(scores)), np.empty(len(scores))
    slopes = []
    for fold in range(FOLDS):
        validation = np.arange(len(scores)) % FOLDS == fold
        fitted, tried = np.flatnonzero(~validation), np.flatnonzero(validation)
        both, alone = _fitted(scores, right, prior, fitted)
        slopes.append(float(both[2]))
        gains[tried] = _likelihoods(scores, right, prior, tried, both)
        gains[tried] -= _base(right, alone[0] + alone[1] * prior, tried)
        raw[tried] = _likelihoods(scores, right, prior, tried, AS_GIVEN)
        raw[tried] -= _base(right, prior, tried)
    error = float(gains.std(ddof=1)) / math.sqrt(gains.size)
    return MeasuredInformation(
        float(gains.mean()), error, float(raw.mean()), float(np.mean(slopes)), gains.size
    )


def _fitted(
    scores: np.ndarray, right: np.ndarray, prior: np.ndarray, users: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Logistic weights of (constant, prior log-odds, log-odds that scores add); and without scores.

    Fitted on at most FITTED cells, of users evenly spaced among these: three weights need no more.
    """
    most = max(FOLDS, FITTED // max(prior.size, 1))
    some = users[:: -(-users.size // most)]
    base = np.tile(prior, some.size)
    features = np.stack([np.ones_like(base), base, log_odds(scores[some]).ravel() - base])
    truth = right[some].ravel()
    both, alone = (logistic_weights(part, truth, RIDGE) for part in (features, features[:2]))
    return both, alone


def _base(right: np.ndarray, odds: np.ndarray, users: np.ndarray) -> np.ndarray:
    """Log-likelihood of each user's true profile under the prior alone."""
    return np.asarray(right[users] @ odds - _softplus(odds).sum())


def _likelihoods(
    scores: np.ndarray, right: np.ndarray, prior: np.ndarray, users: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Log-likelihood of each user's true profile under these weights, by blocks of users."""
    out = np.empty(users.size)
    own = weights[0] + (weights[1] - weights[2]) * prior
    step = max(1, CELLS // max(prior.size, 1))
    for start in range(0, users.size, step):
        rows = users[start : start + step]
        odds = own + weights[2] * log_odds(scores[rows])
        out[start : start + step] = (np.where(right[rows], odds, 0.0) - _softplus(odds)).sum(axis=1)
    return out


def _softplus(odds: np.ndarray) -> np.ndarray:
    """log(1 + exp(odds)) without overflow; NumPy's logaddexp takes twice as long."""
    return np.asarray(np.maximum(odds, 0) + np.log1p(np.exp(-np.abs(odds))))
