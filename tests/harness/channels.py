"""Sites of channels for tests: over a network in memory and a clock that jumps, so that nothing takes real time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import trio

from sitestack.channel.channel import Channel
from sitestack.channel.open import Journal, open_channel
from sitestack.config import SiteConfig, local
from sitestack.model.message import Message
from sitestack.transport.memory import MemoryNetwork

NYC = local("NYC")


@asynccontextmanager
async def one(
    network: MemoryNetwork, name: str, config: SiteConfig = NYC, journal: Journal | None = None
) -> AsyncIterator[Channel]:
    """Open the channel of one more member on the network."""
    async with open_channel(config, name=name, journal=journal, transport=network.open()) as channel:
        yield channel


@asynccontextmanager
async def members(*names: str, config: SiteConfig = NYC, network: MemoryNetwork | None = None) -> AsyncIterator[list[Channel]]:
    """Members that joined one after the other and all see each other. They leave in the opposite order."""
    network = network or MemoryNetwork()
    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(one(network, name, config)) for name in names]
        for channel in channels:
            await wait_for_view(channel, len(names))
        yield channels


async def wait_for_view(channel: Channel[Any], count: int) -> None:
    """Wait until the channel's view has `count` members."""
    while len(channel.view.members) != count:  # noqa: ASYNC110 (views come through the channel, which tests read)
        await trio.sleep(0.01)


async def take(channel: Channel[Any], count: int) -> list[Message]:
    """The next messages, past views."""
    taken: list[Message] = []
    async for event in channel:
        if isinstance(event, Message):
            taken.append(event)
            if len(taken) == count:
                break
    return taken


def with_batching(config: SiteConfig, **changes: int | float) -> SiteConfig:
    """The same configuration with other settings for batching."""
    batching = replace(config.protocols.batching, **changes)  # type: ignore[arg-type]
    return replace(config, protocols=replace(config.protocols, batching=batching))
