"""What the routes of the page answer; shown by /openapi.json like the types of the others."""

from typing import Annotated

from msgspec import Meta, Struct

__all__ = [
    "DensityRow",
    "LabAnswer",
    "LabCurve",
    "LabDensity",
    "LabDensityQuery",
    "LabItem",
    "LabQuery",
    "LabStep",
    "MetricRow",
    "MetricsHistory",
    "ModelRow",
    "Overview",
]

Epsilon = Annotated[float, Meta(gt=0, le=1000)]


class ModelRow(Struct):
    """The served model: how large, how old, and up to which event it learned."""

    nbytes: int
    items: int
    factors: int
    position: int
    age_seconds: float


class MetricRow(Struct):
    """A telemetry metric: what a browser needs to make a report, and the key to send it with."""

    name: str
    epsilon: float
    epsilon_one: float | None
    parameters: str
    public_key: str | None


class DensityRow(Struct):
    """A density that can be queried: the public limits of its columns, and its guarantee."""

    name: str
    low: list[float]
    high: list[float]
    statement: str


class Overview(Struct):
    """What the service has to show, by name; no data of users."""

    version: str
    generated: bool
    examples: list[str]
    model: ModelRow | None
    metrics: list[MetricRow]
    densities: list[DensityRow]


class LabQuery(Struct, forbid_unknown_fields=True):
    """The epsilon of each item; the nearest step of the lab is taken."""

    epsilon: Epsilon = 4.0


class LabItem(Struct):
    """One title of the generated catalogue: in the profile or not, and what the attacker says."""

    title: str
    present: bool
    claimed: bool
    probability: float


class LabAnswer(Struct):
    """A generated profile, released and attacked."""

    epsilon: float
    epsilons: list[float]
    profile_epsilon: float
    items: list[LabItem]
    size: int
    claimed: int
    found: int
    guessed: int
    sentence: str
    statement: str


class LabStep(Struct):
    """Averages over all generated profiles at one epsilon, as fractions."""

    epsilon: float
    rebuilt: float
    guessed: float
    neighbours: float


class LabCurve(Struct):
    """What leaks and what remains useful, by epsilon."""

    profiles: int
    steps: list[LabStep]


class LabDensityQuery(Struct, forbid_unknown_fields=True):
    """The epsilon of one generated point; the nearest step of the lab is taken."""

    epsilon: Epsilon = 0.5


class LabDensity(Struct):
    """The exact density of generated points beside a private one, row by row from below."""

    epsilon: float
    epsilons: list[float]
    points: int
    side: int
    low: float
    high: float
    exact: list[float]
    private: list[float]
    error: float
    sentence: str
    statement: str


class MetricsHistory(Struct):
    """One row a step of `seconds`: rates per second, lag in events, mean milliseconds."""

    seconds: float
    time: list[float]
    requests: list[float]
    refused: list[float]
    failed: list[float]
    events: list[float]
    reports: list[float]
    lag: list[float]
    milliseconds: list[float | None]
