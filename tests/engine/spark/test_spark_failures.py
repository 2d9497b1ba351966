"""A killed executor, a failed task or a repeated micro-batch changes nothing in the result."""

import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.data import generate_world
from sfumato.engine import LocalEngine
from sfumato.engine.spark import StreamSketch
from sfumato.privacy.random_source import InsecureSeededSource
from sfumato.recommend import PrivateFactorization, SketchFactorization
from sfumato.sketch import CountMin, load


def make():
    return CountMin(1024, seed=3)


JOB_KEYS = np.random.default_rng(0).integers(0, 5000, 40_000)
WORLD = generate_world(users=150, items=100, ratings=5000, random_state=3).interactions
RATED = {"user": WORLD.users, "item": WORLD.items, "rating": WORLD.ratings}
JOB = textwrap.dedent(
    """
    import os, signal, sys, threading, time, warnings
    from pathlib import Path
    warnings.simplefilter("ignore")
    from sfumato.engine import SparkEngine
    from sfumato.recommend import SketchFactorization
    from sfumato.recommend.factorization import rounds
    from sfumato.sketch import CountMin

    folder = Path(sys.argv[1])
    started = folder / "started"
    started.mkdir()

    def make():
        return CountMin(1024, seed=3)

    def slow(sketch, batch):
        (started / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        time.sleep(0.2)
        sketch.update(batch.column("key"))

    def executor_of(pid):
        # the Java process that a Python worker works for
        while True:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\\0")
            if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
                return pid
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    small = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.adaptive.enabled": "false",
    }
    killed = []

    def kill():
        while len(list(started.iterdir())) < 3:
            time.sleep(0.02)
        worker = int(sorted(started.iterdir())[0].name.partition("-")[0])
        os.kill(executor_of(worker), signal.SIGKILL)
        killed.append(worker)

    # Training: tasks of a round in the second epoch wait until an executor that has one is killed.
    descents, done = folder / "descents", folder / "done"
    descents.mkdir()

    class Waiting(rounds._GroupDescent):
        def __call__(self, batches):
            from pyspark import TaskContext

            if self.seed[1:] == (1, 0):
                task = TaskContext.get().partitionId()
                (descents / f"{task}-{os.getpid()}-{time.monotonic_ns()}").touch()
                limit = time.monotonic() + 100
                while not done.exists() and time.monotonic() < limit:
                    time.sleep(0.02)
            return super().__call__(batches)

    rounds._GroupDescent = Waiting

    def kill_trainer():
        while not list(descents.iterdir()):
            time.sleep(0.02)
        worker = int(next(descents.iterdir()).name.split("-")[1])
        os.kill(executor_of(worker), signal.SIGKILL)
        killed.append(worker)
        done.touch()

    with SparkEngine("local-cluster[2,1,1024]", settings=small) as engine:
        threading.Thread(target=kill, daemon=True).start()
        made = engine.map_merge(str(folder / "rows"), make, column="key", update=slow)
        made.save(folder / "made.sfu")
        threading.Thread(target=kill_trainer, daemon=True).start()
        model = SketchFactorization(factors=16, cells=1 << 14, epochs=2)
        model.fit_rows(str(folder / "ratings"), engine=engine, groups=2).save(folder / "model.sfu")
    tasks = [path.name.split("-")[0] for path in descents.iterdir()]
    print(len(killed), len(list(started.iterdir())), len(tasks) - len(set(tasks)))
    """
)


@pytest.fixture(scope="module")
def after_two_kills(tmp_path_factory):
    """Folder of a job on two executors, of which one was killed while counting, one in training."""
    folder = tmp_path_factory.mktemp("cluster")
    for name in ("rows", "ratings"):
        (folder / name).mkdir()
    for at, part in enumerate(np.array_split(JOB_KEYS, 2)):
        write(folder / "rows", at, part)
    for at in range(2):
        part = {name: column[at::2] for name, column in RATED.items()}
        pq.write_table(pa.table(part), folder / "ratings" / f"{at}.parquet")
    done = subprocess.run(
        [sys.executable, "-c", JOB, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder, [int(word) for word in done.stdout.split()]


@pytest.mark.soak  # a cluster of its own takes a minute
def test_a_killed_executor_changes_nothing(after_two_kills):
    folder, (killed, batches, _) = after_two_kills
    assert (killed, batches > 20) == (2, True)  # a partition was read again
    assert load(folder / "made.sfu").to_bytes() == make().update(JOB_KEYS).to_bytes()


@pytest.mark.soak  # a cluster of its own takes a minute
def test_an_executor_killed_in_training_changes_nothing(after_two_kills):
    folder, (killed, _, repeated) = after_two_kills
    assert (killed, repeated > 0) == (2, True)  # a task of the round was computed again
    found = SketchFactorization.load(folder / "model.sfu")
    model = SketchFactorization(factors=16, cells=1 << 14, epochs=2)
    model.fit_rows(RATED, engine=LocalEngine(threads=1), groups=2)
    assert np.allclose(found._cells.table, model._cells.table, atol=1e-4)
    assert found.seen_ == model.seen_


PRIVATE_JOB = textwrap.dedent(
    """
    import os, sys, warnings
    from pathlib import Path
    warnings.simplefilter("ignore")
    import numpy as np
    from sfumato.engine import SparkEngine
    from sfumato.privacy import Ledger
    from sfumato.privacy.random_source import InsecureSeededSource
    from sfumato.recommend import PrivateFactorization
    from sfumato.recommend.private import event_rows

    folder = Path(sys.argv[1])
    failed = folder / "failed"
    failed.mkdir()

    class Failing(event_rows._EventTotal):
        def __call__(self, batches):
            total = super().__call__(batches)
            if len(list(failed.iterdir())) < 3:  # after all of its work, again and again
                (failed / os.urandom(8).hex()).touch()
                raise RuntimeError("the task is lost")
            return total

    event_rows._EventTotal = Failing
    ledger = Ledger(folder / "shop.ledger")
    ledger.create("shop", epsilon=8, delta=1e-6)
    model = PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5), factors=3)
    with SparkEngine("local[2,4]") as engine:  # four attempts of a task
        lists = {"users": range(50), "catalogue": range(20)}
        paid = {"ledger": ledger, "dataset": "shop", "random_source": InsecureSeededSource(1)}
        model.fit_rows(str(folder / "rows"), engine=engine, **lists, **paid)
    np.savez(folder / "vectors.npz", users=model.user_vectors_, items=model.item_vectors_)
    print(len(ledger.history("shop")), len(list(failed.iterdir())))
    """
)


@pytest.mark.soak  # a session of its own takes 20 seconds
def test_tasks_that_fail_neither_charge_nor_change_a_private_model(tmp_path):
    world = generate_world(users=50, items=20, ratings=500, random_state=1).interactions
    rated = {"user": world.users, "item": world.items, "rating": world.ratings}
    (tmp_path / "rows").mkdir()
    for at in range(2):
        part = {name: column[at::2] for name, column in rated.items()}
        pq.write_table(pa.table(part), tmp_path / "rows" / f"{at}.parquet")
    done = subprocess.run(
        [sys.executable, "-c", PRIVATE_JOB, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    charges, failures = map(int, done.stdout.split())
    assert (charges, failures >= 3) == (1, True)
    model = PrivateFactorization(epsilon=8, delta=1e-6, bounds=(1, 5), factors=3)
    lists = {"users": range(50), "catalogue": range(20)}
    model.fit(world, source=InsecureSeededSource(1), **lists)
    with np.load(tmp_path / "vectors.npz") as found:
        assert np.array_equal(found["users"], model.user_vectors_)
        assert np.array_equal(found["items"], model.item_vectors_)


def write(folder, at, keys):
    pq.write_table(pa.table({"key": keys}), folder / f"{at}.parquet")


def test_a_stream_counts_every_row_once(spark, tmp_path):
    rows, state = tmp_path / "rows", tmp_path / "state"
    rows.mkdir()
    keys = np.random.default_rng(0).integers(0, 500, (3, 1000))

    def run():
        frame = spark.session.readStream.schema("key bigint").parquet(str(rows))
        stream = StreamSketch(spark, make, state)
        stream.start(frame, column="key").awaitTermination()
        return stream.read()

    for at in range(2):
        write(rows, at, keys[at])
        assert run() == make().update(keys[: at + 1].ravel())
    assert run() == make().update(keys[:2].ravel())  # nothing new
    # The driver dies after the sketch was stored and before Spark noted the batch as done.
    write(rows, 2, keys[2])
    run()
    newest = max((state / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    assert run() == make().update(keys.ravel())
    assert len(list(state.glob("sketch-*.sfu"))) == 1


@pytest.mark.parametrize("stored", [False, True], ids=["before storing", "after storing"])
def test_a_query_that_fails_midway_goes_on_where_it_stopped(spark, tmp_path, monkeypatch, stored):
    rows, state = tmp_path / "rows", tmp_path / "state"
    rows.mkdir()
    keys = np.random.default_rng(1).integers(0, 500, (5, 400))
    for at, part in enumerate(keys):
        write(rows, at, part)
    numbers, add = [], StreamSketch._add

    def breaking(self, number, made):
        numbers.append(number)
        if stored:
            add(self, number, made)
        if numbers == [0, 1, 2]:
            raise OSError("the driver is lost")
        if not stored:
            add(self, number, made)

    monkeypatch.setattr(StreamSketch, "_add", breaking)

    def run():
        stream = StreamSketch(spark, make, state)
        source = spark.session.readStream.schema("key bigint").option("maxFilesPerTrigger", 1)
        stream.start(source.parquet(str(rows)), column="key").awaitTermination()
        return stream.read()

    with pytest.raises(Exception, match="the driver is lost"):
        run()
    part = StreamSketch(spark, make, state).read()
    assert part.total == 400 * (3 if stored else 2)
    assert run() == make().update(keys.ravel())
    assert numbers == [0, 1, 2, 2, 3, 4]  # Spark repeats the micro-batch that failed, and no other


def test_a_stream_that_has_not_begun_is_empty(spark, tmp_path):
    assert StreamSketch(spark, make, tmp_path / "new").read() == make()
