"""Private user profiles: item sets encoded with noise, to be published, compared and searched."""

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
