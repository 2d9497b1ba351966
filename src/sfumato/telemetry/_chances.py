"""Chances in steps of 2**-32, so that one random word decides, which never cost more than asked."""

from collections.abc import Callable
from fractions import Fraction

from sfumato.privacy.loss import Flips

__all__ = ["GRID", "log_ratio", "subset_step", "symbol_step"]

GRID = 2**32


def log_ratio(more: Fraction, less: Fraction) -> float:
    """The log of more / less, which is above 1, rounded up: an epsilon that may be promised."""
    return Flips(less / (more + less)).epsilon


def symbol_step(owner: str, cells: int, members: int, epsilon: float) -> int:
    """The fewest words, of GRID, that lead to each cell that is not the value's, within epsilon.

    All cells get so many, and the value's own share what is left, which `members` divides: it is
    1, or it and `cells` are powers of two.
    """

    def fits(wrong: int) -> bool:
        extra = (GRID - cells * wrong) // members
        return extra > 0 and log_ratio(Fraction(wrong + extra), Fraction(wrong)) <= epsilon

    most = (GRID - members) // cells
    if most < 1 or not fits(most):
        raise _nothing(owner, epsilon)
    return _least(fits, most)


def subset_step(owner: str, cells: int, chosen: int, epsilon: float) -> int:
    """The most words, of GRID, that put the value's own cell in the subset, within epsilon.

    Given that it is in, every subset with it is as likely as any other; and so without it. There
    are chosen / (cells - chosen) as many of the first kind as of the second.
    """
    odds = Fraction(cells - chosen, chosen)

    def fits(left_out: int) -> bool:
        kept = odds * (GRID - left_out)
        return kept > left_out and log_ratio(kept, Fraction(left_out)) <= epsilon

    even = GRID * (cells - chosen) // cells  # left out so often, a report would tell nothing
    most = even - (even * cells == GRID * (cells - chosen))
    if most < 1 or not fits(most):
        raise _nothing(owner, epsilon)
    return GRID - _least(fits, most)


def _least(fits: Callable[[int], bool], most: int) -> int:
    """The least number from 1 on that fits, when `most` does and so do all in between."""
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _nothing(owner: str, epsilon: float) -> ValueError:
    return ValueError(
        f"{owner}: epsilon must be larger, not {epsilon!r}, or the cells fewer: reports in steps "
        f"of 2**-32 would tell nothing."
    )
