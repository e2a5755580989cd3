"""A consumer that reads batches: every message of all sites, a line each, into a file.

`python examples/batch_consumer.py examples/sfo.yaml D lines.txt`; in the other site, to have something to read:
`relay node examples/nyc.yaml --name A --keys keys/NYC --publish -`

A batch holds up to thousands of messages of one sender, so that the cost of taking, writing and waiting is paid once for all of
them. While the file is slow this consumer holds at most `protocols.flow_control.backlog_bytes_max`, and the senders wait.

When a relay dies, the next one sends again what is not yet everywhere in this site, and what has arrived before is not
delivered twice: the file has every message once. When the sites are apart for longer than `relay.budget` holds, a gap says what
is missing. When this consumer dies, what is sent until it is started again is not in its file; so two of them run in a site.
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
                case relay.View() | relay.SiteSwitched() | relay.Unreachable():
                    pass
                case _:
                    assert_never(event)


async def main(config: str, name: str, file: str) -> None:
    async with relay.open_channel(relay.load_config(config), name=name) as channel:
        await consume(channel, file)


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2], sys.argv[3])
