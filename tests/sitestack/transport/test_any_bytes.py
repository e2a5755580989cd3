"""Any bytes of a connection: whole datagrams of a greeted peer, and no harm."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate, pairwise

import pytest
import trio
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sitestack.model.address import Address, Physical
from sitestack.model.events import Event, Gone
from sitestack.model.host import is_address
from sitestack.transport import tcp, watch
from sitestack.transport.tcp import TcpTransport
from sitestack.wire.codec import DATAGRAM_BYTES_MAX
from tests.harness.sockets import until
from tests.sitestack.transport.test_tcp import CONFIG, GROUP, arriving, place
from tests.sitestack.transport.test_watch import A, B, member

QUICKLY = settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


def sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "little") + frame


def hello(host: bytes, port: int = 7_800, magic: bytes = tcp.MAGIC) -> bytes:
    return magic + port.to_bytes(2, "little") + host


good_hellos = st.builds(hello, st.sampled_from([b"127.0.0.1", b"10.0.0.255"]), st.integers(0, 65_535)).map(sized)
bad_hellos = st.sampled_from(
    [
        hello(b"a.nyc"),
        hello(b"127.0.0.1\n"),
        hello(b"\xff\xfe"),
        hello(b""),
        hello(b"127.0.0.1", magic=b"SST\x02"),
        tcp.MAGIC,
        tcp.MAGIC + b"\x01",
        b"",
    ]
).map(sized)
#: A size that is refused before anything of it is there; one that is not refused and never comes; bytes of no meaning.
damage = st.sampled_from([b"\xff" * 4, (DATAGRAM_BYTES_MAX + 1).to_bytes(4, "little"), (1_000).to_bytes(4, "little") + b"x"])
datagrams = (st.binary(max_size=60) | st.integers(0, DATAGRAM_BYTES_MAX).map(bytes)).map(sized)
streams = st.tuples(
    good_hellos | good_hellos | good_hellos | bad_hellos | damage,
    st.lists(datagrams, max_size=5).map(b"".join),
    st.just(b"") | damage | st.binary(max_size=20) | bad_hellos,
).map(b"".join)
cuts = st.lists(st.integers(1, 30_000), max_size=6)


def model(stream: bytes) -> list[tuple[bytes, Physical]]:
    """Return the expected datagrams of a stream: all whole ones, up to the first forbidden frame."""
    found: list[tuple[bytes, Physical]] = []
    peer: Physical | None = None
    at = 0
    while at + 4 <= len(stream):
        size = int.from_bytes(stream[at : at + 4], "little")
        frame = stream[at + 4 : at + 4 + size]
        at += 4 + size
        if size > DATAGRAM_BYTES_MAX or len(frame) < size:
            break
        if peer is not None:
            found.append((frame, peer))
            continue
        host = frame[6:].decode("ascii", "replace")
        if frame[:4] != tcp.MAGIC or not is_address(host):
            break
        peer = Physical(host, int.from_bytes(frame[4:6], "little"))
    return found


@pytest.fixture(scope="module")
def transport() -> Iterator[TcpTransport]:
    """One for all examples: none of them may leave anything behind."""
    opened = TcpTransport(CONFIG, GROUP)
    yield opened
    opened.close()


async def bring(transport: TcpTransport, stream: bytes, sizes: list[int]) -> list[tuple[bytes, Physical]]:
    """Return the datagrams of these bytes, cut into chunks of these sizes, until the connection ends."""
    arrived: list[tuple[bytes, Physical]] = []
    places = [0, *[each for each in accumulate(sizes) if each < len(stream)], len(stream)]
    with socket.create_connection(place(transport)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await until(lambda: transport.levels()["connections"].now == 1, transport.receive)
        with suppress(OSError):  # it has hung up already
            for start, end in pairwise(places):
                sock.sendall(stream[start:end])
                arrived += transport.receive()
            sock.shutdown(socket.SHUT_WR)
        await until(lambda: transport.levels()["connections"].now == 0, lambda: arrived.extend(transport.receive()))
    return arrived


@settings(QUICKLY, max_examples=100)
@given(stream=streams, sizes=cuts)
@example(stream=sized(hello(b"127.0.0.1")) + sized(b"x") + b"\xff" * 4 + sized(b"after it"), sizes=[])
def test_a_stream_yields_whole_datagrams_up_to_the_first_invalid_bytes(
    transport: TcpTransport, stream: bytes, sizes: list[int]
) -> None:
    assert trio.run(bring, transport, stream, sizes) == model(stream)
    assert not transport._by_peer


async def test_other_peers_are_still_received_after_arbitrary_bytes(transport: TcpTransport) -> None:
    other = TcpTransport(CONFIG, GROUP)
    try:
        other.send([(place(transport), b"here")])
        assert await arriving(transport, other, count=1) == [(b"here", place(other))]
    finally:
        other.close()


# -- watching ------------------------------------------------------------------------------------------------------------

uuids = st.sampled_from([bytes(A), bytes(B), bytes(16), b"\xff" * 16])
answers = st.one_of(
    st.binary(max_size=40),
    st.builds(bytes.__add__, st.just(watch.MAGIC), uuids),
    st.builds(bytes.__add__, st.just(watch.MAGIC), st.binary(max_size=40)),
    st.builds(bytes.__add__, st.sampled_from([b"SSW\x02", b"SSW", b"HTTP"]), uuids),
)


async def watched(answer: bytes, cut: int) -> list[Event]:
    """Return a watcher's events when A's port sends this answer, in two pieces, before it hangs up."""
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]

    async def handle(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            for part in (answer[:cut], answer[cut:]):
                await stream.send_all(part)
                await trio.lowlevel.checkpoint()

    async with member() as site, trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        site.watcher.watch([(A, Physical(*listener.socket.getsockname()))])
        await until(lambda: bool(site.heard) or site.watcher.statistics().attempts > 1)
        heard = [*site.heard]  # without the refusal of a listener that closes
        nursery.cancel_scope.cancel()
    return heard


@settings(QUICKLY, max_examples=60)
@given(answer=answers, cut=st.integers(0, 20))
def test_only_a_valid_answer_of_another_member_reports_the_watched_one_dead(answer: bytes, cut: int) -> None:
    """Whatever else answers, silence decides: an answer that makes no sense is none."""
    whole = len(answer) >= len(watch.MAGIC) + len(A) and answer.startswith(watch.MAGIC)
    other = whole and Address(answer[len(watch.MAGIC) :][: len(A)]) != A
    assert trio.run(watched, answer, cut) == ([Gone(A)] if other else [])


async def talked_to(said: bytes) -> bytes:
    """Return a member's answer to a talking watcher, until it hangs up."""
    async with member() as site:
        heard = b""
        with suppress(trio.BrokenResourceError):
            stream = await trio.open_tcp_stream(*site.place)
            async with stream:
                heard += await stream.receive_some(64)
                await stream.send_all(said)
                while part := await stream.receive_some(64):
                    heard += part
        await until(lambda: site.watcher.levels()["watchers"].now == 0)
        assert site.heard == []
    return heard


@settings(QUICKLY, max_examples=30)
@given(said=st.binary(min_size=1, max_size=3_000))
def test_a_watcher_that_sends_bytes_is_disconnected(said: bytes) -> None:
    assert trio.run(talked_to, said) == watch.MAGIC + B
