"""Recommenders: factor models in fixed memory, what they answer, and how they are measured.

Each name is imported when it is first used, so that a program loads only the models it uses.
"""

from collections.abc import Callable
from typing import Any

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.recommend.all_users import recommend_all
    from sfumato.recommend.base import ModelFormatError, NotFittedError, load
    from sfumato.recommend.bias import DampedMeans
    from sfumato.recommend.catalogue import Catalogue
    from sfumato.recommend.content.attributes import AttributeMeans
    from sfumato.recommend.content.content_based import ContentBased
    from sfumato.recommend.content.index import ContentIndex
    from sfumato.recommend.content.tfidf import TfIdf
    from sfumato.recommend.factorization.base import Factorization
    from sfumato.recommend.factorization.bayesian import BayesianFactorization
    from sfumato.recommend.factorization.compressed import SketchedFactors
    from sfumato.recommend.factorization.dense import DenseFactorization
    from sfumato.recommend.factorization.imputed_svd import ImputedSVD
    from sfumato.recommend.factorization.langevin import LangevinFactorization
    from sfumato.recommend.factorization.sketched import SketchFactorization
    from sfumato.recommend.factorization.svdpp import SVDpp
    from sfumato.recommend.hybrid.blend import BellKorBlend
    from sfumato.recommend.hybrid.collective import CollectiveItems
    from sfumato.recommend.hybrid.hybrid import Hybrid
    from sfumato.recommend.implicit.als import ALS
    from sfumato.recommend.implicit.curated import CuratedList
    from sfumato.recommend.implicit.item_neighbours import ItemNeighbours
    from sfumato.recommend.implicit.linear_items import LinearItems
    from sfumato.recommend.implicit.popular import Popular
    from sfumato.recommend.item_index import ItemIndex, StaleIndexError
    from sfumato.recommend.neighbours.interpolation import InterpolationWeights
    from sfumato.recommend.neighbours.personal_neighbours import PersonalNeighbours
    from sfumato.recommend.neighbours.profiles import RawProfiles
    from sfumato.recommend.neighbours.rating_neighbours import RatingNeighbours
    from sfumato.recommend.neighbours.user_neighbours import UserNeighbours
    from sfumato.recommend.packages import recommend_package
    from sfumato.recommend.private.factorization import PrivateFactorization
    from sfumato.recommend.private.linear_items import PrivateLinearItems, ReleasedLinearItems
    from sfumato.recommend.private.neighbours import PrivateNeighbours
    from sfumato.recommend.private.popular import PrivatePopular, ReleasedPopular
    from sfumato.recommend.private.released_neighbours import ReleasedNeighbours
    from sfumato.recommend.ratings.cluster_means import ClusterMeans
    from sfumato.recommend.ratings.eigentaste import Eigentaste
    from sfumato.recommend.ratings.temporal_means import TemporalMeans
    from sfumato.recommend.ratings.time_svdpp import TimeSVDpp

__all__ = [
    "ALS",
    "AttributeMeans",
    "BayesianFactorization",
    "BellKorBlend",
    "Catalogue",
    "ClusterMeans",
    "CollectiveItems",
    "ContentBased",
    "ContentIndex",
    "CuratedList",
    "DampedMeans",
    "DenseFactorization",
    "Eigentaste",
    "Factorization",
    "Hybrid",
    "ImputedSVD",
    "InterpolationWeights",
    "ItemIndex",
    "ItemNeighbours",
    "LangevinFactorization",
    "LinearItems",
    "ModelFormatError",
    "NotFittedError",
    "PersonalNeighbours",
    "Popular",
    "PrivateFactorization",
    "PrivateLinearItems",
    "PrivateNeighbours",
    "PrivatePopular",
    "RatingNeighbours",
    "RawProfiles",
    "ReleasedLinearItems",
    "ReleasedNeighbours",
    "ReleasedPopular",
    "SVDpp",
    "SketchFactorization",
    "SketchedFactors",
    "StaleIndexError",
    "TemporalMeans",
    "TfIdf",
    "TimeSVDpp",
    "UserNeighbours",
    "load",
    "recommend_all",
    "recommend_package",
]

__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "all_users": ("recommend_all",),
        "base": ("ModelFormatError", "NotFittedError", "load"),
        "bias": ("DampedMeans",),
        "catalogue": ("Catalogue",),
        "content.attributes": ("AttributeMeans",),
        "content.content_based": ("ContentBased",),
        "content.index": ("ContentIndex",),
        "content.tfidf": ("TfIdf",),
        "factorization.base": ("Factorization",),
        "factorization.bayesian": ("BayesianFactorization",),
        "factorization.compressed": ("SketchedFactors",),
        "factorization.dense": ("DenseFactorization",),
        "factorization.imputed_svd": ("ImputedSVD",),
        "factorization.langevin": ("LangevinFactorization",),
        "factorization.sketched": ("SketchFactorization",),
        "factorization.svdpp": ("SVDpp",),
        "hybrid.blend": ("BellKorBlend",),
        "hybrid.collective": ("CollectiveItems",),
        "hybrid.hybrid": ("Hybrid",),
        "implicit.als": ("ALS",),
        "implicit.curated": ("CuratedList",),
        "implicit.item_neighbours": ("ItemNeighbours",),
        "implicit.linear_items": ("LinearItems",),
        "implicit.popular": ("Popular",),
        "item_index": ("ItemIndex", "StaleIndexError"),
        "neighbours.interpolation": ("InterpolationWeights",),
        "neighbours.personal_neighbours": ("PersonalNeighbours",),
        "neighbours.profiles": ("RawProfiles",),
        "neighbours.rating_neighbours": ("RatingNeighbours",),
        "neighbours.user_neighbours": ("UserNeighbours",),
        "packages": ("recommend_package",),
        "private.factorization": ("PrivateFactorization",),
        "private.linear_items": ("PrivateLinearItems", "ReleasedLinearItems"),
        "private.neighbours": ("PrivateNeighbours",),
        "private.popular": ("PrivatePopular", "ReleasedPopular"),
        "private.released_neighbours": ("ReleasedNeighbours",),
        "ratings.cluster_means": ("ClusterMeans",),
        "ratings.eigentaste": ("Eigentaste",),
        "ratings.temporal_means": ("TemporalMeans",),
        "ratings.time_svdpp": ("TimeSVDpp",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
