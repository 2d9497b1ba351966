"""Private profiles: what users had, encoded with noise so that it may be published and compared."""

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
