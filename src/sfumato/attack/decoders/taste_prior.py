"""A prior of profiles that knows which items go together, learned from known users."""

import numpy as np

from sfumato.attack.numerics import LEAST, Factor, sigmoid
from sfumato.attack.profile_audit.ground_truth import truth_matrix
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import integer, positive
from sfumato.data.interactions import Interactions

__all__ = ["TastePrior", "learn_prior"]

BLOCK = 256  # known users whose chances are held at a time
STEPS, CLOSE = 8, 0.02  # of Newton, and how small the last need be
BIAS_SHRINKAGE = 0.1  # of items' biases, in known users
PASSES, SPARE = 8, 10  # over the users, and directions beyond those that are kept
PROBIT = np.pi / 8  # of the logistic function, blurred by a Gaussian


class TastePrior:
    """Items of a profile, drawn independently once a few hidden traits of the user are given.

    Made by `learn_prior`. Item j is in a profile with log odds bias[j] + directions[j] . z, where z
    are independent standard Gaussian traits (how active a user is comes out as one of them).
    `joint_decoder` and `single_decoder` take it in place of probabilities.

    Parameters
    ----------
    bias : ndarray
        TODO.
    directions : ndarray
        TODO.
    total : float
        TODO.
    """

    personal = True

    def __init__(self, bias: np.ndarray, directions: np.ndarray, total: float) -> None:
        self.bias, self.directions, self.total = bias, directions, total
        self._squares = _Squares(directions)
        self._pulls, self._logits = Factor(directions), Factor(directions.T)

    def __len__(self) -> int:
        return int(self.bias.size)

    def __repr__(self) -> str:
        return described(self, items=len(self), traits=self.directions.shape[1])

    def log_odds(self, ratios: np.ndarray, rows: slice) -> np.ndarray:
        """Log odds of each item for users whose release gives all items these likelihood ratios.

        Laplace's approximation to the traits, by Newton's steps on the exact marginal likelihood of
        the ratios; the item's own ratio is taken out of what is told about it, to first order.

        Parameters
        ----------
        ratios : ndarray
            TODO.
        rows : slice
            TODO.

        Returns
        -------
        ndarray
            TODO.
        """
        traits = np.zeros((len(ratios), self.directions.shape[1]))
        for _ in range(STEPS):
            step, covariance = self._step(traits, ratios)
            traits += step
            if np.abs(step).max() < CLOSE:
                break
        logits = self._logits.after(traits) + self.bias
        variance = self._squares.along(covariance).astype(np.float64)
        pull, hold = _pull(logits, ratios)
        rest = 1 - np.minimum(variance * hold, 0.9)
        alone = logits - variance * pull / rest
        return np.asarray(alone / np.sqrt(1 + PROBIT * variance / rest))

    def _step(self, traits: np.ndarray, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One Newton step, of length 2 at most, and the covariance of the traits."""
        pull, hold = _pull(self._logits.after(traits) + self.bias, ratios)
        covariance = np.linalg.inv(np.eye(traits.shape[1]) + self._squares.weighted(hold))
        step = np.einsum("uij,uj->ui", covariance, self._pulls.after(pull) - traits)
        lengths = np.linalg.norm(step, axis=1, keepdims=True)
        return step * np.minimum(1, 2 / np.maximum(lengths, LEAST)), covariance


def _pull(logits: np.ndarray, ratios: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Slope and curvature, from 0 up, of the marginal log-likelihood in each item's logit."""
    before, after = sigmoid(logits), sigmoid(logits + ratios)
    return after - before, np.maximum(before * (1 - before) - after * (1 - after), 0)


class _Squares:
    """The matrices v v' of many vectors v, summed with weights, or measured by other matrices."""

    def __init__(self, vectors: np.ndarray) -> None:
        self._size = vectors.shape[1]
        self._rows, self._columns = np.triu_indices(self._size)
        flat = vectors[:, self._rows] * vectors[:, self._columns]
        self._sum, self._measure = Factor(flat), Factor(flat.T)

    def weighted(self, weights: np.ndarray) -> np.ndarray:
        """For each row of weights the sum of weight times v v'."""
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
    """Learn from known users which items go together, for attackers who use more than popularity.

    Parameters
    ----------
    interactions : Interactions
        Those of known users, in which ratings do not matter.
    candidates : array_like or scalar
        A column of distinct items.
    traits : int, default=10
        Hidden numbers of a user, 1 to 64.
    shrinkage : float, default=1.0
        How hard an item's directions are drawn to 0, in known users.
    rounds : int, default=40
        Of the fit.

    Returns
    -------
    TastePrior
        TODO.

    Notes
    -----
    **Guarantee.** The same input gives the same prior. Time grows with known users x candidates x
    the square of traits.

    References
    ----------
    .. [1] Low-rank logistic model, by variational EM with the bound of Jaakkola and Jordan 2000.

    Examples
    --------
    >>> known = Interactions([1, 1, 2, 2, 3, 3, 4, 4], [5, 6, 5, 6, 7, 8, 7, 8], [1] * 8)
    >>> prior = learn_prior(known, [5, 6, 7, 8], traits=1, shrinkage=0.1)
    >>> told = prior.log_odds(np.array([[4.0, 0.0, 0.0, 0.0]]), slice(0, 1))[0]
    >>> bool(told[1] > told[2] + 1)  # who has 5 has 6
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
    """Variational EM: blocks of users first, then one ridge regression an item."""

    def __init__(self, has: np.ndarray, traits: int, shrinkage: float) -> None:
        self._has, self._shrinkage = has, shrinkage
        chance = (has.sum(axis=0) + 0.5) / (len(has) + 1)
        self._base = float(np.log(chance.mean() / (1 - chance.mean())))
        self.bias = np.log(chance) - np.log1p(-chance)
        self.directions = self._begin(chance, traits)
        self._means = np.zeros((len(has), traits))
        self._covariances = np.tile(np.eye(traits), (len(has), 1, 1))

    def _begin(self, chance: np.ndarray, traits: int) -> np.ndarray:
        """Directions of most variance, scaled to log odds."""
        kept = min(traits, *self._has.shape)
        found = np.zeros((chance.size, traits))
        found[:, :kept] = _main_directions(self._has, chance, kept)
        scale = 2 * np.sqrt(chance * (1 - chance))
        return np.asarray(np.clip(found / scale[:, None], -2, 2))

    def run(self, rounds: int) -> TastePrior:
        for _ in range(rounds):
            self._round()
        return TastePrior(self.bias, self.directions, float(self._has.sum() / len(self._has)))

    def _round(self) -> None:
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
        """Curvatures of the bound, means of (traits, 1), and their second moments."""
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


def _main_directions(has: np.ndarray, chance: np.ndarray, kept: int) -> np.ndarray:
    """Items x kept: the directions in which users spread most, each as long as they do.

    A random basis, multiplied again and again by the covariance (Halko, Martinsson and Tropp 2011):
    time grows with users x items x kept, where a full decomposition takes the cube of one of them.
    """
    wide = min(kept + SPARE, *has.shape)
    basis = np.random.default_rng(0).normal(size=(chance.size, wide))
    for _ in range(PASSES):
        basis = np.linalg.qr(_spread(has, chance, basis))[0]
    values, turn = np.linalg.eigh(basis.T @ _spread(has, chance, basis))
    lengths = np.sqrt(np.maximum(values[::-1][:kept], 0))
    return np.asarray(basis @ turn[:, ::-1][:, :kept] * lengths)


def _spread(has: np.ndarray, chance: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The covariance of the users, times these columns; some users at a time."""
    usual, narrow, out = chance.astype(np.float32), basis.astype(np.float32), np.zeros(basis.shape)
    for start in range(0, len(has), BLOCK):
        away = has[start : start + BLOCK] - usual
        out += away.T @ (away @ narrow)
    return out / len(has)
