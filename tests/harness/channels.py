"""Sites of channels for tests: over a network in memory and a clock that jumps, so that nothing takes real time."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import trio

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig, local
from sitestack.model.message import Message
from sitestack.transport.memory import MemoryNetwork

NYC = local("NYC")


@asynccontextmanager
async def one(network: MemoryNetwork, name: str, config: SiteConfig = NYC, **more: Any) -> AsyncIterator[Channel]:
    """Open the channel of one more member on the network, with more arguments of `open_channel`."""
    async with open_channel(config, name=name, transport=network.open(), **more) as channel:
        yield channel


@asynccontextmanager
async def members(
    *names: str, config: SiteConfig = NYC, network: MemoryNetwork | None = None, **more: Any
) -> AsyncIterator[list[Channel]]:
    """Members that joined one after the other and all see each other. They leave in the opposite order."""
    network = network or MemoryNetwork()
    async with together(*[one(network, name, config, **more) for name in names]) as channels:
        yield channels


@asynccontextmanager
async def together(*openings: AbstractAsyncContextManager[Channel]) -> AsyncIterator[list[Channel]]:
    """Open these one after the other, and wait until all see each other."""
    async with AsyncExitStack() as stack:
        channels = [await stack.enter_async_context(opening) for opening in openings]
        for channel in channels:
            await wait_for_view(channel, len(openings))
        yield channels


async def wait_for_view(channel: Channel[Any], count: int) -> None:
    """Wait until the channel's view has `count` members."""
    while len(channel.view.members) != count:  # noqa: ASYNC110 (views come through the channel, which tests read)
        await trio.sleep(0.01)


async def take(channel: AsyncIterable[object], count: int) -> list[Message]:
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


def with_flow(config: SiteConfig, **changes: int) -> SiteConfig:
    """The same configuration with other settings for flow control."""
    flow = replace(config.protocols.flow_control, **changes)
    return replace(config, protocols=replace(config.protocols, flow_control=flow))
