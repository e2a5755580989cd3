"""`python -m tests.harness.network_member NAME ADDRESS ...`: a member with these interfaces, for tests in network
namespaces.

Every line of standard input is sent to all, or with an @ in front to each other member by itself.
Deliveries, and the size of each view, are lines of standard output.
"""

from __future__ import annotations

import sys

import trio

from relay.node.output.lines import LineSource
from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig, TransportConfig
from sitestack.model.message import Message


async def speak(channel: Channel, done: trio.CancelScope) -> None:
    async for line in LineSource("-", 1_000).lines():
        if not line.startswith(b"@"):
            await channel.send(line)
            continue
        for member in channel.view.members:
            if member != channel.address:
                await channel.send(line, target=member)
    done.cancel()


async def main(*arguments: str) -> None:
    name, interface, *more = arguments
    transport = TransportConfig(interface=interface, more_interfaces=tuple(more), ipv6=":" in interface)
    config = SiteConfig("NYC", transport=transport)
    async with open_channel(config, name=name) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(speak, channel, nursery.cancel_scope)
        async for event in channel:
            said = event.payload.decode() if isinstance(event, Message) else f"view {len(channel.view.members)}"
            print(said, flush=True)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
