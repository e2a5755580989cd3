"""Requests and replies across sites. Run `python examples/request_reply.py examples/nyc.yaml A`, and others with
sfo.yaml.

Every member answers a request with the same text in capitals. A line such as `SFO hello` asks the relay of SFO.

When a relay dies, its successor carries the requests and replies under way, and each arrives once.
When the asked member dies, its successor is asked. So every request is answered while its site has a
member. A request may be carried out twice, by the dead member too: make requests idempotent where
that matters. Requests wait while their site cannot be reached.
"""

from __future__ import annotations

import sys

import trio

import relay

TIMEOUT_S = 60.0
#: Pause before a site without members is asked again.
PAUSE_S = 0.5


async def ask(channel: relay.RelayChannel, site: str, text: str) -> None:
    """Print the answer of the site, however long that takes."""
    while True:
        try:
            result = await channel.call(text.encode(), [relay.RelayOf(site)], timeout_s=TIMEOUT_S)
        except relay.ChannelClosed:
            raise
        except relay.LocalError:  # no member of the site is known
            await trio.sleep(PAUSE_S)
            continue
        for answer in result.answers.values():
            print(f"{text} -> {answer.decode()}", flush=True)
            return


async def serve(channel: relay.RelayChannel) -> None:
    """Answer requests. The receiving task must not ask, because it would wait for itself."""
    async for event in channel:
        if isinstance(event, relay.Message) and event.call:
            await channel.answer(event, f"{event.payload.decode().upper()} by {channel.name}".encode())


async def main(file: str, name: str) -> None:
    async with relay.open_channel(file, name=name, insecure=True) as channel, trio.open_nursery() as nursery:
        nursery.start_soon(serve, channel)
        async with trio.open_nursery() as asking:
            async for line in trio.wrap_file(sys.stdin):
                asking.start_soon(ask, channel, *line.strip().split(maxsplit=1))
        await channel.leave()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
