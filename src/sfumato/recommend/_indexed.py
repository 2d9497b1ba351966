"""An index of the items of a model: recommendations that need not score the whole catalogue."""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato._require import one_of, optional, whole
from sfumato.data.interactions import Interactions
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend._finding import MOST_ROWS, Codes, Tables
from sfumato.recommend._ranking import Seen
from sfumato.sketch._base import SEED

if TYPE_CHECKING:
    from sfumato.recommend._model import Factorization

__all__ = ["ItemIndex", "Ranking", "StaleIndexError"]

OWNER = "ItemIndex"
LIMITS: dict[str, Any] = {
    "kind": one_of(("codes", "bands")),
    "bits": optional(whole(1, 4096)),
    "shortlist": whole(1),
    "bands": whole(1, 4096),
    "probes": whole(1, 4096),
    "seed": SEED,
}


class StaleIndexError(ValueError):
    """The model has learned since the index was made, so their answers would not agree."""


class Ranking(Protocol):
    """What finds the best items of a catalogue for rows of vectors (see `Shelf.best`)."""

    def best(
        self,
        queries: np.ndarray,
        n: int,
        allowed: np.ndarray | None = None,
        seen: Seen | None = None,
    ) -> tuple[np.ndarray, np.ndarray]: ...


class ItemIndex:
    """The items of a model, found by short codes or in buckets, and ranked by their true scores.

    Guarantee: `recommend` answers as the model's does, with the same scores bit for bit, for the
    items that were found; `recall` measures how many of the model's own answers are. An answer does
    not depend on who else is asked about. Items that a user has seen or the filter leaves out take
    no place of others. The index is of the model as it was: once that has learned more, asking
    raises `StaleIndexError`, and `stale` tells beforehand. It is made of the model's factors alone,
    so the model's privacy statement holds for it too.
    Parameters: model, a fitted `Factorization`; kind, how items are found:
    - "codes", all short codes are compared with the user's vector, and the best `shortlist` and the
      longest hundredth of all items are scored: for any catalogue;
    - "bands", items that share a bucket with the user's vector are scored, a few in a hundred of
      the catalogue (`touched`): for large catalogues, at more memory;
    bits, of a code (None: 256), up to 4096, or of the key of a bucket, up to 64 (None: there are an
    eighth as many keys as items); shortlist, from 1 up, for "codes"; bands and probes, for "bands":
    tables, and buckets looked into in each, from 1 to 4096; seed, of all hashes.

    >>> from sfumato.data import generate_world
    >>> from sfumato.recommend import DenseFactorization
    >>> world = generate_world(users=60, items=40, ratings=900, seed=1).interactions
    >>> model = DenseFactorization(factors=8).fit(world)
    >>> index = model.index("codes", bits=64, shortlist=20)
    >>> index.recommend([3, 5], n=4, exclude=world)[0].shape, index.recall(range(60), n=4) > 0.9
    ((2, 4), True)
    """

    kind: str
    bits: int | None
    shortlist: int
    bands: int
    probes: int
    seed: int

    def __init__(
        self,
        model: "Factorization",
        kind: str = "codes",
        *,
        bits: int | None = None,
        shortlist: int = 1000,
        bands: int = 16,
        probes: int = 128,
        seed: int = 0,
    ) -> None:
        given = dict(zip(LIMITS, (kind, bits, shortlist, bands, probes, seed), strict=True))
        for name, limit in LIMITS.items():
            setattr(self, name, limit.check(OWNER, name, given[name]))
        if self.kind == "bands" and self.bits is not None and self.bits > MOST_ROWS:
            raise ValueError(
                f"{OWNER}: bits of a bucket's key must be at most 64, not {self.bits}."
            )
        self._model, self._learned = model, _learned(model)
        items = model._in_blocks(model._item_vectors, model.catalogue_.ids)
        self._items: Codes | Tables = Codes(self, items) if kind == "codes" else Tables(self, items)

    @property
    def stale(self) -> bool:
        """Whether the model has learned since the index was made."""
        return _learned(self._model) is not self._learned

    @property
    def statement(self) -> PrivacyStatement | None:
        """What the model promises about privacy; the index is computed from what it released."""
        return self._model.statement

    @property
    def nbytes(self) -> int:
        """Bytes of codes or tables and of the items' vectors."""
        return self._items.nbytes

    def recommend(
        self, users: Any, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The n best items that are found for each user, and their scores, best first.

        Parameters and answers are those of the model's `recommend`.
        """
        return self._fresh()._recommended(users, n, exclude, filter, self._items)

    def recall(
        self, users: Any, n: int = 10, *, exclude: Interactions | None = None, filter: Any = None
    ) -> float:
        """The share of the model's own n best items of each of these users that the index finds.

        Of items whose score equals that of the last, any counts. A filter that leaves only items of
        low scores makes buckets miss most of them: measure with it.
        """
        model = self._fresh()
        users = model._user_ids(users)
        true = model.recommend(users, n, exclude=exclude, filter=filter)[1]
        mine = self.recommend(users, n, exclude=exclude, filter=filter)[1]
        there = true > -np.inf
        worst = np.where(there, true, np.inf).min(axis=1, keepdims=True)
        return float((mine >= worst).sum() / max(there.sum(), 1))

    def touched(self, users: Any) -> float:
        """The share of the catalogue that is looked at for one of these users, on average."""
        model = self._fresh()
        vectors = model._in_blocks(model._user_vectors, model._user_ids(users))
        vectors[:, -1] = 1  # beside the items' biases
        return self._items.touched(vectors)

    def _fresh(self) -> "Factorization":
        if self.stale:
            raise StaleIndexError(
                f"{OWNER}: the model has learned since the index was made; call index again."
            )
        return self._model


def _learned(model: "Factorization") -> Any:
    """What the model keeps as long as it learns nothing more."""
    return model.__dict__.setdefault("_shelves", {})
