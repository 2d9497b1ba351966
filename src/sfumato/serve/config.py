"""Settings of the service: from a TOML file, then SFUMATO_... variables, then flags."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta, Struct

from sfumato.errors import ParameterError

__all__ = [
    "BudgetConfig",
    "CounterConfig",
    "DensityConfig",
    "MetricConfig",
    "ModelConfig",
    "PageConfig",
    "ServiceConfig",
    "SketchConfig",
    "load_config",
]

PREFIX = "SFUMATO_"
# Variables of tests and benchmarks, which are no settings.
NAMES = ("BROWSER", "DATA", "KILLS", "PATIENCE", "PEERS", "POSTGRES", "ROUNDS", "SEEDS", "VECTORS")
OTHERS = {PREFIX + name for name in NAMES}
Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65535)]
Fraction = Annotated[float, Meta(ge=0, lt=1)]


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The live model: a `SketchFactorization` that learns rankings from the log."""

    factors: Annotated[int, Meta(ge=2, le=4096)] = 32
    cells: Annotated[int, Meta(ge=1024, le=2**32)] = 2**21
    learning_rate: Positive = 0.2
    random_state: NotNegative = 0
    least_value: float | None = None  # events with a smaller value are not learned
    block: Count = 1000  # sequence numbers of one pass
    largest_catalogue: Count = 1_000_000  # items that may be recommended
    refresh_seconds: Positive = 0.2
    snapshot_seconds: Positive = 60.0
    snapshots: Count = 2  # versions that are retained
    recent_users: Count = 50_000  # users whose last items are not recommended again
    recent_items: Count = 50


class BudgetConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A data set of the ledger, created at the first start."""

    epsilon: Positive
    delta: Fraction = 0.0
    unit: str = "user"
    relation: str = "add/remove"


class CounterConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A running total of the keys added to a sketch, released at every step."""

    dataset: str
    epsilon: Positive
    delta: Fraction = 0.0
    steps: Count = 10_000
    seconds: Positive = 60.0


class SketchConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A live sketch of keys; `parameters` are those of its class."""

    kind: str
    parameters: dict[str, Any] = {}
    dataset: str | None = None  # whose budget its releases are charged to
    largest_weight: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 1  # of one key in one request
    commit_seconds: Positive = 0.1
    counter: CounterConfig | None = None


class MetricConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A telemetry metric: the file of its scheme, and the values that are looked for."""

    scheme: str
    candidates: list[str] | None = None
    public_key: str | None = None  # that the page reports with; its origins name the page's


class DensityConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """A density to query: the file of a private release."""

    file: str


class PageConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """The page: whether there is one, and what it says of the data."""

    enabled: bool = True
    generated: bool = False  # all data are generated, and the page says so
    examples: list[str] = []  # users that the page offers, of generated data


class ServiceConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the service.

    Parameters
    ----------
    database : str
        Path of a SQLite file, or the address of a PostgreSQL database.
    host : str, default="127.0.0.1"
        Address to listen on.
    port : int, default=8000
        Port to listen on; 0 takes a free one.
    largest_body : int, default=4194304
        Bytes of a request.
    largest_batch : int, default=10000
        Events, keys, reports or points of a request.
    body_seconds : float, default=10.0
        Time in which a request's head, and then its body, must have arrived.
    write_seconds : float, default=10.0
        Time in which events, reports and keys of sketches must be on the disk; 503 after it.
    rate : float, default=10000.0
        Requests per second of one key.
    burst : int, default=20000
        Requests that a key may send at once.
    connections : int, default=4000
        Connections that may be open; more get 503 at once.
    concurrent : int, default=2000
        Requests that may be under way; more get 503.
    concurrent_bytes : int, default=268435456
        Bytes of the bodies of requests under way; more get 503.
    waiting_events : int, default=200000
        Events that may wait for the disk; more get 503.
    allowed_origins : list of str, optional
        Origins of pages that may read answers with a key (CORS); none unless named.
    shutdown_seconds : float, default=10.0
        Time for requests under way when the service is stopped.
    log_level : str, default="info"
        "debug", "info", "warning" or "error".
    trainer : bool, default=True
        Whether to run the trainer; without it nothing is learned.
    catalogue : list of str, optional
        Public ids of items: those that private releases of items name.
    model : ModelConfig, optional
        The live model.
    budgets : dict of BudgetConfig, optional
        Data sets of the ledger by name.
    sketches : dict of SketchConfig, optional
        Live sketches by name.
    metrics : dict of MetricConfig, optional
        Telemetry metrics by name.
    densities : dict of DensityConfig, optional
        Densities by name.
    page : PageConfig, optional
        The page at ``/``.

    Examples
    --------
    >>> ServiceConfig(database="shop.db").port
    8000
    """

    database: str
    host: str = "127.0.0.1"
    port: Port = 8000
    largest_body: Count = 4 << 20
    largest_batch: Count = 10_000
    body_seconds: Positive = 10.0
    write_seconds: Positive = 10.0
    rate: Positive = 10_000.0
    burst: Count = 20_000
    connections: Count = 4000
    concurrent: Count = 2000
    concurrent_bytes: Count = 256 << 20
    waiting_events: Count = 200_000
    allowed_origins: list[str] = []
    shutdown_seconds: Positive = 10.0
    log_level: str = "info"
    trainer: bool = True
    catalogue: list[str] = []
    model: ModelConfig = ModelConfig()
    budgets: dict[str, BudgetConfig] = {}
    sketches: dict[str, SketchConfig] = {}
    metrics: dict[str, MetricConfig] = {}
    densities: dict[str, DensityConfig] = {}
    page: PageConfig = PageConfig()

    def __repr__(self) -> str:
        return f"ServiceConfig({self.host}:{self.port})"

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Check settings as they come from TOML.

        Parameters
        ----------
        settings : mapping
            Settings by name; tables are mappings.

        Returns
        -------
        Self
            The checked settings.

        Raises
        ------
        ValueError
            If a setting is unknown or invalid; the message names it.
        """
        try:
            return msgspec.convert(settings, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ParameterError.of("ServiceConfig", *_named(str(error))) from None


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> ServiceConfig:
    """Read settings from a file, the environment and flags; the later ones win.

    Parameters
    ----------
    path : path_like or None, default=None
        TOML file; None reads none.
    environment : mapping or None, default=None
        Variables; ``SFUMATO_PORT=8001`` sets `port`, and two underscores enter a table:
        ``SFUMATO_MODEL__FACTORS=64``. None reads those of the process.
    flags : mapping or None, default=None
        Settings by name; those that are None are left out.

    Returns
    -------
    ServiceConfig
        The checked settings.

    Examples
    --------
    >>> load_config(environment={"SFUMATO_DATABASE": "shop.db"}, flags={"port": 8001}).port
    8001
    """
    settings: dict[str, Any] = {}
    if path is not None:
        try:
            settings = tomllib.loads(Path(path).read_text())
        except tomllib.TOMLDecodeError as error:
            raise ParameterError.of("ServiceConfig", "file", f"is no TOML: {error}.") from None
    for name, value in sorted((os.environ if environment is None else environment).items()):
        if name.startswith(PREFIX) and name not in OTHERS:
            _enter(settings, name.removeprefix(PREFIX).lower().split("__"), value)
    settings |= {name: value for name, value in (flags or {}).items() if value is not None}
    if "database" not in settings:
        raise ParameterError.of("ServiceConfig", "database", "must be given.")
    return ServiceConfig.of(settings)


def _enter(settings: dict[str, Any], path: list[str], value: str) -> None:
    """Set a value in a table of tables."""
    for name in path[:-1]:
        inner = settings.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ParameterError.of("ServiceConfig", name, "is no table.")
        settings = inner
    settings[path[-1]] = value


def _named(message: str) -> tuple[str, str]:
    """Return the setting that a message of msgspec is about, and what must be of it."""
    what, _, where = message.partition(" - at `$")
    name = where.strip("`.") or "settings"
    return name, f"is invalid: {what[0].lower()}{what[1:]}."
