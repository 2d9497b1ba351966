"""The event log: durable, in order, each id once, on both databases."""

import asyncio
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import NullValueError, ParameterError, ParameterTypeError, StoreUnavailable
from sfumato.store import Appended, EventBatch, new_event_ids, open_store

# Texts that an array, a statement or an encoding could break.
HARD = [
    '"',
    "\\",
    '\\"',
    "'",
    "{}",
    ",",
    "NULL",
    "null",
    " ",
    "é",
    "日本",
    "😀",
    "%s",
    "?",
    "\n",
    "\t",
]


def batch(n, start=0):
    """Events with known columns."""
    numbers = range(start, start + n)
    return EventBatch(
        [f"user {k % 7}" for k in numbers],
        [f"item {k % 5}" for k in numbers],
        [k / 8 for k in numbers],
        [1.7e9 + k / 1000 for k in numbers],
        [f"event {k:09}" for k in numbers],
    )


def test_what_was_appended_is_read_as_it_was_and_in_order(store):
    given = batch(1000)
    assert store.append(given) == Appended(1000, 0, 1000)
    found = store.read()
    assert found == given
    assert np.array_equal(found.sequence, np.arange(1, 1001))
    assert found.users.type == pa.string()
    assert np.array_equal(found.values, np.arange(1000) / 8)
    assert found.position == store.position() == 1000
    assert store.read(after=995, limit=3).sequence.tolist() == [996, 997, 998]
    assert len(store.read(after=1000)) == 0


def test_hard_texts_come_back_unchanged(store):
    given = EventBatch(HARD, HARD[::-1], event_ids=HARD)
    assert store.append(given).new == len(HARD)
    assert store.append(given).new == 0
    assert store.read() == given
    for text in HARD:
        assert store.events_of(text).event_ids.to_pylist() == [text]


def test_extreme_numbers_come_back_unchanged(store):
    values = [0.0, -5e-324, 5e-324, 1.7976931348623157e308, 0.1, 1 / 3, -1e-17]
    store.append(EventBatch(["u"] * 7, ["i"] * 7, values, values))
    found = store.read()
    assert found.values.tobytes() == found.times.tobytes() == np.array(values).tobytes()


def test_an_id_is_stored_once_within_a_batch_between_batches_and_in_one_group(store):
    twice = EventBatch(["a", "b", "c"], ["x"] * 3, event_ids=["1", "2", "1"])
    assert store.append(twice) == Appended(2, 1, store.position())
    assert store.read().users.to_pylist() == ["a", "b"]
    waiting = [store.submit(batch(10, start)) for start in (0, 5, 0, 100)]
    assert [each.result().new for each in waiting] == [10, 5, 0, 10]
    assert [each.result().duplicates for each in waiting] == [0, 5, 10, 0]
    assert len(store.read()) == 2 + 25


def test_threads_append_at_once_and_each_learns_its_own_count(store):
    results = {}

    def work(name):
        results[name] = [store.append(batch(10, start)).new for start in range(0, 200, 10)]

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sum(map(sum, results.values())) == 200
    assert sorted(store.read().event_ids.to_pylist()) == batch(200).event_ids.to_pylist()


def test_an_event_loop_awaits_durable_events_without_blocking(store, location):
    async def work():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticker = asyncio.create_task(tick())
        found = await asyncio.gather(*(store.append_async(batch(1, k)) for k in range(500)))
        ticker.cancel()
        return found, ticks

    found, ticks = asyncio.run(work())
    assert sum(each.new for each in found) == 500
    assert ticks > 1
    with open_store(location) as other:
        assert len(other.read()) == 500
    assert len({each.position for each in found}) < 250  # committed in groups


def test_a_cancelled_wait_leaves_the_writer_running(store):
    async def work():
        task = asyncio.create_task(store.append_async(batch(1)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert store.append(batch(2)).position >= 2
    assert len(store.read()) == 2


def test_too_much_that_waits_is_refused_and_then_taken(location):
    with open_store(location, waiting_limit=50) as store:
        gate = threading.Event()
        held = store._writer.job(lambda session: gate.wait(60))
        first = store.submit(batch(40))
        with pytest.raises(StoreUnavailable, match="wait for the disk, and waiting_limit is 50"):
            store.submit(batch(40, 40))
        gate.set()
        assert held.result() is True
        assert first.result().new == 40
        assert store.append(batch(40, 40)).new == 40
        assert store.waiting == 0


CHILD = """
import sys
from sfumato.store import EventBatch, open_store
with open_store(sys.argv[1]) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for k in range(30):
        store.append({"users": [sys.argv[2]], "items": [k]})
"""


def test_processes_append_to_one_log_and_a_reader_that_follows_misses_none(store, location):
    command = [sys.executable, "-c", CHILD, location]
    children = [
        subprocess.Popen([*command, f"p{k}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for k in range(2)
    ]
    for child in children:
        assert child.stdout.readline() == b"ready\n"
    for child in children:
        child.stdin.write(b"go\n")
        child.stdin.flush()
    followed, position = [], 0
    while len(followed) < 90:
        if len(store.read()) < 90 and position < 10_000 and len(followed) % 3 == 0:
            store.append({"users": ["own"], "items": [1]}) if followed.count("own") < 30 else None
        found = store.read(after=position, limit=7)
        followed += found.users.to_pylist()
        position = found.position or position
        if all(child.poll() is not None for child in children) and not len(found):
            break
    for child in children:
        assert child.communicate()[0] == b""
        assert child.returncode == 0
    followed += store.read(after=position).users.to_pylist()
    assert followed == store.read().users.to_pylist()
    assert followed.count("p0") == followed.count("p1") == 30


def test_columns_may_be_arrays_of_any_kind():
    expected = EventBatch(["1", "2"], ["a", "b"], [1.0, 2.0], [3.0, 4.0], ["x", "y"])
    users = np.array([1, 2], np.uint32)
    items, ids = pa.array(["a", "b"]), np.array(["x", "y"])
    assert EventBatch(users, items, np.array([1, 2]), pa.array([3, 4]), ids) == expected
    ratings = expected.interactions()
    assert (len(ratings), ratings.ratings.tolist()) == (2, [1.0, 2.0])


@pytest.mark.parametrize(
    ("columns", "error", "sentence"),
    [
        ({"users": ["Sekret", ""]}, ParameterError, "users must be 1 to 256 .*row 1 is not"),
        ({"users": ["Sekret\0", "b"]}, ParameterError, "users .* without NUL; row 0 is not"),
        ({"users": ["a", "Sekret\ud800"]}, ParameterError, "users .* row 1 is not"),
        ({"items": ["a", "Sekret" * 50]}, ParameterError, "items .* row 1 is not"),
        ({"items": ["a", None]}, NullValueError, "items: row 1 is null"),
        ({"items": ["a", 1.5]}, ParameterTypeError, "items must be text or integers; row 1 is flo"),
        ({"items": ["a"]}, ParameterError, "items must have 2 rows as users has, not 1"),
        ({"values": [1, float("nan")]}, ParameterError, "values must be finite .*row 1 is not"),
        ({"values": [1, "Sekret"]}, ParameterTypeError, "values must be finite .*row 1 is not"),
        ({"times": [1, None]}, NullValueError, "times: row 1 is null"),
        ({"event_ids": "Sekret"}, ParameterTypeError, "event_ids must be a column, not one value"),
        ({"event_ids": 3}, ParameterTypeError, "event_ids must be a column, not int"),
    ],
)
def test_bad_columns_name_the_field_and_the_row_but_no_value(columns, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        EventBatch(**{"users": ["a", "b"], "items": ["a", "b"], **columns})
    assert "Sekret" not in str(raised.value)


def test_bad_calls_say_what_would_be_right(store):
    with pytest.raises(ParameterError, match="needs the column items"):
        store.append({"users": ["a"]})
    with pytest.raises(ParameterError, match="has columns that are none"):
        store.append({"users": ["a"], "items": ["b"], "ratings": [1]})
    with pytest.raises(ParameterTypeError, match="must be an EventBatch or a mapping"):
        store.append([("a", "b")])
    for bad in (-1, 1.5, "3", True, 2**63):
        with pytest.raises(ParameterError, match="after must be an integer from 0 up"):
            store.read(after=bad)
    assert len(store.read()) == 0


def test_new_ids_are_distinct_and_ordered():
    ids = new_event_ids(1000)
    assert len(set(ids)) == 1000
    assert ids == sorted(ids)


def test_a_closed_store_says_so(location):
    store = open_store(location)
    waiting = store.submit(batch(5))
    store.close()
    assert waiting.result().new == 5
    store.close()
    for call in (store.read, lambda: store.append(batch(1)), store.info):
        with pytest.raises(StoreUnavailable, match="it is closed"):
            call()
