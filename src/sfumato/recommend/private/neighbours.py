"""Private neighbours: "who had this also had that", from counts with proved noise.

How often items occur, alone and in pairs, when each user counts for so many items and no more.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.deprecation import keyword_only, renamed_arguments, renamed_method
from sfumato.core.ids import positions_by_text, texts
from sfumato.core.typing import Ids
from sfumato.core.validation import DELTA, Limit, integer, one_of, optional, positive
from sfumato.data.interactions import Interactions
from sfumato.kernels.recommend import cooccurrence as kernels
from sfumato.privacy.accounting.calibration import gaussian_sigma_l2
from sfumato.privacy.accounting.losses import RELATIONS, Concentrated, LaplaceNoise, Loss
from sfumato.privacy.mechanisms.contribution_bounding import bound_contributions
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.parameters import PRIVACY, Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.privacy.rounding import round_up
from sfumato.privacy.statement import PrivacyStatement
from sfumato.recommend.base import Label, NotFittedError, Parameters, label_of
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.inputs import check_privacy, payer
from sfumato.recommend.private.released_neighbours import ReleasedNeighbours
from sfumato.sketch import CountSketch
from sfumato.sketch.base import SEED

__all__ = ["UNITS", "CountSensitivity", "PrivateNeighbours", "Shape", "counted"]

UNITS = ("event", "user")
BLOCK = 1 << 22  # pairs that are listed at a time


@dataclass(frozen=True)
class CountSensitivity:
    """The most counts of items and of pairs that one unit changes, each by 1."""

    items: int
    pairs: int
    replaced: bool

    @classmethod
    def by(cls, unit: str, relation: str, per_user: int) -> "CountSensitivity":
        replaced = relation == "replace"
        if unit == "event":
            return cls(2, 2 * (per_user - 1), replaced)
        return cls(per_user, per_user * (per_user - 1) // 2, replaced)

    def l1(self, shape: "Shape") -> int:
        """The L1 norm of the change of all cells."""
        return (self.items * shape.weight + self.pairs * shape.depth) * (2 if self.replaced else 1)

    def l2_squared(self, shape: "Shape") -> int:
        """The squared L2 norm of the change of all cells."""
        # In a table each pair has its own cell; in a row of a sketch all may meet in one.
        pairs = shape.depth * self.pairs**2 if shape.sketched else self.pairs
        return (self.items * shape.weight**2 + pairs) * (4 if self.replaced else 1)


@dataclass(frozen=True)
class Shape:
    """The cells: `weight` times the count of each item, then depth x width cells of pairs."""

    items: int
    weight: int
    width: int
    depth: int
    seed: int
    sketched: bool

    @property
    def cells(self) -> int:
        return self.items + self.width * self.depth


def counted(train: Any, catalogue: Catalogue, per_user: int, shape: Shape) -> np.ndarray:
    """The cells without noise, int64: for the curator alone."""
    items, starts = _kept(train, catalogue, per_user, shape.seed)
    cells = np.zeros(shape.cells, np.int64)
    cells[: shape.items] = shape.weight * np.bincount(items, minlength=shape.items)
    if shape.sketched:
        cells[shape.items :] = _sketched(items, starts, shape)
    else:
        kernels.add_pairs(items, starts, cells[shape.items :])
    return cells


def _kept(
    train: Any, catalogue: Catalogue, per_user: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The catalogue places of each user's kept items, user after user, and where each begins."""
    coded = train.by_row().coded()
    positions = positions_by_text(coded.item_ids, catalogue.ids)[coded.item_codes]
    inside = positions >= 0
    codes, positions = coded.user_codes[inside], positions[inside]
    # By the users' own ids: numbers in the order of appearance would let one user's events choose
    # the sample of another, and so would ids that are integers only while all of them are.
    users = texts(coded.user_ids, codes)
    keep = bound_contributions(users, positions, per_user=per_user, per_item=1, seed=seed)
    codes = codes[keep]
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes)) if codes.size else np.empty(0, np.int64)
    return positions[keep][order], np.concatenate([[0], ends]).astype(np.int64)


def _sketched(items: np.ndarray, starts: np.ndarray, shape: Shape) -> np.ndarray:
    """The cells of a count sketch of the pairs, row after row."""
    sketch = CountSketch(shape.width, shape.depth, seed=shape.seed)
    sizes = np.diff(starts)
    before = np.concatenate([[0], np.cumsum(sizes * (sizes - 1) // 2)])
    user = 0
    while user < sizes.size:
        end = max(user + 1, int(np.searchsorted(before, before[user] + BLOCK, "right")) - 1)
        keys = np.empty(before[end] - before[user], np.int64)
        kernels.list_pairs(items, starts[user : end + 1], keys)
        sketch.update(keys)
        user = end
    return np.asarray(sketch._table.reshape(-1))


Noise = tuple[str, Fraction, Loss, Shape]


class PrivateNeighbours(Parameters):
    """A recommender by items that the same users had, of which one user or event may be missing.

    Parameters
    ----------
    epsilon : float or None, default=None
        Above 0.
    per_user : int
        From 2 up, public: Laplace noise grows with its square for a user, Gaussian noise and that
        for an event in proportion.
    delta : float, default=0.0
        From 0 up.
    unit : str, default="user"
        "user" or "event", and relation (of the ledger's data set where there is one).
    relation : str, default="add/remove"
        TODO.
    width : int or None, default=None
        None for a table of all pairs, or the cells of each of `depth` rows of a count sketch of
        them, in which noise grows with the root of depth, so that 1 is best.
    depth : int, default=1
        TODO.
    weight : int or None, default=None
        How many times each item's count is in its cell, None for a quarter of the budget.
    neighbours : int, default=100
        Of an item at most.
    seed : int, default=0
        Of the sample and the sketch.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta, unit, relation and what `fit` takes
        of a ledger. Filter rows beforehand by what stands in each alone, such as its rating.

    Attributes
    ----------
    release_ : ReleasedNeighbours
        TODO.

    Notes
    -----
    **Guarantee.** (epsilon, delta)-differential privacy, proved, of everything in `release_`, for
    one unit more or less. At most per_user different items of each user are counted, a keyed
    sample. Then a user changes per_user counts of items and per_user (per_user - 1) / 2 counts of
    pairs by 1 each, an event 2 and 2 (per_user - 1): it may put another item out. All counts, of
    single items too, are integers with discrete Laplace noise, or Gaussian where delta allows it
    and its variance is smaller. What is asked of the catalogue must be public; nothing else of the
    data is kept. Items whose counts drown in noise get no neighbours; if all do, popularity
    decides.

    References
    ----------
    .. [1] McSherry and Mironov 2009; in a count sketch Melis, Danezis and De Cristofaro 2016.

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> had = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> model = PrivateNeighbours(epsilon=1, per_user=2).fit(had, catalogue=["tea", "milk", "rum"])
    >>> model.statement.proof, model.recommend_fold_in(["tea"], n=2)[0].size
    ('proved', 2)
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "epsilon": positive,
        "delta": DELTA,
        "per_user": integer(2, 2**15),
        "unit": one_of(UNITS),
        "relation": one_of(RELATIONS),
        "width": optional(integer(2, 2**31)),
        "depth": integer(1, 32),
        "weight": optional(integer(1, 2**31)),
        "neighbours": integer(1, 2**20),
        "seed": SEED,
        "privacy": PRIVACY,
    }
    release_: ReleasedNeighbours

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        per_user: int,
        delta: float = 0.0,
        unit: str = "user",
        relation: str = "add/remove",
        width: int | None = None,
        depth: int = 1,
        weight: int | None = None,
        neighbours: int = 100,
        seed: int = 0,
        privacy: Privacy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.per_user = epsilon, delta, per_user
        self.unit, self.relation = unit, relation
        self.width, self.depth, self.weight = width, depth, weight
        self.neighbours, self.seed, self.privacy = neighbours, seed, privacy

    def fit(
        self,
        train: Any,
        *,
        catalogue: Ids,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        source: Source | None = None,
    ) -> Self:
        """Count, charge, add noise; the release is in `release_`.

        Parameters
        ----------
        train : object
            Interactions, best made with invalid="drop": whatever they hold, nothing is raised;
            items outside of the catalogue are left out (`Interactions.outside` counts them for the
            curator); may be empty.
        catalogue : array_like or scalar
            The public ids that may be recommended, at least 2, never taken from train.
        ledger : object, default=None
            Who pays.
        dataset : str or None, default=None
            Who pays.
        release_id : str or None, default=None
            Whose retry returns the stored release.
        source : Source or None, default=None
            Of the noise, for tests only.

        Returns
        -------
        Self
            The object itself.
        """
        told = self._limited()
        if not isinstance(train, Interactions):
            kind = type(train).__name__
            raise TypeError(f"PrivateNeighbours: train must be Interactions, not {kind}.")
        shelf = _public(catalogue)
        check_privacy("PrivateNeighbours", self.privacy, told)
        who = payer("PrivateNeighbours", self.privacy, ledger, dataset, release_id)
        paid = ReleaseOptions(**who, source=source, unit=told["unit"])  # type: ignore[typeddict-item]
        request = _terms(told, paid)
        law, scale, loss, shape = _noise(request, told, len(shelf))
        request.check_room(8 * shape.cells)
        self.release_ = _plan(
            told, shelf, shape, (law, scale, loss), counted(train, shelf, told["per_user"], shape)
        ).publish(request)
        return self

    @property
    def statement(self) -> PrivacyStatement:
        """What the release promises."""
        return self._released().statement

    @property
    def privacy_label(self) -> Label:
        """Whether privacy is proved; "none" before `fit` and where the noise was seeded."""
        return label_of(self.statement if "release_" in self.__dict__ else None)

    @property
    def catalogue_(self) -> Catalogue:
        """TODO."""
        return self._released().catalogue_

    @property
    def nbytes(self) -> int:
        """Bytes of the release, the catalogue included."""
        return self._released().nbytes

    @renamed_arguments(exclude="user_items")
    def recommend(
        self, users: Ids, n: int = 10, *, user_items: Any, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `ReleasedNeighbours.recommend`: from the users' own items, `user_items`.

        Parameters
        ----------
        users : array_like or scalar
            TODO.
        n : int, default=10
            TODO.
        user_items : object
            TODO.
        filter : object, default=None
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        return self._released().recommend(users, n, user_items=user_items, filter=filter)

    @keyword_only("n")
    def recommend_fold_in(
        self, items: Ids, *, n: int = 10, filter: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `ReleasedNeighbours.recommend_fold_in`.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        n : int, default=10
            TODO.
        filter : object, default=None
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        return self._released().recommend_fold_in(items, n=n, filter=filter)

    recommend_guest = renamed_method("recommend_guest", "recommend_fold_in")

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """As `ReleasedNeighbours.similar_items`.

        Parameters
        ----------
        items : array_like or scalar
            TODO.
        n : int, default=10
            TODO.

        Returns
        -------
        tuple
            TODO.
        """
        return self._released().similar_items(items, n)

    def save(self, path: Any) -> None:
        """Write the release to a file, for `ReleasedNeighbours.load`.

        Parameters
        ----------
        path : object
            TODO.
        """
        self._released().save(path)

    def _released(self) -> ReleasedNeighbours:
        if "release_" not in self.__dict__:
            raise NotFittedError("PrivateNeighbours: not fitted yet; call fit first.")
        return self.release_


def _public(catalogue: Any) -> Catalogue:
    if catalogue is None:
        raise ValueError(
            "PrivateNeighbours: catalogue must be given, a public column of ids: which items occur "
            "in the data would tell about it."
        )
    shelf = catalogue if isinstance(catalogue, Catalogue) else Catalogue(catalogue)
    if len(shelf) < 2:
        raise ValueError("PrivateNeighbours: catalogue must have at least 2 items.")
    return shelf


def _terms(told: dict[str, Any], paid: ReleaseOptions) -> ReleaseRequest:
    relation = None if paid["ledger"] is not None else told["relation"]
    asked = ReleaseOptions(**paid, relation=relation)  # type: ignore[typeddict-item]
    asked["contributions"] = told["per_user"] if told["unit"] == "user" else 1
    return ReleaseRequest.of("PrivateNeighbours", told["epsilon"], told["delta"], asked)


def _noise(request: ReleaseRequest, told: dict[str, Any], items: int) -> Noise:
    """The law, scale and cost of the noise that leaves pairs the least variance, and the cells."""
    touched = CountSensitivity.by(request.unit, request.relation, told["per_user"])
    exact = Fraction(request.epsilon)
    shape = _shape(told, items, touched, squared=False)
    scale = touched.l1(shape) / exact
    loss: Loss = LaplaceNoise(scale, touched.l1(shape), 1, relation=request.relation)
    choices: list[Noise] = [("Laplace", scale, loss, shape)]
    if request.delta:
        shape = _shape(told, items, touched, squared=True)
        norm = touched.l2_squared(shape)
        sigma = gaussian_sigma_l2(request.epsilon, request.delta, norm_squared=norm)
        rho = round_up(Fraction(norm) / (2 * sigma**2))
        choices.append(("Gaussian", sigma, Concentrated(rho, relation=request.relation), shape))
    choices = [choice for choice in choices if choice[1] <= noise.LARGEST]
    if not choices:
        raise ValueError(
            f"PrivateNeighbours: epsilon is {request.epsilon!r}, for which the noise would not fit "
            "into cells of 64 bits; raise it, or lower per_user."
        )
    return min(choices, key=lambda made: NoiseDistribution(made[0], float(made[1])).variance)


def _shape(told: dict[str, Any], items: int, touched: CountSensitivity, squared: bool) -> Shape:
    """The cells; unless told, items weigh a third of what pairs do in the norm of the noise."""
    sketched = told["width"] is not None
    width, depth = (told["width"], told["depth"]) if sketched else (items * (items - 1) // 2, 1)
    alone = Shape(items, 1, width, depth, told["seed"], sketched)
    if told["weight"] is not None:
        weight = told["weight"]
    elif squared:
        pairs = touched.pairs**2 * depth if sketched else touched.pairs
        weight = round((pairs / (3 * touched.items)) ** 0.5)
    else:
        weight = round(touched.pairs * depth / (3 * touched.items))
    return Shape(items, max(1, weight), alone.width, alone.depth, alone.seed, sketched)


def _plan(
    told: dict[str, Any],
    shelf: Catalogue,
    shape: Shape,
    law: tuple[str, Fraction, Loss],
    counts: np.ndarray,
) -> CalibratedRelease[ReleasedNeighbours]:
    kind, scale, loss = law

    def noisy(source: Source) -> dict[str, np.ndarray]:
        cells = counts.copy()
        add = noise.add_laplace if kind == "Laplace" else noise.add_gaussian
        add(cells, scale, source=source)
        return {"_cells": cells, **{name: each.copy() for name, each in shelf.arrays().items()}}

    parameters = dict(
        items=shape.items,
        kind=shelf.kind,
        weight=shape.weight,
        width=shape.width,
        depth=shape.depth,
        seed=shape.seed,
        sketched=shape.sketched,
        neighbours=told["neighbours"],
        noise=kind,
        scale=float(scale),
    )
    letter = "scale" if kind == "Laplace" else "sigma"
    table = "a count sketch of pairs" if shape.sketched else "counts of pairs"
    mechanism = (
        f"discrete {kind} noise, {letter} {float(scale):.6g}, on {shape.weight} times the counts "
        f"of {shape.items} items and on {table}, {shape.depth} x {shape.width} cells; at most "
        f"{told['per_user']} items of a user count"
    )
    return CalibratedRelease(ReleasedNeighbours, parameters, loss, mechanism, noisy)
