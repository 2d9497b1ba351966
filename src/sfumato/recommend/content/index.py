"""Index of item profiles by random hyperplanes: candidates from buckets, then exact cosines."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sfumato.core.hashing import SEED
from sfumato.core.tables import described
from sfumato.core.typing import Ids
from sfumato.core.validation import checked_values, integer, optional
from sfumato.data.interactions import Interactions
from sfumato.recommend.candidate_index import CandidateIndex
from sfumato.recommend.content.profiles import unit_rows
from sfumato.recommend.ranking import fitting, ranked_tables, row_blocks
from sfumato.retrieve.lsh.index import LshIndex
from sfumato.sketch.projection.feature_hasher import FeatureHasher

if TYPE_CHECKING:
    from sfumato.recommend.content.content_based import ContentBased

__all__ = ["ContentIndex"]

OWNER = "ContentIndex"
WIDTH = 512  # dimensions that features are hashed to; a hyperplane has one normal entry for each
LIMITS: dict[str, Any] = {
    "bands": integer(1, 4096),
    "rows": optional(integer(1, 64)),
    "probes": integer(1, 4096),
    "seed": SEED,
}


class ContentIndex(CandidateIndex):
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
    _rounding: ClassVar[float] = 1e-6
    _model: "ContentBased"

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
    def nbytes(self) -> int:
        """Size of the hash tables in bytes."""
        return self._tables.nbytes

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
        self._check_fresh()
        histories, items = self._model.histories_, len(self._model.catalogue_)
        rows = histories.rows(fitting(OWNER, "users", users, histories.users.kind))
        blocks = row_blocks(rows.size, items)
        count = sum(at.size for part in blocks for at, _ in self._candidates(rows[part])[1])
        return count / max(rows.size, 1) / items

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

    def _state(self) -> Any:
        return self._model.profiles_

    def _listed(
        self, users: Ids, n: int, exclude: Interactions | None, filter: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        model = self._model

        def tables(who: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
            rows = model.histories_.rows(who)
            for part in row_blocks(rows.size, len(model.catalogue_)):
                yield part, self._candidate_scores(rows[part])

        kind = model.histories_.users.kind
        return ranked_tables(OWNER, model.catalogue_, kind, users, n, exclude, filter, tables)
