"""PrivateNeighbours: item-to-item recommendations from noisy counts of items and pairs."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.core.hashing import SEED
from sfumato.core.typing import Ids
from sfumato.core.validation import DELTA, Limit, integer, one_of, optional, positive
from sfumato.kernels.recommend import cooccurrence as kernels
from sfumato.privacy.accounting.calibration import gaussian_sigma_l2
from sfumato.privacy.accounting.losses import RELATIONS, Concentrated, LaplaceNoise, Loss
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.noise.distribution import NoiseDistribution
from sfumato.privacy.parameters import PRIVACY, Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseOptions, ReleaseRequest
from sfumato.privacy.rounding import round_up
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.private.inputs import check_privacy, payer
from sfumato.recommend.private.lists import ListPlan, PrivateLists, catalogue_of
from sfumato.recommend.private.released_neighbours import ReleasedNeighbours
from sfumato.recommend.private.user_sums import ItemSets
from sfumato.sketch import CountSketch

__all__ = ["UNITS", "CountSensitivity", "PrivateNeighbours", "Shape", "exact_cells"]

UNITS = ("event", "user")
LOW = 2.0  # epsilon up to which pairs of users are taken for lost in noise; 4 times in a sketch
BLOCK = 1 << 22  # pairs in memory at a time


@dataclass(frozen=True)
class CountSensitivity:
    """Largest number of item counts and of pair counts that one unit changes, each by 1."""

    items: int
    pairs: int
    replaced: bool

    @classmethod
    def by(cls, unit: str, relation: str, per_user: int) -> "CountSensitivity":
        """Return the sensitivity for a unit, an adjacency relation and a contribution bound."""
        replaced = relation == "replace"
        if unit == "event":
            return cls(2, 2 * (per_user - 1), replaced)
        return cls(per_user, per_user * (per_user - 1) // 2, replaced)

    def l1(self, shape: "Shape") -> int:
        """Return the L1 sensitivity of all cells."""
        return (self.items * shape.weight + self.pairs * shape.depth) * (2 if self.replaced else 1)

    def l2_squared(self, shape: "Shape") -> int:
        """Return the squared L2 sensitivity of all cells."""
        # In a table each pair has its own cell; in a row of a sketch all may meet in one.
        pairs = shape.depth * self.pairs**2 if shape.sketched else self.pairs
        return (self.items * shape.weight**2 + pairs) * (4 if self.replaced else 1)


@dataclass(frozen=True)
class Shape:
    """Cells: `weight` times the count of each item, then depth x width cells of pairs."""

    items: int
    weight: int
    width: int
    depth: int
    seed: int
    sketched: bool

    @property
    def cells(self) -> int:
        """Number of all cells."""
        return self.items + self.width * self.depth


def exact_cells(sets: ItemSets, shape: Shape) -> np.ndarray:
    """Return the exact cells of users' item sets, int64, which add up over users.

    For the curator only.
    """
    items, starts = sets.items, sets.starts
    cells = np.zeros(shape.cells, np.int64)
    cells[: shape.items] = shape.weight * np.bincount(items, minlength=shape.items)
    if shape.sketched:
        cells[shape.items :] = _sketched(items, starts, shape)
    else:
        kernels.add_pairs(items, starts, np.ones(starts.size - 1, np.int64), cells[shape.items :])
    return cells


def _sketched(items: np.ndarray, starts: np.ndarray, shape: Shape) -> np.ndarray:
    """Return the cells of a count sketch of the pairs, row by row."""
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


class PrivateNeighbours(PrivateLists):
    """Item-based recommender from differentially private counts of items and of pairs.

    "Users who have this also have that". The result of `fit` is `release_`, which may be published.
    It protects events or users, with or without a delta, in a table or a sketch; for lists that
    protect users, `PrivateLinearItems` needs less noise.

    Parameters
    ----------
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    per_user : int
        Largest number of items counted per user, from 2 to 32768; must be public. Laplace noise for
        unit "user" grows with its square; Gaussian noise, and any noise for unit "event", in
        proportion to it.
    delta : float, default=0.0
        Privacy parameter delta, from 0 to below 1. Above 0, Gaussian noise is used where its
        variance is smaller.
    unit : {"event", "user"}, default="user"
        What is protected: one event, or all events of a user.
    relation : {"add/remove", "replace"}, default="add/remove"
        Adjacency of data sets. With a ledger, the default is that of the ledger's data set, and any
        other is refused.
    width : int or None, default=None
        Cells per row of a count sketch of the pairs, from 2 to 2**31; None stores a table of all
        pairs.
    depth : int, default=1
        Rows of the count sketch, from 1 to 32. Noise grows with its square root, so 1 is best.
    weight : int or None, default=None
        Factor by which item counts are multiplied before noise is added, from 1 to 2**31; None
        gives them a quarter of the budget; three quarters for unit "user" up to epsilon 2, or 8 if
        pairs are in a sketch.
    neighbours : int, default=100
        Largest number of neighbours per item, from 1 to 2**20.
    seed : int, default=0
        Seed of the sample of a user's items and of the sketch. The noise has no seed.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta, unit, relation and the ledger
        arguments of `fit`.

    Attributes
    ----------
    release_ : ReleasedNeighbours
        The private release.

    Notes
    -----
    **Guarantee.** `release_` is (epsilon, delta)-differentially private for one unit under
    `relation`. At most `per_user` different items of each user are counted, a sample keyed by the
    user's id. Then adding or removing a user changes `per_user` item counts and `per_user *
    (per_user - 1) / 2` pair counts by 1 each; an event changes 2 and `2 * (per_user - 1)`, since it
    may displace another item from the sample. All counts are integers with discrete Laplace or
    Gaussian noise. The catalogue must be public; nothing else of the data is stored. Rows may be
    filtered beforehand by their own content only, such as the rating.

    Items whose counts are lost in the noise get no neighbours; if all are, or if no direction of
    the pair counts stands out of the noise, popularity decides.

    References
    ----------
    .. [1] McSherry, Mironov. "Differentially Private Recommender Systems". KDD 2009.
       https://doi.org/10.1145/1557019.1557090
    .. [2] Melis, Danezis, De Cristofaro. "Efficient Private Statistics with Succinct Sketches".
       NDSS 2016 (counts of pairs in a count sketch). https://arxiv.org/abs/1508.06110

    Examples
    --------
    >>> from sfumato.data import Interactions
    >>> baskets = Interactions(["ann", "ann", "bob"], ["tea", "milk", "tea"], [1, 1, 1])
    >>> model = PrivateNeighbours(epsilon=1, per_user=2)
    >>> model = model.fit(baskets, catalogue=["tea", "milk", "rum"])
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
        self.epsilon: float | None
        self.delta: float
        self.per_user: int
        self.epsilon, self.delta, self.per_user = epsilon, delta, per_user
        self.unit: str
        self.relation: str
        self.unit, self.relation = unit, relation
        self.width: int | None
        self.depth: int
        self.weight: int | None
        self.width, self.depth, self.weight = width, depth, weight
        self.neighbours: int
        self.seed: int
        self.privacy: Privacy | None
        self.neighbours, self.seed, self.privacy = neighbours, seed, privacy

    def _planned(self, catalogue: Any, paid: dict[str, Any], source: Source | None) -> ListPlan:
        settings = self._limited()
        items = catalogue_of("PrivateNeighbours", catalogue)
        check_privacy("PrivateNeighbours", self.privacy, settings)
        who = payer("PrivateNeighbours", self.privacy, **paid)
        options = ReleaseOptions(**who, source=source, unit=settings["unit"])  # type: ignore[typeddict-item]
        bundled = None if self.privacy is None else self.privacy.relation
        request = _request(settings, options, bundled)
        kind, scale, loss, shape = _noise(request, settings, len(items))
        request.check_room(8 * shape.cells)

        def calibrated(sets: Any) -> CalibratedRelease[ReleasedNeighbours]:
            cells = sets.total(lambda part: exact_cells(part, shape))
            return _calibrated(settings, items, shape, (kind, scale, loss), cells)

        return ListPlan(request, items, calibrated, settings["per_user"], shape.seed)

    def similar_items(self, items: Ids, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """Find the n items most similar to each item.

        See `ReleasedNeighbours.similar_items`.

        Parameters
        ----------
        items : array_like or scalar
            Item ids of the catalogue, or a single id.
        n : int, default=10
            Number of items to return per item, at least 1.

        Returns
        -------
        tuple of ndarray
            Item ids and weights, best first, both of shape (n_items, n), or (m,) with m <= n for a
            single item id.
        """
        self._released()
        return self.release_.similar_items(items, n)


def _request(settings: dict[str, Any], paid: ReleaseOptions, bundled: str | None) -> ReleaseRequest:
    """Return the validated release request; `bundled` is the relation of a `Privacy`, if any."""
    # The default leaves it to the ledger, and a given one is compared with it.
    given = bundled is not None or settings["relation"] != "add/remove"
    relation = settings["relation"] if given or paid["ledger"] is None else None
    requested = ReleaseOptions(**paid, relation=relation)  # type: ignore[typeddict-item]
    requested["contributions"] = settings["per_user"] if settings["unit"] == "user" else 1
    return ReleaseRequest.of("PrivateNeighbours", settings["epsilon"], settings["delta"], requested)


def _noise(request: ReleaseRequest, settings: dict[str, Any], items: int) -> Noise:
    """Return kind, scale and loss of the noise with the least variance on pairs, and the cells."""
    sensitivity = CountSensitivity.by(request.unit, request.relation, settings["per_user"])
    exact = Fraction(request.epsilon)
    shape = _shape(settings, items, sensitivity, squared=False)
    scale = sensitivity.l1(shape) / exact
    loss: Loss = LaplaceNoise(scale, sensitivity.l1(shape), 1, relation=request.relation)
    choices: list[Noise] = [("Laplace", scale, loss, shape)]
    if request.delta:
        shape = _shape(settings, items, sensitivity, squared=True)
        norm = sensitivity.l2_squared(shape)
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


def _shape(
    settings: dict[str, Any], items: int, sensitivity: CountSensitivity, squared: bool
) -> Shape:
    """Return the cells; by default items get a third of the weight of pairs in the noise's norm.

    Three times that of pairs where the noise on pairs of whole users would hide them anyway.
    """
    sketched = settings["width"] is not None
    width, depth = (
        (settings["width"], settings["depth"]) if sketched else (items * (items - 1) // 2, 1)
    )
    alone = Shape(items, 1, width, depth, settings["seed"], sketched)
    hidden = settings["unit"] == "user" and settings["epsilon"] <= LOW * (4 if sketched else 1)
    ratio = 3.0 if hidden else 1 / 3
    if settings["weight"] is not None:
        weight = settings["weight"]
    elif squared:
        pairs = sensitivity.pairs**2 * depth if sketched else sensitivity.pairs
        weight = round((ratio * pairs / sensitivity.items) ** 0.5)
    else:
        weight = round(ratio * sensitivity.pairs * depth / sensitivity.items)
    return Shape(items, max(1, weight), alone.width, alone.depth, alone.seed, sketched)


def _calibrated(
    settings: dict[str, Any],
    items: Catalogue,
    shape: Shape,
    noise_model: tuple[str, Fraction, Loss],
    counts: np.ndarray,
) -> CalibratedRelease[ReleasedNeighbours]:
    """Return the release with its parameters, loss, mechanism and function that adds the noise."""
    kind, scale, loss = noise_model

    def noisy(source: Source) -> dict[str, np.ndarray]:
        cells = counts.copy()
        add = noise.add_laplace if kind == "Laplace" else noise.add_gaussian
        add(cells, scale, source=source)
        return {"_cells": cells, **{name: each.copy() for name, each in items.arrays().items()}}

    parameters = dict(
        items=shape.items,
        kind=items.kind,
        weight=shape.weight,
        width=shape.width,
        depth=shape.depth,
        seed=shape.seed,
        sketched=shape.sketched,
        neighbours=settings["neighbours"],
        noise=kind,
        scale=float(scale),
    )
    letter = "scale" if kind == "Laplace" else "sigma"
    table = "a count sketch of pairs" if shape.sketched else "counts of pairs"
    mechanism = (
        f"discrete {kind} noise, {letter} {float(scale):.6g}, on {shape.weight} times the counts "
        f"of {shape.items} items and on {table}, {shape.depth} x {shape.width} cells; at most "
        f"{settings['per_user']} items of a user count"
    )
    return CalibratedRelease(ReleasedNeighbours, parameters, loss, mechanism, noisy)
