"""Live sketches of two services on one store: no total of a counter is drawn twice."""

import asyncio

import pytest

from sfumato.errors import StoreUnavailable
from sfumato.serve.config import CounterConfig, SketchConfig
from sfumato.serve.learning.live_sketches import LiveSketch
from sfumato.serve.routes.messages import SketchKeys
from sfumato.store import open_store

SETTINGS = SketchConfig(
    kind="count-sketch",
    parameters={"width": 16},
    commit_seconds=0.001,
    counter=CounterConfig("views", epsilon=1.0, steps=1000, seconds=10_000.0),
)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "shop.db") as store:
        store.ledger.create("views", 2.0)
        yield store


def live(store):
    return LiveSketch("pages", SETTINGS, store)


def pass_steps(sketch, steps):
    """Let so many steps of the counter be over, as if time had passed."""
    sketch.counter._begin -= steps * SETTINGS.counter.seconds
    asyncio.run(sketch.tick())


def test_two_services_on_one_store_never_draw_noise_for_one_step_twice(store):
    first = live(store)
    asyncio.run(first.add(SketchKeys(["home", "cart"])))
    second = live(store)  # which replaces the first, before that has ended
    pass_steps(first, 20)
    pass_steps(second, 20)
    assert len(first.counter.shown) == 20
    assert second.counter.shown == first.counter.shown
    pass_steps(second, 1)
    pass_steps(first, 1)
    assert len(second.counter.shown) == 21
    assert first.counter.shown == second.counter.shown == live(store).counter.shown


def test_keys_that_two_services_add_are_counted_once_or_refused(store):
    first, second = live(store), live(store)
    asyncio.run(first.add(SketchKeys(["home"], id="one")))

    async def both():
        wanted = SketchKeys(["home"], id="two"), SketchKeys(["home"], id="three")
        adding = [asyncio.create_task(second.add(each)) for each in wanted]
        return await asyncio.gather(*adding, return_exceptions=True)

    refused = asyncio.run(both())
    assert [type(each) for each in refused] == [StoreUnavailable] * 2
    assert second.sketch.estimate("home") == 1
    assert asyncio.run(both()) == [False, False]
    assert asyncio.run(second.add(SketchKeys(["home"], id="one")))
    assert live(store).sketch.estimate("home") == 3


def test_keys_that_wait_behind_a_step_that_fell_behind_are_not_acknowledged(store):
    first, second = live(store), live(store)
    asyncio.run(first.add(SketchKeys(["home"])))

    async def adding_while_a_step_is_stored():
        await second._storing.acquire()
        adding = asyncio.create_task(second.add(SketchKeys(["home"])))
        await asyncio.sleep(0.05)  # its write now waits for the lock
        assert isinstance(await second._store_now(), StoreUnavailable)
        second._storing.release()
        return (await asyncio.gather(adding, return_exceptions=True))[0]

    assert isinstance(asyncio.run(adding_while_a_step_is_stored()), StoreUnavailable)
    assert live(store).sketch.estimate("home") == 1


def test_a_write_that_failed_but_is_on_the_disk_does_not_end_the_service(store, monkeypatch):
    sketch = live(store)
    save = store.save_snapshot

    def failing(*given, **options):
        save(*given, **options)
        raise StoreUnavailable("Store: the database does not answer.")

    monkeypatch.setattr(store, "save_snapshot", failing)
    with pytest.raises(StoreUnavailable):
        asyncio.run(sketch.add(SketchKeys(["home"])))
    monkeypatch.setattr(store, "save_snapshot", save)
    asyncio.run(sketch.add(SketchKeys(["cart"])))
    pass_steps(sketch, 3)
    assert live(store).counter.shown == sketch.counter.shown
    assert len(sketch.counter.shown) == 3
