"""Temporary members: one publishes lines (`relay pub`), the other shows messages (`relay sub`)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import trio

from relay.node.channel import RelayChannel, open_channel
from relay.node.config.settings import NodeConfig
from relay.node.output.event_json import EventLines
from relay.node.output.lines import LineSink
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.errors import LocalError
from sitestack.model.gap import Gap


async def publish(config: NodeConfig, lines: AsyncIterator[bytes]) -> list[str]:
    """Join, send every line, wait until the site has delivered them, and leave.

    Return a sentence for each failure. Raises as `open_channel`.
    """
    sent, failures = 0, list[str]()
    async with open_channel(config) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(_take_all, channel)
        try:
            async for line in lines:
                try:
                    await channel.send(line)
                except LocalError as error:
                    failures.append(f"not published: {error}")
                else:
                    sent += 1
        except OSError as error:
            failures.append(f"not published: the rest of the input ({error.strerror}).")
        await channel.leave()
        drops = channel.statistics().stack["drops"]
        assert isinstance(drops, dict)
        if uncertain := drops.get("unsent_at_stop", 0) + drops.get("uncertain_at_stop", 0):
            failures.append(f"{uncertain} of {sent} messages may not have been delivered.")
        nursery.cancel_scope.cancel()
    return failures


async def subscribe(config: NodeConfig, sink: LineSink, readable: bool) -> None:
    """Join, and write a line for every message until cancelled or no reader remains.

    Raises as `open_channel`.
    """
    async with open_channel(config) as channel:
        writer = EventLines(channel.site, readable=readable)
        async for item in channel.batches():
            lines = writer.lines(item) if isinstance(item, Delivery | Gap) else []
            if lines:
                try:
                    await sink.write(lines)
                except BrokenPipeError:
                    return


async def _take_all(channel: RelayChannel) -> None:
    """Read all deliveries: a member that reads none blocks its site."""
    async for _ in channel.batches():
        pass
