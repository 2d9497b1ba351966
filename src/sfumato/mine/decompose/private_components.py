"""PrivatePCA: principal components from noisy sums of products, with a proved guarantee."""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.arrays import private_points, without_rows
from sfumato.core.bounds import BOUNDS, Box
from sfumato.core.estimator_data import check_feature_names
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import DELTA, Limit, checked_values, flag, integer, optional, positive
from sfumato.errors import ParameterError, ParameterTypeError
from sfumato.mine.decompose.principal_components import ComponentEstimator, component_count
from sfumato.privacy.parameters import Privacy, cloned_ledger, separate_parameters
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import ReleaseRequest
from sfumato.privacy.statement import PrivacyStatement
from sfumato.sketch.kernel_sums.moments import Moments, ReleasedMoments

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["PrivatePCA"]

OWNER = "PrivatePCA"
OPTIONS = ("ledger", "dataset", "unit", "relation", "contributions", "release_id")
BITS, LEAST = 14, 8  # binary digits of a value; fewer leave room for large noise
ROOM = 39  # binary digits of a noise scale, in units of squared values
LIMITS: dict[str, Limit] = {
    "epsilon": optional(positive),
    "delta": DELTA,
    "bounds": BOUNDS,
    "whiten": flag,
    "contributions": optional(integer(1, 2**31)),
}


class PrivatePCA(ComponentEstimator):
    """Principal components with differential privacy for each row.

    Parameters
    ----------
    n_components : int, float or None, default=None
        Number of components, or the fraction of the (noisy) variance, between 0 and 1; None for as
        many as columns. It must be public.
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    delta : float, default=0.0
        Privacy parameter delta, from 0 to below 1. Above 0 the noise may be Gaussian, which is less
        for many columns.
    bounds : tuple of (low, high) or None, default=None
        Public bounds of the columns, one number or one per column; values outside are clipped.
        Required; never taken from the data.
    whiten : bool, default=False
        Whether `transform` divides by the standard deviation along each component.
    ledger : Ledger, path_like or None, default=None
        Ledger that is charged; None charges none.
    dataset : str or None, default=None
        Data set of the ledger.
    unit : str or None, default=None
        Unit of privacy; None for "event", or that of the data set.
    relation : str or None, default=None
        "add/remove" or "replace"; None for "add/remove", or that of the data set.
    contributions : int or None, default=None
        Largest number of rows of one unit.
    release_id : str or None, default=None
        Name of the release; repeating it returns the stored one at no cost.
    privacy : Privacy or None, default=None
        A `sfumato.privacy.Privacy` in place of epsilon, delta and all from `ledger` on.

    Attributes
    ----------
    release_ : ReleasedMoments
        The noisy sums, which may be published; everything below follows from them.
    statement_ : PrivacyStatement
        The guarantee.
    components_ : ndarray of shape (n_components, columns)
        Orthonormal directions, by decreasing variance.
    explained_variance_ : ndarray of shape (n_components,)
        Variance along each as estimated, at least 0.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Its fraction of the estimated variance of all columns.
    mean_ : ndarray of shape (columns,)
        Estimated mean of each column, within the bounds.
    n_components_ : int
        Number of components.
    n_features_in_ : int
        Number of columns.

    Notes
    -----
    **Guarantee.** All attributes are (epsilon, delta)-differentially private for one unit under the
    stated relation: they are computed from `release_` alone (post-processing), the release of
    `sfumato.sketch.Moments`, which has sums of products of columns scaled by their bounds, with
    exact integer noise. The number of rows is not public: a noisy one is used. Rows are read one
    by one; one that is not all numbers is left out, and none is refused.

    The noise of the covariance falls as 1 / n. It grows with the number of sums, about half the
    square of the number of columns, for delta 0, and with its root for Gaussian noise. So wide
    bounds, many columns and few rows give directions of noise.

    References
    ----------
    .. [1] Dwork, Talwar, Thakurta, Zhang. "Analyze Gauss: optimal bounds for privacy-preserving
       principal component analysis". STOC 2014, Algorithm 1 (noise on the second moments).
       https://doi.org/10.1145/2591796.2591883

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> draws = np.random.default_rng(0)
    >>> table = draws.normal(size=(20_000, 1)) @ [[0.6, 0.8]] + draws.normal(0, 0.1, (20_000, 2))
    >>> model = PrivatePCA(1, epsilon=1, bounds=(-4, 4)).fit(table, source=InsecureSeededSource(1))
    >>> model.components_.round(1), model.statement_.epsilon
    (array([[0.6, 0.8]]), 1.0)
    """

    release_: ReleasedMoments
    statement_: PrivacyStatement

    def __init__(
        self,
        n_components: Any = None,
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        bounds: Any = None,
        whiten: bool = False,
        ledger: Any = None,
        dataset: str | None = None,
        unit: str | None = None,
        relation: str | None = None,
        contributions: int | None = None,
        release_id: str | None = None,
        privacy: Privacy | None = None,
    ) -> None:
        self.bounds: Any
        self.n_components, self.whiten, self.bounds = n_components, whiten, bounds
        self.epsilon: float | None
        self.delta: float
        self.privacy: Privacy | None
        self.epsilon, self.delta, self.privacy = epsilon, delta, privacy
        self.ledger: Any
        self.dataset: str | None
        self.release_id: str | None
        self.ledger, self.dataset, self.release_id = ledger, dataset, release_id
        self.unit: str | None
        self.relation: str | None
        self.contributions: int | None
        self.unit, self.relation, self.contributions = unit, relation, contributions

    def __sklearn_clone__(self) -> Self:
        lent = copy.copy(self)
        lent.ledger = cloned_ledger(self.ledger)  # a `Privacy` is cloned by a rule of its own
        twin: Self = super(PrivatePCA, lent).__sklearn_clone__()
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        lent = {**self.__dict__, "ledger": cloned_ledger(self.ledger)}
        twin.__dict__.update(copy.deepcopy(lent, memo))
        return twin

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True  # noise is never the same
        return tags

    def fit(
        self,
        X: Matrix,
        y: Column | None = None,
        *,
        source: Source | None = None,
        engine: "Engine | None" = None,
        columns: Sequence[str] | None = None,
    ) -> Self:
        """Charge the budget, release noisy sums, and find their components.

        Parameters
        ----------
        X : array_like of shape (n, columns)
            Rows; any number of them. What a row contains is never refused.
        y : array_like or None, default=None
            Not used.
        source : Source or None, default=None
            Source of the noise, for tests only.
        engine : Engine or None, default=None
            Where rows are summed, `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`; X
            is then what the engine reads. The release is the same: partitions return integers,
            the budget is charged once all rows were read, and noise is added once, here. None for
            this process.
        columns : sequence of str or None, default=None
            Names of the columns of numbers; with an engine, and only with it.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        if (engine is None) != (columns is None):
            raise ValueError(f"{OWNER}: columns must be given with an engine, and only so.")
        empty = without_rows(X) if columns is None else _no_rows(columns)
        check_feature_names(self, X if columns is None else empty, reset=True)
        width = self._private_rows(empty, plain).shape[1]
        box = Box.of(OWNER, plain["bounds"], width)
        # The number of components is checked by the number of columns before anything is paid.
        _check_count(self.n_components, width)
        with _naming():
            moments = Moments(box.bounds, bits=_bits(plain))
            options: Any = {name: plain[name] for name in OPTIONS if plain[name] is not None}
            if source is not None:
                options["source"] = source
            if not _is_stored(plain, options):  # a stored release needs no rows
                if engine is None or columns is None:
                    moments.update(self._private_rows(X, plain))
                else:
                    moments = _engine_moments(moments, engine, X, list(columns))
            release = moments.release(plain["epsilon"], plain["delta"], **options)
        return self._take(release)

    @classmethod
    def from_release(
        cls, release: ReleasedMoments, n_components: Any = None, *, whiten: bool = False
    ) -> Self:
        """Find the components of sums that were released before, at no further cost.

        Parameters
        ----------
        release : ReleasedMoments
            Release of a `sfumato.sketch.Moments` of degree 1, of all columns and the target.
        n_components : int, float or None, default=None
            As in the class.
        whiten : bool, default=False
            As in the class.

        Returns
        -------
        Self
            A fitted object.
        """
        if not isinstance(release, ReleasedMoments) or release.degree != 1:
            raise TypeError(f"{OWNER}: release must be ReleasedMoments of degree 1.")
        made = cls(n_components, bounds=release.bounds, whiten=flag.check(OWNER, "whiten", whiten))
        _check_count(n_components, release.dimension)
        made.n_features_in_ = release.dimension
        return made._take(release)

    def _take(self, release: ReleasedMoments) -> Self:
        """Set everything that follows from a release."""
        mean, covariance = _covariance(release)
        self._solve(covariance)
        self.mean_, self.release_, self.statement_ = mean, release, release.statement
        return self

    def _check(self) -> dict[str, Any]:
        """The parameters in plain types, with those of `privacy` expanded."""
        defaults = {**dict.fromkeys(self.get_params(deep=False)), "delta": 0.0}
        given = separate_parameters(OWNER, self.get_params(deep=False), defaults)
        plain = {**given, **checked_values(OWNER, LIMITS, given)}
        if plain["epsilon"] is None:
            raise ParameterError.of(OWNER, "epsilon", "must be given, or a privacy that has it.")
        return plain

    def _private_rows(self, X: Any, plain: dict[str, Any]) -> np.ndarray:
        """All rows as numbers, NaN for what is none; refuses only what is public."""
        known = len(plain["bounds"][0])
        one_for_all = all(np.ndim(side) == 0 for side in self.bounds)
        points = private_points(OWNER, X, None if one_for_all else known)
        if points.shape[1] < 2:
            raise ValueError(
                f"{OWNER}: X must have at least 2 columns; it has {points.shape[1]} feature(s)."
            )
        self.n_features_in_: int = points.shape[1]
        return points


def _no_rows(columns: Sequence[str]) -> pa.Table:
    return pa.table({name: pa.array([], pa.float64()) for name in columns})


def _engine_moments(empty: Moments, engine: "Engine", source: Any, columns: list[str]) -> Moments:
    """The sums of all partitions of an engine, whose rows are read one by one."""

    def fold(batches: Iterator[pa.RecordBatch]) -> Moments:
        moments = empty.copy()
        for batch in batches:
            table = pa.Table.from_batches([batch]).select(columns)
            moments.update(private_points(OWNER, table, len(columns)))
        return moments

    rows = engine.rows(source, columns, private=True)
    made: Moments = rows.fold(fold, lambda left, right: left.merge(right))
    return made


def _is_stored(plain: dict[str, Any], options: Any) -> bool:
    """Whether a ledger has the bytes of this release; one that must pay refuses it here."""
    request = ReleaseRequest.of(OWNER, plain["epsilon"], plain["delta"], options)
    if request.ledger is None or request.release_id is None:
        return False
    try:
        request.ledger.fetch(request.release_id)
    except ValueError:
        return False
    return True


def _check_count(n: Any, columns: int) -> None:
    component_count(OWNER, n, np.ones(columns))


def _bits(plain: dict[str, Any]) -> int:
    """Binary digits of a value: fewer if epsilon is so small that noise would not fit a cell."""
    events = 2 * (plain["contributions"] or 1)  # of one unit, if it is replaced
    room = ROOM + math.floor(math.log2(plain["epsilon"] / events))
    return min(max(room // 2, LEAST), BITS)


def _covariance(release: ReleasedMoments) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all columns, in their own units, from noisy sums of scaled ones."""
    sums, box = release.matrix(), Box(*release.bounds)
    size = max(release.size(), release.noise_error()[0], 1.0)
    mean = np.clip(sums[0, 1:] / size, -1.0, 1.0)
    covariance = sums[1:, 1:] / size - np.outer(mean, mean)
    halves = box.widths / 2
    return box.centre + halves * mean, covariance * np.outer(halves, halves)


@contextmanager
def _naming() -> Iterator[None]:
    """Make errors of the sketch inside begin with the name of the estimator."""
    try:
        yield
    except (ParameterError, ParameterTypeError) as error:
        raise error.renamed(OWNER) from None
    except ValueError as error:
        if error.args and str(error.args[0]).startswith("Moments: "):
            error.args = (f"{OWNER}: {str(error.args[0]).removeprefix('Moments: ')}",)
        raise
