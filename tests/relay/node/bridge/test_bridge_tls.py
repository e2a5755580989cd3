"""Accepted and refused certificates. The other end is the TLS of `ssl` and `trio`, not that of the product."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from relay.events import BridgeClose, BridgeClosed, BridgeConnected, BridgeReceived, BridgeSend, Dial, DialFailed
from relay.gateway.wire import encode
from relay.keys.certificates import Credential
from relay.node.bridge.bridge import BridgeConfig
from relay.node.bridge.tls import TlsStream
from sitestack.model.address import Physical
from tests.harness.bridges import Site, at_port, linked
from tests.harness.certificates import authority, context, signed, signed_for_damaged_name, signed_for_no_site, write_site
from tests.harness.relay.puppet import hello
from tests.harness.sockets import until

pytestmark = pytest.mark.conforms("REL-36")

OURS = authority()
THEIRS = authority()

IMPOSTORS: dict[str, tuple[Credential, str]] = {
    "of another authority": (signed(THEIRS, "SFO"), "its certificate: unable to get local issuer certificate"),
    "signed by itself": (THEIRS, "its certificate: self-signed certificate"),
    "ended": (signed(OURS, "SFO", -10, -1), "its certificate: certificate has expired"),
    "not begun": (signed(OURS, "SFO", 1, 10), "its certificate: certificate is not yet valid"),
    "of no site": (signed_for_no_site(OURS), "its certificate names no site"),
    "of a damaged name": (signed_for_damaged_name(OURS), "its certificate names no site"),
}


@asynccontextmanager
async def nyc_listens(directory: Path, config: BridgeConfig | None = None) -> AsyncIterator[Site]:
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            keys = write_site(directory / "NYC", signed(OURS, "NYC"), OURS)
            nyc = Site(at_port(config or BridgeConfig()), nursery, keys)
            await nyc.listens()
            yield nyc
            nursery.cancel_scope.cancel()


async def call(nyc: Site, how: ssl.SSLContext) -> trio.SSLStream[trio.SocketStream]:
    stream = await trio.open_tcp_stream(nyc.address.host, nyc.address.port)
    return trio.SSLStream(stream, how, https_compatible=True)


async def is_refused(nyc: Site, how: ssl.SSLContext) -> bool:
    """Whether a caller gets nothing but the end; with TLS 1.3 it may learn that only after its handshake."""
    caller = await call(nyc, how)
    try:
        await caller.send_all(encode(hello()))
        refused = await caller.receive_some() == b""
    except trio.BrokenResourceError:
        refused = True
    await trio.aclose_forcefully(caller)
    return refused and not [event for event in nyc.told if isinstance(event, BridgeConnected)]


async def test_a_caller_with_a_certificate_is_let_in_as_the_site_that_it_names(tmp_path: Path) -> None:
    async with nyc_listens(tmp_path) as nyc:
        caller = await call(nyc, context(write_site(tmp_path / "SFO", signed(OURS, "SFO"), OURS)))
        await caller.send_all(b"hello")
        heard = await nyc.hears(BridgeConnected)
        assert (heard.dialed, heard.certified) == (None, "SFO")
        assert await nyc.receives(5) == b"hello"
        assert (caller.version(), caller.session_reused) == ("TLSv1.3", False)
        nyc.bridge.carry_out(BridgeSend(heard.connection, b"bye"))
        nyc.bridge.carry_out(BridgeClose(heard.connection, "leaving"))
        assert await caller.receive_some() == b"bye"
        assert not caller.session.has_ticket, "so that nothing can be sent early or resumed"
        # Strict about the end: without close_notify this would raise.
        caller._https_compatible = False
        assert await caller.receive_some() == b""
        await trio.aclose_forcefully(caller)


@pytest.mark.parametrize("kind", IMPOSTORS)
async def test_a_caller_is_refused_whose_certificate_is(tmp_path: Path, kind: str) -> None:
    own, reason = IMPOSTORS[kind]
    async with nyc_listens(tmp_path) as nyc:
        assert await is_refused(nyc, context(write_site(tmp_path / "SFO", own, OURS)))
        assert nyc.bridge.statistics().unproven == 1
        assert nyc.bridge.problems() == {"relay.bridge.bind": f"the last connection was rejected: {reason}"}


async def test_a_caller_without_a_certificate_is_refused(tmp_path: Path) -> None:
    async with nyc_listens(tmp_path) as nyc:
        assert await is_refused(nyc, context(tmp_path, with_certificate=False))
        assert "peer did not return a certificate" in nyc.bridge.problems()["relay.bridge.bind"]


async def test_a_caller_with_an_older_tls_is_refused(tmp_path: Path) -> None:
    older = context(write_site(tmp_path / "SFO", signed(OURS, "SFO"), OURS))
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    async with nyc_listens(tmp_path) as nyc:
        assert await is_refused(nyc, older)
        assert "unsupported protocol" in nyc.bridge.problems()["relay.bridge.bind"]


async def test_a_caller_without_tls_is_refused_and_its_data_is_not_read(tmp_path: Path) -> None:
    async with nyc_listens(tmp_path) as nyc:
        async with await trio.open_tcp_stream(nyc.address.host, nyc.address.port) as caller:
            await caller.send_all(encode(hello()))
            assert await caller.receive_some() == b""
        await until(lambda: nyc.bridge.statistics().unproven == 1)
        assert not nyc.told


# -- calls ----------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def answering(how: ssl.SSLContext) -> AsyncIterator[Physical]:
    """A server that accepts every peer, and its address."""
    async with trio.open_nursery() as nursery:

        async def answer(stream: trio.SocketStream) -> None:
            secured = trio.SSLStream(stream, how, server_side=True, https_compatible=True)
            try:
                await secured.send_all(encode(hello()))
                await secured.receive_some()
            except trio.BrokenResourceError:
                pass
            await trio.aclose_forcefully(secured)

        [listener] = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
        yield Physical(*listener.socket.getsockname())
        nursery.cancel_scope.cancel()


CALLED = {**IMPOSTORS, "of another site": (signed(OURS, "LAX"), "its certificate names site 'LAX'")}


@pytest.mark.parametrize("kind", CALLED)
async def test_a_call_has_failed_when_the_certificate_at_the_other_end_is(tmp_path: Path, kind: str) -> None:
    own, reason = CALLED[kind]
    server = context(write_site(tmp_path / "SFO", own, OURS), server=True)
    async with nyc_listens(tmp_path) as nyc, answering(server) as address:
        nyc.bridge.carry_out(Dial("SFO", address))
        assert await nyc.hears(DialFailed) == DialFailed("SFO", address)
        assert not nyc.told
        assert nyc.bridge.problems() == {"relay.bridge.peers.SFO": f"{address}: {reason}"}


@pytest.mark.parametrize("calls", [False, True])
async def test_a_link_with_the_right_site_ends_the_complaint(tmp_path: Path, calls: bool) -> None:
    """Once it is linked nothing is called, so the complaint about the call before would stay as long as the link."""
    sfo, lax = (write_site(tmp_path / site, signed(OURS, site), OURS) for site in ("SFO", "LAX"))
    right, wrong = (answering(context(keys, server=True)) for keys in (sfo, lax))
    async with nyc_listens(tmp_path) as nyc, right as good, wrong as bad, await call(nyc, context(sfo)) as caller:
        nyc.bridge.carry_out(Dial("SFO", bad))
        await nyc.hears(DialFailed)
        assert nyc.bridge.problems()
        if calls:
            await caller.send_all(encode(hello()))
        else:
            nyc.bridge.carry_out(Dial("SFO", good))
        assert (await nyc.hears(BridgeConnected)).certified == "SFO"
        await nyc.hears(BridgeReceived)
        assert nyc.bridge.problems() == {}


async def test_a_relay_that_is_not_believed_learns_why(tmp_path: Path) -> None:
    """With TLS 1.3 its own handshake succeeds before the other end has looked at its certificate."""
    async with nyc_listens(tmp_path) as nyc, trio.open_nursery() as nursery:
        lon = Site(BridgeConfig(), nursery, write_site(tmp_path / "LON", signed(THEIRS, "LON"), OURS))
        lon.bridge.carry_out(Dial("NYC", nyc.address))
        await lon.hears(BridgeConnected)
        await lon.hears(BridgeClosed)
        sentence = f"{nyc.address} rejects the certificate of this site: unknown ca"
        assert lon.bridge.problems() == {"relay.bridge.peers.NYC": sentence}
        nursery.cancel_scope.cancel()


async def test_a_site_with_tls_rejects_callers_and_servers_without_tls(tmp_path: Path) -> None:
    async with nyc_listens(tmp_path) as nyc, trio.open_nursery() as nursery:
        plain = Site(at_port(), nursery)
        await plain.listens()
        plain.bridge.carry_out(Dial("NYC", nyc.address))
        number = (await plain.hears(BridgeConnected)).connection
        plain.bridge.carry_out(BridgeSend(number, encode(hello())))
        await plain.hears(BridgeClosed)
        nyc.bridge.carry_out(Dial("SFO", plain.address))
        await nyc.hears(DialFailed)
        assert plain.bridge.problems()["relay.bridge.bind"].endswith("its first frame is not HELLO")
        assert not [event for event in nyc.told if isinstance(event, BridgeConnected)]
        nursery.cancel_scope.cancel()


# -- traffic
# ---------------------------------------------------------------------------------------------------------------


async def test_a_broken_connection_is_reported_as_closed(key_directory: Path) -> None:
    """The kernel of a killed process resets its connections, without an alert."""
    async with linked(keys=key_directory) as (nyc, to_sfo, sfo, to_nyc):
        sfo.transport(to_nyc).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await sfo.transport(to_nyc).aclose()
        assert await nyc.hears(BridgeClosed) == BridgeClosed(to_sfo)
        assert await sfo.hears(BridgeClosed) == BridgeClosed(to_nyc)
        sfo.bridge.carry_out(Dial("NYC", nyc.address))
        assert (await nyc.hears(BridgeConnected)).certified == "SFO", "both go on"


async def test_a_peer_that_reads_nothing_is_left_after_the_linger_time(tmp_path: Path) -> None:
    async with nyc_listens(tmp_path, BridgeConfig(linger_s=0.1)) as nyc:
        caller = await call(nyc, context(write_site(tmp_path / "SFO", signed(OURS, "SFO"), OURS)))
        await caller.do_handshake()
        number = (await nyc.hears(BridgeConnected)).connection
        nyc.bridge.carry_out(BridgeSend(number, bytes(20_000_000)))
        nyc.bridge.carry_out(BridgeClose(number, "leaving"))
        with trio.fail_after(3):
            await nyc.bridge.farewell()
        assert nyc.bridge.levels()["connections"].now == 0
        await trio.aclose_forcefully(caller)


@pytest.mark.parametrize("seed", range(8))
async def test_an_invalid_handshake_closes_only_its_connection(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    said, heard = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = context(write_site(tmp_path / "SFO", signed(OURS, "SFO"), OURS)).wrap_bio(heard, said)
    with pytest.raises(ssl.SSLWantReadError):
        engine.do_handshake()
    hello_of_tls = bytearray(said.read())
    async with nyc_listens(tmp_path) as nyc:
        for count in range(1, 21):
            damaged = bytearray(hello_of_tls) if count % 3 else bytearray(rng.randbytes(200))
            for _ in range(count % 5 + 1):
                damaged[rng.randrange(len(damaged))] ^= rng.randrange(1, 256)
            async with await trio.open_tcp_stream(nyc.address.host, nyc.address.port) as caller:
                await caller.send_all(damaged)
                await caller.send_eof()
                with suppress(trio.BrokenResourceError):
                    while await caller.receive_some():
                        pass
            await until(lambda count=count: nyc.bridge.statistics().unproven == count)  # type: ignore[misc]
        assert not nyc.told
        assert nyc.bridge.statistics().listening


async def test_a_record_that_was_changed_on_its_way_ends_the_connection(key_directory: Path) -> None:
    async with linked(keys=key_directory) as (nyc, _, sfo, to_nyc):
        await sfo.transport(to_nyc).send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        await nyc.hears(BridgeClosed)
        assert not nyc.told


async def test_certificates_are_reread_while_a_connection_breaks(key_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with linked(keys=key_directory) as (nyc, _, sfo, to_nyc):
        monkeypatch.setattr(nyc.bridge.proving, "reread", lambda: True)
        await sfo.transport(to_nyc).send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        while not nyc.told:
            nyc.bridge.reread_certificates()
            await trio.lowlevel.checkpoint()
        assert nyc.bridge.statistics().distrusted == 0


async def test_records_that_arrive_together_are_delivered_together(key_directory: Path) -> None:
    """A turn for each record of 16 KiB would cost more than the encryption."""
    async with linked(keys=key_directory) as (nyc, _, sfo, to_nyc):
        sfo.bridge.carry_out(BridgeSend(to_nyc, bytes(4_000_000)))
        sizes: list[int] = []
        while sum(sizes) < 4_000_000:
            sizes.append(len((await nyc.hears(BridgeReceived)).data))
        assert max(sizes) > 3 * 16 * 1024


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the bytes on the wire."""
    shown: list[bytes] = []
    send = trio.SocketStream.send_all

    async def show(stream: trio.SocketStream, data: bytes) -> None:
        shown.append(bytes(data))
        await send(stream, data)

    monkeypatch.setattr(trio.SocketStream, "send_all", show)
    return shown


async def test_data_on_the_wire_is_encrypted(key_directory: Path, wire: list[bytes]) -> None:
    async with linked(keys=key_directory) as (nyc, _, sfo, to_nyc):
        sfo.bridge.carry_out(BridgeSend(to_nyc, b"a secret" * 10))
        assert await nyc.receives(80) == b"a secret" * 10
        assert b"a secret" not in b"".join(wire)
        assert isinstance(sfo.bridge._connections[to_nyc].stream, TlsStream)
