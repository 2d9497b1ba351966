"""DELETE /users/{id}: what is removed, what is relearned, and what cannot be recalled."""

import asyncio

from sfumato.serve.endpoint import Call, Endpoint
from sfumato.serve.protection.problems import not_found
from sfumato.serve.routes.messages import Erased, ErasureAnswer

__all__ = ["ENDPOINTS"]

SKETCHES = (
    "Live sketches have keys without users; subtract or rebuild those whose keys name the user."
)


async def erase_user(call: Call) -> Erased:
    """Remove a user's events; the model is learned anew without them."""
    user, service = call.path("user"), call.service
    erased = await asyncio.to_thread(service.store.erase_user, user)
    service.recent.forget(user)
    number = erased.record.number
    relearned = service.feed.current.erasures >= number
    return Erased(
        number,
        erased.record.events,
        "relearned" if relearned else "relearning",
        SKETCHES if service.sketches else "There are no live sketches.",
        [each.key for each in erased.releases],
    )


async def get_erasure(call: Call) -> ErasureAnswer:
    """Return whether the served model was learned without what an erasure removed."""
    service, number = call.service, call.path("number")
    found = await asyncio.to_thread(service.store.erasures)
    for each in found:
        if str(each.number) == number:
            done = service.feed.current.erasures >= each.number
            return ErasureAnswer(
                each.number, each.events, each.erased, "relearned" if done else "relearning"
            )
    raise not_found("erasure", field="number")


ENDPOINTS = [
    Endpoint("DELETE", "/users/{user}", erase_user, "admin", Erased),
    Endpoint("GET", "/erasures/{number}", get_erasure, "admin", ErasureAnswer, statuses=(404,)),
]
