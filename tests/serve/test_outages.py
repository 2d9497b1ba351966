"""A database that is away, a full disk, overload: a clear refusal, recovery, nothing lost."""

import asyncio
import itertools
import json
import os
import resource
import shutil
import time

import httpx
import pytest

from sfumato.store import open_store
from support.benchmarks import benchmark
from support.service import running
from support.service_load import SETTINGS, check_log, check_model
from support.stores import store_on_small_disk


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


def test_a_database_that_hangs_gives_503_and_lists_go_on(tmp_path, postgres_server):
    address = postgres_server.new_database()
    settings = SETTINGS.format(extra="write_seconds = 1.0")
    with (
        running(tmp_path, settings, database=address) as service,
        service.client("ingest") as client,
        service.client("read") as reader,
    ):

        def post(name):
            return client.post("/events", json={"user": "u", "item": "i", "id": name})

        assert post("before").status_code == 200
        service.learned()
        with postgres_server.hung():
            late = post("late")
            assert late.status_code == 503
            assert late.json()["type"] == "urn:sfumato:problem:store-unavailable"
            assert reader.get("/readyz").json()["database"] is False
            end = time.monotonic() + 2  # longer than keys are fresh
            while time.monotonic() < end:
                answer = reader.get("/recommendations/u", params={"repeat": "true"})
                assert answer.json()["items"], "lists are served from memory"
                assert answer.elapsed.total_seconds() < 1
                time.sleep(0.05)
        service.until(lambda: post("after").status_code == 200)
        assert reader.get("/readyz").json()["database"] is True
    check_log(address, {"before", "late", "after"}, {"before", "after"})
    postgres_server.give_back(address)


async def flood(service, requests, body=None):
    """Send requests at once, of one event or of a body; return their statuses."""
    limits = httpx.Limits(max_connections=200)
    headers = {
        "authorization": f"Bearer {service.keys['ingest']}",
        "content-type": "application/json",
    }
    url = f"http://127.0.0.1:{service.port}"
    async with httpx.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=60
    ) as client:

        async def one(number):
            event = {"user": "u", "item": "i", "id": f"flood-{number}"}
            content = json.dumps(event).encode() if body is None else body
            return number, (await client.post("/events", content=content)).status_code

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


def test_ten_times_the_rate_is_refused_in_bounded_memory_and_passes(tmp_path):
    rate, burst, seconds = 60, 30, 4
    settings = SETTINGS.format(extra=f"rate = {rate}\nburst = {burst}")
    with running(tmp_path, settings) as service:
        if not os.path.exists(f"/proc/{service.process.pid}/status"):
            pytest.skip("this system does not tell the memory of a process")
        numbers, key = itertools.count(), service.keys["ingest"]
        load = benchmark("_service_load")

        def event():
            body = json.dumps({"user": "u", "item": "i", "id": str(next(numbers))}).encode()
            return load.request_bytes("POST", "/events", key, body)

        before, begin = memory(service, "VmRSS"), time.monotonic()
        _, refused = asyncio.run(load.open_loop(service.port, 20, event, 10 * rate, seconds))
        taken = 10 * rate * seconds - refused
        spent = time.monotonic() - begin
        assert burst + 0.5 * rate * seconds <= taken <= burst + rate * spent + 1
        assert memory(service, "VmHWM") - before < 50_000_000
        with service.client("admin") as other:  # whose own rate nobody used up
            assert other.get("/recommendations/u").status_code == 200
            text = other.get("/metrics").text
        route = 'method="POST",route="/events"'
        assert f'{{{route},status="429"}} {refused}\n' in text
        assert f'{{{route},status="200"}} {taken}\n' in text
        with open_store(service.database) as store:
            assert len(store.read()) == taken
        with service.client("ingest") as client:
            service.until(
                lambda: client.post("/events", json={"user": "u", "item": "i"}).status_code == 200
            )


def memory(service, name):
    """Bytes of the process: "VmRSS" now, or "VmHWM" at most so far."""
    with open(f"/proc/{service.process.pid}/status") as file:
        (line,) = (line for line in file if line.startswith(name))
    return 1024 * int(line.split()[1])


def test_overload_by_large_requests_is_refused_in_bounded_memory(tmp_path):
    # All at once they take about 300 MB as objects; the limits admit some 30 MB of them.
    limits = "concurrent_bytes = 4000000\nwaiting_events = 20000\n"
    rows = [{"user": f"user-{k}", "item": f"item-{k}", "value": k + 0.5} for k in range(9000)]
    with running(tmp_path, SETTINGS.format(extra=limits)) as service:
        if not os.path.exists(f"/proc/{service.process.pid}/status"):
            pytest.skip("this system does not tell the memory of a process")
        with service.client("ingest") as client:
            assert client.post("/events", json=rows).status_code == 200
            before = memory(service, "VmRSS")
            found = asyncio.run(flood(service, 80, json.dumps(rows).encode()))
            assert {given for _, given in found} == {200, 503}
            assert memory(service, "VmHWM") - before < 100_000_000
            service.until(lambda: client.post("/events", json=rows).status_code == 200)
        service.learned()


def fill(service, full, room):
    """Send events while `full` lets the disk fill up, and go on after `room` made room."""
    sent, acknowledged = set(), set()
    order = {"release": "r", "kind": "sketch", "sketch": "pages", "dataset": "views", "epsilon": 1}
    keys = {"keys": ["a"] * 5, "id": "again"}

    def post(number):
        ids = [f"{number}-{k}" for k in range(300)]
        rows = [{"user": f"u{k}", "item": f"i{k % 30}", "id": ids[k]} for k in range(300)]
        sent.update(ids)
        answer = client.post("/events", json=rows)
        if answer.status_code == 200:
            acknowledged.update(ids)
        return answer

    with service.client("ingest") as client, service.client("admin") as admin:
        assert post("before").status_code == 200
        service.learned()
        full()
        answers = (post(number) for number in range(1000))
        refused = next(answer for answer in answers if answer.status_code != 200)
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:sfumato:problem:store-unavailable"
        assert refused.headers["retry-after"] == "1"
        during = admin.post("/releases", json=order), admin.post("/sketches/pages", json=keys)
        assert {answer.status_code for answer in during} <= {200, 201, 503}
        assert admin.get("/healthz").status_code == 200
        assert admin.get("/recommendations/u1", params={"repeat": "true"}).json()["items"]
        room()
        service.until(lambda: post("after").status_code == 200)
        made = admin.post("/releases", json=order)
        assert made.status_code == (200 if during[0].status_code == 201 else 201), made.text
        (budget,) = admin.get("/budget").json()["budgets"]
        assert budget["spent_epsilon"] == 1
        assert admin.post("/sketches/pages", json=keys).status_code == 200
    service.kill()
    service.start()
    with service.client("admin") as admin:
        assert admin.get("/sketches/pages", params={"n": 1}).json()["counts"] == [5.0]
    check_log(service.database, sent, acknowledged)
    check_model(service)
    return [answer.status_code for answer in during]


LIMIT = 2_000_000  # bytes of a file, in place of a disk that is full


def limit_files(service, nbytes):
    """Let the service and its trainer write files of so many bytes only."""
    with open(f"/proc/{service.process.pid}/task/{service.process.pid}/children") as file:
        children = map(int, file.read().split())
        for process in (service.process.pid, *children):
            resource.prlimit(process, resource.RLIMIT_FSIZE, (nbytes, resource.RLIM_INFINITY))


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux limits another process")
def test_a_file_that_cannot_grow_gives_503_and_writing_goes_on_when_it_can(tmp_path):
    with running(tmp_path, SETTINGS.format(extra="")) as service:
        during = fill(
            service,
            lambda: limit_files(service, LIMIT),
            lambda: limit_files(service, resource.RLIM_INFINITY),
        )
        assert during == [503, 503]


DISK, ROOM = 28_000_000, 1_500_000  # bytes; PostgreSQL takes some 8 million for itself


# PostgreSQL's own disk takes longer to fill, and is left to the soak.
@pytest.mark.parametrize(
    "backend", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)], indirect=True
)
def test_a_full_disk_gives_503_and_writing_goes_on_when_there_is_room(tmp_path, backend):
    with (
        store_on_small_disk(backend, tmp_path, DISK) as (database, disk),
        running(tmp_path, SETTINGS.format(extra=""), database=database) as service,
    ):
        ballast = disk / "ballast"
        fill(
            service,
            lambda: ballast.write_bytes(bytes(shutil.disk_usage(disk).free - ROOM)),
            ballast.unlink,
        )
