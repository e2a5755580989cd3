"""Any input of a stranger over HTTP, to a node or a router, ends its own connection and nothing else."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import h11
import pytest
import structlog.testing
import trio
import trio.testing
from starlette.applications import Starlette

from relay.node.http.access import Access
from relay.node.http.app import make_app
from relay.node.http.health import Health, health_routes, make_starlette
from relay.node.http.server import serve_http
from relay.node.http.token import Tokens
from sitestack.model.address import Physical
from sitestack.transport.accepting import Admissions
from tests.relay.node.http.test_http import ANY_PORT, FakeNode
from tests.relay.node.http.test_limits import ask

SERVER = "relay.node.http.server.TCPServer"
TOKEN = Tokens("hush-hush-hush-hush")
ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
LAST = ASK + b"Connection: close\r\n\r\n"
REFUSED = b"PUT / HTTP/1.1\r\n\r\n"


def node_app() -> Starlette:
    node = FakeNode()
    node.join()
    return make_app(node.served(), TOKEN)


def router_app() -> Starlette:
    return make_starlette(health_routes(Health(dict, lambda *_: [], lambda _: b"", is_secure=True), Access(TOKEN)))


@asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[Physical]:
    """Where the application answers; it does so to the end, and no error is in the log."""
    with structlog.testing.capture_logs() as log, trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            place: Physical = await nursery.start(serve_http, app, ANY_PORT, Admissions())
            yield place
            while not (await ask(place, LAST)).startswith(b"HTTP/1.1 200 "):
                pass  # others still have its place
            nursery.cancel_scope.cancel()
    assert [entry for entry in log if entry["log_level"] == "error"] == []


@pytest.fixture(params=[node_app, router_app])
def app(request: pytest.FixtureRequest) -> Starlette:
    made = request.param()
    assert isinstance(made, Starlette)
    return made


UPGRADE = b"GET / HTTP/1.1\nHost: a\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: "
SOCKET = b"GET / HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: "


@pytest.mark.parametrize(
    "head",
    [
        UPGRADE + b"A",
        UPGRADE + b"AAAA",
        SOCKET + b"AAAAAAAAAAAAAAAAAAAAAA==\nSec-WebSocket-Protocol: \xff",
        b"POST /messages HTTP/1.1\nHost: a\nContent-Length: 9999999999\n\nx\r\nContent-Length: 0",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\nUpgrade: h2c",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\rUpgrade: h2c",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\0",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tfolded",
    ],
)
async def test_an_ambiguous_request_head_is_refused(head: bytes, app: Starlette) -> None:
    """The library ends a line where the guard does not, so the headers behind it would be unchecked."""
    async with serving(app) as place:
        answer = await ask(place, head + b"\r\n\r\n")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "requests", [LAST + ASK + b"\r\n", LAST + (ASK + b"\r\n") * 3, b"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", LAST]
)
async def test_a_refusal_behind_the_last_answer_of_a_connection(requests: bytes, app: Starlette) -> None:
    """The connection is closed, so no refusal can be sent."""
    async with serving(app) as place:
        for _ in range(5):
            await ask(place, requests + REFUSED)


async def test_a_refusal_right_behind_a_good_request(app: Starlette) -> None:
    """Its answer is given up at whatever step it is."""
    async with serving(app) as place:
        for steps in range(36):
            async with await trio.open_tcp_stream(*place) as stream:
                await stream.send_all(ASK + b"\r\n")
                for _ in range(steps % 12):
                    await trio.lowlevel.checkpoint()
                await stream.send_all(REFUSED)
                with suppress(trio.BrokenResourceError):
                    async for _ in stream:
                        pass


async def mistake(_server: object) -> None:
    await trio.lowlevel.checkpoint()
    raise RuntimeError("a mistake")


async def mistake_when_cancelled(_server: object) -> None:
    """One task of a connection raises in place of what cancelled it, the other one does not."""

    async def answer() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise h11.LocalProtocolError("the answer has not begun")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        nursery.start_soon(trio.sleep_forever)


async def test_an_unexpected_error_ends_one_connection_and_is_logged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with structlog.testing.capture_logs() as log, trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            place = await nursery.start(serve_http, router_app(), ANY_PORT, Admissions())
            with monkeypatch.context() as patch:
                patch.setattr(f"{SERVER}.run", mistake)
                for _ in range(3):
                    assert await ask(place, ASK) == b""
            assert (await ask(place, LAST)).startswith(b"HTTP/1.1 200 ")
            nursery.cancel_scope.cancel()
    told = [entry for entry in log if entry["log_level"] == "error"]
    assert [(entry["event"], entry["failures"]) for entry in told] == [("http connection failed", 1)]
    assert told[0]["exc_info"].subgroup(RuntimeError) is not None


async def test_a_node_leaves_in_the_middle_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with structlog.testing.capture_logs() as log, trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            place = await nursery.start(serve_http, router_app(), ANY_PORT, Admissions())
            monkeypatch.setattr(f"{SERVER}.run", mistake_when_cancelled)
            guests = [await trio.open_tcp_stream(*place) for _ in range(3)]
            await trio.testing.wait_all_tasks_blocked(0.05)
            nursery.cancel_scope.cancel()
        for guest in guests:
            await guest.aclose()
    assert [entry for entry in log if entry["log_level"] == "error"] == []


# -- at random -----------------------------------------------------------------------------------------------------------

METHODS = [b"GET"] * 5 + [b"HEAD"] * 2 + [b"POST"] * 2 + [b"PUT", b"get", b"OPTIONS"]
VERSIONS = [b"HTTP/1.1"] * 6 + [b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"http/1.1", b""]
TARGETS = (
    b"/ /healthz /events /events?from=oldest /messages /messages?scope=site /status /metrics /x%00 /%ff%fe * // ? "
    b"http://a/healthz /events?last_event_id=\x7f /readyz?members=9"
).split(b" ")
HEADERS = (
    b"Connection: close|Connection: keep-alive|Connection: upgrade|Origin: http://[|Origin: null|Idempotency-Key: \xe4|"
    b"Idempotency-Key: k|Authorization: Bearer \xff|X: \x01| folded: x|X:|:x|Last-Event-ID: -1|Last-Event-ID: abc-1|"
    b"Content-Type: application/json|Expect: 100-continue|Trailer: x|TE: trailers|Host: [::1|X: y\nUpgrade: h2c|X: \r|X: \0"
).split(b"|")


def draw_request(rng: random.Random) -> bytes:
    method, body = rng.choice(METHODS), b""
    headers = [b"Host: localhost"] * rng.choice([0, 1, 1, 1, 1, 2]) + rng.sample(HEADERS, rng.choice([0, 0, 1, 2]))
    if method == b"POST":
        body = rng.randbytes(rng.choice([0, 1, 5, 300]))
        headers.append(b"Content-Length: %d" % len(body))
    line = b" ".join(filter(None, [method, rng.choice(TARGETS), rng.choice(VERSIONS)]))
    return b"\r\n".join([line, *headers, b"", body])


async def say_anything(place: Physical, rng: random.Random) -> None:
    data = b"".join([draw_request(rng) for _ in range(rng.choice([1, 1, 2, 3, 6]))])
    stream = await trio.open_tcp_stream(*place)
    with suppress(trio.BrokenResourceError), trio.move_on_after(rng.choice([0.01, 0.05, 0.1])):
        if rng.random() < 0.3:
            at = rng.randrange(1, len(data))
            await stream.send_all(data[:at])
            await trio.sleep(0.005)
            data = data[at:]
        await stream.send_all(data)
        if rng.random() < 0.3:
            await stream.send_eof()
        async for _ in stream:
            pass
    await trio.aclose_forcefully(stream)


@pytest.mark.parametrize("seed", range(3))
async def test_random_requests(seed: int, app: Starlette, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of the library would be in the log."""
    monkeypatch.setattr("relay.node.http.server.IDLE_TIMEOUT_S", 0.05)
    rng = random.Random(seed)
    async with serving(app) as place:
        for _ in range(12):
            async with trio.open_nursery() as nursery:
                for _ in range(6):
                    nursery.start_soon(say_anything, place, random.Random(rng.random()))
