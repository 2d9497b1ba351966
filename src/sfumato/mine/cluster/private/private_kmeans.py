"""PrivateKMeans and PrivateBFR: clusters by noisy counts and sums of rows in a public box."""

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sfumato.core.bounds import BOUNDS, Box, Pair
from sfumato.core.tables import described
from sfumato.core.validation import Limit, between, integer, optional, positive
from sfumato.kernels.mine.cluster import nearest_centres as kernels
from sfumato.mine.cluster.private.noisy_sums import NoisyClusters, RowSource, StagePlan
from sfumato.mine.cluster.private.private_starts import Partition, centres_of, spread_centres
from sfumato.mine.cluster.private.released import CLUSTERS, ReleasedBFR, ReleasedKMeans
from sfumato.privacy.noise.discrete import LARGEST
from sfumato.privacy.parameters import PRIVACY, Privacy
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import CalibratedRelease, ReleaseRequest

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["PrivateBFR", "PrivateKMeans"]

LIMITS: dict[str, Limit] = {
    "n_clusters": CLUSTERS,
    "epsilon": optional(positive),
    "delta": between(0, 1),
    "bounds": BOUNDS,
    "rounds": integer(1, 100),
    "cells": optional(integer(0, 2**20)),
    "seed": integer(0, 2**64 - 1),
    "privacy": PRIVACY,
}
FIRST = Fraction(2, 5)  # of the budget for the partition that gives the first centres
PER_CLUSTER = 16  # cells of the partition per cluster


class _PrivateClusters:
    """Base of both: the stages, their noise, and the release."""

    KIND: ClassVar[Any]
    SQUARES: ClassVar[bool]

    n_clusters: int
    epsilon: float | None
    delta: float
    bounds: Pair
    rounds: int
    cells: int | None
    seed: int
    privacy: Privacy | None
    release_: Any

    def _store(self, values: dict[str, Any]) -> None:
        """Check and store the arguments of `__init__`."""
        for name, limit in LIMITS.items():
            if name in values:
                setattr(self, name, limit.check(self._owner, name, values[name]))

    @property
    def _owner(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        names = ("n_clusters", "epsilon", "delta", "rounds", "cells", "seed", "privacy")
        return described(
            self,
            **{
                name: getattr(self, name) for name in names if getattr(self, name, None) is not None
            },
        )

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        ledger: Any = None,
        dataset: str | None = None,
        unit: str | None = None,
        relation: str | None = None,
        contributions: int | None = None,
        release_id: str | None = None,
        source: Source | None = None,
        engine: "Engine | None" = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Make the private release of rows.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_features), or callable
            Rows, each read on its own: coordinates outside the bounds are clipped to them, a row
            that is not all numbers is left out, and none is refused. A function without arguments
            that returns an iterator of such parts is called once for each pass, so that rows need
            not fit into memory; a part that is no table of so many columns is left out.
        y : object, default=None
            Not used.
        ledger : Ledger, path_like or None, default=None
            Ledger that is charged; None charges none.
        dataset : str or None, default=None
            Data set of the ledger.
        unit : str or None, default=None
            Unit of privacy; None for "event", a row, or that of the data set.
        relation : {"add/remove", "replace"} or None, default=None
            Adjacency; None for "add/remove", or that of the data set.
        contributions : int or None, default=None
            Largest number of rows of one unit; must be given unless the unit is "event".
        release_id : str or None, default=None
            Name of the release; repeating it returns the stored release at no cost.
        source : Source or None, default=None
            Source of the noise, for tests only.
        engine : Engine or None, default=None
            Where rows are summed, `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`; X
            is then what the engine reads. The release is the same: partitions return integers,
            and noise is added once, here. None for this process.
        columns : sequence of str or None, default=None
            Names of the columns of numbers; with an engine, and only with it.

        Returns
        -------
        Self
            The object itself, with `release_`.
        """
        given: dict[str, Any] = dict(
            ledger=ledger,
            dataset=dataset,
            unit=unit,
            relation=relation,
            contributions=contributions,
            release_id=release_id,
        )
        options: Any = {name: value for name, value in given.items() if value is not None}
        options |= {"privacy": self.privacy, "source": source}
        request = ReleaseRequest.of(self._owner, self.epsilon, self.delta, options)
        plan = self._plan(request)
        rows = self._source(X, engine, columns)
        rows.check()  # the container; rows are read after the charge
        self.release_ = self._calibrated(plan, rows).publish(request)
        return self

    def _source(
        self, data: Any, engine: "Engine | None", columns: Sequence[str] | None
    ) -> RowSource:
        """The rows, of this process or of an engine."""
        box = Box(*self.bounds)
        if (engine is None) != (columns is None):
            raise ValueError(f"{self._owner}: columns must be given with an engine, and only so.")
        if engine is None or columns is None:
            return RowSource(self._owner, data, box)
        if len(columns) != box.dimension:
            raise ValueError(
                f"{self._owner}: columns must name {box.dimension}, as many as bounds have, not "
                f"{len(columns)}."
            )
        return RowSource(self._owner, None, box, engine.rows(data, columns, private=True))

    def _plan(self, request: ReleaseRequest) -> StagePlan:
        """The noise of all stages, from public numbers."""
        dimension = len(self.bounds[0])
        last = 2 * dimension if self.SQUARES else dimension
        rounds = self.rounds
        columns, parts = [dimension] * (rounds - 1) + [last], [Fraction(1, rounds)] * rounds
        if self._partition.size > 1:
            parts = [FIRST, *((1 - FIRST) * part for part in parts)]
            columns = [dimension, *columns]
        plan = StagePlan(
            request.epsilon,
            request.delta,
            request.events,
            dimension,
            tuple(columns),
            tuple(parts),
            request.relation,
        )
        if max(plan.scales) > LARGEST:
            raise ValueError(
                f"{self._owner}: epsilon must be larger for these columns and rounds: the noise "
                "would not fit into 64 bits."
            )
        return plan

    @property
    def _partition(self) -> Partition:
        cells = PER_CLUSTER * self.n_clusters if self.cells is None else self.cells
        return Partition(max(cells, 1), len(self.bounds[0]), self.seed)

    def _calibrated(self, plan: StagePlan, rows: RowSource) -> CalibratedRelease[Any]:
        scales = ", ".join(f"{float(scale):.6g}" for scale in plan.scales)
        name = "sigma" if plan.delta else "scale"
        what = "N, SUM and at last SUMSQ" if self.SQUARES else "N and SUM"
        first = "cells of a public partition, then of " if self._partition.size > 1 else ""
        mechanism = (
            f"discrete {plan.kind} noise, {name} {scales}, on {what} of {first}the rows nearest to "
            f"each of {self.n_clusters} centres, {self.rounds} times; a row adds {plan.unit} to N"
        )

        def noisy(source: Source) -> dict[str, np.ndarray]:
            return self._arrays(plan, rows, source)

        parameters = dict(n_clusters=self.n_clusters, bounds=self.bounds)
        return CalibratedRelease(self.KIND, parameters, plan.loss, mechanism, noisy)

    def _arrays(self, plan: StagePlan, rows: RowSource, source: Source) -> dict[str, np.ndarray]:
        """The stages in order, each from the noisy outcomes of those before it."""
        size, dimension, stage = self.n_clusters, plan.dimension, 0
        if self._partition.size > 1:
            cells = rows.cells(self._partition.size, self._partition.labels, False)
            centres = centres_of(plan.noisy(0, cells, source), size, self.seed)
            stage = 1
        else:
            centres = spread_centres(size, dimension, self.seed, np.zeros((0, dimension)))
        for at in range(stage, stage + self.rounds):
            last = at == len(plan.scales) - 1
            cells = rows.cells(size, _nearest(centres), last and self.SQUARES)
            found = plan.noisy(at, cells, source)
            centres = found.means(centres)
        return self._packed(found, centres)

    def _packed(self, found: NoisyClusters, centres: np.ndarray) -> dict[str, np.ndarray]:
        box = Box(*self.bounds)
        half = box.widths / 2
        arrays = {
            "_centres": np.clip(box.centre + centres * half, box.low, box.high),
            "_counts": found.counts,
            "_deviation": np.array([found.count_deviation]),
        }
        if self.SQUARES:
            arrays["_variances"] = found.variances(centres) * np.square(half)
        return arrays


def _nearest(centres: np.ndarray) -> Any:
    """The labels of rows: the first of the nearest centres, which is public."""
    public = np.ascontiguousarray(centres)

    def labels(rows: np.ndarray) -> np.ndarray:
        found, squared = np.empty(len(rows), np.int64), np.empty(len(rows))
        kernels.nearest(rows, public, found, squared)
        return found

    return labels


class PrivateKMeans(_PrivateClusters):
    """K-means clustering with differential privacy for each row.

    The result of `fit` is `release_`, which may be published.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, from 1 to 4096; must be public.
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    delta : float, default=0.0
        Privacy parameter delta, from 0 to below 1. With 0 the noise is discrete Laplace, above 0 it
        is discrete Gaussian, which is less for many columns.
    bounds : tuple of (low, high)
        Public bounds with one number per column; never taken from the rows.
    rounds : int, default=2
        Number of times that centres move to noisy means, from 1; must be public.
    cells : int or None, default=None
        Largest number of cells of the public partition whose noisy counts and sums give the first
        centres; None for 16 per cluster. With 0 or 1 the first centres see no data at all, and the
        rounds have the whole budget, as in DPLloyd; take 5 rounds or more then.
    seed : int, default=0
        Seed of the partition and of first centres; it need not be secret.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta and the ledger arguments of `fit`.

    Attributes
    ----------
    release_ : ReleasedKMeans
        The private release.

    Notes
    -----
    **Guarantee.** `release_` is (epsilon, delta)-differentially private for one unit of at most
    `contributions` rows, by default one row, under the stated adjacency.

    Proof. A row is clipped to the box and each coordinate rounded to an integer of at most S = 4095
    in size, by this row and public numbers alone. Stages follow each other, and the noisy outcome
    of each is public for the next. In a stage every row is in one of several groups, by this row
    and the outcomes so far: first the cells of a partition that sees no data, then the nearest of
    the centres. Of its group it adds u to the cell of N and its integers to the cells of SUM. So a
    row that comes or goes changes the cells by at most u + d S in L1 norm, and u**2 + d S**2 in
    squared L2 norm, m rows by at most m and m**2 times that, and a replaced one counts twice. With
    delta 0, Laplace noise of scale (u + d S) m / epsilon_s costs epsilon_s, and these sum to
    epsilon [1]_. With delta above 0, Gaussian noise is sized for the L2 norm, and all stages
    together cost one loss of (epsilon, delta) by the composition of Gaussian mechanisms. Centres,
    the choice of occupied cells, k-means over cells and all else use noisy cells only. Noise is
    exact, and nothing of the rows is a float on the way to a cell: floats only choose groups.

    The partition has 2/5 of the budget, the rounds equal parts of the rest. u makes the error of a
    noisy mean smallest for clusters at half-way positions [2]_. A centre whose noisy count is not
    above two standard deviations of its noise stays where it is.

    References
    ----------
    .. [1] Dwork, Roth. "The Algorithmic Foundations of Differential Privacy". Foundations and
       Trends in Theoretical Computer Science 9, 2014, section 3.5 (adaptive composition).
       https://doi.org/10.1561/0400000042
    .. [2] Su, Cao, Li, Bertino, Jin. "Differentially private k-means clustering". CODASPY 2016,
       section 4 (DPLloyd, and grids as first centres). https://doi.org/10.1145/2857705.2857708

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(x, 0.5, (2000, 2)) for x in (-3, 3)])
    >>> release = PrivateKMeans(2, 5.0, bounds=([-6, -6], [6, 6])).fit(rows).release_
    >>> release.statement.epsilon, sorted(release.cluster_centers.round().tolist())
    (5.0, [[-3.0, -3.0], [3.0, 3.0]])
    """

    KIND = ReleasedKMeans
    SQUARES = False

    release_: ReleasedKMeans

    def __init__(
        self,
        n_clusters: int,
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        bounds: Any,
        rounds: int = 2,
        cells: int | None = None,
        seed: int = 0,
        privacy: Privacy | None = None,
    ) -> None:
        self._store(locals())


class PrivateBFR(_PrivateClusters):
    """Clusters as noisy N, SUM and SUMSQ, with differential privacy for each row.

    The result of `fit` is `release_`, which may be published. It takes two passes over the rows,
    and stores none: there is no compression or retained set, whose rows no noise could hide.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, from 1 to 4096; must be public.
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    delta : float, default=0.0
        Privacy parameter delta, from 0 to below 1. With 0 the noise is discrete Laplace, above 0 it
        is discrete Gaussian, which is less for many columns.
    bounds : tuple of (low, high)
        Public bounds with one number per column; never taken from the rows.
    cells : int or None, default=None
        As in `PrivateKMeans`.
    seed : int, default=0
        Seed of the partition and of first centres; it need not be secret.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta and the ledger arguments of `fit`.

    Attributes
    ----------
    release_ : ReleasedBFR
        The private release.

    Notes
    -----
    **Guarantee.** `release_` is (epsilon, delta)-differentially private for one unit of at most
    `contributions` rows, by default one row, under the stated adjacency.

    Proof. As of `PrivateKMeans` with one round, in which a row also adds the squares of its
    integers, divided by S and rounded down, to the cells of SUMSQ. Each is from 0 to S, so that d
    more cells change by at most S: u + 2 d S in L1 norm, and u**2 + 2 d S**2 in squared L2 norm.
    The clusters of the second pass are fixed by the noisy cells of the first.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(x, 0.5, (2000, 2)) for x in (-3, 3)])
    >>> release = PrivateBFR(2, 5.0, bounds=([-6, -6], [6, 6])).fit(rows).release_
    >>> sorted(release.cluster_centers.round().tolist())
    [[-3.0, -3.0], [3.0, 3.0]]
    """

    KIND = ReleasedBFR
    SQUARES = True

    release_: ReleasedBFR
    rounds = 1

    def __init__(
        self,
        n_clusters: int,
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        bounds: Any,
        cells: int | None = None,
        seed: int = 0,
        privacy: Privacy | None = None,
    ) -> None:
        self._store(locals())
