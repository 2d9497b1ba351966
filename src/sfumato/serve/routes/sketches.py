"""Routes of live sketches: add keys, the curator's view, and the running total."""

import msgspec

from sfumato.serve.endpoint import Call, Endpoint
from sfumato.serve.learning.live_sketches import LiveSketch
from sfumato.serve.protection.problems import Problem, not_found
from sfumato.serve.routes.messages import AddedKeys, CounterAnswer, SketchAnswer, SketchKeys
from sfumato.serve.routes.recommend import NumberQuery
from sfumato.sketch.frequency.count_sketch import CountSketch
from sfumato.sketch.hyper_log_log import HyperLogLog

__all__ = ["ENDPOINTS"]

CONFIDENCE = 0.99
_read = msgspec.json.Decoder(SketchKeys).decode


def _of(call: Call) -> LiveSketch:
    found = call.service.sketches.get(call.path("name"))
    if found is None:
        raise not_found("sketch", field="name")
    return found


async def add_keys(call: Call) -> AddedKeys:
    """Add keys to a sketch; answer when they are durable."""
    live, wanted = _of(call), _read(call.body)
    limit = call.service.config.largest_batch
    if len(wanted.keys) > limit:
        raise Problem(413, f"There must be at most {limit} keys.", kind="batch-too-large")
    if wanted.weights is not None and len(wanted.weights) != len(wanted.keys):
        raise Problem(422, "weights must be as many as keys.", field="weights")
    repeated = await live.add(wanted)
    return AddedKeys(0 if repeated else len(wanted.keys), repeated)


async def get_sketch(call: Call) -> SketchAnswer:
    """Show the curator heavy hitters or the number of distinct keys: raw data, not a release."""
    live, query = _of(call), call.query(NumberQuery)
    answer = SketchAnswer(live.name, live.settings.kind, live.sketch.nbytes)
    if isinstance(live.sketch, HyperLogLog):
        answer.distinct = float(live.sketch.estimate())
    elif isinstance(live.sketch, CountSketch) and live.sketch.parameters["track"]:
        keys, counts = live.sketch.heavy_hitters(query.n)
        answer.keys, answer.counts = [str(key) for key in keys], counts.tolist()
    return answer


async def get_counter(call: Call) -> CounterAnswer:
    """Return the totals that were released so far."""
    counter = _of(call).counter
    if counter is None:
        raise not_found("counter", field="name")
    bound = counter.mechanism.error_bound(CONFIDENCE)
    seconds = counter.settings.seconds
    return CounterAnswer(counter.name, counter.release, seconds, counter.shown, bound)


ENDPOINTS = [
    Endpoint(
        "POST",
        "/sketches/{name}",
        add_keys,
        "ingest",
        AddedKeys,
        body=SketchKeys,
        statuses=(404,),
    ),
    Endpoint(
        "GET", "/sketches/{name}", get_sketch, "admin", SketchAnswer, NumberQuery, statuses=(404,)
    ),
    Endpoint(
        "GET", "/sketches/{name}/counter", get_counter, "read", CounterAnswer, statuses=(404,)
    ),
]
