"""The privacy lab: generated profiles and points, released and attacked while one watches."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from sfumato.attack.decoders.joint import joint_decoder
from sfumato.attack.decoders.single import popularity
from sfumato.attack.decoders.taste_prior import learn_prior
from sfumato.attack.numerics import sigmoid
from sfumato.attack.profile_audit.evaluation import NeighbourRecall, neighbour_recall
from sfumato.attack.profile_audit.ground_truth import item_prior, truth_matrix
from sfumato.density.kde import SketchDensity
from sfumato.profile.blip import Blip
from sfumato.serve.endpoint import Call, Endpoint
from sfumato.serve.page.generated import BOUNDS, points, readers, titles
from sfumato.serve.page.messages import (
    LabAnswer,
    LabCurve,
    LabDensity,
    LabDensityQuery,
    LabItem,
    LabQuery,
    LabStep,
)

__all__ = ["ENDPOINTS", "DensityLab", "PrivacyLab"]

T = TypeVar("T")
READERS, ITEMS, EACH = 400, 160, 20
SHOWN = 3  # the reader whose profile is shown
EPSILONS = (0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8)
POINTS, SIDE, BANDWIDTH = 5000, 40, 5.0
DENSITY_EPSILONS = (0.05, 0.1, 0.2, 0.5, 1, 2)


@dataclass(frozen=True)
class _Attack:
    """One release of all profiles, and what is claimed of them (readers x titles)."""

    released: Any
    probabilities: np.ndarray
    claimed: np.ndarray
    guessed: np.ndarray
    neighbours: NeighbourRecall


class PrivacyLab:
    """Releases generated profiles at each step of epsilon once, and attacks them.

    Notes
    -----
    **Guarantee.** No data of the store is read. Work is bounded: one release and attack for each
    of `EPSILONS` in the life of the process, by one thread at a time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attacks: dict[float, _Attack] = {}

    def at(self, epsilon: float) -> LabAnswer:
        """Return the shown profile at the step nearest to epsilon."""
        epsilon = _nearest(EPSILONS, epsilon)
        attack = self._attack(epsilon)
        present, claimed = self._truth[SHOWN], attack.claimed[SHOWN]
        rows = zip(
            titles(ITEMS),
            present.tolist(),
            claimed.tolist(),
            attack.probabilities[SHOWN].tolist(),
            strict=True,
        )
        found, guessed = (
            int((present & claimed).sum()),
            int((present & attack.guessed[SHOWN]).sum()),
        )
        size = int(present.sum())
        return LabAnswer(
            epsilon,
            list(EPSILONS),
            float(attack.released.profile_epsilon(size)),
            [LabItem(*row) for row in rows],
            size,
            int(claimed.sum()),
            found,
            guessed,
            _sentence(epsilon, found, size, guessed, attack.neighbours),
            attack.released.statement.headline,
        )

    def curve(self) -> LabCurve:
        """Return the averages of every step."""
        steps = []
        for epsilon in EPSILONS:
            attack = self._attack(epsilon)
            rebuilt, guessed = (self._found(each) for each in (attack.claimed, attack.guessed))
            steps.append(LabStep(epsilon, rebuilt, guessed, float(attack.neighbours.recall)))
        return LabCurve(len(self._truth), steps)

    def _found(self, claimed: np.ndarray) -> float:
        """Return the mean fraction of a profile that is among the claims."""
        found = (self._truth & claimed).sum(axis=1)
        return float((found / self._truth.sum(axis=1)).mean())

    def _attack(self, epsilon: float) -> _Attack:
        with self._lock:
            if epsilon not in self._attacks:
                self._attacks[epsilon] = self._attacked(epsilon)
            return self._attacks[epsilon]

    def _attacked(self, epsilon: float) -> _Attack:
        attacked, items = self._halves[1], np.arange(ITEMS)
        released = Blip(epsilon=epsilon).release(attacked, users=self._users)
        scores = joint_decoder(released, items, self._taste, sizes=EACH, threads=1)
        alone = popularity(released, items, self._popular)
        recall = neighbour_recall(released, attacked)
        return _Attack(released, sigmoid(scores), _highest(scores), _highest(alone), recall)

    @cached_property
    def _halves(self) -> tuple[Any, Any]:
        """Interactions of readers whom the attacker knows, and of those that are attacked."""
        world = readers(READERS, ITEMS, EACH, seed=7)
        half = np.unique(world.users)[READERS // 2]
        return world.filter(world.users < half), world.filter(world.users >= half)

    @cached_property
    def _users(self) -> np.ndarray:
        return np.unique(self._halves[1].users)

    @cached_property
    def _truth(self) -> np.ndarray:
        return truth_matrix(self._halves[1], self._users, np.arange(ITEMS)).present

    @cached_property
    def _popular(self) -> np.ndarray:
        return item_prior(self._halves[0], np.arange(ITEMS))

    @cached_property
    def _taste(self) -> Any:
        return learn_prior(self._halves[0], np.arange(ITEMS), traits=4, rounds=10)


class DensityLab:
    """The density of generated points, exact and by a release at each step of epsilon."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._models: dict[float, SketchDensity] = {}

    def at(self, epsilon: float) -> LabDensity:
        """Return both maps at the step nearest to epsilon."""
        epsilon = _nearest(DENSITY_EPSILONS, epsilon)
        with self._lock:
            model = self._models.get(epsilon)
            if model is None:
                model = SketchDensity(
                    bandwidth=BANDWIDTH, kernel="gaussian", epsilon=epsilon, bounds=BOUNDS
                ).fit(self._points)
                self._models[epsilon] = model
        private = model.density(self._grid)
        error = float(np.abs(private - self._exact).mean() / self._exact.mean())
        sentence = (
            f"At epsilon {epsilon:g} for each of {POINTS:,} generated points, the private map is "
            f"off by {error:.0%} of the mean density on average."
        )
        return LabDensity(
            epsilon,
            list(DENSITY_EPSILONS),
            POINTS,
            SIDE,
            *BOUNDS,
            self._exact.tolist(),
            private.tolist(),
            error,
            sentence,
            model.statement_.headline,
        )

    @cached_property
    def _points(self) -> np.ndarray:
        return points(POINTS, seed=21)

    @cached_property
    def _grid(self) -> np.ndarray:
        """Centres of the map's cells, row by row from below."""
        low, high = BOUNDS
        centres = low + (np.arange(SIDE) + 0.5) * (high - low) / SIDE
        return np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)

    @cached_property
    def _exact(self) -> np.ndarray:
        """The sum over all points of the Gaussian kernel, as `SketchDensity` scales it."""
        squares = ((self._grid[:, None] - self._points) ** 2).sum(axis=2)
        total = np.exp(-squares / (2 * BANDWIDTH**2)).mean(axis=1)
        return np.asarray(total / (2 * np.pi * BANDWIDTH**2))


def _nearest(steps: tuple[float, ...], epsilon: float) -> float:
    return float(min(steps, key=lambda step: abs(step - epsilon)))


def _highest(scores: np.ndarray) -> np.ndarray:
    """Mark the highest scores of each row, as many as a profile has items on average."""
    claimed = np.zeros(scores.shape, bool)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :EACH]
    np.put_along_axis(claimed, best, True, axis=1)
    return claimed


def _sentence(
    epsilon: float, found: int, size: int, guessed: int, neighbours: NeighbourRecall
) -> str:
    return (
        f"At epsilon {epsilon:g} for each item, an attacker who names {EACH} titles is right about "
        f"{found} of this reader's {size}. Guessing popular titles is right about {guessed}. "
        f"The releases still find {neighbours.recall:.0%} of the most similar readers. "
        f"Chance finds {neighbours.chance:.0%}."
    )


_profiles, _densities = PrivacyLab(), DensityLab()
_thread = ThreadPoolExecutor(1, "lab")  # threads that other requests share stay free


async def get_lab(call: Call) -> LabAnswer:
    """Attack a generated profile that was released with an epsilon."""
    return await _worked(_profiles.at, call.query(LabQuery).epsilon)


async def get_lab_curve(call: Call) -> LabCurve:
    """Return how much of generated profiles is rebuilt, and how useful they are, by epsilon."""
    return await _worked(_profiles.curve)


async def get_lab_density(call: Call) -> LabDensity:
    """Return the exact density of generated points beside a private one."""
    return await _worked(_densities.at, call.query(LabDensityQuery).epsilon)


async def _worked(work: Callable[..., T], *given: float) -> T:
    return await asyncio.get_running_loop().run_in_executor(_thread, work, *given)


ENDPOINTS = [
    Endpoint("GET", "/lab", get_lab, "read", LabAnswer, LabQuery),
    Endpoint("GET", "/lab/curve", get_lab_curve, "read", LabCurve),
    Endpoint("GET", "/lab/density", get_lab_density, "read", LabDensity, LabDensityQuery),
]
