"""PrivateTableSampler: synthetic rows of mixed columns from noisy marginals, proved private."""

import copy
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from sfumato.core.estimator import BaseEstimator, not_fitted
from sfumato.core.file_format import packed_file
from sfumato.core.typing import Bytes, Column, Matrix
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
from sfumato.density.serialization import write_atomic
from sfumato.density.synthesize.columns import COLUMNS, ColumnSpec, codes_of
from sfumato.density.synthesize.marginals import (
    Counter,
    Layout,
    ReleasedMarginals,
    planned_marginals,
)
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
    chooses by the data: the pairs that are farthest from independence. Where classes have too few
    rows for pairs to stand out of their noise, there are no pairs, and columns have the budget.
    It is the default for tables; `SketchSampler` is for points of up to three numeric columns in
    one unit, without classes, and for use without privacy.

    Parameters
    ----------
    columns : dict of str to tuple, range or list
        What is public of each column, never taken from the data: a tuple (low, high) for numbers,
        which are clipped to it; a range for integers; a list for categories, texts or integers.
    target : str or None, default=None
        Column of categories by which all other columns are described: the class that models will
        predict. None for none.
    nullable : list of str or None, default=None
        Names of columns that may have missing values, public too, which are drawn again as nulls;
        not the target. None for none. A value is missing if it is no number, or not in the list of
        its column; a row that misses another column is left out.
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
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, the target among them.
    n_features_in_ : int
        Number of columns.
    release_ : ReleasedMarginals
        The noisy tables, which may be published; all samples follow from them.
    statement_ : PrivacyStatement
        The guarantee.
    tree_ : list of (str, str)
        Pairs of columns whose joint distribution within each class is kept; empty if noise would
        hide it.
    size_ : float
        Noisy number of rows, at least 1.

    Notes
    -----
    **Guarantee.** All attributes and any number of samples are (epsilon, delta)-differentially
    private for one unit under the stated relation. What is released are integers with exact
    discrete noise, in steps whose losses add up: counts of the classes, which decide by a public
    rule whether there are pairs, and which classes are small; counts of cells of every column by
    class, and in small classes of groups of cells that follow from those of the others, the fewer
    the smaller their noisy counts are; the edges of the tree, each by a report noisy max of the L1
    distances between the counts of a pair and those that the noisy columns expect of independence,
    which one row moves by at most 1; and counts of the pairs of the tree. The number of rows is
    never used.

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
    >>> means = model.sample(1000).to_pandas().groupby("tall")["height"].mean()
    >>> bool(12 < means["yes"] - means["no"] < 20)
    True
    """

    release_: ReleasedMarginals
    statement_: PrivacyStatement
    feature_names_in_: np.ndarray
    n_features_in_: int
    tree_: list[tuple[str, str]]
    size_: float

    def __init__(
        self,
        columns: Any,
        *,
        target: str | None = None,
        nullable: Any = None,
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
        self.columns, self.target, self.nullable = columns, target, nullable
        self.bins, self.groups = bins, groups
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

    def fit(self, X: Matrix, y: Column | None = None, *, source: Source | None = None) -> Self:
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

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        codes = codes_of(OWNER, X, plain["columns"], plain["bins"])
        return self._fit(plain, lambda counted: counted(codes), source)

    def fit_rows(self, rows: Any, *, engine: "Engine", source: Source | None = None) -> Self:
        """Release noisy tables of rows on an engine, whose partitions return integer counts.

        Parameters
        ----------
        rows : object
            What the engine reads, with the names of the columns; it is read several times.
        engine : Engine
            Where rows are counted: `sfumato.engine.LocalEngine` or `sfumato.engine.SparkEngine`.
        source : Source or None, default=None
            Source of the noise, for tests only.

        Returns
        -------
        Self
            The object itself.

        Notes
        -----
        **Guarantee.** The release is that of `fit` on all rows: the budget is charged once, after
        the rows were read for the first time, and noise is added here, once per table.
        """
        plain = self._check()
        return self._fit(plain, _counter(rows, plain["columns"], plain["bins"], engine), source)

    def _fit(self, plain: dict[str, Any], count: Counter, source: Source | None) -> Self:
        """Release the tables of rows that are counted by this function."""
        layout = Layout(plain["columns"], plain["target"], plain["bins"], plain["groups"])
        layout.check_cells(OWNER)
        options: Any = {name: plain[name] for name in OPTIONS if plain[name] is not None}
        if source is not None:
            options["source"] = source
        request = ReleaseRequest.of(OWNER, plain["epsilon"], plain["delta"], options)
        parameters = {name: plain[name] for name in ("columns", "target", "bins", "groups")}
        return self._take(planned_marginals(parameters, layout, count, request).publish(request))

    def merge(self, other: Self) -> Self:
        """Refuse to merge: noisy tables of two releases have different trees and groups.

        Parameters
        ----------
        other : Self
            Not used.

        Returns
        -------
        Self
            Nothing is returned.

        Raises
        ------
        ValueError
            Always; the message names the way to learn from rows in several parts.
        """
        raise ValueError(
            f"{OWNER}: cannot merge, since each release has a tree and groups of its own; fit_rows "
            "learns from rows in several parts."
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the release to a file, which `load` and `sfumato.load` read.

        Parameters
        ----------
        path : path_like
            File to write or replace; after a failure the old file is unchanged.
        """
        write_atomic(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, random_state: Any = None) -> Self:
        """Read a sampler from the file of its release.

        Parameters
        ----------
        path : path_like
            File written by `save`, or by `save` of the release.
        random_state : int, RandomState, Generator or None, default=None
            As in the class.

        Returns
        -------
        Self
            A fitted object.

        Raises
        ------
        SketchFormatError
            If the file is truncated, damaged or of another class or version.
        """
        return cls.from_bytes(packed_file(path), random_state=random_state)

    def to_bytes(self) -> bytes:
        """Serialize the release.

        Returns
        -------
        bytes
            The bytes of `release_`.
        """
        self._check_fitted()
        return self.release_.to_bytes()

    @classmethod
    def from_bytes(cls, data: Bytes, *, random_state: Any = None) -> Self:
        """Restore a sampler from the bytes of its release.

        Parameters
        ----------
        data : bytes_like
            What `to_bytes` of a sampler or of its release returned.
        random_state : int, RandomState, Generator or None, default=None
            As in the class.

        Returns
        -------
        Self
            A fitted object.

        Raises
        ------
        SketchFormatError
            If the bytes are truncated, damaged or of another class or version.
        """
        release = ReleasedMarginals.from_bytes(data)
        return cls.from_release(release, random_state=random_state)

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
            {each.name: each.public for each in release.columns},
            nullable=[each.name for each in release.columns if each.nullable] or None,
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
        self._check_fitted()
        given = self.random_state if random_state is None else random_state
        return self.release_.sample(count, check_random_state(OWNER, given))

    def _check_fitted(self) -> None:
        if not hasattr(self, "release_"):
            raise not_fitted(f"{OWNER}: not fitted yet; call fit first.")

    def _take(self, release: ReleasedMarginals) -> Self:
        """Set everything that follows from a release."""
        self.release_, self.statement_ = release, release.statement
        self.tree_, self.size_ = release.tree(), release.size()
        self.feature_names_in_ = np.array([each.name for each in release.columns], object)
        self.n_features_in_ = len(release.columns)
        return self

    def _check(self) -> dict[str, Any]:
        """The parameters in plain types, those of `privacy` expanded, and the target's place."""
        defaults = {**dict.fromkeys(self.get_params(deep=False)), "delta": 0.0}
        given = separate_parameters(OWNER, self.get_params(deep=False), defaults)
        plain = {**given, **checked_values(OWNER, LIMITS, given)}
        if plain["epsilon"] is None:
            raise ParameterError.of(OWNER, "epsilon", "must be given, or a privacy that has it.")
        names = [each.name for each in plain["columns"]]
        plain["columns"] = self._with_missing(plain["columns"], plain["nullable"])
        if plain["target"] is not None:
            at = names.index(plain["target"]) if plain["target"] in names else None
            if at is None or plain["columns"][at].kind != "category":
                problem = "must be None or the name of a column of listed categories."
                raise ParameterError.of(OWNER, "target", problem)
            plain["target"] = at
        return plain

    def _with_missing(self, columns: tuple[ColumnSpec, ...], names: Any) -> tuple[ColumnSpec, ...]:
        """The columns, those of these names with a cell for missing values."""
        known = {each.name for each in columns} - {self.target}
        given = [] if names is None else names
        if isinstance(given, str) or not np.iterable(given) or not known.issuperset(given):
            problem = "must be None or a list of names of columns, without the target."
            raise ParameterError.of(OWNER, "nullable", problem)
        return tuple(each._replace(nullable=each.name in {*given}) for each in columns)


def _counter(rows: Any, columns: tuple[ColumnSpec, ...], bins: int, engine: "Engine") -> Counter:
    """A function that counts all rows by a function of their cells, on an engine."""
    names = [each.name for each in columns]

    def count(counted: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        def fold(batches: Iterator[pa.RecordBatch]) -> np.ndarray:
            total = counted(np.empty((0, len(names)), np.int64))
            for batch in batches:
                total += counted(codes_of(OWNER, pa.Table.from_batches([batch]), columns, bins))
            return total

        source = engine.rows(rows, names, private=True)
        made: np.ndarray = source.fold(fold, lambda one, two: one + two)
        return made

    return count
