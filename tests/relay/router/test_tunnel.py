"""The tunnel and the connections to routers, with routers on the loopback interface and no stack above."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from itertools import count

import pytest
import trio

from relay.router import server
from relay.router.server import RouterServer
from relay.router.switchboard import Say
from sitestack.config import SiteConfig, TransportConfig, find_problems
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.errors import ConfigurationError
from sitestack.seal.key_ring import KeyRing, SiteKey
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport import router_link
from sitestack.transport.router_link import Registrant, RouterLinks
from sitestack.transport.tunnel import TunnelTransport, place_of
from sitestack.wire import routing
from sitestack.wire.routing import Entry, framed
from tests.harness.addresses import address
from tests.harness.sockets import free_port, until
from tests.relay.router.routers import ANY_PORT, RING, Served, router

TUNNEL = TransportConfig(kind="tunnel")
A, B, C = map(address, "ABC")


@contextmanager
def tunnels(
    routers: Sequence[Physical], *members: Address, config: TransportConfig = TUNNEL, ring: KeyRing | None = RING
) -> Iterator[list[TunnelTransport]]:
    proofs = None if ring is None else Proofs("NYC", ring)
    opened = [TunnelTransport(config, routers, Registrant("NYC", Entry(each, repr(each), ()), proofs)) for each in members]
    try:
        yield opened
    finally:
        for each in opened:
            each.close()


@asynccontextmanager
async def two_members() -> AsyncIterator[tuple[list[Served], TunnelTransport, TunnelTransport]]:
    """A and B, which know each other at two routers."""
    async with router(ring=RING) as first, router(ring=RING) as second:
        with tunnels([first.place, second.place], A, B) as (a, b):
            await until(lambda: knows(a, B) == knows(b, A) == 2, a.receive, b.receive)
            yield [first, second], a, b


def knows(tunnel: TunnelTransport, member: Address) -> int:
    """At how many routers."""
    return sum(member in link.others for link in tunnel.links.links)


async def arriving(tunnel: TunnelTransport, *others: TunnelTransport, count: int) -> list[tuple[bytes, Physical]]:
    taken: list[tuple[bytes, Physical]] = []
    await until(lambda: len(taken) >= count, lambda: taken.extend(tunnel.receive()), *[each.receive for each in others])
    return taken


@pytest.mark.conforms("LA-15")
async def test_datagrams_arrive_whole_in_order_and_can_be_answered() -> None:
    async with two_members() as (_, a, b):
        sent = [bytes([n % 256]) * size for n, size in enumerate([0, 1, 60_000, 5, 65_000] * 10)]
        a.send([(place_of(B) if n % 2 else None, data) for n, data in enumerate(sent)])
        assert await arriving(b, a, count=50) == [(data, place_of(A)) for data in sent]
        assert a.statistics().sent_datagrams == 50, "one copy each, although there are two routers"
        b.send([(place_of(C), b"nobody")])
        assert b.statistics().unsent_datagrams == 1


@pytest.mark.conforms("LA-15")
async def test_two_that_have_lost_different_routers_meet_a_third_at_each() -> None:
    async with router(ring=RING) as first, router(ring=RING) as second:
        with (
            tunnels([first.place], A) as (a,),
            tunnels([second.place], B) as (b,),
            tunnels([first.place, second.place], C) as (c,),
        ):
            met = ((c, A), (c, B), (a, C), (b, C))
            await until(lambda: all(knows(each, member) for each, member in met), a.receive, b.receive, c.receive)
            c.send([(None, b"all"), (place_of(A), b"a"), (place_of(B), b"b")])
            assert [data for data, _ in await arriving(a, c, count=2)] == [b"all", b"a"]
            assert [data for data, _ in await arriving(b, c, count=2)] == [b"all", b"b"]


async def test_a_member_that_no_router_knows_any_more_is_reported_and_one_that_has_lost_a_router_is_not() -> None:
    async with two_members() as (routers, a, b):
        reported: list[Address] = []
        a.report = reported.append
        routers[0].kill()
        await until(lambda: knows(a, B) == 1 and len(a.links.up()) == len(b.links.up()) == 1, a.receive, b.receive)
        a.receive()
        assert not reported
        b.close()
        await until(lambda: bool(reported), a.receive)
        assert reported == [B]
        routers[1].kill()
        await until(lambda: not a.links.up(), a.receive)
        a.send([(None, b"x")])
        assert (reported, a.statistics().unsent_datagrams) == ([B], 1)


@pytest.mark.conforms("LA-16")
async def test_a_restarted_router_registers_all_members_again() -> None:
    async with two_members() as (routers, a, b):
        routers[0].kill()
        await until(lambda: knows(a, B) == knows(b, A) == 1, a.receive, b.receive)
        await routers[0].start_again()
        await until(lambda: knows(a, B) == knows(b, A) == 2, a.receive, b.receive)
        assert len(routers[0].server.router.registry) == 2
        assert a.links.problem() == ""


async def test_members_drop_a_stalled_router_and_use_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router_link, "PING_S", 0.02)
    monkeypatch.setattr(router_link, "ANSWER_S", 0.2)
    async with two_members() as (routers, a, b):
        monkeypatch.setattr(routers[0].server.router, "receive_frame", lambda *_: [])
        await until(lambda: len(a.links.up()) == len(b.links.up()) == 1, a.receive, b.receive)
        assert a.links.problem() == f"no connection to {routers[0].place} (it no longer answers)"
        a.send([(place_of(B), b"x")])
        assert await arriving(b, a, count=1) == [(b"x", place_of(A))]


@pytest.mark.parametrize(
    ("theirs", "mine"),
    [(KeyRing.of(bytes(32)), RING), (None, RING), (RING, None)],
    ids=["other keys", "a router without", "a member without"],
)
async def test_without_the_same_key_no_member_is_registered(theirs: KeyRing | None, mine: KeyRing | None) -> None:
    async with router(ring=theirs) as other:
        with tunnels([other.place], A, ring=mine) as (a,):
            await until(lambda: sum(other.server.router.refused.values()) > 1 or "unproven" in a.links.problem(), a.receive)
            assert not a.links.up()
            assert not len(other.server.router.registry)


async def test_a_member_with_a_key_that_the_others_lack_does_not_cut_them_off() -> None:
    new = SiteKey(bytes(32))
    both = RING.add(new)
    async with router(ring=both) as shared:
        with tunnels([shared.place], C, ring=both.use(new.id)) as (c,), tunnels([shared.place], A, B) as (a, b):
            await until(lambda: bool(knows(c, A) and knows(c, B)), a.receive, b.receive, c.receive)
            await until(lambda: bool(knows(a, B) and knows(b, A)), a.receive, b.receive, c.receive)
            assert not knows(a, C)
            assert a.links.links[0].connected == 1


async def test_a_router_without_the_key_receives_no_registration() -> None:
    """It speaks the protocol, and accepts every member."""
    stranger = RouterServer(ANY_PORT, {"NYC": None})
    stranger.router._sites = {"NYC": _Credulous()}  # type: ignore[dict-item]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stranger.serve)
        with tunnels([stranger.address], A) as (a,):
            await until(lambda: "unproven" in a.links.problem(), a.receive)
            assert not len(stranger.router.registry)
        nursery.cancel_scope.cancel()


class _Credulous:
    """Takes every proof for sound, and can make none."""

    def are_sound(self, *_: object) -> bool:
        return True

    def make(self, *_: object) -> bytes:
        return bytes(PROOF_BYTES)


async def test_a_member_that_reads_nothing_is_cut_and_the_others_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SLOW_S", 0.3)
    monkeypatch.setattr(server, "WRITE_BYTES", 4 << 20)
    async with router(ring=RING) as only:
        with tunnels([only.place], A, B, C) as (a, b, c):
            await until(lambda: len(a.links.others()) == 2, a.receive, b.receive, c.receive)
            refused = only.server.router.refused
            got = 0

            def turn() -> None:
                nonlocal got
                a.send([(None, bytes(60_000))] * 10)
                a.receive()
                got += len(c.receive())

            await until(lambda: refused["slow"] > 0, turn)
            assert got > 50
            assert only.server.levels()["queued_bytes"].now <= server.OUTBOX_BYTES_MAX
            await until(lambda: not knows(a, B), a.receive, c.receive)


async def test_members_that_read_nothing_are_not_all_cut_with_the_first_one() -> None:
    stuck, nonce = RouterServer(ANY_PORT, {"NYC": None}), bytes(NONCE_BYTES)
    stuck.outboxes = server.Outboxes(total_bytes_max=100_000)

    def hear(client: int, frame: bytes) -> None:
        stuck._carry_out(stuck.router.receive_frame(client, frame, 0.0))

    def register(client: int, name: str) -> None:
        entry = Entry(Address(bytes([client] * UUID_BYTES)), name, (Physical("10.0.0.1", 1),))
        hear(client, routing.REGISTER + routing.pack_entry(entry, None))

    for client in range(30):
        stuck.router.open(client, nonce, 0.0)
        hear(client, routing.hello("NYC", None, nonce, nonce))
        stuck.outboxes.open(client)
        register(client, "")
    while not stuck.outboxes.lost_datagrams:
        hear(0, routing.CAST + bytes(100))
    names = map(str, count())
    while not stuck.router.refused["slow"]:
        register(0, next(names))
    stuck._socket.close()
    assert stuck.router.refused["slow"] == 1


@asynccontextmanager
async def slow_line(place: Physical, bytes_per_s: int) -> AsyncIterator[Physical]:
    """An address that leads to this one, from which no more than this arrives."""

    async def carry(near: trio.SocketStream) -> None:
        far = trio.socket.socket()
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        await far.connect(place)
        async with near, trio.SocketStream(far) as stream, trio.open_nursery() as both:

            async def down() -> None:
                while data := await stream.receive_some(bytes_per_s // 50):
                    await near.send_all(data)
                    await trio.sleep(len(data) / bytes_per_s)
                both.cancel_scope.cancel()

            both.start_soon(down)
            async for data in near:
                await stream.send_all(data)
            both.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, carry, 0, host="127.0.0.1"))
        yield Physical("127.0.0.1", listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()


async def test_a_member_that_reads_as_fast_as_a_slow_line_allows_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SLOW_S", 0.3)
    async with router(ring=RING) as only, slow_line(only.place, 500_000) as line:
        with tunnels([only.place], A) as (a,), tunnels([line], B) as (b,):
            await until(lambda: bool(knows(a, B) and knows(b, A)), a.receive, b.receive)
            lost = only.server.outboxes

            def turn() -> None:
                a.send([(place_of(B), bytes(60_000))] * 10)
                a.receive()
                b.receive()

            await until(lambda: lost.lost_datagrams > 0, turn)
            with trio.move_on_after(2):
                await until(lambda: not knows(a, B), turn)
            assert (only.server.router.refused["slow"], b.links.links[0].connected) == (0, 1)


async def test_a_silent_stranger_is_cut_after_a_timeout_and_an_invalid_one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.router.router.GREETING_TIMEOUT_S", 0.3)
    async with router(ring=RING) as only:
        for said in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(4), (40).to_bytes(4, "little") + bytes(40)):
            stream = await trio.open_tcp_stream(*only.place)
            async with stream:
                await stream.send_all(said) if said else None
                with trio.fail_after(20):
                    while await stream.receive_some():
                        pass
        assert set(only.server.router.refused) == {"unproven", "frame_size", "greeting"}
        assert only.server.levels()["clients"].now == 0


@pytest.mark.parametrize("frame", [routing.GONE, routing.GONE + b"abc", routing.GONE + bytes(17), b"?"])
async def test_a_router_that_sends_an_invalid_frame_is_dropped_and_used_again(frame: bytes) -> None:
    async with router(ring=RING) as only:
        with tunnels([only.place], A) as (a,):
            await until(lambda: a.links.has_answer(), a.receive)
            only.server._carry_out([Say([1], framed(frame))])
            await until(lambda: "no router of this site sends this" in a.links.problem(), a.receive)
            await until(lambda: a.links.links[0].connected == 2 and a.links.has_answer(), a.receive)


async def test_a_list_that_is_slower_than_the_next_query_loses_no_member() -> None:
    with socket.create_server(ANY_PORT) as slow:
        links = RouterLinks([Physical(*slow.getsockname())], Registrant("NYC", Entry(A, "A", ()), None), 1 << 20)
        [link] = links.links
        links.poll()
        near, _ = slow.accept()
        there = [framed(routing.PRESENT, routing.pack_entry(Entry(each, repr(each), ()), None)) for each in (B, C)]
        near.sendall(framed(routing.challenge(bytes(NONCE_BYTES))) + framed(routing.welcome(None, b"", b"")) + there[0])
        await until(lambda: B in link.others, links.poll)
        link._register(0.0)
        near.sendall(there[1] + framed(routing.listed(2)))
        await until(links.has_answer, links.poll)
        near.close()
        assert link.others.keys() == {B, C}
        links.close()


async def test_a_router_that_is_not_there_costs_no_wait_beside_one_that_is() -> None:
    async with router(ring=RING) as only:
        missing = Physical("127.0.0.1", free_port())
        links = RouterLinks([missing, only.place], Registrant("NYC", Entry(A, "A", ()), Proofs("NYC", RING)), 1 << 20)
        with trio.fail_after(20):
            await links.find(1_000.0)
        assert links.has_answer()
        await until(lambda: "refused" in links.problem(), links.poll)
        links.use([only.place])
        assert (links.problem(), len(links.up())) == ("", 1)
        links.use([])
        links.close()


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.create_server(ANY_PORT) as taken:
        place = Physical(*taken.getsockname())
        with pytest.raises(ConfigurationError, match=rf"^relay router: cannot listen on {place}: Address already in use\.$"):
            RouterServer(place, {"NYC": None})


def test_a_tunnel_needs_routers_and_no_other_way() -> None:
    [problem] = find_problems(SiteConfig("NYC", transport=TUNNEL))
    assert problem.startswith("discovery.routers: with transport.kind tunnel")
    hosts, routers = (Physical("10.0.0.1", 1),), (Physical("a", 0), Physical("1.2.3", 1))
    problems = find_problems(SiteConfig("NYC", transport=TUNNEL, discovery=DiscoveryConfig(hosts, routers=routers)))
    assert [problem.partition(":")[0] for problem in problems] == [
        "discovery.routers[0]",
        "discovery.initial_hosts, discovery.dns",
        "discovery.routers[1]",
    ]
