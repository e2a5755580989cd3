"""Requests and replies across sites. Run `python examples/request_reply.py examples/nyc.yaml A`, and others with
sfo.yaml.

Every member answers a request with the same text in capitals. A line such as `SFO hello` asks one member of SFO.

When a relay dies, its successor carries the requests and replies under way, and each arrives once.
When the asked member dies, or a request is reported as unreachable, another member is asked. So
every request is answered while its site has a member. A request may be carried out twice, by the
dead member too: make requests idempotent where that matters. Requests wait while their site cannot
be reached.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import assert_never

import trio

import relay


class Requests:
    """The requests of this member that are not answered yet, and the answers to those of others."""

    def __init__(self, channel: relay.RelayChannel) -> None:
        self._channel = channel
        self._numbers = itertools.count(1)
        self._members: tuple[relay.ProxyUUID, ...] = ()
        self._view_changed = trio.Event()
        #: Request -> asked member, and the channel for its answer (None: no answer will arrive).
        self._waiting: dict[int, tuple[relay.ProxyUUID, trio.MemorySendChannel[str | None]]] = {}

    async def ask(self, site: str, text: str) -> str:
        """The answer of some member of the site, however long that takes."""
        while True:
            number = next(self._numbers)
            target = await self._pick(site, number)
            send, receive = trio.open_memory_channel[str | None](1)
            self._waiting[number] = (target, send)
            await self._channel.send(json.dumps({"ask": number, "text": text}).encode(), target=target)
            answer = await receive.receive()
            if answer is not None:
                return answer

    async def _pick(self, site: str, number: int) -> relay.ProxyUUID:
        """Each in turn. A site without members is waited for."""
        while not (members := [member for member in self._members if member.site == site]):
            await self._view_changed.wait()
        return members[number % len(members)]

    async def follow(self) -> None:
        async for event in self._channel:
            match event:
                case relay.Message(scope=relay.Scope.UNICAST):
                    await self._hear(event)
                case relay.GlobalView():
                    self._members = event.members
                    self._view_changed.set()
                    self._view_changed = trio.Event()
                    self._give_up([target for target, _ in self._waiting.values() if target not in event.members])
                case relay.Unreachable():
                    self._give_up([event.target])
                case relay.Message() | relay.View() | relay.Role() | relay.Gap() | relay.SiteSwitched():
                    pass
                case _:
                    assert_never(event)

    async def _hear(self, message: relay.Message) -> None:
        said = json.loads(message.payload)
        if "ask" in said:
            reply = {"answer": said["ask"], "text": f"{said['text'].upper()} by {self._channel.name}"}
            await self._channel.send(json.dumps(reply).encode(), target=message.source)
        else:
            self._settle(said["answer"], said["text"])

    def _give_up(self, targets: list[relay.ProxyUUID]) -> None:
        """Give up requests to members that departed; they may have been carried out."""
        for number in [number for number, (target, _) in self._waiting.items() if target in targets]:
            self._settle(number, None)

    def _settle(self, number: int, answer: str | None) -> None:
        if number in self._waiting:
            _, send = self._waiting.pop(number)
            send.send_nowait(answer)


async def main(file: str, name: str) -> None:
    async with relay.open_channel(file, name=name, insecure=True) as channel, trio.open_nursery() as nursery:
        requests = Requests(channel)
        nursery.start_soon(requests.follow)

        async def ask(site: str, text: str) -> None:
            print(f"{text} -> {await requests.ask(site, text)}", flush=True)

        async with trio.open_nursery() as asking:
            async for line in trio.wrap_file(sys.stdin):
                asking.start_soon(ask, *line.strip().split(maxsplit=1))
        await channel.leave()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], sys.argv[2])
