"""Private user profiles: item sets encoded with noise, to be published, compared and searched.

Each name is imported when it is first used.
"""

from collections.abc import Callable
from typing import Any

from sfumato.core.deprecation import on_demand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sfumato.core.storage import load
    from sfumato.profile.blip import Blip, ReleasedBlip
    from sfumato.profile.jlt import Jlt, ReleasedJlt
    from sfumato.profile.min_hash import Minima, ReleasedMinima
    from sfumato.profile.released import ReleasedProfiles
    from sfumato.profile.signs import ReleasedSigns, Signs

__all__ = [
    "Blip",
    "Jlt",
    "Minima",
    "ReleasedBlip",
    "ReleasedJlt",
    "ReleasedMinima",
    "ReleasedProfiles",
    "ReleasedSigns",
    "Signs",
    "load",
]

__getattr__: Callable[..., Any] = on_demand(
    __name__,
    {
        "blip": (
            "Blip",
            "ReleasedBlip",
        ),
        "jlt": (
            "Jlt",
            "ReleasedJlt",
        ),
        "min_hash": (
            "Minima",
            "ReleasedMinima",
        ),
        "released": ("ReleasedProfiles",),
        "signs": (
            "ReleasedSigns",
            "Signs",
        ),
        "sfumato.core.storage": ("load",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
