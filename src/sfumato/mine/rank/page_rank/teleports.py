"""Where a random surfer jumps: everywhere, to a topic, or to nodes by their weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from sfumato.core.ids import numbers
from sfumato.errors import ParameterError, ParameterTypeError
from sfumato.mine.rank.graph.graph import Graph

__all__ = ["teleport_vector"]


def teleport_vector(owner: str, graph: Graph, teleport: Any) -> np.ndarray | None:
    """Probability of each node, which sum to 1; None for all nodes equally.

    teleport: None, one id, a column of ids (each counts once), or a mapping from ids to weights.
    """
    if teleport is None:
        return None
    if isinstance(teleport, Mapping):
        at = _positions(owner, graph, list(teleport))
        weights = np.asarray(
            numbers(list(teleport.values()), f"{owner}: weights of teleport"), np.float64
        )
        if weights.size and weights.min() < 0:
            raise ParameterError.of(owner, "teleport", "must have weights from 0 up.")
    else:
        at = np.unique(_positions(owner, graph, teleport))
        weights = np.ones(at.size)
    total = weights.sum()
    if not at.size or not 0 < total < np.inf:
        raise ParameterError.of(owner, "teleport", "must name a node, with a weight above 0.")
    vector = np.zeros(graph.n_nodes)
    vector[at] = weights / total
    return vector


def _positions(owner: str, graph: Graph, ids: Any) -> np.ndarray:
    if not len(ids if hasattr(ids, "__len__") else [ids]):
        raise ParameterError.of(owner, "teleport", "must name a node, with a weight above 0.")
    try:
        at = graph.positions(ids)
    except TypeError as error:
        raise ParameterTypeError.of(
            owner, "teleport", f"must be ids of nodes, or a mapping to weights ({error})"
        ) from None
    if at.min() < 0:
        row = int(np.flatnonzero(at < 0)[0])
        raise ParameterError.of(
            owner, "teleport", f"must be nodes of the graph; number {row} is none."
        )
    return at
