"""What strangers can make the HTTP door do: every size, time and number of theirs has a limit."""

from __future__ import annotations

import json
import socket
import ssl
from contextlib import AsyncExitStack, suppress

import pytest
import trio
import trio.testing

from relay.events import SiteSwitched
from relay.node.config.settings import HttpSettings
from relay.node.http import server
from relay.node.http.guard import HEAD_BYTES_MAX, PIECE_BYTES, GuardedStream
from relay.node.http.token import Tokens
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.address import Physical
from sitestack.model.message import Batch, Scope, pack_body
from tests.relay.node.http.test_http import A, FakeNode, served

ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


async def ask(place: Physical, data: bytes, host: str = "127.0.0.1") -> bytes:
    """All that the server answers to these bytes from this host before it closes the connection."""
    async with await trio.open_tcp_stream(*place, local_address=host) as stream:
        await stream.send_all(data)
        answer = b""
        try:
            async for chunk in stream:
                answer += chunk
        except trio.BrokenResourceError:
            pass  # the door closed while something of ours was unread
    return answer


async def dribble(stream: trio.SocketStream) -> None:
    while True:
        await stream.send_all(ASK[:1])
        await trio.sleep(0.02)


async def sip(stream: trio.SocketStream) -> None:
    """Take a little now and then, so that the kernel sees progress."""
    while True:
        await stream.receive_some(100)
        await trio.sleep(0.05)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (ASK + b"Content-Length: 1\r\n\r\nx", b"413"),
        (ASK + b"content-length: 99999999999999999999\r\n\r\n", b"413"),
        (ASK + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", b"413"),
        (ASK + b"Expect: 100-continue\r\n\r\n", b"413"),
        (b"POST /status HTTP/1.1\r\nHost: x\r\n\r\n", b"405"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), b"405"),
        (ASK + b"Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", b"400"),
        (ASK + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n\r\n", b"400"),
        (ASK + b"x: " + b"y" * HEAD_BYTES_MAX, b"431"),
        (b"y" * (HEAD_BYTES_MAX + 1), b"431"),
    ],
)
async def test_only_a_small_request_without_a_body_and_of_http_1_is_taken(request_bytes: bytes, status: bytes) -> None:
    async with served(FakeNode()) as place:
        answer = await ask(place, request_bytes)
    assert answer.split(b"\r\n")[0].split(b" ")[1] == status
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_requests_in_small_pieces_and_several_at_once_are_answered_in_order() -> None:
    request = ASK + b"\r\n" + b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n" + ASK + b"Connection: close\r\n\r\n"
    for size in (1, 7, len(request)):
        async with served(FakeNode()) as place, await trio.open_tcp_stream(*place) as stream:
            for at in range(0, len(request), size):
                await stream.send_all(request[at : at + size])
            answer = b"".join([chunk async for chunk in stream])
        assert [each.split(b" ")[0] for each in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"404", b"200"]


async def test_a_request_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not keep the connection open, and neither does silence after an answer."""
    monkeypatch.setattr(server, "IDLE_TIMEOUT_S", 0.3)
    async with served(FakeNode()) as place:
        for before in (b"", ASK + b"\r\n"):
            began = trio.current_time()
            async with await trio.open_tcp_stream(*place) as stream:
                await stream.send_all(before)
                with pytest.raises(trio.BrokenResourceError):
                    await dribble(stream)
            assert trio.current_time() - began < 2


@pytest.mark.long
async def test_an_answer_that_is_taken_too_slowly_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PIECE_TIMEOUT_S", 0.3)
    node = FakeNode()
    node.join()
    async with served(node) as place:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect(place)
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
            await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3_000)
            with trio.fail_after(5), pytest.raises(trio.BrokenResourceError):
                await sip(stream)


def narrow(place: Physical, room: int) -> trio.SocketStream:
    """A connection whose end takes so many bytes before they are read."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    sock.connect(place)
    return trio.SocketStream(trio.socket.from_stdlib_socket(sock))


LARGE = Delivery(A, Batch("NYC", A, Scope.ALL, 1, 1, pack_body([bytes(1536 << 10)])))


@pytest.mark.long
async def test_a_large_answer_that_is_taken_at_the_least_pace_is_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PIECE_TIMEOUT_S", 1.0)
    node = FakeNode()
    node.ring.put(LARGE, 0)
    node.ring.put(SiteSwitched("SFO", True), 0)
    async with served(node) as place, narrow(place, 262_144) as reader:
        await reader.send_all(b"GET /events?from=oldest HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer, began = b"", trio.current_time()
        while b"event: site_switched" not in answer:
            chunk = await reader.receive_some(65_536)
            assert chunk
            answer += chunk
            await trio.sleep(len(chunk) / 800_000)
        assert trio.current_time() - began > 2 * server.PIECE_TIMEOUT_S


async def test_a_slow_reader_of_a_large_answer_does_not_block_the_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PIECE_TIMEOUT_S", 1.0)
    node = FakeNode()
    node.ring.put(LARGE, 0)
    async with trio.open_nursery() as nursery:
        async with served(node) as place:
            reader = narrow(place, 16_384)
            await reader.send_all(b"GET /events?from=oldest HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in await reader.receive_some()
            nursery.start_soon(sip_to_the_end, reader)
            await trio.sleep(0.3)
            ending = trio.current_time()
        assert trio.current_time() - ending < 2 * server.PIECE_TIMEOUT_S


async def sip_to_the_end(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        while True:
            if not await stream.receive_some(16_384):
                break
            await trio.sleep(0.1)
    await trio.aclose_forcefully(stream)


async def until(stream: trio.SocketStream, end: bytes) -> bytes:
    """An answer that ends so."""
    answer = b""
    while not answer.endswith(end):
        chunk = await stream.receive_some()
        assert chunk, answer
        answer += chunk
    return answer


def post_of(size: int) -> bytes:
    return b"POST /messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size


async def test_a_body_at_the_minimum_rate_is_accepted_and_a_slower_one_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "IDLE_TIMEOUT_S", 0.3)
    monkeypatch.setattr(server, "PIECE_TIMEOUT_S", 0.6)
    async with served(FakeNode()) as place:
        async with await trio.open_tcp_stream(*place) as stream:
            began = trio.current_time()
            await stream.send_all(ASK + b"\r\n" + post_of(6 * PIECE_BYTES))
            assert b" 200 " in await until(stream, b"alive\n")
            for _ in range(6):
                await trio.sleep(0.2)
                await stream.send_all(bytes(PIECE_BYTES))
            assert b" 503 " in await until(stream, b"}")  # it is no member
            assert trio.current_time() - began > 2 * server.PIECE_TIMEOUT_S
            await stream.send_all(ASK + b"\r\n")
            assert b" 200 " in await until(stream, b"alive\n")
        async with await trio.open_tcp_stream(*place) as stream:
            began = trio.current_time()
            await stream.send_all(post_of(2 * PIECE_BYTES) + bytes(PIECE_BYTES))
            answer = b""
            with suppress(trio.BrokenResourceError), trio.CancelScope() as dribbling:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(dribble, stream)
                    answer = await stream.receive_some()
                    dribbling.cancel()
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert trio.current_time() - began < 4 * server.PIECE_TIMEOUT_S


async def test_a_body_behind_the_last_answer_of_a_connection_does_not_keep_it_open() -> None:
    async with served(FakeNode()) as place, await trio.open_tcp_stream(*place) as stream:
        began = trio.current_time()
        await stream.send_all(ASK + b"Connection: close\r\n\r\n" + post_of(PIECE_BYTES))
        answer = b"".join([chunk async for chunk in stream])
        assert (answer.count(b"HTTP/1.1 "), answer.split(b" ")[1]) == (1, b"200")
        with pytest.raises(trio.BrokenResourceError):
            await dribble(stream)
        assert trio.current_time() - began < server.IDLE_TIMEOUT_S / 2


@pytest.mark.parametrize(
    "beginning", [b"", ASK, post_of(PIECE_BYTES) + b"x", ASK + b"\r\n"], ids=["silent", "half a head", "half a body", "idle"]
)
async def test_strangers_without_a_request_keep_no_probe_out(beginning: bytes) -> None:
    """Two addresses take all places, and take them again whenever they lose some."""
    async with served(FakeNode(), settings=HttpSettings(connections_max=32)) as place, AsyncExitStack() as open_streams:
        for round_ in range(3):
            for n in range(32):
                each = await trio.open_tcp_stream(*place, local_address=f"127.0.0.{2 + n % 2}")
                open_streams.push_async_callback(each.aclose)
                with suppress(trio.BrokenResourceError):
                    await each.send_all(beginning)
            await trio.sleep(0.1)
            answer = await ask(place, ASK + b"Connection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), round_


async def test_a_connection_whose_client_waits_for_an_answer_keeps_its_place() -> None:
    """A probe has a place of its own even then."""
    settings = HttpSettings(connections_max=3, address_connections_max=2)
    node, last = FakeNode(), b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    async with served(node, settings=settings) as place, AsyncExitStack() as open_streams:
        for host, other, trouble in (
            ("127.0.0.2", "127.0.0.9", ""),
            ("127.0.0.2", "127.0.0.2", "there are 2 connections of 127.0.0.2 already"),
            ("127.0.0.3", "127.0.0.9", "there are 3 connections already"),
        ):
            follower = await trio.open_tcp_stream(*place, local_address=host)
            open_streams.push_async_callback(follower.aclose)
            await follower.send_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in await follower.receive_some()
            head, _, body = (await ask(place, b"GET /status" + last, other)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503" if trouble else b"HTTP/1.1 200")
            assert not trouble or (b"\r\nRetry-After: 1" in head and json.loads(body) == {"error": f"Retry later: {trouble}."})
            assert node.admissions.trouble == trouble
        assert node.admissions.refused == 2
        silent = [await trio.open_tcp_stream(*place, local_address="127.0.0.2") for _ in range(2 * server.SPARE_MAX)]
        assert (await ask(place, b"GET /healthz" + last, "127.0.0.2")).endswith(b"alive\n")
        for each in (*silent, follower):
            await each.aclose()
        while not (await ask(place, b"GET /status" + last)).startswith(b"HTTP/1.1 200"):
            pass
        assert node.admissions.trouble == ""


async def test_the_bodies_of_all_connections_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODIES_BYTES_MAX", PIECE_BYTES)
    async with served(FakeNode()) as place, await trio.open_tcp_stream(*place) as stream:
        await stream.send_all(post_of(PIECE_BYTES) + b"half a body")
        answers = {(await ask(place, post_of(1) + b"x")).split(b"\r\n")[0] for _ in range(3)}
        assert answers == {b"HTTP/1.1 503 Service Unavailable"}
        await stream.aclose()
        whole = post_of(PIECE_BYTES).replace(b"Host", b"Connection: close\r\nHost") + bytes(PIECE_BYTES)
        while b"not a member" not in await ask(place, whole):
            pass  # the first body is still counted


async def test_bodies_without_a_token_take_no_room_from_those_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of them, begun and never ended, would keep a node from publishing."""
    monkeypatch.setattr(server, "BODIES_BYTES_MAX", PIECE_BYTES)
    secret = b"hush-hush-hush-hush"
    async with served(FakeNode(), Tokens(secret.decode())) as place, await trio.open_tcp_stream(*place) as stream:
        await stream.send_all(post_of(PIECE_BYTES) + b"half a body")
        assert b"HTTP/1.1 401 " in await stream.receive_some()
        known = post_of(1).replace(b"Host", b"Connection: close\r\nAuthorization: Bearer " + secret + b"\r\nHost")
        assert b"not a member" in await ask(place, known + b"x")
        answer = await ask(place, known.replace(b"hush", b"push", 1) + b"x")
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"WWW-Authenticate: Bearer\r\n" in answer


async def test_a_connection_is_used_for_a_limited_number_of_requests() -> None:
    request = ASK + b"\r\n"
    async with served(FakeNode()) as place, await trio.open_tcp_stream(*place) as stream:
        answered, answer = 0, b""
        while b"connection: close" not in answer.lower():
            await stream.send_all(request)
            answer = await stream.receive_some()
            while not answer.endswith(b"alive\n"):
                answer += await stream.receive_some()
            answered += 1
        assert server.REQUESTS_MAX <= answered <= server.REQUESTS_MAX + 1
        assert await stream.receive_some() == b""


async def test_a_send_while_another_task_ends_the_direction_raises_a_known_error() -> None:
    """The server sends an answer while its reader closes the connection: an error that it does not know would end the node."""

    async def end(guarded: GuardedStream) -> None:
        with suppress(trio.BusyResourceError):  # this one the server knows
            await guarded.send_eof()

    unsent = 0
    for _ in range(50):  # trio draws which of the two comes first
        ours, theirs = trio.socket.socketpair()
        guarded = GuardedStream(trio.SocketStream(ours), 1.0, {})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(end, guarded)
            await trio.lowlevel.checkpoint()
            try:
                await guarded.send_all(b"an answer")
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                unsent += 1
        theirs.close()
        await guarded.aclose()
    assert unsent


async def shake_hands(guarded: GuardedStream) -> None:
    with guarded.scope:
        assert not await guarded.shake_hands()


async def test_a_connection_that_gives_way_amid_its_tls_handshake_ends_nothing_else() -> None:
    """Bytes of the handshake arrive as a newer connection takes its place."""
    for _ in range(50):  # trio draws which of the two comes first
        (ours, theirs), (newer, caller) = socket.socketpair(), socket.socketpair()
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        guarded = GuardedStream(stream, 1.0, {}, tls=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shake_hands, guarded)
            await trio.testing.wait_all_tasks_blocked()
            theirs.send(b"\x16\x03")
            caller.send(b"hello")
            await trio.lowlevel.wait_readable(newer)
            guarded.push_out()
        for each in (theirs, newer, caller):
            each.close()
