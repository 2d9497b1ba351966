"""What decoders may ask of a release, whatever its mechanism: likelihoods, and how many items."""

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
    """What some users' releases have told so far, in a decoder that passes messages."""

    def sweep(self, log_odds: np.ndarray) -> np.ndarray:
        """Log-likelihood ratios of items (users x items), given the prior log odds of each."""
        ...


class State(Protocol):
    """A profile of one user that changes item by item, for decoders that walk or climb.

    order: the candidates as the state numbers them; every: steps after which `refresh` is due, 0
    for never; `weigh` fills weights for live odds; `walk` and `climb` are those of kernels/gibbs.
    """

    order: np.ndarray
    every: int

    def weigh(self, live: np.ndarray, weight: np.ndarray) -> None: ...
    def walk(self, *arrays: Any) -> None: ...
    def climb(self, *arrays: Any) -> None: ...
    def refresh(self, inside: np.ndarray, draws: np.random.Generator | None) -> None: ...


class Channel(Protocol):
    """Releases of many users, and the codewords of all candidates."""

    users: int
    items: int

    @property
    def sizes(self) -> Sizes: ...

    def single(self, rows: slice, sizes: np.ndarray) -> np.ndarray:
        """Log-likelihood ratio of each item alone (users x items), the others being unknown."""
        ...

    def messages(self, rows: slice) -> Messages: ...
    def state(self, row: int, chosen: np.ndarray, inside: np.ndarray) -> State: ...


def channel(released: Any, candidates: Any = None) -> Channel:
    """The channel of released profiles to these candidates; a channel is returned as it is.

    Only what anybody can read from the release is used: its rows, its public seed, its noise.
    """
    if isinstance(released, CHANNELS):
        return released  # type: ignore[no-any-return]
    kind, items = _asked(released, candidates)
    return kind.of_release(released, items)  # type: ignore[no-any-return]


def users_and_items(released: Any, candidates: Any = None) -> tuple[int, int]:
    """How many of each the channel has; no row is unpacked and no codeword is made for that."""
    if isinstance(released, CHANNELS):
        return released.users, released.items
    items = _asked(released, candidates)[1]
    return len(released), items.size


def _asked(released: Any, candidates: Any) -> tuple[Any, np.ndarray]:
    """The kind of channel that the release needs, and the ids of the candidates."""
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
