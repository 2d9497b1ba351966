"""VectorCache: item vectors of a catalogue, laid out for ranking, renewed where they changed."""

import threading
from typing import Any

import numpy as np

from sfumato.recommend.ranking import CatalogueVectors

__all__ = ["VectorCache", "directions"]

ROWS = 1 << 16  # directions computed at a time


def directions(vectors: np.ndarray) -> np.ndarray:
    """Return each row's components without the bias, scaled to length 1; zero rows stay zero."""
    out = np.empty((len(vectors), vectors.shape[1] - 1), np.float32)
    for start in range(0, len(vectors), ROWS):
        components = vectors[start : start + ROWS, :-1].astype(np.float64)
        lengths = np.sqrt((components * components).sum(axis=1))
        lengths[lengths == 0] = 1
        out[start : start + ROWS] = components / lengths[:, None]
    return out


class VectorCache:
    """Vectors of a model's catalogue for "scores" and "cosines", made when first needed.

    Whenever a model's fitted state changes, it replaces its cache: by an empty one, or by `after`,
    which takes over the vectors together with a list of changes. The next reader renews the vectors
    of the items that the changes concern. Several readers may use one cache.

    **Guarantee.** Vectors are bitwise those of an empty cache, since a model computes each of them
    from its own numbers alone, however many it computes at a time.
    """

    def __init__(self) -> None:
        self._vectors: dict[str, CatalogueVectors] = {}
        self._changes: list[np.ndarray] = []
        self._size = 0  # of all changes
        self._lock = threading.Lock()
        self.readers: Any = None  # of the model: which items a change concerns

    def after(self, changes: np.ndarray, most: int) -> "VectorCache":
        """Return a cache for the state after these changes, an empty one if they are too many."""
        new, size = VectorCache(), self._size + changes.size
        if self._vectors and size <= most:
            self._changes.append(changes)
            new._vectors, new._changes, new._size = self._vectors, self._changes, size
            new.readers = self.readers
        return new

    def get(self, model: Any, kind: str) -> CatalogueVectors:
        """Return the vectors for "scores" or "cosines" of the model's present state."""
        found = self._vectors.get(kind)
        if found is not None and not self._changes:
            return found
        with self._lock:
            if self._changes:
                self._renew(model, model._changed_positions(self._changes, self))
                self._changes, self._size = [], 0  # last: until then other readers wait
            if kind not in self._vectors:
                vectors = model._in_blocks(_reader(model, kind), model.catalogue_.ids)
                self._vectors[kind] = CatalogueVectors.of(_laid_out(vectors, kind))
            return self._vectors[kind]

    def _renew(self, model: Any, positions: np.ndarray) -> None:
        """Write the present vectors of these positions."""
        ids = model.catalogue_.ids[positions]
        for kind, old in self._vectors.items():
            vectors = model._in_blocks(_reader(model, kind), ids)
            old.set_rows(positions, _laid_out(vectors, kind))


def _reader(model: Any, kind: str) -> Any:
    """Return the function that reads vectors of item ids."""
    return model._scored_vectors if kind == "scores" else model._item_vectors


def _laid_out(vectors: np.ndarray, kind: str) -> np.ndarray:
    """Return what is ranked: the vectors, or their directions."""
    return vectors if kind == "scores" else directions(vectors)
