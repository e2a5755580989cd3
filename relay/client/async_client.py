from __future__ import annotations

import ssl
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from types import TracebackType
from typing import Literal

import anyio
import httpx

from relay.client import exchange
from relay.client.exchange import Answer, Event, Follower, Nodes, NotPublished, Outgoing, Published, Request

_ERRORS = (httpx.HTTPError, ValueError)


class AsyncClient:
    """As `Client`. Use it in `async with`; one task at a time may publish."""

    def __init__(
        self, urls: Sequence[str], token: str = "", *, give_up_s: float = exchange.GIVE_UP_S, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` verifies nodes with `https` URLs. Raises ValueError for a wrong URL or token."""
        self._urls, self._token, self._give_up_s = urls, token, give_up_s
        self._nodes = Nodes(urls, token)
        timeout = httpx.Timeout(exchange.SILENCE_S, connect=exchange.CONNECT_S)
        self._http = httpx.AsyncClient(timeout=timeout, verify=True if tls is None else tls)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def publish(self, payload: bytes, key: str = "", scope: Literal["all", "site"] = "all") -> Published:
        """Publish a message, and return once a node has delivered it. Raises NotPublished."""
        [result] = await self.publish_all([Outgoing(payload, key, scope)])
        if isinstance(result, NotPublished):
            raise result
        return result

    async def publish_all(self, messages: Iterable[Outgoing]) -> list[Published | NotPublished]:
        """Publish messages in order, hundreds in a request. Return the result of each."""
        steps = exchange.publish(self._nodes, messages, self._give_up_s, time.monotonic)
        answer: Answer | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as ended:
                results: list[Published | NotPublished] = ended.value
                return results
            if isinstance(step, Request):
                answer = await self._exchange(step)
            else:
                await anyio.sleep(step)

    async def events(self, after: str = "", *, oldest: bool = False, messages: bool = True) -> AsyncGenerator[Event]:
        """Yield events as `Client.events`.

        On trio, httpx's generators warn (ResourceWarning) if the iteration is left early.
        """
        nodes = Nodes(self._urls, self._token)
        follower = Follower(nodes, after, oldest=oldest, messages=messages)
        while True:
            request, handled = follower.request(), sys.exception()
            try:
                async with self._http.stream("GET", request.url, headers=request.headers) as answer:
                    body = b"" if answer.status_code == 200 else await answer.aread()
                    exchange.check_stream(nodes, Answer(answer.status_code, body=body))
                    async for line in answer.aiter_lines():
                        if (event := follower.take(line)) is not None:
                            yield event
            except _ERRORS as error:
                exchange.check_stream(nodes, exchange.unanswered(error, handled))  # else the next node is asked
            nodes.go_on()
            await anyio.sleep(exchange.PAUSE_S)

    async def _exchange(self, request: Request) -> Answer:
        body, status, retry_after, handled = bytearray(), 0, None, sys.exception()
        try:
            async with self._http.stream(request.method, request.url, headers=request.headers, content=request.body) as answer:
                status, retry_after = answer.status_code, answer.headers.get("retry-after")
                async for piece in answer.aiter_raw():
                    body += piece
        except _ERRORS as error:
            if not status:
                return exchange.unanswered(error, handled)
        return Answer(status, retry_after, bytes(body))
