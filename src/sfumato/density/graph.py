"""Private density over the adjacency lists of a graph: how common a node's neighbourhood is."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato.core.edge_columns import readable_edges
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit, flag, integer, one_of, optional, positive
from sfumato.density.adjacency_lists import (
    Neighbourhoods,
    neighbourhoods,
    private_neighbourhoods,
)
from sfumato.density.base import LIMITS, KernelEstimator
from sfumato.density.base import hash_seed as seed_of
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import Release
from sfumato.sketch import Race
from sfumato.sketch.kernel_sums.race import ReleasedRace
from sfumato.sketch.kernel_sums.race_table import best_rows
from sfumato.sketch.lsh import Jaccard

__all__ = ["NodeDensity"]

LIST, EDGE = "adjacency list", "edge"
MOST_ROWS = 2000  # if rows is None
SURE = 4.0  # deviations of noise that a sum must exceed: sums of few Laplace draws have long tails
SHARED = ("epsilon", "delta", "ledger", "dataset", "relation", "release_id", "privacy")


class NodeDensity(KernelEstimator):
    """Kernel density over the adjacency lists of a graph, private when epsilon is given.

    For a list of nodes q, `estimate` estimates the sum over all nodes u that have a list of
    J(list of u, q) ** hashes, where J is the Jaccard similarity: the fraction of members in common.
    Use it to find how common a neighbourhood is without storing or publishing the graph.
    Memory is rows x width counters, whatever the size of the graph.

    Parameters
    ----------
    hashes : int, default=1
        Power of the similarity J, from 1 to 64.
    rows : int or None, default=None
        Number of rows R of the table, from 1 to 2**20. None takes 2000 without privacy, else the
        number with the smallest error for `expected_sum` (`Race.suggest_rows`).
    width : int, default=32768
        Counters per row, from 2 to 2**31.
    expected_sum : float, default=64.0
        Public guess, above 0, of the sum of the square roots of the similarities at a typical list;
        used to choose `rows`.
    directed : bool, default=True
        Whether edges are directed, as for `neighbourhoods`. An undirected edge may be given once or
        in both directions.
    self_loops : bool, default=False
        Whether edges from a node to itself count, as for `neighbourhoods`.
    epsilon : float or None, default=None
        Privacy parameter, above 0. None fits without privacy.
    delta : float, default=0.0
        Privacy parameter of (epsilon, delta)-differential privacy, from 0 up to but not including
        1; 0 is pure differential privacy. Needs `epsilon`.
    unit : {"adjacency list", "edge"}, default="adjacency list"
        Unit of privacy, see Notes. An edge needs two or four times as much noise.
    relation : {"add/remove", "replace"} or None, default=None
        Adjacency of data sets. None takes that of the data set in the ledger, else "add/remove".
    ledger : Ledger, path_like or None, default=None
        Privacy ledger that is charged before noise is drawn; needs `dataset`. None leaves the cost
        unaccounted.
    dataset : str or None, default=None
        Name of the data set in the ledger that is charged.
    release_id : str or None, default=None
        Name under which the ledger stores the release, so that a retry returns the same bytes at no
        cost; needs `ledger`.
    privacy : Privacy or None, default=None
        One object in place of `epsilon`, `delta`, `unit`, `relation`, `ledger`, `dataset` and
        `release_id`.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the hash functions, never of noise. None uses seed 0, so that separately fitted
        estimators can merge.

    Attributes
    ----------
    backend_ : str
        Not set by this estimator.
    bounds_ : tuple
        Not set by this estimator.
    clipped_ : int
        Not set by this estimator.
    n_features_in_ : int
        Not set by this estimator.
    release_ : ReleasedRace
        The released sketch. Only with `epsilon`.
    sketch_ : Race
        The sketch of the adjacency lists. Only without `epsilon`.
    statement_ : PrivacyStatement
        What the release guarantees. Only with `epsilon`.

    Notes
    -----
    **Guarantee.** With `epsilon`, the estimator stores nothing but a release, which is
    (epsilon, delta)-differentially private for one unit:

    - "adjacency list": the data are lists, one per node, and adjacent data sets differ in one of
      them. Adding or removing a list changes one counter in each of R rows, replacing it two, and
      each of the R / 64 counters of lists by 1 if their number differs. What a list reveals about
      its members is not protected beyond that.
    - "edge": an edge of a directed graph changes the list of its source: L1 sensitivity 2 R. An
      edge of an undirected graph changes two lists: L1 = 4 R, L2**2 = 8 R. Replacing an edge
      changes the lists of both, which may meet in one counter: twice that L1, four times that
      L2**2.
    - A node is not offered as a unit: it is in the lists of all nodes that point at it, whose
      number has no public bound.

    **Shrinkage.** A list is similar to itself, so that a list of the graph has a sum of 1 or more.
    With `epsilon`, what a sum exceeds 1 by is multiplied by 1 - (4 s / excess)**2, or 0 if that is
    negative, where s is the standard deviation of the noise. Sums that noise hides are 1. Those of
    `release_` are unbiased.

    With `epsilon` no edge is refused: nodes are compared by value (7, 7.0 and "7" are one node), so
    that no edge changes how others are read, and an edge without two ends is dropped.

    References
    ----------
    .. [1] Coleman, Shrivastava. "A One-Pass Distributed and Private Sketch for Kernel Sums with
       Applications to Machine Learning at Scale". CCS 2021, section 6 (kernel density of graphs).
       https://arxiv.org/abs/2006.09352

    Examples
    --------
    >>> edges = [[1, 2], [1, 3], [4, 2], [4, 3], [5, 6]]
    >>> model = NodeDensity(rows=500, width=1000).fit(edges)
    >>> model.estimate([[2, 3], [6]]).round(1).tolist()
    [2.0, 1.0]
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "hashes": integer(1, 64),
        "rows": optional(integer(1, 2**20)),
        "width": integer(2, 2**31),
        "expected_sum": positive,
        "directed": flag,
        "self_loops": flag,
        "unit": one_of((LIST, EDGE)),
        **{name: LIMITS[name] for name in (*SHARED, "random_state")},
    }

    def __init__(
        self,
        *,
        hashes: int = 1,
        rows: int | None = None,
        width: int = 2**15,
        expected_sum: float = 64.0,
        directed: bool = True,
        self_loops: bool = False,
        epsilon: float | None = None,
        delta: float = 0.0,
        unit: str = LIST,
        relation: str | None = None,
        ledger: Any = None,
        dataset: str | None = None,
        release_id: str | None = None,
        privacy: Privacy | None = None,
        random_state: Any = None,
    ) -> None:
        self._store(locals())

    def fit(self, edges: Any, y: Any = None) -> Self:
        """Fit the estimator to a graph; with epsilon, release the sketch and discard it.

        Parameters
        ----------
        edges : array_like
            Two columns, source and target, as for `neighbourhoods`. All edges of a graph must come
            in one call: a list that came in parts would count as several lists.
        y : object, default=None
            Ignored; present for scikit-learn's API.

        Returns
        -------
        Self
            The fitted estimator.
        """
        plain = self._check()
        read = neighbourhoods if plain["epsilon"] is None else private_neighbourhoods
        lists = read(edges, directed=plain["directed"], self_loops=plain["self_loops"])
        sketch = self._empty_sketch(plain).update(lists.sets)
        more = {"moved": self._lists_of_an_edge} if plain["unit"] == EDGE else {}
        self._take(self._release_if_private(sketch, plain, **more))
        return self

    def input_report(self, edges: Matrix, y: Column | None = None) -> dict[str, int]:
        """Count the edges that a fit with epsilon would drop.

        Parameters
        ----------
        edges : array_like
            Edges as `fit` takes them.
        y : array_like or None, default=None
            Ignored.

        Returns
        -------
        dict of str to int
            `rows`, all edges; `dropped`, those without two ends; `clipped`, always 0.

        Notes
        -----
        The counts are exact and not private: they are for the curator alone.
        """
        _, known = readable_edges(edges)
        return {"rows": len(known), "dropped": int((~known).sum()), "clipped": 0}

    def merge(self, other: Self) -> Self:
        """Merge the lists of other nodes into this estimator; not with epsilon.

        Parameters
        ----------
        other : Self
            Fitted estimator of the same parameters, over other nodes; it is not changed.

        Returns
        -------
        Self
            This estimator, equal to one fitted to the lists of both.
        """
        if type(other) is not type(self):
            raise TypeError(f"{self._owner}: cannot merge with {type(other).__name__}.")
        for one in (self, other):
            one._check_fitted()
            if not hasattr(one, "sketch_"):
                raise ValueError(
                    f"{self._owner}: merge is not private; merge Race sketches, release the result "
                    f"once, and take {self._owner}.from_release."
                )
        self.sketch_.merge(other.sketch_)
        return self

    @classmethod
    def from_release(cls, release: ReleasedRace, **parameters: Any) -> Self:
        """Build an estimator that answers from an existing release.

        Parameters
        ----------
        release : ReleasedRace
            Release of a `Race` over `Jaccard`.
        **parameters : object
            Further parameters of the constructor, except `privacy`.

        Returns
        -------
        Self
            The fitted estimator, with the parameters, unit and relation of the release. It costs no
            further privacy.
        """
        if not isinstance(release, ReleasedRace) or not isinstance(release.kernel, Jaccard):
            raise TypeError(f"{cls.__name__}: from_release takes a released Race of Jaccard.")
        statement = release.statement
        known: dict[str, Any] = dict(
            hashes=release.kernel.hashes, rows=release.rows, width=release.width
        )
        known |= dict(epsilon=statement.epsilon, delta=statement.delta, random_state=release.seed)
        if "privacy" in parameters:
            raise ValueError(f"{cls.__name__}: privacy is that of the release; leave it out.")
        known |= dict(
            relation=statement.relation, unit=statement.unit if statement.unit == EDGE else LIST
        )
        model = cls(**{**known, **parameters})
        model._take(release)
        return model

    def estimate(self, lists: Matrix) -> np.ndarray:
        """Estimate the sum of similarities of each list to all lists of the graph.

        Parameters
        ----------
        lists : array_like
            What `neighbourhoods` returned, a pair (offsets, members), a column of lists, or the
            rows of a SciPy sparse matrix; members named as in the edges.

        Returns
        -------
        ndarray of shape (n_lists,)
            Estimated sums; with `epsilon`, shrunk towards 1 by their noise.
        """
        summary, sets = self._summary, _sets(lists)
        sums = np.asarray(summary.estimate(sets))
        return _shrunk(sums, summary.noise_error()) if isinstance(summary, ReleasedRace) else sums

    def density(self, lists: Matrix) -> np.ndarray:
        """Estimate the mean similarity of each list to all lists of the graph.

        Parameters
        ----------
        lists : array_like
            What `neighbourhoods` returned, a pair (offsets, members), a column of lists, or the
            rows of a SciPy sparse matrix; members named as in the edges.

        Returns
        -------
        ndarray of shape (n_lists,)
            `estimate` divided by the (noisy) number of lists.
        """
        return self.estimate(lists) / max(float(self._summary.size()), 1.0)

    def score_samples(self, lists: Matrix) -> np.ndarray:
        """Compute the logarithm of the mean similarity of each list.

        Parameters
        ----------
        lists : array_like
            What `neighbourhoods` returned, a pair (offsets, members), a column of lists, or the
            rows of a SciPy sparse matrix; members named as in the edges.

        Returns
        -------
        ndarray of shape (n_lists,)
            Log of the mean similarity before shrinkage, floored at the standard deviation of its
            noise and at 2**-52, so that lists keep their order.
        """
        summary = self._summary
        noise = summary.noise_error() if isinstance(summary, ReleasedRace) else 0.0
        floor = max(noise / max(summary.size(), 1.0), 2.0**-52)
        return np.asarray(np.log(np.maximum(summary.mean(_sets(lists)), floor)))

    @property
    def _summary(self) -> Any:
        """The sketch or release that answers queries."""
        self._check_fitted()
        return self.release_ if hasattr(self, "release_") else self.sketch_

    def _check(self) -> dict[str, Any]:
        given = self._given()
        if given["unit"] == "node":
            raise ValueError(
                f"{self._owner}: unit 'node' is not offered: a node stands in the lists of all "
                f"that point at it, whose number has no public bound; use {LIST!r} or {EDGE!r}."
            )
        plain = {
            name: limit.check(self._owner, name, given[name])
            for name, limit in self.LIMITS.items()
            if name in given
        }
        if given.get("contributions", 1) != 1:
            raise ValueError(f"{self._owner}: contributions must be 1, since a unit is one {LIST}.")
        if plain["epsilon"] is None and (plain["delta"] or plain["ledger"] is not None):
            name = "delta" if plain["delta"] else "ledger"
            raise ValueError(f"{self._owner}: {name} needs an epsilon; give both or neither.")
        return {**plain, "contributions": 1}  # a node has one list, as an edge is one edge

    def _empty_sketch(self, plain: dict[str, Any]) -> Race:
        family, rows = Jaccard(plain["hashes"]), plain["rows"] or self._rows(plain)
        return Race(rows, plain["width"], family, seed=seed_of(plain["random_state"]))

    def _rows(self, plain: dict[str, Any]) -> int:
        """Number of rows by public numbers: noise grows with the lists that one unit changes."""
        if plain["epsilon"] is None:
            return MOST_ROWS
        lists = 2 * self._lists_of_an_edge if plain["unit"] == EDGE else 1
        lists *= 2 if plain["relation"] == "replace" else 1
        epsilon = plain["epsilon"] / lists
        return best_rows(plain["expected_sum"], epsilon, plain["delta"], MOST_ROWS)

    @property
    def _lists_of_an_edge(self) -> int:
        return 1 if self.directed else 2

    def _take(self, summary: Any) -> None:
        for name in ("sketch_", "release_", "statement_"):
            self.__dict__.pop(name, None)
        self._restore_parts({"release_" if isinstance(summary, Release) else "sketch_": summary})

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        for name, part in parts.items():
            kind: Any = {"sketch_": Race, "release_": ReleasedRace}.get(name, ())
            if not isinstance(part, kind) or not isinstance(part.kernel, Jaccard):
                raise ValueError("a part is no RACE of adjacency lists.")
        super()._restore_parts(parts)
        if "release_" in parts:
            self.statement_: Any = self.release_.statement

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore_state(self, state: dict[str, Any]) -> None:
        pass


def _sets(lists: Any) -> Any:
    """Lists in a form that a `Jaccard` kernel reads."""
    return lists.sets if isinstance(lists, Neighbourhoods) else lists


def _shrunk(sums: np.ndarray, noise: float) -> np.ndarray:
    """Sums for lists of a graph, each 1 or more, without what noise of this deviation may be."""
    excess, least = sums - 1, SURE * noise
    shrunk = excess - least**2 / np.where(excess > least, excess, np.inf)
    return np.asarray(1 + np.where(excess > least, shrunk, 0.0))
