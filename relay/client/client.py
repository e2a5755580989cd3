from __future__ import annotations

import http.client
import ssl
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Literal
from urllib.parse import urlsplit

from relay.client import exchange
from relay.client.exchange import Answer, Event, Follower, Nodes, NotPublished, Outgoing, Published, Request

_ERRORS = (OSError, http.client.HTTPException, ValueError)


class Client:
    """Client of one or several nodes, best of one site: when one does not answer, the next is asked.

    One thread at a time may publish; each iteration over events has its own connection.
    """

    def __init__(
        self, urls: Sequence[str], token: str = "", *, give_up_s: float = exchange.GIVE_UP_S, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` verifies nodes with `https` URLs. Raises ValueError for a wrong URL or token."""
        self._urls, self._token, self._give_up_s, self._tls = urls, token, give_up_s, tls
        self._nodes = Nodes(urls, token)
        self._open: tuple[str, http.client.HTTPConnection] | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection for publishing."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def publish(self, payload: bytes, key: str = "", scope: Literal["all", "site"] = "all") -> Published:
        """Publish a message, and return once a node has delivered it. Raises NotPublished."""
        [result] = self.publish_all([Outgoing(payload, key, scope)])
        if isinstance(result, NotPublished):
            raise result
        return result

    def publish_all(self, messages: Iterable[Outgoing]) -> list[Published | NotPublished]:
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
                answer = self._exchange(step)
            else:
                time.sleep(step)

    def events(self, after: str = "", *, oldest: bool = False, messages: bool = True) -> Iterator[Event]:
        """Yield events without end, each message once, also when nodes die.

        After the event with the id `after`, or from the oldest one that the node holds, or new ones.
        Missing events are an event of the kind `gap`. Raises Refused.
        """
        nodes = Nodes(self._urls, self._token)
        follower = Follower(nodes, after, oldest=oldest, messages=messages)
        while True:
            handled = sys.exception()
            connection, path = self._connect(request := follower.request())
            try:
                _dial(connection)
                connection.request("GET", path, headers=request.headers)
                answer = connection.getresponse()
                exchange.check_stream(nodes, Answer(answer.status, body=b"" if answer.status == 200 else answer.read()))
                for line in answer if answer.status == 200 else ():
                    if (event := follower.take(line.rstrip(b"\r\n").decode())) is not None:
                        yield event
            except _ERRORS as error:
                exchange.check_stream(nodes, exchange.unanswered(error, handled))  # else the next node is asked
            finally:
                connection.close()
            nodes.go_on()
            time.sleep(exchange.PAUSE_S)

    def _exchange(self, request: Request) -> Answer:
        """Return the answer, or the part that arrived. Keep the connection."""
        body, answer, failed, is_old, handled = bytearray(), None, Answer(), False, sys.exception()
        try:
            if self._open is None or not request.url.startswith(f"{self._open[0]}/"):
                self.close()
                connection, path = self._connect(request)
                self._open = request.url.removesuffix(path), connection
            connection, path = self._open[1], request.url.removeprefix(self._open[0])
            is_old = connection.sock is not None
            _dial(connection)
            connection.request(request.method, path, request.body, request.headers)
            answer = connection.getresponse()
            while piece := answer.read1(1 << 16):
                body += piece
        except _ERRORS as error:
            self.close()
            if is_old and answer is None and isinstance(error, ConnectionError):  # closed while idle
                return self._exchange(request)
            failed = exchange.unanswered(error, handled)
        return failed if answer is None else Answer(answer.status, answer.getheader("retry-after"), bytes(body))

    def _connect(self, request: Request) -> tuple[http.client.HTTPConnection, str]:
        """Return a connection that is not open yet, and the path of the request."""
        parts = urlsplit(request.url)
        path = request.url.removeprefix(f"{parts.scheme}://{parts.netloc}")
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.netloc, timeout=exchange.CONNECT_S), path
        return http.client.HTTPSConnection(parts.netloc, timeout=exchange.CONNECT_S, context=self._tls), path


def _dial(connection: http.client.HTTPConnection) -> None:
    is_open = connection.sock is not None
    if not is_open:
        connection.connect()
        connection.sock.settimeout(exchange.SILENCE_S)
