"""What leaves: releases that charge the ledger, their statements, and what is left of budgets."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec

import sfumato
from sfumato.privacy.ledger.ledger import Ledger
from sfumato.recommend.private.neighbours import PrivateNeighbours
from sfumato.recommend.private.popular import PrivatePopular
from sfumato.serve.config import ServiceConfig
from sfumato.serve.endpoint import Call, Endpoint, Reply
from sfumato.serve.learning.live_sketches import COUNTER
from sfumato.serve.protection.problems import Problem, not_found
from sfumato.serve.routes.messages import (
    BudgetRow,
    Budgets,
    Charged,
    ReleaseList,
    ReleaseOrder,
    ReleaseRow,
    Statement,
)
from sfumato.store import Store
from sfumato.store.events import EventBatch

__all__ = ["ENDPOINTS", "RequestLedger", "create_budgets", "newest_neighbours"]

OCTETS = b"application/octet-stream"
NEIGHBOURS = "ReleasedNeighbours: "  # how the sentence of such a release begins
PER_USER = 20  # items of a user that are counted, unless the request says otherwise
_read = msgspec.json.Decoder(ReleaseOrder).decode


class RequestLedger:
    """The ledger of a store as releases use it; another request under the same key is refused."""

    def __init__(self, store: Store, request: bytes) -> None:
        self._store, self._request = store, request
        self.name: str = store.ledger.name

    def dataset(self, name: str) -> Any:
        """Return a data set of the ledger."""
        return self._store.ledger.dataset(name)

    def release(
        self,
        dataset: str,
        loss: Any,
        what: str,
        make: Callable[[str], bytes],
        release_id: str,
    ) -> bytes:
        """Charge, make and store; or return what is stored."""
        stored = self._store.release(
            release_id, what, make, dataset=dataset, loss=loss, request=self._request
        )
        assert stored.data is not None
        return stored.data


def create_budgets(ledger: Ledger, config: ServiceConfig) -> None:
    """Create the data sets of the settings that the ledger lacks; others stay as they are."""
    known = {each.name for each in ledger.datasets()}
    for name, budget in config.budgets.items():
        if name not in known:
            ledger.create(
                name, budget.epsilon, budget.delta, unit=budget.unit, relation=budget.relation
            )


async def make_release(call: Call) -> Reply:
    """Make a private release and charge its data set; a retry returns the stored bytes."""
    wanted = _read(call.body)
    content = msgspec.json.encode(wanted)
    service = call.service
    if wanted.release.startswith(COUNTER):
        raise Problem(422, f"release must not begin with {COUNTER}", field="release")
    if wanted.dataset not in {
        each.name for each in await asyncio.to_thread(service.store.ledger.datasets)
    }:
        raise Problem(422, "dataset must be one of the ledger's.", field="dataset")
    known = await asyncio.to_thread(service.store.find_release, wanted.release)
    make = _made_of(call, wanted, RequestLedger(service.store, content))
    try:
        data = await asyncio.to_thread(make)
    except ValueError as error:
        if known is not None:
            raise Problem(
                409, "The name was used for another release; take a new one.", kind="release-name"
            ) from None
        if isinstance(error, msgspec.DecodeError):
            raise
        # Sentences of releases are about the request's parameters, which are public.
        raise _invalid(error) from None
    service.released_at += 1
    return Reply(
        data,
        status=200 if known else 201,
        media_type=OCTETS,
        headers=[(b"location", f"/releases/{wanted.release}".encode())],
    )


def _invalid(error: ValueError) -> Exception:
    if type(error) in (ValueError, TypeError):
        return Problem(422, str(error), kind="release")
    return error


def _made_of(call: Call, wanted: ReleaseOrder, ledger: RequestLedger) -> Callable[[], bytes]:
    """Return what makes the release, in a thread, of data as they are now."""
    service = call.service
    paid: dict[str, Any] = dict(ledger=ledger, dataset=wanted.dataset, release_id=wanted.release)
    if wanted.kind == "sketch":
        if wanted.sketch not in service.sketches:
            raise Problem(422, "sketch must be one of the settings.", field="sketch")
        live = service.sketches[wanted.sketch]
        if live.settings.dataset != wanted.dataset:
            raise Problem(
                422,
                "dataset must be the one that the settings name for the sketch.",
                field="dataset",
            )
        return live.releasing(wanted, paid)
    if service.config.budgets.get(wanted.dataset) is None:
        raise Problem(422, "dataset must be one of the settings.", field="dataset")
    catalogue = service.config.catalogue
    if len(catalogue) < 2:
        raise Problem(409, "The settings name no public catalogue.", kind="no-catalogue")
    store = service.store
    if wanted.kind == "popular":
        popular = PrivatePopular(
            epsilon=wanted.epsilon, delta=wanted.delta, per_user=wanted.contributions
        )
        return lambda: popular.fit(_log(store), catalogue=catalogue, **paid).release_.to_bytes()
    unit = service.store.ledger.dataset(wanted.dataset).unit
    neighbours = PrivateNeighbours(
        epsilon=wanted.epsilon,
        delta=wanted.delta,
        per_user=wanted.contributions or PER_USER,
        unit=unit,
    )
    return lambda: neighbours.fit(_log(store), catalogue=catalogue, **paid).release_.to_bytes()


def _log(store: Store) -> Any:
    """Return all events of the log as interactions."""
    parts: list[list[Any]] = [[], [], [], [], []]
    after = 0
    while True:
        batch = store.read(after)
        if not len(batch):
            break
        columns: tuple[list[Any], ...] = batch.lists()
        for part, column in zip(parts, columns, strict=True):
            part.extend(column)
        after = batch.position
    return EventBatch(*parts).interactions()


async def get_release(call: Call) -> Reply:
    """Return the stored bytes of a release."""
    return Reply(await asyncio.to_thread(_bytes_of, call, call.path("release")), media_type=OCTETS)


def _bytes_of(call: Call, key: str) -> bytes:
    found = call.service.store.find_release(key)
    if found is not None and found.data is not None:
        return found.data
    try:
        return call.service.store.ledger.fetch(key)
    except ValueError:
        raise not_found("release", field="release") from None


async def list_releases(call: Call) -> ReleaseList:
    """List all releases."""
    found = await asyncio.to_thread(call.service.store.releases)
    return ReleaseList(
        [ReleaseRow(each.key, each.what, each.dataset, each.nbytes, each.created) for each in found]
    )


async def get_statement(call: Call) -> Statement:
    """Return the privacy statement that a release carries."""
    key = call.path("release")
    return await asyncio.to_thread(lambda: _stated(key, _bytes_of(call, key)))


def _stated(key: str, data: bytes) -> Statement:
    try:
        made = sfumato.load(data)
    except ValueError:
        raise not_found("statement", field="release") from None
    statement = getattr(made, "statement", made)
    return Statement(key, str(statement), json.loads(statement.to_json()))


async def get_budget(call: Call) -> Budgets:
    """Return all data sets of the ledger with what is spent, and the charges."""
    return await asyncio.to_thread(_budgets, call.service.store.ledger)


def _budgets(ledger: Ledger) -> Budgets:
    budgets, charges = [], []
    for each in ledger.datasets():
        spent, left = ledger.spent(each.name), ledger.remaining(each.name)
        budgets.append(
            BudgetRow(
                each.name,
                each.unit,
                each.relation,
                each.epsilon,
                each.delta,
                spent.epsilon,
                spent.delta,
                left.epsilon,
                left.delta,
            )
        )
        if each.parent is None:
            charges += [
                Charged(entry.release_id, entry.dataset, entry.what, entry.charged)
                for entry in ledger.history(each.name)
            ]
    return Budgets(budgets, charges)


def newest_neighbours(store: Store) -> tuple[str, Any]:
    """Return name and object of the newest release of neighbours; ("", None) without any."""
    for each in reversed(store.releases()):
        if each.what.startswith(NEIGHBOURS) and each.nbytes:
            return each.key, sfumato.load(store.ledger.fetch(each.key))
    return "", None


ENDPOINTS = [
    Endpoint(
        "POST",
        "/releases",
        make_release,
        "admin",
        bytes,
        body=ReleaseOrder,
        statuses=(201, 409),
        media_type="application/octet-stream",
    ),
    Endpoint("GET", "/releases", list_releases, "read", ReleaseList),
    Endpoint(
        "GET",
        "/releases/{release}",
        get_release,
        "read",
        bytes,
        statuses=(404,),
        media_type="application/octet-stream",
    ),
    Endpoint("GET", "/statements/{release}", get_statement, "read", Statement, statuses=(404,)),
    Endpoint("GET", "/budget", get_budget, "read", Budgets),
]
