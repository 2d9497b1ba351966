"""PersonalNeighbours: ratings foretold from private releases and a person's own ratings alone."""

from typing import Any

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import between, integer
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.base import Label, label_of
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.factorization import PrivateFactorization
from sfumato.recommend.private.linear_items import ReleasedLinearItems
from sfumato.recommend.private.released_neighbours import ReleasedNeighbours
from sfumato.recommend.ranking import fitting, ranked_fold_in, rated_positions

__all__ = ["PersonalNeighbours"]

COUNT = integer(1, 2**31 - 1)
NEIGHBOURS = integer(1, 1 << 20)
DAMPING = between(0, np.inf)


class PersonalNeighbours:
    """Item-based neighbours of ratings from private releases, for the person who asks.

    Nobody else's ratings are needed: means and similarities of items come from releases that may be
    published, and the ratings of the person come with each call.

    Parameters
    ----------
    means : PrivateFactorization
        A fitted model, of which the mean and the items' biases are used.
    similar : ReleasedLinearItems or ReleasedNeighbours
        Release whose `similar_items` are the similarities.
    neighbours : int, default=200
        Number of similar items that are stored of each item, at least 1.
    damping : float, default=0.3
        Weight of the damped means beside the similarities of neighbours, at least 0.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended, those of `means`.
    high_ : float
        Upper bound of ratings; predictions are clipped to it.
    low_ : float
        Lower bound of ratings; predictions are clipped to it.
    mean_ : float
        Noisy mean rating.

    Notes
    -----
    **Guarantee.** For a person with ratings r of items j, item i is predicted as ``b_i + sum_j s_ji
    (r_j - b_j) / (damping + sum_j s_ji)``, with ``b_i = mean_ + item bias + own bias``. The sums
    are over the own items j in whose list of the `neighbours` most similar items i is; s_ji is the
    similarity in that list, above 0. The own bias is the sum of ``r_j - mean_ - item bias`` over
    the number of own ratings plus a damping that `means` estimated. Without own ratings, or without
    similar items, the prediction is b_i; an item outside of the catalogue has bias 0.

    Everything but the own ratings is computed from the releases (post-processing): it costs no
    further budget, and no user's ratings or ids are stored. A prediction is computed from the own
    ratings without noise: it is for the eyes of the person alone, and for everybody else whose data
    is in the releases it is as private as these (joint differential privacy). `statements` are the
    guarantees of the releases, each for its own unit and adjacency. Two releases of the same data
    compose: where unit and adjacency are the same, their epsilons and deltas add up, or both are
    charged to one ledger, which accounts for both. Where they differ, the statement that protects
    more counts twice, as group privacy of two, ``(2 epsilon, (1 + exp(epsilon)) delta)``: a row
    more or less takes one user away and brings another, and so does a replaced unit.

    Worth it where a release of lists exists anyway. A budget for ratings alone is better spent on
    `means` as a whole, with `PrivateFactorization.personal` for the own ratings.

    References
    ----------
    .. [1] McSherry, Mironov. "Differentially Private Recommender Systems". KDD 2009 (private
       averages and covariances, own ratings at the client).
       https://doi.org/10.1145/1557019.1557090
    .. [2] Kearns, Pai, Roth, Ullman. "Mechanism Design in Large Games: Incentives and Privacy".
       ITCS 2014 (joint differential privacy). https://arxiv.org/abs/1207.4084

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> from sfumato.recommend import PrivateLinearItems
    >>> world = generate_world(users=60, items=40, ratings=900, random_state=1).interactions
    >>> means = PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5))
    >>> means = means.fit(world, users=range(60), catalogue=range(40))
    >>> lists = PrivateLinearItems(epsilon=8, delta=1e-6).fit(world, catalogue=range(40))
    >>> model = PersonalNeighbours(means, lists.release_)
    >>> model.predict_fold_in([3, 7], [5.0, 1.0], [1, 2]).shape
    (2,)
    >>> [statement.unit for statement in model.statements]
    ['event', 'user']
    """

    def __init__(
        self,
        means: PrivateFactorization,
        similar: ReleasedLinearItems | ReleasedNeighbours,
        *,
        neighbours: int = 200,
        damping: float = 0.3,
    ) -> None:
        self.neighbours: int = NEIGHBOURS.check("PersonalNeighbours", "neighbours", neighbours)
        self.damping: float = float(DAMPING.check("PersonalNeighbours", "damping", damping))
        _check_sources(means, similar)
        self.mean_: float
        self.low_: float
        self.high_: float
        self.mean_, self.low_, self.high_ = means.mean_, means.low_, means.high_
        self.catalogue_: Catalogue = means.catalogue_
        self._biases = means.item_vectors_[:, -1].astype(np.float64)
        self._own_damping = means.residual_ / means.user_bias_
        self._lists, self._weights = _lists(self.catalogue_, similar, self.neighbours)
        assert means.statement is not None  # it is fitted
        self._statements = means.statement, similar.statement

    def __repr__(self) -> str:
        inside = {"items": len(self.catalogue_), "neighbours": self.neighbours}
        return described(self, **inside, damping=self.damping, privacy=self.privacy_label)

    @property
    def statements(self) -> tuple[PrivacyStatement, PrivacyStatement]:
        """Privacy statements of the two releases, which compose; see Notes."""
        return self._statements

    @property
    def privacy_label(self) -> Label:
        """The weakest label of the statements: "proved", "measured" or "none"."""
        labels = [label_of(each) for each in self._statements]
        return "none" if "none" in labels else "measured" if "measured" in labels else "proved"

    @property
    def nbytes(self) -> int:
        """Size of biases and similarities in bytes, without the (public) catalogue."""
        return int(self._biases.nbytes + self._lists.nbytes + self._weights.nbytes)

    def predict_fold_in(self, items: Ids, ratings: Any, wanted: Ids) -> np.ndarray:
        """Predict ratings of a person with these ratings, who alone should see them.

        Parameters
        ----------
        items : array_like or scalar
            Item ids that the person rated; unknown ids are ignored.
        ratings : array_like of shape (n_items,) or None
            Ratings of these items, clipped to the bounds, of which an item has the mean; None: all
            have the highest rating.
        wanted : array_like or scalar
            Item ids to predict.

        Returns
        -------
        ndarray of shape (n_wanted,)
            Predicted ratings, float64, clipped to [`low_`, `high_`].
        """
        scores, bias = self._scores(*self._own(items, ratings))
        ids = fitting("PersonalNeighbours", "wanted", wanted, self.catalogue_.kind)
        at = self.catalogue_.positions(ids)
        known = np.where(at >= 0, scores[at], self.mean_ + bias)
        return np.asarray(np.clip(known, self.low_, self.high_))

    def recommend_fold_in(
        self, items: Ids, ratings: Any = None, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend items to a person with these ratings, who alone should see them.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the person, which are not recommended again; unknown ids are ignored.
        ratings : array_like of shape (n_items,) or None, default=None
            Ratings of these items, clipped to the bounds, of which an item has the mean; None: all
            have the highest rating.
        n : int, default=10
            Number of items, at least 1.
        filter : object, default=None
            Boolean mask over `catalogue_`: only items that are True are recommended.

        Returns
        -------
        items : ndarray of shape (k,)
            Item ids, best first, k <= n.
        scores : ndarray of shape (k,)
            Their predictions before clipping.
        """

        def scored(what: np.ndarray) -> np.ndarray:
            return self._scores(*self._own(what, ratings))[0][None]

        return ranked_fold_in("PersonalNeighbours", self.catalogue_, items, n, filter, scored)

    def _own(self, items: Ids, ratings: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return positions of the known own items, each once, and their ratings in the bounds."""
        what = fitting("PersonalNeighbours", "items", items, self.catalogue_.kind)
        bounds = self.low_, self.high_
        return rated_positions("PersonalNeighbours", self.catalogue_, what, ratings, bounds)

    def _scores(self, at: np.ndarray, ratings: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the predictions of all items before clipping, and the own bias."""
        over = ratings - self.mean_ - self._biases[at]
        bias = float(over.sum() / (at.size + self._own_damping))
        to, weights = self._lists[at].ravel(), self._weights[at].ravel()
        residuals = np.repeat(over - bias, self._lists.shape[1])
        size = self._biases.size
        sums = np.bincount(to, weights * residuals, size)
        # Where there are no neighbours and no damping, 0 / 1 is what they add.
        totals = self.damping + np.bincount(to, weights, size)
        added = sums / np.where(totals > 0, totals, 1.0)
        return self.mean_ + bias + self._biases + added, bias


def _check_sources(means: Any, similar: Any) -> None:
    """Raise unless both are private and have ids of one kind."""
    owner = "PersonalNeighbours"
    if not isinstance(means, PrivateFactorization):
        raise TypeError(
            f"{owner}: means must be a fitted PrivateFactorization, not {type(means).__name__}."
        )
    means._check_fitted()
    if not isinstance(similar, ReleasedLinearItems | ReleasedNeighbours):
        raise TypeError(
            f"{owner}: similar must be a ReleasedLinearItems or ReleasedNeighbours, not "
            f"{type(similar).__name__}; a fitted PrivateLinearItems or PrivateNeighbours has it in "
            "release_."
        )
    kinds = means.catalogue_.kind, similar.catalogue_.kind
    if kinds[0] != kinds[1]:
        raise TypeError(
            f"{owner}: similar holds {kinds[1]}, but items of means are {kinds[0]}; none of them "
            "could be found."
        )


def _lists(catalogue: Catalogue, similar: Any, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return positions of the most similar items of each item, and similarities, 0 for none."""
    most = min(most, max(len(catalogue) - 1, 1))
    to = np.zeros((len(catalogue), most), np.int32)
    weights = np.zeros((len(catalogue), most), np.float32)
    rows = np.flatnonzero(similar.catalogue_.positions(catalogue.ids) >= 0)
    if rows.size:
        found, near = similar.similar_items(catalogue.ids[rows], most)
        at = np.full(found.shape, -1)
        there = near > 0  # what is not there is padded by -inf, and None as an id
        at[there] = catalogue.positions(found[there])
        there = (at >= 0) & (at != rows[:, None])
        to[rows, : at.shape[1]] = np.where(there, at, 0)
        weights[rows, : at.shape[1]] = np.where(there, near, 0.0)
    return to, weights
