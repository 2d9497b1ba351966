"""Recommenders: factor models in fixed memory, what they answer, and how they are measured."""

from sfumato.recommend._catalogue import Catalogue
from sfumato.recommend._files import ModelFormatError, load
from sfumato.recommend._indexed import ItemIndex, StaleIndexError
from sfumato.recommend._model import Factorization, NotFittedError
from sfumato.recommend._profiles import RawProfiles
from sfumato.recommend.dense import DenseFactorization
from sfumato.recommend.neighbours import UserNeighbours
from sfumato.recommend.private import PrivateFactorization
from sfumato.recommend.private_neighbours import PrivateNeighbours
from sfumato.recommend.released_neighbours import ReleasedNeighbours
from sfumato.recommend.sketched import SketchFactorization
from sfumato.recommend.sketched_factors import SketchedFactors

__all__ = [
    "Catalogue",
    "DenseFactorization",
    "Factorization",
    "ItemIndex",
    "ModelFormatError",
    "NotFittedError",
    "PrivateFactorization",
    "PrivateNeighbours",
    "RawProfiles",
    "ReleasedNeighbours",
    "SketchFactorization",
    "SketchedFactors",
    "StaleIndexError",
    "UserNeighbours",
    "load",
]
