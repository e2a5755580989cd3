"""The Spark session of a job: Java, a log for Spark's messages, and settings by journal size."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from py4j.finalizer import ThreadSafeFinalizer
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pyspark_relay.java import find_java
from pyspark_relay.source.data_source import register
from relay.journal import JournalError
from relay.journal.reader import segment_files
from sitestack.model.errors import ConfigurationError

#: Maximum bytes of journals audited in one partition: with so few rows, Spark's overhead for
#: stages, shuffles and generated code dominates.
SMALL_BYTES = 48 << 20
#: Bytes of journals in a partition of larger ones.
PARTITION_BYTES = 32 << 20

LOG = "spark.log"

_Settings: TypeAlias = dict[str, bool | float | int | str | None]
_ALWAYS: _Settings = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Checkpointed frames keep constraints on dropped columns, which break the optimizer in unions.
    "spark.sql.constraintPropagation.enabled": "false",
}
_SMALL: _Settings = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without shuffles, broadcasting one side of a join saves nothing.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def measure_bytes(paths: list[Path]) -> int:
    """Return the size (bytes) of the journals. Raises JournalError if a path or all are missing."""
    files = segment_files(paths)
    if not files:
        raise JournalError(f"no journal in {', '.join(map(str, paths))}")
    return sum(file.stat().st_size for file in files)


def is_small(journal_bytes: int) -> bool:
    """Return whether one partition suffices. The checker of `relay check` judges it in seconds."""
    return journal_bytes <= SMALL_BYTES


def is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(name: str, master: str | None, journal_bytes: int, log: Path) -> SparkSession:
    """Open a session; Spark's messages go to the file `log`.

    Under `spark-submit` its existing session is used. Raises ConfigurationError if Java is missing
    or the master is unusable.
    """
    builder = SparkSession.builder.appName(name).config(map=settings(journal_bytes))
    if not is_submitted():
        os.environ["JAVA_HOME"] = str(find_java())
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(master or "local[*]").config(
            "spark.driver.memory", os.environ.get("SPARK_DRIVER_MEMORY", "2g")
        )
    elif master is not None:
        builder = builder.master(master)
    with stderr_in(log):
        try:
            spark = builder.getOrCreate()
        except Exception as error:  # any error of Java becomes one sentence
            raise ConfigurationError(f"Spark did not start: {find_cause(error, log)}.") from error
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    return spark


def settings(journal_bytes: int) -> _Settings:
    if is_small(journal_bytes):
        return {**_ALWAYS, **_SMALL}
    return {**_ALWAYS, "spark.sql.shuffle.partitions": str(count_partitions(journal_bytes))}


def count_partitions(journal_bytes: int) -> int:
    return 1 if is_small(journal_bytes) else max(4, -(-journal_bytes // PARTITION_BYTES))


def stop_session(spark: SparkSession) -> None:
    """Stop Spark at the end of the process, even if Java is already dead."""
    try:
        spark.stop()
    except (Py4JError, OSError):
        # The first message to Java failed. Spark's threads in this process must still be stopped.
        spark.sparkContext.stop()
    # Otherwise Python reports every freed object to Java at exit, which may be dead by then.
    ThreadSafeFinalizer.clear_finalizers(clear_all=True)


@contextmanager
def stderr_in(log: Path) -> Iterator[None]:
    """Redirect standard error to a file inside the block, also for child processes."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def find_cause(error: Exception, log: Path) -> str:
    """Return the error of Java, which may be only in its log, or else that of Python."""
    said = f"{error}\n{log.read_text(errors='replace')}"
    cause = re.search(r"[A-Z]\w*(?:Exception|Error): (.+)", said)
    return cause[1].rstrip(".") if cause else (str(error).splitlines() or [type(error).__name__])[0]
