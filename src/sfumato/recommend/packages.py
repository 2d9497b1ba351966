"""Packages: the best set of items with given numbers of each kind, within a budget."""

import heapq
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from sfumato.core.ids import ids_of, is_one
from sfumato.core.typing import Ids
from sfumato.core.validation import between, integer
from sfumato.data.interactions import Interactions
from sfumato.errors import ParameterError
from sfumato.recommend.catalogue import Catalogue
from sfumato.recommend.hybrid.parts import score_table
from sfumato.recommend.ranking import barred, check_filter, excluded_by, row_blocks

__all__ = ["recommend_package"]

OWNER = "recommend_package"
COUNT = integer(1, 1000)
MONEY = between(0, math.inf)
STATES = 1 << 17  # undominated selections of one size, beyond which the search gives up
ROUNDING = 1e-9  # of the budget that sums of costs may exceed it by


def recommend_package(
    model: Any,
    users: Ids,
    kinds: Any,
    sizes: Mapping[str, int],
    *,
    costs: Any = None,
    budget: float | None = None,
    exclude: Interactions | None = None,
    filter: Any = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Recommend a package to each user: so many items of each kind, within a budget.

    Parameters
    ----------
    model : object
        A fitted recommender with `catalogue_` and `recommend`.
    users : array_like or scalar
        User ids.
    kinds : object
        Kind of each item of `model.catalogue_`, as a sequence in its order, or a mapping from item
        ids; items of other kinds, None or without entry are not in packages.
    sizes : mapping of str to int
        Number of items of each kind, 1 to 1000.
    costs : object, default=None
        Cost of each item, a number from 0 up, as a sequence or mapping like `kinds`; None if all
        cost nothing.
    budget : float or None, default=None
        Largest total cost of a package, at least 0; None for no limit.
    exclude : Interactions or None, default=None
        Items that the users beside them do not get, usually the training data.
    filter : object, default=None
        Boolean mask over the catalogue: only items that are True are in packages.

    Returns
    -------
    items : ndarray of shape (n_users, n)
        Item ids of each package, kinds in the order of `sizes`, best first within a kind; -1 or
        None for a user for whom there is no package. Of shape (n,) for a single user.
    scores : ndarray of shape (n_users,)
        Sums of the scores of the items; -inf without a package. A float for a single user.

    Raises
    ------
    ValueError
        If there is no package, for a single user or whoever the user is; or if costs that are no
        integers leave more than 131,072 undominated selections of one size.

    Notes
    -----
    **Guarantee.** No other package of these sizes within the budget has a higher sum of the scores
    that `model.recommend` gives. The search is exact: item by item, it retains the selections that
    no other selection of the same size undercuts in cost and reaches in score. For integral costs
    these are at most ``budget + 1`` for each size, so the work is at most the number of items times
    the number of items of a package times the budget, plus the number of kinds times the budget
    squared; in practice far less, as an item is left out that `size` others of its kind undercut
    and reach. Sums of costs may exceed the budget by a billionth of it, the error of rounding.

    References
    ----------
    .. [1] Balu. "Privacy-aware and scalable recommender systems using sketching techniques". PhD
       thesis, Rennes 2016, section 2.2.3 (packages). https://theses.hal.science/tel-01430156
    .. [2] Nemhauser, Ullmann. "Discrete Dynamic Programming and Capital Allocation". Management
       Science 1969. https://doi.org/10.1287/mnsc.15.9.494

    Examples
    --------
    >>> from sfumato.recommend import Popular
    >>> items = ["Ritz", "Inn", "Louvre", "Orsay", "Zoo"]
    >>> train = Interactions([1, 2, 3, 1, 2, 1, 1, 3, 2], [*items[:1] * 3, *items[1:], *items[2:4]])
    >>> kinds = {"Ritz": "hotel", "Inn": "hotel", "Louvre": "museum", "Orsay": "museum"}
    >>> costs = {"Ritz": 300, "Inn": 90, "Louvre": 20, "Orsay": 15}
    >>> model = Popular().fit(train)
    >>> recommend_package(model, 4, kinds, {"hotel": 1, "museum": 2}, costs=costs, budget=200)[0]
    array(['Inn', 'Louvre', 'Orsay'], dtype=object)
    """
    catalogue = model.catalogue_
    groups = _groups(catalogue, kinds, sizes)
    prices = _prices(catalogue, costs)
    most = math.inf if budget is None else MONEY.check(OWNER, "budget", budget) * (1 + ROUNDING)
    allowed = check_filter(OWNER, filter, catalogue)
    _check_possible(groups, prices, most, allowed)
    who = ids_of(users, "users")
    excluded = excluded_by(OWNER, who, exclude, catalogue)
    found = np.full((who.size, sum(group.size for group in groups)), -1, np.int64)
    totals = np.full(who.size, -np.inf)
    for part in row_blocks(who.size, len(catalogue)):
        table = barred(score_table(model, who[part]), allowed, excluded, part)
        for row, scores in enumerate(table, part.start):
            found[row], totals[row] = _best_package(scores, prices, groups, most)
    if not is_one(users):
        return catalogue.take(found), totals
    if totals[0] == -np.inf:
        raise ValueError(
            f"{OWNER}: there is no package for this user; enlarge the budget or exclude less."
        )
    return catalogue.take(found[0]), totals[0]


class _Group(NamedTuple):
    """The items of a kind, as positions, and how many of them a package has."""

    name: str
    positions: np.ndarray
    size: int


class _Selections(NamedTuple):
    """Selections of so many items each, none undercut and reached by another: by rising cost."""

    costs: np.ndarray
    scores: np.ndarray
    items: np.ndarray  # (n, size) positions


def _aligned(catalogue: Catalogue, values: Any, name: str) -> list[Any]:
    """Return one value per item of the catalogue, from a mapping or a sequence."""
    if isinstance(values, Mapping):
        return [values.get(each) for each in catalogue.ids.tolist()]
    try:
        listed = list(values)
    except TypeError:
        listed = []
    if len(listed) != len(catalogue):
        wanted = f"must be a mapping, or a sequence of {len(catalogue)} values, one per item."
        raise ParameterError.of(OWNER, name, wanted)
    return listed


def _groups(catalogue: Catalogue, kinds: Any, sizes: Any) -> list[_Group]:
    """Return the items of each kind of a package."""
    if not isinstance(sizes, Mapping) or not sizes:
        raise ParameterError.of(OWNER, "sizes", "must be a mapping of kinds to numbers of items.")
    of = _aligned(catalogue, kinds, "kinds")
    groups = []
    for name, size in sizes.items():
        at = np.array([row for row, kind in enumerate(of) if kind == name], np.int64)
        groups.append(_Group(name, at, COUNT.check(OWNER, f"sizes of {name!r}", size)))
    return groups


def _prices(catalogue: Catalogue, costs: Any) -> np.ndarray:
    """Return the cost of each item, NaN for one without."""
    if costs is None:
        return np.zeros(len(catalogue))
    given = [math.nan if each is None else each for each in _aligned(catalogue, costs, "costs")]
    try:
        prices = np.array(given, np.float64)
    except (TypeError, ValueError):
        prices = np.full(1, -1.0)
    if prices.ndim != 1 or (prices < 0).any() or np.isinf(prices).any():
        raise ParameterError.of(OWNER, "costs", "must be finite numbers from 0 up.")
    return prices


def _check_possible(
    groups: list[_Group], prices: np.ndarray, most: float, allowed: np.ndarray | None
) -> None:
    """Raise ValueError where nobody could get a package."""
    least = 0.0
    for name, positions, size in groups:
        there = positions if allowed is None else positions[allowed[positions]]
        if np.isnan(prices[there]).any():
            raise ParameterError.of(OWNER, "costs", f"must be given for all items of kind {name!r}")
        if there.size < size:
            raise ValueError(
                f"{OWNER}: there is no package: {size} items of kind {name!r} are wanted, and "
                f"there are {there.size}."
            )
        least += float(np.sort(prices[there])[:size].sum())
    if least > most:
        raise ValueError(
            f"{OWNER}: there is no package: the cheapest costs {least:g}; enlarge the budget."
        )


def _best_package(
    scores: np.ndarray, prices: np.ndarray, groups: list[_Group], most: float
) -> tuple[np.ndarray, float]:
    """Return positions and total score of the best package of one user; -1 and -inf for none."""
    size = sum(group.size for group in groups)
    none = np.full(size, -1, np.int64), -math.inf
    open_groups = [group._replace(positions=_open(scores, group)) for group in groups]
    if any(group.positions.size < group.size for group in open_groups):
        return none
    cheapest = [float(np.sort(prices[g.positions])[: g.size].sum()) for g in open_groups]
    chosen = _Selections(np.zeros(1), np.zeros(1), np.zeros((1, 0), np.int64))
    left = sum(cheapest)
    for group, least in zip(open_groups, cheapest, strict=True):
        left -= least
        room = most - left - float(chosen.costs[0])
        own = _of_kind(scores, prices, group, room)
        chosen = _together(chosen, own, most - left)
        if not chosen.costs.size:
            return none
    best = int(np.argmax(chosen.scores))
    return chosen.items[best], float(chosen.scores[best])


def _open(scores: np.ndarray, group: _Group) -> np.ndarray:
    """Return the items of a kind that this user may get."""
    return np.asarray(group.positions[scores[group.positions] > -np.inf])


def _of_kind(scores: np.ndarray, prices: np.ndarray, group: _Group, room: float) -> _Selections:
    """Return the undominated selections of the items of one kind."""
    empty = _Selections(np.zeros(0), np.zeros(0), np.zeros((0, 0), np.int64))
    by_size = [_Selections(np.zeros(1), np.zeros(1), np.zeros((1, 0), np.int64))]
    by_size += [empty] * group.size
    for at in _competitive(scores, prices, group, room):
        one = _Selections(prices[[at]], scores[[at]], np.array([[at]]))
        for size in range(group.size, 0, -1):
            if by_size[size - 1].costs.size:
                more = _together(by_size[size - 1], one, room)
                by_size[size] = _undominated(*_joined(by_size[size], more))
    costs, totals, items = by_size[group.size]
    # Best first within a kind, ties by position.
    if items.size:
        items = np.take_along_axis(items, np.argsort(items, axis=1), axis=1)
        order = np.argsort(-scores[items], axis=1, kind="stable")
        items = np.take_along_axis(items, order, axis=1)
    return _Selections(costs, totals, items)


def _competitive(scores: np.ndarray, prices: np.ndarray, group: _Group, room: float) -> list[int]:
    """Return the items of a kind that fewer than `size` others undercut and reach."""
    there = group.positions[prices[group.positions] <= room]
    order = there[np.lexsort((there, -scores[there], prices[there]))]
    best: list[float] = []  # the highest scores so far, of items that cost no more
    retained = []
    for at in order.tolist():
        if len(best) < group.size:
            heapq.heappush(best, float(scores[at]))
        elif scores[at] > best[0]:
            heapq.heapreplace(best, float(scores[at]))
        else:
            continue
        retained.append(at)
    return retained


def _joined(one: _Selections, other: _Selections) -> _Selections:
    if not one.costs.size:
        return other
    return _Selections(*(np.concatenate(both) for both in zip(one, other, strict=True)))


def _together(one: _Selections, other: _Selections, most: float) -> _Selections:
    """Return the undominated unions of a selection of each, of at most this cost."""
    if one.costs.size * other.costs.size > 64 * STATES:
        raise ValueError(TOO_MANY)
    costs = (one.costs[:, None] + other.costs).ravel()
    scores = (one.scores[:, None] + other.scores).ravel()
    pairs = np.flatnonzero(costs <= most)
    first, second = np.divmod(pairs, max(other.costs.size, 1))
    items = np.concatenate([one.items[first], other.items[second]], axis=1)
    return _undominated(costs[pairs], scores[pairs], items)


def _undominated(costs: np.ndarray, scores: np.ndarray, items: np.ndarray) -> _Selections:
    """Return the selections that no other undercuts and reaches, the first of equal ones."""
    order = np.lexsort((-scores, costs))
    best = np.maximum.accumulate(np.concatenate([[-np.inf], scores[order]]))
    there = order[scores[order] > best[:-1]]
    if there.size > STATES:
        raise ValueError(TOO_MANY)
    return _Selections(costs[there], scores[there], items[there])


TOO_MANY = (
    f"{OWNER}: too many selections are neither cheaper nor better than each other; round costs to "
    "integers, or lower the budget."
)
