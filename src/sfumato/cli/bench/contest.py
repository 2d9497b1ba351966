"""What a benchmark is: a question, our call, those of peers, and what the machine allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

__all__ = ["Case", "Contest", "Work", "looped"]


@dataclass(frozen=True)
class Work:
    """A call to be timed, how many items it works on, and what its answer is worth."""

    run: Callable[[], Any]
    items: int
    answer: Callable[[Any], float] | None = None


@dataclass(frozen=True)
class Contest:
    """Our call, functions that prepare those of peers, and a call that no one can undercut.

    The function of a peer raises ImportError where its package is not installed.
    """

    ours: Work
    peers: Mapping[str, Callable[[], Work]] = field(default_factory=dict)
    ceiling: Work | None = None


@dataclass(frozen=True)
class Case:
    """A benchmark by its name ROOM/CASE.

    Attributes
    ----------
    name : str
        Room and case, such as "sketch/bloom".
    question : str
        What is measured, in one line.
    unit : str
        What is counted, in the plural.
    prepare : callable
        From a number of items to a `Contest`.
    full, quick : int
        Numbers of items of the whole suite and of the quick one.
    answer : str
        What the figure of each answer is, such as "recall"; "" where all answers are the same.
    ceiling : str
        What the call of the machine does; "" without one.
    """

    name: str
    question: str
    unit: str
    prepare: Callable[[int], Contest]
    full: int
    quick: int
    answer: str = ""
    ceiling: str = ""


def looped(call: Callable[[Any], Any], values: list[Any]) -> Callable[[], None]:
    """Return a function that calls a peer, which takes one value at a time, for every value."""
    return partial(_loop, call, values)


def _loop(call: Callable[[Any], Any], values: list[Any]) -> None:
    for value in values:
        call(value)
