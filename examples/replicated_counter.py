"""A replicated counter that every member may add to. Run `python examples/replicated_counter.py SITE NAME`.

Numbers on standard input are added. The counter changes only by delivered messages, and all members
deliver the same messages in one order. So it takes the same values everywhere. A joiner receives
the value first.

When a member dies, the others keep the value. The last additions of the dead member are in all
copies or in none. The value is lost with the last member. When the network splits the site, each
part continues to count. After the split heals, the members of the smaller parts join the largest
part again and take its value: additions of the smaller parts are lost.
"""

from __future__ import annotations

import sys
from typing import assert_never

import trio

import sitestack


class Counter:
    def __init__(self) -> None:
        self.value = 0

    def get_state(self) -> bytes:
        return b"%d" % self.value

    def set_state(self, state: bytes) -> None:
        self.value = int(state)

    async def follow(self, channel: sitestack.Channel) -> bool:
        """Until this member has left, which is False, or is to join anew, which is True."""
        async for event in channel:
            match event:
                case sitestack.Message():
                    self.value += int(event.payload)
                    print(f"{self.value} by {event.sender}", flush=True)
                case sitestack.View():
                    print(f"{self.value} at {', '.join(event.names)}", flush=True)
                    if event.subviews and channel.address not in largest(event.subviews).members:
                        return True
                case sitestack.Gap():
                    pass  # the preceding merge view handled the split
                case _:
                    assert_never(event)
        return False


def largest(parts: tuple[sitestack.SubView, ...]) -> sitestack.SubView:
    """Return the part that survives a merge; every member computes the same one."""
    return max(parts, key=lambda part: (len(part.members), part.id))


async def add(channel: sitestack.Channel, numbers: trio.MemoryReceiveChannel[int]) -> None:
    """Send the typed numbers. A number may be lost while this member joins again."""
    async for number in numbers:
        await channel.send(b"%d" % number)
    await channel.leave()


async def take_part(counter: Counter, site: str, name: str, numbers: trio.MemoryReceiveChannel[int]) -> bool:
    opened = sitestack.open_channel(sitestack.local(site), name=name, get_state=counter.get_state, set_state=counter.set_state)
    async with opened as channel, trio.open_nursery() as nursery:
        nursery.start_soon(add, channel, numbers)
        again = await counter.follow(channel)
        nursery.cancel_scope.cancel()
    return again


async def read_numbers(numbers: trio.MemorySendChannel[int]) -> None:
    async with numbers:
        async for line in trio.wrap_file(sys.stdin):
            await numbers.send(int(line))


async def main(site: str, name: str) -> None:
    typed, numbers = trio.open_memory_channel[int](0)
    counter = Counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_numbers, typed)
        while await take_part(counter, site, name, numbers):
            pass


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
