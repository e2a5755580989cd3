"""An unproved caller holds no resource for long, and keeps no other caller out."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import trio
import trio.lowlevel

from relay.events import BridgeClosed, BridgeConnected, BridgeSend, Dial, DialFailed
from relay.node.bridge.bridge import Bridge, BridgeConfig
from sitestack.model.address import Physical
from sitestack.model.events import Event
from tests.conftest import Zone
from tests.harness.bridges import HELLO, linked, two_sites
from tests.harness.sockets import until


async def test_a_silent_caller_is_closed_after_the_handshake_timeout(key_directory: Path) -> None:
    async with two_sites(BridgeConfig(handshake_s=0.2), key_directory) as (nyc, _):
        await nyc.listens()
        async with await trio.open_tcp_stream(*nyc.address) as caller:
            began = trio.current_time()
            assert await caller.receive_some() == b""
            assert 0.15 < trio.current_time() - began < 2
        assert (nyc.bridge.statistics().unproven, nyc.bridge.levels()["pending"].now) == (1, 0)
        assert nyc.bridge.problems() == {
            "relay.bridge.bind": "the last connection was rejected: it did not prove its site within 0.2 s"
        }


async def test_a_caller_that_sends_single_bytes_gets_no_more_time(key_directory: Path) -> None:
    async with two_sites(BridgeConfig(handshake_s=0.3), key_directory) as (nyc, _):
        await nyc.listens()
        async with await trio.open_tcp_stream(*nyc.address) as caller:
            began = trio.current_time()
            with suppress(trio.BrokenResourceError):
                for byte in b"\x16\x03\x01\x02\x00\x01" + bytes(1_000):
                    await caller.send_all(bytes([byte]))
                    await trio.sleep(0.02)
            assert trio.current_time() - began < 2
        assert not nyc.told


async def test_without_certificates_a_late_or_invalid_hello_is_rejected() -> None:
    async with two_sites(BridgeConfig(handshake_s=0.2)) as (nyc, _):
        await nyc.listens()
        for said, why in (
            (HELLO[:-1], "it sent no HELLO within 0.2 s"),
            (b"GET / HTTP/1.1", "its first frame is not HELLO"),
        ):
            async with await trio.open_tcp_stream(*nyc.address) as caller:
                await caller.send_all(said)
                with suppress(trio.BrokenResourceError):
                    assert await caller.receive_some() == b""
            assert nyc.bridge.problems() == {"relay.bridge.bind": f"the last connection was rejected: {why}"}
        assert (nyc.bridge.statistics().unproven, nyc.bridge.levels()["pending"].now) == (2, 0)
        assert nyc.told == []


async def test_a_dial_to_a_silent_server_times_out(key_directory: Path) -> None:
    async with two_sites(BridgeConfig(handshake_s=0.2), key_directory) as (nyc, _):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            nyc.bridge.carry_out(Dial("SFO", Physical(*silent.getsockname())))
            await until(lambda: nyc.bridge.statistics().dials_failed == 1)
        [sentence] = nyc.bridge.problems().values()
        assert sentence.endswith("it did not prove its site within 0.2 s")


async def test_a_thousand_idle_callers_neither_push_out_a_link_nor_keep_out_another(keys: Path | None) -> None:
    """A caller without a proved site, or without HELLO where there are no certificates, takes no place of a link."""
    config = BridgeConfig(connections_max=4, pending_max=16)
    async with linked(config, keys) as (nyc, to_sfo, sfo, to_nyc):
        with ExitStack() as idle:
            for _ in range(1_000):
                idle.enter_context(socket.create_connection(nyc.address))
                await trio.lowlevel.checkpoint()
                assert nyc.bridge.levels()["pending"].now <= 16
            sfo.bridge.carry_out(BridgeSend(to_nyc, b"still here"))
            assert await nyc.receives(10) == b"still here"
            sfo.bridge.carry_out(Dial("NYC", nyc.address))
            assert (await nyc.hears(BridgeConnected)).certified == (keys and "SFO")
            await until(lambda: nyc.bridge.statistics().pushed_out > 900)
        assert not [event for event in (*nyc.told, *sfo.told) if isinstance(event, BridgeClosed)], f"{to_sfo} goes on"


async def test_one_host_may_use_a_quarter_of_the_places_for_unproven_callers(key_directory: Path) -> None:
    async with two_sites(BridgeConfig(pending_max=16), key_directory) as (nyc, _):
        await nyc.listens()
        with ExitStack() as idle:
            for host in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
                for _ in range(8):
                    idle.enter_context(socket.create_connection(nyc.address, source_address=(host, 0)))
            await until(lambda: nyc.bridge.statistics().pushed_out == 12)
            assert nyc.bridge.levels()["pending"].now == 12


async def test_one_site_cannot_use_all_connections(keys: Path | None) -> None:
    """The holder of one site's certificate cannot keep out the other sites; without certificates all share the places."""
    async with two_sites(BridgeConfig(connections_max=2 if keys is None else 4), keys) as (nyc, sfo):
        await nyc.listens()
        for _ in range(3):
            sfo.bridge.carry_out(Dial("NYC", nyc.address))
        await sfo.hears(BridgeClosed)
        assert (nyc.bridge.levels()["connections"].now, nyc.bridge.statistics().refused) == (2, 1)


async def test_an_accept_failure_without_descriptors_evicts_an_unproven_caller(
    key_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C18."""
    accept, failures = trio.SocketListener.accept, iter(range(3))

    async def fail_at_first(listener: trio.SocketListener) -> trio.SocketStream:
        stream = await accept(listener)
        if stream.socket.getpeername()[0] == "127.0.0.9" and next(failures, None) is not None:
            await trio.aclose_forcefully(stream)
            raise OSError(errno.EMFILE, "Too many open files")
        return stream

    monkeypatch.setattr(trio.SocketListener, "accept", fail_at_first)
    async with two_sites(BridgeConfig(), key_directory) as (nyc, sfo):
        await nyc.listens()
        with ExitStack() as idle:
            for _ in range(5):
                idle.enter_context(socket.create_connection(nyc.address))
            await until(lambda: nyc.bridge.levels()["pending"].now == 5)
            for _ in range(3):
                idle.enter_context(socket.create_connection(nyc.address, source_address=("127.0.0.9", 0)))
            await until(lambda: nyc.bridge.statistics().pushed_out == 3)
            assert nyc.bridge.problems() == {"relay.bridge.bind": "the last connection was rejected: Too many open files"}
            sfo.bridge.carry_out(Dial("NYC", nyc.address))
            assert (await nyc.hears(BridgeConnected)).certified == "SFO"
            assert nyc.bridge.problems() == {}


#: Loopback addresses without a listener.
NOBODY = ("127.0.0.2", "127.0.0.3")


async def dial(place: Physical) -> Event:
    """Return the result of one call."""
    told, happened = list[Event](), trio.Event()

    def hear(event: Event) -> None:
        told.append(event)
        happened.set()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            bridge = Bridge(BridgeConfig(dial_timeout_s=0.5), hear, hear, nursery)
            bridge.carry_out(Dial("SFO", place))
            await happened.wait()
            nursery.cancel_scope.cancel()
    return told[0]


async def test_a_relay_that_has_moved_is_found_among_the_addresses_of_its_name_at_the_next_call(zone: Zone) -> None:
    with socket.create_server(("127.0.0.1", 0)) as relay:
        peer = Physical("relay.sfo", relay.getsockname()[1])
        zone.hosts["relay.sfo"] = NOBODY
        assert await dial(peer) == DialFailed("SFO", peer)
        zone.hosts["relay.sfo"] = (*NOBODY, "127.0.0.1")
        assert await dial(peer) == BridgeConnected(1, ("SFO", peer))


@pytest.mark.parametrize("host", ["nowhere.sfo", "not..a.name", "a\0b", "x" * 70])
async def test_a_dial_to_an_unresolvable_name_fails(zone: Zone, host: str) -> None:
    peer = Physical(host, 7700)
    assert await dial(peer) == DialFailed("SFO", peer)


async def test_a_name_server_that_does_not_answer_costs_no_more_than_a_call(zone: Zone) -> None:
    zone.silent = True
    began = trio.current_time()
    peer = Physical("relay.sfo", 7700)
    assert await dial(peer) == DialFailed("SFO", peer)
    assert trio.current_time() - began < 5.0


async def test_without_a_thread_to_look_up_the_name_a_dial_fails(zone: Zone) -> None:
    zone.exhausted = True
    peer = Physical("relay.sfo", 7700)
    assert await dial(peer) == DialFailed("SFO", peer)
