"""The bridge over real TCP on the loopback interface, ordered about by a test instead of a gateway."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest
import trio
import trio.testing

from relay.events import (
    BridgeClose,
    BridgeClosed,
    BridgeConnected,
    BridgeSend,
    BridgeWritten,
    Dial,
    DialFailed,
    Listen,
    StopListening,
)
from relay.node.bridge import listener
from relay.node.bridge.bridge import UNANSWERED_S_MAX, BridgeConfig
from sitestack.model.address import Physical
from tests.harness.bridges import HELLO, Site, at_port, linked, two_sites
from tests.harness.sockets import free_port, until


async def test_bytes_go_both_ways_and_each_write_is_confirmed(keys: Path | None) -> None:
    async with linked(keys=keys) as (nyc, to_sfo, sfo, to_nyc):
        large = os.urandom(3_000_000)
        sfo.bridge.carry_out(BridgeSend(to_nyc, large))
        nyc.bridge.carry_out(BridgeSend(to_sfo, b"hello"))
        assert await sfo.receives(5) == b"hello"
        assert await nyc.receives(len(large)) == large
        assert await sfo.hears(BridgeWritten) == BridgeWritten(to_nyc)
        said = len(large) + (len(HELLO) if keys is None else 0)
        assert nyc.bridge.statistics().received_bytes == sfo.bridge.statistics().sent_bytes == said


async def test_a_chunk_that_the_kernel_accepts_is_written_within_the_turn(keys: Path | None) -> None:
    """No task has to run, and no further turn, for a chunk that finds room: confirmed before `carry_out` returns."""
    async with linked(keys=keys) as (nyc, to_sfo, sfo, _to_nyc):
        for n in range(3):
            with trio.testing.assert_no_checkpoints():
                nyc.bridge.carry_out(BridgeSend(to_sfo, b"%d" % n))
            assert [event for event in nyc.told if isinstance(event, BridgeWritten)] == [BridgeWritten(to_sfo)] * (n + 1)
        assert await sfo.receives(3) == b"012"


async def test_data_that_the_kernel_does_not_accept_at_once_keeps_its_order(keys: Path | None) -> None:
    async with linked(keys=keys) as (nyc, to_sfo, sfo, _to_nyc):
        parts = [os.urandom(6_000_000), b"after it", os.urandom(100_000)]
        for part in parts:
            nyc.bridge.carry_out(BridgeSend(to_sfo, part))
        assert not [event for event in nyc.told if isinstance(event, BridgeWritten)]
        whole = b"".join(parts)
        assert await sfo.receives(len(whole)) == whole
        for _ in parts:
            await nyc.hears(BridgeWritten)
        nyc.bridge.carry_out(BridgeSend(to_sfo, b"and on"))
        assert await sfo.receives(6) == b"and on"
        assert nyc.bridge.statistics().sent_bytes == len(whole) + 6


@pytest.mark.conforms("USR-2")
@pytest.mark.parametrize("seconds", [2.5, float(UNANSWERED_S_MAX)])
async def test_at_both_ends_the_kernel_gives_up_a_connection_whose_other_machine_answers_nothing(
    keys: Path | None, seconds: float
) -> None:
    """Where the other machine is gone without a word, nothing but this ends a connection that has bytes to send."""
    async with linked(BridgeConfig(unanswered_timeout_s=seconds), keys) as (nyc, to_sfo, sfo, to_nyc):
        for site, number in ((nyc, to_sfo), (sfo, to_nyc)):
            assert site.transport(number).getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 1_000 * seconds


async def test_a_write_that_the_peer_does_not_read_is_not_confirmed_and_does_not_stop_the_reading() -> None:
    async with linked() as (nyc, to_sfo, sfo, to_nyc):
        nyc.transport(to_sfo).setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        stopped = socket.create_connection(nyc.address)
        try:
            stopped.sendall(HELLO)
            deaf = (await nyc.hears(BridgeConnected)).connection
            nyc.bridge.carry_out(BridgeSend(deaf, bytes(20_000_000)))
            stopped.sendall(b"still heard")
            assert await nyc.receives(11) == b"still heard"
            sfo.bridge.carry_out(BridgeSend(to_nyc, b"others too"))
            assert await nyc.receives(10) == b"others too"
            assert not [event for event in nyc.told if isinstance(event, BridgeWritten)]
        finally:
            stopped.close()


async def test_a_closed_connection_sends_pending_data_and_reports_no_more_events(keys: Path | None) -> None:
    async with linked(keys=keys) as (nyc, to_sfo, sfo, to_nyc):
        sfo.bridge.carry_out(BridgeSend(to_nyc, b"not read before the close"))
        farewell = os.urandom(500_000)
        nyc.bridge.carry_out(BridgeSend(to_sfo, farewell))
        nyc.bridge.carry_out(BridgeClose(to_sfo, "leaving"))
        assert await sfo.receives(len(farewell)) == farewell
        assert await sfo.hears(BridgeClosed) == BridgeClosed(to_nyc)
        await nyc.bridge.farewell()
        assert nyc.told == []
        nyc.bridge.carry_out(BridgeSend(to_sfo, b"too late"))
        nyc.bridge.carry_out(BridgeClose(to_sfo, "twice"))
        assert nyc.bridge.levels()["connections"].now == 0


async def test_a_farewell_returns_when_everything_has_left(keys: Path | None) -> None:
    async with two_sites(keys=keys) as (_, sfo), trio.open_nursery() as other:
        nyc = Site(at_port(BridgeConfig(linger_s=5)), other, keys and keys / "NYC")
        await nyc.listens()
        sfo.bridge.carry_out(Dial("NYC", nyc.address))
        number = (await nyc.hears(BridgeConnected)).connection
        last_words = os.urandom(5_000_000)
        nyc.bridge.carry_out(BridgeSend(number, last_words))
        await nyc.bridge.farewell()
        assert nyc.bridge.levels()["connections"].now == 0
        other.cancel_scope.cancel()
        assert await sfo.receives(len(last_words)) == last_words


async def test_a_peer_that_does_not_read_the_farewell_is_left_after_the_linger_time() -> None:
    config = BridgeConfig(bind=Physical("127.0.0.1", free_port()), linger_s=0.05)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nyc = Site(config, nursery)
            await nyc.listens()
            with socket.create_connection(nyc.address) as sock:
                sock.sendall(HELLO)
                number = (await nyc.hears(BridgeConnected)).connection
                nyc.bridge.carry_out(BridgeSend(number, bytes(20_000_000)))
                nyc.bridge.carry_out(BridgeClose(number, "leaving"))
                await nyc.bridge.farewell()
            nursery.cancel_scope.cancel()


async def test_a_broken_connection_is_reported_as_closed() -> None:
    async with linked() as (nyc, to_sfo, _, to_nyc):
        with socket.create_connection(nyc.address) as sock:
            sock.sendall(HELLO)
            number = (await nyc.hears(BridgeConnected)).connection
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert await nyc.hears(BridgeClosed) == BridgeClosed(number)
        assert nyc.bridge.levels()["connections"].now == 1, f"{to_sfo} and {to_nyc} are another matter"


async def test_a_dial_to_an_unreachable_unknown_or_invalid_host_fails(keys: Path | None) -> None:
    async with two_sites(keys=keys) as (_, sfo):
        nobody = Physical("127.0.0.1", free_port())
        sfo.bridge.carry_out(Dial("NYC", nobody))
        assert await sfo.hears(DialFailed) == DialFailed("NYC", nobody)
        for host in ("no-such-host.invalid", "a..b", "a\0b"):
            sfo.bridge.carry_out(Dial("NYC", Physical(host, 1)))
            assert (await sfo.hears(DialFailed)).address.host == host


async def test_dials_fail_after_stop_listening_and_listening_can_restart(keys: Path | None) -> None:
    async with two_sites(keys=keys) as (nyc, sfo):
        for _ in range(2):
            nyc.bridge.carry_out(Listen())
            await nyc.listens()
            sfo.bridge.carry_out(Dial("NYC", nyc.address))
            await sfo.hears(BridgeConnected)
            nyc.bridge.carry_out(StopListening())
            await until(lambda: not nyc.bridge.statistics().listening)
            sfo.bridge.carry_out(Dial("NYC", nyc.address))
            await sfo.hears(DialFailed)


async def test_a_port_that_an_earlier_relay_still_holds_can_be_listened_at() -> None:
    """Of two that share a port each gets some of the connections, so a stopped one cannot keep its successor from relaying."""
    async with two_sites() as (nyc, sfo):
        with socket.socket() as stopped:
            stopped.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            stopped.bind(nyc.address)
            stopped.listen()
            await nyc.listens()
            for _ in range(50):
                sfo.bridge.carry_out(Dial("NYC", nyc.address))
            await nyc.hears(BridgeConnected)


async def test_a_port_in_use_is_reported_and_retried() -> None:
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            with socket.create_server(("127.0.0.1", 0)) as other:
                taken = Physical("127.0.0.1", other.getsockname()[1])
                nyc = Site(BridgeConfig(bind=taken, listen_interval_s=0.01), nursery)
                nyc.bridge.carry_out(Listen())
                await until(lambda: "cannot listen" in nyc.bridge.problems().get("relay.bridge.bind", ""))
            await until(lambda: nyc.bridge.statistics().listening)
            assert nyc.bridge.problems() == {}
            nursery.cancel_scope.cancel()


async def test_without_a_descriptor_it_listens_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member without free descriptors reports this when it becomes the relay, and continues."""

    def refuse(*_: object, **__: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nyc = Site(BridgeConfig(bind=Physical("127.0.0.1", 0), listen_interval_s=0.01), nursery)
            with monkeypatch.context() as patch:
                patch.setattr(listener, "make_socket", refuse)
                nyc.bridge.carry_out(Listen())
                await until(
                    lambda: (
                        nyc.bridge.problems().get("relay.bridge.bind") == "cannot listen on 127.0.0.1:0: Too many open files"
                    )
                )
            await until(lambda: nyc.bridge.statistics().listening)
            assert nyc.bridge.problems() == {}
            nursery.cancel_scope.cancel()


async def test_a_site_without_a_bind_address_only_dials() -> None:
    async with trio.open_nursery() as nursery:
        site = Site(BridgeConfig(), nursery)
        site.bridge.carry_out(Listen())
        await trio.testing.wait_all_tasks_blocked()
        assert not site.bridge.statistics().listening


@pytest.mark.parametrize("host", ["a..b", "x" * 64, "a\0b"])
async def test_an_invalid_listen_host_is_reported(host: str) -> None:
    async with trio.open_nursery() as nursery:
        site = Site(BridgeConfig(bind=Physical(host, 7700)), nursery)
        site.bridge.carry_out(Listen())
        await until(lambda: "cannot listen" in site.bridge.problems().get("relay.bridge.bind", ""))
        assert not site.bridge.statistics().listening
        site.bridge.carry_out(StopListening())


@pytest.mark.conforms("USR-1")
async def test_cancelling_leaves_no_descriptor(keys: Path | None) -> None:
    before = len(os.listdir("/proc/self/fd"))
    async with linked(keys=keys) as (nyc, to_sfo, sfo, _):
        nyc.bridge.carry_out(BridgeSend(to_sfo, bytes(5_000_000)))
        sfo.bridge.carry_out(Listen())
        assert len(os.listdir("/proc/self/fd")) > before
    assert len(os.listdir("/proc/self/fd")) == before
