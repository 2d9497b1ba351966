"""A database that is away, a full disk, overload: a clear refusal, recovery, nothing lost."""

import asyncio
import resource

import httpx
import pytest

from support.service import running
from support.service_load import SETTINGS, check_log, check_model


def test_a_database_that_is_away_gives_503_and_nothing_acknowledged_is_lost(
    tmp_path, postgres_server
):
    address = postgres_server.new_database()
    with running(tmp_path, SETTINGS.format(extra=""), database=address) as service:
        with service.client("ingest") as client, service.client("read") as reader:

            def post(name):
                return client.post("/events", json={"user": "u", "item": "i", "id": name})

            assert post("before").status_code == 200
            service.learned()
            assert reader.get("/recommendations/u").status_code == 200
            postgres_server.stop()
            away = post("away")
            assert away.status_code == 503
            assert away.json()["type"] == "urn:sfumato:problem:store-unavailable"
            assert away.headers["retry-after"] == "1"
            assert client.get("/readyz").json()["database"] is False
            answer = reader.get("/recommendations/u", params={"repeat": "true"})
            assert answer.json()["items"], "lists are served from memory"
            postgres_server.start()
            service.until(lambda: post("after").status_code == 200)
        check_log(address, {"before", "away", "after"}, {"before", "after"})
        check_model(service)
    postgres_server.give_back(address)


async def flood(service, requests):
    """Send requests at once; return their statuses."""
    limits = httpx.Limits(max_connections=200)
    headers = {"authorization": f"Bearer {service.keys['ingest']}"}
    url = f"http://127.0.0.1:{service.port}"
    async with httpx.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=60
    ) as client:

        async def one(number):
            event = {"user": "u", "item": "i", "id": f"flood-{number}"}
            return number, (await client.post("/events", json=event)).status_code

        return await asyncio.gather(*map(one, range(requests)))


@pytest.mark.parametrize(
    ("limit", "status"), [("rate = 20.0\nburst = 20", 429), ("concurrent = 5", 503)]
)
def test_overload_is_refused_and_passes(tmp_path, limit, status):
    with running(tmp_path, SETTINGS.format(extra=limit)) as service:
        answers = asyncio.run(flood(service, 400))
        assert {given for _, given in answers} == {200, status}
        good = {f"flood-{number}" for number, given in answers if given == 200}
        check_log(service.database, {f"flood-{number}" for number, _ in answers}, good)

        def recovered():
            with service.client("ingest") as client:
                event = {"user": "u", "item": "i", "id": "after"}
                return client.post("/events", json=event).status_code == 200

        service.until(recovered)
