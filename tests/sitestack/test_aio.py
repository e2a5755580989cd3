"""Channels on asyncio: the rules of the channels on trio, on both event loops, and nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
import trio
import trio.testing
import uvloop

import sitestack.aio
import sitestack.blocking
from sitestack.aio import _call
from sitestack.channel.portal import PORTAL, Call, Lease
from sitestack.config import SiteConfig, local
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.model.errors import ChannelClosed, ConfigurationError, LocalError, MessageTooLarge
from sitestack.model.message import Message
from sitestack.model.view import View
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import take

SITE: SiteConfig = replace(local("NYC"), discovery=DiscoveryConfig(join_wait_s=0.1, request_interval_s=0.05, settle_s=0.02))
#: More than any of it takes on a busy machine.
LIMIT_S = 30

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run a test, and see that no task and no thread is left of it."""

    def run(test: Coroutine[Any, Any, None]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(LIMIT_S):
                await test
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert threading.enumerate() == threads

        threads = threading.enumerate()
        request.param(limited())

    return run


def stall_portal() -> None:
    """Keep the thread of the portal busy for a while from now on."""
    begun = threading.Event()

    def stall() -> None:
        begun.set()
        time.sleep(0.2)

    PORTAL.post(stall)
    begun.wait()


async def _answer(channel: sitestack.aio.Channel) -> None:
    async for event in channel:
        if isinstance(event, Message) and event.call:
            await channel.answer(event, event.payload.upper())


def test_a_channel_of_trio_says_on_asyncio_what_to_use() -> None:
    async def test() -> None:
        async with sitestack.open_channel(SITE, transport=MemoryNetwork().open()) as channel:

            async def receive() -> None:
                async for _ in channel:
                    pass

            async def ask() -> None:
                await channel.call(b"?", timeout_s=1)

            def use_all() -> None:
                for use in (partial(channel.send, b""), partial(channel.send, b"", key="k"), ask, receive):
                    with pytest.raises(LocalError, match=r"aio\.open_channel on asyncio"):
                        asyncio.run(use())

            await trio.testing.wait_all_tasks_blocked()
            thread = threading.Thread(target=use_all)
            thread.start()
            thread.join()

    trio.run(test)


def test_two_members_talk_ask_and_confirm(run: Run) -> None:
    async def test() -> None:
        network = MemoryNetwork()
        async with (
            sitestack.aio.open_channel(SITE, name="A", transport=network.open()) as a,
            sitestack.aio.open_channel(SITE, name="B", transport=network.open()) as b,
        ):
            assert [a.me, b.me] == list(b.view.members)
            assert [a.is_coordinator, b.is_coordinator, b.name_of(a.me)] == [True, False, "A"]
            await a.send(b"one", headers={"h": b"1"})
            assert await a.send_many([b"%d" % number for number in range(2_000)]) == 2_000
            taken = await take(b, 2_001)
            assert [taken[0].headers["h"], taken[0].source, taken[0].sender] == [b"1", a.me, "A"]
            assert [each.payload for each in taken[1:]] == [b"%d" % number for number in range(2_000)]
            answering = [asyncio.create_task(_answer(each)) for each in (a, b)]
            result = await a.call(b"yes?", [b.me], timeout_s=LIMIT_S)
            assert result.answers == {b.me: b"YES?"}
            assert (await b.flushed(timeout_s=LIMIT_S)).everywhere
            assert (await a.statistics()).driver.turns > 0
        await asyncio.gather(*answering)  # the iteration ends with the block

    run(test())


def test_a_cancelled_send_has_sent_nothing(run: Run) -> None:
    async def test() -> None:
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
            channel._inner._gate.hold_back(True)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await channel.send(b"never")
            waiting = asyncio.create_task(channel.send(b"nor this"))
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            before = asyncio.create_task(channel.send(b"nor this, cancelled before it began to wait"))
            asyncio.get_running_loop().call_soon(before.cancel)
            with pytest.raises(asyncio.CancelledError):
                await before
            channel._inner._gate.hold_back(False)
            await channel.send(b"this")
            assert [message.payload for message in await take(channel, 1)] == [b"this"]

    run(test())


def test_a_cancellation_that_comes_too_late_is_raised_by_the_next_await(run: Run) -> None:
    """What was sent is reported as sent, the cancellation is not lost, and a timeout does not reach beyond its block."""
    done: list[str] = []

    async def work() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.1)
        return "sent"

    async def program() -> None:
        done.append(await _call(work))
        await asyncio.sleep(LIMIT_S)

    async def test() -> None:
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()):
            cancelled = asyncio.create_task(program())
            await asyncio.sleep(0.05)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            assert done == ["sent"]
            async with asyncio.timeout(0.05):
                assert await _call(work) == "sent"
            await asyncio.sleep(0.01)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await program()
            assert done == ["sent", "sent"]

    run(test())


def test_a_repeated_cancellation_that_comes_too_late_is_repeated_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done, begin = list[int](), PORTAL.start

    def start_at_once(call: Call[Any], answered: Callable[[], object]) -> None:
        begin(call, answered)
        began.wait(LIMIT_S)
        began.clear()

    began = threading.Event()

    async def work() -> None:
        began.set()
        with trio.CancelScope(shield=True):
            await trio.sleep(0.05)

    async def program() -> None:
        for number in range(3):
            await _call(work)
            done.append(number)
        await asyncio.sleep(LIMIT_S)

    async def test() -> None:
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()):
            with monkeypatch.context() as patched:
                patched.setattr(PORTAL, "start", start_at_once)
                cancelled = asyncio.create_task(program())
                await asyncio.sleep(0)
                cancelled.cancel()
                await asyncio.wait({cancelled}, timeout=LIMIT_S / 2)
            assert done == [0, 1, 2]
            assert cancelled.cancelled()

    run(test())


def test_a_cancellation_by_anyio_that_comes_too_late_ends_its_scope_and_no_more(run: Run) -> None:
    async def work() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.1)

    async def test() -> None:
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()):
            with anyio.move_on_after(0.05) as scope:
                await _call(work)
                await asyncio.sleep(0)
            assert scope.cancelled_caught

    run(test())


def test_errors_arrive_with_their_types(run: Run) -> None:
    async def test() -> None:
        with pytest.raises(ConfigurationError, match="site"):
            async with sitestack.aio.open_channel(local("")):
                pass
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
            with pytest.raises(MessageTooLarge):
                await channel.send(bytes(9 << 20))
            with pytest.raises(TypeError, match="must be bytes"):
                await channel.send("text")  # type: ignore[arg-type]
            with pytest.raises(AttributeError, match="no attribute 'sent'"):
                channel.sent  # type: ignore[attr-defined]  # noqa: B018 (reading it is the point)
        with pytest.raises(ValueError, match="a bug of the program"):
            async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
                raise ValueError("a bug of the program")
        with pytest.raises(ChannelClosed):
            await channel.send(b"late")

    run(test())


def test_a_cancellation_is_raised_although_the_portal_ends_at_the_same_time(run: Run) -> None:
    async def test() -> None:
        PORTAL.acquire()
        waiting = asyncio.create_task(_call(trio.sleep_forever))
        await asyncio.sleep(0)
        PORTAL.release()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    run(test())


def test_a_cancelled_block_is_a_crash_and_leaves_nothing(run: Run) -> None:
    async def test() -> None:
        network = MemoryNetwork()

        async def member() -> None:
            async with sitestack.aio.open_channel(SITE, name="B", transport=network.open()) as channel:
                async for _ in channel:
                    pass

        async with sitestack.aio.open_channel(SITE, name="A", transport=network.open()) as a:
            other = asyncio.create_task(member())
            async for event in a:
                if isinstance(event, View) and len(event.names) == 2:
                    other.cancel()
                if isinstance(event, View) and other.cancelled():
                    break
                if other.cancelling():
                    await asyncio.wait([other])

    run(test())


def test_a_block_that_is_cancelled_while_it_begins_has_not_begun() -> None:
    """Its tasks end with a group of cancellations, which is no error of the block."""
    called = threading.Event()

    @asynccontextmanager
    async def context() -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            call._scope.cancel()
            yield

    call = Call(Lease(context).enter, None, lambda done: done())
    PORTAL.acquire()
    PORTAL.start(call, called.set)
    called.wait()
    PORTAL.release()
    assert call.was_cancelled


def test_a_block_that_is_cancelled_before_its_leave_has_begun_leaves_no_member(run: Run) -> None:
    async def test() -> None:
        network, opened = MemoryNetwork(), list[sitestack.aio.Channel]()

        async def member() -> None:
            async with sitestack.aio.open_channel(SITE, name="B", transport=network.open()) as channel:
                opened.append(channel)
                stall_portal()
                asyncio.get_running_loop().call_later(0.05, other.cancel)

        async with sitestack.aio.open_channel(SITE, name="A", transport=network.open()):
            other = asyncio.create_task(member())
            await asyncio.wait([other])
            assert opened[0]._inner._gone.is_set()

    run(test())


def test_a_thread_that_cannot_begin_raises_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_out(*_: object) -> None:
        raise OSError(24, "Too many open files")

    def open_one() -> None:
        with pytest.raises(OSError, match="Too many open files"), sitestack.blocking.open_channel(SITE):
            pass
        refused.set()

    refused = threading.Event()
    monkeypatch.setattr(trio, "run", run_out)
    threading.Thread(target=open_one, daemon=True).start()
    assert refused.wait(5)


def test_each_message_counts_as_reading(run: Run) -> None:
    """Else a slow reader of many small messages would be taken for one that reads nothing, and be excluded."""

    async def test() -> None:
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
            await channel.send_many([b"x"] * 1_000)
            await take(channel, 1)
            before = channel._inner._receive_end.takes
            await take(channel, 500)
            assert channel._inner._receive_end.takes >= before + 500

    run(test())


def test_two_tasks_that_iterate_are_refused(run: Run) -> None:
    async def test() -> None:
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
            assert isinstance(await anext(channel), View)
            first = asyncio.create_task(take(channel, 1))
            await asyncio.sleep(0.05)
            with pytest.raises(trio.BusyResourceError):
                await anext(channel)
            await channel.send(b"x")
            await first

    run(test())


def test_the_state_is_read_and_replaced_in_the_programs_own_thread(run: Run) -> None:
    async def test() -> None:
        here, seen = threading.get_ident(), list[tuple[str, bool]]()
        network, state = MemoryNetwork(), list[bytes]()

        def get_state() -> bytes:
            seen.append(("get", threading.get_ident() == here))
            return b" ".join(state)

        def set_state(data: bytes) -> None:
            seen.append(("set", threading.get_ident() == here))

        opened = [
            sitestack.aio.open_channel(SITE, name=name, transport=network.open(), get_state=get_state, set_state=set_state)
            for name in "AB"
        ]
        async with opened[0] as a:
            await a.send(b"x")
            state += [message.payload for message in await take(a, 1)]
            receiving = asyncio.create_task(_answer(a))
            async with opened[1] as b:
                other = asyncio.create_task(_answer(b))
                await b.ready()
                assert seen == [("get", True), ("set", True)]
        await asyncio.gather(receiving, other)

    run(test())


def test_the_receiving_task_is_known_when_it_sends(run: Run) -> None:
    """It must not wait for credit while the others wait for it to read: the rule of trio, by its asyncio task."""

    async def test() -> None:
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
            await anext(channel)
            assert channel._inner._receive_end._taker is asyncio.current_task()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await anext(channel)
            assert channel._inner._receive_end._taker is asyncio.current_task()

    run(test())


def test_a_task_that_receives_in_place_of_a_cancelled_one_gets_the_rest_of_its_batch(run: Run) -> None:
    async def test() -> None:
        async with sitestack.aio.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
            assert isinstance(await anext(channel), View)
            first = asyncio.create_task(take(channel, 1))
            await asyncio.sleep(0.05)
            sending = asyncio.create_task(channel.send_many([b"1", b"2", b"3"]))
            await asyncio.sleep(0)
            time.sleep(0.1)  # noqa: ASYNC251 (the batch is taken, and the task does not know)
            second = asyncio.create_task(take(channel, 3))
            await asyncio.sleep(0)
            await sending
            await channel.send(b"4")
            taken = [message.payload for task in (first, second) for message in await task]
            assert sorted(taken) == [b"1", b"2", b"3", b"4"]

    run(test())


def test_two_sites_share_a_transport(run: Run) -> None:
    async def test() -> None:
        async with sitestack.aio.open_transport(SITE) as transport:
            sites = [replace(SITE, site=site) for site in ("NYC", "SFO")]
            async with (
                sitestack.aio.open_channel(sites[0], transport=transport) as nyc,
                sitestack.aio.open_channel(sites[1], transport=transport) as sfo,
            ):
                assert [nyc.site, sfo.site] == ["NYC", "SFO"]

    run(test())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_trio_open_channel_on_asyncio_raises_and_names_the_replacement(
    runner: Callable[[Coroutine[Any, Any, None]], None],
) -> None:
    async def test() -> None:
        with pytest.raises(LocalError, match=r"sitestack\.aio\.open_channel"):
            async with sitestack.open_channel(SITE):
                pass

    runner(test())
