"""Hybrid: content-based and collaborative models combined, in the five ways of the field."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, between, fraction, integer, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.base import OPTIONAL_BOUNDS, check_has_ratings
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.hybrid.augmentation import augmented
from sfumato.recommend.hybrid.base import PartsModel
from sfumato.recommend.hybrid.combining import (
    in_stages,
    reciprocal_ranks,
    standardized,
    switched,
    weighted,
)
from sfumato.recommend.hybrid.list_probing import (
    HeldOutLists,
    learned_short_list,
    learned_weights,
)
from sfumato.recommend.hybrid.parts import fit_part, made_part, score_pairs, score_table
from sfumato.recommend.hybrid.probing import Blend, ProbedRatings, parted, probe_rows
from sfumato.recommend.hybrid.support import Support
from sfumato.recommend.ranking import table_pairs

__all__ = ["Hybrid"]

COMBINE = ("mixed", "weighted", "augmentation", "cascade", "switching", "combination")
PAIRS_OF_PARTS = ("augmentation", "cascade", "switching")
LISTS_ONLY = ("mixed", "cascade")
FEW = 100  # rows below which nothing is learned from held-out ones
SHORT_LIST = 100  # with so few rows


class Hybrid(PartsModel):
    """Hybrid recommender: several models, usually content-based and collaborative, combined.

    Parameters
    ----------
    parts : object, default=None
        The parts, by their names in `sfumato.recommend.models`: a text "a,b", a sequence of names
        or unfitted models, or a mapping of names to dicts of parameters (with "model", if the name
        is another) or models. None for linear items, with a content-based model if there are
        features and with ALS if not.
    combine : str, default="weighted"
        How the parts are combined, in the words of Burke [1]_:

        - "mixed": the lists of all parts are merged, by the sum of 1 / (60 + rank) (simple
          aggregation of results).
        - "weighted": the sum of the standardised scores, or of predicted ratings, with weights
          learned from held-out rows (weighted aggregation).
        - "augmentation": the first part makes up rows of items with fewer than `support` rows, and
          the second learns from these as well (preprocessing).
        - "cascade": the second part re-ranks a short-list of the first (post-processing).
        - "switching": the first part scores users and items with fewer than `support` rows, the
          second all others (post-processing).
        - "combination": a single part that learns from features and histories together, such as
          "collective-items" (tightly coupled).
    support : int, default=5
        Number of training rows below which a user or item is rare, for "switching" and
        "augmentation".
    short_list : int or None, default=None
        Length of the short-list of a cascade; None for the one with the best lists of held-out
        rows, of 13 lengths from 1 to 1000 and all items.
    relevant_from : float or None, default=None
        Smallest rating of a held-out row that a list should contain; None counts all rows.
    probe : float, default=0.1
        Fraction of the rows that are held out to learn weights or the short-list.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.
    random_state : int, default=0
        Seed of the held-out rows and of the users that rows are made up for.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    models_ : dict of str to Estimator
        The fitted parts by name.
    weights_ : dict of str to float
        Weights of the parts of "weighted"; 1 for every part otherwise.
    short_list_ : int
        Length of the short-list of "cascade"; 0 otherwise.
    mean_, low_, high_ : float
        Mean and bounds of the training ratings; 0, 0 and 1 if scores only order items.

    Notes
    -----
    **Guarantee.** These are the five ways of section 2.2.2.3 of the thesis [2]_. `predict` returns
    ratings if all parts do and `combine` is neither "mixed" nor "cascade". The score of a list is
    the sum of what the parts add to it, which `explain` returns: 1 / (60 + rank); the weight times
    the score, standardised over the catalogue for each user; or the score of the one part that
    decides. In a cascade the first part adds 1 for an item of its short-list, where the second adds
    its score, brought to between 0 and 1. Ranks and short-lists are among the items that may be
    recommended; `predict` and `explain` rank the whole catalogue.

    Weights are learned by a coordinate search of the NDCG@10 of held-out rows, for ratings by least
    squares; then the parts are fitted to all rows. Below 100 rows the weights are equal. After
    Ctrl-C while parts are fitted to all rows, the others keep their fit without held-out rows. New
    items with features and new users with attributes are scored by the parts that use these. Not
    private.

    References
    ----------
    .. [1] Burke. "Hybrid Recommender Systems: Survey and Experiments". UMUAI 2002.
       https://doi.org/10.1023/A:1021240730564
    .. [2] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.2.2.3 (hybrid systems).
       https://theses.hal.science/tel-01430156
    .. [3] Cormack, Clarke, Buettcher. "Reciprocal Rank Fusion outperforms Condorcet and individual
       Rank Learning Methods". SIGIR 2009. https://doi.org/10.1145/1571941.1572114

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> train = generate_world(users=60, items=40, ratings=900, random_state=0).interactions
    >>> model = Hybrid(parts="linear-items,popular", combine="mixed").fit(train)
    >>> items, scores = model.recommend(train.users[0], n=3, exclude=train)
    >>> items.size
    3
    """

    _default_extras = ("features",)
    LIMITS: ClassVar[dict[str, Limit]] = {
        **PartsModel.LIMITS,
        "combine": one_of(COMBINE),
        "support": integer(1, 10**6),
        "short_list": optional(integer(1, 2**31 - 1)),
        "relevant_from": optional(between(-1e15, 1e15)),
        "probe": fraction,
        "bounds": OPTIONAL_BOUNDS,
        "random_state": integer(0, 2**32 - 1),
    }
    short_list_: int
    _combine: str
    _rare: int
    _weights: np.ndarray  # of the parts and, last, the constant

    def __init__(
        self,
        *,
        parts: Any = None,
        combine: str = "weighted",
        support: int = 5,
        short_list: int | None = None,
        relevant_from: float | None = None,
        probe: float = 0.1,
        bounds: tuple[float, float] | None = None,
        random_state: int = 0,
    ) -> None:
        self.combine: str
        self.support: int
        self.parts, self.combine, self.support = parts, combine, support
        self.short_list: int | None
        self.relevant_from: float | None
        self.short_list, self.relevant_from = short_list, relevant_from
        self.probe: float
        self.bounds: tuple[float, float] | None
        self.random_state: int
        self.probe, self.bounds, self.random_state = probe, bounds, random_state

    @property
    def predicts_ratings(self) -> bool:
        """Whether `predict` returns ratings; if not, its scores only order items."""
        parts = self._described_parts()
        combine = self.__dict__.get("_combine", self.combine)
        rated = parts[-1:] if combine == "augmentation" else parts
        return combine not in LISTS_ONLY and bool(parts) and all(p.predicts_ratings for p in rated)

    @property
    def weights_(self) -> dict[str, float]:
        """Weights of the parts."""
        self._check_fitted()
        return dict(zip(self.models_, self._weights.tolist(), strict=False))

    def _check_together(self, plain: dict[str, Any]) -> None:
        owner, combine, entries = type(self).__name__, plain["combine"], plain["parts"]
        if entries is None:
            return
        wanted = 1 if combine == "combination" else 2
        exact = combine in (*PAIRS_OF_PARTS, "combination")
        if len(entries) < wanted or (exact and len(entries) > wanted):
            count = f"{'' if exact else 'at least '}{wanted}"
            problem = f"must be {count} with combine {combine!r}, not {len(entries)}."
            raise ParameterError.of(owner, "parts", problem)
        mixed = {made_part(entry).predicts_ratings for entry in entries}
        if len(mixed) > 1 and combine == "augmentation":
            problem = "must be all of lists or all of ratings with combine 'augmentation'."
            raise ParameterError.of(owner, "parts", problem)

    def _default_parts(self, train: Interactions, extras: dict[str, Any]) -> Any:
        if self.combine == "combination":
            return ["collective-items"]
        other = "als" if extras["features"] is None else "content"
        return [other, "linear-items"]

    def _learn(
        self,
        train: Interactions,
        items: Catalogue,
        entries: list[dict[str, Any]],
        plain: dict[str, Any],
        extras: dict[str, Any],
    ) -> Self:
        combine, made = plain["combine"], [made_part(each) for each in entries]
        rated = made[-1:] if combine == "augmentation" else made
        rates = combine not in LISTS_ONLY and all(each.predicts_ratings for each in rated)
        if rates:
            check_has_ratings(type(self).__name__, train)
        bounds = self._bounds_of(train, plain["bounds"]) if rates else None
        mean = float(train.ratings.mean(dtype=np.float64)) if rates else 0.0
        models: dict[str, Any] = {}

        def fit(entry: dict[str, Any], rows: Interactions) -> Any:
            if combine == "augmentation" and entry is entries[1]:
                seed = plain["random_state"]
                rows = augmented(models[entries[0]["name"]], rows, plain["support"], rates, seed)
            return fit_part(entry, rows, items, bounds, **extras)

        weights, short_list = np.append(np.ones(len(entries)), 0.0), plain["short_list"] or 0
        if combine == "weighted":
            weights[:-1] /= len(entries)
        unknown = combine == "weighted" or (combine == "cascade" and not short_list)
        if unknown and len(train) >= FEW:
            rest, held_out = self._held_out(train, items, plain)
            for each in entries:
                models[each["name"]] = fit(each, rest)
            if rates:
                weights = self._least_squares(models, rest, held_out, mean, bounds, plain)
            else:
                lists = HeldOutLists.of(models.values(), rest, held_out, plain["random_state"])
                if combine == "weighted":
                    weights[:-1] = learned_weights(lists)
                else:
                    short_list = learned_short_list(lists)
        elif unknown and combine == "cascade":
            short_list = SHORT_LIST
        learned = {"mean_": mean, "catalogue_": items, "_entries": entries, "models_": models}
        learned |= dict(zip(("low_", "high_"), bounds or (0.0, 1.0), strict=True))
        learned |= {"_weights": weights, "short_list_": short_list, "_combine": combine}
        learned |= {"_rare": plain["support"], "_support": Support.of(train, items)}
        return self._fit_finally(lambda entry: fit(entry, train), learned)

    def _held_out(
        self, train: Interactions, items: Catalogue, plain: dict[str, Any]
    ) -> tuple[Interactions, Interactions]:
        """Return the rows to fit parts to, and those to learn from how they are combined."""
        how = {**plain, "folds": 1, "probe_by": "random"}
        used = np.flatnonzero(items.positions(train.items) >= 0)
        if not used.size:
            problem = "must have an item that train has."
            raise ParameterError.of(type(self).__name__, "catalogue", problem)
        rest, held_out = parted(train, next(iter(probe_rows(train, used, how))))
        if plain["relevant_from"] is not None:
            held_out = held_out.filter(held_out.ratings >= plain["relevant_from"])
        return rest, held_out

    def _least_squares(
        self,
        models: dict[str, Any],
        rest: Interactions,
        held_out: Interactions,
        mean: float,
        bounds: Any,
        plain: dict[str, Any],
    ) -> np.ndarray:
        """Return the weights of parts and constant that predict held-out ratings best."""
        probed = ProbedRatings()
        probed.add(models, held_out, Support.of(rest, next(iter(models.values())).catalogue_))
        how = {"by_support": False, "random_state": plain["random_state"]}
        return Blend.learned(probed, list(models), mean, bounds, how).weights[:, 0]

    def _added(
        self, scores: np.ndarray, counts: np.ndarray, eligible: np.ndarray | None
    ) -> np.ndarray:
        """Return what each part adds to the scores of all items, as large as `scores`."""
        if self._combine == "mixed":
            return reciprocal_ranks(scores, eligible)
        if self._combine == "cascade":
            return in_stages(scores, self.short_list_, eligible)
        if self._combine == "switching":
            rare = (counts < self._rare)[:, None] | (self._support.item_counts < self._rare)[None]
            tables = scores if self.predicts_ratings else [standardized(each) for each in scores]
            return switched(np.asarray(tables), rare)
        if self._combine == "weighted" and self.predicts_ratings:
            scores = scores - self.mean_
            return np.asarray(scores * self._weights[:-1, None, None])
        if self._combine == "weighted":
            return weighted(scores, self._weights[:-1])
        scores[:-1] = 0.0  # the last part alone decides
        return scores

    def _combined(
        self, scores: np.ndarray, counts: np.ndarray, eligible: np.ndarray | None
    ) -> np.ndarray:
        added = self._added(scores, counts, eligible).sum(axis=0)
        return np.asarray(added + sum(self._further().values()))

    def _further(self) -> dict[str, float]:
        """Return the terms of every score beside the parts."""
        if self._combine == "weighted" and self.predicts_ratings:
            return {"mean": self.mean_, "constant": float(self._weights[-1])}
        return {}

    def _pairs_scored(
        self, who: np.ndarray, what: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        if self.predicts_ratings:
            return self._rated_pairs(who, what, times)
        return table_pairs(who, self.catalogue_.positions(what), self._tables)

    def _rated_pairs(
        self, who: np.ndarray, what: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        """Return predicted ratings of pairs."""
        models = list(self.models_.values())
        if self._combine in ("augmentation", "combination"):
            return score_pairs(models[-1], who, what, times)
        scores = np.stack([score_pairs(each, who, what, times) for each in models])
        if self._combine == "weighted":
            added = self._weights[:-1, None] * (scores - self.mean_)
            return np.asarray(added.sum(axis=0) + sum(self._further().values()))
        return np.asarray(np.where(self._is_rare(who, what), *scores))

    def _is_rare(self, who: np.ndarray, what: np.ndarray) -> np.ndarray:
        """Return whether the user or item of each pair has few training rows."""
        items = self._support.of_items(self.catalogue_.positions(what))
        return np.asarray((self._support.of_users(who) < self._rare) | (items < self._rare))

    def _terms(
        self, who: np.ndarray, what: np.ndarray
    ) -> tuple[list[dict[str, Any]], dict[str, float]]:
        raw = [float(score_pairs(each, who, what)[0]) for each in self.models_.values()]
        at = int(self.catalogue_.positions(what)[0])
        if self.predicts_ratings:
            added = self._rated_parts(np.array(raw), who, what)
        elif at < 0:
            added = np.zeros(len(raw))
        else:
            scores = np.stack([score_table(each, who) for each in self.models_.values()])
            added = self._added(scores, self._support.of_users(who), None)[:, 0, at]
        names = "name", "score", "weight", "part"
        rows = zip(self.models_, raw, self._weights.tolist(), added.tolist(), strict=False)
        return [dict(zip(names, row, strict=True)) for row in rows], self._further()

    def _rated_parts(self, scores: np.ndarray, who: np.ndarray, what: np.ndarray) -> np.ndarray:
        """Return what each part adds to the predicted rating of one pair."""
        if self._combine == "weighted":
            return np.asarray(self._weights[:-1] * (scores - self.mean_))
        decides = len(scores) - 1
        if self._combine == "switching":
            decides = 0 if self._is_rare(who, what)[0] else 1
        return np.where(np.arange(len(scores)) == decides, scores, 0.0)

    def _own_layout(self) -> dict[str, Cells]:
        return {"_weights": Cells(np.float64, (len(self._entries) + 1,))}

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_arrays(arrays)
        if not np.isfinite(self._weights).all():
            raise ValueError("weights must be finite.")

    def _state(self) -> dict[str, Any]:
        own = {"combine": self._combine, "short_list": self.short_list_, "support": self._rare}
        return {**super()._state(), **own}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self._combine = self.LIMITS["combine"].check("state", "combine", state["combine"])
        self._rare = self.LIMITS["support"].check("state", "support", state["support"])
        self.short_list_ = integer(0, 2**31 - 1).check("state", "short_list", state["short_list"])
        if self._combine in PAIRS_OF_PARTS and len(self._entries) != 2:
            raise ValueError("there must be two parts.")
