"""Watching, over real sockets of the loopback interface and with processes that are really killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress

import pytest
import trio

from relay_lab.drills.tether import tie
from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.events import CheckMember, Gone
from sitestack.transport import watch
from sitestack.transport.watch import MAGIC, SHARED_MAGIC
from tests.harness.addresses import address
from tests.harness.sockets import until
from tests.sitestack.transport.conftest import no_descriptors
from tests.sitestack.transport.test_strangers import Member, members

A, B, C = map(address, "ABC")
#: Long enough for anything that must not happen.
A_WHILE_S = 0.3

_MEMBER = """
import sys, trio
from sitestack.model.address import Address
from sitestack.transport.interfaces import bind_pair
from sitestack.transport.watch import Watcher

async def main():
    udp, tcp = bind_pair("127.0.0.1", 0)
    print(tcp.getsockname()[1], flush=True)
    async with trio.open_nursery() as nursery:
        Watcher(Address(bytes.fromhex(sys.argv[1])), "A in NYC", tcp, print, nursery)

trio.run(main)
"""


@contextmanager
def process(member: Address) -> Iterator[tuple[subprocess.Popen[str], Physical]]:
    """A process that is a member as far as watching goes."""
    command = [sys.executable, "-c", _MEMBER, member.hex()]
    with subprocess.Popen(tie(command), stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child, Physical("127.0.0.1", int(child.stdout.readline()))
        finally:
            child.kill()


@asynccontextmanager
async def member(address: Address = B) -> AsyncIterator[Member]:
    async with members((address, None)) as [opened]:
        yield opened


@asynccontextmanager
async def server(answers: Sequence[bytes | None], close: bool) -> AsyncIterator[Physical]:
    """A listener that gives each connection the next of these answers, the last one repeatedly; None: no answer."""
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    count = 0

    async def handle(stream: trio.SocketStream) -> None:
        nonlocal count
        answer = answers[min(count, len(answers) - 1)]
        count += 1
        with suppress(trio.BrokenResourceError):
            if answer is not None:
                await stream.send_all(answer)
            if not close:
                await stream.receive_some(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        yield Physical(*listener.socket.getsockname())
        nursery.cancel_scope.cancel()


async def test_a_killed_process_is_gone_at_once() -> None:
    with process(A) as (child, place):
        async with member() as b:
            b.watcher.watch([(A, place)])
            await b.watching()
            await trio.sleep(A_WHILE_S)
            assert b.heard == []
            child.kill()
            with trio.fail_after(0.5):
                await b.hears(Gone(A))


async def test_a_stopped_process_keeps_its_connections_and_is_gone_when_it_is_killed() -> None:
    with process(A) as (child, place):
        async with member() as b, member(C) as c:
            b.watcher.watch([(A, place)])
            await b.watching()
            child.send_signal(signal.SIGSTOP)
            c.watcher.watch([(A, place)])  # its kernel accepts, and it does not answer
            await trio.sleep(A_WHILE_S)
            assert b.heard == c.heard == []
            child.kill()
            await b.hears(Gone(A))


@pytest.mark.conforms("LA-4")
async def test_a_watcher_that_finds_another_process_reports_the_member_dead() -> None:
    async with member(C) as c, member() as b:
        b.watcher.watch([(A, c.place)])
        await b.hears(Gone(A))
        seen = b.watcher.statistics()
        assert (seen.attempts, seen.gone) == (1, 1)


@pytest.mark.conforms("LA-24")
async def test_a_shared_port_receives_the_uuid_of_the_watched_member() -> None:
    asked: list[bytes] = []

    async def handle(stream: trio.SocketStream) -> None:
        await stream.send_all(SHARED_MAGIC)
        asked.append(await stream.receive_some(UUID_BYTES))
        await stream.send_all(MAGIC + A)
        await stream.receive_some(1)

    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    async with trio.open_nursery() as nursery, member() as b:
        nursery.start_soon(trio.serve_listeners, handle, [listener])
        b.watcher.watch([(A, Physical(*listener.socket.getsockname()))])
        await b.watching()
        assert asked == [A]
        nursery.cancel_scope.cancel()


async def test_a_connection_closed_by_an_intermediary_reports_no_death() -> None:
    async with server([MAGIC + A], close=True) as place, member() as b:
        b.watcher.watch([(A, place)])
        await trio.sleep(A_WHILE_S)
        assert b.heard == []
        assert 2 <= b.watcher.statistics().attempts <= 16  # soon again, but not in a busy loop


async def test_a_connection_that_was_held_is_made_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "HELD_S", 0.0)
    monkeypatch.setattr(watch, "PAUSE_S", 60.0)
    async with server([MAGIC + A], close=True) as place, member() as b:
        b.watcher.watch([(A, place)])
        await until(lambda: b.watcher.statistics().attempts >= 5)
        assert b.heard == []


async def test_a_port_that_never_answered_only_makes_one_ask_by_other_means() -> None:
    """There may be something in front of it that refuses TCP, while datagrams get through."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = Physical(*taken.getsockname())
    async with member() as b:
        b.watcher.watch([(A, place)])
        await until(lambda: b.watcher.statistics().attempts >= 3)
        assert b.heard == [CheckMember(A)]


@pytest.mark.parametrize("later", [b"", MAGIC + C], ids=["refused", "another"])
async def test_who_comes_to_a_place_that_was_silent_is_no_proof(later: bytes) -> None:
    """F42: a member that moved is silent at its former place, which another machine may get days later."""
    async with member() as b:
        async with server([MAGIC + A, b"", later], close=True) as place:
            b.watcher.watch([(A, place)])
            await until(lambda: b.watcher.statistics().attempts >= 4)
        await b.hears(CheckMember(A, True))
        assert b.watcher.statistics().gone == 0


@pytest.mark.parametrize("answer", [None, b"", MAGIC, b"HTTP/1.1 400 Bad Request\r\n", MAGIC[:-1] + b"\x02" + C])
@pytest.mark.parametrize("close", [False, True])
async def test_an_invalid_answer_reports_no_death(answer: bytes | None, close: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "ANSWER_TIMEOUT_S", 0.05)
    async with server([answer, MAGIC + A], close=close) as place, member() as b:
        b.watcher.watch([(A, place)])
        await until(lambda: b.watcher.statistics().attempts >= 2)
        if not close:
            await b.watching()
        assert b.heard == []


async def test_a_name_in_place_of_an_address_is_not_looked_up() -> None:
    async with member(A) as a, member() as b:
        b.watcher.watch([(A, Physical("localhost", a.place.port))])
        await trio.sleep(0.05)
        assert b.watcher.statistics().targets == b.watcher.statistics().attempts == 0


async def test_the_next_targets_replace_those_before() -> None:
    async with member(A) as a, member(C) as c, member() as b:
        b.watcher.watch([(A, a.place)])
        await b.watching()
        b.watcher.watch([(C, c.place), (A, a.place)])
        await b.watching(2)
        b.watcher.watch([(C, c.place)])
        await until(lambda: a.watcher.levels()["watchers"].now == 0)
        assert (c.watcher.levels()["watchers"].now, b.watcher.statistics().attempts) == (1, 2)
        b.watcher.watch([])
        await until(lambda: c.watcher.levels()["watchers"].now == 0)
        assert b.heard == []


async def test_a_member_that_is_to_be_watched_again_is() -> None:
    """It may have been taken for gone in an earlier view."""
    async with member(C) as c, member() as b:
        b.watcher.watch([(A, c.place)])
        await b.hears(Gone(A))
        b.watcher.watch([])
        b.watcher.watch([(A, c.place)])
        await b.hears(Gone(A), Gone(A))


async def test_targets_that_come_as_watching_ends_start_nothing() -> None:
    """F42: a member that moves ends its watching; a view in the same moment must not end the member."""
    async with member(A) as a:
        async with member() as b:
            pass
        b.watcher.watch([(A, a.place)])
        assert b.watcher.statistics().targets == 0


async def test_watchers_beyond_the_bound_are_refused_and_earlier_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "WATCHERS_MAX", 1)
    async with member(A) as a, member() as b, member(C) as c:
        b.watcher.watch([(A, a.place)])
        await b.watching()
        c.watcher.watch([(A, a.place)])
        await until(lambda: a.watcher.statistics().refused > 1)
        assert b.heard == c.heard == []
        assert b.watcher.statistics().watching == 1
        b.watcher.watch([])
        await c.watching()


async def test_the_end_leaves_no_descriptor_and_no_task() -> None:
    before = set(os.listdir("/proc/self/fd"))
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with member(A) as a, member() as b:
        b.watcher.watch([(A, a.place)])
        await b.watching()
        assert len(os.listdir("/proc/self/fd")) > len(before)
    assert set(os.listdir("/proc/self/fd")) == before
    assert trio.lowlevel.current_statistics().tasks_living == tasks


async def test_without_descriptors_no_death_is_reported_and_watching_starts_later() -> None:
    with process(A) as (_, place):
        async with member() as site:
            with no_descriptors():
                site.watcher.watch([(A, place)])
                await until(lambda: site.watcher.statistics().attempts >= 2)
            await site.watching()
            assert site.heard == []
