"""Spliced connections over real sockets: every byte, both directions, their ends, and one without a reader."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import trio
from structlog.testing import capture_logs

from relay.node.bridge.router_calls import RouterFailed, call, conversation
from sitestack.model.address import Physical
from sitestack.wire import routing
from tests.harness.sockets import until
from tests.relay.router.routers import Served, router

LIMIT_S = 20


@asynccontextmanager
async def splice(place: Physical) -> AsyncIterator[tuple[trio.SocketStream, trio.SocketStream]]:
    """Return the two ends of a connection through the router: the called one, and the calling one."""
    ends = []

    async def call_it() -> None:
        ends.append(await call(place, "NYC", None, "SFO"))

    async with conversation(place, "SFO", None) as talk, talk.stream:
        await talk.say(routing.LISTEN)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call_it)
            assert await talk.frame() == routing.CALLED + b"NYC"
            await talk.say(routing.ACCEPT)
        async with ends[0]:
            yield talk.stream, ends[0]


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    with trio.fail_after(LIMIT_S):
        async with router(sites=("NYC", "SFO")) as running:
            yield running


async def read_all(stream: trio.SocketStream) -> bytes:
    data = b""
    while part := await stream.receive_some():
        data += part
    return data


async def send_and_end(stream: trio.SocketStream, data: bytes) -> None:
    await stream.send_all(data)
    await stream.send_eof()


async def test_all_bytes_arrive_in_both_directions_and_each_end_ends_by_itself() -> None:
    async with served() as running, splice(running.place) as (called, caller):
        arrived: list[bytes] = []

        async def pass_on(data: bytes, sender: trio.SocketStream, receiver: trio.SocketStream) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_and_end, sender, data)
                arrived.append(await read_all(receiver))

        there, back = os.urandom(3_000_000), os.urandom(2_000_000)
        await pass_on(there, caller, called)
        assert running.server.router.switchboard.carried_bytes == len(there)
        await pass_on(back, called, caller)  # though the other direction has ended
        assert arrived == [there, back]
        await until(lambda: running.server.router.levels()["clients"].now == 0)
        assert running.server.router.levels()["splices"].now == 0


async def test_a_splice_ends_when_one_of_its_connections_breaks() -> None:
    async with served() as running, splice(running.place) as (called, caller):
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await trio.aclose_forcefully(caller)  # a reset
        assert await read_all(called) == b""


async def test_a_listener_is_cut_if_it_sends_data_before_the_caller() -> None:
    async with served() as running, conversation(running.place, "SFO", None) as talk, talk.stream:

        async def call_it() -> None:
            with suppress(RouterFailed):
                await trio.aclose_forcefully(await call(running.place, "NYC", None, "SFO"))

        await talk.say(routing.LISTEN)
        with capture_logs() as logs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call_it)
                assert await talk.frame() == routing.CALLED + b"NYC"
                await talk.stream.send_all(routing.framed(routing.ACCEPT) + b"x")
                assert await read_all(talk.stream) == b""
        assert "early" in [line.get("reason") for line in logs]


async def test_a_connection_without_a_reader_buffers_a_bounded_amount_and_blocks_no_other() -> None:
    async with served() as running, splice(running.place) as (deaf, talker), splice(running.place) as (one, two):
        poured, takes_more = 0, True
        while takes_more:
            with trio.move_on_after(0.5) as waits:
                await talker.send_all(bytes(1 << 20))
            poured, takes_more = poured + (1 << 20), not waits.cancelled_caught
            assert poured < 64 << 20, "more than the kernels hold"
        assert running.server.outboxes.levels()["total_queued_bytes"].now == 0
        await one.send_all(b"still")
        assert await two.receive_some(5) == b"still"
        # The end that takes nothing still speaks.
        await deaf.send_all(b"heard")
        assert await talker.receive_some(5) == b"heard"
