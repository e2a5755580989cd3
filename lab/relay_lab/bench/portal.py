"""Calls and round trips of a channel on trio, on asyncio and on threads: `python -m relay_lab.bench.portal [COUNT]`.

One member in memory, so only the way to the channel differs. Prints microseconds and voluntary context switches for each.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio

import sitestack
import sitestack.aio
import sitestack.blocking

SITE = sitestack.local("bench")


@contextmanager
def measured(what: str, count: int) -> Iterator[None]:
    """Print the cost of one of `count` operations in the block."""
    began, switches = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    yield
    seconds, switched = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - switches
    print(f"{what:24} {seconds / count * 1e6:10.1f} us {switched / count:6.2f} switches", flush=True)


async def on_trio(count: int) -> None:
    async with sitestack.open_channel(SITE, transport=sitestack.MemoryNetwork().open()) as channel:
        await anext(channel)
        with measured("trio: round trip", count):
            for _ in range(count):
                await channel.send(b"x")
                await anext(channel)
        with measured("trio: send", count):
            for _ in range(count):
                await channel.send(b"x")


async def on_asyncio(count: int) -> None:
    async with sitestack.aio.open_channel(SITE, transport=sitestack.MemoryNetwork().open()) as channel:
        await anext(channel)
        with measured("asyncio: round trip", count):
            for _ in range(count):
                await channel.send(b"x")
                await anext(channel)
        with measured("asyncio: send", count):
            for _ in range(count):
                await channel.send(b"x")


def on_threads(count: int) -> None:
    with sitestack.blocking.open_channel(SITE, transport=sitestack.MemoryNetwork().open()) as channel:
        next(channel)
        with measured("threads: round trip", count):
            for _ in range(count):
                channel.send(b"x")
                next(channel)
        with measured("threads: send", count):
            for _ in range(count):
                channel.send(b"x")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    trio.run(on_trio, count)
    asyncio.run(on_asyncio(count))
    on_threads(count)


if __name__ == "__main__":
    main()
