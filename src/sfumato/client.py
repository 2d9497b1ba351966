"""Clients of the service, for programs that block and for event loops.

Both send events with ids of their own, so that a call that is repeated takes effect once.
"""

import asyncio
import os
import random
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from sfumato.errors import ServiceError

__all__ = ["AsyncClient", "Client"]

RETRIED = (429, 502, 503, 504)
LONGEST_PAUSE = 5.0


class _Routes:
    """The routes, each as a call that `_call` carries out."""

    def __init__(self, url: str, key: str, *, timeout: float = 10.0, tries: int = 5) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                f"{type(self).__name__}: needs httpx: pip install 'sfumato[client]'.", name="httpx"
            ) from None
        if tries < 1:
            raise ValueError(f"{type(self).__name__}: tries must be an integer from 1 up.")
        self._tries, self._url = int(tries), url
        self._failed: Any = httpx.TransportError
        headers = {"authorization": f"Bearer {key}"}
        kind = httpx.AsyncClient if isinstance(self, AsyncClient) else httpx.Client
        self._http: Any = kind(base_url=url, headers=headers, timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._url!r})"

    def _call(self, method: str, *path: Any, raw: bool = False, **options: Any) -> Any:
        raise NotImplementedError

    def add_events(
        self,
        users: Sequence[str | int],
        items: Sequence[str | int],
        values: Sequence[float] | None = None,
        *,
        times: Sequence[float] | None = None,
        ids: Sequence[str] | None = None,
    ) -> Any:
        """Send events; they are durable when this returns.

        Parameters
        ----------
        users, items : sequence
            Ids, text or integers.
        values : sequence of float or None, default=None
            Values, such as ratings; None is 1 for each.
        times : sequence of float or None, default=None
            Seconds since 1970 in UTC; None is the time of arrival.
        ids : sequence of str or None, default=None
            Unique ids; None makes new ones.

        Returns
        -------
        dict
            Numbers of "new" events and "duplicates", and the "position" of the log.
        """
        columns: dict[str, Any] = {"user": users, "item": items, "value": values, "time": times}
        columns["id"] = _fresh_ids(len(users)) if ids is None else ids
        given = {name: column for name, column in columns.items() if column is not None}
        rows = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)]
        return self._call("POST", "events", json=rows)

    def recommend(
        self,
        user: str | int,
        n: int = 10,
        *,
        exclude: Sequence[str] = (),
        repeat: bool = False,
    ) -> Any:
        """Return the best items of a user.

        Parameters
        ----------
        user : str or int
            User id.
        n : int, default=10
            Number of items, from 1 to 1000.
        exclude : sequence of str, default=()
            Items that are not wanted.
        repeat : bool, default=False
            Whether the user's last items may be in the list.

        Returns
        -------
        dict
            "items", each with "item" and "score", best first; "position" and "age_seconds" of the
            model.
        """
        query = {"n": n, "repeat": str(bool(repeat)).lower(), "exclude": list(exclude)}
        return self._call("GET", "recommendations", user, params=query)

    def explain(self, user: str | int, item: str | int, n: int = 10) -> Any:
        """Explain the score of an item for a user.

        Parameters
        ----------
        user : str or int
            User id.
        item : str or int
            Item id.
        n : int, default=10
            Largest number of reasons.

        Returns
        -------
        dict
            "score", its parts "popularity" and "affinity", and "because": own items of the user.
        """
        return self._call("GET", "explain", user, item, params={"n": n})

    def similar(self, item: str | int, n: int = 10) -> Any:
        """Return items similar to one, by the newest private release.

        Parameters
        ----------
        item : str or int
            Item id.
        n : int, default=10
            Number of items.

        Returns
        -------
        dict
            "items", most similar first, and the "release" that they are from.
        """
        return self._call("GET", "similar", item, params={"n": n})

    def add_keys(
        self, sketch: str, keys: Sequence[str | int], weights: Sequence[int] | None = None
    ) -> Any:
        """Add keys to a live sketch; they are durable when this returns.

        Parameters
        ----------
        sketch : str
            Name of the sketch.
        keys : sequence
            Keys, text or integers.
        weights : sequence of int or None, default=None
            Weights of the keys; None is 1 for each.

        Returns
        -------
        dict
            Number of keys "added", and whether the request was "repeated".
        """
        body = {"keys": list(keys), "id": _fresh_ids(1)[0]}
        if weights is not None:
            body["weights"] = list(weights)
        return self._call("POST", "sketches", sketch, json=body)

    def sketch(self, name: str, n: int = 10) -> Any:
        """Return the curator's view of a live sketch; needs the scope admin.

        Parameters
        ----------
        name : str
            Name of the sketch.
        n : int, default=10
            Number of heavy hitters.

        Returns
        -------
        dict
            "keys" and "counts" of heavy hitters, or the number of "distinct" keys.
        """
        return self._call("GET", "sketches", name, params={"n": n})

    def telemetry(self, metric: str, candidates: Sequence[str] = ()) -> Any:
        """Return the decoded values of a metric.

        Parameters
        ----------
        metric : str
            Name of the metric.
        candidates : sequence of str, default=()
            Values to look for; none takes those of the service's settings.

        Returns
        -------
        dict
            "rows" with estimates and intervals, and the number of "reports".
        """
        return self._call("GET", "telemetry", metric, params={"candidate": list(candidates)})

    def density(self, name: str, points: Sequence[Sequence[float]]) -> Any:
        """Return the density at each point, from a private release.

        Parameters
        ----------
        name : str
            Name of the density.
        points : sequence of sequence of float
            Points.

        Returns
        -------
        dict
            "densities" in order.
        """
        rows = [list(map(float, point)) for point in points]
        return self._call("POST", "density", name, "query", json={"points": rows})

    def release(self, name: str, kind: str, dataset: str, epsilon: float, **options: Any) -> Any:
        """Make a private release, or return the one of that name; needs the scope admin.

        Parameters
        ----------
        name : str
            Name of the release; the same again returns the stored bytes at no cost.
        kind : {"sketch", "popular", "neighbours"}
            What is released.
        dataset : str
            Data set of the ledger that is charged.
        epsilon : float
            Privacy loss, above 0.
        **options : object
            Further fields of the request: delta, sketch, contributions, largest.

        Returns
        -------
        bytes
            The release, for `sfumato.load`.
        """
        body = {"release": name, "kind": kind, "dataset": dataset, "epsilon": epsilon, **options}
        return self._call("POST", "releases", json=body, raw=True)

    def statement(self, release: str) -> Any:
        """Return the privacy statement of a release.

        Parameters
        ----------
        release : str
            Name of the release.

        Returns
        -------
        dict
            Its "text" and its fields as "statement".
        """
        return self._call("GET", "statements", release)

    def budget(self) -> Any:
        """Return the data sets of the ledger, with what is spent and what remains.

        Returns
        -------
        dict
            "budgets" and "charges".
        """
        return self._call("GET", "budget")

    def erase(self, user: str | int) -> Any:
        """Erase a user; needs the scope admin.

        Parameters
        ----------
        user : str or int
            User id.

        Returns
        -------
        dict
            Number of "events" that were removed, and releases that "cannot_be_recalled".
        """
        return self._call("DELETE", "users", user)

    def ready(self) -> Any:
        """Return whether the service is ready.

        Returns
        -------
        dict
            "status", "lag" of the model in events, and more.
        """
        return self._call("GET", "readyz")


class Client(_Routes):
    """Client of the service for programs that block; threads may share it.

    Parameters
    ----------
    url : str
        Address of the service.
    key : str
        Key with the scopes that the calls need.
    timeout : float, default=10.0
        Seconds to wait for an answer.
    tries : int, default=5
        How often a call is sent while the service cannot be reached or is overloaded.

    Notes
    -----
    **Guarantee.** Every call may be repeated without effect: events and keys carry ids, and a
    release its name. So a call that fails on the way is sent again, after a growing pause.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8000", key="...") as client:
    ...     client
    Client('http://127.0.0.1:8000')
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def _call(self, method: str, *path: Any, raw: bool = False, **options: Any) -> Any:
        for number in range(1, self._tries + 1):
            try:
                answer = self._http.request(method, _address(path), **options)
            except self._failed:
                if number == self._tries:
                    raise _unreachable(number) from None
                time.sleep(_pause(number, {}))
                continue
            if answer.status_code not in RETRIED or number == self._tries:
                break
            time.sleep(_pause(number, answer.headers))
        return _content(answer, raw)


class AsyncClient(_Routes):
    """Client of the service for event loops: every call is awaited.

    Parameters
    ----------
    url : str
        Address of the service.
    key : str
        Key with the scopes that the calls need.
    timeout : float, default=10.0
        Seconds to wait for an answer.
    tries : int, default=5
        How often a call is sent while the service cannot be reached or is overloaded.

    Notes
    -----
    **Guarantee.** As of `Client`.

    Examples
    --------
    >>> async def lists(users):
    ...     async with AsyncClient("http://127.0.0.1:8000", key="...") as client:
    ...         return [await client.recommend(user) for user in users]
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def _call(self, method: str, *path: Any, raw: bool = False, **options: Any) -> Any:
        for number in range(1, self._tries + 1):
            try:
                answer = await self._http.request(method, _address(path), **options)
            except self._failed:
                if number == self._tries:
                    raise _unreachable(number) from None
                await asyncio.sleep(_pause(number, {}))
                continue
            if answer.status_code not in RETRIED or number == self._tries:
                break
            await asyncio.sleep(_pause(number, answer.headers))
        return _content(answer, raw)


def _address(path: tuple[Any, ...]) -> str:
    return "/" + "/".join(quote(str(part), safe="") for part in path)


def _pause(number: int, headers: Mapping[str, str]) -> float:
    """Return how long to wait: doubling, a part of it at random, at least what the service says."""
    usual = 0.05 * float(2**number) * (0.5 + random.random())
    wanted = headers.get("retry-after", "")
    return min(LONGEST_PAUSE, max(usual, float(wanted) if wanted.isdigit() else 0.0))


def _content(answer: Any, raw: bool) -> Any:
    """Return what an answer contains; raise what is wrong."""
    if answer.status_code >= 400:
        problem = {}
        if answer.headers.get("content-type", "").startswith("application/problem+json"):
            problem = answer.json()
        detail = problem.get("detail") or "The service gave no reason."
        raise ServiceError(detail, answer.status_code, problem)
    return answer.content if raw else answer.json()


def _unreachable(tries: int) -> ServiceError:
    return ServiceError(f"The service could not be reached, {tries} times.", 0, {})


def _fresh_ids(n: int) -> list[str]:
    """Return ids that begin with the time, as the log prefers."""
    now, bits = time.time_ns(), os.urandom(8 * n).hex()
    return [f"{now + k:016x}{bits[16 * k : 16 * k + 16]}" for k in range(n)]
