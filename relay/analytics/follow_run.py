"""Runs `relay audit --follow` until a signal ends it, and says in lines where the audit stands.

The command and the job for `spark-submit` both do it this way.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from pyspark.sql import SparkSession

from relay.analytics.follow import FollowOptions, follow
from relay.analytics.follow_judge import FollowError, Progress
from relay.journal.reader import segment_files

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Write = Callable[[str], None]


def run_follow(spark: SparkSession, options: FollowOptions, as_json: bool, result: Write, comment: Write) -> bool:
    """Follow until SIGINT or SIGTERM; whether every promise has held so far. To be called in the main thread.

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
    with _ended_by_signals() as ended_by:
        follow(spark, options, observe, tell, ended_by.event)
    if not latest:
        raise FollowError(f"Ended{ended_by.text}: nothing was read.")
    comment(f"Ended{ended_by.text}: {latest[0].verdict.upper()} as of batch {latest[0].batch}.")
    return latest[0].verdict == "pass"


def describe_progress(progress: Progress) -> list[str]:
    """What a batch has shown, the verdict last."""
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
    """Which signal came, if one did."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.text = ""

    def take(self, number: int, frame: FrameType | None) -> None:
        """The handler."""
        self.text = f" by {signal.Signals(number).name}"
        self.event.set()


@contextmanager
def _ended_by_signals() -> Iterator[_Ending]:
    ending = _Ending()
    before = {number: signal.signal(number, ending.take) for number in _SIGNALS}
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
