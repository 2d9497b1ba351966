"""BellKorBlend: the linear blend of models of ratings that fits a probe part best."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.storage import Cells
from sfumato.core.validation import Limit, between, flag, integer, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.base import OPTIONAL_BOUNDS
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.hybrid.base import PartsModel
from sfumato.recommend.hybrid.parts import fit_part, made_part, score_pairs
from sfumato.recommend.hybrid.probing import META, Blend, ProbedRatings, parted, probe_rows
from sfumato.recommend.hybrid.support import Support

__all__ = ["BellKorBlend"]

FEW = 100  # rows below which nothing can be learned of weights
GLOBAL = ("temporal-means", "damped-means")  # with times, and without
REGIONAL = ("bayesian", "svdpp", "dense")
LOCAL = ("rating-neighbours", "interpolation-weights")
REPORT = ("weight", "rmse", "rmse_without", "adds", "low", "high")
MEASURED = optional(between(-1e300, 1e300))


class BellKorBlend(PartsModel):
    """Linear blend of models of ratings, with weights learned on a probe part.

    The parts are fitted to the training rows without a probe part; least squares of the ratings of
    the probe part on their predictions gives the weights; then the parts are fitted to all rows.
    The default parts see the ratings at the three scales of the winners of the Netflix prize:
    global (means of users and items), regional (factors) and local (neighbours).

    Parameters
    ----------
    parts : object, default=None
        The parts, by their names in `sfumato.recommend.models`: a text "a,b", a sequence of names
        or unfitted models, or a mapping of names to dicts of parameters (with "model", if the name
        is another) or models. None for the default parts; those that use times only if there are
        any.
    probe : float, default=0.1
        Fraction of the rows in a probe part, between 0 and 1.
    folds : int or None, default=None
        Number of disjoint probe parts, for each of which the parts are fitted once; at most
        1 / `probe`. None is as many as collect 50,000 rows, at most 5.
    probe_by : {"random", "latest"}, default="random"
        Rows of the probe part: random ones, or the latest, as for forecasts; then `folds` is 1.
    by_support : bool, default=True
        Whether weights may depend on the logarithms of the numbers of ratings of user and item,
        where that predicts other users better.
    bounds : tuple of float or None, default=None
        Lowest and highest rating; None means those of the training data.
    random_state : int, default=0
        Seed of the probe part and of the folds of users.

    Attributes
    ----------
    catalogue_ : Catalogue
        Items that may be recommended.
    models_ : dict of str to Estimator
        The fitted parts by name.
    mean_, low_, high_ : float
        Mean and bounds of the training ratings.
    parts_ : list of dict
        What each part adds: "name", "weight" (for a pair of average support), "rmse" of the part
        alone on the probe part, "rmse_without" of a blend of all other parts, "adds" (that minus
        `rmse_`), and its 95 % interval over users from "low" to "high". Numbers other than the
        weight are None if there were too few rows for a probe part.
    rmse_ : float or None
        Error of the blend on the probe part, for each user by weights of other users.

    Notes
    -----
    **Guarantee.** With scores s_k of the parts, the score of a pair is
    ``mean_ + sum(w_k * (s_k - mean_)) + c``, where each w_k and c is linear in the standardised
    logarithms of the numbers of ratings of user and item; predictions are clipped to the bounds.
    The weights minimise the squared error on the probe part plus a penalty that draws them to the
    plain mean of all parts, or to the best part; which, how much, and whether they depend on the
    support, is what predicts other users of the probe part best, in five folds. With fewer than
    100 rows the weights are equal. After Ctrl-C while parts are fitted to all rows, the others
    keep their fit without the probe part. Not private.

    The parts are fitted `folds` + 1 times. Probe rows of items outside of the catalogue are
    ignored.

    References
    ----------
    .. [1] Bell, Koren, Volinsky. "The BellKor solution to the Netflix Prize". 2007.
       https://www.netflixprize.com/assets/ProgressPrize2007_KorBell.pdf
    .. [2] Sill, Takacs, Mackey, Lin. "Feature-Weighted Linear Stacking". 2009.
       https://arxiv.org/abs/0911.0460

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> ratings = generate_world(users=60, items=40, ratings=1100, random_state=0).interactions
    >>> model = BellKorBlend(parts={"few": {"model": "dense", "factors": 4}, "dense": {}})
    >>> model.fit(ratings).predict(ratings.users[:1], ratings.items[:1]).shape
    (1,)
    >>> [part["name"] for part in model.parts_]
    ['few', 'dense']
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        **PartsModel.LIMITS,
        "probe": between(0, 0.5 + 1e-9, above=True),
        "folds": optional(integer(1, 100)),
        "probe_by": one_of(("random", "latest")),
        "by_support": flag,
        "bounds": OPTIONAL_BOUNDS,
        "random_state": integer(0, 2**32 - 1),
    }
    parts_: list[dict[str, Any]]
    rmse_: float | None
    _weights: np.ndarray  # (parts + 1, META + 1)
    _scales: np.ndarray  # (2, META): mean and deviation of the meta-features

    def __init__(
        self,
        *,
        parts: Any = None,
        probe: float = 0.1,
        folds: int | None = None,
        probe_by: str = "random",
        by_support: bool = True,
        bounds: tuple[float, float] | None = None,
        random_state: int = 0,
    ) -> None:
        self.probe: float
        self.folds: int | None
        self.parts, self.probe, self.folds = parts, probe, folds
        self.probe_by: str
        self.by_support: bool
        self.probe_by, self.by_support = probe_by, by_support
        self.bounds: tuple[float, float] | None
        self.random_state: int
        self.bounds, self.random_state = bounds, random_state

    def _check_together(self, plain: dict[str, Any]) -> None:
        owner = type(self).__name__
        for entry in plain["parts"] or ():
            if not made_part(entry).predicts_ratings:
                problem = f"must be models of ratings, and {entry['name']} is one of lists."
                raise ParameterError.of(owner, "parts", problem)
        most = 1 if plain["probe_by"] == "latest" else int(1 / plain["probe"] + 1e-9)
        if (plain["folds"] or 1) > most:
            problem = f"must be at most {most} with this probe and probe_by, not {plain['folds']}."
            raise ParameterError.of(owner, "folds", problem)

    def _default_parts(self, train: Interactions, extras: dict[str, Any]) -> Any:
        from sfumato.recommend.models import MODELS

        wide = GLOBAL if train.times is not None else GLOBAL[1:]
        return [
            *[name for name in wide if name in MODELS][:1],
            *[name for name in (*REGIONAL, *LOCAL) if name in MODELS],
        ]

    def _learn(
        self,
        train: Interactions,
        items: Catalogue,
        entries: list[dict[str, Any]],
        plain: dict[str, Any],
        extras: dict[str, Any],
    ) -> Self:
        bounds = self._bounds_of(train, plain["bounds"])
        mean = float(train.ratings.mean(dtype=np.float64))
        used = self._used_rows(train, items, plain)
        models: dict[str, Any] = {}
        probed = ProbedRatings()
        for rows in probe_rows(train, used, plain) if used.size >= FEW else ():
            rest, held_out = parted(train, rows)
            for each in entries:
                models[each["name"]] = fit_part(each, rest, items, bounds, **extras)
            probed.add(models, held_out, Support.of(rest, items))
        names = [each["name"] for each in entries]
        made = Blend.equal(names)
        if probed.rows:
            made = Blend.learned(probed, names, mean, bounds, plain)
        learned = {"mean_": mean, "low_": bounds[0], "high_": bounds[1], "catalogue_": items}
        learned |= {"_weights": made.weights, "_scales": made.scales, "_entries": entries}
        learned |= {"parts_": made.parts, "rmse_": made.rmse, "models_": models}
        learned |= {"_support": Support.of(train, items)}
        return self._fit_finally(
            lambda entry: fit_part(entry, train, items, bounds, **extras), learned
        )

    def _used_rows(
        self, train: Interactions, items: Catalogue, plain: dict[str, Any]
    ) -> np.ndarray:
        """Return the rows of the catalogue's items; raise where there are none, or no times."""
        owner = type(self).__name__
        if plain["probe_by"] == "latest" and train.times is None:
            problem = 'must be "random", since train has no times.'
            raise ParameterError.of(owner, "probe_by", problem)
        used = np.flatnonzero(items.positions(train.items) >= 0)
        if not used.size:
            raise ParameterError.of(owner, "catalogue", "must have an item that train has.")
        return used

    def _combined(
        self, scores: np.ndarray, counts: np.ndarray, eligible: np.ndarray | None
    ) -> np.ndarray:
        users = self._meta(counts, 0)[:, None]
        items = self._meta(self._support.item_counts, 1)[None]
        constant = self._weights[-1]
        out = self.mean_ + constant[0] + constant[1] * users + constant[2] * items
        for table, weights in zip(scores, self._weights[:-1], strict=True):
            table -= self.mean_
            out += (weights[0] + weights[1] * users + weights[2] * items) * table
        return np.asarray(out)

    def _meta(self, counts: np.ndarray, side: int) -> np.ndarray:
        """Return the meta-feature of users (side 0) or items (side 1) with so many rows."""
        means, deviations = self._scales
        return np.asarray((np.log1p(counts) - means[side]) / deviations[side])

    def _pair_weights(self, who: np.ndarray, what: np.ndarray) -> np.ndarray:
        """Return the weights of parts and, last, the constant of pairs: (n, parts + 1)."""
        users = self._meta(self._support.of_users(who), 0)
        items = self._meta(self._support.of_items(self.catalogue_.positions(what)), 1)
        constant, of_users, of_items = self._weights.T
        return np.asarray(constant + users[:, None] * of_users + items[:, None] * of_items)

    def _pairs_scored(
        self, who: np.ndarray, what: np.ndarray, times: np.ndarray | None
    ) -> np.ndarray:
        weights = self._pair_weights(who, what)
        out = self.mean_ + weights[:, -1]
        for at, model in enumerate(self.models_.values()):
            out += weights[:, at] * (score_pairs(model, who, what, times) - self.mean_)
        return np.asarray(out)

    def _terms(
        self, who: np.ndarray, what: np.ndarray
    ) -> tuple[list[dict[str, Any]], dict[str, float]]:
        weights = self._pair_weights(who, what)[0].tolist()
        terms = []
        for (name, model), weight in zip(self.models_.items(), weights, strict=False):
            score = float(score_pairs(model, who, what)[0])
            part = weight * (score - self.mean_)
            terms.append({"name": name, "score": score, "weight": weight, "part": part})
        return terms, {"mean": self.mean_, "constant": weights[-1]}

    def _own_layout(self) -> dict[str, Cells]:
        return {
            "_weights": Cells(np.float64, (len(self._entries) + 1, META + 1)),
            "_scales": Cells(np.float64, (2, META)),
        }

    def _restore_arrays(self, arrays: dict[str, np.ndarray]) -> None:
        super()._restore_arrays(arrays)
        numbers = self._weights, self._scales
        if not all(np.isfinite(each).all() for each in numbers) or (self._scales[1] <= 0).any():
            raise ValueError("weights must be finite, and deviations above 0.")
        if not all(each.predicts_ratings for each in self.models_.values()):
            raise ValueError("parts must be models of ratings.")

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "parts_": self.parts_, "rmse_": self.rmse_}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        self.rmse_ = MEASURED.check("state", "rmse_", state["rmse_"])
        rows, names = state["parts_"], [each["name"] for each in self._entries]
        if [row["name"] for row in rows] != names:
            raise ValueError("parts_ must be of the parts.")
        self.parts_ = [
            {"name": row["name"]} | {key: MEASURED.check("state", key, row[key]) for key in REPORT}
            for row in rows
        ]
