"""Channels on threads: the rules of the channels on trio, and nothing is left behind."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import pytest
import trio

import sitestack.blocking
from sitestack.channel import portal
from sitestack.channel.portal import Lease
from sitestack.channel.receiving.inbox import Delivery
from sitestack.model.errors import ChannelClosed, ConfigurationError, LocalError, MessageTooLarge, StateUnavailable
from sitestack.model.message import Message
from sitestack.model.view import View
from sitestack.transport.memory import MemoryNetwork
from tests.sitestack.test_aio import LIMIT_S, SITE


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    threads = threading.enumerate()
    yield
    assert threading.enumerate() == threads


def _follow(channel: sitestack.blocking.Channel, taken: list[bytes]) -> None:
    for event in channel:
        if isinstance(event, Message) and event.call:
            channel.answer(event, event.payload.upper())
        elif isinstance(event, Message):
            taken.append(event.payload)


def test_threads_send_ask_and_confirm_while_one_receives() -> None:
    network, taken = MemoryNetwork(), dict[str, list[bytes]](A=[], B=[])
    with (
        ThreadPoolExecutor() as pool,
        sitestack.blocking.open_channel(SITE, name="A", transport=network.open()) as a,
        sitestack.blocking.open_channel(SITE, name="B", transport=network.open()) as b,
    ):
        following = [pool.submit(_follow, channel, taken[channel.name]) for channel in (a, b)]
        a.ready()
        assert [a.me, b.me] == list(b.view.members)
        for sent in [pool.submit(a.send, b"%d" % number) for number in range(100)]:
            sent.result(LIMIT_S)
        assert b.call(b"yes?", timeout_s=LIMIT_S).answers == {a.me: b"YES?", b.me: b"YES?"}
        assert a.flushed(timeout_s=LIMIT_S).everywhere
        assert a.statistics().driver.turns > 0
        b.leave()
        following[1].result(LIMIT_S)  # the iteration ends with the membership
    following[0].result(LIMIT_S)
    assert [*a, *b.batches()] == []  # and stays at its end
    assert sorted(map(int, taken["A"])) == list(range(100))
    assert taken["A"] == taken["B"]


def test_errors_arrive_with_their_types() -> None:
    with pytest.raises(ConfigurationError, match="site"), sitestack.blocking.open_channel(sitestack.local("")):
        pass
    opened = [sitestack.blocking.open_channel(SITE, transport=MemoryNetwork().open()) for _ in range(2)]
    with opened[0] as channel, pytest.raises(MessageTooLarge):
        channel.send(bytes(9 << 20))
    with pytest.raises(ValueError, match="a bug of the program"), opened[1]:
        raise ValueError("a bug of the program")
    with pytest.raises(ChannelClosed):
        channel.send(b"late")


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A shell in the background ignores SIGINT, and its children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_call_is_cancelled_and_has_done_nothing() -> None:
    with sitestack.blocking.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
        channel._inner._gate.hold_back(True)
        interrupt = threading.Timer(0.2, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            channel.send(b"never")
        interrupt.join()
        channel._inner._gate.hold_back(False)
        channel.send(b"this")
        assert [event.payload for event in [next(channel), next(channel)] if isinstance(event, Message)] == [b"this"]


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_iteration_loses_nothing() -> None:
    with sitestack.blocking.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
        here, end = threading.get_ident(), channel._inner._receive_end
        take = end.take

        async def take_and_interrupt() -> list[Any]:
            taken = await take()
            signal.pthread_kill(here, signal.SIGINT)
            return taken

        channel.send(b"this")
        end.take = take_and_interrupt  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            next(channel)
        end.take = take  # type: ignore[method-assign]
        channel.send(b"end")
        assert next(event.payload for event in channel if isinstance(event, Message)) == b"this"


def test_an_interrupted_block_is_a_crash() -> None:
    network = MemoryNetwork()
    with sitestack.blocking.open_channel(SITE, name="A", transport=network.open()) as a:
        with (
            pytest.raises(KeyboardInterrupt),
            sitestack.blocking.open_channel(SITE, name="B", transport=network.open()),
        ):
            raise KeyboardInterrupt
        names = [event.names for event in (next(a), next(a), next(a)) if isinstance(event, View)]
        assert names == [("A",), ("A", "B"), ("A",)]


@pytest.mark.usefixtures("interruptible")
def test_a_block_that_is_interrupted_as_it_begins_leaves_no_member(monkeypatch: pytest.MonkeyPatch) -> None:
    network, here, enter, leases = MemoryNetwork(), threading.get_ident(), Lease.enter, list[Lease[Any]]()

    async def enter_and_interrupt(lease: Lease[Any]) -> Any:
        entered = await enter(lease)
        leases.append(lease)
        signal.pthread_kill(here, signal.SIGINT)
        return entered

    with sitestack.blocking.open_channel(SITE, name="A", transport=network.open()) as a:
        monkeypatch.setattr(Lease, "enter", enter_and_interrupt)
        with pytest.raises(KeyboardInterrupt), sitestack.blocking.open_channel(SITE, name="B", transport=network.open()):
            pass
        assert [lease._left.is_set() for lease in leases] == [True]
        names = [event.names for event in (next(a), next(a), next(a)) if isinstance(event, View)]
        assert names == [("A",), ("A", "B"), ("A",)]


@pytest.mark.parametrize("at", ["start", "join"])
def test_a_channel_opens_after_a_thread_that_did_not_start_or_end_in_time(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    def use() -> None:
        with sitestack.blocking.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
            channel.send(b"x")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, at, fail)
        with pytest.raises(KeyboardInterrupt):
            use()
    use()


def test_a_block_that_is_collected_in_the_thread_of_the_channels_is_a_crash() -> None:
    """A garbage collection runs in any thread, and this one serves the end of the block."""
    network, collected = MemoryNetwork(), threading.Event()

    def items() -> Iterator[object]:
        with sitestack.blocking.open_channel(SITE, name="B", transport=network.open()) as channel:
            yield from channel

    with sitestack.blocking.open_channel(SITE, name="A", transport=network.open()) as a:
        kept = [items()]
        next(kept[0])

        def collect() -> None:
            kept.clear()
            collected.set()

        portal.PORTAL.post(collect)
        assert collected.wait(LIMIT_S)
        names = [event.names for event in (next(a), next(a), next(a)) if isinstance(event, View)]
        assert names == [("A",), ("A", "B"), ("A",)]


def test_a_block_that_is_collected_while_its_thread_opens_or_closes_another_one_ends() -> None:
    kept = ExitStack()

    def collect() -> None:
        with portal.PORTAL._lock:
            kept.close()

    kept.enter_context(sitestack.blocking.open_channel(SITE, transport=MemoryNetwork().open()))
    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    collecting.join(LIMIT_S)
    assert not collecting.is_alive()


def test_a_callback_in_the_thread_of_the_channels_that_uses_one_is_refused() -> None:
    with sitestack.blocking.open_channel(SITE, transport=MemoryNetwork().open()) as channel:

        def use() -> None:
            try:
                channel.send(b"x")
            except LocalError as error:
                refused.put(str(error))

        refused: queue.SimpleQueue[str] = queue.SimpleQueue()
        portal.PORTAL.post(use)
        assert "must not use one" in refused.get(timeout=LIMIT_S)


def test_two_threads_that_iterate_are_refused() -> None:
    with (
        ThreadPoolExecutor() as pool,
        sitestack.blocking.open_channel(SITE, transport=MemoryNetwork().open()) as channel,
    ):
        assert isinstance(next(channel), View)
        both = [pool.submit(next, channel.batches()) for _ in range(2)]
        done, waiting = wait(both, LIMIT_S, FIRST_COMPLETED)
        assert [type(each.exception()) for each in done] == [trio.BusyResourceError]
        channel.send(b"x")
        [first] = waiting
        assert isinstance(first.result(LIMIT_S), Delivery)


def test_the_state_is_read_and_replaced_in_the_thread_that_receives() -> None:
    network, seen = MemoryNetwork(), list[tuple[str, str]]()

    def get_state() -> bytes:
        seen.append(("get", threading.current_thread().name))
        return b"state"

    def set_state(state: bytes) -> None:
        seen.append((state.decode(), threading.current_thread().name))

    def receive(channel: sitestack.blocking.Channel) -> None:
        threading.current_thread().name = f"receives at {channel.name}"
        _follow(channel, [])

    with ThreadPoolExecutor() as pool:
        opened = [
            sitestack.blocking.open_channel(SITE, name=name, transport=network.open(), get_state=get_state, set_state=set_state)
            for name in "AB"
        ]
        with opened[0] as a:
            pool.submit(receive, a)
            with opened[1] as b:
                pool.submit(receive, b)
                b.ready()
                assert seen == [("get", "receives at A"), ("state", "receives at B")]


@pytest.mark.parametrize("wrapped", [lambda function: function, partial], ids=["function", "partial"])
def test_a_state_callback_that_waits_for_a_thread_that_sends_fails_and_the_channels_continue(
    monkeypatch: pytest.MonkeyPatch, wrapped: Callable[[Callable[[], bytes]], Callable[[], bytes]]
) -> None:
    monkeypatch.setattr(portal, "CALLBACK_S", 0.5, raising=False)
    network, lock, asked = MemoryNetwork(), threading.Lock(), threading.Event()

    def get_state() -> bytes:
        asked.set()
        with lock:
            return b""

    def send(channel: sitestack.blocking.Channel) -> None:
        with lock:
            asked.wait(LIMIT_S)
            channel.send(b"while the program's own lock is held")

    def opened(name: str) -> AbstractContextManager[sitestack.blocking.Channel]:
        return sitestack.blocking.open_channel(
            SITE, name=name, transport=network.open(), get_state=wrapped(get_state), set_state=lambda _: None
        )

    with ThreadPoolExecutor() as pool, opened("A") as a:
        receiving, sending = pool.submit(_follow, a, []), pool.submit(send, a)
        with opened("B") as b:
            with pytest.raises(StateUnavailable):
                next(b)
            with pytest.raises(LocalError, match=r"after 0\.5 s"):
                receiving.result(LIMIT_S)
            sending.result(LIMIT_S)


FORK = """
import os, signal, sys
import sitestack.blocking
from sitestack.model.errors import ChannelClosed
from sitestack.transport.memory import MemoryNetwork
from tests.sitestack.test_aio import SITE

with sitestack.blocking.open_channel(SITE, name="A", transport=MemoryNetwork().open()) as channel:
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            channel.send(b"from a process without the thread")
        except ChannelClosed:
            with sitestack.blocking.open_channel(SITE, name="B", transport=MemoryNetwork().open()) as other:
                other.send(b"in a thread of its own")
            os._exit(0)
        os._exit(1)
    channel.send(b"from the parent")
    sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_is_refused_the_channels_of_its_parent() -> None:
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=60, check=False)
    assert run.returncode == 0


END = """
import sitestack.blocking
from sitestack.transport.memory import MemoryNetwork
from tests.sitestack.test_aio import SITE


def items():
    with sitestack.blocking.open_channel(SITE, transport=MemoryNetwork().open()) as channel:
        yield from channel


following = items()
next(following)
"""


def test_a_program_that_ends_inside_a_block_ends() -> None:
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", END], timeout=60, check=False, capture_output=True)
    assert (run.returncode, run.stderr) == (0, b"")
