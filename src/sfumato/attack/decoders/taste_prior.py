"""A latent-trait prior of profiles, learned from known users: which items go together."""

import numpy as np

from sfumato.attack.numerics import LEAST, Factor, sigmoid
from sfumato.attack.profile_audit.ground_truth import truth_matrix
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, positive
from sfumato.data.interactions import Interactions

__all__ = ["TastePrior", "learn_prior"]

BLOCK = 256  # known users whose probabilities are in memory at a time
STEPS, CLOSE = 8, 0.02  # Newton steps at most, and the step length at convergence
BIAS_SHRINKAGE = 0.1  # ridge penalty of the item biases, in known users
PASSES, SPARE = 8, 10  # power iterations, and oversampled directions
PROBIT = np.pi / 8  # probit approximation of the logistic function averaged over a Gaussian


class TastePrior:
    """Prior of profiles with independent items given a few latent traits of the user.

    Made by `learn_prior`; `joint_decoder` and `single_decoder` take it instead of probabilities.
    Item j is in a profile with log-odds bias[j] + directions[j] . z, where z are independent
    standard normal traits. A user's activity comes out as one of them.

    Parameters
    ----------
    bias : ndarray of shape (n_items,)
        Log-odds of each item at z = 0.
    directions : ndarray of shape (n_items, n_traits)
        Weights of the traits for each item.
    total : float
        Mean number of items in a known profile.

    Examples
    --------
    >>> prior = TastePrior(np.array([-1.0, -2.0]), np.array([[1.0], [0.5]]), total=0.4)
    >>> len(prior), prior.log_odds(np.zeros((1, 2)), slice(0, 1)).shape
    (2, (1, 2))
    """

    personal = True

    def __init__(self, bias: np.ndarray, directions: np.ndarray, total: float) -> None:
        self.bias: np.ndarray
        self.directions: np.ndarray
        self.total: float
        self.bias, self.directions, self.total = bias, directions, total
        self._squares = _Squares(directions)
        self._slopes, self._logits = Factor(directions), Factor(directions.T)

    def __len__(self) -> int:
        return int(self.bias.size)

    def __repr__(self) -> str:
        return described(self, items=len(self), traits=self.directions.shape[1])

    def log_odds(self, ratios: np.ndarray, rows: slice) -> np.ndarray:
        """Compute the prior log-odds of each item given the release's evidence on the others.

        Parameters
        ----------
        ratios : ndarray of shape (n_rows, n_items)
            Log-likelihood ratios of all items for these users.
        rows : slice
            Users of the block; not used, as the prior is the same for all.

        Returns
        -------
        ndarray of shape (n_rows, n_items)
            Log-odds of each item, without the evidence of its own ratio.

        Notes
        ----- Laplace's approximation of the posterior of the traits, by Newton steps on the exact
        marginal likelihood of the ratios. An item's own ratio is removed to first order.
        """
        traits = np.zeros((len(ratios), self.directions.shape[1]))
        for _ in range(STEPS):
            step, covariance = self._step(traits, ratios)
            traits += step
            if np.abs(step).max() < CLOSE:
                break
        logits = self._logits.after(traits) + self.bias
        variance = self._squares.along(covariance).astype(np.float64)
        slope, curvature = _derivatives(logits, ratios)
        others = 1 - np.minimum(variance * curvature, 0.9)
        alone = logits - variance * slope / others
        return np.asarray(alone / np.sqrt(1 + PROBIT * variance / others))

    def _step(self, traits: np.ndarray, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One Newton step, of length at most 2, and the posterior covariance of the traits."""
        slope, curvature = _derivatives(self._logits.after(traits) + self.bias, ratios)
        covariance = np.linalg.inv(np.eye(traits.shape[1]) + self._squares.weighted(curvature))
        step = np.einsum("uij,uj->ui", covariance, self._slopes.after(slope) - traits)
        lengths = np.linalg.norm(step, axis=1, keepdims=True)
        return step * np.minimum(1, 2 / np.maximum(lengths, LEAST)), covariance


def _derivatives(logits: np.ndarray, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope and curvature (at least 0) of the marginal log-likelihood in each item's logit."""
    before, after = sigmoid(logits), sigmoid(logits + ratios)
    return after - before, np.maximum(before * (1 - before) - after * (1 - after), 0)


class _Squares:
    """The matrices v v' of many vectors v: weighted sums of them, and quadratic forms v' M v."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._size = vectors.shape[1]
        self._rows, self._columns = np.triu_indices(self._size)
        flat = vectors[:, self._rows] * vectors[:, self._columns]
        self._sum, self._measure = Factor(flat), Factor(flat.T)

    def weighted(self, weights: np.ndarray) -> np.ndarray:
        """Sum of weight times v v' for each row of weights."""
        out = np.empty((len(weights), self._size, self._size))
        upper = self._sum.after(weights)
        out[:, self._rows, self._columns] = out[:, self._columns, self._rows] = upper
        return out

    def along(self, matrices: np.ndarray) -> np.ndarray:
        """v' M v for each matrix M (rows) and each v."""
        twice = np.where(self._rows == self._columns, 1, 2)
        upper = matrices[:, self._rows, self._columns] * twice
        return self._measure.after(upper)


def learn_prior(
    interactions: Interactions,
    candidates: Ids,
    *,
    traits: int = 10,
    shrinkage: float = 1.0,
    rounds: int = 40,
) -> TastePrior:
    """Learn from known users which items go together.

    For attackers who use more than item popularity.

    Parameters
    ----------
    interactions : Interactions
        Interactions of known users; ratings are ignored.
    candidates : array_like or scalar
        Distinct items that a profile may contain.
    traits : int, default=10
        Number of latent traits of a user, from 1 to 64.
    shrinkage : float, default=1.0
        Ridge penalty on the items' weights, in units of known users; above 0.
    rounds : int, default=40
        Number of EM iterations, from 1 to 1000.

    Returns
    -------
    TastePrior
        The fitted prior, for the candidates in the order given.

    Raises
    ------
    ValueError
        If there is no known user, or a parameter is out of range.

    Notes
    -----
    **Guarantee.** The result is deterministic. Time is proportional to known users x candidates x
    traits**2.

    References
    ----------
    .. [1] Jaakkola, Jordan. "Bayesian parameter estimation via variational methods". Statistics and
       Computing 2000 (variational bound of the logistic function).
       https://doi.org/10.1023/A:1008932416310

    Examples
    --------
    >>> known = Interactions([1, 1, 2, 2, 3, 3, 4, 4], [5, 6, 5, 6, 7, 8, 7, 8], [1] * 8)
    >>> prior = learn_prior(known, [5, 6, 7, 8], traits=1, shrinkage=0.1)
    >>> log_odds = prior.log_odds(np.array([[4.0, 0.0, 0.0, 0.0]]), slice(0, 1))[0]
    >>> bool(log_odds[1] > log_odds[2] + 1)  # users with item 5 have item 6
    True
    """
    traits = integer(1, 64).check("learn_prior", "traits", traits)
    shrinkage = positive.check("learn_prior", "shrinkage", shrinkage)
    rounds = integer(1, 1000).check("learn_prior", "rounds", rounds)
    users = interactions.coded().user_ids
    if not users.size:
        raise ValueError("learn_prior: interactions must have at least one known user.")
    has = truth_matrix(interactions, users, candidates).present
    return _Fit(has, traits, shrinkage).run(rounds)


class _Fit:
    """Variational EM: traits of users block by block, then one ridge regression per item."""

    def __init__(self, has: np.ndarray, traits: int, shrinkage: float) -> None:
        self._has, self._shrinkage = has, shrinkage
        popularity = (has.sum(axis=0) + 0.5) / (len(has) + 1)
        self._base = float(np.log(popularity.mean() / (1 - popularity.mean())))
        self.bias = np.log(popularity) - np.log1p(-popularity)
        self.directions = self._begin(popularity, traits)
        self._means = np.zeros((len(has), traits))
        self._covariances = np.tile(np.eye(traits), (len(has), 1, 1))

    def _begin(self, popularity: np.ndarray, traits: int) -> np.ndarray:
        """Principal directions of the known profiles, scaled to log-odds."""
        rank = min(traits, *self._has.shape)
        found = np.zeros((popularity.size, traits))
        found[:, :rank] = _main_directions(self._has, popularity, rank)
        scale = 2 * np.sqrt(popularity * (1 - popularity))
        return np.asarray(np.clip(found / scale[:, None], -2, 2))

    def run(self, rounds: int) -> TastePrior:
        for _ in range(rounds):
            self._round()
        return TastePrior(self.bias, self.directions, float(self._has.sum() / len(self._has)))

    def _round(self) -> None:
        """One EM iteration over all known users."""
        size = self.directions.shape[1] + 1
        squares = _Squares(self.directions)
        moments = np.zeros((self.bias.size, size * size))
        targets = np.zeros((self.bias.size, size))
        for start in range(0, len(self._has), BLOCK):
            rows = slice(start, min(start + BLOCK, len(self._has)))
            half = self._has[rows] - np.float32(0.5)
            curves, means, seconds = self._traits(rows, half, squares)
            moments += 2 * Factor(seconds.reshape(len(half), -1)).after(curves.T)
            targets += Factor(means).after(half.T)
        ridge = np.diag([self._shrinkage] * (size - 1) + [BIAS_SHRINKAGE])
        targets[:, -1] += BIAS_SHRINKAGE * self._base
        solved = np.linalg.solve(moments.reshape(-1, size, size) + ridge, targets[:, :, None])
        self.directions, self.bias = solved[:, :-1, 0], solved[:, -1, 0]

    def _traits(
        self, rows: slice, half: np.ndarray, squares: _Squares
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Curvatures of the variational bound, means of (traits, 1), and their second moments."""
        mean, covariance = self._means[rows], self._covariances[rows]
        along, across = Factor(self.directions), Factor(self.directions.T)
        bias = self.bias.astype(np.float32)  # users x items stay in single precision
        for _ in range(2):
            logits = across.after(mean) + bias
            far = np.sqrt(logits**2 + squares.along(covariance))
            curves = np.tanh(far / 2) / (4 * np.maximum(far, np.float32(LEAST)))
            covariance = np.linalg.inv(np.eye(mean.shape[1]) + 2 * squares.weighted(curves))
            pull = along.after(half - 2 * curves * bias)
            mean = np.einsum("uij,uj->ui", covariance, pull)
        self._means[rows], self._covariances[rows] = mean, covariance
        means = np.concatenate([mean, np.ones((len(half), 1))], axis=1)
        seconds = means[:, :, None] * means[:, None, :]
        seconds[:, :-1, :-1] += covariance
        return curves, means, seconds


def _main_directions(has: np.ndarray, popularity: np.ndarray, rank: int) -> np.ndarray:
    """Items x rank: principal directions of known profiles, scaled by their standard deviations.

    Randomized power iteration (Halko, Martinsson and Tropp 2011): time grows with users x items x
    rank, where a full decomposition takes the cube of one of them.
    """
    wide = min(rank + SPARE, *has.shape)
    basis = np.random.default_rng(0).normal(size=(popularity.size, wide))
    for _ in range(PASSES):
        basis = np.linalg.qr(_covariance_times(has, popularity, basis))[0]
    values, turn = np.linalg.eigh(basis.T @ _covariance_times(has, popularity, basis))
    lengths = np.sqrt(np.maximum(values[::-1][:rank], 0))
    return np.asarray(basis @ turn[:, ::-1][:, :rank] * lengths)


def _covariance_times(has: np.ndarray, popularity: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Covariance of the known profiles times these columns, by blocks of users."""
    mean, narrow = popularity.astype(np.float32), basis.astype(np.float32)
    out = np.zeros(basis.shape)
    for start in range(0, len(has), BLOCK):
        centred = has[start : start + BLOCK] - mean
        out += centred.T @ (centred @ narrow)
    return out / len(has)
