"""Runs `relay audit --follow` until a signal ends it, and prints where the audit stands.

Both the command and the job for `spark-submit` use this.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyspark_relay.follow.judge import FollowError, Progress
from pyspark_relay.follow.streams import FollowOptions, follow
from pyspark_relay.session import LOG, stderr_in, stop_session
from relay.journal.reader import segment_files

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Write = Callable[[str], None]


def run_follow(spark: SparkSession, options: FollowOptions, as_json: bool, result: Write, comment: Write) -> bool:
    """Follow until SIGINT or SIGTERM, and stop Spark; whether every promise has held so far. For the main thread.

    `result` gets the lines of the verdict, or one JSON object a line; `comment` what is said besides. Raises FollowError
    when a stream cannot go on, and when there was nothing to read: then nothing is known of the promises.
    """
    latest: list[Progress] = []

    def observe(progress: Progress) -> None:
        if progress.is_empty:
            return
        latest[:] = [progress]
        for line in [json.dumps(progress.as_json())] if as_json else describe_progress(progress):
            result(line)

    def tell(sentence: str) -> None:
        (comment if as_json else result)(f"Note: {sentence}")

    where = ", ".join(options.paths)
    has_journals = bool(segment_files(path for path in map(Path, options.paths) if path.exists()))
    comment(f"Following the journals under {where}; tables go to {options.out}.")
    if not has_journals:
        comment(f"There are no journals under {where} yet; waiting.")
    with _ended_by_signals(options.out / LOG) as ended_by:
        try:
            follow(spark, options, observe, tell, ended_by.event)
        except (Py4JError, PySparkException, OSError):
            # Who ends a service may send the signal to Java too, which then is gone first.
            if not ended_by.event.is_set():
                raise
        finally:
            stop_session(spark)
    if not latest:
        raise FollowError(f"Ended{ended_by.text}: nothing was read.")
    comment(f"Ended{ended_by.text}: {latest[0].verdict.upper()} as of batch {latest[0].batch}.")
    return latest[0].verdict == "pass"


def describe_progress(progress: Progress) -> list[str]:
    """Lines on a batch, the verdict last."""
    lines = [f"{invariant} at {where}: {what}" for invariant, where, what in progress.found]
    lines += [f"Note ({where}): {times} {what}" for _, where, times, what in progress.notes]
    clock = datetime.fromtimestamp(progress.now_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    sites = ", ".join(f"{site} {count}" for site, count in progress.processes.items()) or "none"
    lines.append(
        f"{clock} {progress.verdict.upper()}: {progress.deliveries} deliveries, {progress.lost} lost, {progress.duplicated} "
        f"duplicated, {progress.reordered} reordered; processes: {sites}"
    )
    return lines


class _Ending:
    """The signal that ends the run. From then on errors of Spark, such as that Java is gone, go to the log only."""

    def __init__(self, log: Path) -> None:
        self.event = threading.Event()
        self.text = ""
        self.silence = ExitStack()
        self._log = log

    def take(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        if self.event.is_set():
            return
        self.event.set()
        self.text = f" by {signal.Signals(number).name}"
        with suppress(OSError):  # where no log can be written it is said aloud
            self.silence.enter_context(stderr_in(self._log))


@contextmanager
def _ended_by_signals(log: Path) -> Iterator[_Ending]:
    ending = _Ending(log)
    before = {number: signal.signal(number, ending.take) for number in _SIGNALS}
    try:
        with ending.silence:
            yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
