"""Profiles of the items of a catalogue as rows of a sparse matrix, and their cosines."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from sfumato.core.ids import id_arrays, id_layout, ids_from
from sfumato.core.storage import Cells
from sfumato.data.features import Features
from sfumato.data.interactions import Interactions
from sfumato.kernels.recommend import item_pairs
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.content.tfidf import TfIdf, check_features

__all__ = ["ItemProfiles", "catalogue_with", "check_item_features", "placed", "unit_rows"]

NAMES, IDF = "features", "idf"
SPARSE = {"profile_starts": np.int64, "profile_features": np.int32, "profile_values": np.float32}


@dataclass(frozen=True)
class ItemProfiles:
    """Profiles of the items of a catalogue: row i of `matrix` is that of the item at position i."""

    encoder: TfIdf
    matrix: sp.csr_matrix

    @classmethod
    def of(cls, encoder: TfIdf, features: Features, catalogue: Catalogue) -> Self:
        """Compute the profiles of a catalogue; an item without features has an empty one."""
        at = features.positions(catalogue.ids)
        chosen = np.flatnonzero(at >= 0)
        rows = encoder.transform(features.take(at[chosen])).astype(np.float32)
        return cls(encoder, placed(rows, chosen, len(catalogue)))

    def replaced(self, features: Features, catalogue: Catalogue) -> Self:
        """Return the profiles of a catalogue that begins with this one, with these as given."""
        new = self.of(self.encoder, features, catalogue).matrix
        at = features.positions(catalogue.ids)
        others = np.flatnonzero(at[: self.matrix.shape[0]] < 0)
        old = placed(self.matrix[others], others, len(catalogue))
        return type(self)(self.encoder, (old + new).tocsr())

    @cached_property
    def unit(self) -> sp.csr_matrix:
        """The profiles divided by their norms."""
        return unit_rows(self.matrix)

    @cached_property
    def _by_feature(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Items of each feature, with their weights in `unit`."""
        turned = self.unit.tocsc()
        return turned.indptr.astype(np.int64), turned.indices, turned.data

    def add_cosines(self, profiles: sp.csr_matrix, out: np.ndarray) -> None:
        """Add the cosines of all items to each of these profiles of users to `out`."""
        rows = unit_rows(profiles)
        item_pairs.score(
            rows.indptr.astype(np.int64), rows.indices, rows.data, *self._by_feature, out
        )

    @staticmethod
    def layout() -> dict[str, Cells]:
        """The arrays of a file."""
        sparse = {name: Cells(dtype, (-1,)) for name, dtype in SPARSE.items()}
        return {**id_layout(NAMES, "text"), IDF: Cells(np.float64, (-1,)), **sparse}

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a file, named as in `layout`."""
        matrix = self.matrix
        values = matrix.indptr, matrix.indices, matrix.data
        sparse = zip(SPARSE.items(), values, strict=True)
        return {
            **id_arrays(NAMES, self.encoder.names_),
            IDF: self.encoder.idf_,
            **{name: array.astype(dtype, copy=False) for (name, dtype), array in sparse},
        }

    @classmethod
    def from_arrays(cls, encoder: TfIdf, arrays: dict[str, np.ndarray], items: int) -> Self:
        """Read the arrays of a file; ValueError where they contradict each other."""
        encoder.names_ = ids_from(NAMES, {n: a for n, a in arrays.items() if n.startswith(NAMES)})
        encoder.idf_ = arrays[IDF]
        starts, at, values = (arrays[name] for name in SPARSE)
        width = encoder.names_.size
        sound = (
            encoder.idf_.size == width > 0
            and np.isfinite(encoder.idf_).all()
            and starts.size == items + 1
            and starts[0] == 0
            and starts[-1] == at.size == values.size
            and (np.diff(starts) >= 0).all()
            and (at >= 0).all()
            and (at < width).all()
            and np.isfinite(values).all()
        )
        if not sound:
            raise ValueError("profiles must be rows of weights of the stored features.")
        matrix = sp.csr_matrix((values, at, starts), (items, width))
        if not matrix.has_canonical_format:
            raise ValueError("profiles must have each feature once, in order.")
        return cls(encoder, matrix)


def check_item_features(owner: str, features: Any, train: Interactions) -> Features:
    """Return the features; raise unless items of the training data have some."""
    if features is None:
        raise TypeError(
            f"{owner}: features must be given, as fit(train, features=...): Features of the items, "
            "built by Features(ids, texts, categories) or read_features."
        )
    known = check_features(owner, "features", features)
    items = train.coded().item_ids
    if not (known.positions(items) >= 0).any():
        raise ValueError(
            f"{owner}: features have rows of no item of train; their ids are {known.kind}, and "
            f"must be those of the items."
        )
    return known


def catalogue_with(items: Catalogue, features: Features) -> Catalogue:
    """Return the catalogue, extended by the items of the features that are not in it."""
    new = features.ids[items.positions(features.ids) < 0]
    return Catalogue(np.concatenate([items.ids, new])) if new.size else items


def unit_rows(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Divide every row by its norm; an empty one stays."""
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1), np.float64)).ravel()
    data = matrix.data / np.repeat(np.where(norms > 0, norms, 1), np.diff(matrix.indptr))
    return sp.csr_matrix((data.astype(np.float32), matrix.indices, matrix.indptr), matrix.shape)


def placed(rows: sp.csr_matrix, at: np.ndarray, size: int) -> sp.csr_matrix:
    """Return a matrix of `size` rows of which those at ascending positions `at` are given."""
    counts = np.zeros(size + 1, np.int64)
    counts[at + 1] = np.diff(rows.indptr)
    made = sp.csr_matrix((rows.data, rows.indices, np.cumsum(counts)), (size, rows.shape[1]))
    made.sort_indices()
    return made
