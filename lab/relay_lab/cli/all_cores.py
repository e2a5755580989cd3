"""Work on all cores, by processes that end with this one, whatever ends it."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TypeVar

import click

T = TypeVar("T")
R = TypeVar("R")

#: Items per process that are handed out ahead, so that no process ever waits.
_AHEAD = 4


def run_all(work: Callable[[T], R], items: Iterable[T], count: int) -> Iterator[tuple[T, R]]:
    """Each of `count` items with its result, as results come. No process is left, not even when this one is killed.

    `work` is a function of a module, so that another process can find it. Raises ClickException when a process is killed.
    """
    processes = min(count, len(os.sched_getaffinity(0)))
    if processes == 1:
        yield from ((item, work(item)) for item in items)
        return
    pool = ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"), initializer=_end_with_parent)
    try:
        yield from _collect(pool, work, iter(items), processes * _AHEAD)
    except BrokenProcessPool as error:
        raise click.ClickException("a process of the simulation was killed, perhaps for want of memory.") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """End a process of the pool with its parent: it would not notice otherwise, since it holds its own work pipe open."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()


def _collect(pool: ProcessPoolExecutor, work: Callable[[T], R], remaining: Iterator[T], ahead: int) -> Iterator[tuple[T, R]]:
    running: dict[Future[R], T] = {pool.submit(work, item): item for item in islice(remaining, ahead)}
    while running:
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        running |= {pool.submit(work, item): item for item in islice(remaining, len(done))}
        for future in done:
            yield running.pop(future), future.result()
