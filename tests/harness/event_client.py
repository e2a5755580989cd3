"""A client of `/events` for tests: one connection, whose events are read one by one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import h11
import trio

from sitestack.model.address import Physical


@dataclass(frozen=True, slots=True)
class Heard:
    """One event."""

    kind: str
    id: str
    about: dict[str, Any]

    @property
    def number(self) -> int:
        return int(self.id.rpartition("-")[2])


class EventClient:
    """The other end of a stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.status = 0
        self._connection = h11.Connection(h11.CLIENT)
        self._text = ""

    async def ask(self, target: str, headers: dict[str, str]) -> None:
        request = h11.Request(method="GET", target=target, headers=[("Host", "127.0.0.1"), *headers.items()])
        for event in (request, h11.EndOfMessage()):
            await self.stream.send_all(self._connection.send(event) or b"")
        answer = await self._next()
        assert isinstance(answer, h11.Response)
        self.status = answer.status_code

    async def hear(self) -> Heard | None:
        """The next event; None when the stream has ended."""
        while True:
            block, separator, rest = self._text.partition("\n\n")
            if not separator:
                event = await self._next()
                if not isinstance(event, h11.Data):
                    return None
                self._text += event.data.decode()
                continue
            self._text = rest
            fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if "data" in fields:
                return Heard(fields["event"], fields["id"], json.loads(fields["data"]))

    async def some(self, count: int) -> list[Heard]:
        """The next events."""
        heard: list[Heard] = []
        while len(heard) < count and (event := await self.hear()) is not None:
            heard.append(event)
        return heard

    async def _next(self) -> Any:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            try:
                self._connection.receive_data(await self.stream.receive_some(1 << 16))
            except trio.BrokenResourceError:
                return None
        return event


@asynccontextmanager
async def events(place: Physical, target: str = "/events", **headers: str) -> AsyncIterator[EventClient]:
    """A stream of events; `_` in the name of a header stands for a hyphen."""
    async with await trio.open_tcp_stream(*place) as stream:
        client = EventClient(stream)
        await client.ask(target, {name.replace("_", "-"): value for name, value in headers.items()})
        yield client
