"""Runs the async body of a command, and unwraps its exceptions."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import click
import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_signal(body: Callable[[], Awaitable[T]]) -> T:
    """Run the body and return its result. A signal cancels it, and raises `click.Abort`."""
    results = run(_cancellable, body)
    if not results:
        raise click.Abort
    return results[0]


def run(body: Callable[[*Ts], Awaitable[T]], *arguments: *Ts) -> T:
    """Run the body, and raise the first exception inside the groups added by nurseries."""
    try:
        return trio.run(body, *arguments)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from error.__cause__


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
