"""The models by the names of the command line: what each learns, needs and stores.

A further model is one line of `MODELS`; where it is the best of its kind also one of `DEFAULTS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.recommend.base import Parameters
from sfumato.recommend.bias import DampedMeans
from sfumato.recommend.content.attributes import AttributeMeans
from sfumato.recommend.content.content_based import ContentBased
from sfumato.recommend.factorization.bayesian import BayesianFactorization
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
from sfumato.recommend.neighbours.interpolation import InterpolationWeights
from sfumato.recommend.neighbours.rating_neighbours import RatingNeighbours
from sfumato.recommend.neighbours.user_neighbours import UserNeighbours
from sfumato.recommend.private.factorization import PrivateFactorization
from sfumato.recommend.private.linear_items import PrivateLinearItems
from sfumato.recommend.private.popular import PrivatePopular
from sfumato.recommend.ratings.cluster_means import ClusterMeans
from sfumato.recommend.ratings.eigentaste import Eigentaste
from sfumato.recommend.ratings.temporal_means import TemporalMeans
from sfumato.recommend.ratings.time_svdpp import TimeSVDpp
from sfumato.recommend.tuning import GRIDS

__all__ = ["DEFAULTS", "MODELS", "ModelKind", "default_model", "named_model"]


@dataclass(frozen=True)
class ModelKind:
    """A class of models that is fitted to interactions and saved, and what users choose it by.

    Parameters
    ----------
    name : str
        Its name on the command line.
    kind : type
        The class.
    objective : {"ranking", "ratings"}
        What the class learns: lists, or ratings. A class with a parameter `objective` learns both.
    stores : str
        What a file of the model contains.
    about : str
        What it is, in one line.
    grids : mapping of str to sequence of float, optional
        Values of the parameters that are tuned; none if there is nothing to tune.

    Examples
    --------
    >>> MODELS["popular"].objectives, MODELS["popular"].private
    (('ranking',), False)
    """

    name: str
    kind: type[Parameters]
    objective: str
    stores: str
    about: str
    grids: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def objectives(self) -> tuple[str, ...]:
        """What it can learn."""
        both = "objective" in self.kind.LIMITS
        return ("ranking", "ratings") if both else (self.objective,)

    @property
    def private(self) -> bool:
        """Whether it is differentially private."""
        return "epsilon" in self.kind.LIMITS

    def facts(self) -> dict[str, Any]:
        """Return the row of the table of models.

        Returns
        -------
        dict
            Name, class, what it learns, needs and stores, privacy label and a line of help.
        """
        learns = {"ranking": "lists", "ratings": "ratings"}
        rows = "ratings" if self.objectives == ("ratings",) else "users, items"
        return {
            "name": self.name,
            "class": self.kind.__name__,
            "learns": " or ".join(learns[each] for each in self.objectives),
            "needs": ", ".join([rows, *getattr(self.kind, "NEEDS", ())]),
            "stores": self.stores,
            "privacy": "proved" if self.private else "none",
            "about": self.about,
        }


HISTORIES, VECTORS = "histories of users", "ids and vectors of users and items"
MEANS = "ids and means of users and items"
SVDPP_GRIDS = {
    "regularization": (0.02, 0.03, 0.04, 0.05, 0.07, 0.1),
    "implicit_regularization": (0.1, 0.3, 0.5, 1.0, 3.0),
    "learning_rate": (0.01, 0.02, 0.03),
}
MODELS: dict[str, ModelKind] = {
    each.name: each
    for each in (
        ModelKind("popular", Popular, "ranking", HISTORIES, "most popular items: the baseline"),
        ModelKind("curated", CuratedList, "ranking", HISTORIES, "a list made by hand"),
        ModelKind(
            "item-neighbours",
            ItemNeighbours,
            "ranking",
            f"{HISTORIES}, nearest items",
            "items similar to those of a history",
            {"shrinkage": (1.0, 5.0, 20.0, 100.0), "exponent": (0.1, 0.2, 0.3, 0.4, 0.5)},
        ),
        ModelKind(
            "user-neighbours",
            UserNeighbours,
            "ranking",
            HISTORIES,
            "items of users with similar histories",
        ),
        ModelKind(
            "linear-items",
            LinearItems,
            "ranking",
            f"{HISTORIES}, weights of pairs of items",
            "ridge regression of each item on the others (EASE)",
            {"regularization": (10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0)},
        ),
        ModelKind(
            "als",
            ALS,
            "ranking",
            VECTORS,
            "weighted matrix factorization of all pairs",
            {"regularization": (0.2, 0.28, 0.4, 0.57, 0.8), "confidence": (2.0, 5.0, 10.0, 20.0)},
        ),
        ModelKind(
            "damped-means",
            DampedMeans,
            "ratings",
            MEANS,
            "mean plus shrunken deviations of users and items: the baseline",
            {"damping": (1.0, 2.0, 5.0, 10.0, 25.0)},
        ),
        ModelKind(
            "dense",
            DenseFactorization,
            "ratings",
            VECTORS,
            "matrix factorization",
            GRIDS,
        ),
        ModelKind(
            "bayesian",
            BayesianFactorization,
            "ratings",
            VECTORS,
            "mean of factorizations drawn by Gibbs sampling, with implicit feedback",
        ),
        ModelKind(
            "svdpp",
            SVDpp,
            "ratings",
            f"{VECTORS}, a second vector of each item",
            "matrix factorization with the set of rated items (SVD++)",
            SVDPP_GRIDS,
        ),
        ModelKind(
            "langevin",
            LangevinFactorization,
            "ratings",
            VECTORS,
            "mean of factorizations drawn by stochastic gradient Langevin dynamics",
        ),
        ModelKind(
            "sketch",
            SketchFactorization,
            "ratings",
            "one sketch of fixed size; no ids of users",
            "matrix factorization in a count sketch; learns live",
            GRIDS,
        ),
        ModelKind(
            "bellkor-blend",
            BellKorBlend,
            "ratings",
            "its parts, and their weights",
            "linear blend of models of ratings on a probe part",
        ),
        ModelKind(
            "collective-items",
            CollectiveItems,
            "ranking",
            f"{HISTORIES}, weights of pairs of items",
            "linear items of histories and features together",
            {"feature_weight": (1.0, 3.0, 10.0, 30.0, 100.0)},
        ),
        ModelKind(
            "hybrid",
            Hybrid,
            "ranking",
            "its parts, and how they are combined",
            "content-based and collaborative models combined",
        ),
        ModelKind(
            "content",
            ContentBased,
            "ranking",
            f"{HISTORIES}, profiles of items",
            "items with the features of a history",
            {"prior": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)},
        ),
        ModelKind(
            "attribute-means",
            AttributeMeans,
            "ratings",
            "attributes of users, means by item and attribute",
            "what users with the same attributes think",
        ),
        ModelKind(
            "rating-neighbours",
            RatingNeighbours,
            "ratings",
            "ratings of users, nearest items or users",
            "ratings of similar items, or by similar users",
            {
                "shrinkage": (5.0, 20.0, 60.0),
                "exponent": (1.0, 1.5, 2.0),
                "damping": (0.01, 0.03, 0.1),
            },
        ),
        ModelKind(
            "temporal-means",
            TemporalMeans,
            "ratings",
            f"{MEANS} in time",
            "means of users and items that change in time; needs times",
            {"session_damping": (10.0, 20.0, 40.0), "drift_damping": (300.0, 1000.0, 3000.0)},
        ),
        ModelKind(
            "interpolation-weights",
            InterpolationWeights,
            "ratings",
            "ratings of users, nearest items",
            "item-based neighbours with learned weights",
            {"regularization": (10.0, 20.0, 40.0), "shrinkage": (20.0, 50.0, 100.0)},
        ),
        ModelKind(
            "time-svdpp",
            TimeSVDpp,
            "ratings",
            f"{VECTORS}, their changes in time, days of users",
            "SVD++ with biases and users that change in time",
            SVDPP_GRIDS,
        ),
        ModelKind(
            "imputed-svd",
            ImputedSVD,
            "ratings",
            VECTORS,
            "singular vectors of the ratings, missing ones imputed",
            {"shrinkage": (0.3, 0.4, 0.5, 0.6, 0.8), "factors": (16, 32, 64)},
        ),
        ModelKind(
            "cluster-means",
            ClusterMeans,
            "ratings",
            f"{MEANS}, clusters of users",
            "what users of the same cluster think, by k-means",
            {"clusters": (4, 8, 16, 32)},
        ),
        ModelKind(
            "eigentaste",
            Eigentaste,
            "ratings",
            f"{MEANS}, clusters of users",
            "what users think whose ratings of a few items are similar",
            {"gauge": (50, 100, 200, 400), "levels": (1, 2, 4)},
        ),
        ModelKind(
            "private-factorization",
            PrivateFactorization,
            "ratings",
            "noisy vectors of public lists",
            "differentially private matrix factorization",
        ),
        ModelKind(
            "private-popular",
            PrivatePopular,
            "ranking",
            "noisy counts of a public catalogue",
            "differentially private popularity",
        ),
        ModelKind(
            "private-linear-items",
            PrivateLinearItems,
            "ranking",
            "noisy counts of items and pairs of a public catalogue",
            "linear items on a differentially private Gram matrix",
        ),
    )
}
# What is fitted where no model is named: by what is to be learned, and whether it is private.
DEFAULTS = {
    ("ranking", False): "linear-items",
    ("ratings", False): "sketch",
    ("ranking", True): "private-linear-items",
    ("ratings", True): "private-factorization",
}


def default_model(objective: str, private: bool = False) -> str:
    """Return the name of the model that is fitted where none is named.

    Parameters
    ----------
    objective : {"ranking", "ratings"}
        What is to be learned. A private model of ratings stands in where there is none of lists.
    private : bool, default=False
        Whether it must be differentially private.

    Returns
    -------
    str
        A key of `MODELS`.

    Examples
    --------
    >>> default_model("ranking")
    'linear-items'
    """
    return DEFAULTS.get((objective, private), DEFAULTS["ratings", private])


def named_model(name: str) -> ModelKind:
    """Look up a model by its name on the command line.

    Parameters
    ----------
    name : str
        A key of `MODELS`.

    Returns
    -------
    ModelKind
        The entry.

    Raises
    ------
    ValueError
        If there is no such model; the message lists those that there are.

    Examples
    --------
    >>> named_model("sketch").kind.__name__
    'SketchFactorization'
    """
    if name not in MODELS:
        raise ValueError(f"the model must be one of {', '.join(MODELS)}, not {name!r}.")
    return MODELS[name]
