"""The client side: encode values as private reports, reproducibly where a secret is given."""

import hashlib
from dataclasses import replace
from functools import cached_property
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
    """Encoder of values as private reports, for one client or a simulation of many.

    Parameters
    ----------
    scheme : Scheme
        Parameters of the reports, such as `Rappor`.
    secret : bytes or None, default=None
        At least 16 random bytes that never leave the client. If None, every row is another
        client with fresh randomness, or with its own secret given to `encode_many`.
    seed : int or None, default=None
        Seed for tests and figures, from 0 to 2**64 - 1: reports are reproducible and NOT private.

    Attributes
    ----------
    scheme : Scheme
        The parameters of the reports.

    Notes
    -----
    **Guarantee.** With a secret, the cohort and the permanent response to a value never change, no
    state has to be stored, and only the instantaneous response is fresh; `statement` states the
    privacy loss. Without a secret, every row draws its cohort and permanent response from the
    system's random source, so a person who is encoded twice has two permanent responses and their
    epsilons add up.

    No value raises, since a missing report would reveal something about it. What cannot be
    reported (null, NaN, a fraction, an object) is reported as the empty text; by RAPPOR with
    categories or edges as a value without a cell; by other schemes with categories as the last
    category, which is "(other)" if the scheme has that. Numbers beyond the edges count in the first
    or last bin.

    References
    ----------
    .. [1] Erlingsson, Pihur, Korolova. "RAPPOR: Randomized Aggregatable Privacy-Preserving Ordinal
       Response". CCS 2014, section 2 (permanent and instantaneous responses).
       https://arxiv.org/abs/1407.6981

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
        """Cohort of the client whose secret was given."""
        return self._own_cohort

    @cached_property
    def _own_cohort(self) -> int:
        """Cohort of the only client: it never changes."""
        return int(self._client().cohorts(self.scheme.cohorts)[0])

    @property
    def statement(self) -> PrivacyStatement | str:
        """Privacy statement of the scheme; it names the insecure source if a seed was given."""
        statement = self.scheme.statement()
        if self._seed is None or isinstance(statement, str):
            return statement
        return replace(statement, source=INSECURE)

    def permanent(self, value: Any) -> np.ndarray:
        """Return the client's permanent response to a value.

        It is what many reports of the value reveal in the limit, at `epsilon_permanent`.

        Parameters
        ----------
        value : object
            Text or an integer; anything else is converted as `Scheme.reported` says.

        Returns
        -------
        ndarray of shape (payload_bytes,)
            Payload, uint8.

        Raises
        ------
        ValueError
            If the encoder has no secret.
        """
        values = self.scheme.reported([value])
        payload = self._response(self._client(), values, np.array([self.cohort], np.int32))
        return payload.reshape(-1)

    def encode(self, value: Any) -> Reports:
        """Encode one value.

        Parameters
        ----------
        value : object
            Text or an integer; anything else is converted as `Scheme.reported` says.

        Returns
        -------
        Reports
            One report.
        """
        return self.encode_many([value])

    def encode_many(self, values: Column, secrets: Any = None) -> Reports:
        """Encode a column of values, one report per row.

        Parameters
        ----------
        values : array_like of shape (n,)
            Text or integers (numbers if the scheme has edges), as NumPy, Arrow, pandas, polars or a
            list.
        secrets : object, default=None
            Secret of each row's client: a uint8 array of shape (n, 16 or more), for an encoder
            without a secret of its own.

        Returns
        -------
        Reports
            Reports in the order of the values. If that order is sensitive, shuffle before sending.
        """
        column = self.scheme.reported(values)
        rows = column.codes.size
        if secrets is not None:
            cohorts, payload = self._of_many(column, secrets)
        elif self._keys is not None:
            cohorts, payload = self._of_one(column)
        else:
            cohorts = noise.uniform(self.scheme.cohorts, rows, source=self._drawn).astype(np.int32)
            members = self.scheme.own_members(column, cohorts)
            payload = self.scheme.respond(DrawnStream(self._permanent), members)
        ids = np.empty((rows, 16), np.uint8)
        self._ids.fill(ids)
        return Reports(self.scheme, cohorts, self.scheme.instant(payload, self._fresh), ids)

    def _of_one(self, values: Values) -> tuple[np.ndarray, np.ndarray]:
        """Return cohorts and permanent responses of one client, one response per distinct value."""
        if values.codes.size == 1:
            cohorts = np.array([self.cohort], np.int32)
            return cohorts, self._response(self._client(), values, cohorts)
        once = values.once()
        cohorts = np.full(once.codes.size, self.cohort, np.int32)
        payload = self._response(self._client(), once, cohorts)
        return np.full(values.codes.size, self.cohort, np.int32), payload[values.codes]

    def _of_many(self, values: Values, secrets: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return cohorts and permanent responses of clients with a secret each."""
        if self._keys is not None:
            raise ValueError(
                "ReportEncoder: secrets are for an encoder without a secret of its own."
            )
        keys = ClientKeys(_secrets(secrets, values.codes.size), self.scheme.line())
        cohorts = keys.cohorts(self.scheme.cohorts)
        return cohorts, self._response(keys, values, cohorts)

    def _response(self, keys: ClientKeys, values: Values, cohorts: np.ndarray) -> np.ndarray:
        """Return the permanent responses of clients with these keys to their values."""
        members = self.scheme.own_members(values, cohorts)
        return self.scheme.respond(KeyedStream(keys, values), members)

    def _client(self) -> ClientKeys:
        """Return the key of the only client, or raise ValueError."""
        if self._keys is None:
            raise ValueError("ReportEncoder: this needs the secret of one client; give secret=.")
        return self._keys


def _source(seed: int | None, use: str) -> Source:
    """Return a source for one use, so that rows in two calls draw the same as rows in one."""
    if seed is None:
        return SystemSource()
    digest = hashlib.sha256(f"telemetry {use} {seed}".encode()).digest()
    return InsecureSeededSource(int.from_bytes(digest[:8], "big"))


def _secret(secret: Any) -> np.ndarray:
    """Check a secret and return it as one uint8 row."""
    if not isinstance(secret, bytes | bytearray | memoryview) or len(secret) < SHORTEST:
        raise ValueError(f"ReportEncoder: secret must be at least {SHORTEST} random bytes.")
    return np.frombuffer(bytes(secret), np.uint8)[np.newaxis]


def _secrets(secrets: Any, rows: int) -> np.ndarray:
    """Check a table of secrets, one row per value."""
    if (
        not isinstance(secrets, np.ndarray)
        or secrets.dtype != np.uint8
        or secrets.ndim != 2
        or secrets.shape[1] < SHORTEST
        or secrets.shape[0] != rows
    ):
        raise ValueError(
            f"ReportEncoder: secrets must be a uint8 array of {rows} rows, one per value, of at "
            f"least {SHORTEST} random bytes each."
        )
    return np.ascontiguousarray(secrets)
