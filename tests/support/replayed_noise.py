"""Noise that is watched: what it was added to, and the same outcome again for a neighbour.

A release is private if, whatever came out before, each further noisy sum is one that a neighbour's
data move by little enough. So the first run keeps every outcome; the second, on a neighbour, is
given the same outcomes in place of its own sums plus noise, and what its sums were is held against
the first run's. All that is made of the outcomes must then be the same, bit for bit.
"""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np

from sfumato.privacy.noise import cube
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import InsecureSeededSource, SystemSource

ADDED = {"Laplace": noise.add_laplace, "Gaussian": noise.add_gaussian, "Cube": cube.add_cube}


@dataclass
class Watched:
    """The noisy sums of one run: their law, its scale, what they were, and what came out."""

    laws: list[tuple[str, Fraction]] = field(default_factory=list)
    sums: list[np.ndarray] = field(default_factory=list)
    outcomes: list[np.ndarray] = field(default_factory=list)
    given: "Watched | None" = None  # the run whose outcomes are taken

    def add(self, law: str, cells: np.ndarray, scale: Any) -> None:
        at = len(self.laws)
        self.laws.append((law, Fraction(scale)))
        self.sums.append(cells.astype(object).reshape(-1))
        if self.given is None:
            ADDED[law](cells, scale, source=InsecureSeededSource(at))
        else:
            assert self.given.laws[at] == self.laws[at], "a law depends on data"
            assert self.given.outcomes[at].shape == cells.shape, "a shape depends on data"
            cells[...] = self.given.outcomes[at]
        self.outcomes.append(cells.copy())

    def cost(self, other: "Watched") -> tuple[float, float]:
        """The pure epsilon and the rho that tell these sums from another run's; exact but for inf.

        Laplace: the L1 distance over the scale; cube: the largest difference over it; Gaussian:
        the squared L2 distance over twice the variance (Canonne, Kamath and Steinke 2020).
        """
        epsilon, rho = Fraction(0), Fraction(0)
        for (law, scale), one, two in zip(self.laws, self.sums, other.sums, strict=True):
            change = [abs(int(a) - int(b)) for a, b in zip(one, two, strict=True) if a != b]
            if law == "Gaussian":
                rho += sum(each**2 for each in change) / (2 * scale**2)
            else:
                pure = (max(change, default=0) if law == "Cube" else sum(change)) / scale
                epsilon += pure
                rho += min(pure, pure**2 / 2)
        pure_cost = float("inf") if any(law == "Gaussian" for law, _ in self.laws) else epsilon
        return float(pure_cost), float(rho)


@dataclass
class Outcome:
    """What a run showed: its result or its exception, its warnings, and its noisy sums."""

    result: Any
    error: str
    heard: list[str]
    noise: Watched


def run(path: Callable[[], Any], given: Watched | None = None) -> Outcome:
    """Run a private path, with the outcomes of another run where given."""
    watched = Watched(given=given)
    result, error = None, ""
    with warnings.catch_warnings(record=True) as heard, _patched(watched):
        warnings.simplefilter("always")
        try:
            result = path()
        except AssertionError:
            raise
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    answer = [f"{each.category.__name__}: {each.message}" for each in heard]
    return Outcome(result, error, answer, watched)


@contextlib.contextmanager
def _patched(watched: Watched) -> Iterator[None]:
    """Every module's names of the functions that add noise, and the bits of all others."""
    bits = InsecureSeededSource(99)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(SystemSource, "fill", lambda _, out: bits.fill(out)))
        for law, original in ADDED.items():

            def added(cells: Any, scale: Any, *, source: Any = None, law: str = law) -> None:
                watched.add(law, cells, scale)

            for module in [m for n, m in sys.modules.items() if n.startswith("sfumato.")]:
                for name, value in list(vars(module).items()):
                    if value is original and module not in (noise, cube):
                        stack.enter_context(patch.object(module, name, added))
            home = cube if law == "Cube" else noise
            stack.enter_context(patch.object(home, original.__name__, added))
        yield
