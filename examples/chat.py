"""Chat: all members read all lines in one order. Run `python examples/chat.py ROOM NAME` several times on one
machine.

When a member dies, all others see this at the same place of the conversation. Its last lines reach
all of them or none. When the coordinator (the first name) dies, the others continue after some
tenths of a second and no line is lost.
"""

from __future__ import annotations

import sys
from typing import assert_never

import trio

import sitestack


async def listen(channel: sitestack.Channel) -> None:
    async for event in channel:
        match event:
            case sitestack.Message():
                print(f"{event.sender}: {event.payload.decode(errors='replace')}", flush=True)
            case sitestack.View():
                print(f"here now: {', '.join(event.names)}", flush=True)
            case sitestack.Gap():
                print(f"missed while this member was cut off: {event.last - event.first + 1} messages", flush=True)
            case _:
                assert_never(event)


async def main(room: str, name: str) -> None:
    async with sitestack.open_channel(sitestack.local(room), name=name) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(listen, channel)
        async for line in trio.wrap_file(sys.stdin):
            await channel.send(line.strip().encode())
        await channel.leave()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
