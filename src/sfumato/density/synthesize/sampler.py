"""PrivateTableSampler: synthetic rows of mixed columns from noisy marginals, proved private."""

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.estimator import BaseEstimator, not_fitted
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import (
    DELTA,
    RANDOM_STATE,
    Limit,
    check_random_state,
    checked_values,
    integer,
    optional,
    positive,
)
from sfumato.density.synthesize.columns import COLUMNS, ColumnSpec, codes_of
from sfumato.density.synthesize.marginals import Layout, ReleasedMarginals, planned_marginals
from sfumato.errors import ParameterError
from sfumato.privacy.parameters import Privacy, cloned_ledger, separate_parameters
from sfumato.privacy.random_source import Source
from sfumato.privacy.release import ReleaseRequest
from sfumato.privacy.statement import PrivacyStatement

if TYPE_CHECKING:
    from sfumato.engine import Engine

__all__ = ["PrivateTableSampler"]

OWNER = "PrivateTableSampler"
OPTIONS = ("ledger", "dataset", "unit", "relation", "contributions", "release_id")
LIMITS: dict[str, Limit] = {
    "columns": COLUMNS,
    "bins": integer(2, 2**12),
    "groups": integer(2, 2**6),
    "epsilon": optional(positive),
    "delta": DELTA,
    "contributions": optional(integer(1, 2**31)),
    "random_state": RANDOM_STATE,
}


class PrivateTableSampler(BaseEstimator):
    """Synthetic rows of a table of numbers, integers and categories, private for each row.

    Use it to publish a table that resembles a private one, also to train models on. It keeps the
    distribution of every column within each class, and of pairs of columns along a tree that it
    chooses by the data: the pairs that are farthest from independence. `SketchSampler` is for
    points of few numeric columns alone.

    Parameters
    ----------
    columns : dict of str to tuple, range or list
        What is public of each column, never taken from the data: a tuple (low, high) for numbers,
        which are clipped to it; a range for integers; a list for categories, texts or integers.
    target : str or None, default=None
        Column of categories by which all other columns are described: the class that models will
        predict. None for none.
    epsilon : float or None, default=None
        Privacy parameter epsilon, above 0. Required unless `privacy` gives it.
    delta : float, default=0.0
        Privacy parameter delta, from 0 to below 1. Above 0 the noise may be Gaussian, which is less
        for many columns.
    bins : int, default=256
        Equal cells of a column of numbers, or of more integers than that; from 2 to 4096. Noise
        merges cells by itself, so that more of them cost little.
    groups : int, default=16
        Parts of about equal (noisy) probability that a column is merged into in pairs; from 2 to
        64.
    ledger : Ledger, path_like or None, default=None
        Ledger that is charged before noise is drawn; None charges none.
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
    random_state : int, RandomState, Generator or None, default=None
        Seed of samples, never of noise; None for fresh randomness.

    Attributes
    ----------
    release_ : ReleasedMarginals
        The noisy tables, which may be published; all samples follow from them.
    statement_ : PrivacyStatement
        The guarantee.
    tree_ : list of (str, str)
        Pairs of columns whose joint distribution within each class is kept.
    size_ : float
        Noisy number of rows, at least 1.

    Notes
    -----
    **Guarantee.** All attributes and any number of samples are (epsilon, delta)-differentially
    private for one unit under the stated relation. Three integer tables get exact discrete noise:
    counts of cells of every column by class; for every pair of columns, the L1 distance of its
    counts to those that the noisy first table expects of independence, which one row moves by at
    most 1; and counts of the pairs of the tree of the largest noisy distances. The number of rows
    is never used, and a row with a cell that is no number or not listed is left out.

    How similar samples are to the data is measured, not proved: docs/density.md has the table.

    References
    ----------
    .. [1] Zhang, Cormode, Procopiuc, Srivastava, Xiao. "PrivBayes: private data release via
       Bayesian networks". SIGMOD 2014, sections 3 and 4. https://doi.org/10.1145/3134428
    .. [2] McKenna, Miklau, Sheldon. "Winning the NIST contest: a scalable and general approach to
       differentially private synthetic data". JPC 2021, section 4.2 (tree by L1 distances).
       https://arxiv.org/abs/2108.04978

    Examples
    --------
    >>> from sfumato.privacy.noise import InsecureSeededSource  # leave it out: for tests only
    >>> draws = np.random.default_rng(0)
    >>> height = draws.normal(170, 10, 20_000)
    >>> table = {"height": height, "tall": np.where(height > 175, "yes", "no")}
    >>> public = {"height": (100, 220), "tall": ["no", "yes"]}
    >>> model = PrivateTableSampler(public, target="tall", epsilon=1, random_state=0)
    >>> model.fit(pa.table(table), source=InsecureSeededSource(1)).tree_
    []
    >>> rows = model.sample(1000).to_pandas()
    >>> rows.groupby("tall")["height"].mean().round(-1).to_dict()
    {'no': 170.0, 'yes': 180.0}
    """

    release_: ReleasedMarginals
    statement_: PrivacyStatement
    tree_: list[tuple[str, str]]
    size_: float

    def __init__(
        self,
        columns: Any,
        *,
        target: str | None = None,
        epsilon: float | None = None,
        delta: float = 0.0,
        bins: int = 256,
        groups: int = 16,
        ledger: Any = None,
        dataset: str | None = None,
        unit: str | None = None,
        relation: str | None = None,
        contributions: int | None = None,
        release_id: str | None = None,
        privacy: Privacy | None = None,
        random_state: Any = None,
    ) -> None:
        self.columns, self.target, self.bins, self.groups = columns, target, bins, groups
        self.epsilon, self.delta, self.privacy = epsilon, delta, privacy
        self.ledger, self.dataset, self.release_id = ledger, dataset, release_id
        self.unit, self.relation, self.contributions = unit, relation, contributions
        self.random_state = random_state

    def __sklearn_clone__(self) -> Self:
        lent = copy.copy(self)
        lent.ledger = cloned_ledger(self.ledger)  # a `Privacy` is cloned by a rule of its own
        twin: Self = super(PrivateTableSampler, lent).__sklearn_clone__()
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        lent = {**self.__dict__, "ledger": cloned_ledger(self.ledger)}
        twin.__dict__.update(copy.deepcopy(lent, memo))
        return twin

    def fit(
        self,
        X: Matrix,
        y: Column | None = None,
        *,
        source: Source | None = None,
        engine: "Engine | None" = None,
    ) -> Self:
        """Charge the budget, and release noisy tables of the rows.

        Parameters
        ----------
        X : array_like of shape (n, columns)
            Rows; any number of them. A table with names has the described columns in any order;
            anything else has them in the order of `columns`. What a row contains is never refused.
        y : array_like or None, default=None
            Not used: the target is a column of X.
        source : Source or None, default=None
            Source of the noise, for tests only.
        engine : Engine or None, default=None
            Where rows are counted, `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`; X
            is then what the engine reads, several times. The release is the same: partitions return
            integers, and noise is added once, here. None for this process.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        columns, target = plain["columns"], plain["target"]
        layout = Layout(columns, target, plain["bins"], plain["groups"])
        layout.check_cells(OWNER)
        options: Any = {name: plain[name] for name in OPTIONS if plain[name] is not None}
        if source is not None:
            options["source"] = source
        request = ReleaseRequest.of(OWNER, plain["epsilon"], plain["delta"], options)
        count = _counter(X, columns, plain["bins"], engine)
        parameters = dict(
            columns=columns, target=target, bins=plain["bins"], groups=plain["groups"]
        )
        return self._take(planned_marginals(parameters, layout, count, request).publish(request))

    @classmethod
    def from_release(cls, release: ReleasedMarginals, *, random_state: Any = None) -> Self:
        """Make a sampler of tables that were released before, at no further cost.

        Parameters
        ----------
        release : ReleasedMarginals
            A `release_`, or what `sfumato.load` reads from its file.
        random_state : int, RandomState, Generator or None, default=None
            As in the class.

        Returns
        -------
        Self
            A fitted object.
        """
        if not isinstance(release, ReleasedMarginals):
            raise TypeError(
                f"{OWNER}: from_release takes ReleasedMarginals, not {type(release).__name__}."
            )
        target = None if release.target is None else release.columns[release.target].name
        made = cls(
            release.columns,
            target=target,
            epsilon=release.statement.epsilon,
            delta=release.statement.delta,
            bins=release.bins,
            groups=release.groups,
            random_state=random_state,
        )
        return made._take(release)

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> pa.Table:
        """Draw synthetic rows.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows, from 0 up; `size_` is how many there were, about.
        random_state : int, RandomState, Generator or None, default=None
            Seed of the draws; None uses that of the sampler, and fresh randomness if that is None
            too.

        Returns
        -------
        pyarrow.Table
            Rows with the columns as described: numbers within their bounds, integers within their
            range, and listed categories. They cost no further privacy.
        """
        count = integer(0).check(OWNER, "n_samples", n_samples)
        if not hasattr(self, "release_"):
            raise not_fitted(f"{OWNER}: this object is not fitted; call fit first.")
        given = self.random_state if random_state is None else random_state
        return self.release_.sample(count, check_random_state(OWNER, given))

    def _take(self, release: ReleasedMarginals) -> Self:
        """Set everything that follows from a release."""
        self.release_, self.statement_ = release, release.statement
        self.tree_, self.size_ = release.tree(), release.size()
        return self

    def _check(self) -> dict[str, Any]:
        """The parameters in plain types, those of `privacy` expanded, and the target's place."""
        defaults = {**dict.fromkeys(self.get_params(deep=False)), "delta": 0.0}
        given = separate_parameters(OWNER, self.get_params(deep=False), defaults)
        plain = {**given, **checked_values(OWNER, LIMITS, given)}
        if plain["epsilon"] is None:
            raise ParameterError.of(OWNER, "epsilon", "must be given, or a privacy that has it.")
        kinds = {each.name: (at, each.kind) for at, each in enumerate(plain["columns"])}
        if plain["target"] is not None:
            at, kind = kinds.get(plain["target"], (None, ""))
            if kind != "category":
                problem = "must be None or the name of a column of listed categories."
                raise ParameterError.of(OWNER, "target", problem)
            plain["target"] = at
        return plain


def _counter(
    X: Any, columns: tuple[ColumnSpec, ...], bins: int, engine: "Engine | None"
) -> Callable[[Callable[[np.ndarray], np.ndarray]], np.ndarray]:
    """A function that counts all rows by a function of their cells, here or on an engine."""
    if engine is None:
        codes = codes_of(OWNER, X, columns, bins)
        return lambda counted: counted(codes)
    names = [each.name for each in columns]

    def count(counted: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        def fold(batches: Iterator[pa.RecordBatch]) -> np.ndarray:
            total = counted(np.empty((0, len(names)), np.int64))
            for batch in batches:
                total += counted(codes_of(OWNER, pa.Table.from_batches([batch]), columns, bins))
            return total

        made: np.ndarray = engine.rows(X, names).fold(fold, lambda one, two: one + two)
        return made

    return count
