"""What a piece of work on Spark costs: seconds, memory of its processes, bytes that moved."""

import os
import threading
import time
from pathlib import Path

from py4j.protocol import Py4JJavaError

PAGE = os.sysconf("SC_PAGE_SIZE") / 2**20
POLL = 0.02  # seconds between two looks at the memory


class Meter:
    """`with Meter(session) as used: work()`; then `used.seconds`, `used.mib`, `used.moved`.

    `mib` is how far the resident memory of this process and all its children (Java and the workers
    of Python) rose meanwhile; what a process that lived before still held is not counted again.
    `moved` is what Spark's own metrics count: bytes written for shuffles, bytes of the results of
    tasks, tasks and stages.
    """

    def __init__(self, session):
        self._status = session.sparkContext._jsc.sc().statusStore()
        self._context = session.sparkContext

    def __enter__(self):
        self._before = set(self._stages())
        self._least, self._most, self._done = _resident(), 0.0, threading.Event()
        self._watch = threading.Thread(target=self._poll)
        self._watch.start()
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.seconds = time.perf_counter() - self._start
        self._done.set()
        self._watch.join()
        self.mib = self._most - self._least
        self.moved = self._moved()

    def _poll(self):
        while not self._done.wait(POLL):
            self._most = max(self._most, _resident())

    def _stages(self):
        # Events of tasks reach the store after the job has returned.
        self._context._jsc.sc().listenerBus().waitUntilEmpty(10_000)
        listed = self._status.stageList(None, *self._defaults())
        stages = [listed.apply(at) for at in range(listed.size())]
        return {stage.stageId(): stage for stage in stages if str(stage.status()) == "COMPLETE"}

    def _defaults(self):
        """The arguments of `stageList` after the first, as this version of Spark declares them."""
        gateway = self._context._gateway
        empty = gateway.new_array(gateway.jvm.double, 0)
        return False, False, empty, gateway.jvm.java.util.ArrayList()

    def _moved(self):
        totals = {"shuffle_bytes": 0, "result_bytes": 0, "tasks": 0, "stages": 0}
        for number, stage in self._stages().items():
            if number in self._before:
                continue
            totals["stages"] += 1
            totals["tasks"] += stage.numTasks()
            totals["shuffle_bytes"] += stage.shuffleWriteBytes()
            totals["result_bytes"] += self._result_bytes(number, stage.attemptId())
        return totals

    def _result_bytes(self, stage, attempt):
        try:
            tasks = self._status.taskList(stage, attempt, 2**31 - 1)
        except Py4JJavaError:
            return 0
        found = [tasks.apply(at).taskMetrics() for at in range(tasks.size())]
        return sum(each.get().resultSize() for each in found if each.isDefined())


def _resident():
    """MiB of this process and of all processes that it started, each shared page once a process."""
    children, own = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(") ", 1)[1].split()
            except (OSError, IndexError):
                continue  # it has ended
            children.setdefault(int(fields[1]), []).append(int(folder.name))
            own[int(folder.name)] = int(fields[21]) * PAGE
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        total += own.get(process, 0.0)
        waiting += children.get(process, [])
    return total
