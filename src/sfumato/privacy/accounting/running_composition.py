"""A running product of privacy loss distributions: one more loss costs two Fourier transforms.

It is the product of `pld`, on a grid whose step follows the losses: coarser as the sum grows, and
built anew where smaller losses need a finer one. Every error is counted, as there.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.privacy.accounting.losses import Loss, Sampled
from sfumato.privacy.accounting.pld import (
    FINEST,
    GRID,
    LARGEST,
    TAIL,
    TILTS,
    Distribution,
    Grid,
    certain,
    directions,
    half_variance,
    has_pair,
    on_grid,
    summed,
    unfolded,
)

__all__ = ["Running"]

# The tilts stay the same while the deviation grows from that of few losses to that of many.
WIDE_TILTS = np.append(0.5 ** np.arange(2, 9), TILTS)
# Its step, per root mean square of the losses: a step of s adds up to s**2 / 8 to the rho of each.
FINE, COARSE = 0.12, 0.25


@dataclass(frozen=True)
class Side:
    """One direction of a running product: its transform, and what bounds its window and errors.

    low, high: the range of the sum; above, below: its log moments at the tilts and at minus these;
    logs: as `certain` of all losses; error: the L2 norm of what rounding did to the mass; tail: the
    mass that may lie elsewhere than it should.
    """

    transform: np.ndarray
    low: int
    high: int
    above: np.ndarray
    below: np.ndarray
    logs: tuple[float, float]
    error: float
    tail: float

    def window(self, tilts: np.ndarray) -> tuple[int, int]:
        """Return the interval that contains all but TAIL of the sum."""
        high = min(self.high, math.ceil(((self.above - math.log(TAIL / 2)) / tilts).min()))
        low = max(self.low, math.floor(((math.log(TAIL / 2) - self.below) / tilts).max()))
        return low, max(low, high)


@dataclass(frozen=True)
class Running:
    """An immutable product of losses on a grid; `joined` returns the next one.

    rho and uses choose the step only. Rounding: a use of a distribution with transform h, off by e
    at each frequency, moves the product T h**n by n e |T| |h|**(n - 1); the roots of the mean
    squares of these add up to at most the L2 norm of the error of the mass.
    """

    step: float
    limit: float
    tilts: np.ndarray
    size: int
    sides: tuple[Side, ...]
    rho: float
    uses: int

    @classmethod
    def of(cls, losses: Mapping[Loss, int]) -> "Running | None":
        """Compose losses; None where one has no distribution, or the window is too wide."""
        if not losses or not all(map(has_pair, losses)):
            return None
        rho = sum(half_variance(loss) * count for loss, count in losses.items())
        uses = sum(directions(loss)[0].repeat * count for loss, count in losses.items())
        step = _running_step(rho, uses, FINE)
        variance = max(2 * rho / step**2, 1.0)
        none = np.zeros(WIDE_TILTS.size)
        one = Side(np.ones(2, complex), 0, 0, none, none, (0.0, 0.0), 0.0, TAIL)
        start: Running | None = cls(
            step, 100 * (1 + rho), WIDE_TILTS / math.sqrt(variance), 2, (one,), rho, uses
        )
        for loss, count in losses.items():
            start = None if start is None else start._with(loss, count)
        return start

    def joined(self, loss: Loss) -> "Running | None":
        """Compose one more loss; None where the product must be built anew."""
        if not has_pair(loss):
            return None
        rho, uses = self.rho + half_variance(loss), self.uses + directions(loss)[0].repeat
        if self.step > _running_step(rho, uses, COARSE):
            return None
        grown: Running | None = replace(self, rho=rho, uses=uses)
        while grown is not None and 2 * grown.step <= _running_step(rho, uses, FINE):
            grown = grown._coarser()
        return None if grown is None else grown._with(loss, 1)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon at this delta, rounded up."""
        return max(each.epsilon(delta) for each in self._distributions)

    @cached_property
    def _distributions(self) -> list[Distribution]:
        found = []
        for side, mass in zip(self.sides, self._masses, strict=True):
            each = 2.0**-50 * math.log2(self.size)
            error = side.error + each * _norm(side.transform)
            low = side.window(self.tilts)[0]
            total_error = math.sqrt(self.size) * error + side.tail
            found.append(summed(unfolded(mass, low), low, self.step, side.logs, total_error))
        return found

    @cached_property
    def _masses(self) -> list[np.ndarray]:
        """Masses of both directions, folded into the window."""
        return [np.fft.irfft(side.transform, self.size) for side in self.sides]

    def _with(self, loss: Loss, count: int) -> "Running | None":
        sides = self.sides
        if isinstance(loss, Sampled) and len(sides) == 1:  # so far equal in both directions
            sides = sides * 2
        made = [on_grid(loss, k, self.step, self.limit) for k in range(len(sides))]
        distributions = [
            replace(distribution, times=distribution.times * count)
            for distribution in made
            if distribution is not None
        ]
        if len(distributions) < len(made):
            return None  # too many points for any grid
        joined = [
            _bounds_after(side, distribution, self.tilts)
            for side, distribution in zip(sides, distributions, strict=True)
        ]
        spans = [high - low for low, high in (side.window(self.tilts) for side in joined)]
        size = max(self.size, 1 << max(spans).bit_length())
        if size > LARGEST:
            return None
        if size > self.size:
            sides = tuple(_resized(side, self.size, size, self.tilts) for side in sides)
        done = [
            replace(after, **_times(before, distribution, size))
            for before, after, distribution in zip(sides, joined, distributions, strict=True)
        ]
        return replace(self, size=size, sides=tuple(done))

    def _coarser(self) -> "Running":
        """Double the step of the grid; an odd point is split as `on_grid` would."""
        upper = math.expm1(-self.step) / math.expm1(-2 * self.step)
        tilts, sides = 2 * self.tilts, []
        for side, folded in zip(self.sides, self._masses, strict=True):
            low = side.window(self.tilts)[0]
            mass = unfolded(folded, low)
            if low % 2:
                low, mass = low - 1, np.concatenate([[0.0], mass])
            mass = np.append(mass, np.zeros(2 + mass.size % 2))
            half = mass[0::2].copy()
            half += (1 - upper) * mass[1::2]
            half[1:] += upper * mass[1:-1:2]
            sides.append((low // 2, half, side))
        size = 1 << max(half.size - 1 for _, half, _ in sides).bit_length()
        each, done = 2.0**-50 * math.log2(self.size), []
        for low, half, side in sides:
            transform = np.fft.rfft(np.roll(np.append(half, np.zeros(size - half.size)), low))
            done.append(
                replace(
                    side,
                    transform=transform,
                    low=side.low // 2,
                    high=-(-side.high // 2),
                    above=side.above + tilts / 2,
                    below=side.below + tilts / 2,
                    # Neighbours that are added up may both be off: by twice the norm at most.
                    error=2 * (side.error + each * _norm(side.transform)) + each * _norm(transform),
                    tail=side.tail + TAIL,
                )
            )
        return replace(self, step=2 * self.step, tilts=tilts, size=size, sides=tuple(done))

    def to_bytes(self) -> bytes:
        """Serialize the product; the file adds its own checksum."""
        header: dict[str, Any] = {
            "step": self.step,
            "limit": self.limit,
            "tilts": self.tilts.tolist(),
            "size": self.size,
            "rho": self.rho,
            "uses": self.uses,
            "sides": [
                [s.low, s.high, s.above.tolist(), s.below.tolist(), s.logs, s.error, s.tail]
                for s in self.sides
            ],
        }
        head = json.dumps(header).encode()
        masses = b"".join(mass.astype("<f8").tobytes() for mass in self._masses)
        return len(head).to_bytes(4, "little") + head + masses

    @classmethod
    def from_bytes(cls, data: bytes) -> "Running":
        """Read what `to_bytes` wrote."""
        end = 4 + int.from_bytes(data[:4], "little")
        header = json.loads(data[4:end])
        size, sides = header["size"], []
        masses = np.frombuffer(data, "<f8", offset=end).reshape(-1, size)
        each = 2.0**-50 * math.log2(size)
        for mass, (low, high, above, below, logs, error, tail) in zip(
            masses, header["sides"], strict=True
        ):
            transform = np.fft.rfft(mass)
            error += 2 * each * _norm(transform)  # of this transform and of the one back
            sides.append(
                Side(
                    transform,
                    low,
                    high,
                    np.array(above),
                    np.array(below),
                    tuple(logs),
                    error,
                    tail,
                )
            )
        tilts = np.array(header["tilts"])
        return cls(
            header["step"],
            header["limit"],
            tilts,
            size,
            tuple(sides),
            header["rho"],
            header["uses"],
        )


def _running_step(rho: float, uses: int, ratio: float) -> float:
    """Return a step that adds little to the rho of these uses, and is small beside their sum."""
    most = rho + 9 * math.sqrt(2 * rho)
    grid = GRID if ratio == FINE else GRID // 8
    return 2.0 ** math.floor(
        math.log2(max(min(most / grid, ratio * math.sqrt(rho / uses)), most / FINEST))
    )


def _norm(transform: np.ndarray) -> float:
    """Return an upper bound on the root mean square over all frequencies, from the half stored."""
    return math.sqrt(float((transform.real**2 + transform.imag**2).mean())) * 1.01 + 1e-300


def _bounds_after(side: Side, distribution: Grid, tilts: np.ndarray) -> Side:
    """Update the bounds of a side for one more distribution, without its transform."""
    nonzero = np.flatnonzero(distribution.mass)
    tilted = np.outer(np.append(tilts, -tilts), distribution.lowest + nonzero)
    most = tilted.max(axis=1)
    tilted = np.exp(tilted - most[:, None])
    above, below = (
        distribution.times * (most + np.log(tilted @ distribution.mass[nonzero]))
    ).reshape(2, -1)
    finite, over = certain([distribution])
    return replace(
        side,
        low=side.low + distribution.times * distribution.lowest,
        high=side.high + distribution.times * (distribution.lowest + distribution.mass.size - 1),
        above=side.above + above,
        below=side.below + below,
        logs=(side.logs[0] + finite, side.logs[1] + over),
    )


def _times(side: Side, distribution: Grid, size: int) -> dict[str, Any]:
    """Return the transform after one more distribution, and its error."""
    one = np.fft.rfft(np.bincount(distribution.points % size, distribution.mass, size))
    before = side.transform
    if distribution.times > 1:
        before = before * one ** (distribution.times - 1)
    each = 2.0**-50 * math.log2(size)
    error = side.error + (distribution.times + 1) * each * _norm(before)
    return dict(transform=before * one, error=error, tail=side.tail)


def _resized(side: Side, size: int, wider: int, tilts: np.ndarray) -> Side:
    """Return the side in a wider window."""
    low = side.window(tilts)[0]
    mass = unfolded(np.fft.irfft(side.transform, size), low)
    transform = np.fft.rfft(np.roll(np.append(mass, np.zeros(wider - size)), low))
    each = 2.0**-50 * math.log2(wider)
    error = side.error + each * (_norm(side.transform) + _norm(transform))
    return replace(side, transform=transform, error=error, tail=side.tail + TAIL)
