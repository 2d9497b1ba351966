"""Private profiles: what users had, encoded with noise so that it may be published and compared."""

from sfumato.profile._released import ReleasedProfiles
from sfumato.profile.blip import Blip
from sfumato.profile.jlt import Jlt
from sfumato.profile.minima import Minima
from sfumato.profile.released_blip import ReleasedBlip
from sfumato.profile.released_jlt import ReleasedJlt
from sfumato.profile.released_minima import ReleasedMinima
from sfumato.profile.released_signs import ReleasedSigns
from sfumato.profile.signs import Signs
from sfumato.sketch._stored import load

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
