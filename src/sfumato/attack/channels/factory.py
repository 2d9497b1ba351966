"""The likelihood interface of decoders, and the channel that fits a release."""

from typing import Any, Protocol

import numpy as np

from sfumato.attack.channels.bloom_bits import BitChannel
from sfumato.attack.channels.gaussian import SignChannel, VectorChannel
from sfumato.attack.channels.min_hash import SymbolChannel
from sfumato.attack.channels.profile_size import Sizes
from sfumato.core.ids import ids_of
from sfumato.profile import ReleasedBlip, ReleasedJlt, ReleasedMinima, ReleasedSigns

__all__ = ["Channel", "Messages", "State", "channel", "users_and_items"]

KINDS: dict[type, Any] = {
    ReleasedBlip: BitChannel,
    ReleasedJlt: VectorChannel,
    ReleasedSigns: SignChannel,
    ReleasedMinima: SymbolChannel,
}
CHANNELS = tuple(KINDS.values())


class Messages(Protocol):
    """Belief propagation between the items and the releases of some users."""

    def sweep(self, log_odds: np.ndarray) -> np.ndarray:
        """Log-likelihood ratios (users x items) given the prior log-odds of each item."""
        ...


class State(Protocol):
    """A profile of one user that changes item by item, for Gibbs samplers and hill climbers.

    `order` is the order in which the state numbers the candidates; `every` the number of steps
    after which `refresh` is due, 0 for never; `weigh` fills weights for live odds; `walk` and
    `climb` call the kernels of kernels/attack.
    """

    order: np.ndarray
    every: int

    def weigh(self, live: np.ndarray, weight: np.ndarray) -> None: ...
    def walk(self, *arrays: Any) -> None: ...
    def climb(self, *arrays: Any) -> None: ...
    def refresh(self, inside: np.ndarray, draws: np.random.Generator | None) -> None: ...


class Channel(Protocol):
    """Releases of many users with the codewords of all candidates."""

    users: int
    items: int

    @property
    def sizes(self) -> Sizes: ...

    def single(self, rows: slice, sizes: np.ndarray) -> np.ndarray:
        """Log-likelihood ratio of each item by itself (users x items), the others being unknown."""
        ...

    def messages(self, rows: slice) -> Messages: ...
    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> State: ...


def channel(released: Any, candidates: Any = None) -> Channel:
    """Channel of released profiles for these candidates; a channel is returned unchanged.

    Uses only what is public in the release: its rows, its seed and its noise.
    """
    if isinstance(released, CHANNELS):
        return released  # type: ignore[no-any-return]
    kind, items = _resolved(released, candidates)
    return kind.of_release(released, items)  # type: ignore[no-any-return]


def users_and_items(released: Any, candidates: Any = None) -> tuple[int, int]:
    """Number of users and of items of the channel, without unpacking rows or building codewords."""
    if isinstance(released, CHANNELS):
        return released.users, released.items
    items = _resolved(released, candidates)[1]
    return len(released), items.size


def _resolved(released: Any, candidates: Any) -> tuple[Any, np.ndarray]:
    """Class of the channel that fits the release, and the identifiers of the candidates."""
    kind = next((KINDS[made] for made in KINDS if isinstance(released, made)), None)
    if kind is None:
        raise TypeError(
            "channel: released must be released profiles (of Blip, Jlt, Signs or Minima) or a "
            f"channel, not {type(released).__name__}."
        )
    items = ids_of(candidates, "candidates")
    if not items.size:
        raise ValueError("channel: candidates must be a column of at least one item.")
    return kind, items
