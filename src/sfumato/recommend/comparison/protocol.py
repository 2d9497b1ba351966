"""How models are compared: the question, the split, the metrics and the slices."""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.core import arrow_compute as pc
from sfumato.core.ids import positions
from sfumato.core.tables import described
from sfumato.core.validation import Limit, between, checked, fraction, integer, one_of, optional
from sfumato.data.interactions import Interactions
from sfumato.data.splits import split_by_time, split_by_user
from sfumato.errors import ParameterError
from sfumato.recommend.metrics.ranking import PER_USER

__all__ = ["EvaluationProtocol", "pair_codes"]

OBJECTIVES = ("ranking", "ratings")
SPLITS = ("row", "user", "time", "last")
REPEATABLE = ("row", "user")  # the others have no randomness to repeat
DEFAULT_METRICS = {"ranking": ("ndcg@10", "recall@20"), "ratings": ("rmse", "mae")}
LONGEST_LIST = 1000


class _MetricsLimit:
    """Names of metrics: "rmse" and "mae", or a metric of lists and their length, as "ndcg@10"."""

    def check(self, owner: str, name: str, value: Any) -> tuple[str, ...]:
        names = tuple(value) if isinstance(value, list | tuple) else (value,)
        known = isinstance(value, list | tuple) and all(map(self._known, names))
        if not known or len(set(names)) < len(names):
            lists = ", ".join(PER_USER)
            raise ParameterError.of(
                owner,
                name,
                f'must be different names such as "ndcg@10" (of lists: {lists}, and a length up to '
                f'{LONGEST_LIST}) or "rmse" and "mae" (of ratings), not {value!r:.200}.',
            )
        return names

    def bad(self) -> list[Any]:
        return [None, ("ndcg",), ("ndcg@0",), ("rmse@10",), ("mae", "mae"), "rmse", (7,), 7]

    @staticmethod
    def _known(name: Any) -> bool:
        if name in DEFAULT_METRICS["ratings"]:
            return True
        found = re.fullmatch(r"(\w+)@([1-9]\d{0,3})", name) if isinstance(name, str) else None
        return found is not None and found[1] in PER_USER and int(found[2]) <= LONGEST_LIST


class _AscendingLimit:
    """Ascending integers from 0."""

    def check(self, owner: str, name: str, value: Any) -> tuple[int, ...]:
        given = tuple(value) if isinstance(value, list | tuple) else None
        ends = None if given is None else tuple(integer(0).check(owner, name, n) for n in given)
        if ends is None or any(b <= a for a, b in pairwise(ends)):
            raise ParameterError.of(
                owner, name, f"must be ascending integers from 0, not {value!r:.200}."
            )
        return ends

    def bad(self) -> list[Any]:
        return [(5, 1), (-1,), (1.5,), "5", 5, None]


LIMITS: dict[str, Limit] = {
    "objective": one_of(OBJECTIVES),
    "split": one_of(SPLITS),
    "test_size": fraction,
    "repeats": integer(1, 1000),
    "random_state": integer(0, 2**63 - 1),
    "metrics": _MetricsLimit(),
    "relevant_from": optional(between(-1e15, 1e15)),
    "confidence": fraction,
    "activity": _AscendingLimit(),
    "head": fraction,
}


@dataclass(frozen=True, kw_only=True, repr=False)
class EvaluationProtocol:
    """How models are compared: the same question, split, metrics and slices for all of them.

    Parameters
    ----------
    objective : {"ranking", "ratings"}, default="ranking"
        "ranking" measures lists of the entire catalogue, without items of the user in the training
        part; "ratings" measures predicted ratings.
    split : {"row", "user", "time", "last"}, default="row"
        What the test part is: random rows, random rows of each user, the latest rows of all, or the
        latest row of each user.
    test_size : float, default=0.2
        Fraction of the rows in the test part, between 0 and 1; with "user" of each user's rows,
        rounded down. Not used by "last".
    repeats : int, default=1
        Number of splits, from 1 to 1000. Must be 1 for "time" and "last", which are not random.
    random_state : int, default=0
        Seed of the first split; the next ones have the seeds after it.
    metrics : tuple of str, default=()
        Metrics in order; the first one ranks the models. Of lists: "precision", "recall",
        "map_at_k", "average_precision", "ndcg", "mrr" or "hit_rate" with the length of the list, as
        "ndcg@10". Of ratings: "rmse" and "mae". An empty tuple stands for ("ndcg@10", "recall@20")
        and ("rmse", "mae").
    relevant_from : float or None, default=None
        Smallest rating of a test row that a list should contain; None for all rows.
    confidence : float, default=0.95
        Confidence of the intervals, between 0 and 1.
    activity : tuple of int, default=(0, 5, 20)
        Slices of users by their number of training rows: the largest number of each slice but the
        last.
    head : float, default=0.5
        Slices of items: the head are the most popular ones that together have this fraction of the
        training rows, the tail the others, and new are those without training rows.

    Notes
    -----
    **Guarantee.** No pair of a user and an item is in both parts. With "time" no training row is
    later than a test row; with "last" none of the same user.

    Examples
    --------
    >>> from sfumato.data import generate_world
    >>> world = generate_world(users=30, items=20, ratings=300, random_state=1)
    >>> protocol = EvaluationProtocol(split="row", test_size=0.25, repeats=2)
    >>> [len(part) for part in protocol.parts(world.interactions, repeat=1)]
    [225, 75]
    """

    objective: str = "ranking"
    split: str = "row"
    test_size: float = 0.2
    repeats: int = 1
    random_state: int = 0
    metrics: tuple[str, ...] = ()
    relevant_from: float | None = None
    confidence: float = 0.95
    activity: tuple[int, ...] = (0, 5, 20)
    head: float = 0.5

    def __post_init__(self) -> None:
        checked(self, LIMITS)
        owner = type(self).__name__
        if self.repeats > 1 and self.split not in REPEATABLE:
            raise ParameterError.of(
                owner, "repeats", f"must be 1 for split={self.split!r}, which is not random."
            )
        of_ratings = [name in DEFAULT_METRICS["ratings"] for name in self.metrics]
        if any(each != (self.objective == "ratings") for each in of_ratings):
            raise ParameterError.of(
                owner, "metrics", f"must all be metrics of {self.objective}, not {self.metrics!r}."
            )
        if not self.metrics:
            object.__setattr__(self, "metrics", DEFAULT_METRICS[self.objective])

    def __repr__(self) -> str:
        return described(self, **{name: getattr(self, name) for name in LIMITS})

    def parts(self, data: Interactions, repeat: int = 0) -> tuple[Interactions, Interactions]:
        """Split the data into a training and a test part.

        Parameters
        ----------
        data : Interactions
            The rows to split; "time" and "last" need times.
        repeat : int, default=0
            Number of the repeat, from 0.

        Returns
        -------
        train : Interactions
            Rows to learn from.
        test : Interactions
            Rows to evaluate on, without pairs of user and item that the training part has as well.
        """
        seed = self.random_state + repeat
        if self.split == "row":
            train, test = data.split(1 - self.test_size, self.test_size, random_state=seed)
        elif self.split == "user":
            train, test = split_by_user(data, self.test_size, random_state=seed)
        elif self.split == "time":
            train, test = split_by_time(data, self.test_size)
        else:
            train, test = split_by_user(data, 1, latest=True)
        learned, found = (pa.array(pair_codes(data, part)) for part in (train, test))
        again = np.asarray(pc.is_in(found, value_set=learned))  # a hash table, not a sort
        return train, test.filter(~again)


def pair_codes(data: Interactions, part: Interactions) -> np.ndarray:
    """Return one integer for the user and the item of each row, the same for all parts of data."""
    whole, coded = data.coded(), part.coded()
    users = positions(coded.user_ids, whole.user_ids)[coded.user_codes]
    items = positions(coded.item_ids, whole.item_ids)[coded.item_codes]
    return np.asarray(users * len(whole.item_ids) + items)
