"""Maps, locks and leaders for programs on asyncio and on threads, beside those on trio."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import wraps

import pytest

import relay.aio
import relay.blocking
from relay.structures.map_state import Conflict
from sitestack.model.errors import ChannelClosed, ConfigurationError, LocalError, NoMajority
from sitestack.transport.memory import MemoryNetwork
from tests.relay.node.test_relay_channel import QUICK
from tests.relay.structures.test_lock import SITE
from tests.sitestack.test_aio import stall_portal

#: More than any of it takes on a busy machine.
LIMIT_S = 30


def on_asyncio(test: Callable[[], Coroutine[None, None, None]]) -> Callable[[], None]:
    """Run a test on asyncio instead of trio."""

    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


@asynccontextmanager
async def two_on_asyncio() -> AsyncIterator[tuple[relay.aio.RelayChannel, relay.aio.RelayChannel]]:
    """Two members of a site with a majority, whose events nobody takes, and nothing left behind afterwards."""
    network = MemoryNetwork()
    async with (
        asyncio.timeout(LIMIT_S),
        relay.aio.open_channel(SITE, name="A", transport=network.open()) as one,
        relay.aio.open_channel(SITE, name="B", transport=network.open()) as other,
    ):
        while len(one.view.members) < 2 or not other.view.is_primary:  # noqa: ASYNC110 (no event)
            await asyncio.sleep(0.01)
        yield one, other
    assert asyncio.all_tasks() == {asyncio.current_task()}


@contextmanager
def two_on_threads() -> Iterator[tuple[relay.blocking.RelayChannel, relay.blocking.RelayChannel]]:
    network = MemoryNetwork()
    with (
        relay.blocking.open_channel(SITE, name="A", transport=network.open()) as one,
        relay.blocking.open_channel(SITE, name="B", transport=network.open()) as other,
    ):
        while len(one.view.members) < 2 or not other.view.is_primary:
            time.sleep(0.01)
        yield one, other


@on_asyncio
async def test_a_map_on_asyncio_reads_here_writes_everywhere_and_reports_conflicts() -> None:
    conflicts: list[Conflict] = []
    async with (
        two_on_asyncio() as (one, other),
        relay.aio.Map[int](one, "m", encode=lambda n: b"%d" % n, decode=int, on_conflict=conflicts.append) as mine,
        relay.aio.Map[int](other, "m", encode=lambda n: b"%d" % n, decode=int) as theirs,
    ):
        assert await mine.update("k", lambda n: (n or 0) + 1) == 1
        assert await mine.update("k", lambda n: (n or 0) + 1) == 2
        while not conflicts:
            await asyncio.gather(mine.put("both", 7), theirs.put("both", 8))
        await theirs.delete("k")
        while "k" in mine or len(theirs) != 1 or mine.get("both") != theirs.get("both"):  # noqa: ASYNC110 (no event)
            await asyncio.sleep(0.01)
        assert dict(mine.items()) == dict(theirs.items())
        assert (await mine.compare()).equal
        assert mine.conflicts == len(conflicts)
    with pytest.raises(ChannelClosed):
        await mine.put("k", 1)


def test_a_map_on_threads() -> None:
    with two_on_threads() as (one, other), relay.blocking.Map[bytes](one, "m") as mine:
        mine.put("k", b"v", ttl_s=60)
        with relay.blocking.Map[bytes](other, "m") as theirs:
            assert theirs.get("k") == b"v"
            assert theirs.update("k", lambda value: None) is None
            assert list(theirs) == []
            assert mine.compare().equal
        while "k" in mine:
            time.sleep(0.01)
        with pytest.raises(LocalError, match="share it"), mine:
            pass
        mine.put("k", b"v")


@on_asyncio
async def test_a_lock_on_asyncio_passes_on_and_a_cancelled_request_does_not_hold_it() -> None:
    async with two_on_asyncio() as (one, other):
        mine, theirs = relay.aio.Lock(one, "jobs"), relay.aio.Lock(other, "jobs")
        async with mine as token:
            assert (mine.token, mine.holder) == (token, one.address)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await theirs.acquire()
        async with asyncio.timeout(LIMIT_S), relay.aio.Lock(other, "jobs") as later:
            assert later > token
        await mine.wait_lost()


@on_asyncio
async def test_a_lock_on_asyncio_is_released_although_the_release_is_cancelled() -> None:
    async with two_on_asyncio() as (one, _):
        lock = relay.aio.Lock(one, "jobs")

        async def work() -> None:
            async with lock:
                stall_portal()
                asyncio.get_running_loop().call_later(0.05, working.cancel)

        working = asyncio.create_task(work())
        await asyncio.wait([working])
        assert lock.token is None


@on_asyncio
async def test_a_leader_on_asyncio_does_its_duty_in_the_loop_and_ends_it_with_the_majority() -> None:
    network = MemoryNetwork()
    led: list[str] = []

    async def lead(token: int) -> None:
        led.append("leads")
        try:
            await asyncio.sleep(LIMIT_S)
        finally:
            led.append("ended")

    async def finish(token: int) -> None:
        led.append(f"token {token > 0}")

    async with asyncio.timeout(LIMIT_S), relay.aio.open_channel(SITE, name="A", transport=network.open()) as one:
        with pytest.raises(NoMajority):
            await relay.aio.Lock(one, "boss").acquire()
        leading = asyncio.create_task(relay.aio.Leader(one, "boss").run(lead))
        async with relay.aio.open_channel(SITE, name="B", transport=network.open()):
            while led != ["leads"]:  # noqa: ASYNC110 (no event)
                await asyncio.sleep(0.01)
            leading.cancel()
            await asyncio.wait([leading])
            assert led == ["leads", "ended"]
            await relay.aio.Leader(one, "boss").run(finish)
            assert led[2:] == ["token True"]


@on_asyncio
async def test_a_leader_on_asyncio_that_is_cancelled_twice_ends_its_duty_and_no_longer_leads() -> None:
    async with two_on_asyncio() as (one, _):
        leader, told = relay.aio.Leader(one, "boss"), list[str]()

        async def lead(token: int) -> None:
            try:
                told.append("leads")
                await asyncio.sleep(LIMIT_S)
            finally:
                leading.cancel()
                await asyncio.sleep(0.1)
                told.append(f"ended, leads: {leader.token is not None}")

        leading = asyncio.create_task(leader.run(lead))
        while not told:  # noqa: ASYNC110 (no event)
            await asyncio.sleep(0.01)
        leading.cancel()
        await asyncio.wait([leading])
        assert leading.cancelled()
        assert told == ["leads", "ended, leads: True"]
        assert leader.token is None


def test_an_error_of_a_duty_that_no_longer_leads_is_raised_on_asyncio() -> None:
    async def test() -> None:
        async with two_on_asyncio() as (one, _):
            leader = relay.aio.Leader(one, "boss")

            async def lead(token: int) -> None:
                try:
                    await leader.release()
                    await asyncio.sleep(LIMIT_S)
                finally:
                    raise ValueError(token)

            with pytest.raises(ValueError, match=r"^\d+$"):
                await asyncio.wait_for(leader.run(lead), 5)

    asyncio.run(test())


@on_asyncio
async def test_a_leader_on_asyncio_with_a_duty_that_cannot_be_called_leads_no_longer() -> None:
    async with two_on_asyncio() as (one, _):
        leader = relay.aio.Leader(one, "boss")
        with pytest.raises(TypeError, match="positional argument"):
            await leader.run(lambda: None)  # type: ignore[arg-type, misc]
        assert leader.token is None


@on_asyncio
async def test_a_map_on_asyncio_that_is_opened_twice_is_refused_and_stays_open() -> None:
    async with two_on_asyncio() as (one, _):
        mine = relay.aio.Map[bytes](one, "m")
        async with mine:
            with pytest.raises(LocalError, match="share it"):
                async with mine:
                    pass
            await mine.put("k", b"v")
        async with relay.aio.Map[bytes](one, "m"):
            pass


def test_locks_on_threads_exclude_each_other() -> None:
    with two_on_threads() as (one, other):
        held: list[int] = []

        def wait() -> None:
            with relay.blocking.Leader(other, "jobs") as token:
                held.append(token)

        with relay.blocking.Leader(one, "jobs") as token:
            held.append(token)
            thread = threading.Thread(target=wait)
            thread.start()
            thread.join(0.2)
            assert thread.is_alive()
        thread.join(LIMIT_S)
        assert held == sorted(set(held))
        assert len(held) == 2


def test_a_lock_on_threads_that_is_granted_as_its_thread_is_interrupted_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = threading.Event()
    here = threading.current_thread()

    class Interrupted(queue.SimpleQueue[object]):
        interrupts = 1

        def get(self, *args: object) -> object:
            waits.set()
            granted = super().get()
            if Interrupted.interrupts and threading.current_thread() is here:
                Interrupted.interrupts -= 1
                raise KeyboardInterrupt
            return granted

    with two_on_threads() as (one, other):
        lock = relay.blocking.Lock(one, "jobs")
        holder = relay.blocking.Lock(other, "jobs")
        holder.acquire()

        def let_go() -> None:
            assert waits.wait(LIMIT_S)
            holder.release()

        thread = threading.Thread(target=let_go)
        with monkeypatch.context() as patched:
            patched.setattr("sitestack.blocking.queue.SimpleQueue", Interrupted)
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                lock.acquire()
            thread.join(LIMIT_S)
        assert lock.token is None
        with lock, pytest.raises(LocalError, match="this object holds the lock"):
            lock.acquire()


@on_asyncio
async def test_a_channel_of_another_kind_is_refused_with_the_name_to_use() -> None:
    async with relay.aio.open_channel(replace(QUICK, site="NYC"), transport=MemoryNetwork().open()) as channel:
        with pytest.raises(LocalError, match=r"use relay\.aio\.Map on asyncio, relay\.blocking\.Map on threads"):
            relay.Map(channel, "m")  # type: ignore[arg-type]
        with pytest.raises(LocalError, match=r"use relay\.aio\.Leader on asyncio"):
            relay.Leader(channel, "m")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match=r"relay\.Lock needs membership"):
            relay.aio.Lock(channel, "m")
