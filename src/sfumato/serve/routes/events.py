"""POST /events: one event, an array, or a line of JSON each; answered when they are durable."""

import time

import msgspec

from sfumato.errors import ParameterError
from sfumato.serve.endpoint import Call, Endpoint
from sfumato.serve.protection.problems import Problem, problem_of
from sfumato.serve.routes.messages import Accepted, Event
from sfumato.store.events import EventBatch, new_event_ids

__all__ = ["ENDPOINTS", "batch_of", "read_events"]

NDJSON = "application/x-ndjson"
COLUMNS = {"users": "user", "items": "item", "values": "value", "times": "time", "event_ids": "id"}
_one = msgspec.json.Decoder(Event)
_many = msgspec.json.Decoder(list[Event])


async def add_events(call: Call) -> Accepted:
    """Append events; answer when they are on the disk."""
    lines = call.headers.get(b"content-type", b"").lower().startswith(NDJSON.encode())
    events = read_events(call.body, lines, call.service.config.largest_batch)
    batch = batch_of(events)
    done = await call.service.store.append_async(batch)
    call.service.recent.add(batch)
    call.service.metrics.add("events_total", done.new)
    call.service.position = max(call.service.position, done.position)
    return Accepted(done.new, done.duplicates, done.position)


def read_events(body: bytes, lines: bool, limit: int) -> list[Event]:
    """Return the events of a body; raise a problem if there are none, or too many."""
    if lines:
        events = _many_lines(body, limit)
    elif body.lstrip()[:1] == b"[":
        events = _many.decode(body)
    else:
        events = [_one.decode(body)]
    if not events:
        raise Problem(422, "There must be at least one event.", kind="no-events")
    if len(events) > limit:
        raise Problem(
            413,
            f"There must be at most {limit} events in a request.",
            kind="batch-too-large",
            position=limit,
        )
    return events


def _many_lines(body: bytes, limit: int) -> list[Event]:
    """Decode lines; a problem names the position of its line."""
    if body.count(b"\n") > 2 * limit:  # millions of blank lines would hold up all other requests
        raise Problem(
            413, f"There must be at most {2 * limit} lines in a request.", kind="batch-too-large"
        )
    try:
        return _one.decode_lines(body)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        for position, line in enumerate(body.split(b"\n")):
            try:
                if line.strip():
                    _one.decode(line)
            except msgspec.ValidationError:
                raise
            except msgspec.DecodeError:
                raise Problem(
                    400, f"Line {position + 1} is no JSON.", kind="no-json", position=position
                ) from None
        raise


def batch_of(events: list[Event]) -> EventBatch:
    """Return the columns of events; those without a time or id get one."""
    now = time.time()
    ids = [event.id for event in events]
    if None in ids:
        fresh = new_event_ids(len(ids))
        ids = [new if given is None else given for given, new in zip(ids, fresh, strict=True)]
    try:
        return EventBatch(
            [event.user for event in events],
            [event.item for event in events],
            [event.value for event in events],
            [now if event.time is None else event.time for event in events],
            ids,
        )
    except ParameterError as error:  # of a column, where the request has rows
        problem = problem_of(error)
        assert problem is not None
        problem.field = COLUMNS.get(error.parameter, error.parameter)
        raise problem from None


ENDPOINTS = [
    Endpoint(
        "POST",
        "/events",
        add_events,
        "ingest",
        Accepted,
        body=Event | list[Event],
        takes=("application/json", NDJSON),
    )
]
