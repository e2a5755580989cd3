"""Runs the async body of a command: signals cancel it, and its exceptions are unwrapped."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click
import trio

T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(body: Callable[[], Awaitable[T]]) -> T:
    """Run the body and return its result. A signal cancels it, and raises `click.Abort`."""
    try:
        results = trio.run(_cancellable, body)
    except BaseExceptionGroup as group:
        raise only_cause(group) from None
    if not results:
        raise click.Abort
    return results[0]


def only_cause(error: BaseException) -> BaseException:
    """Return the first exception inside the groups added by nurseries."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _cancellable(body: Callable[[], Awaitable[T]]) -> list[T]:
    results: list[T] = []
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                results.append(await body())
                nursery.cancel_scope.cancel()

            nursery.start_soon(run)
            async for _ in signals:
                nursery.cancel_scope.cancel()
    return results
