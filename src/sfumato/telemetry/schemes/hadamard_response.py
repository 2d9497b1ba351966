"""Hadamard response: a report is one cell, more often one of the half block of the value."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sfumato.core.typing import Column
from sfumato.core.validation import checked, integer, optional, power_of_two
from sfumato.telemetry.schemes.base import SymbolScheme
from sfumato.telemetry.schemes.cells import Categories
from sfumato.telemetry.values import Values

__all__ = ["HadamardResponse"]

LARGEST = 2**26  # entries of a table of members: 256 MiB


@dataclass(frozen=True, repr=False)
class HadamardResponse(SymbolScheme):
    """Hadamard response: four-byte reports for any number of known categories.

    Use it for known values where reports must be small and epsilon is at most about 1. A table of
    members beyond 2**26 entries is refused.

    Parameters
    ----------
    epsilon : float
        Largest privacy loss of all reports of one value, above 0.
    categories : tuple of str, default=()
        Known values, 2 to 65536 with "(other)".
    metric : str, default=""
        Name of what is collected; noise of different metrics is independent.
    blocks : int, default=None
        Number of Hadamard blocks, a power of two up to 2**16; if None the best for rare values.
    other : bool, default=False
        Whether values outside the categories share one more set of cells, "(other)".

    Notes
    -----
    **Guarantee.** Under replacing the value of one client, all reports of a value together are
    epsilon-differentially private, however often it is reported with one secret. The cells form
    blocks of 2**b, to which the values are assigned in turn; a value has the half of its block
    where its row of the Hadamard matrix is positive. Each of those cells has probability `high` and
    any other `low`, both multiples of 2**-32, and ``epsilon_permanent = epsilon_one = ln(high /
    low) <= epsilon``.

    The standard error of the count of a rare value is
    ``(exp(epsilon) + 2 blocks - 1) / (exp(epsilon) - 1) sqrt(n / blocks)``: that of the best
    schemes at small epsilon, up to 1.41 times that at large epsilon.

    References
    ----------
    .. [1] Acharya, Sun, Zhang. "Hadamard Response: Estimating Distributions Privately, Efficiently,
       and with Little Communication". AISTATS 2019, sections 3 and 5.
       https://arxiv.org/abs/1802.04705

    Examples
    --------
    >>> scheme = HadamardResponse(1, ["tea", "milk", "rum"])
    >>> scheme.cells, scheme.set_size, scheme.members(["tea", "rum"]).tolist()
    (4, 2, [[[0, 2]], [[0, 3]]])
    """

    epsilon: float
    categories: tuple[str, ...] = ()
    blocks: int = field(default=None, kw_only=True)  # type: ignore[assignment]  # set when built
    other: bool = field(default=False, kw_only=True)
    name: ClassVar[str] = "hadamard-response"
    LIMITS: ClassVar[dict[str, Any]] = {
        **SymbolScheme.LIMITS,
        "blocks": optional(integer(1, 2**16)),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        checked(self, self.LIMITS)
        object.__setattr__(self, "categories", self.known.categories)
        if self.blocks is None:
            object.__setattr__(self, "blocks", _best_blocks(len(self.known.names), self.epsilon))
        power_of_two.check("HadamardResponse", "blocks", self.blocks)
        self.wrong  # noqa: B018  refuses an epsilon at which reports carry no information

    @cached_property
    def known(self) -> Categories:
        """Known categories."""
        return Categories("HadamardResponse", self.categories, self.other)

    @property
    def domain(self) -> list[Any]:
        return list(self.known.names)

    @property
    def cohorts(self) -> int:
        """Number of cohorts, always 1."""
        return 1

    @property
    def length(self) -> int:
        """Cells of a block: a power of two above the number of values in a block."""
        return _length(len(self.known.names), self.blocks)

    @property
    def cells(self) -> int:
        """Number of cells: blocks times length."""
        return self.blocks * self.length

    @property
    def set_size(self) -> int:
        """Number of cells of a value: half a block."""
        return self.length // 2

    def line(self) -> str:
        sizes = f"{self.cells}/{self.blocks}/{self.wrong}"
        return f"sfumato/telemetry/1/{self.name}/{sizes}/{self.known.digest}/{self.metric}"

    def sentence(self) -> str:
        return (
            f"Hadamard response, {self.blocks} blocks of {self.length} cells, one cell sent for "
            f"ever, of the value's {self.set_size} with probability "
            f"{float(self.high * self.set_size):.6g}, metric {self.metric!r}"
        )

    def values(self, column: Column) -> Values:
        return self.known.values(column)

    def reported(self, column: Column) -> Values:
        return self.known.reported(column)

    def members(self, values: Column) -> np.ndarray:
        return self._sets(self.known.cells(self.values(values)))[:, np.newaxis]

    def own_members(self, values: Values, cohorts: np.ndarray) -> np.ndarray:
        self._fits(values.codes.size)
        found: np.ndarray = self._sets(self.known.cells(values.once()))[values.codes]
        return found

    def _sets(self, positions: np.ndarray) -> np.ndarray:
        """Return the cells of the categories at these positions: int32 (n, set_size).

        Cell y of a block is in the set of row r if r & y has an even number of ones: for any other
        bits of y, the bit at the lowest one of r makes it even.
        """
        self._fits(positions.size)
        row, block = np.divmod(positions.astype(np.int32), np.int32(self.blocks))
        row = (row + 1)[:, np.newaxis]  # row 0 is positive everywhere
        lowest = row & (~row + 1)
        other_bits = np.arange(self.set_size, dtype=np.int32)
        below = other_bits & (lowest - 1)
        found: np.ndarray = ((other_bits - below) << 1) + below
        found += lowest * (np.bitwise_count(found & row) & 1)
        return found + (block * np.int32(self.length))[:, np.newaxis]

    def _fits(self, values: int) -> None:
        """Raise ValueError if the members of this number of values exceed LARGEST entries."""
        if values * self.set_size > LARGEST:
            raise ValueError(
                f"HadamardResponse: {values} values with {self.set_size} cells each are more than "
                f"{LARGEST} entries; take at most {LARGEST // self.set_size} values at a time, or "
                "subset selection or local hashing, where a value has one cell."
            )


def _length(values: int, blocks: int) -> int:
    """Return the cells of a block."""
    return 1 << max(1, math.ceil(values / blocks).bit_length())


def _best_blocks(values: int, epsilon: float) -> int:
    """Return the power of two that minimises (e + 2 blocks - 1)**2 / blocks, e = exp(epsilon)."""
    odds = math.exp(min(epsilon, 22.0))  # beyond what steps of 2**-32 can express
    fit = [1 << power for power in range(17) if 1 << power <= max(1, values // 2)]
    return min(fit, key=lambda blocks: (odds + 2 * blocks - 1) ** 2 / blocks)
