"""Index of item profiles by random hyperplanes: candidates from buckets, then exact cosines."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.core.hashing import SEED
from sfumato.core.ids import is_one
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import checked_values, integer, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import StaleIndexError
from sfumato.recommend.content.profiles import unit_rows
from sfumato.recommend.ranking import barred, best, check_filter, excluded_by, fitting, listing
from sfumato.retrieve.lsh.index import LshIndex
from sfumato.sketch.projection.feature_hasher import FeatureHasher

if TYPE_CHECKING:
    from sfumato.recommend.content.content_based import ContentBased

__all__ = ["ContentIndex"]

OWNER = "ContentIndex"
WIDTH = 512  # dimensions that features are hashed to; a hyperplane has one normal entry for each
BATCH = 256  # users at a time
ROUNDING = 1e-6  # of scores, which buckets and full lists sum in different orders
COUNT = integer(1, 2**31 - 1)
LIMITS: dict[str, Any] = {
    "bands": integer(1, 4096),
    "rows": optional(integer(1, 64)),
    "probes": integer(1, 4096),
    "seed": SEED,
}


class ContentIndex:
    """Index of item profiles: a list scores only items that share a bucket with the user.

    Usually made by `ContentBased.index`.

    Parameters
    ----------
    model : ContentBased
        A fitted model.
    bands : int, default=16
        Number of hash tables, 1 to 4096.
    rows : int or None, default=None
        Random hyperplanes per key of a table, 1 to 64; None for about one bucket per eight items.
    probes : int, default=16
        Buckets to look up per table, 1 to 4096.
    seed : int, default=0
        Seed of the hyperplanes.

    Notes
    -----
    **Guarantee.** `recommend` returns the model's own results with their scores, restricted to the
    candidates found; `recall` measures how many of the model's results that includes. Users without
    a profile get the model's list. Once items were added to the model or it was fitted again,
    `stale` is True and queries raise `StaleIndexError`.

    Profiles are hashed to 512 dimensions first, so memory is 2 KiB per item.

    References
    ----------
    .. [1] Charikar. "Similarity Estimation Techniques from Rounding Algorithms". STOC 2002.
       https://doi.org/10.1145/509907.509965

    Examples
    --------
    >>> from sfumato.data import Features, Interactions
    >>> from sfumato.recommend import ContentBased
    >>> genres = ["SciFi", "SciFi", "Crime", "SciFi"]
    >>> films = Features([1, 2, 3, 4], categories={"genre": genres})
    >>> model = ContentBased().fit(Interactions([7, 7], [1, 3]), features=films)
    >>> model.index(probes=2).recommend(7, n=4)[0].size
    4
    """

    bands: int
    rows: int | None
    probes: int
    seed: int

    def __init__(
        self,
        model: "ContentBased",
        *,
        bands: int = 16,
        rows: int | None = None,
        probes: int = 16,
        seed: int = 0,
    ) -> None:
        given = dict(zip(LIMITS, (bands, rows, probes, seed), strict=True))
        for name, value in checked_values(OWNER, LIMITS, given).items():
            setattr(self, name, value)
        self._model, self._learned = model, model.profiles_
        profiles = model.profiles_.unit
        self._hasher = FeatureHasher(WIDTH, seed=self.seed)
        vectors = self._vectors(profiles)
        there = np.flatnonzero(vectors.any(axis=1))
        keys = self.rows or min(max(round(np.log2(max(there.size, 1))) - 3, 1), 64)
        self._tables = LshIndex(
            self.bands, keys, probes=self.probes, keep_vectors=False, seed=self.seed
        )
        if there.size:
            self._tables.add(there, vectors[there])

    def __repr__(self) -> str:
        return described(self, **{name: getattr(self, name) for name in LIMITS}, stale=self.stale)

    @property
    def stale(self) -> bool:
        """Whether the model has changed since the index was built."""
        return self._model.profiles_ is not self._learned

    @property
    def nbytes(self) -> int:
        """Size of the hash tables in bytes."""
        return self._tables.nbytes

    def recommend(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Recommend the n best candidates to each user.

        Parameters
        ----------
        users : array_like or scalar
            User ids, or a single id.
        n : int, default=10
            Number of items per user, at least 1.
        exclude : Interactions or None, default=None
            Interactions whose items are not recommended to the same user again.
        filter : object, default=None
            Boolean mask over the model's `catalogue_`: only items that are True are recommended.

        Returns
        -------
        items : ndarray of shape (n_users, n)
            Item ids, best first; -1 or None as padding. Of shape (k,), k <= n, for a single user.
        scores : ndarray of shape (n_users, n)
            Their scores; -inf as padding.

        Raises
        ------
        StaleIndexError
            If the model has changed since the index was built.
        """
        model = self._fresh()
        n = min(COUNT.check(OWNER, "n", n), len(model.catalogue_))
        who = fitting(OWNER, "users", users, model.histories_.users.kind)
        allowed = check_filter(OWNER, filter, model.catalogue_)
        excluded = excluded_by(OWNER, who, exclude, model.catalogue_)
        found, scores = np.full((who.size, n), -1, np.int64), np.full((who.size, n), -np.inf)
        for start in range(0, who.size, BATCH):
            part = slice(start, min(start + BATCH, who.size))
            table = self._candidate_scores(model.histories_.rows(who[part]))
            found[part], scores[part] = best(barred(table, allowed, excluded, part), n)
        found[scores == -np.inf] = -1
        return listing(model.catalogue_, found, scores, is_one(users))

    def recall(
        self, users: Ids, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> float:
        """Measure the fraction of the model's n best items that the index finds.

        Parameters
        ----------
        users : array_like or scalar
            User ids to measure on.
        n : int, default=10
            Length of the lists, at least 1.
        exclude : Interactions or None, default=None
            As in `recommend`.
        filter : object, default=None
            As in `recommend`.

        Returns
        -------
        float
            Recall from 0 to 1, over all items of all users; an item whose score equals the model's
            n-th best counts as found.
        """
        model = self._fresh()
        who = fitting(OWNER, "users", users, model.histories_.users.kind)
        true = model.recommend(who, n, exclude=exclude, filter=filter)[1]
        mine = self.recommend(who, n, exclude=exclude, filter=filter)[1]
        there = true > -np.inf
        worst = np.where(there, true, np.inf).min(axis=1, keepdims=True)
        return float((mine >= worst - ROUNDING).sum() / max(there.sum(), 1))

    def touched(self, users: Ids) -> float:
        """Measure the mean fraction of the catalogue whose scores are computed for a user.

        Parameters
        ----------
        users : array_like or scalar
            User ids to measure on.

        Returns
        -------
        float
            A fraction from 0 to 1.
        """
        model = self._fresh()
        who = fitting(OWNER, "users", users, model.histories_.users.kind)
        count = 0
        for start in range(0, who.size, BATCH):
            rows = model.histories_.rows(who[start : start + BATCH])
            count += sum(at.size for at, _ in self._candidates(rows)[1])
        return count / max(who.size, 1) / len(model.catalogue_)

    def _candidates(self, rows: np.ndarray) -> tuple[Any, list[tuple[np.ndarray, int]]]:
        """Return the users' profiles, and candidates with the query that they belong to."""
        profiles = unit_rows(self._model._user_profiles(self._model.histories_.take(rows)))
        vectors = self._vectors(profiles)
        there = np.flatnonzero(vectors.any(axis=1))
        starts, ids = self._tables.candidates(vectors[there])
        return profiles, [
            (ids[starts[each] : starts[each + 1]], int(query)) for each, query in enumerate(there)
        ]

    def _candidate_scores(self, rows: np.ndarray) -> np.ndarray:
        """Return the scores of candidates, -inf for other items; all scores without a profile."""
        model = self._model
        profiles, lists = self._candidates(rows)
        table = np.full((rows.size, len(model.catalogue_)), -np.inf)
        vector = np.zeros(profiles.shape[1])
        for at, query in lists:
            mine = slice(profiles.indptr[query], profiles.indptr[query + 1])
            vector[profiles.indices[mine]] = profiles.data[mine]
            table[query, at] = (
                model.profiles_.unit[at] @ vector + model._prior * model._popularity[at]
            )
            vector[profiles.indices[mine]] = 0
        without = np.setdiff1d(np.arange(rows.size), [query for _, query in lists])
        if without.size:
            table[without] = model._scored(model.histories_.take(rows[without]))
        return table

    def _vectors(self, profiles: Any) -> np.ndarray:
        """Hash sparse profiles to dense vectors of the same inner products, in expectation."""
        # Features are hashed by their column, which no other feature has.
        keys = profiles.indices.astype(np.int64)
        hashed = self._hasher.transform(keys, profiles.indptr.astype(np.int64), profiles.data)
        return np.asarray(hashed.toarray(), np.float32)

    def _fresh(self) -> "ContentBased":
        """Return the model; raise StaleIndexError if it has changed."""
        if self.stale:
            raise StaleIndexError(
                f"{OWNER}: the model has changed since the index was made; call index again."
            )
        return self._model
