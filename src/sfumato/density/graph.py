"""How common a node's neighbourhood is in a graph: a private density over adjacency lists.

The adjacency lists of a graph, from two columns of nodes: one for each node that has any.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa

from sfumato.core.hashing import KeyColumn
from sfumato.core.ids import as_ids
from sfumato.core.typing import Column, Matrix
from sfumato.core.validation import Limit, flag, integer, one_of, optional, positive
from sfumato.density.base import LIMITS, KernelEstimator
from sfumato.density.base import hash_seed as seed_of
from sfumato.privacy.parameters import Privacy
from sfumato.privacy.release import Release
from sfumato.sketch import Race
from sfumato.sketch.kernel_sums.race import ReleasedRace
from sfumato.sketch.kernel_sums.race_table import best_rows
from sfumato.sketch.lsh import Jaccard

__all__ = [
    "Neighbourhoods",
    "NodeDensity",
    "neighbourhoods",
    "private_neighbourhoods",
    "readable_edges",
]


@dataclass(frozen=True)
class Neighbourhoods:
    """The list of nodes[i] holds members[offsets[i]] up to members[offsets[i + 1]].

    `len` tells how many lists there are; `sets` is what a `Jaccard` kernel reads.
    """

    nodes: Any
    offsets: np.ndarray
    members: Any

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def sets(self) -> tuple[np.ndarray, Any]:
        """The pair (offsets, members)."""
        return self.offsets, self.members

    def take(self, positions: Any) -> Self:
        """The lists at these places (not: of these nodes), in this order."""
        positions = np.asarray(positions, np.int64)
        sizes = np.diff(self.offsets)[positions]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        # Where each list starts, less what came before it, counted up.
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[positions] - offsets[:-1], sizes)
        return type(self)(_taken(self.nodes, positions), offsets, _taken(self.members, rows))


def neighbourhoods(
    edges: Matrix, *, directed: bool = True, self_loops: bool = False
) -> Neighbourhoods:
    """One list of neighbours for every node that has one; repeated edges change no list as a set.

    Parameters
    ----------
    edges : array_like
        Two columns source and target: a matrix or table of two columns, or a pair of columns as a
        tuple; nodes are integers or text.
    directed : bool, default=True
        The list of a node holds the targets of its edges; otherwise both ends of an edge are in
        each other's list.
    self_loops : bool, default=False
        True keeps a node in its own list where an edge says so, False drops such edges.

    Returns
    -------
    Neighbourhoods
        One list of neighbours for every node that has one; repeated edges change no list as a set.

    Examples
    --------
    >>> lists = neighbourhoods([[1, 2], [1, 3], [2, 3], [4, 4]])
    >>> lists.nodes.tolist(), lists.offsets.tolist(), lists.members.tolist()
    ([1, 2], [0, 2, 3], [2, 3, 3])
    """
    flag.check("neighbourhoods", "directed", directed)
    flag.check("neighbourhoods", "self_loops", self_loops)
    source, target = _columns(edges)
    coded = _coded(as_ids(source, "edges: source"), as_ids(target, "edges: target"))
    return _lists(*coded, directed, self_loops)


def private_neighbourhoods(edges: Any, *, directed: bool, self_loops: bool) -> Neighbourhoods:
    """As `neighbourhoods`, and no edge is refused or changes how another is read.

    Guarantee: nodes are told apart by their values alone (`sfumato.hashing`: 7, 7.0 and "7" are one
    node, in any container), and an edge without two ends (None, NaN, no pair) is dropped. So an
    edge changes the list of its source, and undirected that of its target, whatever its type.
    What is wrong with the container as a whole, which is public, is refused.
    """
    ends, known = readable_edges(edges)
    kept = pa.array(known)
    return _lists(*_numbered(*(end.filter(kept) for end in ends)), directed, self_loops)


def readable_edges(edges: Any) -> tuple[tuple[pa.Array, pa.Array], np.ndarray]:
    """Both ends of every edge as values that are equal where nodes are; which edges have both."""
    source, target = (KeyColumn(column, name="edges").names() for column in _any_columns(edges))
    if len(source) != len(target):
        raise ValueError("edges: columns must be equally long.")
    if source.type != target.type:
        source, target = _texts(source), _texts(target)
    return (source, target), np.asarray(source.is_valid()) & np.asarray(target.is_valid())


def _lists(
    source: np.ndarray,
    target: np.ndarray,
    names: pa.Array | None,
    directed: bool,
    self_loops: bool,
) -> Neighbourhoods:
    """The lists of edges between nodes that have these numbers."""
    if not self_loops:
        kept = source != target
        source, target = source[kept], target[kept]
    if not directed:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    order = np.argsort(source, kind="stable")
    source = source[order]
    first = np.flatnonzero(np.diff(source, prepend=source[:1] - 1)) if source.size else source
    offsets = np.append(first, source.size)
    if names is None:
        return Neighbourhoods(source[first], offsets, target[order])
    return Neighbourhoods(
        names.take(pa.array(source[first])), offsets, names.take(pa.array(target[order]))
    )


def _columns(edges: Any) -> list[Any]:
    columns = _table_columns(edges)
    if columns is None:
        matrix = np.asarray(edges)
        columns = list(matrix.T) if matrix.ndim == 2 else [matrix]
    return _two(columns)


def _any_columns(edges: Any) -> list[Any]:
    """The two columns; of a list of edges, of which those that are no pair have no ends."""
    columns = _table_columns(edges)
    if columns is not None:
        return _two(columns)
    if isinstance(edges, np.ndarray) and edges.ndim != 1:
        return _two(list(edges.T) if edges.ndim == 2 else [edges])
    if not isinstance(edges, list | np.ndarray):
        kind = type(edges).__name__
        raise TypeError(f"edges: a matrix, a table or a list of pairs is expected, not {kind}.")
    ends = np.full((2, len(edges)), None, object)
    for place, edge in enumerate(edges):
        if _is_pair(edge):
            ends[0, place], ends[1, place] = edge
    return list(ends)


def _is_pair(edge: Any) -> bool:
    if isinstance(edge, np.ndarray):
        return bool(edge.shape == (2,))
    return isinstance(edge, list | tuple) and len(edge) == 2


def _table_columns(edges: Any) -> list[Any] | None:
    """The columns of a table or of a tuple; None where it is neither."""
    if isinstance(edges, tuple):
        return list(edges)
    if isinstance(edges, pa.Table | pa.RecordBatch):
        return list(edges.columns)
    if hasattr(edges, "columns") and hasattr(edges, "__getitem__"):
        return [edges[name] for name in edges.columns]
    return None


def _two(columns: list[Any]) -> list[Any]:
    if len(columns) != 2:
        raise ValueError(
            f"edges: two columns, source and target, are expected, not {len(columns)}; give a "
            "matrix or table of two columns, or a pair of columns as a tuple."
        )
    return columns


def _texts(names: pa.Array) -> pa.Array:
    """Integers as the texts that are the same keys."""
    return names.cast(pa.string()).cast(pa.large_binary()) if _are_whole(names) else names


def _are_whole(names: pa.Array) -> bool:
    return bool(pa.types.is_integer(names.type))


def _numbered(source: pa.Array, target: pa.Array) -> tuple[np.ndarray, np.ndarray, pa.Array | None]:
    """Both ends as integers, and the texts that they stand for, if they are texts."""
    if _are_whole(source):
        return source.to_numpy(), target.to_numpy(), None
    both = pa.chunked_array([source, target]).combine_chunks().dictionary_encode()
    codes = both.indices.to_numpy().astype(np.int64)
    return codes[: len(source)], codes[len(source) :], both.dictionary


def _coded(source: Any, target: Any) -> tuple[np.ndarray, np.ndarray, pa.Array | None]:
    """Both columns as integers, and the texts that they stand for, if they are texts."""
    if len(source) != len(target):
        raise ValueError(
            f"edges: columns must be equally long, not {len(source)} sources and {len(target)} "
            "targets."
        )
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        return source, target, None
    if isinstance(source, np.ndarray) or isinstance(target, np.ndarray):
        raise TypeError("edges: sources and targets must be of one type, integers or text.")
    return _numbered(source.combine_chunks(), target.combine_chunks())


def _taken(column: Any, positions: np.ndarray) -> Any:
    return column[positions] if isinstance(column, np.ndarray) else column.take(pa.array(positions))


LIST, EDGE = "adjacency list", "edge"
MOST_ROWS = 2000  # of those that are taken by rule
SHARED = ("epsilon", "delta", "ledger", "dataset", "relation", "release_id", "privacy")


class NodeDensity(KernelEstimator):
    """The sum over all nodes of how alike their neighbourhoods are to a given one.

    Guarantee: `estimate` of a list q tells, without bias, f(q) = sum of J(list of u, q) ** hashes
    over all nodes u that have a list, where J is the share of members in common. With epsilon, the
    estimator keeps nothing but a release, (epsilon, delta)-private for one unit:
    - "adjacency list": the data are lists, one for each node, and neighbours differ in one of them.
      A list that is there or not changes one cell in each of R rows, one exchanged for another two
      (and each of the R / 64 cells that count lists, by 1 where their number differs). What a
      list tells of those it names is not hidden beyond that.
    - "edge": an edge of a directed graph changes the list of its source: L1 = 2 R. One of an
      undirected graph changes two lists: L1 = 4 R, L2**2 = 8 R. One exchanged for another changes
      the lists of both, which may meet in one cell: twice as much L1, four times as much L2**2.
    - A node is not offered: it stands in as many lists as there are nodes that point at it, which
      has no public bound below all of them.
    Which unit is hidden is a matter of noise alone: an edge needs two or four times as much.
    With epsilon no edge is refused: nodes are told apart by their values (7, 7.0 and "7" are one
    node), so that no edge changes how others are read, and one without two ends is dropped.
    Parameters: hashes, the power of J, 1 to 64; rows R and width of the table; rows None takes 2000
    without privacy, else those that make the error least (Race.suggest_rows) where the square roots
    of similarities at a usual list sum to expected_sum, a public guess; directed and self_loops, as
    for `neighbourhoods` (an undirected edge is given once, or in both directions); epsilon above 0,
    or None for no privacy; delta from 0 to 1; unit, above; ledger, dataset, relation, release_id:
    as in `release` (docs/privacy.md), or privacy in place of these, epsilon and delta;
    random_state, of hashes, never of noise.

    Learned: release_ and statement_ with epsilon, else sketch_.

    Parameters
    ----------
    hashes : int, default=1
        TODO.
    rows : int or None, default=None
        TODO.
    width : int, default=32768
        TODO.
    expected_sum : float, default=64.0
        TODO.
    directed : bool, default=True
        TODO.
    self_loops : bool, default=False
        TODO.
    epsilon : float or None, default=None
        TODO.
    delta : float, default=0.0
        TODO.
    unit : str, default="adjacency list"
        TODO.
    relation : str or None, default=None
        TODO.
    ledger : object, default=None
        TODO.
    dataset : str or None, default=None
        TODO.
    release_id : str or None, default=None
        TODO.
    privacy : Privacy or None, default=None
        TODO.
    random_state : object, default=None
        TODO.

    Attributes
    ----------
    backend_ : str
        TODO.
    bounds_ : Pair
        TODO.
    clipped_ : int
        TODO.
    n_features_in_ : int
        TODO.
    release_ : Any
        TODO.
    sketch_ : Any
        TODO.
    statement_ : Any
        TODO.

    References
    ----------
    .. [1] Coleman and Shrivastava 2021, section 6, whose statement is the first of the three.

    Examples
    --------
    >>> edges = [[1, 2], [1, 3], [4, 2], [4, 3], [5, 6]]
    >>> told = NodeDensity(rows=500, width=1000).fit(edges)
    >>> told.estimate([[2, 3], [6]]).round(1).tolist()
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
        """Learn from edges, two columns source and target; with epsilon, release and forget them.

        All edges of a graph come in one call, since a list that came in parts would count as many.
        y is not used.

        Parameters
        ----------
        edges : object
            TODO.
        y : object, default=None
            TODO.

        Returns
        -------
        Self
            The object itself.
        """
        plain = self._check()
        read = neighbourhoods if plain["epsilon"] is None else private_neighbourhoods
        lists = read(edges, directed=plain["directed"], self_loops=plain["self_loops"])
        sketch = self._empty_sketch(plain).update(lists.sets)
        more = {"moved": self._lists_of_an_edge} if plain["unit"] == EDGE else {}
        self._take(self._kept(sketch, plain, **more))
        return self

    def input_report(self, edges: Matrix, y: Column | None = None) -> dict[str, int]:
        """How many edges a fit with epsilon would drop: raw data, for the curator alone.

        Parameters
        ----------
        edges
            As `fit` takes them; y is not used.

        Returns
        -------
        dict
            `rows`, all edges; `dropped`, those without two ends; `clipped`, always 0.
        """
        _, known = readable_edges(edges)
        return {"rows": len(known), "dropped": int((~known).sum()), "clipped": 0}

    def merge(self, other: Self) -> Self:
        """Take in the lists of other nodes. Not with epsilon: merge sketches, then release.

        Parameters
        ----------
        other : Self
            TODO.

        Returns
        -------
        Self
            The object itself.
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
        """The estimator that answers from a release of lists, at no further cost.

        Parameters
        ----------
        release : ReleasedRace
            TODO.
        **parameters : object
            TODO.

        Returns
        -------
        Self
            The estimator that answers from a release of lists, at no further cost.
        """
        if not isinstance(release, ReleasedRace) or not isinstance(release.kernel, Jaccard):
            raise TypeError(f"{cls.__name__}: from_release takes a released Race of Jaccard.")
        told = release.statement
        known: dict[str, Any] = dict(
            hashes=release.kernel.hashes, rows=release.rows, width=release.width
        )
        known |= dict(epsilon=told.epsilon, delta=told.delta, random_state=release.seed)
        if "privacy" in parameters:
            raise ValueError(f"{cls.__name__}: privacy is that of the release; leave it out.")
        known |= dict(relation=told.relation, unit=told.unit if told.unit == EDGE else LIST)
        model = cls(**{**known, **parameters})
        model._take(release)
        return model

    def estimate(self, lists: Matrix) -> np.ndarray:
        """The sum of similarities to all lists, for each given one; with epsilon of either sign.

        lists: `neighbourhoods`, a pair (offsets, members), a column of lists, or the rows of a
        SciPy sparse matrix; members as the edges name them.

        Parameters
        ----------
        lists : array_like
            TODO.

        Returns
        -------
        ndarray
            The sum of similarities to all lists, for each given one; with epsilon of either sign.
        """
        return np.asarray(self._told.estimate(_sets(lists)))

    def density(self, lists: Matrix) -> np.ndarray:
        """The mean similarity to all lists: `estimate` over the (noisy) number of lists.

        Parameters
        ----------
        lists : array_like
            TODO.

        Returns
        -------
        ndarray
            The mean similarity to all lists: `estimate` over the (noisy) number of lists.
        """
        return np.asarray(self._told.mean(_sets(lists)))

    def score_samples(self, lists: Matrix) -> np.ndarray:
        """The logarithm of `density`, which counts as at least what its noise could hide.

        Parameters
        ----------
        lists : array_like
            TODO.

        Returns
        -------
        ndarray
            The logarithm of `density`, which counts as at least what its noise could hide.
        """
        told = self._told
        noise = told.noise_error() if isinstance(told, ReleasedRace) else 0.0
        least = max(noise / max(told.size(), 1.0), 2.0**-52)
        return np.asarray(np.log(np.maximum(self.density(lists), least)))

    @property
    def _told(self) -> Any:
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
        """A rule of public numbers: noise grows with the lists that a unit changes."""
        if plain["epsilon"] is None:
            return MOST_ROWS
        lists = 2 * self._lists_of_an_edge if plain["unit"] == EDGE else 1
        lists *= 2 if plain["relation"] == "replace" else 1
        epsilon = plain["epsilon"] / lists
        return best_rows(plain["expected_sum"], epsilon, plain["delta"], MOST_ROWS)

    @property
    def _lists_of_an_edge(self) -> int:
        return 1 if self.directed else 2

    def _take(self, kept: Any) -> None:
        for name in ("sketch_", "release_", "statement_"):
            self.__dict__.pop(name, None)
        self._restore_parts({"release_" if isinstance(kept, Release) else "sketch_": kept})

    def _restore_parts(self, parts: dict[str, Any]) -> None:
        for name, part in parts.items():
            kind: Any = {"sketch_": Race, "release_": ReleasedRace}.get(name, ())
            if not isinstance(part, kind) or not isinstance(part.kernel, Jaccard):
                raise ValueError("a part is no RACE of adjacency lists.")
        super()._restore_parts(parts)
        if "release_" in parts:
            self.statement_ = self.release_.statement

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore_state(self, state: dict[str, Any]) -> None:
        pass


def _sets(lists: Any) -> Any:
    return lists.sets if isinstance(lists, Neighbourhoods) else lists
