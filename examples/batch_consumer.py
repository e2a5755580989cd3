"""A consumer that reads batches and appends every message of all sites to a file, one line each.

Run `python examples/batch_consumer.py examples/sfo.yaml D lines.txt`. Publish in the other site with
`relay node examples/nyc.yaml --name A --insecure --publish -`.

A batch holds up to thousands of messages of one sender, so this program receives, writes and waits
once per batch. While the file is slow, at most `protocols.flow_control.backlog_bytes_max` bytes are
buffered and the senders wait.

When a relay dies, its successor retransmits. Duplicates are dropped, so the file has every message
once. A gap event reports messages that `relay.budget` could not hold. Messages sent while this
consumer is down are missing in its file, so run two of them in a site.
"""

from __future__ import annotations

import sys
from typing import assert_never

import trio

import relay


async def consume(channel: relay.RelayChannel, file: str) -> None:
    async with await trio.open_file(file, "ab") as lines:  # in a thread, so that a slow disk does not make a member suspect
        async for event in channel.batches():
            match event:
                case relay.Delivery():
                    text = b"".join([payload + b"\n" for payload in event.payloads()])
                    await lines.write(text)
                    await lines.flush()
                case relay.Gap():
                    print(f"missing: {event.last - event.first + 1} messages of {event.site}, {event.reason}", flush=True)
                case relay.GlobalView():
                    print(f"here now: {', '.join(map(event.name_of, event.members))}", flush=True)
                case relay.View() | relay.Role() | relay.SiteSwitched() | relay.Unreachable():
                    pass
                case _:
                    assert_never(event)


async def main(config: str, name: str, file: str) -> None:
    async with relay.open_channel(config, name=name, insecure=True) as channel:
        await consume(channel, file)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
