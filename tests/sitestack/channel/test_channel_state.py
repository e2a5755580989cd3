"""A state that members share: joiners start with it, at their point of the stream."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.layers.state_transfer import StateTransferConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ChannelClosed, ConfigurationError, StateTooLarge, StateUnavailable
from sitestack.model.message import Message, Scope
from sitestack.model.view import View
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import NYC, one, take, wait_for_view, with_batching, with_flow
from tests.harness.messages import present
from tests.harness.sockets import until
from tests.harness.thinned import one_in


def with_state(config: SiteConfig = NYC, **changes: int) -> SiteConfig:
    """Pieces so small that a transfer takes many turns."""
    transfer = StateTransferConfig(chunk_bytes_max=changes.pop("chunk_bytes_max", 16))
    transfer = replace(transfer, **changes)
    return replace(config, protocols=replace(config.protocols, state_transfer=transfer))


@dataclass
class Log:
    """An application whose state is everything that was ever multicast, in order."""

    lines: list[str] = field(default_factory=list)
    #: Items that the application read, in order: "state", views by their names, and payloads.
    seen: list[Any] = field(default_factory=list)
    unicasts: list[str] = field(default_factory=list)
    gave: int = 0
    crash: trio.CancelScope = field(default_factory=trio.CancelScope)
    #: Set to hold the application back before it looks at the next event.
    pause: trio.Event | None = None
    channel: Channel | None = None

    def get_state(self) -> bytes:
        self.gave += 1
        return json.dumps(self.lines).encode()

    def set_state(self, data: bytes) -> None:
        assert self.seen == [], "the state comes first"
        self.lines = json.loads(data)
        self.seen.append("state")

    def open(self, network: MemoryNetwork, name: str, config: SiteConfig) -> AbstractAsyncContextManager[Channel]:
        return one(network, name, config, get_state=self.get_state, set_state=self.set_state)

    async def run(
        self, network: MemoryNetwork, name: str, config: SiteConfig, *, task_status: trio.TaskStatus[Channel]
    ) -> None:
        """Be a member until it is cancelled, and that is a crash."""
        with self.crash:
            async with self.open(network, name, config) as self.channel:
                task_status.started(self.channel)
                await self.receive()

    async def receive(self) -> None:
        assert self.channel is not None
        while True:
            if self.pause is not None:
                await self.pause.wait()
            event = await anext(self.channel)
            if isinstance(event, View):
                self.seen.append(event.names)
                continue
            assert isinstance(event, Message)
            if event.scope is Scope.UNICAST:
                self.unicasts.append(event.payload.decode())
            else:
                self.seen.append(event.payload.decode())
                self.lines.append(event.payload.decode())


Start = Callable[..., Any]


@asynccontextmanager
async def site(config: SiteConfig | None = None, network: MemoryNetwork | None = None) -> AsyncIterator[Start]:
    """A function that starts one more member and answers with its log; all of them crash at the end."""
    network = network or MemoryNetwork()
    logs: list[Log] = []
    async with trio.open_nursery() as nursery:

        async def start(name: str, pause: trio.Event | None = None) -> Log:
            log = Log(pause=pause)
            logs.append(log)
            await nursery.start(log.run, network, name, config or with_state())
            return log

        yield start
        nursery.cancel_scope.cancel()


async def write(log: Log, name: str, count: int, interval_s: float = 0.0) -> None:
    assert log.channel is not None
    with suppress(ChannelClosed):
        for n in range(count):
            await log.channel.send(f"{name} {n}".encode())
            await trio.sleep(interval_s)


def level(log: Log, name: str) -> int:
    return present(log.channel).levels()[f"stack.state_transfer.{name}"].now


async def test_a_joiner_gets_the_state_then_its_first_view_then_messages(autojump_clock: MockClock) -> None:
    async with site() as start:
        a = await start("A")
        await write(a, "a", 20)
        b = await start("B")
        await write(b, "b", 5)
        await until(lambda: len(a.lines) == len(b.lines) == 25)
        assert b.lines == a.lines
        assert b.seen == ["state", ("A", "B"), *[f"b {n}" for n in range(5)]]
        assert "state" not in a.seen
        assert a.gave == 1


async def test_with_a_majority_the_first_joiner_gets_the_state_of_the_founder(autojump_clock: MockClock) -> None:
    """The founder has no majority before, so it has written nothing into the stream."""
    config = with_state()
    config = replace(config, membership=replace(config.membership, when_split="majority", members=3))
    async with site(config) as start:
        a = await start("A")
        a.lines.append("loaded")
        b, c = await start("B"), await start("C")
        await until(lambda: b.lines == c.lines == ["loaded"])


async def test_each_joiner_receives_one_state_and_no_snapshot_is_kept_afterwards(autojump_clock: MockClock) -> None:
    async with site() as start:
        a = await start("A")
        await write(a, "a", 100)
        others = [await start(name) for name in "BCD"]
        await until(lambda: all(log.lines == a.lines for log in others))
        await trio.sleep(5)
        assert [level(log, "snapshot_bytes") for log in (a, *others)] == [0, 0, 0, 0]
        assert [log.gave for log in (a, *others)] == [3, 0, 0, 0]


@pytest.mark.parametrize("order", ["total", "fifo"])
async def test_writers_continue_during_joins_and_all_states_become_equal(autojump_clock: MockClock, order: Any) -> None:
    async with site(replace(with_state(), order=order)) as start:
        a, b = await start("A"), await start("B")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, a, "a", 300, 0.01)
            nursery.start_soon(write, b, "b", 300, 0.01)
            others = [await start(name) for name in "CDE"]
            nursery.start_soon(write, others[0], "c", 100, 0.01)
        logs = [a, b, *others]
        await until(lambda: all(len(log.lines) == 700 for log in logs))
        expected = sorted(a.lines) if order == "fifo" else a.lines
        for log in logs:
            assert (sorted(log.lines) if order == "fifo" else log.lines) == expected
            for writer in "abc":
                mine = [line for line in log.lines if line.startswith(writer)]
                assert mine == [f"{writer} {n}" for n in range(len(mine))]


async def test_the_state_is_that_of_the_view_however_late_the_provider_comes_to_it(autojump_clock: MockClock) -> None:
    """The application of A is behind: messages before the view are in the state, later ones are not."""
    async with site() as start:
        a = await start("A")
        a.pause = trio.Event()
        await write(a, "a", 50)
        b = await start("B")
        await write(a, "late", 10)
        await trio.sleep(3)
        assert (b.seen, a.gave) == ([], 0)
        a.pause.set()
        await until(lambda: len(b.lines) == 60)
        assert b.seen == ["state", ("A", "B"), *[f"late {n}" for n in range(10)]]
        assert a.lines == b.lines


async def test_when_the_provider_dies_half_way_the_next_one_provides(autojump_clock: MockClock) -> None:
    c: Log | None = None
    network = MemoryNetwork()

    def allow(source: Physical, to: Physical) -> bool:
        """When C has got a part of the state, it hears no more of A, which is about to die."""
        half = c is not None and c.channel is not None and level(c, "arrived_bytes") > 0
        return not (half and source.port == 1 and to.port == 3)

    network.allow = allow
    async with site(network=network) as start:
        a, b = await start("A"), await start("B")
        await write(a, "a", 2_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, b, "b", 200, 0.05)
            c = await start("C")
            await until(lambda: level(c, "arrived_bytes") > 0)
            assert c.seen == []
            a.crash.cancel()
            await until(lambda: c.seen != [])
        await until(lambda: len(c.lines) == len(b.lines))
        assert c.lines == b.lines
        assert c.seen[:2] == ["state", ("B", "C")]
        assert sum(line.startswith("b") for line in c.lines) == 200


@pytest.mark.parametrize("seed", one_in(3, range(3)))
async def test_with_loss_joins_and_crashes_all_that_are_left_have_one_state(autojump_clock: MockClock, seed: int) -> None:
    """A member with the state is killed while others take it, and one that never dies has it too."""
    rng = random.Random(seed)
    network = MemoryNetwork(lambda source, to: rng.random() > 0.02)
    # No member is suspected for lost datagrams: a split site may have two states.
    patient = FailureDetectionConfig(timeout_s=4.0, verify_timeout_s=2.0, verify_attempts=9)
    protocols = replace(with_state().protocols, failure_detection=patient)
    async with site(replace(with_state(), protocols=protocols), network) as start:
        living = [await start(name) for name in "AB"]
        writer = living[1]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, writer, "w", 400, 0.1)
            for n in range(8):
                await trio.sleep(rng.uniform(0, 2))
                living.append(await start(f"J{n}"))
                nursery.start_soon(write, living[-1], f"j{n}", 20, 0.05)
                if rng.random() < 0.5:
                    victim = rng.choice([each for each in living if each is not writer])
                    living.remove(victim)
                    victim.crash.cancel()
        await trio.sleep(60)
        mine = [line for line in writer.lines if line.startswith("w")]
        assert mine == [f"w {n}" for n in range(400)]
        for log in living:
            assert log.lines == writer.lines
        assert len(living) > 1


async def test_a_unicast_that_came_before_the_state_is_not_lost_with_a_restart(autojump_clock: MockClock) -> None:
    async with site() as start:
        a, b = await start("A"), await start("B")
        a.pause = trio.Event()
        await write(a, "a", 10)
        c = await start("C")
        assert b.channel is not None
        for n in range(3):
            await b.channel.send(b"%d" % n, target=c.channel.address)
            await b.channel.send(b"to all")
        await trio.sleep(1)
        a.crash.cancel()
        await until(lambda: len(c.unicasts) == 3)
        assert c.unicasts == ["0", "1", "2"]
        assert c.lines == b.lines


async def test_the_first_joiner_continues_without_the_state_when_all_its_holders_are_dead(autojump_clock: MockClock) -> None:
    async with site() as start:
        a = await start("A", trio.Event())
        b = await start("B")
        await write(b, "b", 5)
        c = await start("C")
        await trio.sleep(1)
        a.crash.cancel()
        await until(lambda: len(c.lines) == 5)
        assert b.seen == [("A", "B"), *[f"b {n}" for n in range(5)], ("A", "B", "C"), ("B", "C")]
        assert c.seen == ["state", ("B", "C")]
        assert b.lines == c.lines


async def test_a_joiner_that_waits_slows_the_writers_down_instead_of_growing(autojump_clock: MockClock) -> None:
    """And its provider has no credit to send to it, but for the state."""
    config = with_state()
    config = with_flow(config, window_bytes=20_000, backlog_bytes_max=50_000)
    config = with_batching(
        config, message_bytes_max=20_000, batch_bytes_max=10_000, window_bytes=20_000, send_credit_bytes=40_000
    )
    config = replace(config, channel=replace(config.channel, backlog_policy="slow"))
    async with site(config) as start:
        a, b = await start("A"), await start("B")
        a.pause = trio.Event()
        c = await start("C")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, b, "x" * 1_000, 500)
            assert a.channel is not None
            assert c.channel is not None
            for _ in range(200):
                with trio.move_on_after(0.1):
                    await a.channel.send(b"u" * 1_000, target=c.channel.address)
            await trio.sleep(10)
            assert c.channel.levels()["backlog_bytes"].now <= 200_000
            a.pause.set()
        await until(lambda: len(a.lines) == len(b.lines) == len(c.lines) == 500)
        assert c.lines == b.lines == a.lines


async def test_a_state_that_is_too_large_is_an_error_of_the_joiner_alone(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    config = with_state(state_bytes_max=100)
    a = Log(lines=["x" * 200])
    async with trio.open_nursery() as nursery:
        await nursery.start(a.run, network, "A", config)
        b = Log()
        async with b.open(network, "B", config) as b.channel:
            with trio.fail_after(10), pytest.raises(StateTooLarge, match="204 bytes, of 100 at most"):
                await b.receive()
        await wait_for_view(present(a.channel), 1)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("state", ["text", RuntimeError("the disk is busy")])
async def test_a_provider_failure_is_reported_to_the_joiner_and_the_next_join_succeeds(
    autojump_clock: MockClock, state: Any
) -> None:
    network = MemoryNetwork()
    states: list[Any] = [state, b"[]"]
    errors: list[Exception] = []

    def get_state() -> bytes:
        given = states.pop(0)
        if isinstance(given, Exception):
            raise given
        return given  # type: ignore[no-any-return] # as an application without types would

    async def provide(channel: Channel) -> None:
        while True:
            try:
                await anext(channel)
            except (TypeError, RuntimeError) as error:
                errors.append(error)

    opening = one(network, "A", get_state=get_state, set_state=lambda _: None)
    async with opening as a, trio.open_nursery() as nursery:
        nursery.start_soon(provide, a)
        b = Log()
        async with b.open(network, "B", NYC) as b.channel:
            with trio.fail_after(10), pytest.raises(StateUnavailable, match="failed to provide its state"):
                await b.receive()
        assert [str(error) for error in errors] == ["a state must be bytes, not str" if state == "text" else "the disk is busy"]
        again = Log()
        async with again.open(network, "B", NYC) as again.channel:
            with trio.move_on_after(10):
                await again.receive()
        assert again.seen == ["state", ("A", "B")]
        nursery.cancel_scope.cancel()


async def test_a_member_without_state_callbacks_takes_no_part_in_state_transfer(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with trio.open_nursery() as nursery:
        a, c = Log(), Log()
        await nursery.start(a.run, network, "A", with_state())
        await write(a, "a", 5)
        async with one(network, "B", with_state()) as b:
            assert await anext(b) == b.view
            await b.send(b"b")
            await nursery.start(c.run, network, "C", with_state())
            assert (await take(b, 1))[0].payload == b"b"
            await until(lambda: len(c.lines) == 6)
            await trio.sleep(1)
            assert level(a, "waiting") == 0
        nursery.cancel_scope.cancel()


async def test_a_site_without_callbacks_sends_nothing_about_state(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    async with one(network, "A", NYC) as a, one(network, "B", NYC) as b:
        await wait_for_view(a, 2)
        await trio.sleep(1)
        for channel in (a, b):
            assert not any(level.now for name, level in channel.levels().items() if name.startswith("stack.state_transfer."))


async def test_get_state_without_set_state_is_refused(autojump_clock: MockClock) -> None:
    with pytest.raises(ConfigurationError, match="belong together"):
        async with open_channel(NYC, transport=MemoryNetwork().open(), get_state=bytes):
            raise AssertionError
