"""How common a node's neighbourhood is in a graph: a private density over adjacency lists."""

from typing import Any, ClassVar, Self

import numpy as np

from sfumato._require import Limit, flag, one_of, optional, positive, whole
from sfumato.density._estimator import KernelEstimator
from sfumato.density._estimator import _seed as seed_of
from sfumato.density._limits import LIMITS
from sfumato.density._neighbours import (
    Neighbourhoods,
    neighbourhoods,
    private_neighbourhoods,
    readable_edges,
)
from sfumato.sketch import Race
from sfumato.sketch._race_bounds import best_rows
from sfumato.sketch._release import Release
from sfumato.sketch.lsh import Jaccard
from sfumato.sketch.released_race import ReleasedRace

__all__ = ["NodeDensity"]

LIST, EDGE = "adjacency list", "edge"
MOST_ROWS = 2000  # of those that are taken by rule
SHARED = ("epsilon", "delta", "ledger", "dataset", "relation", "release_id", "random_state")


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
    as in `release` (docs/privacy.md); random_state, of hashes, never of noise.

    Learned: release_ and statement_ with epsilon, else sketch_.

    >>> edges = [[1, 2], [1, 3], [4, 2], [4, 3], [5, 6]]
    >>> told = NodeDensity(rows=500, width=1000).fit(edges)
    >>> told.estimate([[2, 3], [6]]).round(1).tolist()
    [2.0, 1.0]

    Coleman and Shrivastava 2021, section 6, whose statement is the first of the three.
    """

    LIMITS: ClassVar[dict[str, Limit]] = {
        "hashes": whole(1, 64),
        "rows": optional(whole(1, 2**20)),
        "width": whole(2, 2**31),
        "expected_sum": positive,
        "directed": flag,
        "self_loops": flag,
        "unit": one_of((LIST, EDGE)),
        **{name: LIMITS[name] for name in SHARED},
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
        random_state: Any = None,
    ) -> None:
        self.hashes = hashes
        self.rows = rows
        self.width = width
        self.expected_sum = expected_sum
        self.directed = directed
        self.self_loops = self_loops
        self.epsilon = epsilon
        self.delta = delta
        self.unit = unit
        self.relation = relation
        self.ledger = ledger
        self.dataset = dataset
        self.release_id = release_id
        self.random_state = random_state

    def fit(self, edges: Any, y: Any = None) -> Self:
        """Learn from edges, two columns source and target; with epsilon, release and forget them.

        All edges of a graph come in one call, since a list that came in parts would count as many.
        y is not used.
        """
        plain = self._check()
        read = neighbourhoods if plain["epsilon"] is None else private_neighbourhoods
        lists = read(edges, directed=plain["directed"], self_loops=plain["self_loops"])
        sketch = self._empty_sketch(plain).update(lists.sets)
        more = {"moved": self._lists_of_an_edge} if plain["unit"] == EDGE else {}
        self._take(self._kept(sketch, plain, **more))
        return self

    def input_report(self, edges: Any, y: Any = None) -> dict[str, int]:
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
        """Take in the lists of other nodes. Not with epsilon: merge sketches, then release."""
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
        """The estimator that answers from a release of lists, at no further cost."""
        if not isinstance(release, ReleasedRace) or not isinstance(release.kernel, Jaccard):
            raise TypeError(f"{cls.__name__}: from_release takes a released Race of Jaccard.")
        told = release.statement
        known: dict[str, Any] = dict(
            hashes=release.kernel.hashes, rows=release.rows, width=release.width
        )
        known |= dict(epsilon=told.epsilon, delta=told.delta, random_state=release.seed)
        known |= dict(relation=told.relation, unit=told.unit if told.unit == EDGE else LIST)
        model = cls(**{**known, **parameters})
        model._take(release)
        return model

    def estimate(self, lists: Any) -> np.ndarray:
        """The sum of similarities to all lists, for each given one; with epsilon of either sign.

        lists: `neighbourhoods`, a pair (offsets, members), a column of lists, or the rows of a
        SciPy sparse matrix; members as the edges name them.
        """
        return np.asarray(self._told.estimate(_sets(lists)))

    def density(self, lists: Any) -> np.ndarray:
        """The mean similarity to all lists: `estimate` over the (noisy) number of lists."""
        return np.asarray(self._told.mean(_sets(lists)))

    def score_samples(self, lists: Any) -> np.ndarray:
        """The logarithm of `density`, which counts as at least what its noise could hide."""
        told = self._told
        noise = told.noise_error() if isinstance(told, ReleasedRace) else 0.0
        least = max(noise / max(told.size(), 1.0), 2.0**-52)
        return np.asarray(np.log(np.maximum(self.density(lists), least)))

    @property
    def _told(self) -> Any:
        self._check_fitted()
        return self.release_ if hasattr(self, "release_") else self.sketch_

    def _check(self) -> dict[str, Any]:
        given = self.get_params(deep=False)
        if given["unit"] == "node":
            raise ValueError(
                f"{self._owner}: unit 'node' is not offered: a node stands in the lists of all "
                f"that point at it, whose number has no public bound; use {LIST!r} or {EDGE!r}."
            )
        plain = {
            name: limit.check(self._owner, name, given[name]) for name, limit in self.LIMITS.items()
        }
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
