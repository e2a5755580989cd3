"""The proxies carry out their verbs on real connections and datagrams on the loopback interface."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
import trio

from relay_lab.drills.network import Condition, Direction, Network, harmed
from relay_lab.drills.plan import Seat
from relay_lab.drills.proxy import DatagramProxy, StreamProxy, bind_datagrams, bind_streams, fates, port_of

HOST = "127.0.0.1"
#: Seconds to wait before a packet counts as lost.
SILENCE_S = 0.2
LIMIT_S = 10.0
A, B = Seat("NYC", "A"), Seat("NYC", "B")


@dataclass
class Pair:
    """A connection through the proxy, seen from both ends."""

    near: trio.SocketStream
    far: trio.SocketStream
    there: Direction
    back: Direction
    port: int


@asynccontextmanager
async def connected() -> AsyncIterator[Pair]:
    there, back = Direction(), Direction()
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            target, front = await bind_streams(HOST), await bind_streams(HOST)
            port = port_of(front.socket)
            nursery.start_soon(StreamProxy(front, (HOST, port_of(target.socket)), there, back).run)
            near = await trio.open_tcp_stream(HOST, port)
            far = await target.accept()
            async with target, near, far:
                yield Pair(near, far, there, back, port)
            nursery.cancel_scope.cancel()


async def hears_nothing(stream: trio.SocketStream) -> bool:
    with trio.move_on_after(SILENCE_S) as waiting:
        await stream.receive_some()
    return waiting.cancelled_caught


async def test_bytes_and_the_end_pass_both_ways() -> None:
    async with connected() as pair:
        await pair.near.send_all(b"ping")
        assert await pair.far.receive_some() == b"ping"
        await pair.far.send_all(b"pong")
        await pair.far.send_eof()
        assert await pair.near.receive_some() == b"pong"
        assert await pair.near.receive_some() == b""
        await pair.near.send_all(b"more")
        assert await pair.far.receive_some() == b"more"


async def test_a_cut_breaks_connections_and_refuses_new_ones_until_it_heals() -> None:
    async with connected() as pair:
        pair.there.set(Condition("cut"))
        for stream in (pair.near, pair.far):
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some()
        async with await trio.open_tcp_stream(HOST, pair.port) as again:
            with pytest.raises(trio.BrokenResourceError):
                await again.receive_some()


async def test_stalled_data_waits_and_then_arrives_complete() -> None:
    async with connected() as pair:
        pair.there.set(Condition("stall"))
        await pair.near.send_all(b"later")
        assert await hears_nothing(pair.far)
        await pair.far.send_all(b"the other way is open")
        assert await pair.near.receive_some()
        pair.there.set(Condition())
        assert await pair.far.receive_some() == b"later"


async def test_a_half_open_connection_accepts_all_data_and_never_delivers_any() -> None:
    async with connected() as pair:
        pair.there.set(Condition("half-open"))
        await pair.near.send_all(b"gone")
        assert await hears_nothing(pair.far)
        pair.there.set(Condition())
        await pair.near.send_all(b"gone as well")
        await pair.near.send_eof()
        assert await hears_nothing(pair.far)
        await pair.far.send_all(b"the other way is open")
        assert await pair.near.receive_some() == b"the other way is open"


async def test_a_delay_keeps_the_order() -> None:
    async with connected() as pair:
        pair.there.set(Condition(delay_s=0.1))
        began = trio.current_time()
        await pair.near.send_all(b"1")
        await trio.sleep(0.02)
        await pair.near.send_all(b"2")
        assert await pair.far.receive_some(1) == b"1"
        assert await pair.far.receive_some(1) == b"2"
        assert trio.current_time() - began >= 0.1


async def test_a_slow_link_limits_the_rate() -> None:
    async with connected() as pair:
        pair.there.set(Condition(bytes_per_s=10_000))
        began = trio.current_time()
        await pair.near.send_all(bytes(1_000))
        await pair.near.send_eof()
        assert sum([len(data) async for data in pair.far]) == 1_000
        assert trio.current_time() - began >= 0.1


async def test_a_target_that_does_not_listen_breaks_the_connection() -> None:
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            gone, front = await bind_streams(HOST), await bind_streams(HOST)
            nobody = (HOST, port_of(gone.socket))
            await gone.aclose()
            nursery.start_soon(StreamProxy(front, nobody, Direction(), Direction()).run)
            async with await trio.open_tcp_stream(HOST, port_of(front.socket)) as near:
                with pytest.raises(trio.BrokenResourceError):
                    await near.receive_some()
            nursery.cancel_scope.cancel()


async def test_a_datagram_comes_from_the_front_of_its_sender() -> None:
    network = Network()
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            real = {seat: await bind_datagrams(HOST) for seat in (A, B)}
            fronts = {seat: await bind_datagrams(HOST) for seat in (A, B)}
            places = {seat: (HOST, port_of(sock)) for seat, sock in real.items()}
            nursery.start_soon(DatagramProxy(network, fronts, places, random.Random(1)).run)
            to_b = (HOST, port_of(fronts[B]))
            network.change(A, B, "cut", 0)
            await real[A].sendto(b"lost", to_b)
            await trio.sleep(SILENCE_S)
            network.change(A, B, "heal", 0)
            network.change(A, B, "duplicate", 1.0)
            await real[A].sendto(b"twice", to_b)
            for _ in range(2):
                assert await real[B].recvfrom(100) == (b"twice", (HOST, port_of(fronts[A])))
            nursery.cancel_scope.cancel()
        for sock in real.values():
            sock.close()


def line(condition: Condition) -> Direction:
    made = Direction()
    made.set(condition)
    return made


def test_the_fates_of_datagrams_follow_their_probabilities_and_the_seed() -> None:
    bad = line(Condition(loss=0.5, duplication=0.5, delay_s=0.1))
    drawn = [fates(bad, rng) for rng in [random.Random(3)] for _ in range(1_000)]
    assert drawn == [fates(bad, rng) for rng in [random.Random(3)] for _ in range(1_000)]
    assert 400 < drawn.count([]) < 600
    assert 180 < drawn.count([0.1, 0.1]) < 320
    assert fates(line(Condition()), random.Random(1)) == [0.0]
    assert fates(line(Condition(reordering=1.0)), random.Random(1))[0] > 0


def test_harm_adds_up_and_healing_undoes_all_of_it() -> None:
    both = harmed(harmed(Condition(), "delay", 0.2), "lose", 0.1)
    assert both == Condition(delay_s=0.2, loss=0.1)
    assert harmed(both, "half-open", 0).mode == "half-open"
    assert harmed(both, "heal", 0) == Condition()
