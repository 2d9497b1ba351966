"""What requests and answers contain: the types that are validated and that /openapi.json shows."""

from typing import Annotated, Any

from msgspec import Meta, Struct

__all__ = [
    "Accepted",
    "AddedKeys",
    "BudgetRow",
    "Budgets",
    "Charged",
    "DensityAnswer",
    "DensityQuery",
    "Erased",
    "ErasureAnswer",
    "Event",
    "Explanation",
    "Health",
    "KeyList",
    "KeyRequest",
    "KeyRow",
    "NewKey",
    "Readiness",
    "Recommendations",
    "Recommended",
    "ReleaseList",
    "ReleaseOrder",
    "ReleaseRow",
    "ReportsCounted",
    "Similar",
    "SketchAnswer",
    "SketchKeys",
    "Statement",
    "TelemetryAnswer",
    "TelemetryRow",
]

LONGEST = 256
Text = Annotated[str, Meta(min_length=1, max_length=LONGEST, pattern=r"^[^\x00]*$")]
Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]*$")]
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
# Checked by the store again; a pattern here would cost as much as all of the rest of an event.
Id = Annotated[str, Meta(min_length=1, max_length=LONGEST)] | Integer
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Epsilon = Annotated[float, Meta(gt=0, le=1000)]
Delta = Annotated[float, Meta(ge=0, lt=1)]
Number = Annotated[int, Meta(ge=1, le=1000)]


class Event(Struct, forbid_unknown_fields=True, gc=False):
    """One event: a user and an item, and what makes a retry harmless."""

    user: Id
    item: Id
    value: Finite = 1.0
    time: Finite | None = None
    id: Annotated[str, Meta(min_length=1, max_length=LONGEST)] | None = None


class Accepted(Struct):
    """Events that are durable."""

    new: int
    duplicates: int
    position: int


class Recommended(Struct):
    """An item and its score."""

    item: str
    score: float


class Recommendations(Struct):
    """A user's items, best first, and up to which event the model learned."""

    user: str
    items: list[Recommended]
    position: int
    age_seconds: float


class Reason(Struct):
    """An item of the user's own, and its similarity to the recommended one."""

    item: str
    similarity: float


class Explanation(Struct):
    """Why an item has its score for a user: terms that add up to the score, and own items."""

    user: str
    item: str
    score: float
    popularity: float
    affinity: float
    because: list[Reason]
    position: int


class Similar(Struct):
    """Items similar to one, from a private release."""

    item: str
    items: list[Recommended]
    release: str


class ReportsCounted(Struct):
    """Telemetry reports that are counted and durable."""

    new: int
    duplicates: int
    refused: dict[str, int]


class TelemetryRow(Struct):
    """A value and how many clients have it."""

    value: str
    estimate: float | None
    std_error: float | None
    low: float | None
    high: float | None
    p_value: float | None
    detected: bool


class TelemetryAnswer(Struct):
    """Decoded values of a metric."""

    metric: str
    reports: int
    rows: list[TelemetryRow]
    other: float | None
    notes: list[str]
    epsilon: float


class DensityQuery(Struct, forbid_unknown_fields=True):
    """Points at which a density is wanted."""

    points: Annotated[list[list[Finite]], Meta(min_length=1)]


class DensityAnswer(Struct):
    """Densities at the points, in order."""

    densities: list[float]
    statement: str


class SketchKeys(Struct, forbid_unknown_fields=True):
    """Keys to add; one request id is applied once."""

    keys: Annotated[list[Id], Meta(min_length=1)]
    weights: list[Annotated[int, Meta(ge=0, le=2**31 - 1)]] | None = None
    id: Text | None = None


class AddedKeys(Struct):
    """Keys that are in the sketch and durable."""

    added: int
    repeated: bool


class SketchAnswer(Struct, omit_defaults=True):
    """The curator's view of a live sketch: not a release."""

    name: str
    kind: str
    nbytes: int
    distinct: float | None = None
    keys: list[str] | None = None
    counts: list[float] | None = None


class CounterAnswer(Struct):
    """A continual release: the noisy running total after every step."""

    name: str
    release: str
    seconds: float
    totals: list[int]
    error_bound: float


class BudgetRow(Struct):
    """A data set of the ledger."""

    dataset: str
    unit: str
    relation: str
    epsilon: float
    delta: float
    spent_epsilon: float
    spent_delta: float
    remaining_epsilon: float
    remaining_delta: float


class Charged(Struct):
    """An entry of the ledger."""

    release: str
    dataset: str
    what: str
    time: str


class Budgets(Struct):
    """What the ledger contains."""

    budgets: list[BudgetRow]
    charges: list[Charged]


class Statement(Struct):
    """The privacy statement of a release."""

    release: str
    text: str
    statement: dict[str, Any]


class ReleaseOrder(Struct, forbid_unknown_fields=True):
    """What to release, and what it may cost. The name makes a retry return the stored bytes."""

    release: Name
    kind: Annotated[str, Meta(pattern=r"^(sketch|popular|neighbours)$")]
    dataset: Text
    epsilon: Epsilon
    delta: Delta = 0.0
    sketch: Text | None = None
    contributions: Annotated[int, Meta(ge=1, le=2**15)] | None = None
    largest: Annotated[int, Meta(ge=1, le=2**62)] | None = None  # of a hyper-log-log


class ReleaseRow(Struct):
    """A release that was made."""

    release: str
    what: str
    dataset: str | None
    nbytes: int
    created: float


class ReleaseList(Struct):
    """All releases, oldest first."""

    releases: list[ReleaseRow]


class Erased(Struct):
    """What was removed of a user, what is relearned, and what cannot be recalled."""

    erasure: int
    events: int
    model: str
    sketches: str
    cannot_be_recalled: list[str]


class ErasureAnswer(Struct):
    """An erasure, without the user, and whether the served model was learned after it."""

    erasure: int
    events: int
    erased: float
    model: str


class KeyRequest(Struct, forbid_unknown_fields=True):
    """A key to create. That of browsers has a metric and origins, and counts reports only."""

    name: Text
    scopes: Annotated[list[str], Meta(min_length=1, max_length=3)]
    metric: Text | None = None
    origins: list[Text] | None = None


class KeyRow(Struct):
    """A key without its secret."""

    key_id: str
    name: str
    scopes: list[str]
    created: float
    revoked: float | None
    metric: str | None = None
    origins: list[str] | None = None


class NewKey(Struct):
    """A new key; its secret is shown once."""

    key: KeyRow
    secret: str


class KeyList(Struct):
    """All keys."""

    keys: list[KeyRow]


class Health(Struct):
    """That the process answers."""

    status: str


class Readiness(Struct, omit_defaults=True):
    """Whether requests can be served; for a key of the scope read, the trainer's lag too."""

    status: str
    database: bool
    trainer: bool
    model: bool
    position: int | None = None
    lag: int | None = None
