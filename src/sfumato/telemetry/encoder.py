"""The client: a value becomes a report that hides it, for ever alike where a secret is given."""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.core.tables import described
from sfumato.core.typing import Column
from sfumato.core.validation import integer, optional
from sfumato.privacy.noise import discrete as noise
from sfumato.privacy.random_source import InsecureSeededSource, Source, SystemSource
from sfumato.privacy.statement import INSECURE, PrivacyStatement
from sfumato.telemetry.keyed_randomness import ClientKeys, DrawnStream, KeyedStream
from sfumato.telemetry.reports.reports import Reports
from sfumato.telemetry.schemes.base import Scheme
from sfumato.telemetry.values import Values

__all__ = ["ReportEncoder"]

SHORTEST = 16  # bytes of a secret
SEED = optional(integer(0, 2**64 - 1))


class ReportEncoder:
    """Makes reports of values, as one client with a secret or as many clients in a simulation.

    Parameters
    ----------
    scheme : Scheme
        As `Rappor`.
    secret : bytes or None, default=None
        At least 16 random bytes that never leave the client.
    seed : int or None, default=None
        For tests and figures only: the same reports again, which are then not private.

    Notes
    -----
    **Guarantee.** With a secret, the cohort and the permanent response to a value are the same for
    ever, without storage, and only the instantaneous response is fresh; see `statement`. Without,
    every row is another client whose cohort and permanent response are drawn from the exact source,
    so a person who is encoded twice has two permanent responses, and what they cost adds up. No
    value raises, since a report that fails to come would tell of it: what cannot be reported (null,
    NaN, a fraction, an object) is reported as an empty text; with categories or edges of RAPPOR as
    a value without a cell, with categories of other schemes as the last one, which is "(other)"
    where the scheme has that. Numbers beyond the edges count in the first or the last bin.

    References
    ----------
    .. [1] Erlingsson, Pihur and Korolova 2014, section 3.

    Examples
    --------
    >>> from sfumato.telemetry import Rappor
    >>> params = Rappor(bits=64, cohorts=8, f=0.5, p=0.25, q=0.75, metric="home page")
    >>> client = ReportEncoder(params, secret=bytes(range(16)))
    >>> bool((client.permanent("tea") == client.permanent("tea")).all())
    True
    >>> len(ReportEncoder(params).encode_many(["tea", "milk", "tea"]))
    3
    """

    def __init__(
        self, scheme: Scheme, secret: bytes | None = None, seed: int | None = None
    ) -> None:
        seed = SEED.check("ReportEncoder", "seed", seed)
        if secret is not None and seed is not None:
            raise ValueError(
                "ReportEncoder: secret and seed exclude each other; a seed is for tests."
            )
        self.scheme, self._seed = scheme, seed
        self._keys = None if secret is None else ClientKeys(_secret(secret), scheme.line())
        self._drawn, self._permanent = _source(seed, "cohort"), _source(seed, "permanent")
        self._fresh, self._ids = _source(seed, "fresh"), _source(seed, "id")

    def __repr__(self) -> str:  # without secret and seed
        clients = "many" if self._keys is None else "one, by its secret"
        noise = {} if self._seed is None else {"noise": INSECURE}
        return described(self, scheme=self.scheme, clients=clients, **noise)

    @property
    def cohort(self) -> int:
        """The cohort of the client whose secret was given."""
        return int(self._client().cohorts(self.scheme.cohorts)[0])

    @property
    def statement(self) -> PrivacyStatement | str:
        """What the scheme promises for reports of this encoder."""
        told = self.scheme.statement()
        if self._seed is None or isinstance(told, str):
            return told
        return replace(told, source=INSECURE)

    def permanent(self, value: Any) -> np.ndarray:
        """The payload of the client's permanent response to a value.

        It is what many reports of the value would reveal in the end, at epsilon_permanent.

        Parameters
        ----------
        value : object
            TODO.

        Returns
        -------
        ndarray
            The payload of the client's permanent response to a value.
        """
        values = self.scheme.reported([value])
        kept = self._kept(self._client(), values, np.array([self.cohort], np.int32))
        return kept.reshape(-1)

    def encode(self, value: Any) -> Reports:
        """One report of one value.

        Parameters
        ----------
        value : object
            TODO.

        Returns
        -------
        Reports
            One report of one value.
        """
        return self.encode_many([value])

    def encode_many(self, values: Column, secrets: Any = None) -> Reports:
        """A report for every value of a column.

        Reports stand in the order of the values, so an order that tells of them is to be shuffled
        before reports leave.

        Parameters
        ----------
        values : array_like
            Text or integers (numbers where the scheme has edges), as NumPy, Arrow, pandas, polars
            or a list.
        secrets : object, default=None
            Uint8 (n, 16 or more): for every row the secret of its client, for an encoder that has
            none.

        Returns
        -------
        Reports
            A report for every value of a column.
        """
        held = self.scheme.reported(values)
        rows = held.codes.size
        if secrets is not None:
            cohorts, kept = self._of_many(held, secrets)
        elif self._keys is not None:
            cohorts, kept = self._of_one(held)
        else:
            cohorts = noise.uniform(self.scheme.cohorts, rows, source=self._drawn).astype(np.int32)
            members = self.scheme.own_members(held, cohorts)
            kept = self.scheme.respond(DrawnStream(self._permanent), members)
        ids = np.empty((rows, 16), np.uint8)
        self._ids.fill(ids)
        return Reports(self.scheme, cohorts, self.scheme.instant(kept, self._fresh), ids)

    def _of_one(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """Cohorts and permanent responses of one client: one response for each distinct value."""
        once = values.once()
        kept = self._kept(self._client(), once, np.full(once.codes.size, self.cohort, np.int32))
        return np.full(values.codes.size, self.cohort, np.int32), kept[values.codes]

    def _of_many(self, values: Values, secrets: Any) -> tuple[np.ndarray, np.ndarray]:
        if self._keys is not None:
            raise ValueError(
                "ReportEncoder: secrets are for an encoder without a secret of its own."
            )
        keys = ClientKeys(_secrets(secrets, values.codes.size), self.scheme.line())
        cohorts = keys.cohorts(self.scheme.cohorts)
        return cohorts, self._kept(keys, values, cohorts)

    def _kept(self, keys: ClientKeys, values: Values, cohorts: np.ndarray) -> np.ndarray:
        members = self.scheme.own_members(values, cohorts)
        return self.scheme.respond(KeyedStream(keys, values), members)

    def _client(self) -> ClientKeys:
        if self._keys is None:
            raise ValueError("ReportEncoder: this needs the secret of one client; give secret=.")
        return self._keys


def _source(seed: int | None, use: str) -> Source:
    """A source for one use, so that rows in two calls draw the same as rows in one."""
    if seed is None:
        return SystemSource()
    told = hashlib.sha256(f"telemetry {use} {seed}".encode()).digest()
    return InsecureSeededSource(int.from_bytes(told[:8], "big"))


def _secret(secret: Any) -> np.ndarray:
    if not isinstance(secret, bytes | bytearray | memoryview) or len(secret) < SHORTEST:
        raise ValueError(f"ReportEncoder: secret must be at least {SHORTEST} random bytes.")
    return np.frombuffer(bytes(secret), np.uint8)[np.newaxis]


def _secrets(secrets: Any, rows: int) -> np.ndarray:
    if (
        not isinstance(secrets, np.ndarray)
        or secrets.dtype != np.uint8
        or secrets.ndim != 2
        or secrets.shape[1] < SHORTEST
        or secrets.shape[0] != rows
    ):
        raise ValueError(
            f"ReportEncoder: secrets must be a uint8 array of {rows} rows, one a value, of at "
            f"least {SHORTEST} random bytes each."
        )
    return np.ascontiguousarray(secrets)
